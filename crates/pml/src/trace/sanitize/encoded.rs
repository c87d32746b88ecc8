//! Secrets in wrappers: base64, hexadecimal digits, percent escapes, backslash escapes, HTML entities, colours of terminals,
//! and literals that a program joins.
//!
//! The inside is searched like any other text, to a bounded depth. Escapes keep their places, so only the secret goes. A
//! run of base64 with a secret inside goes as a whole, unless it is long: then it is encoded again without the secret.
//! Long base64 of anything but text (images, archives) is data, and what begins inside of it is no finding, unless its form
//! leaves no doubt. A path is no base64: `-` and `_` are not in the alphabet of `/` and `+`.

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
const MIN_DATA: usize = 512;
/// Longest run that is replaced as a whole.
const MAX_REPLACED: usize = 1024;
/// How many wrappers deep a secret is looked for.
const MAX_DEPTH: usize = 3;
/// Lengths of lines into which mails and tools wrap base64.
const WRAPPED: std::ops::RangeInclusive<usize> = 56..=80;

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
        at = match wrapped(scan, start..end) {
            Some(end) => end,
            None => {
                if end - start >= MIN_RUN {
                    run(scan, start..end);
                }
                end
            }
        };
    }
}

/// Base64 of a text in lines of one length; where it ends.
fn wrapped(scan: &mut Scan<'_>, first: Range<usize>) -> Option<usize> {
    let bytes = scan.bytes;
    let width = first.len();
    let newline = |at: usize| match bytes.get(at..).unwrap_or_default() {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        _ => 0,
    };
    (WRAPPED.contains(&width) && newline(first.end) > 0 && scan.depth < MAX_DEPTH).then_some(())?;
    // The first line alone tells most of what is wrapped: keys, certificates, images.
    let head = STANDARD.decode(&bytes[first.clone()][..width / 4 * 4]).ok()?;
    is_text(&head).then_some(())?;
    let mut joined = bytes[first.clone()].to_vec();
    let mut end = first.end;
    while newline(end) > 0 {
        let start = end + newline(end);
        let line = RUN.run(bytes, start, width);
        let padded = line + bytes[line..].iter().take(2).take_while(|byte| **byte == b'=').count();
        let is_whole = padded >= bytes.len() || newline(padded) > 0 || !RUN.has(bytes[padded]);
        if line == start || !is_whole {
            break;
        }
        joined.extend_from_slice(&bytes[start..line]);
        end = padded;
        if line - start < width {
            break;
        }
    }
    let inside = text_of(STANDARD.decode(&joined).ok()?)?;
    let findings = scan::findings(&inside, scan.rules, scan.depth + 1);
    if let Some(first_found) = findings.first() {
        let kind = match end - first.start <= MAX_REPLACED {
            true => known(&first_found.kind),
            false => {
                let clean = STANDARD.encode(finding::apply(&inside, &findings));
                let lines: Vec<&str> =
                    clean.as_bytes().chunks(width).filter_map(|line| std::str::from_utf8(line).ok()).collect();
                Kind::Rewritten(lines.join("\n"))
            }
        };
        scan.add(first.start..end, kind);
    }
    Some(end)
}

fn run(scan: &mut Scan<'_>, mut span: Range<usize>) {
    // The end of an escape, `\n` or `%3D`, is no part of the run.
    span.start += match span.start.checked_sub(1).map(|before| scan.bytes[before]) {
        Some(b'\\') => 1,
        Some(b'%') => 2,
        _ => 0,
    };
    let bytes = scan.bytes;
    let run = &bytes[span.clone()];
    let is_standard = run.iter().any(|byte| matches!(byte, b'+' | b'/'));
    let is_url_safe = run.iter().any(|byte| matches!(byte, b'-' | b'_'));
    if is_standard || run.len() <= 64 {
        for segment in segments(bytes, &span, b"+/") {
            if let Some((token, kind)) = tokens::shaped(bytes, &segment) {
                scan.add(token, kind);
            }
        }
    }
    let is_found = !(is_standard && is_url_safe) && look_inside(scan, span.clone());
    if is_found {
        return;
    }
    // A step of a path may be base64 too, and so may what follows a sign of a diff.
    if is_standard {
        for segment in segments(bytes, &span, b"/") {
            if segment.len() >= 24 && segment != span {
                look_inside(scan, segment);
            }
        }
    }
    if run.len() >= MIN_DATA && !(is_standard && is_url_safe) {
        scan.data.push(span);
    }
}

