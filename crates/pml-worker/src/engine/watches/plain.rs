//! Texts, numbers and booleans, and what they have in common with literals.

use std::fmt::Write as _;

use rquickjs::Value;

use super::super::{raw, slips::in_quotes};
use crate::transpile::Literal;

/// Texts that say `false` and `true`, in lower case.
const WORDS: [[&str; 6]; 2] = [["false", "no", "n", "f", "off", "0"], ["true", "yes", "y", "t", "on", "1"]];

/// A text, number or boolean.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plain {
    Text(String),
    Number(f64),
    Boolean(bool),
}

/// The value, if it is a text, number or boolean that a literal may be meant by.
pub(super) fn plain(value: &Value<'_>, with: &[Literal]) -> Option<Plain> {
    if let Some(number) = value.as_number() {
        return Some(Plain::Number(number));
    }
    if let Some(flag) = value.as_bool() {
        return Some(Plain::Boolean(flag));
    }
    if !value.is_string() {
        return None;
    }
    let longest = with.iter().map(|it| match it {
        Literal::Text(text) => text.len(),
        _ => 0,
    });
    let limit = 2 * longest.max().unwrap_or_default() + 40;
    // Of a long text it is enough that it is one.
    raw::with_text(value, |text, _| Plain::Text(if text.len() > limit { String::new() } else { text.to_owned() }))
}

impl Plain {
    pub(super) fn shown(&self) -> String {
        match self {
            Plain::Text(text) => format!("the text {}", in_quotes(text)),
            Plain::Number(number) => format!("the number {number}"),
            Plain::Boolean(flag) => format!("`{flag}`"),
        }
    }
}

pub(super) fn is_equal(literal: &Literal, value: &Plain, is_strict: bool) -> bool {
    match (literal, value) {
        (Literal::Text(literal), Plain::Text(text)) => literal == text,
        (Literal::Number(literal), Plain::Number(number)) => literal == number,
        (Literal::Boolean(literal), Plain::Boolean(flag)) => literal == flag,
        _ if is_strict => false,
        (Literal::Text(_) | Literal::Number(_) | Literal::Boolean(_), _) => {
            number_of_literal(literal).zip(number(value)).is_some_and(|(literal, number)| literal == number)
        }
        (Literal::Null | Literal::Undefined, _) => false,
    }
}

/// Does the value say what the literal says, in another form?
pub(super) fn is_variant(literal: &Literal, value: &Plain) -> bool {
    match (literal, value) {
        (Literal::Text(literal), Plain::Text(text)) => {
            let folded = fold(literal);
            !folded.is_empty() && folded == fold(text)
        }
        (Literal::Text(literal), Plain::Boolean(flag)) => fold(literal) == flag.to_string(),
        (Literal::Boolean(literal), Plain::Text(text)) => WORDS[usize::from(*literal)].contains(&fold(text).as_str()),
        (Literal::Text(text), Plain::Number(_)) if text.trim().is_empty() => false,
        (Literal::Number(_), Plain::Text(text)) if text.trim().is_empty() => false,
        (Literal::Number(_), Plain::Boolean(_)) => false,
        (Literal::Text(_) | Literal::Number(_) | Literal::Boolean(_), _) => {
            number_of_literal(literal).zip(number(value)).is_some_and(|(literal, number)| literal == number)
        }
        (Literal::Null | Literal::Undefined, _) => false,
    }
}

/// A text without case, space and separators.
fn fold(text: &str) -> String {
    let kept = text.chars().filter(|it| !it.is_whitespace() && !matches!(it, '-' | '_'));
    kept.flat_map(char::to_lowercase).collect()
}

fn number_of_literal(literal: &Literal) -> Option<f64> {
    match literal {
        Literal::Text(text) => text.trim().parse().ok(),
        Literal::Number(number) => Some(*number),
        Literal::Boolean(flag) => Some(f64::from(u8::from(*flag))),
        Literal::Null | Literal::Undefined => None,
    }
}

pub(super) fn number(value: &Plain) -> Option<f64> {
    match value {
        Plain::Text(text) => text.trim().parse().ok(),
        Plain::Number(number) => Some(*number),
        Plain::Boolean(flag) => Some(f64::from(u8::from(*flag))),
    }
}

/// A literal as the program writes it.
pub(super) fn written(literal: &Literal) -> String {
    match literal {
        Literal::Text(text) => in_quotes(text),
        Literal::Number(number) => number.to_string(),
        Literal::Boolean(flag) => flag.to_string(),
        Literal::Null => "null".to_owned(),
        Literal::Undefined => "undefined".to_owned(),
    }
}

/// `"open" or "new"`.
pub(super) fn all_written(with: &[Literal]) -> String {
    let mut text = String::new();
    for (index, literal) in with.iter().take(3).enumerate() {
        let _ = write!(text, "{}{}", if index > 0 { " or " } else { "" }, written(literal));
    }
    text
}

/// `"a", "b" or "c"`.
pub(super) fn either(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| in_quotes(text)).collect();
    match &quoted[..] {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Is a text no number to JavaScript, and not empty?
pub(super) fn is_not_number(text: &str) -> bool {
    let text = text.trim();
    let unsigned = text.trim_start_matches(['+', '-']);
    let radix = ["0x", "0X", "0o", "0O", "0b", "0B"].iter().any(|prefix| text.starts_with(prefix));
    let has_words = unsigned.contains(|it: char| !it.is_ascii_digit() && !matches!(it, '.' | 'e' | 'E' | '+' | '-'));
    !text.is_empty() && unsigned != "Infinity" && !radix && (has_words || text.parse::<f64>().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_no_numbers() {
        let table = [
            ("1,250.00", true),
            ("12 px", true),
            ("n/a", true),
            ("inf", true),
            ("1.2.3", true),
            ("2024-01-02", true),
            ("", false),
            (" 12.50 ", false),
            ("-1e3", false),
            (".5", false),
            ("5.", false),
            ("0x1F", false),
            ("-Infinity", false),
        ];
        for (text, expected) in table {
            assert_eq!(is_not_number(text), expected, "{text}");
        }
    }

    #[test]
    fn values_that_say_the_same_as_a_literal() {
        let text = |text: &str| Plain::Text(text.to_owned());
        let literal = |text: &str| Literal::Text(text.to_owned());
        let table = [
            (literal("open"), text("OPEN"), true),
            (literal("in_progress"), text("In Progress"), true),
            (literal("open"), text("reopen"), false),
            (literal("-"), text("_"), false),
            (literal("7"), Plain::Number(7.0), true),
            (literal(""), Plain::Number(0.0), false),
            (Literal::Number(7.0), text("07"), true),
            (Literal::Number(0.0), text(""), false),
            (Literal::Number(1.0), Plain::Boolean(true), false),
            (Literal::Boolean(true), Plain::Number(1.0), true),
            (Literal::Boolean(true), text("True"), true),
            (Literal::Boolean(false), text("N"), true),
            (Literal::Boolean(true), text("N"), false),
            (Literal::Boolean(false), Plain::Number(1.0), false),
        ];
        for (literal, value, expected) in table {
            assert_eq!(is_variant(&literal, &value), expected, "{literal:?} {value:?}");
            assert!(!is_equal(&literal, &value, true));
        }
    }

    #[test]
    fn texts_are_listed() {
        let table: [(&[&str], &str); 3] =
            [(&["a"], r#""a""#), (&["a", "b"], r#""a" or "b""#), (&["a", "b", "c"], r#""a", "b" or "c""#)];
        for (texts, expected) in table {
            let texts: Vec<String> = texts.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(either(&texts), expected);
        }
    }
}
