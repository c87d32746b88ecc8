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
    tables,
    value::{has_signs, is_placeholder, is_prose, is_reference, is_secret, is_short_word, is_strong, is_technical},
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
    /// The next cell of a row.
    Cell,
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
    told_before(scan, &name);
    tables::head(scan, &name);
    let Some((joint, at)) = joint(bytes, &name) else { return };
    if matches!(joint, Joint::Colon | Joint::Is) && user_and_password(scan, &name, at) {
        return;
    }
    // In prose nearly every word stands beside another one, and none of them is a secret.
    if joint == Joint::Beside && !bytes[at..].iter().take(64).take_while(|byte| **byte != b' ').any(u8::is_ascii_digit)
    {
        told_later(scan, &name, at);
        return;
    }
    let Some(telling) = classified(scan.text, &name).or_else(|| authorization_code(scan.text, &name, joint, at)) else {
        return;
    };
    if !matches!(telling.kind, Kind::Secret(_)) {
        return; // numbers of persons are found by their form, with the name in sight
    }
    if telling.kind == Kind::secret("authorization")
        && (matches!(joint, Joint::Colon | Joint::Loose | Joint::Tight | Joint::Element)
            || joint == Joint::Literal && bytes.get(at).is_some_and(|byte| is_quote(*byte) || *byte == b'\\'))
        && let Some(span) = headers::credentials(scan.text, at)
    {
        scan.names_until = span.end;
        scan.add(span, telling.kind);
        return;
    }
    if telling.kind == Kind::secret("cookie") && joint == Joint::Colon {
        let end = at + line_length(&bytes[at..]);
        scan.names_until = end;
        if scan.text.get(at..end).is_some_and(headers::holds_session) {
            scan.add(at..end, telling.kind);
        }
        return;
    }
    if let Some(span) = second_of_two(bytes, &telling, at)
        && scan.text.get(span.clone()).is_some_and(|text| is_secret(&PASSWORD, text))
    {
        scan.names_until = span.end;
        scan.add(span, PASSWORD.kind);
        return;
    }
    if telling.kind == Kind::secret("mnemonic")
        && matches!(joint, Joint::Colon | Joint::Is | Joint::Loose | Joint::Tight)
    {
        let length = phrase_length(&bytes[at..]);
        scan.add(at..at + length, telling.kind.clone());
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

const PASSWORD: Telling = Telling { kind: Kind::secret("password"), strength: Strength::Certain };

/// `the password for the database is …`, `token for production: …`: the verb comes later in the sentence.
fn told_later(scan: &mut Scan<'_>, name: &Range<usize>, at: usize) {
    let end = scan.text.floor_char_boundary(at + 64);
    let Some(rest) = scan.text.get(at..end) else { return };
    let sentence = rest.split(['\n', ',', ';', '"']).next().unwrap_or_default();
    let verbs = [" is ", ": ", " to "];
    let Some((before, value)) = verbs.iter().find_map(|verb| sentence.split_once(verb)) else { return };
    let value = value.split(' ').next().unwrap_or_default().trim_end_matches(['.', ')', '\'']);
    if before.contains(". ") || value.len() < 6 || !has_signs(value) || is_placeholder(value) || is_technical(value) {
        return;
    }
    let is_password = scan.text.get(name.clone()).is_some_and(|name| {
        ["password", "passwort", "passcode", "passphrase"].iter().any(|word| name.eq_ignore_ascii_case(word))
    });
    let telling = match is_password && value.contains(char::is_alphabetic) {
        true => Some(PASSWORD),
        false => classified(scan.text, name).filter(|telling| {
            telling.strength > Strength::Weak && matches!(telling.kind, Kind::Secret(_)) && is_strong(value)
        }),
    };
    if let Some(telling) = telling {
        let start = at + (value.as_ptr() as usize - rest.as_ptr() as usize);
        scan.add(start..start + value.len(), telling.kind);
    }
}

/// `… is my password`, `bob / … (password)`: the value comes first.
fn told_before(scan: &mut Scan<'_>, name: &Range<usize>) {
    let head = &scan.bytes[..name.start];
    if !(head.ends_with(b" ") || head.ends_with(b"(")) {
        return;
    }
    let from = scan.text.floor_char_boundary(name.start.saturating_sub(96));
    let Some(before) = scan.text.get(from..name.start) else { return };
    if !before.ends_with(" (") && !before.contains(" is ") && !before.contains(" as ") && !before.contains(" was ") {
        return;
    }
    let value = if let Some(before) = before.strip_suffix(" (") {
        // `(password)` and nothing else is between the parentheses.
        if scan.bytes.get(name.end) != Some(&b')') {
            return;
        }
        before
    } else {
        let mut words = before.trim_end();
        let mut count = 0;
        loop {
            let (rest, word) = words.rsplit_once(' ').unwrap_or(("", words));
            count += 1;
            match word {
                "is" | "as" | "was" if count > 1 && !rest.is_empty() => break words = rest,
                _ if count <= 4 && !rest.is_empty() => words = rest,
                _ => return,
            }
        }
        words
    };
    let value = value.rsplit([' ', '\n']).next().unwrap_or_default();
    let value = value.trim_matches(['"', '\'', '`', ',', ':', '(', ')']);
    if !is_strong(value) || is_placeholder(value) {
        return;
    }
    let telling = classified(scan.text, name).filter(|telling| telling.strength > Strength::Weak);
    if let Some(Telling { kind: kind @ Kind::Secret(_), .. }) = telling {
        let start = value.as_ptr() as usize - scan.text.as_ptr() as usize;
        scan.add(start..start + value.len(), kind);
    }
}

/// `Credentials: bob / …`, `login: bob:…`; was there a password?
fn user_and_password(scan: &mut Scan<'_>, name: &Range<usize>, at: usize) -> bool {
    let is_name = |name: &str| {
        ["credentials", "creds", "credential", "login", "logins"].iter().any(|word| name.eq_ignore_ascii_case(word))
    };
    let Some(rest) = scan.text.get(at..scan.text.floor_char_boundary(at + 160)) else { return false };
    if !scan.text.get(name.clone()).is_some_and(is_name) {
        return false;
    }
    let user = rest.bytes().take_while(|byte| DOTTED.has(*byte) || *byte == b'@').count();
    let mut password = rest[user..].trim_start_matches(' ');
    if user == 0 || !password.starts_with(['/', ':']) || password.starts_with("//") {
        return false;
    }
    password = password[1..].trim_start_matches(' ');
    let end = password
        .find(|c: char| c.is_whitespace() || matches!(c, ',' | ')' | '"' | '\'' | '`'))
        .unwrap_or(password.len());
    let password = password[..end].trim_end_matches('.');
    let is_found = has_signs(password)
        && password.contains(char::is_alphabetic)
        && password.len() >= 5
        && !password.contains('/')
        && !is_placeholder(password)
        && !is_technical(password);
    if is_found {
        let start = at + (password.as_ptr() as usize - rest.as_ptr() as usize);
        scan.add(start..start + password.len(), PASSWORD.kind);
    }
    is_found
}

/// How long the words of a recovery phrase are that begins here: 12 to 24 words in lower case.
fn phrase_length(rest: &[u8]) -> usize {
    let mut end = 0;
    let mut words = 0;
    let mut at = usize::from(rest.first().is_some_and(|byte| is_quote(*byte)));
    while words < 24 {
        let length = rest[at.min(rest.len())..].iter().take(9).take_while(|byte| byte.is_ascii_lowercase()).count();
        if !(3..=8).contains(&length) {
            break;
        }
        words += 1;
        end = at + length;
        at = end + 1;
        if !matches!(rest.get(end), Some(b' ' | b',')) {
            break;
        }
        at += usize::from(rest.get(at) == Some(&b' '));
    }
    if words >= 12 { end } else { 0 }
}

/// The code of an OAuth redirect, which can be exchanged for a token: `/callback?code=…&state=…`.
fn authorization_code(text: &str, name: &Range<usize>, joint: Joint, at: usize) -> Option<Telling> {
    let bytes = text.as_bytes();
    let is_code = joint == Joint::Tight
        && &bytes[name.clone()] == b"code"
        && matches!(name.start.checked_sub(1).map(|before| bytes[before]), Some(b'?' | b'&' | b'#'));
    let value = &bytes[at..DOTTED.run(bytes, at, 512)];
    let from = text.floor_char_boundary(name.start.saturating_sub(128));
    let until = text.ceil_char_boundary((at + value.len() + 64).min(text.len()));
    let is_redirect = |address: &str| {
        ["state=", "callback", "oauth", "/cb", "redirect", "login", "iss="].iter().any(|word| address.contains(word))
    };
    (is_code && is_random(value) && !is_uuid(value) && text.get(from..until).is_some_and(is_redirect))
        .then_some(Telling { kind: Kind::secret("code"), strength: Strength::Likely })
}

/// `auth=("bob", "…")`, `HTTPBasicAuth("bob", "…")`: the second literal behind the name, at `at`.
fn second_of_two(bytes: &[u8], telling: &Telling, at: usize) -> Option<Range<usize>> {
    let is_auth = matches!(&telling.kind, Kind::Secret(name) if name == "authorization" || name == "credential");
    is_auth.then_some(())?;
    let mut at = at;
    while matches!(bytes.get(at), Some(b'(' | b'[' | b' ')) {
        at += 1;
    }
    let literal = |at: usize| {
        let quote = *bytes.get(at).filter(|byte| matches!(byte, b'"' | b'\''))?;
        let end = at + 1 + bytes[at + 1..].iter().take(256).position(|byte| *byte == quote)?;
        Some(at + 1..end)
    };
    let user = literal(at)?;
    let comma = user.end + 1 + spaces(bytes, user.end + 1);
    (bytes.get(comma) == Some(&b',')).then_some(())?;
    literal(comma + 1 + spaces(bytes, comma + 1))
}

/// The whole identifier around a stem.
fn name_around(bytes: &[u8], stem: &Range<usize>) -> Range<usize> {
    let head = &bytes[stem.start.saturating_sub(MAX_NAME)..stem.start];
    let is_part = |byte: &u8| NAME.has(*byte) || *byte >= 0x80;
    let left = head.iter().rev().take_while(|byte| is_part(byte)).count();
    let mut start = stem.start - left;
    let tail = &bytes[stem.end..bytes.len().min(stem.end + MAX_NAME)];
    let right = tail.iter().take_while(|byte| is_part(byte)).count();
    // So do a colon of full width, an arrow, and the words for "is" that are written without a space.
    let right = (0..right).find(|at| tail[*at] >= 0x80 && foreign_joint(&tail[*at..]).is_some()).unwrap_or(right);
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
        let mut all: Vec<String> = line
            .split_whitespace()
            .rev()
            .take(2)
            .take_while(|word| !STOP_WORDS.iter().any(|stop| word.eq_ignore_ascii_case(stop)))
            .flat_map(keys::words)
            .collect();
        all.reverse();
        all.append(&mut words);
        words = all;
    }
    keys::classify_words(&words)
}

