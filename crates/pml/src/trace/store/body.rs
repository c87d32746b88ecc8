//! Texts as they lie in the database: compressed, with their size.

use std::{fmt, io};

/// No trace and no program is larger; the sanitizer cuts a trace long before.
pub(super) const MAX_BYTES: usize = 16 * 1024 * 1024;
/// At this level a trace of 3 KB takes a third of its size.
const LEVEL: i32 = 3;

/// Compresses, one text after the other.
pub(super) struct Encoder(zstd::bulk::Compressor<'static>);

/// A compressed text.
#[derive(Clone, Debug)]
pub(super) struct Compressed {
    /// Of the text.
    pub(super) size: usize,
    pub(super) zstd: Vec<u8>,
}

impl Encoder {
    pub(super) fn new() -> io::Result<Encoder> {
        zstd::bulk::Compressor::new(LEVEL).map(Encoder)
    }

    pub(super) fn encode(&mut self, text: &[u8]) -> io::Result<Compressed> {
        Ok(Compressed { size: text.len(), zstd: self.0.compress(text)? })
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encoder")
    }
}

/// The text. A size that was never written is refused, so damage does not allocate without bound.
pub(super) fn decode(size: i64, zstd: &[u8]) -> io::Result<String> {
    let size = usize::try_from(size).ok().filter(|size| *size <= MAX_BYTES);
    let size = size.ok_or_else(|| io::Error::other("its size is out of bounds"))?;
    let bytes = zstd::bulk::decompress(zstd, size)?;
    match bytes.len() == size {
        true => String::from_utf8(bytes).map_err(io::Error::other),
        false => Err(io::Error::other("its size is another")),
    }
}
