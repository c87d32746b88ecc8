//! Whether the value behind a name is a secret: what is quoted is a literal, and what is not may be one
//! (`DB_PASSWORD=swordfish`) or an expression of a program (`password = read()`).

use std::ops::Range;

use super::{
    bounds::Value,
    finding::Kind,
    joint::Joint,
    keys::{Strength, Telling},
    names::is_upper_name,
    shape::{is_random, is_uuid},
    value::{has_signs, is_placeholder, is_prose, is_reference, is_secret, is_short_word, is_strong, is_technical},
};

pub(super) fn is_literal_secret(telling: &Telling, text: &str, joint: Joint) -> bool {
    match joint {
        // `get("password", "name")`: which literal is what cannot be known.
        Joint::Literal | Joint::Beside | Joint::Cell => {
            is_secret(telling, text)
                && (has_signs(text) && !text.contains(' ') || is_random(text.as_bytes()))
                && text.len() >= 5
                && !is_technical(text)
        }
        Joint::Element if telling.strength == Strength::Weak && text.contains(['/', '.']) => false,
        Joint::Element => is_secret(telling, text) && !text.contains("](") && !text.contains('{'),
        Joint::Is => is_secret(telling, text),
        _ => is_secret(telling, text) && !is_code(text),
    }
}

pub(super) fn is_bare_secret(all: &str, telling: &Telling, value: &Value, joint: Joint, name: &Range<usize>) -> bool {
    let bytes = all.as_bytes();
    let text = all.get(value.span.clone()).unwrap_or_default().trim_end_matches(['.', ':', '?', '!']);
    if text.is_empty()
        || is_placeholder(text)
        || is_code(text)
        || text.starts_with(['{', '[', '(', '&', '<', '$']) && !has_signs(text)
        || text.starts_with('$')
            && text[1..].bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'-'))
    {
        return false;
    }
    let is_password = telling.kind == Kind::secret("password")
        || telling.kind == Kind::secret("password-hash")
        || telling.kind == Kind::secret("code");
    let next = bytes.get(value.span.end).copied().unwrap_or(b'\n');
    // In a sentence there are no members, so `kJ3.xYz` is none.
    let is_sentence = matches!(joint, Joint::Is | Joint::Beside);
    if !(is_sentence && is_strong(text) && next != b'(') && is_expression(text, next)
        || is_reference(text) && !is_password
    {
        return false;
    }
    let own = all.get(name.clone()).unwrap_or_default();
    if joint == Joint::Loose && (text == own || own.rsplit('.').next() == Some(text)) {
        return false; // `self.token = token`
    }
    if telling.strength == Strength::Weak {
        return matches!(joint, Joint::Tight | Joint::Colon | Joint::Loose | Joint::Flag | Joint::Is)
            && is_secret(telling, text)
            && (joint != Joint::Is || text.bytes().any(|byte| byte.is_ascii_digit()));
    }
    let before = name.start.checked_sub(1).map(|index| bytes[index]);
    let is_upper = is_upper_name(&bytes[name.clone()]);
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && (!is_password || text.len() < 4) {
        return text.len() >= 16 && telling.strength == Strength::Certain;
    }
    // Where only literals can stand.
    let is_config = joint == Joint::Tight
        && (is_upper
            || matches!(before, Some(b'?' | b'&' | b';'))
            || matches!(next, b'&' | b';' | b' ' | b'\n' | b'\r' | b'"' | b'\'' | b'\\'))
        || joint == Joint::Flag;
    match joint {
        Joint::Literal | Joint::Cell => false,
        Joint::Beside | Joint::Is if is_technical(text) => false,
        Joint::Beside | Joint::Is if is_uuid(text.as_bytes()) => joint == Joint::Is && !is_password,
        Joint::Beside | Joint::Is => match is_password {
            true => {
                has_signs(text) && text.len() >= 5 && (joint == Joint::Is || is_netrc(all, name)) || is_strong(text)
            }
            false => {
                is_random(text.as_bytes()) && (!text.contains(['/', ':']) || text.len() >= 32 && !text.contains("//"))
                    || is_strong(text)
            }
        },
        _ if is_config => {
            let is_metavariable = joint == Joint::Flag
                && (text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
                    || is_plain_word(text) && !is_password);
            let is_same = text.eq_ignore_ascii_case(all.get(name.clone()).unwrap_or_default().trim_start_matches('-'));
            !is_metavariable
                && !is_same
                && (is_password
                    || telling.strength == Strength::Certain && text.len() >= 6
                    || !is_short_word(text) && text.len() >= 6)
                && !text.starts_with('-')
        }
        // YAML, headers, logs: the value ends with the line, or has signs of a secret.
        Joint::Colon => match is_plain_word(text) || is_short_word(text) {
            true => {
                is_password
                    && telling.strength == Strength::Certain
                    && matches!(next, b'\n' | b'\r')
                    && is_line_start(bytes, name.start)
                    && !is_prose(text)
            }
            false => {
                let is_declared = !is_password && matches!(next, b',' | b')' | b';') && is_type_name(text);
                has_signs(text) && text.len() >= 4 && !is_type(text) && !is_declared || is_random(text.as_bytes())
            }
        },
        // Code: a bare value is an expression, unless it could not be one.
        _ => {
            let is_identifier =
                text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$'))
                    && !text.as_bytes()[0].is_ascii_digit();
            match is_identifier {
                true => {
                    let is_statement = matches!(next, b')' | b',' | b';' | b'(' | b'[');
                    is_random(text.as_bytes())
                        || has_signs(text) && !is_statement && text.len() >= 5 && is_line_start(bytes, name.start)
                        || is_strong(text) && !is_statement && follows_adjective(bytes, name.start)
                }
                false => has_signs(text) && text.len() >= 5,
            }
        }
    }
}

