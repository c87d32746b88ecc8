//! The process of a stdio server, as pml holds it: started, watched, stopped, always reaped.

use std::{
    collections::{BTreeMap, VecDeque},
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::process::{Pid, Signal};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::{interval, timeout},
};

use super::{
    cgroup::Cgroup,
    failure::Failure,
    keeper, launch,
    process_tree::Processes,
    settings::{ProcessLimits, Secret},
};
use crate::shown::visible;

/// Lines of stderr that are kept, and how much of each.
const KEPT_LINES: usize = 50;
const KEPT_BYTES: usize = 2000;
/// Lines of stderr in an error.
const SHOWN_LINES: usize = 15;
/// After SIGTERM to the keeper, which itself waits 2 s before it kills.
const TERM_GRACE: Duration = Duration::from_secs(4);
/// How often memory is looked at.
const MEMORY_CHECK: Duration = Duration::from_millis(500);

/// What to start.
#[derive(Debug)]
pub(super) struct Start<'a> {
    /// pml itself, for the keeper.
    pub(super) pml: &'a Path,
    pub(super) command: &'a str,
    pub(super) args: &'a [Secret],
    pub(super) env: &'a BTreeMap<String, Secret>,
    pub(super) cwd: Option<&'a Path>,
    pub(super) limits: ProcessLimits,
}

/// A server's process, under its keeper.
#[derive(Debug)]
pub(super) struct Process {
    keeper: Child,
    stderr: Arc<LastWords>,
    drain: JoinHandle<()>,
    watch: JoinHandle<()>,
    /// Where the kernel holds its memory.
    group: Option<Cgroup>,
    /// Resident bytes at which it was stopped, or 0.
    excess: Arc<AtomicU64>,
    limits: ProcessLimits,
    grace: Duration,
}

/// A server's pipes.
#[derive(Debug)]
pub(super) struct Pipes {
    /// What must be written to `stdin` before any message: there is no server before it has been read.
    pub(super) launch: Vec<u8>,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

impl Process {
    /// Starts the server. Its pipes are for the caller, who writes `launch` first.
    pub(super) fn start(start: &Start<'_>, grace: Duration) -> Result<(Process, Pipes), Failure> {
        let program = find(start)?;
        if let Some(cwd) = start.cwd.filter(|cwd| !cwd.is_dir()) {
            return Err(Failure::never(format!("its working directory `{}` does not exist", cwd.display())));
        }
        let launch = launch::encode(&program, start.args, start.env.iter())
            .ok_or_else(|| Failure::never("its arguments or variables have a zero byte in them"))?;
        let group = Cgroup::create(start.limits.memory_bytes);
        let mut command = command(start.pml);
        command.args(keeper::arguments(start.limits, group.as_ref().map(Cgroup::path)));
        if let Some(cwd) = start.cwd {
            command.current_dir(cwd);
        }
        let mut keeper =
            command.spawn().map_err(|err| Failure::later(format!("no process can be started for it: {err}")))?;
        let (stdin, stdout, stderr) = (keeper.stdin.take(), keeper.stdout.take(), keeper.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(Failure::later("its pipes are missing"));
        };
        let words = Arc::new(LastWords::default());
        let drain = tokio::spawn(drain(stderr, Arc::clone(&words)));
        let excess = Arc::new(AtomicU64::new(0));
        let watch = tokio::spawn(watch(keeper.id(), start.limits.memory_bytes, Arc::clone(&excess)));
        let process = Process { keeper, stderr: words, drain, watch, group, excess, limits: start.limits, grace };
        Ok((process, Pipes { launch, stdin, stdout }))
    }

    /// The last lines on stderr, to be put behind a message.
    pub(super) fn last_words(&self) -> Arc<LastWords> {
        Arc::clone(&self.stderr)
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.keeper.id()
    }

    /// Waits until it has ended.
    pub(super) async fn exited(&mut self) {
        // An error says that nothing can be said, so it is as good as gone.
        let _ = self.keeper.wait().await;
    }

    /// Waits until it has ended by itself, but not longer than `bound`. How it ended.
    pub(super) async fn ended(&mut self, bound: Duration) -> Option<String> {
        let status = timeout(bound, self.keeper.wait()).await.ok()?.ok()?;
        // What it said last may still be in the pipe.
        let _ = timeout(Duration::from_millis(200), &mut self.drain).await;
        Some(self.describe(status))
    }

    fn describe(&self, status: ExitStatus) -> String {
        let megabytes = |bytes: u64| bytes / (1024 * 1024);
        let limit = megabytes(self.limits.memory_bytes);
        match (self.excess.load(Ordering::Relaxed), status.code()) {
            (0, _) if self.group.as_ref().is_some_and(Cgroup::was_exceeded) => {
                format!("it was stopped for using more memory than its limit of {limit} MB")
            }
            (0, Some(code)) if code > 128 && code < 128 + 65 => format!("it was killed by signal {}", code - 128),
            (0, Some(code)) => format!("it exited with code {code}"),
            (0, None) => "it was killed".to_owned(),
            (held, _) => {
                let held = megabytes(held);
                format!("it was stopped for using {held} MB of memory, more than its limit of {limit} MB")
            }
        }
    }

    /// Ends it at once if it has not ended: it is of no use any more.
    pub(super) fn kill(&self) {
        self.signal(Signal::INT);
    }

