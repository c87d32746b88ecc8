//! What tools there are.

pub mod typescript;
