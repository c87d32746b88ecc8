//! Frames as they can be read in the log, at level `trace`.
//!
//! Bodies may hold whatever a program or a tool put into them, so values under telling keys and
//! texts that look like credentials are masked, and long texts are cut. This is for reading along
//! while debugging; what is stored or sent passes the trace sanitizer instead.

use pml_wire::Frame;
use serde_json::Value;
use tracing::{Level, enabled, trace};

/// Longest text that is shown.
const TEXT_CHARS: usize = 200;
/// Longest body that is shown.
const BODY_CHARS: usize = 4000;
/// Bodies over this size are not parsed just to be read.
const PARSE_BYTES: usize = 256 * 1024;

const SECRET_KEYS: [&str; 9] =
    ["password", "passwd", "secret", "token", "api_key", "apikey", "authorization", "cookie", "private_key"];
const SECRET_STARTS: [&str; 12] =
    ["sk-", "sk_", "ghp_", "gho_", "ghs_", "github_pat_", "xox", "AKIA", "eyJ", "Bearer ", "Basic ", "-----BEGIN"];

/// Writes one frame to the log, if anybody reads it.
pub(super) fn log(direction: &'static str, frame: &Frame) {
    if enabled!(Level::TRACE) {
        let body = readable(&frame.body);
        trace!(direction, kind = ?frame.kind, id = frame.id, bytes = frame.body.len(), body, "frame");
    }
}

fn readable(body: &[u8]) -> String {
    if body.len() > PARSE_BYTES {
        return "(large)".to_owned();
    }
    match serde_json::from_slice::<Value>(body) {
        Ok(mut value) => {
            mask(&mut value);
            let text = value.to_string();
            shorten(&text, BODY_CHARS)
        }
        Err(_) if body.is_empty() => String::new(),
        Err(_) => "(not JSON)".to_owned(),
    }
}

fn mask(value: &mut Value) {
    match value {
        Value::String(text) => *text = mask_text(text),
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::Object(members) => {
            for (key, member) in members {
                let key = key.to_lowercase().replace('-', "_");
                let telling = SECRET_KEYS.iter().any(|secret| key == *secret || key.ends_with(&format!("_{secret}")));
                match member {
                    Value::String(text) if telling => *text = "[masked]".to_owned(),
                    member => mask(member),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn mask_text(text: &str) -> String {
    let secret = |word: &str| word.len() >= 16 && SECRET_STARTS.iter().any(|start| word.starts_with(start));
    if secret(text) {
        return "[masked]".to_owned();
    }
    let mut masked = text.to_owned();
    for word in text.split(|c: char| c.is_whitespace() || "\"'`,;()[]{}<>=".contains(c)) {
        if secret(word) {
            masked = masked.replace(word, "[masked]");
        }
    }
    shorten(&masked, TEXT_CHARS)
}

fn shorten(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn secrets_are_masked_and_the_rest_is_readable() {
        let long = "x".repeat(500);
        let table = [
            (r#"{"args":{"path":"/a"}}"#, r#"{"args":{"path":"/a"}}"#),
            (r#"{"password":"hunter2"}"#, r#"{"password":"[masked]"}"#),
            (r#"{"X-Api-Key":"1"}"#, r#"{"X-Api-Key":"[masked]"}"#),
            (r#"{"max_tokens":5,"author":"a"}"#, r#"{"max_tokens":5,"author":"a"}"#),
            (r#"{"code":"f('ghp_0123456789abcdef')"}"#, r#"{"code":"f('[masked]')"}"#),
            (r#"["Bearer abcdefghijklmnop"]"#, r#"["[masked]"]"#),
            ("", ""),
            ("{", "(not JSON)"),
        ];
        for (body, expected) in table {
            assert_eq!(readable(body.as_bytes()), expected, "{body}");
        }
        assert!(readable(format!("[{long:?}]").as_bytes()).len() < 300);
        assert_eq!(readable(&[b' '; 300 * 1024]), "(large)");
    }
}
