//! The pipes and sockets between the host and a worker.

use std::{io, os::fd::OwnedFd};

use tokio::net::{UnixStream, unix::pipe};

/// The pipe for a worker's stderr. The worker's end is non-blocking.
pub(super) fn stderr_pipe() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (sender, receiver) = pipe::pipe()?;
    Ok((receiver, sender.into_nonblocking_fd()?))
}

/// A non-blocking socket for the host and its blocking peer for another process.
pub(super) fn socket_pair() -> io::Result<(UnixStream, std::os::unix::net::UnixStream)> {
    let (host, other) = std::os::unix::net::UnixStream::pair()?;
    host.set_nonblocking(true)?;
    Ok((UnixStream::from_std(host)?, other))
}

/// A socket pair for a worker, whose end is non-blocking too: a worker that waits to write must still read.
pub(super) fn worker_socket_pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (host, worker) = socket_pair()?;
    worker.set_nonblocking(true)?;
    Ok((host, worker.into()))
}
