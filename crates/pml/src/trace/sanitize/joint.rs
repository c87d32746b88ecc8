//! How a value is joined to its name: `=`, `:`, a flag, an element, a verb, a cell of a table.

use std::ops::Range;

use super::shape::DOTTED;

/// How a value is joined to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
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
    /// The next cell of a row.
    Cell,
}

/// How the value is joined, and where it begins.
pub(super) fn joint(bytes: &[u8], name: &Range<usize>) -> Option<(Joint, usize)> {
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
        let end = bytes[at..].iter().take(80).position(|byte| *byte == b')').map(|end| at + end + 1)?;
        let open = at + 1;
        at = end + spaces(bytes, end);
        // `password (…)`
        if !matches!(get(at), b':' | b'=') {
            return Some((Joint::Beside, open));
        }
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
        // `${PASSWORD:-…}`
        b':' if matches!(get(at + 1), b'-' | b'=') && name.start >= 2 && bytes[..name.start].ends_with(b"${") => {
            Some((Joint::Tight, at + 2))
        }
        // `process.env.API_KEY || "…"`, `os.environ.get("API_KEY") or "…"`: what is used if there is nothing else.
        b'|' | b'?' if get(at + 1) == get(at) => joined(Joint::Loose, at + 2).filter(|(_, at)| is_quote(get(*at))),
        b'o' if bytes[at..].starts_with(b"or ") && closed > 1 && name.start > 0 && is_quote(bytes[name.start - 1]) => {
            joined(Joint::Loose, at + 3).filter(|(_, at)| is_quote(get(*at)))
        }
        b':' if get(at + 1) == b':' => None,
        // `def login(user, password):`
        b':' if closed > 0 && bytes[at - 1] == b')' && matches!(get(at + 1), b'\n' | b'\r') => None,
        b':' => {
            let start = opened(bytes, at + 1);
            // `password: string = "…"`, `key: &'static str = "…"`
            let from = start + bytes[start..].iter().take(1).filter(|byte| **byte == b'&').count();
            let from = from + if bytes[from..].starts_with(b"'static ") { 8 } else { 0 };
            let kind = DOTTED.run(bytes, from, 32);
            let next = kind + spaces(bytes, kind);
            if kind > start && get(next) == b'=' && get(next + 1) != b'=' && next > kind {
                return joined(Joint::Loose, next + 1);
            }
            Some((Joint::Colon, start))
        }
        b'!' if get(at + 1) == b'=' => joined(Joint::Loose, at + 2 + usize::from(get(at + 2) == b'=')),
        b'-' if get(at + 1) == b'>' && at > name.end && get(at + 2) == b' ' => joined(Joint::Is, at + 2),
        b'-' if get(at + 1) == b'>' => joined(Joint::Loose, at + 2),
        b'|' if at > name.end => joined(Joint::Cell, at + 1),
        b',' | b'(' => joined(Joint::Literal, at + 1),
        b'>' if is_element => Some((Joint::Element, at + 1)),
        // `<entry key="db.password">…</entry>`
        b'>' if closed > 0 && bytes[name.start.saturating_sub(48)..name.start].contains(&b'<') => {
            Some((Joint::Element, at + 1))
        }
        // `gh secret set API_KEY --body "…"`
        b'-' if let Some(width) = value_flag(&bytes[at..]) => joined(Joint::Flag, at + width),
        // `<add key="ApiKey" value="…"/>`
        b'v' | b'V' if closed > 0 && bytes[at..].get(..6).is_some_and(|text| text.eq_ignore_ascii_case(b"value=")) => {
            joined(Joint::Tight, at + 6)
        }
        // `パスワード：…`, `password → …`
        byte if byte >= 0x80 && foreign_joint(&bytes[at..]).is_some() => {
            let (joint, width) = foreign_joint(&bytes[at..])?;
            joined(joint, at + width)
        }
        _ if at == after_close => None,
        _ if is_flag && closed == 0 => joined(Joint::Flag, at),
        _ if let Some(width) = verb(&bytes[at..]) => joined(Joint::Is, at + width),
        b'"' | b'\'' | b'`' => Some((Joint::Literal, at)),
        _ => Some((Joint::Beside, at)),
    }
}

/// Signs and words of other languages that join a value to a name without a space.
pub(super) fn foreign_joint(bytes: &[u8]) -> Option<(Joint, usize)> {
    const JOINTS: [(&str, Joint); 14] = [
        ("：", Joint::Colon),
        ("＝", Joint::Colon),
        ("→", Joint::Is),
        ("⇒", Joint::Is),
        ("➜", Joint::Is),
        ("➡", Joint::Is),
        ("是", Joint::Is),
        ("为", Joint::Is),
        ("為", Joint::Is),
        ("は", Joint::Is),
        ("는 ", Joint::Is),
        ("은 ", Joint::Is),
        ("—", Joint::Is),
        ("–", Joint::Is),
    ];
    JOINTS.iter().find(|(sign, _)| bytes.starts_with(sign.as_bytes())).map(|(sign, joint)| (*joint, sign.len()))
}

/// The verb between a name and its value, with its space.
fn verb(bytes: &[u8]) -> Option<usize> {
    const VERBS: [&str; 22] = [
        "is: ",
        "is now ",
        "is ",
        "was ",
        "are: ",
        "are ",
        "will be ",
        "to: ",
        "to ",
        "lautet: ",
        "lautet ",
        "ist: ",
        "ist ",
        "est : ",
        "est ",
        "es: ",
        "es ",
        "é ",
        "è ",
        "equals ",
        "set to ",
        "changed to ",
    ];
    VERBS.iter().find(|verb| bytes.starts_with(verb.as_bytes())).map(|verb| verb.len())
}

/// The flag between a name and its value, as commands have it that set a secret.
fn value_flag(bytes: &[u8]) -> Option<usize> {
    const FLAGS: [&str; 9] =
        ["--body ", "--body=", "--value ", "--value=", "--secret-string ", "--data ", "-b ", "-b", "-v "];
    FLAGS.iter().find(|flag| bytes.starts_with(flag.as_bytes())).map(|flag| flag.len())
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

/// Spaces and tabs, at most a few.
pub(super) fn spaces(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take(32).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

pub(super) fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}
