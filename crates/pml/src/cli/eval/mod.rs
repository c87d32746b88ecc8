//! `pml eval`: how good pml is, on anybody's data.

mod capabilities;
mod command;
mod folds;
mod judged;
mod learn;
mod lines;
mod measure;
mod search;
mod sets;

pub(super) use self::command::{What, run};
