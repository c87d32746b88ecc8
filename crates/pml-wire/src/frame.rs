//! Frames: how bytes between the host and a worker are cut into messages.
//!
//! A frame is a little-endian `u32` body length, a `u8` kind, a `u32` id and the body. The id ties
//! a reply to its call and is 0 elsewhere. The body is JSON text that this module never looks at.
//!
//! **Invariant:** [`Decoder`] takes any bytes. It never panics, and it never holds more memory than
//! it was given bytes: a header that promises a large body reserves nothing. The body of a large frame is handed out in
//! the buffer that it was read into, so it is never copied.

use thiserror::Error;

/// Length of the header in front of each body.
pub const HEADER_BYTES: usize = 9;

/// A body of at least this length gets a buffer of its own.
const LARGE_BYTES: usize = 64 * 1024;

/// What a frame is, and so which way it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Host → worker: the program to run, once.
    Init = 1,
    /// Host → worker: what a call returned; the body is the value itself.
    RpcResult = 2,
    /// Host → worker: why a call failed.
    RpcError = 3,
    /// Host → worker: the names of all tools.
    Names = 4,
    /// Host → worker: what a call returned, where part of it stays with the host.
    RpcHandles = 5,
    /// Host → worker: what a call returned: a text that is JSON, as it is. The program gets the value.
    RpcJsonText = 6,
    /// Host → worker: a program to be read and not run, once, in place of [`Kind::Init`].
    Analyse = 7,
    /// Worker → host: the jail is closed, send a program.
    Ready = 16,
    /// Worker → host: call a tool.
    RpcCall = 17,
    /// Worker → host: a line of console output.
    Log = 18,
    /// Worker → host: how far the program says it is.
    Progress = 19,
    /// Worker → host: the program enumerates `mcp`, send the names.
    NamesRequest = 20,
    /// Worker → host: the result, just before [`Kind::ExecutionComplete`].
    Value = 21,
    /// Worker → host: the run is over. Nothing follows.
    ExecutionComplete = 22,
    /// Worker → host: the calls that can be read off the program, before anything else of it.
    Preflight = 23,
    /// Worker → host: read a part of what stays with the host.
    Read = 24,
    /// Worker → host: a question that no tool answers.
    Ask = 25,
    /// Worker → host: the program has nothing to do until an answer comes or a timer is due.
    Waiting = 26,
    /// Worker → host: a timer was due, and the program goes on.
    Awake = 27,
    /// Worker → host: the program wants a result that was kept for its client.
    Recall = 28,
    /// Worker → host: branch decisions of the program that were not told yet.
    Decisions = 29,
    /// Worker → host: before a request, how many answers the program had when it made the request. The id is the number.
    Answered = 30,
    /// Worker → host: before a request, the line of the program that makes it, if it is another one than before. The id is
    /// the line, or 0 if it is not known.
    Line = 31,
    /// Worker → host: what was read off a program, the answer to [`Kind::Analyse`].
    Analysis = 32,
}

impl Kind {
    /// Every kind there is.
    const ALL: [Kind; 24] = [
        Kind::Init,
        Kind::RpcResult,
        Kind::RpcError,
        Kind::Names,
        Kind::RpcHandles,
        Kind::RpcJsonText,
        Kind::Analyse,
        Kind::Ready,
        Kind::RpcCall,
        Kind::Log,
        Kind::Progress,
        Kind::NamesRequest,
        Kind::Value,
        Kind::ExecutionComplete,
        Kind::Preflight,
        Kind::Read,
        Kind::Ask,
        Kind::Waiting,
        Kind::Awake,
        Kind::Recall,
        Kind::Decisions,
        Kind::Answered,
        Kind::Line,
        Kind::Analysis,
    ];

    fn from_byte(byte: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// One message, cut out of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    /// The call this frame belongs to, or 0.
    pub id: u32,
    pub body: Vec<u8>,
}

/// Why a stream of bytes is not a stream of frames. There is no way back from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("frame kind {0} is unknown")]
    UnknownKind(u8),
    #[error("frame body of {len} bytes is over the limit of {max}")]
    TooLarge { len: u32, max: u32 },
}

