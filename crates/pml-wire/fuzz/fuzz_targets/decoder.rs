//! Hostile bytes give frames or an error, never a panic or a large allocation, and the way the
//! stream is cut does not change what is read.
//!
//! Run: `cargo +nightly fuzz run decoder` in `crates/pml-wire`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pml_wire::{Decoder, Frame, FrameError};

const MAX_BODY: u32 = 4096;

fn decode(pieces: &[&[u8]]) -> (Vec<Frame>, Option<FrameError>) {
    let mut decoder = Decoder::new(MAX_BODY);
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.buffer().extend_from_slice(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(err) => return (frames, Some(err)),
            }
        }
    }
    (frames, None)
}

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (step, bytes) = input;
    let whole = decode(&[&bytes]);
    let pieces: Vec<&[u8]> = bytes.chunks(usize::from(step).max(1)).collect();
    assert_eq!(whole, decode(&pieces));
    assert!(whole.0.iter().all(|frame| frame.body.len() <= MAX_BODY as usize));
});
