//! Names with values in running text: `password=…`, `"api_key": "…"`, `--token …`, `<password>…</password>`, headers, query
//! strings, connection strings, YAML, TOML and code.
//!
//! What is quoted is a literal. What is not may be one (`DB_PASSWORD=swordfish`) or an expression of a program
//! (`password = read()`), and the signs around it decide.

use std::ops::Range;

use super::{
    finding::Kind,
    headers,
    keys::{self, Strength, Telling},
    scan::Scan,
    shape::{Class, DOTTED, is_random, is_uuid},
    value::{has_signs, is_placeholder, is_prose, is_reference, is_secret, is_short_word},
};

const MAX_NAME: usize = 64;
/// Longest value that is looked for the end of.
const MAX_VALUE: usize = 4 * 1024;
const NAME: Class = DOTTED;

/// How a value is joined to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joint {
    /// `=`, with nothing around it.
    Tight,
    /// `=`, `=>`, `:=`, `==` in code.
    Loose,
    Colon,
    /// A flag and what follows it.
    Flag,
    /// `<name>`
    Element,
    /// `name, "…"`, `name("…"`, `name "…"`: only a literal counts.
    Literal,
    /// `name is …`
    Is,
    /// Words side by side.
    Beside,
}

/// A value and what surrounds it.
#[derive(Debug)]
struct Value {
    span: Range<usize>,
    is_quoted: bool,
}

/// Looks at the name around a stem, and at its value.
pub(super) fn find(scan: &mut Scan<'_>, stem: Range<usize>) {
    if stem.start < scan.names_until {
        return;
    }
    let bytes = scan.bytes;
    let name = name_around(bytes, &stem);
    scan.names_until = name.end;
    let Some((joint, at)) = joint(bytes, &name) else { return };
    // In prose nearly every word stands beside another one, and none of them is a secret.
    if joint == Joint::Beside && !bytes[at..].iter().take(64).take_while(|byte| **byte != b' ').any(u8::is_ascii_digit)
    {
        told_later(scan, &name, at);
        return;
    }
    let Some(telling) = classified(scan.text, &name) else { return };
    if !matches!(telling.kind, Kind::Secret(_)) {
        return; // numbers of persons are found by their form, with the name in sight
    }
    if telling.kind == Kind::secret("authorization")
        && matches!(joint, Joint::Colon | Joint::Loose | Joint::Tight | Joint::Literal | Joint::Element)
        && let Some(span) = headers::credentials(scan.text, at)
    {
        scan.names_until = span.end;
        scan.add(span, telling.kind);
        return;
    }
    if telling.kind == Kind::secret("cookie") && joint == Joint::Colon {
        let end = at + line_length(&bytes[at..]);
        scan.names_until = end;
        if bytes[at..end].contains(&b'=') {
            scan.add(at..end, telling.kind);
        }
        return;
    }
    let Some(value) = value(bytes, at, joint, &name) else { return };
    let Some(text) = scan.text.get(value.span.clone()).filter(|text| text.contains(char::is_alphanumeric)) else {
        return;
    };
    let is_found = match value.is_quoted {
        true => is_literal_secret(&telling, text, joint),
        false => is_bare_secret(scan.text, &telling, &value, joint, &name),
    };
    if is_found {
        scan.names_until = value.span.end;
        scan.add(value.span, telling.kind);
    }
}

/// `the password for the database is …`: the verb comes later in the sentence.
fn told_later(scan: &mut Scan<'_>, name: &Range<usize>, at: usize) {
    let is_password = scan.text.get(name.clone()).is_some_and(|name| {
        ["password", "passwort", "passcode", "passphrase"].iter().any(|word| name.eq_ignore_ascii_case(word))
    });
    let end = scan.text.floor_char_boundary(at + 64);
    let Some(rest) = scan.text.get(at..end).filter(|_| is_password) else { return };
    let sentence = rest.split(['\n', ',', ';', '"']).next().unwrap_or_default();
    let Some((before, value)) = sentence.split_once(" is ").or_else(|| sentence.split_once(": ")) else { return };
    let value = value.split(' ').next().unwrap_or_default().trim_end_matches(['.', ')', '\'']);
    if !before.contains(". ")
        && value.len() >= 6
        && has_signs(value)
        && value.contains(char::is_alphabetic)
        && !is_placeholder(value)
    {
        let start = at + (value.as_ptr() as usize - rest.as_ptr() as usize);
        scan.add(start..start + value.len(), Kind::secret("password"));
    }
}

