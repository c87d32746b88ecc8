//! Bytes on their way to a worker.
//!
//! Small frames are collected, so that several leave in one write. The body of a large frame is not copied: it waits by
//! itself, and is written from where it lies.

use std::collections::VecDeque;

use pml_wire::{Kind, frame};

/// A body of at least this length is not copied.
const LARGE_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Outgoing {
    chunks: VecDeque<Chunk>,
    /// How much of the first chunk is written.
    written: usize,
    /// How much of all chunks is not.
    unsent: usize,
}

#[derive(Debug)]
enum Chunk {
    /// Whole small frames, and perhaps the header of the large one that follows.
    Collected(Vec<u8>),
    /// The body of a large frame.
    Body(Box<str>),
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Collected(bytes) => bytes,
            Chunk::Body(body) => body.as_bytes(),
        }
    }
}

impl Outgoing {
    /// How many bytes wait to be written.
    pub(super) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Adds a frame, with a copy of its body.
    pub(super) fn push(&mut self, kind: Kind, id: u32, body: &[u8]) {
        frame::encode(self.collected(), kind, id, body);
        self.unsent += frame::HEADER_BYTES + body.len();
    }

    /// Adds a frame.
    pub(super) fn push_owned(&mut self, kind: Kind, id: u32, body: Box<str>) {
        if body.len() < LARGE_BYTES {
            return self.push(kind, id, body.as_bytes());
        }
        frame::encode_header(self.collected(), kind, id, body.len());
        self.unsent += frame::HEADER_BYTES + body.len();
        self.chunks.push_back(Chunk::Body(body));
    }

    /// The bytes to write next; empty if there are none.
    pub(super) fn next(&self) -> &[u8] {
        self.chunks.front().map_or(&[], |chunk| &chunk.bytes()[self.written..])
    }

    /// Takes away so many of the bytes to write next, which are written.
    pub(super) fn advance(&mut self, count: usize) {
        self.unsent -= count;
        self.written += count;
        if self.chunks.front().is_some_and(|chunk| chunk.bytes().len() == self.written) {
            self.chunks.pop_front();
            self.written = 0;
        }
    }

    /// Takes away all bytes.
    pub(super) fn clear(&mut self) {
        *self = Outgoing::default();
    }

    /// Where small frames are collected.
    fn collected(&mut self) -> &mut Vec<u8> {
        if !matches!(self.chunks.back(), Some(Chunk::Collected(_))) {
            self.chunks.push_back(Chunk::Collected(Vec::new()));
        }
        match self.chunks.back_mut() {
            Some(Chunk::Collected(bytes)) => bytes,
            _ => unreachable!("it was added just now"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_in_order_whatever_their_size_and_the_size_of_writes() {
        let sizes = [0, 10, LARGE_BYTES, 7, LARGE_BYTES - 1, 3 * LARGE_BYTES, LARGE_BYTES, 1];
        for step in [1000, LARGE_BYTES, usize::MAX] {
            let (mut outgoing, mut expected, mut actual) = (Outgoing::default(), Vec::new(), Vec::new());
            for (index, size) in sizes.into_iter().enumerate() {
                let body: String = ('a'..='z').cycle().skip(index).take(size).collect();
                frame::encode(&mut expected, Kind::RpcResult, index as u32, body.as_bytes());
                match index % 3 {
                    0 => outgoing.push(Kind::RpcResult, index as u32, body.as_bytes()),
                    _ => outgoing.push_owned(Kind::RpcResult, index as u32, body.into()),
                }
                // Half of what waits is written before the next frame is added.
                let until = outgoing.unsent() / 2;
                while outgoing.unsent() > until {
                    let count = outgoing.next().len().min(step).min(outgoing.unsent() - until);
                    actual.extend_from_slice(&outgoing.next()[..count]);
                    outgoing.advance(count);
                }
            }
            while outgoing.unsent() > 0 {
                let count = outgoing.next().len().min(step);
                actual.extend_from_slice(&outgoing.next()[..count]);
                outgoing.advance(count);
            }
            assert!(actual == expected, "writes of {step}");
            assert!(outgoing.next().is_empty());
        }
    }

    #[test]
    fn a_large_body_is_not_copied() {
        let body: Box<str> = "a".repeat(LARGE_BYTES).into();
        let place = body.as_ptr();
        let mut outgoing = Outgoing::default();
        outgoing.push_owned(Kind::RpcResult, 1, body);
        outgoing.advance(frame::HEADER_BYTES);
        assert_eq!((outgoing.next().as_ptr(), outgoing.unsent()), (place, LARGE_BYTES));
    }
}
