//! Real programs for pml's tests, most of which misbehave. Not shipped.
//!
//! * `fixture-server`: a real MCP server of both protocol eras, see [`fixture`] and [`Fixture`].
//! * `conformance-server`: has what the official conformance suite asks of a server, see
//!   [`conformance`].
//! * `hostile-worker`: sends whatever a worker that was taken over might send.
//! * PostgreSQL, see [`postgres`].
//! * [`meddler`]: a proxy between a gateway and its hub, which loses, delays and spoils what passes.
//! * `soak`: clients, servers that are killed and stopped, and an account of what was lost, see [`soak`].
//! * `without-syscall`: runs a program on a kernel that seems to lack some system calls.

mod child;
pub mod conformance;
pub mod fixture;
mod helper;
pub mod meddler;
pub mod postgres;
pub mod promises;
pub mod soak;

pub use child::{Fixture, fixture_path};
pub use helper::helper_path;