/// The whole identifier around a stem.
fn name_around(bytes: &[u8], stem: &Range<usize>) -> Range<usize> {
    let head = &bytes[stem.start.saturating_sub(MAX_NAME)..stem.start];
    let is_part = |byte: &u8| NAME.has(*byte) || *byte >= 0x80;
    let left = head.iter().rev().take_while(|byte| is_part(byte)).count();
    let mut start = stem.start - left;
    let tail = &bytes[stem.end..bytes.len().min(stem.end + MAX_NAME)];
    let right = tail.iter().take_while(|byte| is_part(byte)).count();
    // A colon of full width ends a name too.
    let right = memchr::memmem::find(&tail[..right], "：".as_bytes()).unwrap_or(right);
    let end = stem.end + right;
    // An escape in front of it: `\npassword`.
    if start > 0 && bytes[start - 1] == b'\\' && matches!(bytes[start], b'n' | b't' | b'r') {
        start += 1;
    }
    let trimmed = bytes[start..end].iter().rev().take_while(|byte| matches!(byte, b'.' | b'-')).count();
    start.min(stem.start)..(end - trimmed).max(stem.end)
}

fn classified(text: &str, name: &Range<usize>) -> Option<Telling> {
    let own = text.get(name.clone())?;
    let mut words = keys::words(own);
    // `API key`, `personal access token`: words in front that belong to it.
    let before = text.get(text.floor_char_boundary(name.start.saturating_sub(32))..name.start)?;
    if words.len() == 1
        && before.ends_with(' ')
        && !before.trim_end().ends_with([':', '=', ',', '.', ';', '"', '\'', ')', '>'])
    {
        let line = before.rsplit(['\n', ',', '.', ';', ':', '(']).next().unwrap_or_default();
        let mut all: Vec<String> = line.split_whitespace().rev().take(2).flat_map(keys::words).collect();
        all.reverse();
        all.append(&mut words);
        words = all;
    }
    keys::classify_words(&words)
}

/// How the value is joined, and where it begins.
fn joint(bytes: &[u8], name: &Range<usize>) -> Option<(Joint, usize)> {
    let get = |at: usize| bytes.get(at).copied().unwrap_or(b'\n');
    let mut at = name.end;
    let is_flag = name.start >= 1 && bytes[name.start - 1] == b'-' || bytes[name.start] == b'-';
    let is_element = name.start >= 1 && bytes[name.start - 1] == b'<';
    // What closes the name: quotes (also escaped ones), brackets, emphasis.
    let mut closed = 0;
    while closed < 6
        && (matches!(get(at), b'"' | b'\'' | b'`' | b']' | b'*' | b'\\' | b')')
            || get(at) == b'}' && get(at + 1) == b'}')
    {
        if get(at) == b'\\' && !matches!(get(at + 1), b'"' | b'\'' | b'\\') {
            break;
        }
        at += 1;
        closed += 1;
    }
    let after_close = at;
    at += spaces(bytes, at);
    if get(at) == b'(' && closed == 0 && at > after_close {
        // `Password (optional): …`
        let end = bytes[at..].iter().take(24).position(|byte| *byte == b')').map(|end| at + end + 1)?;
        at = end + spaces(bytes, end);
    }
    let joined = |joint, at: usize| Some((joint, opened(bytes, at)));
    match get(at) {
        b'=' => {
            let width = match (get(at + 1), get(at + 2)) {
                (b'=', b'=') => 3,
                (b'=' | b'>', _) => 2,
                _ => 1,
            };
            let is_tight = at == name.end && width == 1 && !get(at + 1).is_ascii_whitespace();
            joined(if is_tight { Joint::Tight } else { Joint::Loose }, at + width)
        }
        b':' if get(at + 1) == b'=' => joined(Joint::Loose, at + 2),
        b':' if get(at + 1) == b':' => None,
        b':' => {
            let start = opened(bytes, at + 1);
            // `password: string = "…"`
            let kind = DOTTED.run(bytes, start, 32);
            let next = kind + spaces(bytes, kind);
            if kind > start && get(next) == b'=' && get(next + 1) != b'=' && next > kind {
                return joined(Joint::Loose, next + 1);
            }
            Some((Joint::Colon, start))
        }
        b'!' if get(at + 1) == b'=' => joined(Joint::Loose, at + 2 + usize::from(get(at + 2) == b'=')),
        b'-' if get(at + 1) == b'>' => joined(Joint::Loose, at + 2),
        b'|' if at > name.end => joined(Joint::Beside, at + 1),
        b',' | b'(' => joined(Joint::Literal, at + 1),
        b'>' if is_element => Some((Joint::Element, at + 1)),
        // `<add key="ApiKey" value="…"/>`
        b'v' | b'V' if closed > 0 && bytes[at..].get(..6).is_some_and(|text| text.eq_ignore_ascii_case(b"value=")) => {
            joined(Joint::Tight, at + 6)
        }
        _ if at == after_close => {
            // `パスワード：…`
            bytes[at..].starts_with("：".as_bytes()).then(|| (Joint::Colon, opened(bytes, at + 3)))
        }
        _ if is_flag && closed == 0 => joined(Joint::Flag, at),
        b'i' | b'w' if closed == 0 => {
            let rest = &bytes[at..];
            let width = ["is: ", "is ", "was "].iter().find(|word| rest.starts_with(word.as_bytes()))?.len();
            joined(Joint::Is, at + width)
        }
        b'"' | b'\'' | b'`' => Some((Joint::Literal, at)),
        _ => Some((Joint::Beside, at)),
    }
}

