//! Names: which can stand as they are, and how the others are quoted or replaced.

use std::fmt::Write;

use pml_wire::id::RESERVED_NAMES;

use crate::shown::is_hidden;

pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED_NAMES.contains(&name)
}

/// Can `name` stand behind a dot? Words outside ASCII are quoted rather than looked up in Unicode's
/// tables; keywords may be properties.
pub(super) fn is_identifier(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    name.chars().all(inner) && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// The alias of a name that is no identifier, in camel case: `get-sum` becomes `getSum`.
///
/// `None` if the name is an identifier already or no alias can be made.
pub fn alias(name: &str) -> Option<String> {
    if is_identifier(name) || name.chars().any(|c| !c.is_ascii() && c.is_alphanumeric()) {
        return None;
    }
    let mut alias = String::new();
    for word in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let (lowered, rest) = if alias.is_empty() {
            word.split_at(leading_capitals(word))
        } else {
            alias.push(char::from(word.as_bytes()[0].to_ascii_uppercase()));
            ("", &word[1..])
        };
        alias.push_str(&lowered.to_ascii_lowercase());
        alias.push_str(rest);
    }
    (is_identifier(&alias) && !is_reserved(&alias)).then_some(alias)
}

/// How many capitals to lower: those of `API` and of `API` in `APIKey`, and the one of `Twilio`.
fn leading_capitals(word: &str) -> usize {
    let capitals = word.bytes().take_while(u8::is_ascii_uppercase).count();
    let starts_next_word = word.as_bytes().get(capitals).is_some_and(u8::is_ascii_lowercase);
    if capitals > 1 && starts_next_word { capitals - 1 } else { capitals }
}

/// The name of a property or method: as it is, or quoted. `new(…)` would make a constructor.
pub(super) fn key(name: &str) -> String {
    if is_identifier(name) && name != "new" { name.to_owned() } else { quoted(name) }
}

/// The access to a property: `.name` or `["na-me"]`.
pub(super) fn access(name: &str) -> String {
    if is_identifier(name) { format!(".{name}") } else { format!("[{}]", quoted(name)) }
}

/// A string literal on one line, with nothing in it that could look like something else.
pub(in crate::catalog) fn quoted(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => literal.extend(['\\', character]),
            '\n' => literal.push_str("\\n"),
            '\t' => literal.push_str("\\t"),
            _ if is_hidden(character) => write!(literal, "\\u{{{:x}}}", u32::from(character)).expect("a string grows"),
            _ => literal.push(character),
        }
    }
    literal.push('"');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_identifiers_get_aliases() {
        #[rustfmt::skip]
        let table = [
            // name                     alias
            ("get-sum",                 Some("getSum")),
            ("TwilioApiV2010--ListX",   Some("twilioApiV2010ListX")),
            ("API-get-user",            Some("apiGetUser")),
            ("APIKey.list",             Some("apiKeyList")),
            ("get_user-by_id",          Some("getUserById")),
            ("issues/list",             Some("issuesList")),
            ("a-1",                     Some("a1")),
            ("-x-",                     Some("x")),
            ("$a-b",                    Some("aB")),
            ("delete-",                 Some("delete")),
            ("get_sum",                 None), // an identifier
            ("delete",                  None),
            ("$",                       None),
            ("3d-print",                None),
            ("größe-x",                 None),
            ("value-of",                None), // `valueOf`
            ("-then",                   None),
            ("--",                      None),
            ("",                        None),
        ];
        for (name, expected) in table {
            assert_eq!(alias(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn keys_are_quoted_if_they_must_be() {
        #[rustfmt::skip]
        let table = [
            ("delete", "delete"), ("__proto__", "__proto__"), ("$a_1", "$a_1"), ("new", "\"new\""),
            ("1a", "\"1a\""), ("a-b", "\"a-b\""), ("ä", "\"ä\""), ("", "\"\""),
        ];
        for (name, expected) in table {
            assert_eq!(key(name), expected, "{name}");
        }
    }

    #[test]
    fn strings_are_quoted() {
        #[rustfmt::skip]
        let table = [
            ("a b",                 r#""a b""#),
            ("say \"hi\" \\o/",     r#""say \"hi\" \\o/""#),
            ("a\r\n\tb\0",          r#""a\u{d}\n\tb\u{0}""#),
            ("\u{2028}\u{202e}\u{e0041}\u{9f}", r#""\u{2028}\u{202e}\u{e0041}\u{9f}""#),
            ("größe 🐙",            r#""größe 🐙""#),
        ];
        for (text, expected) in table {
            assert_eq!(quoted(text), expected, "{text:?}");
        }
    }
}
