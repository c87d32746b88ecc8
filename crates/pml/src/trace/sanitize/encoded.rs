//! Secrets in wrappers: base64, percent escapes, and text with backslash escapes.
//!
//! The inside is searched like any other text, to a bounded depth. Escapes keep their places, so only the secret goes. A
//! run of base64 with a secret inside goes as a whole, unless it is long: then it is encoded again without the secret.
//! Base64 of anything but text (images, archives) is data, and nothing that begins inside of it is a finding.

use std::ops::Range;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose},
};

use super::{
    finding::{self, Finding, Kind},
    scan::{self, Scan},
    shape::RUN,
    tokens,
};

/// Shortest run of base64 that is looked into.
const MIN_RUN: usize = 16;
/// Runs from this length on that are no text are data.
const MIN_DATA: usize = 128;
/// Longest run that is replaced as a whole.
const MAX_REPLACED: usize = 1024;
/// How many wrappers deep a secret is looked for.
const MAX_DEPTH: usize = 3;

const LENIENT: GeneralPurposeConfig = general_purpose::NO_PAD
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Looks at all long runs of letters and digits.
pub(super) fn runs(scan: &mut Scan<'_>) {
    let bytes = scan.bytes;
    let mut at = 0;
    // A run of the least length has a byte at every multiple of it, so only those are looked at.
    while at + MIN_RUN <= bytes.len() {
        let probe = at + MIN_RUN - 1;
        if !RUN.has(bytes[probe]) {
            at = probe + 1;
            continue;
        }
        let left = bytes[at..probe].iter().rev().take_while(|byte| RUN.has(**byte)).count();
        let start = probe - left;
        let end = RUN.run(bytes, probe, usize::MAX);
        if end - start >= MIN_RUN {
            run(scan, start..end);
        }
        at = end;
    }
}

fn run(scan: &mut Scan<'_>, mut span: Range<usize>) {
    // The end of an escape, `\n` or `%3D`, is no part of the run.
    span.start += match span.start.checked_sub(1).map(|before| scan.bytes[before]) {
        Some(b'\\') => 1,
        Some(b'%') => 2,
        _ => 0,
    };
    let run = &scan.bytes[span.clone()];
    if let Some(token) = tokens::discord(scan.bytes, &span) {
        scan.add(token, Kind::secret("discord-token"));
    }
    if tokens::rapidapi(run) {
        scan.add(span, Kind::secret("rapidapi-key"));
        return;
    }
    let engine = if run.iter().any(|byte| matches!(byte, b'-' | b'_')) { &URL_SAFE } else { &STANDARD };
    let head = engine.decode(&run[..run.len().min(64) / 4 * 4]).unwrap_or_default();
    if !is_text(&head) {
        if run.len() >= MIN_DATA {
            scan.data.push(span);
        }
        return;
    }
    if scan.depth >= MAX_DEPTH {
        return;
    }
    let Some(inside) = engine
        .decode(run)
        .ok()
        .and_then(|inside| String::from_utf8(inside).ok())
        .filter(|inside| is_text(inside.as_bytes()))
    else {
        return;
    };
    let findings = scan::findings(&inside, scan.rules, scan.depth + 1);
    let Some(first) = findings.first() else { return };
    let padded = span.end + scan.bytes[span.end..].iter().take(2).take_while(|byte| **byte == b'=').count();
    let kind = match span.len() <= MAX_REPLACED {
        true => match &first.kind {
            Kind::Rewritten(_) => Kind::secret("encoded"),
            kind => kind.clone(),
        },
        false => Kind::Rewritten(engine.encode(finding::apply(&inside, &findings))),
    };
    scan.add(span.start..padded, kind);
}

fn is_text(bytes: &[u8]) -> bool {
    // The head of a longer text may end within a character.
    let whole = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(err) => err.error_len().is_none(),
    };
    whole
        && bytes.len() >= 8
        && bytes.iter().all(|byte| *byte >= 0x20 && *byte != 0x7f || matches!(byte, b'\n' | b'\r' | b'\t'))
}

/// A text without its escapes, and where each of its bytes came from.
struct View {
    text: Vec<u8>,
    places: Vec<usize>,
}