/// Spaces and tabs, at most a few.
fn spaces(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take(32).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// The place behind spaces, emphasis, a line break with its indentation, and the letter of `b"…"`.
fn opened(bytes: &[u8], start: usize) -> usize {
    let mut at = start + spaces(bytes, start);
    let emphasis = bytes.get(at..).unwrap_or_default().iter().take(3).take_while(|byte| **byte == b'*').count();
    if (1..=2).contains(&emphasis) {
        at += emphasis;
        at += spaces(bytes, at);
    }
    let get = |at: usize| bytes.get(at).copied().unwrap_or_default();
    if get(at) == b'|' && matches!(get(at + 1), b'\n' | b'-') || get(at) == b'>' && matches!(get(at + 1), b'\n' | b'-')
    {
        at += 1 + usize::from(get(at + 1) == b'-'); // a block of YAML
    }
    if get(at) == b'\r' {
        at += 1;
    }
    if get(at) == b'\n' {
        at += 1 + spaces(bytes, at + 1);
    }
    if matches!(get(at), b'b' | b'r' | b'f' | b'u' | b'@' | b'B' | b'L') && matches!(get(at + 1), b'"' | b'\'') {
        at += 1;
    }
    at
}

fn line_length(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(MAX_VALUE)
        .position(|byte| matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'`'))
        .unwrap_or(bytes.len().min(MAX_VALUE))
}

fn value(bytes: &[u8], at: usize, joint: Joint, name: &Range<usize>) -> Option<Value> {
    let rest = bytes.get(at..)?;
    if joint == Joint::Element {
        let length = rest.iter().take(MAX_VALUE).position(|byte| *byte == b'<')?;
        let text = &rest[..length];
        let text = text.strip_prefix(b"![CDATA[").unwrap_or(text);
        return (!text.is_empty()).then_some(Value { span: at..at + length, is_quoted: true });
    }
    // `\"…\"`: text that was escaped as a whole; and `"""…"""`.
    let slashes = rest.iter().take(8).take_while(|byte| **byte == b'\\').count();
    if let Some(quote @ (b'"' | b'\'' | b'`')) = rest.get(slashes).copied() {
        let is_triple = slashes == 0 && rest.len() > 6 && rest[1] == quote && rest[2] == quote;
        let open = slashes + if is_triple { 3 } else { 1 };
        let end = quoted_end(&rest[open..], quote, slashes)?;
        return (end > 0).then_some(Value { span: at + open..at + open + end, is_quoted: true });
    }
    let is_environment = joint == Joint::Tight
        && is_upper_name(&bytes[name.clone()])
        && !matches!(name.start.checked_sub(1).map(|before| bytes[before]), Some(b'?' | b'&' | b';'));
    let ends = |byte: u8| match byte {
        _ if byte.is_ascii_whitespace() => true,
        b'"' | b'\'' | b'`' | b'<' | b'\\' => true,
        b'>' => joint != Joint::Flag,
        b'&' | b'#' => joint == Joint::Tight && !is_environment,
        b',' | b';' | b')' | b']' | b'}' | b'|' => !is_environment,
        _ => false,
    };
    let length = rest.iter().take(MAX_VALUE).position(|byte| ends(*byte)).unwrap_or(rest.len().min(MAX_VALUE));
    (length > 0).then_some(Value { span: at..at + length, is_quoted: false })
}

