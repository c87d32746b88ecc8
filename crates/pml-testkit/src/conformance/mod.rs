//! The program `conformance-server`: has what the official MCP conformance suite asks of a server.
//!
//! ```text
//! conformance-server [--port N] [--era legacy|modern|both]
//! ```
//!
//! The scenarios of the suite call tools, prompts and resources by name, so that no other server can
//! pass them. This one passes them directly, and pml in front of it has to pass the same ones. It is
//! made of rmcp, unlike `fixture-server`, since the suite checks it and not only we do.
//!
//! It speaks both eras over streamable HTTP, at the one address that it prints as its first line, and
//! ends when stdin is closed. A gateway may speak to it in the other era than the client speaks to the
//! gateway, so every tool works in both: what needs the client asks in the way of the era, see
//! [`dialogue`]. `--era` makes it know the versions of one era only.

mod dialogue;
mod fixtures;
mod program;
mod questions;
mod server;
mod shared;
mod tools;

pub use self::program::main;
