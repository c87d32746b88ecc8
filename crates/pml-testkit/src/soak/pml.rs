//! The pml that is tested: a home of its own, and its processes.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// Only separates an answer from none.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A program that was built with this one.
pub(super) fn beside(name: &str) -> PathBuf {
    let own = env::current_exe().expect("a running program has a path");
    let path = own.with_file_name(name);
    assert!(path.exists(), "`{}` is not built; use `scripts/soak`", path.display());
    path
}

/// A folder of a user, with a configuration. Removed when dropped.
#[derive(Debug)]
pub(super) struct Home(PathBuf);

impl Home {
    pub(super) fn new(config: &str) -> Home {
        let path = env::temp_dir().join(format!("pml-soak-{}", std::process::id()));
        let file = path.join(".config/pml/pml.toml");
        fs::create_dir_all(file.parent().expect("it has a folder")).expect("a folder can be made");
        fs::write(&file, config).expect("the configuration can be written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("its mode can be set");
        Home(path)
    }

    /// `pml serve` with these arguments, and nothing of the environment but where programs are.
    fn serve(&self, args: &[&str]) -> Command {
        let mut command = Command::new(beside("pml"));
        let search = env::var_os("PATH").unwrap_or_default();
        command.arg("serve").args(args).current_dir(&self.0).env_clear().env("PATH", search).env("HOME", &self.0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// All lines of the audit log, those of files that were put aside as well.
    pub(super) fn audit(&self) -> Vec<Value> {
        let entries = fs::read_dir(self.0.join(".local/share/pml")).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.file_name().to_string_lossy().contains(".jsonl"));
        let texts = files.map(|file| fs::read(file.path()).unwrap_or_default());
        let lines = texts.flat_map(|text| {
            let text = String::from_utf8_lossy(&text).into_owned();
            text.lines()
                .map(|line| serde_json::from_str(line).unwrap_or_else(|_| json!({ "broken": line })))
                .collect::<Vec<_>>()
        });
        lines.collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A pml on its standard input and output. Killed when dropped.
#[derive(Debug)]
pub(super) struct Pipe {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    number: u64,
}

impl Pipe {
    pub(super) fn start(home: &Home) -> Pipe {
        let mut child = home.serve(&[]).stderr(Stdio::null()).spawn().expect("pml starts");
        let input = child.stdin.take().expect("stdin is a pipe");
        let output = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let (sender, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut pipe = Pipe { child, input, lines, number: 0 };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}});
        assert!(pipe.request("initialize", &hello).is_some(), "pml answers");
        pipe.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        pipe
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn write(&mut self, message: &Value) {
        // If pml is gone, no answer will come.
        let _ = self.input.write_all(format!("{message}\n").as_bytes());
    }

    /// Sends a request. Its id.
    pub(super) fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.number += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}));
        self.number
    }

    /// The answer to a request; `None` if none comes.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> Option<Value> {
        let id = self.send(method, params);
        loop {
            let line = self.lines.recv_timeout(PATIENCE).ok()?;
            let message: Value = serde_json::from_str(&line).ok()?;
            if message["id"] == id && message.get("method").is_none() {
                return Some(message);
            }
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pml that serves HTTP. Killed when dropped.
#[derive(Debug)]
pub(super) struct Web {
    child: Child,
    pub(super) address: String,
}

impl Web {
    pub(super) fn start(home: &Home) -> Web {
        let mut child = home.serve(&["--http", "127.0.0.1:0", "--no-token"]).spawn().expect("pml starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("pml says where it listens");
        let address = line.trim().strip_prefix("listening on http://").and_then(|rest| rest.strip_suffix("/mcp"));
        let address = address.unwrap_or_else(|| panic!("pml does not listen: {line}")).to_owned();
        // Somebody has to read it, or pml would wait.
        thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Web { child, address }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
