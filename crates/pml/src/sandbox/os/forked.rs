//! Workers forked from a prepared process, and reaped through pidfds.
//!
//! The other side is `pml_worker`'s zygote; its documentation explains why it exists.
//!
//! **Invariant:** workers die with their zygote, so a zygote lives as long as any of its workers, even if it
//! failed to fork and was replaced.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use pml_worker::{TimeZone, WorkerLimits};
use rustix::{
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    process::{
        Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, pidfd_open, pidfd_send_signal,
        waitid, waitpid,
    },
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    net::UnixStream,
    sync::Mutex,
    time::timeout,
};
use tracing::{debug, warn};

use super::{
    Exit, Process, Spawned,
    pipes::{socket_pair, stderr_pipe, worker_socket_pair},
    single,
};

/// How long the zygote may take to fork, or to exit.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The error of `clone` in a PID namespace whose first process is dead: ENOMEM.
const NO_NAMESPACE: i32 = 12;

/// Keeps the zygote, and starts another if it dies or fails to fork.
#[derive(Debug)]
pub(in crate::sandbox) struct Nursery {
    program: PathBuf,
    time_zone: TimeZone,
    zygote: Mutex<Option<Arc<Zygote>>>,
}

/// The zygote. Killed and reaped when dropped.
#[derive(Debug)]
struct Zygote {
    control: UnixStream,
    process: tokio::process::Child,
}

impl Nursery {
    pub(super) fn new(program: PathBuf, time_zone: TimeZone) -> Nursery {
        Nursery { program, time_zone, zygote: Mutex::new(None) }
    }

    pub(super) async fn spawn(&self, limits: WorkerLimits) -> io::Result<Spawned> {
        let (socket, worker_socket) = worker_socket_pair()?;
        let (stderr, worker_stderr) = stderr_pipe()?;
        let mut slot = self.zygote.lock().await;
        let first = match &*slot {
            Some(zygote) => zygote.fork(limits, &worker_socket, &worker_stderr).await,
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        let answer = match first {
            // The zygote is alive, but the PID namespace of its workers may be dead.
            Ok(Err(err)) if err.raw_os_error() == Some(NO_NAMESPACE) => Err(err),
            first => first,
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(err) => {
                if let Some(old) = slot.take() {
                    warn!(error = %err, "the process that workers are forked from cannot fork, starting another");
                    Zygote::retire(old).await;
                }
                let zygote = slot.insert(Arc::new(Zygote::start(&self.program, &self.time_zone)?));
                zygote.fork(limits, &worker_socket, &worker_stderr).await?
            }
        };
        let zygote = slot.clone();
        drop(slot);
        let process = Process::Forked(Child::new(answer?, zygote)?);
        Ok(Spawned { socket, stderr, process })
    }

    pub(super) async fn close(&self) {
        if let Some(zygote) = self.zygote.lock().await.take() {
            Zygote::retire(zygote).await;
        }
    }
}

impl Zygote {
    fn start(program: &std::path::Path, time_zone: &TimeZone) -> io::Result<Zygote> {
        let (control, theirs) = socket_pair()?;
        let process = single::command(program, time_zone).stdin(OwnedFd::from(theirs)).spawn()?;
        debug!(pid = process.id(), "started the process that workers are forked from");
        Ok(Zygote { control, process })
    }

    /// Requests a worker: its process id, or why the fork failed. The outer error means that
    /// the zygote is gone. One request at a time: the caller holds the lock.
    async fn fork(&self, limits: WorkerLimits, socket: &OwnedFd, stderr: &OwnedFd) -> io::Result<io::Result<Pid>> {
        let asked = timeout(ANSWER_TIMEOUT, self.ask(limits, socket, stderr)).await;
        let answer = asked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(match Pid::from_raw(answer) {
            Some(pid) if answer > 0 => Ok(pid),
            _ => Err(io::Error::from_raw_os_error(-answer)),
        })
    }

    async fn ask(&self, limits: WorkerLimits, socket: &OwnedFd, stderr: &OwnedFd) -> io::Result<i32> {
        let request = limits.to_bytes();
        let sent = self
            .control
            .async_io(Interest::WRITABLE, || {
                let descriptors = [socket.as_fd(), stderr.as_fd()];
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
                Ok(sendmsg(&self.control, &[IoSlice::new(&request)], &mut ancillary, SendFlags::NOSIGNAL)?)
            })
            .await?;
        if sent != request.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        // Sent in one piece, so it arrives in one.
        let mut answer = [0; 4];
        let read = self.control.async_io(Interest::READABLE, || self.control.try_read(&mut answer)).await?;
        match read == answer.len() {
            true => Ok(i32::from_ne_bytes(answer)),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Ends the zygote once none of its workers is left.
    async fn retire(zygote: Arc<Zygote>) {
        if let Some(zygote) = Arc::into_inner(zygote) {
            zygote.end().await;
        }
    }

    /// Closes the control socket, upon which the zygote exits, and reaps it.
    async fn end(mut self) {
        drop(self.control);
        let ended = match timeout(ANSWER_TIMEOUT, self.process.wait()).await {
            Ok(ended) => ended.map(drop),
            Err(_) => self.process.kill().await,
        };
        if let Err(err) = ended {
            warn!(error = %err, "the process that workers are forked from was not reaped");
        }
    }
}

/// A forked worker. It is a child of this process, although the zygote forked it.
#[derive(Debug)]
pub(in crate::sandbox) struct Child {
    pid: Pid,
    pidfd: AsyncFd<OwnedFd>,
    /// The zygote, with which the worker dies.
    _zygote: Option<Arc<Zygote>>,
}

impl Child {
    fn new(pid: Pid, zygote: Option<Arc<Zygote>>) -> io::Result<Child> {
        // The worker may already have died: it stays a zombie until it is reaped here.
        let watch = || {
            let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
            #[expect(deprecated, reason = "its successor is unsafe, for types other than OwnedFd that close early")]
            AsyncFd::with_interest(pidfd, Interest::READABLE)
        };
        match watch() {
            Ok(pidfd) => Ok(Child { pid, pidfd, _zygote: zygote }),
            Err(err) => {
                // No descriptor is left to wait with, so this blocks; the killed process exits at once.
                let _ = kill_process(pid, Signal::KILL);
                let _ = waitpid(Some(pid), WaitOptions::empty());
                Err(err)
            }
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub(super) fn kill(&self) {
        // Fails only if the process has exited, which is the goal.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    pub(super) async fn wait(&self) -> io::Result<Exit> {
        self.pidfd
            .async_io(Interest::READABLE, |pidfd| {
                let id = WaitId::PidFd(pidfd.as_fd());
                let status = waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
                let status = status.ok_or(io::ErrorKind::WouldBlock)?;
                Ok(match status.exit_status() {
                    Some(code) => Exit::Code(code),
                    None => Exit::Signal(status.terminating_signal().unwrap_or_default()),
                })
            })
            .await
    }
}