/// Words in front of a name that say nothing about it.
const STOP_WORDS: [&str; 30] = [
    "is", "my", "the", "a", "an", "your", "our", "this", "here", "new", "that", "his", "her", "their", "its", "and",
    "or", "with", "use", "using", "das", "der", "die", "le", "la", "el", "mein", "mon", "mi", "old",
];

/// Signs and words of other languages that join a value to a name without a space.
fn foreign_joint(bytes: &[u8]) -> Option<(Joint, usize)> {
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

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
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
    if joint == Joint::Cell {
        return cell(bytes, at, name);
    }
    // `\"…\"`: text that was escaped as a whole; and `"""…"""`.
    let slashes = rest.iter().take(8).take_while(|byte| **byte == b'\\').count();
    if let Some(quote @ (b'"' | b'\'' | b'`')) = rest.get(slashes).copied() {
        let is_triple = slashes == 0 && rest.len() > 6 && rest[1] == quote && rest[2] == quote;
        let open = slashes + if is_triple { 3 } else { 1 };
        let end = quoted_end(&rest[open..], quote, slashes)?;
        return (end > 0).then_some(Value { span: at + open..at + open + end, is_quoted: true });
    }
    let is_query = matches!(name.start.checked_sub(1).map(|before| bytes[before]), Some(b'?' | b'&' | b';'));
    let is_environment = joint == Joint::Tight && is_upper_name(&bytes[name.clone()]) && !is_query;
    let get = |at: usize| rest.get(at).copied().unwrap_or(b' ');
    let ends = |(index, byte): (usize, &u8)| match byte {
        byte if byte.is_ascii_whitespace() => true,
        b'"' | b'\'' | b'`' | b'<' | b'\\' => true,
        b'>' => joint != Joint::Flag,
        b'#' => joint == Joint::Tight && is_query,
        // `a&user=bob` in a form whose first field this is.
        b'&' => joint == Joint::Tight && !is_environment && (is_query || is_field(&rest[index + 1..])),
        b'|' => !is_environment && matches!(get(index + 1), b' ' | b'|' | b'\n'),
        b',' | b';' | b')' | b']' | b'}' => !is_environment || bytes[..name.start].ends_with(b"${"),
        // What follows in a script without spaces.
        0xe2..=0xef => index > 0 && (name.end > 0 && bytes[name.end - 1] >= 0x80 || joint == Joint::Is),
        _ => false,
    };
    let length = rest.iter().enumerate().take(MAX_VALUE).position(ends).unwrap_or(rest.len().min(MAX_VALUE));
    (length > 0).then_some(Value { span: at..at + length, is_quoted: false })
}

/// Does the next field of a form begin here?
fn is_field(rest: &[u8]) -> bool {
    let name = DOTTED.run(rest, 0, MAX_NAME);
    name > 0 && rest.get(name) == Some(&b'=')
}

/// The cell behind the one with the name.
fn cell(bytes: &[u8], at: usize, name: &Range<usize>) -> Option<Value> {
    let rest = &bytes[at..bytes.len().min(at + 512)];
    let length = rest.iter().position(|byte| matches!(byte, b'|' | b'\n')).unwrap_or(rest.len());
    // A pipe of a shell is no table.
    let head = &bytes[name.start.saturating_sub(32)..name.start];
    let line = head.iter().rposition(|byte| *byte == b'\n').map_or(head, |at| &head[at + 1..]);
    (rest.get(length) == Some(&b'|') || line.contains(&b'|')).then_some(())?;
    let text = &rest[..length];
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'`' | b'*' | b'"' | b'\'');
    let left = text.iter().take_while(|byte| is_blank(byte)).count();
    let right = text[left..].iter().rev().take_while(|byte| is_blank(byte)).count();
    (left + right < length).then_some(Value { span: at + left..at + length - right, is_quoted: true })
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
