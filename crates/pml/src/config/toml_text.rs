//! TOML as text: which bytes say what, so that an edit touches only those.
//!
//! The text must have been parsed before. Nothing is checked here; of a text that is no TOML the answer is merely of no
//! use.

use std::ops::Range;

/// A header or a `key = value` of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Its lines whole, from the start of the first to behind the end of the last.
    pub(crate) lines: Range<usize>,
    /// All keys that lead to it, also those of the header above it.
    pub(crate) path: Vec<String>,
    /// How many of the keys are those of the header.
    pub(crate) header: usize,
    /// `None` for a header.
    pub(crate) value: Option<Range<usize>>,
}

/// A `key = value` of an inline table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) path: Vec<String>,
    /// From the key to the end of the value.
    pub(crate) whole: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// The statements of a document, in order.
pub(crate) fn statements(text: &str) -> Vec<Statement> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut header: Vec<String> = Vec::new();
    let mut at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    while at < bytes.len() {
        let start = at;
        at = skip_blanks(bytes, at);
        match bytes.get(at) {
            None => break,
            Some(b'\n') => at += 1,
            Some(b'\r' | b'#') => at = line_end(bytes, at),
            Some(b'[') => {
                let begin = at + if bytes.get(at + 1) == Some(&b'[') { 2 } else { 1 };
                let end = key_end(bytes, begin);
                header = keys(&text[begin..end]);
                at = line_end(bytes, end);
                found.push(Statement { lines: start..at, path: header.clone(), header: header.len(), value: None });
            }
            Some(_) => {
                let end = key_end(bytes, at);
                let path = [header.clone(), keys(&text[at..end])].concat();
                let begin = skip_blanks(bytes, (end + 1).min(bytes.len()));
                let value = begin..value_end(bytes, begin);
                at = line_end(bytes, value.end);
                found.push(Statement { lines: start..at, path, header: header.len(), value: Some(value) });
            }
        }
    }
    found
}

/// The members of an inline table, in order.
pub(crate) fn members(text: &str, table: &Range<usize>) -> Vec<Member> {
    let bytes = &text.as_bytes()[..table.end.saturating_sub(1)];
    let mut found = Vec::new();
    let mut at = table.start + 1;
    loop {
        at = skip_space(bytes, at);
        match bytes.get(at) {
            None => return found,
            Some(b',') => at += 1,
            Some(_) => {
                let start = at;
                let end = key_end(bytes, at);
                let begin = skip_space(bytes, (end + 1).min(bytes.len()));
                let value = begin..value_end(bytes, begin);
                at = value.end.max(at + 1);
                found.push(Member { path: keys(&text[start..end]), whole: start..value.end, value });
            }
        }
    }
}

/// The keys of what is at some place, as TOML writes them: for a message about that place.
pub(crate) fn key_at(text: &str, at: usize) -> Option<String> {
    let statements = statements(text);
    let statement = statements.iter().find(|statement| statement.lines.contains(&at))?;
    let mut path = statement.path.clone();
    let mut value = statement.value.clone()?;
    if !value.contains(&at) {
        return None;
    }
    while text[value.clone()].starts_with('{') {
        let Some(member) = members(text, &value).into_iter().find(|member| member.value.contains(&at)) else { break };
        path.extend(member.path);
        value = member.value;
    }
    Some(path.join("."))
}

/// The line end that is used around some place.
pub(crate) fn newline_at(text: &str, at: usize) -> &'static str {
    let before = text[..at].rfind('\n');
    match before.or_else(|| text[at..].find('\n').map(|found| at + found)) {
        Some(end) if text[..end].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// The keys of a dotted key.
fn keys(text: &str) -> Vec<String> {
    let keys = toml_edit::Key::parse(text.trim()).unwrap_or_default();
    keys.iter().map(|key| key.get().to_owned()).collect()
}

fn skip_blanks(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Behind spaces, line ends and comments.
fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes.get(at) {
            Some(b' ' | b'\t' | b'\r' | b'\n') => at += 1,
            Some(b'#') => at = line_end(bytes, at),
            _ => return at,
        }
    }
}

/// Behind the next line end.
fn line_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |found| at + found + 1)
}

