//! Starts, kills and reaps worker processes, per platform.
//!
//! Linux forks workers from a prepared process and reaps them through pidfds. macOS starts each
//! worker by itself, as Linux does in `subprocess` mode. On other systems pml does not build:
//! it has no sandbox there.

#[cfg(target_os = "linux")]
mod forked;
mod pipes;
mod process;
mod single;
mod spawner;

pub(crate) use self::process::Exit;
pub(super) use self::{
    process::Process,
    spawner::{Spawned, Spawner},
};