/// The parts of a run between separators.
fn segments(bytes: &[u8], span: &Range<usize>, separators: &[u8]) -> Vec<Range<usize>> {
    let mut segments = Vec::new();
    let mut start = span.start;
    for at in span.clone() {
        if separators.contains(&bytes[at]) {
            if at - start >= MIN_RUN {
                segments.push(start..at);
            }
            start = at + 1;
        }
    }
    if span.end - start >= MIN_RUN {
        segments.push(start..span.end);
    }
    segments
}

/// Searches what a run holds; `false` if it holds no text.
fn look_inside(scan: &mut Scan<'_>, span: Range<usize>) -> bool {
    let run = &scan.bytes[span.clone()];
    let is_hex = run.len() >= 32 && run.len().is_multiple_of(2) && run.iter().all(u8::is_ascii_hexdigit);
    if is_hex
        && let Some(inside) = text_of(unhexed(&run[..run.len().min(32)])).and_then(|_| text_of(unhexed(run)))
        && scan.depth < MAX_DEPTH
    {
        if let Some(first) = scan::findings(&inside, scan.rules, scan.depth + 1).first() {
            let kind = known(&first.kind);
            scan.add(span, kind);
        }
        return true;
    }
    let engine = if run.iter().any(|byte| matches!(byte, b'-' | b'_')) { &URL_SAFE } else { &STANDARD };
    let head = engine.decode(&run[..run.len().min(64) / 4 * 4]).unwrap_or_default();
    if !is_text(&head) && narrowed(&head).is_none() {
        return false;
    }
    if scan.depth >= MAX_DEPTH {
        return true;
    }
    let Ok(decoded) = engine.decode(run) else { return true };
    let wide = narrowed(&decoded);
    let is_wide = wide.is_some();
    let Some(inside) = wide.or_else(|| text_of(decoded)) else { return true };
    let findings = scan::findings(&inside, scan.rules, scan.depth + 1);
    let Some(first) = findings.first() else { return true };
    let padded = span.end + scan.bytes[span.end..].iter().take(2).take_while(|byte| **byte == b'=').count();
    let kind = match span.len() <= MAX_REPLACED || is_wide {
        true => known(&first.kind),
        false => Kind::Rewritten(engine.encode(finding::apply(&inside, &findings))),
    };
    scan.add(span.start..padded, kind);
    true
}

/// The kind for a wrapper that goes as a whole.
fn known(kind: &Kind) -> Kind {
    match kind {
        Kind::Rewritten(_) => Kind::secret("encoded"),
        kind => kind.clone(),
    }
}

fn text_of(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok().filter(|text| is_text(text.as_bytes()))
}

fn unhexed(digits: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
    digits.chunks_exact(2).map(|pair| digit(pair[0]) * 16 + digit(pair[1])).collect()
}