/// Where a dotted key ends: at a `=` or a `]`.
fn key_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && !matches!(bytes[at], b'=' | b']' | b'\n') {
        at = if matches!(bytes[at], b'"' | b'\'') { string_end(bytes, at) } else { at + 1 };
    }
    at.min(bytes.len())
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let quote = bytes[start];
    let is_long = bytes[start..].starts_with(&[quote; 3]);
    let mut at = start + if is_long { 3 } else { 1 };
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote == b'"' => at += 2,
            byte if byte == quote && !is_long => return at + 1,
            _ if is_long && bytes[at..].starts_with(&[quote; 3]) => {
                // One or two more may belong to the text.
                return at + bytes[at..].iter().take(5).take_while(|byte| **byte == quote).count();
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

fn value_end(bytes: &[u8], start: usize) -> usize {
    match bytes.get(start) {
        Some(b'"' | b'\'') => string_end(bytes, start),
        Some(b'[' | b'{') => {
            let (mut at, mut depth) = (start, 0_usize);
            while at < bytes.len() {
                match bytes[at] {
                    b'"' | b'\'' => {
                        at = string_end(bytes, at);
                        continue;
                    }
                    b'#' => {
                        at = line_end(bytes, at);
                        continue;
                    }
                    b'[' | b'{' => depth += 1,
                    b']' | b'}' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return at;
                }
            }
            bytes.len()
        }
        _ => {
            let rest = bytes.get(start..).unwrap_or_default();
            let length = rest.iter().position(|byte| matches!(byte, b',' | b']' | b'}' | b'#' | b'\n'));
            let end = length.map_or(bytes.len(), |length| start + length);
            start + bytes[start.min(end)..end].trim_ascii_end().len()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_has_its_lines_its_keys_and_its_value() {
        let text = "\u{feff}# head\r\na.'b c' = 1979-05-27 07:32:00 # x\r\n\r\n[t.\"\\u0078\"]\nlong = \"\"\"\n[no]\nk = 1\"\"\"\"\n\n  list = [ # ]\n  ']', {q=1},\n]\n[[t.many]]\ni = { n.m = \"}\", o = [1], } # c\nlast = true";
        let shown = |statement: &Statement| {
            let value = statement.value.clone().map_or("-", |value| &text[value]);
            (statement.path.join("|"), value.to_owned(), text[statement.lines.clone()].to_owned())
        };
        let found: Vec<_> = statements(text).iter().map(shown).collect();
        let expected = [
            ("a|b c", "1979-05-27 07:32:00", "a.'b c' = 1979-05-27 07:32:00 # x\r\n"),
            ("t|x", "-", "[t.\"\\u0078\"]\n"),
            ("t|x|long", "\"\"\"\n[no]\nk = 1\"\"\"\"", "long = \"\"\"\n[no]\nk = 1\"\"\"\"\n"),
            ("t|x|list", "[ # ]\n  ']', {q=1},\n]", "  list = [ # ]\n  ']', {q=1},\n]\n"),
            ("t|many", "-", "[[t.many]]\n"),
            ("t|many|i", "{ n.m = \"}\", o = [1], }", "i = { n.m = \"}\", o = [1], } # c\n"),
            ("t|many|last", "true", "last = true"),
        ];
        let expected = expected.map(|(path, value, lines)| (path.to_owned(), value.to_owned(), lines.to_owned()));
        assert_eq!(found, expected);
        let inline = statements(text)[5].value.clone().unwrap();
        let inside: Vec<_> = members(text, &inline).into_iter().map(|m| (m.path.join("|"), &text[m.whole])).collect();
        assert_eq!(inside, [("n|m".to_owned(), "n.m = \"}\""), ("o".to_owned(), "o = [1]")]);
        assert_eq!(key_at(text, text.find("}\"").unwrap()).as_deref(), Some("t.many.i.n.m"));
    }

    #[test]
    fn no_text_is_too_strange() {
        for text in [
            "", "[", "[[", "a", "a =", "a = {", "a = {b", "a = \"", "a = \"\\", "a = ]", "=", "]", "a = '''", "\"",
            "a.= {=}",
        ] {
            for statement in statements(text) {
                let value = statement.value.filter(|value| text[value.clone()].starts_with('{'));
                value.into_iter().for_each(|value| drop(members(text, &value)));
            }
            key_at(text, 0);
        }
    }
}