impl View {
    fn with_capacity(bytes: usize) -> View {
        View { text: Vec::with_capacity(bytes), places: Vec::with_capacity(bytes + 1) }
    }

    fn push(&mut self, byte: u8, place: usize) {
        self.text.push(byte);
        self.places.push(place);
    }

    /// Searches the text, and adds what is found at the places it came from.
    fn search(mut self, scan: &mut Scan<'_>, end: usize) {
        self.places.push(end);
        let text = String::from_utf8_lossy(&self.text);
        if text.len() != self.text.len() {
            return; // escapes of something else
        }
        for Finding { span, kind } in scan::findings(&text, scan.rules, scan.depth + 1) {
            let (Some(start), Some(end)) = (self.places.get(span.start), self.places.get(span.end)) else { continue };
            let kind = if matches!(kind, Kind::Rewritten(_)) { Kind::secret("encoded") } else { kind };
            scan.add(*start..*end, kind);
        }
    }
}

/// Searches the text without its percent escapes, where it has some that hide what matters.
pub(super) fn percent(scan: &mut Scan<'_>) {
    let bytes = scan.bytes;
    if scan.depth >= MAX_DEPTH {
        return;
    }
    let mut searched = 0;
    for sign in memchr::memchr_iter(b'%', bytes) {
        if sign < searched || escaped(bytes, sign).is_none_or(|byte| byte.is_ascii_alphanumeric()) {
            continue;
        }
        // The words around it are searched once.
        let start = searched.max(
            bytes[..sign]
                .iter()
                .rposition(|byte| byte.is_ascii_whitespace())
                .map_or(0, |at| at + 1)
                .max(sign.saturating_sub(4096)),
        );
        let end = sign + bytes[sign..].iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(bytes.len() - sign);
        searched = end;
        let mut view = View::with_capacity(end - start);
        let mut at = start;
        while at < end {
            match escaped(bytes, at) {
                Some(byte) => {
                    view.push(byte, at);
                    at += 3;
                }
                None => {
                    view.push(bytes[at], at);
                    at += 1;
                }
            }
        }
        view.search(scan, end);
    }
}

/// The byte that is escaped at `at`.
fn escaped(bytes: &[u8], at: usize) -> Option<u8> {
    let digits = bytes.get(at..at + 3)?.strip_prefix(b"%")?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(digits[0])? * 16 + digit(digits[1])?) as u8)
}

/// Searches the text without its backslashes: JSON or a literal that was written into a text.
pub(super) fn backslashes(scan: &mut Scan<'_>) {
    let bytes = scan.bytes;
    let has = |part: &str| memchr::memmem::find(bytes, part.as_bytes()).is_some();
    if scan.depth >= MAX_DEPTH
        || memchr::memchr(b'\\', bytes).is_none()
        || !(has("\\\"") || has("\\n") || has("\\u00") || has("\\/") || has("\\x"))
    {
        return;
    }
    let mut view = View::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied().filter(|_| *byte == b'\\');
        match next {
            Some(b'"' | b'\'' | b'\\' | b'/' | b'`') => {
                view.push(bytes[at + 1], at);
                at += 2;
            }
            Some(b'n' | b'r' | b't') => {
                view.push(b'\n', at);
                at += 2;
            }
            Some(b'u' | b'x') => match code_point(&bytes[at + 1..]) {
                Some((ascii, length)) => {
                    view.push(ascii, at);
                    at += 1 + length;
                }
                None => {
                    view.push(*byte, at);
                    at += 1;
                }
            },
            _ => {
                view.push(*byte, at);
                at += 1;
            }
        }
    }
    view.search(scan, bytes.len());
}

/// The ASCII character of `u0041` or `x41`, and the length of that.
fn code_point(text: &[u8]) -> Option<(u8, usize)> {
    let length = if text.first() == Some(&b'u') { 5 } else { 3 };
    let digits = std::str::from_utf8(text.get(1..length)?).ok()?;
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
    (0x20..0x7f).contains(&code).then_some((code as u8, length))
}

/// Is a place inside of data?
pub(super) fn is_inside(data: &[Range<usize>], at: usize) -> bool {
    let next = data.partition_point(|span| span.end <= at);
    data.get(next).is_some_and(|span| span.start < at)
}
