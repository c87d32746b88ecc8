//! Credentials whose place a statement, a file or a command tells: `IDENTIFIED BY '…'`, `INSERT … VALUES (…)`, Oracle's
//! addresses, lines of `.pgpass`, keys of PuTTY, `echo … | sudo -S`.

use std::ops::Range;

use super::{
    finding::Kind,
    keys::{self, Telling},
    scan::Scan,
    shape::{ALNUM, BASE64, starts_token},
    value::{has_signs, is_placeholder, is_secret, is_template},
};

/// Longest line, list of columns or literal that is looked for the end of.
const MAX_BYTES: usize = 1024;

fn spaces(bytes: &[u8], at: usize) -> usize {
    at + bytes.get(at..).unwrap_or_default().iter().take(64).take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The inside of the quoted text that begins at `at`.
fn quoted(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let quote = *bytes.get(at).filter(|byte| matches!(byte, b'\'' | b'"' | b'`'))?;
    let rest = &bytes[at + 1..bytes.len().min(at + 1 + MAX_BYTES)];
    rest.iter().position(|byte| *byte == quote).map(|length| at + 1..at + 1 + length)
}

/// The line around a place.
fn line(bytes: &[u8], at: usize) -> Range<usize> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let head = &bytes[at.saturating_sub(MAX_BYTES)..at];
    let left = head.iter().rev().take_while(|byte| !is_end(byte)).count();
    let rest = &bytes[at..bytes.len().min(at + MAX_BYTES)];
    at - left..at + rest.iter().position(is_end).unwrap_or(rest.len())
}

/// `IDENTIFIED BY '…'`, `IDENTIFIED WITH plugin BY '…'`; `at` is behind the first two words.
pub(super) fn identified(scan: &mut Scan<'_>, at: usize) {
    let bytes = scan.bytes;
    let mut at = at;
    if bytes[..at].ends_with(b"with") || bytes[..at].ends_with(b"WITH") {
        let rest = &bytes[at..bytes.len().min(at + 80)];
        let Some(by) = rest.windows(4).position(|word| word.eq_ignore_ascii_case(b" by ")) else { return };
        at += by + 3;
    }
    at = spaces(bytes, at);
    if bytes.get(at..at + 9).is_some_and(|word| word.eq_ignore_ascii_case(b"password ")) {
        at = spaces(bytes, at + 9);
    }
    let span = quoted(bytes, at).unwrap_or_else(|| {
        let rest = &bytes[at.min(bytes.len())..];
        at..at + rest.iter().take(128).take_while(|byte| ALNUM.has(**byte) || b"_#$!@%^*".contains(byte)).count()
    });
    // In prose, things are identified by all sorts of names.
    let is_quoted = span.start > at && bytes[at] != b'`';
    let from = scan.text.floor_char_boundary(at.saturating_sub(128));
    let is_statement = scan.text.get(from..at).is_some_and(|text| text.contains("USER") || text.contains("user "));
    if let Some(text) = scan.text.get(span.clone())
        && !is_placeholder(text)
        && (is_quoted && (is_statement || has_signs(text)) || is_statement && has_signs(text))
    {
        scan.add(span, Kind::secret("password"));
    }
}

/// `(user, password) VALUES ('bob', '…')`, with `values` at `start..end`.
pub(super) fn insert(scan: &mut Scan<'_>, start: usize, end: usize) {
    let bytes = scan.bytes;
    let head = &bytes[start.saturating_sub(MAX_BYTES)..start];
    let Some(close) = head.iter().rposition(|byte| !byte.is_ascii_whitespace()).filter(|at| head[*at] == b')') else {
        return;
    };
    let Some(open) = head[..close].iter().rposition(|byte| matches!(byte, b'(' | b')')) else { return };
    let from = start - head.len();
    let Some(list) = scan.text.get(from + open + 1..from + close).filter(|_| head[open] == b'(') else { return };
    let columns: Vec<Option<Telling>> =
        list.split(',').map(|name| keys::classify(name.trim_matches([' ', '"', '`', '[', ']', '\n', '\t']))).collect();
    if columns.iter().all(Option::is_none) || start < scan.tables_until {
        return;
    }
    let mut at = spaces(bytes, end);
    while bytes.get(at) == Some(&b'(') {
        let Some((values, close)) = tuple(bytes, at) else { break };
        for (span, telling) in values.iter().zip(&columns) {
            let Some((telling, text)) = telling.as_ref().zip(scan.text.get(span.clone())) else { continue };
            if matches!(telling.kind, Kind::Secret(_)) && is_secret(telling, text) && !text.contains('(') {
                scan.add(span.clone(), telling.kind.clone());
            }
        }
        scan.tables_until = close;
        at = spaces(bytes, close);
        if bytes.get(at) == Some(&b',') {
            at = spaces(bytes, at + 1);
        }
    }
}