/// The text of UTF-16 in which all is ASCII, as `powershell -enc` takes it.
fn narrowed(bytes: &[u8]) -> Option<String> {
    let is_wide = bytes.len() >= 16 && bytes.chunks_exact(2).all(|pair| pair[1] == 0 && pair[0].is_ascii());
    is_wide.then(|| bytes.chunks_exact(2).map(|pair| pair[0]).collect()).and_then(text_of)
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
        // Letters are escaped by those who hide something, and then many in a row are.
        let hides = |byte: u8| !byte.is_ascii_alphanumeric() || escaped(bytes, sign + 3).is_some();
        if sign < searched || !escaped(bytes, sign).is_some_and(hides) {
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

/// Searches the text without what is put around or into secrets to show them: colours of terminals, entities of HTML, and
/// the seams between literals, `"…" + "…"`.
pub(super) fn dressing(scan: &mut Scan<'_>) {
    let bytes = scan.bytes;
    // Only the outermost text: views of views of views would multiply the work.
    if scan.depth > 0 || !is_dressed(bytes) {
        return;
    }
    let mut view = View::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match *byte {
            0x1b | b'\\' if let Some(end) = colour_end(bytes, at) => at = end,
            b'&' if let Some((character, end)) = entity(bytes, at) => {
                view.push(character, at);
                at = end;
            }
            b'"' | b'\'' | b'`' if let Some(end) = seam_end(bytes, at) => at = end,
            byte => {
                view.push(byte, at);
                at += 1;
            }
        }
    }
    view.search(scan, bytes.len());
}

fn is_dressed(bytes: &[u8]) -> bool {
    let has = |part: &[u8]| memchr::memmem::find(bytes, part).is_some();
    let is_joined = || {
        memchr::memchr_iter(b'+', bytes).any(|plus| {
            let head = &bytes[plus.saturating_sub(32)..plus];
            let before = head.iter().rev().find(|byte| !byte.is_ascii_whitespace());
            matches!(before, Some(b'"' | b'\'' | b'`'))
        })
    };
    has(b"\x1b[")
        || has(b"\\033[")
        || has(b"\\e[")
        || has(b"\\x1b[")
        || has(b"\\u001b[")
        || memchr::memchr(b'&', bytes).is_some() && (has(b"&#") || has(b"&quot;"))
        || has(b"' . '")
        || is_joined()
}

/// Where the sequence ends that begins at `at` and tells a terminal something.
fn colour_end(bytes: &[u8], at: usize) -> Option<usize> {
    let starts: [&[u8]; 6] = [b"\x1b[", b"\\033[", b"\\e[", b"\\x1b[", b"\\u001b[", b"\\u001B["];
    let rest = bytes.get(at..)?;
    let start = starts.iter().find(|start| rest.starts_with(start))?.len();
    let length = rest[start..].iter().take(24).take_while(|byte| matches!(byte, b'0'..=b'?')).count();
    rest.get(start + length).filter(|last| (0x40..0x7f).contains(*last)).map(|_| at + start + length + 1)
}

/// The character of the entity that begins at `at`, and where it ends.
fn entity(bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    let rest = &bytes[at + 1..bytes.len().min(at + 10)];
    let length = rest.iter().position(|byte| *byte == b';')?;
    let name = std::str::from_utf8(&rest[..length]).ok()?;
    let code = match name {
        "quot" => 34,
        "apos" => 39,
        "amp" => 38,
        "lt" => 60,
        "gt" => 62,
        name => match name.strip_prefix('#')?.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => name[1..].parse().ok()?,
        },
    };
    (0x20..0x7f).contains(&code).then_some((code as u8, at + 1 + length + 1))
}

/// The place behind the quote that opens the next literal, if the one that closes at `at` is joined to it.
fn seam_end(bytes: &[u8], at: usize) -> Option<usize> {
    let blank = |from: usize| {
        from + bytes[from..].iter().take(48).take_while(|byte| byte.is_ascii_whitespace() || **byte == b'\\').count()
    };
    let sign = blank(at + 1);
    matches!(bytes.get(sign), Some(b'+' | b'.')).then_some(())?;
    let open = blank(sign + 1);
    matches!(bytes.get(open), Some(b'"' | b'\'' | b'`')).then_some(open + 1)
}

/// Is a place inside of data?
pub(super) fn is_inside(data: &[Range<usize>], at: usize) -> bool {
    let next = data.partition_point(|span| span.end <= at);
    data.get(next).is_some_and(|span| span.start < at)
}
