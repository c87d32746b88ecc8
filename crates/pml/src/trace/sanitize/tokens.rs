//! Tokens that are known by their structure rather than by their first letters: JWT, Discord, Telegram, Azure and others.

use std::ops::Range;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{
    finding::Kind,
    shape::{ALNUM, ANY_HEX, AZURE, Class, DASH, DASH_PAD, DIGIT, HEX, LONG, Mix, UNPADDED, is_random, starts_token},
};

/// Marks inside or at the end of tokens, for the automaton, with what finds the token around them.
pub(super) const MARKS: &[(&str, Around)] = &[
    ("Q~", azure_client_secret),
    ("AZDO", azure_devops),
    ("JQQJ99", azure_key),
    ("+ASt", azure_key_of_64_bytes),
    ("+ABa", azure_key_of_64_bytes),
    ("+AMC", azure_key_of_64_bytes),
    ("ACDb", azure_key_of_64_bytes),
    ("APIM", azure_key_of_64_bytes),
    ("+AEh", azure_key_of_32_bytes),
    ("+ASb", azure_key_of_32_bytes),
    ("+ARm", azure_key_of_32_bytes),
    ("AIoT", azure_key_of_32_bytes),
    ("AzCa", azure_key_of_32_bytes),
    ("AzEG", azure_key_of_32_bytes),
    ("+ACR", azure_password),
    ("AzSe", azure_password),
    ("AzFu", azure_function_key),
    (".atlasv1.", terraform),
    ("_mmk", maxmind),
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

/// A key in base64 with a mark in its last bytes. It is as long as its last characters leave no choice, so what stands in
/// front, be it `=` or the slash of a path, does not matter.
fn azure_key_of(
    bytes: &[u8],
    at: usize,
    length: usize,
    padding: &[u8],
    kind: &'static str,
) -> Option<(Range<usize>, Kind)> {
    let tail = UNPADDED.run(bytes, at + 1, 12);
    bytes.get(tail..)?.starts_with(padding).then_some(())?;
    let end = tail + padding.len();
    let start = end.checked_sub(length)?;
    (start < at && bytes[start..at].iter().all(|byte| UNPADDED.has(*byte))).then(|| (start..end, Kind::secret(kind)))
}

fn azure_key_of_64_bytes(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    azure_key_of(bytes, at, 88, b"==", "azure-storage-key")
}

fn azure_key_of_32_bytes(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    azure_key_of(bytes, at, 44, b"=", "azure-key")
}

/// A registry password or a search key: 42 letters and digits, the mark, and six more.
fn azure_password(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    let start = at.checked_sub(42)?;
    let end = ALNUM.run(bytes, at + 4, 6);
    let is_key = end == at + 10
        && !bytes.get(end).is_some_and(u8::is_ascii_alphanumeric)
        && bytes[start..at].iter().all(|byte| UNPADDED.has(*byte));
    is_key.then(|| (start..end, Kind::secret("azure-key")))
}

fn azure_function_key(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    let start = around(bytes, at, DASH, 44).start;
    let end = DASH.run(bytes, at + 4, 8);
    let padded = end + bytes[end..].iter().take(2).take_while(|byte| **byte == b'=').count();
    (at - start >= 42 && (5..=7).contains(&(end - at - 4))).then(|| (start..padded, Kind::secret("azure-function-key")))
}

/// The id in front of `.atlasv1.` and the secret behind it.
fn terraform(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    let start = around(bytes, at, ALNUM, 20).start;
    let secret = at + ".atlasv1.".len();
    let end = DASH_PAD.run(bytes, secret, 128);
    (at - start >= 10 && end - secret >= 50).then(|| (start..end, Kind::secret("terraform-token")))
}

/// `{6}_{29}_mmk`
fn maxmind(bytes: &[u8], at: usize) -> Option<(Range<usize>, Kind)> {
    let start = at.checked_sub(36)?;
    let is_key = bytes[start + 6] == b'_'
        && ALNUM.run(bytes, start, 6) == start + 6
        && ALNUM.run(bytes, start + 7, 29) == at
        && starts_token(bytes, start);
    is_key.then(|| (start..at + 4, Kind::secret("maxmind-key")))
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
    // Of European accounts, `eu01xx` is the beginning.
    let left = bytes[..at].iter().rev().take(64).take_while(|byte| ALNUM.has(**byte)).count();
    let end = at + 4;
    let span = at - left..end;
    let is_key = left == 36 && (ANY_HEX.run(bytes, span.start, 36) == at || bytes[span.start..].starts_with(b"eu01xx"));
    is_key.then(|| (span.start..end, Kind::secret("new-relic-key")))
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

/// A token without prefix or mark: the lengths of its parts tell. `segment` is a run of letters, digits, `-` and `_`.
pub(super) fn shaped(bytes: &[u8], segment: &Range<usize>) -> Option<(Range<usize>, Kind)> {
    let text = &bytes[segment.clone()];
    match text.len() {
        23..=28 => discord(bytes, segment).map(|span| (span, Kind::secret("discord-token"))),
        50 if rapidapi(text) => Some((segment.clone(), Kind::secret("rapidapi-key"))),
        50 if mailgun(text) => Some((segment.clone(), Kind::secret("mailgun-key"))),
        48..=50 if ngrok(text) => Some((segment.clone(), Kind::secret("ngrok-token"))),
        _ => None,
    }
}

/// A Discord token, whose first part, the user's id in base64, ends at `first.end`.
fn discord(bytes: &[u8], first: &Range<usize>) -> Option<Range<usize>> {
    let is_id = matches!(bytes[first.start], b'M' | b'N' | b'O');
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
fn rapidapi(run: &[u8]) -> bool {
    let is_there = |mark: &[u8], range: Range<usize>| {
        run.get(range).is_some_and(|part| part.windows(3).any(|three| three == mark))
    };
    run.len() == 50 && Mix::of(run).digits > 4 && is_there(b"msh", 8..14) && is_there(b"jsn", 24..40)
}

/// A Mailgun key: 32 hexadecimal digits, and twice eight more.
fn mailgun(run: &[u8]) -> bool {
    let part = |range: Range<usize>| run[range].iter().all(|byte| HEX.has(*byte));
    run[32] == b'-' && run[41] == b'-' && part(0..32) && part(33..41) && part(42..50) && is_random(run)
}

/// An ngrok token: the time in base62, which begins with 1 to 3 for decades, and a secret.
fn ngrok(run: &[u8]) -> bool {
    let part = |text: &[u8]| is_random(text) && text.iter().all(|byte| ALNUM.has(*byte));
    matches!(run[0], b'1'..=b'3') && run[27] == b'_' && part(&run[..27]) && part(&run[28..])
}