    /// Ends it: its input is closed already, so it may go by itself; then it is told to; then it
    /// is made to. Returns when nothing of it is left.
    pub(super) async fn stop(mut self) {
        if timeout(self.grace, self.keeper.wait()).await.is_err() {
            self.signal(Signal::TERM);
            if timeout(TERM_GRACE, self.keeper.wait()).await.is_err() {
                // The server has asked to die with its keeper.
                let _ = self.keeper.kill().await;
            }
        }
        self.drain.abort();
        self.watch.abort();
    }

    fn signal(&self, signal: Signal) {
        let pid = self.keeper.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Not stopped: whoever held it was cancelled. The keeper ends by itself and is reaped.
        self.signal(Signal::TERM);
        self.drain.abort();
        self.watch.abort();
    }
}

/// pml in its role as keeper, without an environment. Told to end, not killed, when pml goes.
fn command(pml: &Path) -> Command {
    #[expect(clippy::disallowed_methods, reason = "this is upstream's command")]
    let mut command = Command::new(pml);
    command
        .arg0("pml-server")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Of its own, so that Ctrl-C reaches pml alone, which then ends its servers in order.
        .process_group(0);
    command
}

/// The file that a command means, or why there is none.
fn find(start: &Start<'_>) -> Result<PathBuf, Failure> {
    let name = start.command;
    if name.contains('/') {
        let path = start.cwd.map_or_else(|| PathBuf::from(name), |cwd| cwd.join(name));
        return match executable(&path) {
            // It is started from another folder, so the way from this one would mislead.
            Ok(()) => Ok(std::path::absolute(&path).unwrap_or(path)),
            Err(why) => Err(Failure::never(format!("its command `{name}` {why}"))),
        };
    }
    let path = start.env.get("PATH").map(Secret::reveal).unwrap_or_default();
    let candidates = path.split(':').filter(|folder| !folder.is_empty()).map(|folder| Path::new(folder).join(name));
    let mut hint = "is not in PATH";
    for candidate in candidates {
        match executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err("is not executable") => hint = "is in PATH, but not executable",
            Err(_) => {}
        }
    }
    Err(Failure::never(format!("its command `{name}` {hint}")))
}

fn executable(path: &Path) -> Result<(), &'static str> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err("is a folder"),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => Err("is not executable"),
        Ok(_) => Ok(()),
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied => Err("cannot be read"),
        Err(_) => Err("does not exist"),
    }
}

/// Stops a keeper whose server holds too much memory.
///
/// Not an address-space limit: Node reserves far more than it uses.
async fn watch(keeper: Option<u32>, limit: u64, excess: Arc<AtomicU64>) {
    let Some(keeper) = keeper else { return };
    let Some(pid) = i32::try_from(keeper).ok().and_then(Pid::from_raw) else { return };
    let mut tick = interval(MEMORY_CHECK);
    loop {
        tick.tick().await;
        let read = tokio::task::spawn_blocking(move || Processes::recent().resident_bytes(keeper));
        let Ok(held) = read.await else { return };
        if held > limit {
            excess.store(held, Ordering::Relaxed);
            tracing::warn!(held, limit, "a server is stopped for its memory");
            let _ = rustix::process::kill_process(pid, Signal::INT);
            return;
        }
    }
}

async fn drain(stderr: ChildStderr, words: Arc<LastWords>) {
    let mut stderr = BufReader::new(stderr);
    while let Ok(Some(line)) = bounded_line(&mut stderr).await {
        words.push(&line);
    }
}

/// The next line, of which only the beginning is kept.
async fn bounded_line(reader: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let mut has_any = false;
    loop {
        let bytes = reader.fill_buf().await?;
        if bytes.is_empty() {
            return Ok(has_any.then(|| String::from_utf8_lossy(&line).into_owned()));
        }
        has_any = true;
        let end = memchr::memchr(b'\n', bytes);
        let (part, used) = end.map_or((bytes, bytes.len()), |end| (&bytes[..end], end + 1));
        line.extend_from_slice(&part[..part.len().min(KEPT_BYTES.saturating_sub(line.len()))]);
        reader.consume(used);
        if end.is_some() {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
}

/// The last lines that a server wrote to stderr, or to stdout as noise.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    lines: Mutex<VecDeque<String>>,
}

impl LastWords {
    pub(super) fn push(&self, line: &str) {
        let line = visible(line.trim_end());
        if line.is_empty() {
            return;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line.into_owned());
    }

    /// The last lines, oldest first.
    pub(super) fn lines(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES)).cloned().collect()
    }

    /// `message`, and what the server said last.
    pub(super) fn behind(&self, message: String) -> String {
        let lines = self.lines();
        match lines.is_empty() {
            true => message,
            false => format!("{message}\nits last words on stderr:\n  {}", lines.join("\n  ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_few_and_drive_no_terminal() {
        let words = LastWords::default();
        assert_eq!(words.behind("gone".to_owned()), "gone");
        for number in 0..100 {
            words.push(&format!("line {number} \x1b[1m"));
        }
        words.push("  ");
        let lines = words.lines();
        assert_eq!(lines.len(), SHOWN_LINES);
        assert_eq!(lines[SHOWN_LINES - 1], r"line 99 \u{1b}[1m");
    }

    #[tokio::test]
    async fn a_line_without_end_is_cut() {
        let text = format!("{}\nshort\nlast", "x".repeat(100_000));
        let mut reader = BufReader::new(text.as_bytes());
        assert_eq!(bounded_line(&mut reader).await.unwrap().unwrap().len(), KEPT_BYTES);
        assert_eq!(bounded_line(&mut reader).await.unwrap().as_deref(), Some("short"));
        assert_eq!(bounded_line(&mut reader).await.unwrap().as_deref(), Some("last"));
        assert_eq!(bounded_line(&mut reader).await.unwrap(), None);
    }
}