/// Writes one frame behind what `out` holds, so that several frames leave in one write.
///
/// # Panics
///
/// If the body is 4 GiB or more; callers cap it long before.
pub fn encode(out: &mut Vec<u8>, kind: Kind, id: u32, body: &[u8]) {
    out.reserve(HEADER_BYTES + body.len());
    encode_header(out, kind, id, body.len());
    out.extend_from_slice(body);
}

/// Writes the header of a frame, for a body that the caller writes to the stream itself.
///
/// # Panics
///
/// As [`encode`].
pub fn encode_header(out: &mut Vec<u8>, kind: Kind, id: u32, body_bytes: usize) {
    let len = u32::try_from(body_bytes).expect("a frame body is shorter than 4 GiB");
    out.extend_from_slice(&len.to_le_bytes());
    out.push(kind as u8);
    out.extend_from_slice(&id.to_le_bytes());
}

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Where the first byte not yet handed out stands in `buffer`.
    start: usize,
    /// The header of the large frame whose body the buffer begins with. `start` is 0 then.
    large: Option<Header>,
    max_body: u32,
}

#[derive(Clone, Copy, Debug)]
struct Header {
    kind: Kind,
    id: u32,
    body_bytes: usize,
}

impl Decoder {
    /// A decoder that refuses bodies of more than `max_body` bytes.
    pub fn new(max_body: u32) -> Decoder {
        Decoder { buffer: Vec::new(), start: 0, large: None, max_body }
    }

