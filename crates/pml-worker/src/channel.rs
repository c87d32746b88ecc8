//! The socket to the host: blocking, buffered, one per worker, on standard input.
//!
//! What is sent stays in a buffer until [`Channel::flush`], so a thousand calls made in one turn
//! leave in a few writes. The buffer is flushed early when it grows, so it stays small, and when it
//! gets old, so that the console of a program that never pauses can be followed.
//!
//! A socket that fails means that the host is gone, and then there is nobody to tell: the worker
//! leaves.

use std::{io, os::fd::RawFd, time::Duration};

use pml_wire::{Decoder, Frame, Kind, frame};
use serde::Serialize;

use crate::{clock::Moment, last_words};

/// The worker's end of the socket. There is no other descriptor but standard error.
pub(crate) const SOCKET: RawFd = 0;

/// Above this the buffer is written at once.
const FLUSH_BYTES: usize = 256 * 1024;
/// A frame that comes this long after the last write is written at once.
const FLUSH_AFTER: Duration = Duration::from_millis(50);
/// How much is read at a time.
const READ_BYTES: usize = 64 * 1024;

/// What came of waiting for the host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Bytes arrived; there may be whole frames now.
    Data,
    /// The time was up first.
    TimedOut,
}

#[derive(Debug)]
pub(crate) struct Channel {
    out: Vec<u8>,
    flushed: Moment,
    decoder: Decoder,
}

impl Channel {
    pub(crate) fn new() -> Channel {
        Channel {
            out: Vec::new(),
            flushed: Moment::now(),
            // The host is trusted; what it sends is bounded by its own limits.
            decoder: Decoder::new(u32::MAX),
        }
    }

    /// Puts a frame into the buffer.
    pub(crate) fn send(&mut self, kind: Kind, id: u32, body: &[u8]) {
        frame::encode(&mut self.out, kind, id, body);
        if self.out.len() >= FLUSH_BYTES || Moment::now().since(self.flushed) > FLUSH_AFTER {
            self.flush();
        }
    }

    /// Puts a frame with a JSON body into the buffer.
    pub(crate) fn send_json(&mut self, kind: Kind, body: &impl Serialize) {
        let body = serde_json::to_vec(body).expect("plain data serializes");
        self.send(kind, 0, &body);
    }

    /// Writes the buffer out. Blocks while the host does not read; the host ends that.
    pub(crate) fn flush(&mut self) {
        let mut rest = &self.out[..];
        while !rest.is_empty() {
            // SAFETY: `rest` is valid for reads of its length, and `write` only reads it.
            #[expect(unsafe_code, reason = "std has no write for a borrowed descriptor")]
            let written = unsafe { libc::write(SOCKET, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) => rest = &rest[written..],
                Err(_) => leave_unless_interrupted(),
            }
        }
        self.out.clear();
        self.flushed = Moment::now();
    }

    /// A frame that has already arrived whole.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        match self.decoder.next_frame() {
            Ok(frame) => frame,
            Err(err) => last_words::fail(&format!("the host sent no frames: {err}")),
        }
    }

    /// Waits for bytes.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> Wait {
        if let Some(limit) = limit
            && !poll(limit)
        {
            return Wait::TimedOut;
        }
        let buffer = self.decoder.buffer();
        buffer.reserve(READ_BYTES);
        let room = buffer.spare_capacity_mut();
        loop {
            // SAFETY: `room` is valid for writes of its length, and `read` writes no more.
            #[expect(unsafe_code, reason = "std has no read for a borrowed descriptor")]
            let read = unsafe { libc::read(SOCKET, room.as_mut_ptr().cast(), room.len()) };
            match usize::try_from(read) {
                Ok(0) => last_words::leave(),
                Ok(read) => {
                    let filled = buffer.len() + read;
                    // SAFETY: the kernel has just initialised `read` bytes behind the old length.
                    #[expect(unsafe_code, reason = "avoids zeroing 64 KiB for each read")]
                    unsafe {
                        buffer.set_len(filled);
                    }
                    return Wait::Data;
                }
                Err(_) => leave_unless_interrupted(),
            }
        }
    }

    /// Waits for the next frame, however long it takes.
    pub(crate) fn receive(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.next_frame() {
                return frame;
            }
            self.wait(None);
        }
    }
}

/// Is standard input a socket, as it is when pml itself has started this process?
pub(crate) fn is_connected() -> bool {
    let mut kind: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: both pointers are to values of the sizes that this option takes.
    #[expect(unsafe_code, reason = "std asks no such question")]
    let answer =
        unsafe { libc::getsockopt(SOCKET, libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut kind).cast(), &raw mut length) };
    answer == 0
}

/// Has the host closed its end? Asked now and then by a program that never stops to read.
pub(crate) fn host_is_gone() -> bool {
    let mut fd = libc::pollfd { fd: SOCKET, events: 0, revents: 0 };
    // SAFETY: `fd` is one valid `pollfd`, and the count says so.
    #[expect(unsafe_code, reason = "std has no poll")]
    let ready = unsafe { libc::poll(&raw mut fd, 1, 0) };
    ready == 1 && fd.revents & (libc::POLLHUP | libc::POLLERR) != 0
}

/// Waits until there is something to read. `false` when the time was up first.
fn poll(limit: Duration) -> bool {
    // Rounded up: a timer that fires a millisecond early would spin.
    let millis = limit.as_micros().div_ceil(1000);
    let millis = i32::try_from(millis).unwrap_or(i32::MAX);
    let mut fd = libc::pollfd { fd: SOCKET, events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: `fd` is one valid `pollfd`, and the count says so.
        #[expect(unsafe_code, reason = "std has no poll")]
        let ready = unsafe { libc::poll(&raw mut fd, 1, millis) };
        match ready {
            0 => return false,
            1 => return true,
            _ => leave_unless_interrupted(),
        }
    }
}

/// A system call that a signal interrupted is simply made again.
fn leave_unless_interrupted() {
    if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
        last_words::leave();
    }
}