/// A template or a call inside of quotes: `"${token}"`, `"Bearer " + token`.
fn is_code(text: &str) -> bool {
    text.contains("${") || text.contains("{{") || text.starts_with('{') && text.ends_with('}')
}

/// `login bob password hunter2`, as .netrc has it.
fn is_netrc(all: &str, name: &Range<usize>) -> bool {
    let before = &all[all.floor_char_boundary(name.start.saturating_sub(64))..name.start];
    let last = before.trim_end().rsplit(' ').next().unwrap_or_default();
    ["login ", "user ", "username ", "machine "].iter().any(|word| before.contains(word))
        || matches!(last, "" | "with" | "the" | "and" | "use" | "using" | "und" | "et" | "y" | "mit" | "avec" | "con")
}

/// One word of letters.
fn is_plain_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'-')
}

/// `Option<String>`, `string[]`, `Vec<u8>`, `u64`
fn is_type(text: &str) -> bool {
    text.contains('<')
        || text.starts_with('&') && text[1..].starts_with(|c: char| c == '[' || c == '\'' || c.is_ascii_alphabetic())
        || text.starts_with("__")
        || text.ends_with("[]")
        || matches!(
            text,
            "u8" | "u16"
                | "u32"
                | "u64"
                | "i32"
                | "i64"
                | "f32"
                | "f64"
                | "int32"
                | "int64"
                | "uint64"
                | "oauth2"
                | "base64"
                | "sha256"
                | "utf8"
                | "h2"
        )
}

/// Could this be the name of a type: `Sse2`, `nl80211_pattern_support`?
fn is_type_name(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_camel = text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.trim_end_matches(|c: char| c.is_ascii_digit()).bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_snake = text.contains('_')
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && digits * 3 < text.len();
    is_camel && digits <= 2 || is_snake
}

/// `api key = …`: is there a word in front that is none of a program?
fn follows_adjective(bytes: &[u8], start: usize) -> bool {
    let head = &bytes[start.saturating_sub(16)..start];
    let Some(head) = head.strip_suffix(b" ") else { return false };
    let word = head.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let word = &head[head.len() - word..];
    [
        b"api".as_slice(),
        b"access",
        b"auth",
        b"secret",
        b"client",
        b"API",
        b"my",
        b"the",
        b"private",
        b"bearer",
        b"refresh",
    ]
    .contains(&word)
}

/// A call, an index, a member of something: what programs write.
fn is_expression(text: &str, next: u8) -> bool {
    let bytes = text.as_bytes();
    if matches!(next, b'(' | b'[')
        || text.contains("![")
        || text.contains("!(")
        || text.contains(['(', '['])
            && !text.starts_with(['(', '['])
            && bytes[0].is_ascii_alphabetic()
            && text
                .bytes()
                .take_while(|byte| !matches!(byte, b'(' | b'['))
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
    {
        return true;
    }
    let mut parts = text.split(['.', ':']).filter(|part| !part.is_empty());
    let is_member = text.contains('.') || text.contains("::");
    is_member
        && parts.all(|part| {
            part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte == b'?')
                && !part.as_bytes()[0].is_ascii_digit()
                && !is_random(part.as_bytes())
        })
        && text.bytes().filter(u8::is_ascii_digit).count() < 3
}

/// Does the name stand at the beginning of a line, behind nothing but spaces, dashes, quotes or `export`?
fn is_line_start(bytes: &[u8], start: usize) -> bool {
    let head = &bytes[start.saturating_sub(32)..start];
    let line = head.iter().rposition(|byte| *byte == b'\n').map_or(head, |at| &head[at + 1..]);
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'-' | b'"' | b'\'' | b'*'))
        || line.ends_with(b"export ")
        || line.ends_with(b"ENV ")
        || line.ends_with(b"set ")
}
