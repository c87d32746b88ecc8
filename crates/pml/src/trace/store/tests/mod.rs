//! Tests of the store on real files, with real other processes where processes matter.

mod contents;
pub(crate) mod contract;
mod postgres;
mod processes;
mod reading;
mod support;
mod trouble;
