//! The socket to the host: non-blocking, buffered, one per worker, on stdin.
//!
//! Frames stay in a buffer until [`Channel::flush`], so a thousand calls made in one turn
//! need a few writes only. The buffer is flushed earlier when it is large or old, so that the console output of a
//! program that never pauses is visible.
//!
//! **Invariant:** the worker never blocks on a write without also reading. The host stops reading when too many calls are queued,
//! and starts no call while too many responses are unread; if the worker did not read either, both would deadlock.
//! The memory limit of the run bounds the buffers of both directions.
//!
//! A socket error means that the host is gone: the worker
//! exits.

use std::{cell::Cell, io, os::fd::RawFd, rc::Rc, time::Duration};

use pml_wire::{Decoder, Frame, Kind, frame};
use serde::Serialize;

use crate::{clock::Moment, last_words};

/// The worker's end of the socket. The only other descriptor is stderr.
pub(crate) const SOCKET: RawFd = 0;

/// A larger buffer is written at once.
const FLUSH_BYTES: usize = 256 * 1024;
/// A frame is written at once if the last write is this long ago.
const FLUSH_AFTER: Duration = Duration::from_millis(50);
/// Size of one read.
const READ_BYTES: usize = 64 * 1024;

/// The outcome of a wait for the host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Bytes arrived; complete frames may be available.
    Data,
    /// The wait timed out.
    TimedOut,
}

#[derive(Debug)]
pub(crate) struct Channel {
    out: Vec<u8>,
    /// The number of bytes of `out` that are written.
    written: usize,
    flushed: Moment,
    decoder: Decoder,
    /// Capacity of the send buffer. Twice as many bytes may be read while waiting to write.
    room: usize,
    /// The total time that the program has waited for the host in this module.
    waited: Rc<Cell<Duration>>,
}

impl Channel {
    pub(crate) fn new() -> Channel {
        Channel {
            out: Vec::new(),
            written: 0,
            flushed: Moment::now(),
            // The host is trusted; what it sends is bounded by its own limits.
            decoder: Decoder::new(u32::MAX),
            room: FLUSH_BYTES,
            waited: Rc::default(),
        }
    }

    /// From now on, adds the time that the program waits here for the host (for buffer space and for responses) to `waited`.
    pub(crate) fn count_waiting(&mut self, waited: Rc<Cell<Duration>>) {
        self.waited = waited;
    }

    /// Sets the capacity of the send buffer.
    pub(crate) fn set_room(&mut self, bytes: usize) {
        self.room = bytes.max(FLUSH_BYTES);
    }

    /// Adds a frame to the send buffer.
    pub(crate) fn send(&mut self, kind: Kind, id: u32, body: &[u8]) {
        frame::encode(&mut self.out, kind, id, body);
        if self.unwritten() >= FLUSH_BYTES || Moment::now().since(self.flushed) > FLUSH_AFTER {
            self.flush();
        }
        if self.unwritten() <= self.room {
            return;
        }
        let started = Moment::now();
        while self.unwritten() > self.room {
            if poll(libc::POLLIN | libc::POLLOUT, None) & libc::POLLOUT != 0 {
                self.flush();
            } else if self.read() > 2 * self.room {
                last_words::leave_out_of_memory();
            }
        }
        self.waited.set(self.waited.get() + Moment::now().since(started));
    }

    /// Adds a frame with a JSON body to the send buffer.
    pub(crate) fn send_json(&mut self, kind: Kind, body: &impl Serialize) {
        let body = serde_json::to_vec(body).expect("plain data serializes");
        self.send(kind, 0, &body);
    }

    fn unwritten(&self) -> usize {
        self.out.len() - self.written
    }

    /// Writes as much of the buffer as the socket accepts.
    pub(crate) fn flush(&mut self) {
        self.written += write(&self.out[self.written..]);
        // Half of it at least, so that bytes are moved seldom.
        if self.written > self.out.len() / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
        self.flushed = Moment::now();
    }

    /// Sends the result of the run. A large one is not copied into the buffer: the program is over and can wait.
    pub(crate) fn send_result(&mut self, json: &[u8]) {
        if json.len() < FLUSH_BYTES {
            return self.send(Kind::Value, 0, json);
        }
        frame::encode_header(&mut self.out, Kind::Value, 0, json.len());
        self.finish();
        let mut rest = json;
        loop {
            rest = &rest[write(rest)..];
            if rest.is_empty() {
                return;
            }
            self.wait_for_room();
        }
    }

