//! Bodies of requests as they were before they were compressed.
//!
//! **Invariant:** no body takes more memory than [`MAX_PLAIN_BYTES`] and the window of its compression, whatever it claims to
//! be: what is more is never decompressed.

use std::io::{self, Read};

use axum::http::{HeaderMap, header};
use flate2::read::MultiGzDecoder;
use pml_wire::hub::Code;

use super::problem::Problem;

/// Most bytes of a body when it is decompressed.
const MAX_PLAIN_BYTES: usize = 32 * 1024 * 1024;
/// The largest window of zstd, as a power of two: 8 MiB, which is the most that RFC 9659 allows over HTTP.
const MAX_WINDOW_LOG: u32 = 23;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Zstd,
    Gzip,
}

impl Encoding {
    pub(super) fn of(headers: &HeaderMap) -> Result<Encoding, Problem> {
        let mut all = headers.get_all(header::CONTENT_ENCODING).iter();
        let encoding = match (all.next().map(|value| value.as_bytes().to_ascii_lowercase()), all.next()) {
            (None, _) => Some(Encoding::Identity),
            (Some(name), None) => match &name[..] {
                b"" | b"identity" => Some(Encoding::Identity),
                b"zstd" => Some(Encoding::Zstd),
                b"gzip" | b"x-gzip" => Some(Encoding::Gzip),
                _ => None,
            },
            // Compressed twice.
            (Some(_), Some(_)) => None,
        };
        encoding.ok_or_else(|| {
            Problem::new(Code::UnsupportedEncoding, "a body is sent as it is, or compressed once, with zstd or gzip")
        })
    }

    /// The body as it was before. May take a while.
    pub(super) fn decode(self, bytes: Vec<u8>) -> Result<Vec<u8>, Problem> {
        let (name, plain) = match self {
            Encoding::Identity => return Ok(bytes),
            Encoding::Zstd => ("zstd", zstd_decoder(&bytes).and_then(read)),
            Encoding::Gzip => ("gzip", read(MultiGzDecoder::new(&bytes[..]))),
        };
        match plain {
            Ok(plain) if plain.len() > MAX_PLAIN_BYTES => {
                Err(Problem::new(Code::TooLarge, "a body may have 32 MiB when it is decompressed"))
            }
            Ok(plain) => Ok(plain),
            Err(err) => Err(Problem::invalid(format!("the body cannot be decompressed with {name}: {err}"))),
        }
    }
}

fn zstd_decoder(bytes: &[u8]) -> io::Result<impl Read> {
    let mut decoder = zstd::stream::read::Decoder::new(bytes)?;
    decoder.window_log_max(MAX_WINDOW_LOG)?;
    Ok(decoder)
}

/// Everything, or one byte more than there may be.
fn read(decoder: impl Read) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    decoder.take(MAX_PLAIN_BYTES as u64 + 1).read_to_end(&mut plain)?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use axum::http::HeaderValue;

    use super::*;

    fn zstd(text: &[u8], window_log: u32) -> Vec<u8> {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(window_log).unwrap();
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_was_compressed_comes_back_and_no_more_than_there_may_be() {
        let (full, over) = (vec![b' '; MAX_PLAIN_BYTES], vec![b' '; MAX_PLAIN_BYTES + 1]);
        let halves = [gzip(&full[..1000]), gzip(&full[1000..])].concat();
        let cut = |mut bytes: Vec<u8>| {
            bytes.truncate(bytes.len() - 1);
            bytes
        };
        let mut flipped = gzip(b"text");
        let last = flipped.len() - 5;
        flipped[last] ^= 1;
        #[rustfmt::skip]
        let table = [
            ("zstd",                        Encoding::Zstd, zstd(&full, 23),    Ok(MAX_PLAIN_BYTES)),
            ("gzip",                        Encoding::Gzip, gzip(&full),        Ok(MAX_PLAIN_BYTES)),
            ("two members",                 Encoding::Gzip, halves,             Ok(MAX_PLAIN_BYTES)),
            ("too much zstd",               Encoding::Zstd, zstd(&over, 23),    Err(Code::TooLarge)),
            ("too much gzip",               Encoding::Gzip, gzip(&over),        Err(Code::TooLarge)),
            ("two members that are too much", Encoding::Gzip, [gzip(&full), gzip(b" ")].concat(), Err(Code::TooLarge)),
            ("a window of 128 MiB",         Encoding::Zstd, zstd(&full, 27),    Err(Code::InvalidRequest)),
            ("cut zstd",                    Encoding::Zstd, cut(zstd(b"text", 20)), Err(Code::InvalidRequest)),
            ("cut gzip",                    Encoding::Gzip, cut(gzip(b"text")), Err(Code::InvalidRequest)),
            ("a wrong checksum",            Encoding::Gzip, flipped,            Err(Code::InvalidRequest)),
            ("gzip called zstd",            Encoding::Zstd, gzip(b"text"),      Err(Code::InvalidRequest)),
            ("zstd called gzip",            Encoding::Gzip, zstd(b"text", 20),  Err(Code::InvalidRequest)),
            ("nothing",                     Encoding::Gzip, Vec::new(),         Err(Code::InvalidRequest)),
        ];
        for (name, encoding, bytes, expected) in table {
            let decoded = encoding.decode(bytes).map(|plain| plain.len()).map_err(|problem| problem.code);
            assert_eq!(decoded, expected, "{name}");
        }
    }

    #[test]
    fn one_encoding_is_read_in_any_case_and_several_are_refused() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::CONTENT_ENCODING, HeaderValue::from_static(value));
            }
            Encoding::of(&headers).ok()
        };
        assert_eq!(of(&[]), Some(Encoding::Identity));
        assert_eq!(of(&["identity"]), Some(Encoding::Identity));
        assert_eq!(of(&["ZSTD"]), Some(Encoding::Zstd));
        assert_eq!((of(&["gzip"]), of(&["x-gzip"])), (Some(Encoding::Gzip), Some(Encoding::Gzip)));
        assert_eq!((of(&["br"]), of(&["gzip, gzip"]), of(&["gzip", "gzip"])), (None, None, None));
    }
}
