//! Where the programs of this crate are.

use std::{env, path::PathBuf};

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
