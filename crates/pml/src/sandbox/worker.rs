//! One leased worker: sends and receives frames, kills and reaps the process.

use std::{borrow::Cow, io, time::Duration};

use pml_wire::{
    Decoder, ErrorCode, Frame, FrameError, Kind,
    hardening::HardeningReport,
    line::unbroken,
    message::{EXIT_OUT_OF_MEMORY, PROTOCOL_VERSION, Ready},
};
use tokio::{
    io::Interest,
    net::{UnixStream, unix::pipe},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

use super::{
    Options, frame_log,
    os::{Exit, Process, Spawned, Spawner},
    outgoing::Outgoing,
};
use crate::error::Error;

/// How long a worker may take to close its jail.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a worker that has closed its socket may take to exit.
const END_TIMEOUT: Duration = Duration::from_millis(100);
/// Pause before a worker that has delivered its result is killed.
const KILL_DELAY: Duration = Duration::from_millis(5);
/// Size of one read.
const READ_BYTES: usize = 64 * 1024;
/// Most bytes of a dead worker's stderr that are shown.
const STDERR_BYTES: usize = 2000;

/// A sandboxed process that waits for its program.
#[derive(Debug)]
pub struct Worker {
    socket: UnixStream,
    stderr: pipe::Receiver,
    decoder: Decoder,
    out: Outgoing,
    hardening: HardeningReport,
    /// Taken when the process is being reaped.
    process: Option<Process>,
    reaper: Reaper,
}

/// Tracks the tasks that reap workers.
#[derive(Clone, Debug)]
pub(super) struct Reaper {
    pub(super) tasks: TaskTracker,
    /// Cancelled at shutdown: workers are killed without a pause.
    pub(super) hurry: CancellationToken,
}

/// How a worker that ended without a result exited.
#[derive(Debug)]
pub struct WorkerExit {
    exit: io::Result<Exit>,
    stderr: String,
}

impl Worker {
    /// Starts a worker and waits until it has set up its sandbox and the report is accepted.
    pub(super) async fn start(spawner: &Spawner, options: &Options, reaper: &Reaper) -> Result<Worker, Error> {
        let unavailable = |message: String| Error::new(ErrorCode::SandboxUnavailable, message);
        let spawned = spawner.spawn(options.limits).await;
        let Spawned { socket, stderr, process } = spawned.map_err(|err| {
            let error = unavailable(format!("a sandbox process cannot be started: {err}"));
            let error = match err.kind() {
                io::ErrorKind::WouldBlock => error.with_hint("the limit of processes is reached; `ulimit -u` shows it"),
                _ => error,
            };
            error.caused_by(err)
        })?;
        let mut worker = Worker {
            socket,
            stderr,
            decoder: Decoder::new(options.max_frame_bytes),
            out: Outgoing::default(),
            hardening: HardeningReport::default(),
            process: Some(process),
            reaper: reaper.clone(),
        };
        let frame = match timeout(READY_TIMEOUT, worker.receive()).await {
            Ok(Ok(frame)) if frame.kind == Kind::Ready => frame,
            Ok(Ok(frame)) => return Err(unavailable(format!("the sandbox process began with {:?}", frame.kind))),
            Ok(Err(_)) => {
                let ended = worker.end().await;
                return Err(unavailable(format!("the sandbox process ended while starting: {}", ended.describe())));
            }
            Err(_) => return Err(unavailable(format!("the sandbox process was not ready within {READY_TIMEOUT:?}"))),
        };
        let ready: Ready = serde_json::from_slice(&frame.body)
            .map_err(|err| unavailable("the sandbox process sent no report".to_owned()).caused_by(err))?;
        if ready.version != PROTOCOL_VERSION {
            let theirs = ready.version;
            return Err(unavailable(format!("the sandbox process speaks version {theirs}, not {PROTOCOL_VERSION}")));
        }
        worker.hardening = ready.hardening;
        worker.check(options.allow_weak)?;
        Ok(worker)
    }

    /// Refuses a sandbox that lacks a required layer, unless the configuration allows it.
    fn check(&self, allow_weak: bool) -> Result<(), Error> {
        let missing: Vec<_> = self.hardening.missing().collect();
        if missing.is_empty() && !self.hardening.layers.is_empty() {
            return Ok(());
        }
        let list: Vec<_> = missing.iter().map(|report| format!("`{}` ({})", report.layer, report.detail)).collect();
        let list = list.join(", ");
        if allow_weak {
            warn!(missing = list, "the sandbox is weak, as the configuration allows");
            return Ok(());
        }
        let message = format!("this machine cannot make a safe sandbox: missing {list}");
        let hint = "`pml doctor sandbox` shows every layer; to run with a weaker sandbox, \
                    at your own risk, set `allow_weak = true` under [sandbox] in pml.toml";
        Err(Error::new(ErrorCode::SandboxUnavailable, message).with_hint(hint))
    }

    /// The worker's hardening report.
    pub fn hardening(&self) -> &HardeningReport {
        &self.hardening
    }

    /// The process id, for tests and benches.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::id)
    }

    /// Is the worker alive, and has it sent nothing?
    pub(super) fn is_waiting(&self) -> bool {
        let read = self.socket.try_read(&mut [0]);
        read.is_err_and(|err| err.kind() == io::ErrorKind::WouldBlock)
    }

    /// Adds a frame to the send buffer, and writes as much of the buffer as the socket accepts.
    pub fn send(&mut self, kind: Kind, id: u32, body: &[u8]) {
        if tracing::enabled!(tracing::Level::TRACE) {
            frame_log::log("to worker", &Frame { kind, id, body: body.to_vec() });
        }
        let is_idle = self.unsent() == 0;
        self.out.push(kind, id, body);
        if is_idle {
            self.try_flush();
        }
    }

    /// As [`Worker::send`], with a body that need not be copied if it is large.
    pub fn send_owned(&mut self, kind: Kind, id: u32, body: Box<str>) {
        if tracing::enabled!(tracing::Level::TRACE) {
            frame_log::log("to worker", &Frame { kind, id, body: body.as_bytes().to_vec() });
        }
        let is_idle = self.unsent() == 0;
        self.out.push_owned(kind, id, body);
        if is_idle {
            self.try_flush();
        }
    }

    /// The number of bytes in the send buffer.
    pub fn unsent(&self) -> usize {
        self.out.unsent()
    }

    /// Writes as much as the socket accepts. A worker that cannot be written to is dead or dying, and its last frames
    /// may still be unread; so a write error is ignored here, and shows as the end of the stream on the next read.
    fn try_flush(&mut self) {
        while self.unsent() > 0 {
            match self.socket.try_write(self.out.next()) {
                Ok(count) => self.out.advance(count),
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.out.clear(),
            }
        }
    }

    /// A frame that has already arrived in full. Line breaks are removed from its JSON, since parts of it go into messages to servers.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let mut frame = self.decoder.next_frame()?;
        if let Some(frame) = &mut frame {
            if let Cow::Owned(body) = unbroken(&frame.body) {
                frame.body = body;
            }
            frame_log::log("from worker", frame);
        }
        Ok(frame)
    }

    /// Reads bytes that have arrived, without waiting. The end of the stream is an error.
    pub fn try_receive(&mut self) -> io::Result<bool> {
        let buffer = self.decoder.buffer();
        buffer.reserve(READ_BYTES);
        match self.socket.try_read_buf(buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(err) => Err(err),
        }
    }

    /// Waits for I/O: writes from the send buffer and, if `read`, reads. The end of the stream is an
    /// error. Nothing is lost if the future is dropped.
    pub async fn exchange(&mut self, read: bool) -> io::Result<()> {
        let mut interest = if read { Interest::READABLE } else { Interest::ERROR };
        if self.unsent() > 0 {
            interest |= Interest::WRITABLE;
        }
        let ready = self.socket.ready(interest).await?;
        if ready.is_writable() {
            self.try_flush();
        }
        if read && (ready.is_readable() || ready.is_read_closed()) {
            self.try_receive()?;
        } else if ready.is_error() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    /// The next frame.
    async fn receive(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.next_frame().map_err(io::Error::other)? {
                return Ok(frame);
            }
            self.exchange(true).await?;
        }
    }

    /// Releases a worker that has delivered its result. It is killed a moment later: tearing a process down
    /// would delay the response on a busy processor.
    pub fn retire(self) {
        let Reaper { tasks, hurry } = self.reaper.clone();
        tasks.spawn(async move {
            // Kills at once on shutdown, else after the pause.
            let _ = timeout(KILL_DELAY, hurry.cancelled()).await;
            drop(self);
        });
    }

    /// Waits for a worker that has closed its socket, and returns its exit.
    pub async fn end(mut self) -> WorkerExit {
        let Some(mut process) = self.process.take() else {
            return WorkerExit { exit: Err(io::ErrorKind::NotFound.into()), stderr: String::new() };
        };
        // The worker has closed its socket, so it should exit; one that does not is killed.
        let exit = match timeout(END_TIMEOUT, process.wait()).await {
            Ok(exit) => exit,
            Err(_) => {
                process.kill();
                process.wait().await
            }
        };
        let mut buffer = [0; 8192];
        let length = self.stderr.try_read(&mut buffer).unwrap_or(0);
        let text = String::from_utf8_lossy(&buffer[..length]);
        let start = text.len().saturating_sub(STDERR_BYTES);
        WorkerExit { exit, stderr: text[text.ceil_char_boundary(start)..].trim().to_owned() }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
            if tokio::runtime::Handle::try_current().is_err() {
                return; // the runtime is gone, and this process about to follow
            }
            self.reaper.tasks.spawn(async move {
                if let Err(err) = process.wait().await {
                    warn!(error = %err, "a sandbox process was not reaped");
                }
            });
        }
    }
}

impl WorkerExit {
    /// Killed by the kernel for a forbidden system call?
    pub fn is_violation(&self) -> bool {
        self.exit.as_ref().is_ok_and(|exit| exit.is_violation())
    }

    /// Did the worker run out of memory without being able to report it?
    pub fn is_out_of_memory(&self) -> bool {
        self.exit.as_ref().is_ok_and(|exit| *exit == Exit::Code(EXIT_OUT_OF_MEMORY))
    }

    /// The exit status and the last lines of stderr.
    pub fn describe(&self) -> String {
        let exit = match &self.exit {
            Ok(exit) => exit.to_string(),
            Err(err) => format!("its exit status is unknown: {err}"),
        };
        match self.stderr.is_empty() {
            true => exit,
            false => format!("{exit}: {}", self.stderr),
        }
    }
}
