//! Secrets in the text of a command line, such as the last argument of `bash -c "TOKEN=… npx …"`.
//!
//! The text is cut into words roughly as a shell does. Where that is wrong, more is called secret rather than less.

use std::ops::Range;

use super::servers::is_secret_name;

/// How deep a command line is looked for inside of another's words.
const MAX_DEPTH: usize = 4;

/// What the value of an option such as `--header` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    Header,
    Variable,
    /// A user and a password.
    Login,
}

/// Finds the value of a header, variable or login in an argument, which may be behind its option: `--header "X-Key: abc"`,
/// `-e KEY=abc`, `--env=KEY=abc`. Returns the name and where the value is.
pub(crate) fn carried<'a>(before: &str, arg: &'a str) -> Option<(Carried, &'a str, Range<usize>)> {
    let of = |option: &str| match option {
        "-H" | "--header" => Some(Carried::Header),
        "-e" | "--env" => Some(Carried::Variable),
        "-u" | "--user" => Some(Carried::Login),
        _ => None,
    };
    let joined = arg.split_once('=').and_then(|(option, _)| Some((of(option)?, option.len() + 1)));
    let (kind, start) = joined.or_else(|| Some((of(before)?, 0)))?;
    let at = start + arg[start..].find([':', '='])?;
    Some((kind, &arg[start..at], at + 1..arg.len()))
}

/// Where the secrets are in a text, in order and apart from each other.
pub(crate) fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    look(text, 0, 0, &mut found);
    found.sort_by_key(|range: &Range<usize>| (range.start, range.end));
    let mut apart: Vec<Range<usize>> = Vec::new();
    for range in found.into_iter().filter(|range| !range.is_empty()) {
        match apart.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

fn look(text: &str, offset: usize, depth: usize, found: &mut Vec<Range<usize>>) {
    let mut before = "";
    for word in words(text) {
        let content = unquoted(text, &word);
        let shown = &text[content.clone()];
        let mut add = |range: Range<usize>| {
            let range = unquoted(text, &range);
            if !is_reference(&text[range.clone()]) {
                found.push(offset + range.start..offset + range.end);
            }
        };
        let is_flag = |word: &str| word.starts_with('-') && is_named_secret(word) && !word.contains('=');
        if (is_flag(before) && !shown.starts_with("--")) || matches!(before, "Bearer" | "bearer" | "Basic") {
            add(content.clone());
        } else if let Some((_, _, value)) = carried(before, shown) {
            add(content.start + value.start..content.start + value.end);
        } else if depth < MAX_DEPTH && content != word && shown.contains(char::is_whitespace) {
            look(shown, offset + content.start, depth + 1, found);
        } else if let Some((name, _)) = shown.split_once('=').filter(|(name, _)| is_named_secret(name) && is_name(name))
        {
            add(content.start + name.len() + 1..content.end);
        } else if let Some(at) = shown.find("://") {
            let rest = &shown[at + 3..];
            let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            if let Some(user) = rest[..host].rfind('@') {
                add(content.start + at + 3..content.start + at + 3 + user);
            }
            if let Some(query) = rest.find('?') {
                add(content.start + at + 3 + query + 1..content.end);
            }
        }
        before = shown;
    }
}

fn is_named_secret(name: &str) -> bool {
    is_secret_name(name) && !name.to_ascii_lowercase().contains("url")
}

/// A flag, or what a variable can be called.
fn is_name(name: &str) -> bool {
    name.starts_with('-') || name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Does a word only name a variable?
fn is_reference(text: &str) -> bool {
    let Some(name) = text.trim_matches('"').strip_prefix('$') else { return text.is_empty() };
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The words of a text: what is between spaces and operators, but for those in quotes.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let (mut start, mut quote, mut is_escaped) = (None, None, false);
    for (at, c) in text.char_indices() {
        let is_end = quote.is_none() && !is_escaped && (c.is_whitespace() || ";|&()<>`".contains(c));
        match quote {
            _ if is_escaped => {}
            Some(open) if open == c => quote = None,
            None if matches!(c, '"' | '\'') => quote = Some(c),
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped && quote != Some('\'');
        match (is_end, start) {
            (true, Some(begin)) => {
                words.push(begin..at);
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    words.extend(start.map(|begin| begin..text.len()));
    if quote.is_some() {
        // A quote that is none, as in "it's".
        let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
        return text.split_whitespace().map(|word| start(word)..start(word) + word.len()).collect();
    }
    words
}

/// A word without the quotes around all of it.
fn unquoted(text: &str, word: &Range<usize>) -> Range<usize> {
    let shown = &text[word.clone()];
    let is_quoted = |quote: char| shown.len() >= 2 && shown.starts_with(quote) && shown.ends_with(quote);
    if is_quoted('"') || is_quoted('\'') { word.start + 1..word.end - 1 } else { word.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_command_lines_are_found_and_the_rest_is_not() {
        let table = [
            ("TOKEN=abc npx -y server", "TOKEN=*** npx -y server"),
            ("export API_KEY='a b'; exec npx x", "export API_KEY='***'; exec npx x"),
            ("cd /srv && A=1 PGPASSWORD=\"x\" psql", "cd /srv && A=1 PGPASSWORD=\"***\" psql"),
            ("server --token abc --level debug", "server --token *** --level debug"),
            ("server --api-key=abc|tee log", "server --api-key=***|tee log"),
            (
                "curl -H 'Authorization: Bearer abc' https://u:p@h/x?key=1",
                "curl -H 'Authorization:***' https://***@h/x?***",
            ),
            ("bash -c 'SECRET=abc run'", "bash -c 'SECRET=*** run'"),
            ("docker run --env=PASSWORD=abc -e KEY=abc img", "docker run --env=PASSWORD=*** -e KEY=*** img"),
            ("npx x --header=X-Key:abc", "npx x --header=X-Key:***"),
            ("echo Bearer abc", "echo Bearer ***"),
            ("curl -u me:abc h", "curl -u me:*** h"),
            ("psql postgres://me:abc@db/x", "psql postgres://***@db/x"),
            ("TOKEN=$TOKEN KEY=\"${KEY}\" npx x", "TOKEN=$TOKEN KEY=\"${KEY}\" npx x"),
            ("npx -y @scope/pkg@1.2.3 /home/me/notes", "npx -y @scope/pkg@1.2.3 /home/me/notes"),
            ("TOKEN=abc", "TOKEN=***"),
            ("it's TOKEN=abc", "it's TOKEN=***"),
            ("", ""),
        ];
        for (text, expected) in table {
            let mut shown = text.to_owned();
            for range in secrets(text).into_iter().rev() {
                shown.replace_range(range, "***");
            }
            assert_eq!(shown, expected, "{text}");
        }
    }
}
