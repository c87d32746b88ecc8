//! What the model promises, from outside.

mod bad_input;
mod learning;
mod matching;
mod properties;
mod shared;
mod world;
