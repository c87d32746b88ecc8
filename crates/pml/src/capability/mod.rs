//! Capabilities: programs that worked once, kept as tools with names.
//!
//! A capability is saved from a run that succeeded. [`Registry`] keeps all of them, in the database of the traces, and lists them
//! in the catalogue as the tools of a server called `capabilities`. [`Runner`] is the provider that answers calls of these
//! tools: it runs the program itself, in a worker of its own, under the policy of whoever calls it, and with no more tools than
//! it was saved with. [`Saver`] makes a capability of a run.
//!
//! **Invariant:** nothing here runs unasked, and the code of a capability is parsed by workers only.

mod file;
mod model;
mod name;
mod registry;
mod runner;
mod save;
mod sync;

pub use self::{
    file::{CapabilityFile, read_file, write_file},
    model::{Capability, Notes, SavedTool, Standing},
    name::{CapabilityName, shown_parameters},
    registry::Registry,
    runner::{Runner, failure, with_defaults},
    save::{Draft, NewProgram, SaveOptions, Saved, Saver, Written, refused},
    sync::{Removed, SyncError, Synced, sync},
};
