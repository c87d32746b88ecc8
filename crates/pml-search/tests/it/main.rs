//! The search as its users see it: through its public functions, with the real table.

mod bad_input;
mod conversations;
mod golden;
mod properties;
mod quality;
mod talk;