/// Where the quoted text ends. Without its closing quote it ends with the line.
fn quoted_end(rest: &[u8], quote: u8, slashes: usize) -> Option<usize> {
    let mut at = 0;
    let mut seen = 0;
    while let Some(byte) = rest.get(at).filter(|_| at < MAX_VALUE) {
        match *byte {
            b'\\' => seen += 1,
            found if found == quote && (seen == slashes || slashes == 0 && seen % 2 == 0) => {
                return Some(at - seen.min(slashes));
            }
            b'\n' if quote != b'`' => return Some(at),
            _ => seen = 0,
        }
        if *byte == quote {
            seen = 0;
        }
        at += 1;
    }
    Some(at)
}

fn is_upper_name(name: &[u8]) -> bool {
    name.iter().any(u8::is_ascii_uppercase) && !name.iter().any(u8::is_ascii_lowercase)
}

fn is_literal_secret(telling: &Telling, text: &str, joint: Joint) -> bool {
    match joint {
        // `get("password", "name")`: which literal is what cannot be known.
        Joint::Literal | Joint::Beside => {
            is_secret(telling, text)
                && (has_signs(text) && !text.contains(' ') || is_random(text.as_bytes()))
                && text.len() >= 5
        }
        Joint::Element if telling.strength == Strength::Weak && text.contains(['/', '.']) => false,
        Joint::Element => is_secret(telling, text) && !text.contains("](") && !text.contains('{'),
        Joint::Is => is_secret(telling, text),
        _ => is_secret(telling, text) && !is_code(text),
    }
}

/// A template or a call inside of quotes: `"${token}"`, `"Bearer " + token`.
fn is_code(text: &str) -> bool {
    text.contains("${") || text.contains("{{") || text.starts_with('{') && text.ends_with('}')
}

fn is_bare_secret(all: &str, telling: &Telling, value: &Value, joint: Joint, name: &Range<usize>) -> bool {
    let bytes = all.as_bytes();
    let text = all.get(value.span.clone()).unwrap_or_default().trim_end_matches(['.', ':', '?', '!']);
    if text.is_empty()
        || is_placeholder(text)
        || is_code(text)
        || text.starts_with(['{', '[', '(', '&', '<', '$']) && !has_signs(text)
    {
        return false;
    }
    let is_password = telling.kind == Kind::secret("password")
        || telling.kind == Kind::secret("password-hash")
        || telling.kind == Kind::secret("code");
    let next = bytes.get(value.span.end).copied().unwrap_or(b'\n');
    if is_expression(text, next) || is_reference(text) && !is_password {
        return false;
    }
    if telling.strength == Strength::Weak {
        return matches!(joint, Joint::Tight | Joint::Colon | Joint::Loose | Joint::Flag) && is_secret(telling, text);
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
        Joint::Literal => false,
        Joint::Beside | Joint::Is => match is_password {
            true => {
                has_signs(text)
                    && text.len() >= 5
                    && !is_uuid(text.as_bytes())
                    && (joint == Joint::Is || is_netrc(all, name))
            }
            false => is_random(text.as_bytes()) && !is_uuid(text.as_bytes()) && !text.contains(['/', ':']),
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
            false => has_signs(text) && text.len() >= 4 && !is_type(text) || is_random(text.as_bytes()),
        },
        // Code: a bare value is an expression, unless it could not be one.
        _ => {
            let is_identifier =
                text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$'))
                    && !text.as_bytes()[0].is_ascii_digit();
            match is_identifier {
                true => {
                    is_random(text.as_bytes())
                        || has_signs(text)
                            && !matches!(next, b')' | b',' | b';' | b'(' | b'[')
                            && text.len() >= 5
                            && is_line_start(bytes, name.start)
                }
                false => has_signs(text) && text.len() >= 5,
            }
        }
    }
}

/// `login bob password hunter2`, as .netrc has it.
fn is_netrc(all: &str, name: &Range<usize>) -> bool {
    let before = &all[all.floor_char_boundary(name.start.saturating_sub(64))..name.start];
    before.contains("login ")
        || before.contains("user ")
        || before.contains("machine ")
        || before.trim_end().ends_with("with")
        || before.trim_end().ends_with("the")
        || before.is_empty()
}

/// One word of letters.
fn is_plain_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'-')
}

/// `Option<String>`, `string[]`, `Vec<u8>`, `u64`
fn is_type(text: &str) -> bool {
    text.contains('<')
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

/// A call, an index, a member of something: what programs write.
fn is_expression(text: &str, next: u8) -> bool {
    let bytes = text.as_bytes();
    if matches!(next, b'(' | b'[')
        || text.contains('(')
            && !text.starts_with('(')
            && bytes[0].is_ascii_alphabetic()
            && text
                .bytes()
                .take_while(|byte| *byte != b'(')
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