    /// Where the next bytes of the stream are to be appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        // Half of it at least, so that bytes are moved seldom.
        if self.start > self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        &mut self.buffer
    }

    /// Forgets all bytes that were not handed out.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.start = 0;
        self.large = None;
    }

    /// The next whole frame, or `None` until more bytes are there.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        if let Some(header) = self.large {
            return Ok(self.next_large(header));
        }
        let pending = &self.buffer[self.start..];
        let Some((bytes, rest)) = pending.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = self.read_header(*bytes)?;
        if let Some(body) = rest.get(..header.body_bytes) {
            let frame = Frame { kind: header.kind, id: header.id, body: body.to_vec() };
            self.start += HEADER_BYTES + header.body_bytes;
            return Ok(Some(frame));
        }
        if header.body_bytes >= LARGE_BYTES {
            self.buffer.drain(..self.start + HEADER_BYTES);
            self.start = 0;
            self.large = Some(header);
        }
        Ok(None)
    }

    fn read_header(&self, bytes: [u8; HEADER_BYTES]) -> Result<Header, FrameError> {
        let [l0, l1, l2, l3, kind, i0, i1, i2, i3] = bytes;
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        let kind = Kind::from_byte(kind).ok_or(FrameError::UnknownKind(kind))?;
        if len > self.max_body {
            return Err(FrameError::TooLarge { len, max: self.max_body });
        }
        Ok(Header { kind, id: u32::from_le_bytes([i0, i1, i2, i3]), body_bytes: len as usize })
    }

    /// The large frame, once its whole body is in the buffer. What follows it moves to a new buffer.
    fn next_large(&mut self, Header { kind, id, body_bytes }: Header) -> Option<Frame> {
        if self.buffer.len() < body_bytes {
            return None;
        }
        let rest = self.buffer.split_off(body_bytes);
        let body = std::mem::replace(&mut self.buffer, rest);
        self.large = None;
        Some(Frame { kind, id, body })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let frame = (prop::sample::select(&Kind::ALL[..]), any::<u32>(), prop::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(kind, id, body)| Frame { kind, id, body });
        prop::collection::vec(frame, 0..20)
    }

    /// Feeds `bytes` in pieces of `step` and returns all frames up to the first error.
    fn decode(bytes: &[u8], step: usize, max_body: u32) -> (Vec<Frame>, Option<FrameError>) {
        let mut decoder = Decoder::new(max_body);
        let mut frames = Vec::new();
        for piece in bytes.chunks(step) {
            decoder.buffer().extend_from_slice(piece);
            assert!(decoder.buffer.capacity() <= 2 * bytes.len() + 16);
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

    proptest! {
        #[test]
        fn frames_survive_any_cut_of_the_stream(frames in frames(), step in 1_usize..64) {
            let mut bytes = Vec::new();
            for frame in &frames {
                encode(&mut bytes, frame.kind, frame.id, &frame.body);
            }
            prop_assert_eq!(decode(&bytes, step, 1024), (frames, None));
        }

        #[test]
        fn hostile_bytes_give_frames_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..2000),
            step in 1_usize..64,
        ) {
            let (frames, _) = decode(&bytes, step, 1024);
            prop_assert!(frames.iter().all(|frame| frame.body.len() <= 1024));
        }

        #[test]
        fn the_cut_of_the_stream_does_not_change_what_is_read(
            bytes in prop::collection::vec(any::<u8>(), 0..500),
            step in 1_usize..64,
        ) {
            prop_assert_eq!(decode(&bytes, step, 256), decode(&bytes, bytes.len().max(1), 256));
        }
    }

    #[test]
    fn a_promised_body_reserves_nothing() {
        let mut decoder = Decoder::new(u32::MAX);
        decoder.buffer().extend_from_slice(&u32::MAX.to_le_bytes());
        decoder.buffer().extend_from_slice(&[Kind::Log as u8, 0, 0, 0, 0]);
        assert_eq!(decoder.next_frame(), Ok(None));
        assert!(decoder.buffer.capacity() < 64);
    }

    #[test]
    fn large_frames_survive_any_cut_of_the_stream() {
        let sizes = [0, LARGE_BYTES - 1, 3, LARGE_BYTES, LARGE_BYTES + 1, 5, 3 * LARGE_BYTES, 3 * LARGE_BYTES, 1];
        let body = |index: usize, size| (0..size).map(|at| (at * 7 + index) as u8).collect();
        let frames: Vec<_> = sizes
            .iter()
            .enumerate()
            .map(|(index, size)| Frame { kind: Kind::Value, id: index as u32, body: body(index, *size) })
            .collect();
        let mut bytes = Vec::new();
        for frame in &frames {
            encode(&mut bytes, frame.kind, frame.id, &frame.body);
        }
        for step in [13, 1000, LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + HEADER_BYTES, 5 * LARGE_BYTES, bytes.len()] {
            assert_eq!(decode(&bytes, step, u32::MAX), (frames.clone(), None), "pieces of {step} bytes");
        }
    }

    #[test]
    fn a_large_body_is_handed_out_where_it_was_read() {
        let mut bytes = Vec::new();
        encode(&mut bytes, Kind::Value, 0, &vec![1; 2 * LARGE_BYTES]);
        let mut decoder = Decoder::new(u32::MAX);
        decoder.buffer().extend_from_slice(&bytes[..LARGE_BYTES]);
        assert_eq!(decoder.next_frame(), Ok(None));
        decoder.buffer().extend_from_slice(&bytes[LARGE_BYTES..]);
        let read_into = decoder.buffer.as_ptr();
        let frame = decoder.next_frame().unwrap().unwrap();
        assert_eq!((frame.body.as_ptr(), frame.body.len()), (read_into, 2 * LARGE_BYTES));
    }

    #[test]
    fn a_cleared_decoder_begins_with_a_header() {
        let mut bytes = Vec::new();
        encode(&mut bytes, Kind::Log, 1, b"small");
        encode(&mut bytes, Kind::Value, 2, &vec![1; LARGE_BYTES]);
        let mut decoder = Decoder::new(u32::MAX);
        decoder.buffer().extend_from_slice(&bytes[..LARGE_BYTES / 2]);
        assert_eq!(decoder.next_frame().unwrap().unwrap().id, 1);
        assert_eq!(decoder.next_frame(), Ok(None));
        decoder.clear();
        decoder.buffer().extend_from_slice(&bytes[..HEADER_BYTES + 5]);
        assert_eq!(decoder.next_frame().unwrap().unwrap().id, 1);
    }

    #[test]
    fn bad_headers_are_errors() {
        let (_, err) = decode(&[0, 0, 0, 0, 99, 0, 0, 0, 0], 1, 10);
        assert_eq!(err, Some(FrameError::UnknownKind(99)));
        let (_, err) = decode(&[11, 0, 0, 0, Kind::Log as u8, 0, 0, 0, 0], 1, 10);
        assert_eq!(err, Some(FrameError::TooLarge { len: 11, max: 10 }));
    }
}
