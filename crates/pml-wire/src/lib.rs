//! Plain data that crosses a process or network boundary.
//!
//! * [`frame`]: how bytes between the host and a worker are cut into messages.
//! * [`message`]: what those messages say.
//! * [`id`]: names of things: executions, calls, tools.
//! * [`error`]: the codes an agent can see.
//! * [`hardening`]: what a worker reports about its jail.
//! * [`json`]: checks on JSON text that is passed on unparsed.
//! * [`mod@line`]: JSON text for transports that frame messages by lines.
//! * [`trace`]: the record of one execution, as it is stored and sent.
//! * [`walk`]: goes through the values of a JSON text, with the path to each.
//!
//! **Invariant:** this crate does no I/O and knows no clock, so jailed code may depend on it.

pub mod error;
pub mod frame;
pub mod hardening;
pub mod hub;
pub mod id;
pub mod json;
pub mod line;
pub mod message;
pub mod trace;
pub mod walk;

pub use error::{Delivery, ErrorCode};
pub use frame::{Decoder, Frame, FrameError, Kind};
pub use id::{CallId, CapabilityId, ExecutionId, ToolId};
pub use line::Line;
