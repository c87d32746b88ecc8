//! Secrets that a sentence tells, with words between the name and the value, or with the value first.

use std::ops::Range;

use super::{
    finding::Kind,
    joint::is_quote,
    keys::{Strength, Telling},
    names::classified,
    scan::Scan,
    shape::DOTTED,
    value::{has_signs, is_placeholder, is_strong, is_technical},
};

pub(super) const PASSWORD: Telling = Telling { kind: Kind::secret("password"), strength: Strength::Certain };

/// `the password for the database is …`, `token for production: …`: the verb comes later in the sentence.
pub(super) fn told_later(scan: &mut Scan<'_>, name: &Range<usize>, at: usize) {
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
pub(super) fn told_before(scan: &mut Scan<'_>, name: &Range<usize>) {
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
pub(super) fn user_and_password(scan: &mut Scan<'_>, name: &Range<usize>, at: usize) -> bool {
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
pub(super) fn phrase_length(rest: &[u8]) -> usize {
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
