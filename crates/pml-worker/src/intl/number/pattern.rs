//! Number patterns of CLDR, such as `¤#,##0.00;(¤#,##0.00)`.

use std::borrow::Cow;

/// A pattern, taken apart.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) positive: Affixes,
    /// As the pattern says, if it says anything about negative numbers.
    pub(super) negative: Option<Affixes>,
    /// How many digits the group next to the point has, and the others; none if there are no groups.
    pub(super) groups: Option<(i16, i16)>,
    /// How many digits stand before the point at least.
    pub(super) zeros: i16,
}

/// What stands before and behind the digits.
#[derive(Clone, Debug)]
pub(super) struct Affixes {
    pub(super) prefix: Vec<Token>,
    pub(super) suffix: Vec<Token>,
}

/// A piece of an affix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Literal(Cow<'static, str>),
    Currency,
    Percent,
    Minus,
    Plus,
    Approximately,
}

impl Pattern {
    pub(super) fn parse(pattern: &str) -> Pattern {
        let (positive, negative) = split_unquoted(pattern, ';');
        let (prefix, body, suffix) = sections(positive);
        let integer = body.split(['.', 'E']).next().unwrap_or_default();
        let mut groups = integer.rsplit(',').map(|group| group.len() as i16);
        let (first, second, third) = (groups.next(), groups.next(), groups.next());
        let groups = match (first, second, third) {
            (Some(primary), Some(secondary), Some(_)) => Some((primary, secondary)),
            (Some(primary), Some(_), None) => Some((primary, primary)),
            _ => None,
        };
        let negative = negative.map(|negative| {
            let (prefix, _, suffix) = sections(negative);
            Affixes { prefix: tokens(prefix), suffix: tokens(suffix) }
        });
        Pattern {
            positive: Affixes { prefix: tokens(prefix), suffix: tokens(suffix) },
            negative,
            groups,
            zeros: integer.bytes().filter(|byte| *byte == b'0').count() as i16,
        }
    }
}

impl Affixes {
    pub(super) fn has(&self, token: &Token) -> bool {
        self.prefix.contains(token) || self.suffix.contains(token)
    }
}

/// Cuts at the first `separator` that is not quoted.
fn split_unquoted(pattern: &str, separator: char) -> (&str, Option<&str>) {
    let mut is_quoted = false;
    for (at, letter) in pattern.char_indices() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            letter if letter == separator && !is_quoted => return (&pattern[..at], Some(&pattern[at + 1..])),
            _ => {}
        }
    }
    (pattern, None)
}

/// The prefix, the digits and the suffix.
fn sections(pattern: &str) -> (&str, &str, &str) {
    let mut is_quoted = false;
    let (mut start, mut end) = (pattern.len(), pattern.len());
    for (at, letter) in pattern.char_indices() {
        if letter == '\'' {
            is_quoted = !is_quoted;
        }
        let is_digit = !is_quoted && matches!(letter, '#' | '0' | ',' | '.' | 'E' | '@');
        if is_digit && start == pattern.len() {
            start = at;
        } else if !is_digit && start < pattern.len() {
            end = at;
            break;
        }
    }
    (&pattern[..start], &pattern[start..end], &pattern[end..])
}

fn tokens(affix: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut is_quoted = false;
    let mut letters = affix.chars().peekable();
    while let Some(letter) = letters.next() {
        let token = match letter {
            '\'' if letters.peek() == Some(&'\'') => {
                letters.next();
                None
            }
            '\'' => {
                is_quoted = !is_quoted;
                continue;
            }
            '¤' if !is_quoted => Some(Token::Currency),
            '%' if !is_quoted => Some(Token::Percent),
            '-' if !is_quoted => Some(Token::Minus),
            '+' if !is_quoted => Some(Token::Plus),
            _ => None,
        };
        match (token, tokens.last_mut()) {
            (Some(token), _) => tokens.push(token),
            (None, Some(Token::Literal(text))) => text.to_mut().push(letter),
            (None, _) => tokens.push(Token::Literal(letter.to_string().into())),
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_says_where_digits_and_groups_are() {
        let pattern = Pattern::parse("\u{a4}#,##,##0.00;(\u{a4}#,##,##0.00)");
        assert_eq!(pattern.groups, Some((3, 2)));
        assert_eq!(pattern.positive.prefix, [Token::Currency]);
        let negative = pattern.negative.unwrap();
        assert_eq!(negative.prefix, [Token::Literal("(".into()), Token::Currency]);
        assert_eq!(negative.suffix, [Token::Literal(")".into())]);

        let pattern = Pattern::parse("00 Mio'.' ¤");
        assert_eq!((pattern.zeros, pattern.groups), (2, None));
        assert_eq!(pattern.positive.suffix, [Token::Literal(" Mio. ".into()), Token::Currency]);
    }
}
