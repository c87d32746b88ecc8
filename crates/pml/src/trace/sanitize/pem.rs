//! Private keys in PEM and similar armour, also without their last line.

use std::ops::Range;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

/// The private key whose first line begins at `at`.
pub(super) fn private_key(text: &str, at: usize) -> Option<Range<usize>> {
    let label = text.get(at + BEGIN.len()..)?;
    let label = &label[..label.floor_char_boundary(64)];
    let close = label.as_bytes().windows(5).position(|bytes| bytes == b"-----")?;
    let label = label.get(..close)?;
    (label.contains("PRIVATE") || label.contains("OPENSSH KEY")).then_some(())?;
    let body = at + BEGIN.len() + close + 5;
    let rest = text.get(body..)?;
    let length = body_length(rest.as_bytes());
    let tail = &rest[rest.floor_char_boundary(length)..];
    let end = match tail.strip_prefix(END) {
        // To the end of the last line.
        Some(last) => {
            let last = last.as_bytes();
            let close = last
                .iter()
                .take(64)
                .position(|byte| *byte == b'-')
                .map_or(0, |start| start + last[start..].iter().take_while(|byte| **byte == b'-').count());
            body + length + END.len() + close
        }
        None => body + length,
    };
    Some(at..end)
}

/// How much belongs to the body: base64, line breaks in any spelling, and headers.
fn body_length(rest: &[u8]) -> usize {
    let mut at = 0;
    let mut end = 0;
    while let Some(byte) = rest.get(at) {
        match byte {
            b'-' if rest[at..].starts_with(END.as_bytes()) => return at,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'=' => {
                let word = rest[at..]
                    .iter()
                    .take_while(|byte| {
                        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b':' | b'-' | b',' | b'.')
                    })
                    .count();
                let is_line = at == 0
                    || matches!(rest[at - 1], b'\n' | b'\r')
                    || rest[..at].ends_with(b"\\n")
                    || rest[..at].ends_with(b"\\r");
                // A word of prose behind a key that has no end.
                let text = &rest[at..at + word];
                let is_word =
                    word < 16 && text.iter().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'.' | b'-'));
                let is_prose = !is_line || rest.get(at + word) == Some(&b' ');
                if is_word && is_prose && !follows_header(rest, at) {
                    return end;
                }
                let dashes = rest[at..at + word].windows(5).position(|bytes| bytes == b"-----");
                at += dashes.unwrap_or(word).max(1);
                end = at;
                if dashes == Some(0) {
                    return end;
                }
            }
            b'\n' | b'\r' | b' ' | b'\t' => at += 1,
            b'\\' if matches!(rest.get(at + 1), Some(b'n' | b'r' | b't' | b'\\')) => {
                at += if rest[at + 1] == b'\\' { 1 } else { 2 }
            }
            // `"…\n" +` in code: lines as literals.
            b'"' | b'\'' | b',' if rest[at..].iter().take(8).any(|byte| *byte == b'\n') => at += 1,
            _ => return end,
        }
    }
    end
}

/// Is the word behind `Version: ` or another header on the same line?
fn follows_header(rest: &[u8], at: usize) -> bool {
    let head = &rest[at.saturating_sub(64)..at];
    let line = head.iter().rposition(|byte| *byte == b'\n').map_or(head, |start| &head[start + 1..]);
    line.contains(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_with_and_without_its_end() {
        let body = "MIIEowIBAAKCAQEA7bq8Xy4k2Zp9\nQ1w2e3r4t5y6u7i8o9p0aSdFgHjK==";
        let begin = format!("{}RSA {} KEY-----", BEGIN, "PRIVATE");
        let whole = format!("{begin}\n{body}\n{END}RSA {} KEY-----", "PRIVATE");
        for (text, expected) in [
            (format!("x {whole} y"), 2..2 + whole.len()),
            (format!("{begin}\n{body}\nthe rest, of it"), 0..begin.len() + 1 + body.len()),
            (format!("{begin}\\n{}\\n", body.replace('\n', "\\n")), 0..begin.len() + 3 + body.len()),
        ] {
            let start = text.find(BEGIN).unwrap();
            let found = private_key(&text, start).unwrap();
            assert_eq!(found.start, expected.start, "{text}");
            assert!(found.end >= expected.end && found.end <= expected.end + 4, "{text:?} {found:?}");
        }
        assert_eq!(private_key(&format!("{BEGIN}CERTIFICATE-----\n{body}"), 0), None);
    }
}
