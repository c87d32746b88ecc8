//! A file of variables (`.env`), as clients read it: `NAME=value`, with quotes and comments, and nothing put in.

/// The variables of a file, in their order. Lines that are none are passed over.
pub(super) fn parse(text: &str) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    let mut rest = text.trim_start_matches('\u{feff}');
    while !rest.is_empty() {
        let line = rest.lines().next().unwrap_or_default();
        let trimmed = line.trim_start();
        let after = rest.find('\n').map_or("", |at| &rest[at + 1..]);
        let statement = trimmed.strip_prefix("export ").unwrap_or(trimmed);
        let name = statement.split_once('=').map(|(name, _)| name.trim());
        let Some(name) = name.filter(|name| !name.is_empty() && !name.starts_with('#')) else {
            rest = after;
            continue;
        };
        let start = rest.find('=').map_or(rest.len(), |at| at + 1);
        let value = rest[start..].trim_start_matches([' ', '\t']);
        let quoted = ['"', '\'', '`'].into_iter().find_map(|quote| {
            let inner = value.strip_prefix(quote)?;
            let end = closing(inner, quote)?;
            let value = match quote {
                '"' => inner[..end].replace("\\n", "\n").replace("\\r", "\r"),
                _ => inner[..end].to_owned(),
            };
            Some((value, &inner[end + 1..]))
        });
        match quoted {
            Some((value, left)) => {
                variables.push((name.to_owned(), value));
                rest = left.find('\n').map_or("", |at| &left[at + 1..]);
            }
            None => {
                let value = value.lines().next().unwrap_or_default();
                let value = value.split_once('#').map_or(value, |(value, _)| value);
                variables.push((name.to_owned(), value.trim().to_owned()));
                rest = after;
            }
        }
    }
    variables
}

/// Where the quote is that ends a value; it may be on a later line.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let is_end = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_as_they_are_meant() {
        let text = "# c\nA=1\r\n export B = 'x # ${Y}' # c\n\nC=\"a\\nb\"\nD=${A}-$A # not put in\nE=\nno line\nF=\"one\ntwo\"\nG=a=b\nH='open\n#I=1\nJ=\"a\\\"b\"";
        let expected = [
            ("A", "1"),
            ("B", "x # ${Y}"),
            ("C", "a\nb"),
            ("D", "${A}-$A"),
            ("E", ""),
            ("F", "one\ntwo"),
            ("G", "a=b"),
            ("H", "'open"),
            ("J", "a\\\"b"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parse(text), expected);
        for strange in ["=", "=\n", "A", "\"", "A=\"", "A='\\", "\u{feff}"] {
            parse(strange);
        }
    }
}