    /// Writes the whole buffer.
    pub(crate) fn finish(&mut self) {
        self.flush();
        while self.unwritten() > 0 {
            self.wait_for_room();
            self.flush();
        }
    }

    /// Waits until the host takes more bytes, after the run: what the host still sends is of no use to anybody.
    fn wait_for_room(&mut self) {
        while poll(libc::POLLIN | libc::POLLOUT, None) & libc::POLLOUT == 0 {
            self.read();
            self.decoder.clear();
        }
    }

    /// A frame that has already arrived in full.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        match self.decoder.next_frame() {
            Ok(frame) => frame,
            Err(err) => last_words::fail(&format!("the host sent no frames: {err}")),
        }
    }

    /// Waits for bytes from the host, and writes the buffer meanwhile.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> Wait {
        let started = Moment::now();
        self.flush();
        loop {
            let events = if self.unwritten() > 0 { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
            let left = limit.map(|limit| limit.saturating_sub(Moment::now().since(started)));
            let ready = poll(events, left);
            if ready & libc::POLLOUT != 0 {
                self.flush();
            }
            if ready & !libc::POLLOUT != 0 {
                self.read();
                return Wait::Data;
            }
            if ready == 0 {
                return Wait::TimedOut;
            }
        }
    }

    /// Reads the bytes that have arrived, and returns the size of the receive buffer.
    fn read(&mut self) -> usize {
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
                    return filled;
                }
                Err(_) if would_block() => return buffer.len(),
                Err(_) => leave_unless_interrupted(),
            }
        }
    }

    /// Waits for the next frame, however long it takes.
    pub(crate) fn receive(&mut self) -> Frame {
        let started = Moment::now();
        loop {
            if let Some(frame) = self.next_frame() {
                self.waited.set(self.waited.get() + Moment::now().since(started));
                return frame;
            }
            self.wait(None);
        }
    }
}

/// Writes as many bytes as the host takes now. How many.
fn write(bytes: &[u8]) -> usize {
    let mut total = 0;
    while let Some(rest) = bytes.get(total..).filter(|rest| !rest.is_empty()) {
        // SAFETY: `rest` is valid for reads of its length, and `write` only reads it.
        #[expect(unsafe_code, reason = "std has no write for a borrowed descriptor")]
        let written = unsafe { libc::write(SOCKET, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(written) => total += written,
            Err(_) if would_block() => break,
            Err(_) => leave_unless_interrupted(),
        }
    }
    total
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

/// Has the host closed its end? Checked now and then while a program computes without reading.
pub(crate) fn host_is_gone() -> bool {
    let mut fd = libc::pollfd { fd: SOCKET, events: 0, revents: 0 };
    // SAFETY: `fd` is one valid `pollfd`, and the count says so.
    #[expect(unsafe_code, reason = "std has no poll")]
    let ready = unsafe { libc::poll(&raw mut fd, 1, 0) };
    ready == 1 && fd.revents & (libc::POLLHUP | libc::POLLERR) != 0
}

/// Waits until the socket is ready for one of these events. Returns the events, or 0 on timeout.
fn poll(events: libc::c_short, limit: Option<Duration>) -> libc::c_short {
    // Rounded up: a timer that fires a millisecond early would spin.
    let millis = limit.map_or(-1, |limit| i32::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(i32::MAX));
    let mut fd = libc::pollfd { fd: SOCKET, events, revents: 0 };
    loop {
        // SAFETY: `fd` is one valid `pollfd`, and the count says so.
        #[expect(unsafe_code, reason = "std has no poll")]
        let ready = unsafe { libc::poll(&raw mut fd, 1, millis) };
        match ready {
            0 => return 0,
            1 => return fd.revents,
            _ => leave_unless_interrupted(),
        }
    }
}

/// Did the last system call fail with `EAGAIN`?
fn would_block() -> bool {
    io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock
}

/// Retries a system call that a signal interrupted.
fn leave_unless_interrupted() {
    if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
        last_words::leave();
    }
}
