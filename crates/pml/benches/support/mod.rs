//! What several benches need: the official client, and numbers.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").to_owned()
}

/// Where cargo has put a program of the test kit.
pub(crate) fn server_path(name: &str) -> PathBuf {
    let own = env::current_exe().expect("a running program has a path");
    own.ancestors().nth(2).expect("benches lie in target/<profile>/deps").join(name)
}

/// The published server that both clients call, if it is installed.
pub(crate) fn everything() -> Option<PathBuf> {
    let path = root().join(".test-env/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    path.exists().then_some(path)
}

pub(crate) fn median(samples: &[f64]) -> f64 {
    percentile(samples, 0.5)
}

pub(crate) fn percentile(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

/// The official SDK's client, in a process of its own.
pub(crate) struct Sdk {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Sdk {
    pub(crate) fn start(server: &Path) -> Sdk {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/sdk/client.mjs");
        let modules = root().join(".test-env/node_modules");
        let mut child = Command::new("node")
            .args([script.as_os_str(), modules.as_os_str(), server.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts");
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut sdk = Sdk { child, stdin, stdout: BufReader::new(stdout) };
        assert_eq!(sdk.read().trim(), "ready");
        sdk
    }

    fn read(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a pipe");
        line
    }

    /// Seconds, by its own clock.
    pub(crate) fn ten_calls(&mut self) -> f64 {
        self.stdin.write_all(b"\n").expect("a pipe");
        self.read().trim().parse::<f64>().expect("milliseconds") / 1e3
    }
}

impl Drop for Sdk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
