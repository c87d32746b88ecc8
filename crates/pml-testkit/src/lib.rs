//! Real programs for pml's tests, most of which misbehave. Not shipped.
//!
//! * `fixture-server`: a real MCP server of both protocol eras, see [`fixture`] and [`Fixture`].
//! * `conformance-server`: has what the official conformance suite asks of a server, see
//!   [`conformance`].
//! * `hostile-worker`: sends whatever a worker that was taken over might send.
//! * [`meddler`]: a proxy between a gateway and its hub, which loses, delays and spoils what passes.
//! * `soak`: clients, servers that are killed and stopped, and an account of what was lost, see [`soak`].
//! * `without-syscall`: runs a program on a kernel that seems to lack some system calls.

mod child;
pub mod conformance;
pub mod fixture;
pub mod meddler;
pub mod promises;
pub mod soak;

use std::{env, path::PathBuf};

pub use child::{Fixture, fixture_path};

/// Where cargo has put one of this crate's programs, or the same program under another name.
///
/// # Panics
///
/// If it was not built: run the tests of the whole workspace.
pub fn helper_path(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a running program has a path");
    let directory = test.ancestors().nth(2).expect("tests lie in target/<profile>/deps");
    let path = directory.join(match name {
        "weak-worker" | "old-worker" | "mute-worker" => "hostile-worker",
        name => name,
    });
    assert!(path.exists(), "`{}` is not built; use `cargo test --workspace`", path.display());
    if path.ends_with(name) {
        return path;
    }
    // The program behaves by the name of its file.
    let link = directory.join(name);
    let _ = std::fs::remove_file(&link);
    std::fs::hard_link(&path, &link).unwrap_or_else(|err| panic!("{}: {err}", link.display()));
    link
}
