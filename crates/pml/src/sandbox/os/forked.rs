//! Workers forked from a prepared process, and reaped through pidfds.
//!
//! The other side of the conversation is `pml_worker`'s zygote; see there for why it exists.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    time::Duration,
};

use pml_worker::WorkerLimits;
use rustix::{
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    process::{
        Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, pidfd_open, pidfd_send_signal,
        waitid, waitpid,
    },
};
use tokio::{
    io::{AsyncReadExt, Interest, unix::AsyncFd},
    net::UnixStream,
    sync::Mutex,
    time::timeout,
};
use tracing::{debug, warn};

use super::{Exit, Process, Spawned, single, socket_pair, stderr_pipe, worker_socket_pair};

/// How long the prepared process may take to fork, or to end.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// What `clone` answers in a PID namespace whose first process is dead: ENOMEM.
const NO_NAMESPACE: i32 = 12;

/// Keeps the prepared process, and starts it anew should it die.
#[derive(Debug)]
pub(in crate::sandbox) struct Nursery {
    program: PathBuf,
    zygote: Mutex<Option<Zygote>>,
}

#[derive(Debug)]
struct Zygote {
    control: UnixStream,
    process: tokio::process::Child,
}

impl Nursery {
    pub(super) fn new(program: PathBuf) -> Nursery {
        Nursery { program, zygote: Mutex::new(None) }
    }

    pub(super) async fn spawn(&self, limits: WorkerLimits) -> io::Result<Spawned> {
        let (socket, worker_socket) = worker_socket_pair()?;
        let (stderr, worker_stderr) = stderr_pipe()?;
        let mut slot = self.zygote.lock().await;
        let first = match &mut *slot {
            Some(zygote) => zygote.fork(limits, &worker_socket, &worker_stderr).await,
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        let answer = match first {
            // It lives, but its workers' PID namespace does not.
            Ok(Err(err)) if err.raw_os_error() == Some(NO_NAMESPACE) => Err(err),
            first => first,
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(err) => {
                if let Some(dead) = slot.take() {
                    warn!(error = %err, "the process that workers are forked from is gone, starting another");
                    dead.end().await;
                }
                let zygote = slot.insert(Zygote::start(&self.program)?);
                zygote.fork(limits, &worker_socket, &worker_stderr).await?
            }
        };
        drop(slot);
        let process = Process::Forked(Child::new(answer?)?);
        Ok(Spawned { socket, stderr, process })
    }

    pub(super) async fn close(&self) {
        if let Some(zygote) = self.zygote.lock().await.take() {
            zygote.end().await;
        }
    }
}

impl Zygote {
    fn start(program: &std::path::Path) -> io::Result<Zygote> {
        let (control, theirs) = socket_pair()?;
        let process = single::command(program).stdin(OwnedFd::from(theirs)).spawn()?;
        debug!(pid = process.id(), "started the process that workers are forked from");
        Ok(Zygote { control, process })
    }

    /// Asks for a worker: its process id, or why it could not be forked. The outer error is that
    /// there is nobody to ask. One request at a time: the caller holds the lock.
    async fn fork(&mut self, limits: WorkerLimits, socket: &OwnedFd, stderr: &OwnedFd) -> io::Result<io::Result<Pid>> {
        let asked = timeout(ANSWER_TIMEOUT, self.ask(limits, socket, stderr)).await;
        let answer = asked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(match Pid::from_raw(answer) {
            Some(pid) if answer > 0 => Ok(pid),
            _ => Err(io::Error::from_raw_os_error(-answer)),
        })
    }

    async fn ask(&mut self, limits: WorkerLimits, socket: &OwnedFd, stderr: &OwnedFd) -> io::Result<i32> {
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
        let mut answer = [0; 4];
        self.control.read_exact(&mut answer).await?;
        Ok(i32::from_ne_bytes(answer))
    }

    /// Closes the control socket, upon which the process ends, and reaps it.
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

/// A forked worker. It is a child of this process, though another one forked it.
#[derive(Debug)]
pub(in crate::sandbox) struct Child {
    pid: Pid,
    pidfd: AsyncFd<OwnedFd>,
}

impl Child {
    fn new(pid: Pid) -> io::Result<Child> {
        // Even if the worker has died already: it stays a zombie until it is reaped here.
        let watch = || {
            let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
            #[expect(deprecated, reason = "its successor is unsafe, for types other than OwnedFd that close early")]
            AsyncFd::with_interest(pidfd, Interest::READABLE)
        };
        match watch() {
            Ok(pidfd) => Ok(Child { pid, pidfd }),
            Err(err) => {
                // No descriptor is left to wait with, so wait on the spot; killed, it ends at once.
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
        // Fails only if the process is gone, which is what is wanted.
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
