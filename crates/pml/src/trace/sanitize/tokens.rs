//! Tokens that are known by their structure rather than by their first letters: JWT, Discord, Telegram, Azure and others.

use std::ops::Range;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{
    finding::Kind,
    shape::{ALNUM, AZURE, BASE64, Class, DASH, DIGIT, HEX, LONG, LOWER, Mix, is_random, starts_token},
};

/// Marks inside or at the end of tokens, for the automaton, with what finds the token around them.
pub(super) const MARKS: &[(&str, Around)] = &[
    ("Q~", azure_client_secret),
    ("AZDO", azure_devops),
    ("JQQJ99", azure_key),
    ("+ASt", azure_storage_key),
    ("AzFu", azure_function_key),
    ("-us", mailchimp),
    (":AA", telegram),
    ("NRAL", new_relic_license),
    ("$2a$", password_hash),
    ("$2b$", password_hash),
    ("$2y$", password_hash),
    ("$argon2", password_hash),
    ("$6$", password_hash),
    ("$5$", password_hash),
    ("$1$", password_hash),
    ("$pbkdf2", password_hash),
    ("pbkdf2_sha256$", password_hash),
];

/// Finds a token around a mark: the text, and where the mark begins.
pub(super) type Around = fn(&[u8], usize) -> Option<(Range<usize>, Kind)>;

/// The run of a class around a mark.
fn around(bytes: &[u8], at: usize, class: Class, most: usize) -> Range<usize> {
    let left = bytes[..at].iter().rev().take(most).take_while(|byte| class.has(**byte)).count();
    at - left..class.run(bytes, at, most)
}

fn azure_client_secret(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    let start = at.checked_sub(4)?;
    let end = AZURE.run(bytes, at, 64);
    let is_secret = DIGIT.has(bytes[at - 1])
        && (30..=42).contains(&(end - at))
        && AZURE.run(bytes, start, 4) == at
        && starts_token(bytes, start);
    is_secret.then(|| (start..end, Kind::secret("azure-client-secret")))
}

fn azure_devops(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    let span = around(bytes, at, ALNUM, 128);
    (span.len() == 84).then(|| (span, Kind::secret("azure-devops-token")))
}

fn azure_key(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    let span = around(bytes, at, ALNUM, 128);
    (span.len() >= 80).then(|| (span, Kind::secret("azure-key")))
}

fn azure_storage_key(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    let span = around(bytes, at, BASE64, 128);
    (span.len() == 88).then(|| (span, Kind::secret("azure-storage-key")))
}

fn azure_function_key(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    let span = around(bytes, at, super::shape::ANY_BASE64, 128);
    ((52..=60).contains(&span.len())).then(|| (span, Kind::secret("azure-function-key")))
}

fn mailchimp(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    let start = at.checked_sub(32)?;
    let end = DIGIT.run(bytes, at + 3, 3);
    let is_key = HEX.run(bytes, start, 32) == at && end > at + 3 && starts_token(bytes, start);
    is_key.then(|| (start..end, Kind::secret("mailchimp-key")))
}

fn telegram(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    let left = bytes[..at].iter().rev().take(11).take_while(|byte| byte.is_ascii_digit()).count();
    let end = DASH.run(bytes, at + 1, 64);
    let start = at - left;
    let is_start = starts_token(bytes, start) || bytes[..start].ends_with(b"bot");
    ((8..=10).contains(&left) && (33..=37).contains(&(end - at - 1)) && is_start)
        .then(|| (start..end, Kind::secret("telegram-token")))
}

fn new_relic_license(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    let span = around(bytes, at, LOWER, 64);
    let end = at + 4;
    (at - span.start == 36).then(|| (span.start..end, Kind::secret("new-relic-key")))
}

fn password_hash(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    if at > 0 && bytes[at - 1] == b'$' {
        return None;
    }
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"$./+=,_-".contains(byte);
    let length = bytes[at..].iter().take(512).take_while(|byte| is_part(byte)).count();
    let fields = bytes[at..at + length].iter().filter(|byte| **byte == b'$').count();
    (length >= 34 && fields >= 2 && starts_token(bytes, at)).then(|| (at..at + length, Kind::secret("password-hash")))
}

/// The JSON web token that begins with the `eyJ` at `at`: header, claims and signature, or five parts if it is encrypted.
pub(super) fn jwt(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    // Only the first `eyJ` of a run can begin a token; the others would each look at the same bytes again.
    if at > 0 && DASH.has(bytes[at - 1]) && !starts_token(bytes, at) {
        return None;
    }
    let header_end = DASH.run(bytes, at, LONG);
    let header = decoded(&bytes[at..header_end])?;
    let is_header = header.starts_with(b"{\"")
        && [b"\"alg\"".as_slice(), b"\"typ\"", b"\"enc\"", b"\"kid\"", b"\"cty\""]
            .iter()
            .any(|name| header.windows(name.len()).any(|part| part == *name));
    let mut end = header_end;
    let mut parts = 1;
    while parts < 5 && bytes.get(end) == Some(&b'.') {
        end = DASH.run(bytes, end + 1, LONG);
        parts += 1;
    }
    let claims = bytes.get(header_end + 1..).is_some_and(|rest| rest.starts_with(b"eyJ"));
    let end = if bytes[end - 1] == b'.' && parts < 3 { end - 1 } else { end };
    (parts >= 2 && end > header_end + 8 && (is_header || claims)).then_some(at..end)
}

fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let whole = text.len().min(1024) / 4 * 4;
    let take = if text.len() <= 1024 { text.len() } else { whole };
    URL_SAFE_NO_PAD.decode(&text[..take]).or_else(|_| URL_SAFE_NO_PAD.decode(&text[..whole])).ok()
}

/// A Discord token, whose first part, the user's id in base64, ends at `first.end`.
pub(super) fn discord(bytes: &[u8], first: &Range<usize>) -> Option<Range<usize>> {
    let is_id = (23..=28).contains(&first.len()) && matches!(bytes[first.start], b'M' | b'N' | b'O');
    let second = first.end + 1;
    let dot = DASH.run(bytes, second, 8);
    let end = DASH.run(bytes, dot + 1, 48);
    let is_token = is_id
        && bytes.get(first.end) == Some(&b'.')
        && bytes.get(dot) == Some(&b'.')
        && (5..=7).contains(&(dot - second))
        && end - dot > 25;
    (is_token && starts_token(bytes, first.start) && is_random(&bytes[first.start..end])).then_some(first.start..end)
}

/// A RapidAPI key: 50 letters and digits with `msh` and `jsn` in them.
pub(super) fn rapidapi(run: &[u8]) -> bool {
    let is_there = |mark: &[u8], range: Range<usize>| {
        run.get(range).is_some_and(|part| part.windows(3).any(|three| three == mark))
    };
    run.len() == 50 && Mix::of(run).digits > 4 && is_there(b"msh", 8..14) && is_there(b"jsn", 24..40)
}
