//! Names with values in running text: `password=…`, `"api_key": "…"`, `--token …`, `<password>…</password>`, headers, query
//! strings, connection strings, YAML, TOML and code.
//!
//! A name is found by its stem. The signs behind it tell how the value is joined (`joint.rs`) and where it ends (`bounds.rs`), and
//! whether it is a literal (`literal.rs`). Sentences have an order of their own (`sentences.rs`).

use std::ops::Range;

use super::{
    bounds::{line_length, value},
    finding::Kind,
    headers,
    joint::{Joint, is_quote, joint, spaces},
    keys::{Strength, Telling},
    literal::{is_bare_secret, is_literal_secret},
    names::{classified, name_around},
    scan::Scan,
    sentences::{PASSWORD, phrase_length, told_before, told_later, user_and_password},
    shape::{DOTTED, is_random, is_uuid},
    tables,
    value::is_secret,
};

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
