//! Date patterns of CLDR, such as `EEEE, d. MMMM y 'um' HH:mm`.

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A letter and how often it stands there.
    Field(char, usize),
    Literal(String),
}

/// Cuts a pattern into pieces. Letters stand for fields unless they are quoted.
pub(super) fn parse(pattern: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut is_quoted = false;
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_text = match letter {
            '\'' if letters.peek() == Some(&'\'') => {
                letters.next();
                true
            }
            '\'' => {
                is_quoted = !is_quoted;
                continue;
            }
            letter => is_quoted || !letter.is_ascii_alphabetic(),
        };
        match (items.last_mut(), is_text) {
            (Some(Item::Literal(text)), true) => text.push(letter),
            (_, true) => items.push(Item::Literal(letter.to_string())),
            (Some(Item::Field(last, count)), false) if *last == letter => *count += 1,
            (_, false) => items.push(Item::Field(letter, 1)),
        }
    }
    items
}

/// The pattern of pieces.
pub(super) fn write(items: &[Item]) -> String {
    let mut pattern = String::new();
    for item in items {
        match item {
            Item::Field(letter, count) => pattern.extend(std::iter::repeat_n(*letter, *count)),
            Item::Literal(text) => quote(text, &mut pattern),
        }
    }
    pattern
}

fn quote(text: &str, pattern: &mut String) {
    let needs_quotes = text.contains(|letter: char| letter.is_ascii_alphabetic());
    if needs_quotes {
        pattern.push('\'');
    }
    pattern.push_str(&text.replace('\'', "''"));
    if needs_quotes {
        pattern.push('\'');
    }
}

/// Is it an hour of some kind?
pub(super) fn is_hour(letter: char) -> bool {
    matches!(letter, 'h' | 'H' | 'k' | 'K')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_again() {
        for pattern in ["EEEE, d. MMMM y 'um' HH:mm", "h 'o''clock' a", "''yy", "y年M月d日"] {
            let items = parse(pattern);
            assert_eq!(parse(&write(&items)), items, "{pattern}");
        }
        assert_eq!(parse("d 'de' MMMM"), [Item::Field('d', 1), Item::Literal(" de ".to_owned()), Item::Field('M', 4)]);
    }
}
