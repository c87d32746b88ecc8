//! Starts `fixture-server` for a test, and ends it with the test.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
};

use crate::helper_path;

/// Where cargo has put `fixture-server`.
///
/// # Panics
///
/// If it was not built: run the tests of the whole workspace.
pub fn fixture_path() -> PathBuf {
    helper_path("fixture-server")
}

/// A `fixture-server` that listens on a port of this machine. Killed when dropped.
#[derive(Debug)]
pub struct Fixture {
    child: Child,
    /// Where it listens.
    pub url: String,
}

impl Fixture {
    /// Starts it with these arguments, among them `--transport http` or `--transport sse`, and
    /// waits until it listens.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start(args: &[&str]) -> Fixture {
        #[expect(clippy::disallowed_methods, reason = "tests start the fixture directly")]
        let mut command = Command::new(fixture_path());
        // Stdin stays open as long as the server is wanted.
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the fixture starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("the fixture says where it listens");
        let message: serde_json::Value = serde_json::from_str(&line).expect("the fixture's first line is JSON");
        let url = message["url"].as_str().expect("the fixture says where it listens").to_owned();
        Fixture { child, url }
    }

    /// The port that it listens on, for one that is started in its place.
    ///
    /// # Panics
    ///
    /// If its address has none.
    pub fn port(&self) -> String {
        self.url.split([':', '/']).nth(4).expect("an address with a port").to_owned()
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes its stdin, on which it ends by itself, and waits for that.
    ///
    /// # Panics
    ///
    /// If it cannot be waited for.
    pub fn end(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().expect("a child can be waited for")
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