/// The values between the parenthesis at `open` and its end, without their quotes, and the place behind.
fn tuple(bytes: &[u8], open: usize) -> Option<(Vec<Range<usize>>, usize)> {
    let mut values = Vec::new();
    let mut at = spaces(bytes, open + 1);
    while at < bytes.len().min(open + 8 * MAX_BYTES) {
        if let Some(inside) = quoted(bytes, at) {
            at = inside.end + 1;
            values.push(inside);
        } else {
            let rest = &bytes[at..bytes.len().min(at + MAX_BYTES)];
            let length = rest.iter().position(|byte| matches!(byte, b',' | b')'))?;
            values.push(at..at + length);
            at += length;
        }
        at = spaces(bytes, at);
        match bytes.get(at) {
            Some(b',') => at = spaces(bytes, at + 1),
            Some(b')') => return Some((values, at + 1)),
            _ => return None,
        }
    }
    None
}

/// `jdbc:oracle:thin:user/password@…` and `sqlplus user/password@…`; `at` is behind the first word.
pub(super) fn oracle(scan: &mut Scan<'_>, at: usize) {
    let rest = &scan.bytes[at..scan.bytes.len().min(at + MAX_BYTES)];
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`' | b'<');
    let mut from = 0;
    while rest.get(from) == Some(&b'-') || rest.get(from) == Some(&b' ') {
        from += rest[from..].iter().position(|byte| *byte == b' ').map_or(rest.len() - from, |space| space + 1);
    }
    let word = &rest[from..];
    let word = &word[..word.iter().position(is_end).unwrap_or(word.len())];
    let Some(slash) = word.iter().position(|byte| *byte == b'/').filter(|slash| *slash > 0) else { return };
    let Some(sign) = word.iter().rposition(|byte| *byte == b'@').filter(|sign| *sign > slash + 1) else { return };
    let span = at + from + slash + 1..at + from + sign;
    if scan.text.get(span.clone()).is_some_and(|password| !is_template(password) && !password.starts_with('/')) {
        scan.add(span, Kind::secret("url-password"));
    }
}

/// `host:port:database:user:password`, a line of `.pgpass`.
pub(super) fn pgpass(scan: &mut Scan<'_>, at: usize) {
    if at < scan.tables_until {
        return;
    }
    let line = line(scan.bytes, at);
    scan.tables_until = line.end;
    let Some(text) = scan.text.get(line.clone()) else { return };
    let fields: Vec<&str> = text.splitn(5, ':').collect();
    let [host, port, database, user, password] = fields.as_slice() else { return };
    let is_name = |name: &str| {
        !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '"' | '{' | ','))
    };
    let is_port = *port == "*" || port.len() <= 5 && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let password = password.trim_end_matches(['"', '\'']);
    if is_port
        && [host.trim_start_matches(['"', '\'', ' ']), database, user].iter().all(|name| is_name(name))
        && !password.is_empty()
        && !password.contains(char::is_whitespace)
        && !is_template(password)
        && *user != "*"
    {
        let start = line.start + (password.as_ptr() as usize - text.as_ptr() as usize);
        scan.add(start..start + password.len(), Kind::secret("password"));
    }
}

/// The lines behind `Private-Lines:` of a key of PuTTY.
pub(super) fn putty(scan: &mut Scan<'_>, at: usize) {
    let bytes = scan.bytes;
    let first = at + bytes[at..].iter().take(16).take_while(|byte| matches!(byte, b' ' | b'0'..=b'9')).count();
    let start = spaces(bytes, first);
    let mut end = start;
    let mut line = start;
    while BASE64.run(bytes, line, 128) > line {
        let next = BASE64.run(bytes, line, 128);
        // `Private-MAC: …` is no line of the key.
        if bytes.get(next) == Some(&b'-') || bytes.get(next) == Some(&b':') {
            break;
        }
        end = next;
        line = spaces(bytes, next);
        if line == next {
            break;
        }
    }
    if end > start && start > first {
        scan.add(start..end, Kind::secret("private-key"));
    }
}

/// `echo … | sudo -S`, `echo … | docker login --password-stdin`, `echo user:… | chpasswd`.
pub(super) fn echo(scan: &mut Scan<'_>, at: usize) {
    if at < scan.echoes_until || !starts_token(scan.bytes, at) {
        return;
    }
    let end = line(scan.bytes, at).end;
    scan.echoes_until = end;
    let Some((command, reader)) = scan.text.get(at..end).and_then(|line| line.split_once('|')) else { return };
    let reads = ["sudo -S", "--password-stdin", "chpasswd", "--with-token"];
    if !reads.iter().any(|read| reader.contains(read)) {
        return;
    }
    let last = command.rfind("echo ").or_else(|| command.rfind("printf ")).unwrap_or_default();
    let (at, command) = (at + last, &command[last..]);
    let Some((_, rest)) = command.split_once(' ') else { return };
    let word = rest.trim_start_matches("-n ").trim_start_matches("-e ").trim_start_matches("%s ").trim();
    let word = word.trim_matches(['"', '\'']);
    let word =
        if reader.contains("chpasswd") { word.split_once(':').map_or(word, |(_, password)| password) } else { word };
    if word.len() >= 3 && !word.contains(' ') && !is_template(word) && !is_placeholder(word) && !word.starts_with('$') {
        let start = at + (word.as_ptr() as usize - command.as_ptr() as usize);
        scan.add(start..start + word.len(), Kind::secret("password"));
    }
}
