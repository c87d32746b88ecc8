//! Workers for tests that are their own host.

use std::{
    env,
    io::{Read as _, Write as _},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command},
    time::Duration,
};

use pml_wire::{Decoder, Frame, Kind, frame, message::Limits};
use serde_json::Value;

pub(crate) const LIMITS: Limits = Limits {
    timeout_ms: 10_000,
    total_ms: 60_000,
    memory_bytes: 64 << 20,
    result_bytes: 8 << 20,
    log_bytes: 1 << 20,
    decisions: 10,
};

/// This program, started again as a worker, and killed in the end.
pub(crate) struct Worker {
    process: Child,
    socket: UnixStream,
    decoder: Decoder,
}

impl Worker {
    pub(crate) fn start(time_zone: &str) -> Worker {
        let (socket, theirs) = UnixStream::pair().expect("a socket pair");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let process = Command::new(env::current_exe().expect("a running program has a path"))
            .args([pml_worker::COMMAND, pml_worker::SINGLE, "67108864", "20"])
            .stdin(OwnedFd::from(theirs))
            .env_clear()
            .env("TZ", time_zone)
            .spawn()
            .expect("the worker starts");
        Worker { process, socket, decoder: Decoder::new(u32::MAX) }
    }

    pub(crate) fn send(&mut self, kind: Kind, id: u32, body: &Value) {
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, kind, id, body.to_string().as_bytes());
        self.socket.write_all(&bytes).expect("the worker reads");
    }

    pub(crate) fn receive(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.decoder.next_frame().expect("frames") {
                return frame;
            }
            let mut bytes = [0; 65536];
            let length = self.socket.read(&mut bytes).expect("an answer in time");
            assert_ne!(length, 0, "the worker ended without an answer");
            self.decoder.buffer().extend_from_slice(&bytes[..length]);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
