//! The servers' own tools, resources and prompts, as they are.
//!
//! Requests are passed on and answers given back untouched, but for names: a tool or a prompt is called
//! `server__name`, unless plain names are wanted and only one server has it, and a resource that several servers
//! list is `pml:SERVER:ADDRESS`. Everything goes through the broker, as the calls of programs
//! do. What a server asks the client in between is relayed ([`rounds`]) under the server's name ([`questions`]),
//! also where the two are of different eras.

mod forward;
mod lists;
mod named_tools;
mod names;
mod news;
mod parked;
mod questions;
mod resources;
mod rounds;

pub(super) use self::{names::Names, parked::Parked};
