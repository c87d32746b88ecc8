//! One leased worker: frames to it, frames from it, and its end.

use std::{borrow::Cow, io, time::Duration};

use pml_wire::{
    Decoder, ErrorCode, Frame, FrameError, Kind, frame,
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
};
use crate::error::Error;

/// How long a worker may take to close its jail.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a worker that has closed its end may take to end.
const END_TIMEOUT: Duration = Duration::from_millis(100);
/// When a worker that has answered is killed.
const KILL_DELAY: Duration = Duration::from_millis(5);
/// How much is read at a time.
const READ_BYTES: usize = 64 * 1024;
/// How much of a dead worker's standard error is shown.
const STDERR_BYTES: usize = 2000;

/// A jailed process that waits for its one program.
#[derive(Debug)]
pub struct Worker {
    socket: UnixStream,
    stderr: pipe::Receiver,
    decoder: Decoder,
    /// Bytes on their way to the worker.
    out: Vec<u8>,
    hardening: HardeningReport,
    /// Taken when the process is being reaped.
    process: Option<Process>,
    reaper: Reaper,
}

/// Where the ends of workers are waited for.
#[derive(Clone, Debug)]
pub(super) struct Reaper {
    pub(super) tasks: TaskTracker,
    /// No more pauses: everything ends.
    pub(super) hurry: CancellationToken,
}

/// How a worker that broke off ended.
#[derive(Debug)]
pub struct Ended {
    exit: io::Result<Exit>,
    stderr: String,
}

impl Worker {
    /// Starts a worker and waits until it has closed its jail, tightly enough.
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
            out: Vec::new(),
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

    /// Refuses a jail with a hole, unless the configuration allows it.
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

    /// What the worker reported about its jail.
    pub fn hardening(&self) -> &HardeningReport {
        &self.hardening
    }

    /// The process id, for tests and benches.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::id)
    }

    /// Is it still there, and still silent?
    pub(super) fn is_waiting(&self) -> bool {
        let read = self.socket.try_read(&mut [0]);
        read.is_err_and(|err| err.kind() == io::ErrorKind::WouldBlock)
    }

    /// Puts a frame into the buffer, and as much of the buffer as fits into the socket.
    pub fn send(&mut self, kind: Kind, id: u32, body: &[u8]) {
        if tracing::enabled!(tracing::Level::TRACE) {
            frame_log::log("to worker", &Frame { kind, id, body: body.to_vec() });
        }
        let is_idle = self.out.is_empty();
        frame::encode(&mut self.out, kind, id, body);
        if is_idle {
            self.try_flush();
        }
    }

    /// How many bytes the worker has not taken yet.
    pub fn unsent(&self) -> usize {
        self.out.len()
    }

    /// Writes what fits. A worker that cannot be written to is dead or dying, and what it said last
    /// may still be unread: so that is no error here, but only shows as the end of what it sends.
    fn try_flush(&mut self) {
        let mut written = 0;
        while written < self.out.len() {
            match self.socket.try_write(&self.out[written..]) {
                Ok(count) => written += count,
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => written = self.out.len(),
            }
        }
        self.out.drain(..written);
    }

    /// A frame that has already arrived whole. Its JSON has no line breaks: parts of it go into messages to servers.
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

    /// Takes bytes that have arrived, if any have. The end of the stream is an error.
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

    /// Moves bytes: out, if some are waiting, and in, if `read`. The end of the stream is an
    /// error. Nothing is lost if the future is dropped.
    pub async fn exchange(&mut self, read: bool) -> io::Result<()> {
        let mut interest = if read { Interest::READABLE } else { Interest::ERROR };
        if !self.out.is_empty() {
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

    /// Lets go of a worker that has answered. It is killed a moment later: taking a process apart
    /// would keep a processor from carrying the answer on.
    pub fn retire(self) {
        let Reaper { tasks, hurry } = self.reaper.clone();
        tasks.spawn(async move {
            // At once when everything ends, or after the pause.
            let _ = timeout(KILL_DELAY, hurry.cancelled()).await;
            drop(self);
        });
    }

    /// Waits for a worker that has closed its end, and says how it ended.
    pub async fn end(mut self) -> Ended {
        let Some(mut process) = self.process.take() else {
            return Ended { exit: Err(io::ErrorKind::NotFound.into()), stderr: String::new() };
        };
        // It has closed its socket, so it is ending; a worker that only pretends to is helped.
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
        Ended { exit, stderr: text[text.ceil_char_boundary(start)..].trim().to_owned() }
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

impl Ended {
    /// Killed by the kernel for a forbidden system call?
    pub fn is_violation(&self) -> bool {
        self.exit.as_ref().is_ok_and(|exit| exit.is_violation())
    }

    /// Did it end for lack of memory, where it could not say so?
    pub fn is_out_of_memory(&self) -> bool {
        self.exit.as_ref().is_ok_and(|exit| *exit == Exit::Code(EXIT_OUT_OF_MEMORY))
    }

    /// The exit status and the last lines of standard error.
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
