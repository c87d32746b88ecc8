//! Passes over values in JSON text that is known to be valid.
//!
//! **Invariant:** linear and without recursion. Text that is not valid gives wrong places, never a panic.

use memchr::memchr2;

/// A place in the text behind any white space.
pub(super) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// The place behind the value that begins at `at`.
pub(super) fn skip_value(text: &[u8], at: usize) -> usize {
    match text.get(at) {
        Some(b'"') => skip_string(text, at),
        Some(b'[' | b'{') => skip_container(text, at),
        _ => {
            let rest = &text[at.min(text.len())..];
            let end = rest.iter().position(|byte| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r'));
            at + end.unwrap_or(rest.len())
        }
    }
}

/// The place behind the string that begins at `at`.
fn skip_string(text: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(found) = memchr2(b'"', b'\\', &text[at.min(text.len())..]) {
        at += found;
        match text[at] {
            b'"' => return at + 1,
            // Whatever is escaped is not the end.
            _ => at += 2,
        }
    }
    text.len()
}

fn skip_container(text: &[u8], at: usize) -> usize {
    let (mut at, mut depth) = (at, 0_usize);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = skip_string(text, at);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// The elements of the array that begins at `at`: where each begins. An element is passed over when the next one is asked
/// for.
pub(super) fn elements(text: &[u8], at: usize) -> impl Iterator<Item = usize> {
    let mut last = None;
    std::iter::from_fn(move || {
        let next = match last {
            None => skip_space(text, at + 1),
            Some(last) => behind_comma(text, skip_value(text, last)),
        };
        last = Some(next);
        (!matches!(text.get(next), None | Some(b']'))).then_some(next)
    })
    .fuse()
}

/// The entries of the object that begins at `at`: where the key and the value of each begin. A value is passed over when
/// the next entry is asked for.
pub(super) fn entries(text: &[u8], at: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut last = None;
    std::iter::from_fn(move || {
        let key = match last {
            None => skip_space(text, at + 1),
            Some(last) => behind_comma(text, skip_value(text, last)),
        };
        // Behind the key and its colon.
        let value = skip_space(text, skip_space(text, skip_value(text, key)) + 1);
        last = Some(value);
        (!matches!(text.get(key), None | Some(b'}'))).then_some((key, value))
    })
    .fuse()
}

/// The place of what follows a value, behind its comma if there is one.
fn behind_comma(text: &[u8], end: usize) -> usize {
    let end = skip_space(text, end);
    match text.get(end) {
        Some(b',') => skip_space(text, end + 1),
        _ => end,
    }
}

/// Is the key at `at`, a JSON string, this one?
pub(super) fn is_key(text: &str, at: usize, wanted: &str) -> bool {
    let key = text.get(at..skip_string(text.as_bytes(), at)).unwrap_or_default();
    match key.contains('\\') {
        false => key.get(1..key.len().saturating_sub(1)) == Some(wanted),
        true => serde_json::from_str::<String>(key).is_ok_and(|key| key == wanted),
    }
}
