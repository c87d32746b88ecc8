//! The small encoder: a transformer of three layers that is compiled in, and reads a sentence as a whole where the
//! [table](crate::Table) adds up its words.
//!
//! [`file`](mod@file) is how its weights lie in the program, [`pieces`] cuts text into what it knows, [`matrix`] multiplies in whole
//! numbers with the instructions of [`kernels`], [`curves`] has the functions between, and [`network`] puts them together.

mod curves;
mod embedder;
mod file;
mod kernels;
mod matrix;
mod network;
mod pieces;

pub(crate) use self::embedder::SHARE;
pub use self::embedder::{Encoder, notice};
