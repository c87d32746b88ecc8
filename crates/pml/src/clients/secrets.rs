//! What of a configuration must not be shown.
//!
//! The text keeps its lines; values of variables and headers, arguments and addresses with a secret
//! in them, and words that look like a token have `***` in their place, also in comments.

use std::ops::Range;

use serde_json::Value;

use super::client::Format;
use crate::config::{
    command_line,
    expand::{Piece, name_and_default, pieces},
    is_secret_name,
    jsonc::plain,
};

const MASK: &str = "***";

/// How tokens begin that are known by their beginning.
const PREFIXES: [&str; 27] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "eyJ",
    "npm_",
    "pypi-",
    "hf_",
    "shpat_",
    "ya29.",
    "figd_",
    "ntn_",
    "lin_api_",
    "tvly-",
];

/// A text whose values are not secret. Words that look like a token are left to [`mask_words`], line by
/// line: most of a file is not shown at all.
pub fn masked(format: Format, text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    let mut found = found(format, text);
    found.sort_by_key(|(range, _)| range.start);
    for (range, new) in found {
        out.push_str(&text[end..range.start]);
        out.push_str(&new);
        end = range.end;
    }
    out.push_str(&text[end..]);
    out
}

/// Are there secrets in it as they are, and not as `${NAME}`?
pub fn holds_secrets(format: Format, text: &str) -> bool {
    let mut holds = false;
    visit(format, text, &mut |keys, value, before, _| {
        let name = keys.last().copied().unwrap_or_default();
        let parent = keys.len().checked_sub(2).map_or("", |index| keys[index]);
        let is_named = is_of_headers(parent) || (parent == "env" && is_secret_name(name) && !name.contains("URL"));
        let arg = matches!(name, "args" | "command") && shown_arg(value, before) != value;
        holds |= !is_reference(value) && (is_named || arg || mask_words(value) != value);
    });
    holds
}

/// Where something is secret, and what to show for it.
fn found(format: Format, text: &str) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    visit(format, text, &mut |keys, value, before, range| {
        let name = keys.last().copied().unwrap_or_default();
        let parent = keys.len().checked_sub(2).map_or("", |index| keys[index]);
        let shown = match name {
            // Names of variables, not their values.
            _ if parent == "env_http_headers" || name == "env_vars" || name.ends_with("_env_var") => return,
            _ if is_reference(value) => return,
            _ if parent == "env" || is_of_headers(parent) => MASK.to_owned(),
            "args" | "command" => shown_arg(value, before),
            "url" | "serverUrl" | "httpUrl" => mask_address(value),
            _ if is_secret_name(name) && !name.to_ascii_lowercase().contains("url") => MASK.to_owned(),
            _ => return,
        };
        if shown != value {
            found.push((range, Value::from(shown).to_string()));
        }
    });
    found
}

fn is_of_headers(parent: &str) -> bool {
    matches!(parent, "headers" | "http_headers")
}

/// Does a text consist of variables without defaults, and of what says how a token is meant?
fn is_reference(text: &str) -> bool {
    let mut plain = String::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => plain.push_str(text),
            Piece::Variable(variable) => match name_and_default(variable).1 {
                Some(default) if !default.is_empty() && !is_reference(default) => return false,
                _ => {}
            },
        }
    }
    matches!(plain.trim().to_ascii_lowercase().as_str(), "" | "bearer" | "token" | "basic")
}

/// An argument as it may be shown, behind another one.
fn shown_arg(arg: &str, before: Option<&str>) -> String {
    let is_flag =
        |text: &str| text.starts_with('-') && is_secret_name(text) && !text.to_ascii_lowercase().contains("url");
    match arg.split_once('=') {
        _ if is_reference(arg) => arg.to_owned(),
        Some((name, value)) if is_flag(name) && !is_reference(value) => format!("{name}={MASK}"),
        _ if before.is_some_and(|before| is_flag(before) && !before.contains('=')) && !arg.starts_with("--") => {
            MASK.to_owned()
        }
        // `--header "Authorization: Bearer x"`, `-e KEY=value` and `--env=KEY=value`.
        _ if let Some((_, _, value)) = command_line::carried(before.unwrap_or_default(), arg) => {
            match is_reference(&arg[value.clone()]) {
                true => arg.to_owned(),
                false => format!("{}{MASK}", &arg[..value.start]),
            }
        }
        _ if arg.contains("://") && !arg.contains(char::is_whitespace) => mask_address(arg),
        _ => {
            let mut shown = arg.to_owned();
            for range in command_line::secrets(arg).into_iter().rev() {
                shown.replace_range(range, MASK);
            }
            shown
        }
    }
}

/// A value that is secret, unless it only names variables.
pub fn mask_value(text: &str) -> String {
    if is_reference(text) { text.to_owned() } else { MASK.to_owned() }
}

/// An address without user, password and query.
pub fn mask_address(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = host.rsplit_once('@').map_or(host.to_owned(), |(_, host)| format!("{MASK}@{host}"));
    let query = query.map(|query| if is_reference(query) { format!("?{query}") } else { format!("?{MASK}") });
    format!("{scheme}://{host}{path}{}", query.unwrap_or_default())
}

/// A line without words that look like a token.
pub fn mask_words(line: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '=' | '.');
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find(is_part) {
        let end = rest[start..].find(|c| !is_part(c)).map_or(rest.len(), |at| start + at);
        out.push_str(&rest[..start]);
        out.push_str(if is_token(&rest[start..end]) { MASK } else { &rest[start..end] });
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

fn is_token(word: &str) -> bool {
    let is_mixed = |text: &str| {
        text.len() >= 20
            && text.contains(|c: char| c.is_ascii_digit())
            && text.contains(|c: char| c.is_ascii_alphabetic())
    };
    let groups: Vec<_> = word.split('-').collect();
    let is_uuid = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.chars().all(|c| c.is_ascii_hexdigit()));
    let value = word.rsplit_once('=').map_or(word, |(_, value)| if value.is_empty() { word } else { value });
    is_uuid
        || PREFIXES.iter().any(|prefix| value.starts_with(prefix) && value.len() >= prefix.len() + 8)
        || word.split(['-', '.']).any(is_mixed)
}

/// Gives every text of a configuration, with the keys that lead to it (elements of a list have the
/// list's), the element before it, and where it is.
type Visitor<'a> = dyn FnMut(&[&str], &str, Option<&str>, Range<usize>) + 'a;

fn visit(format: Format, text: &str, visitor: &mut Visitor<'_>) {
    match format {
        Format::Json => visit_json(text, visitor),
        Format::Toml => {
            // What cannot be read is not shown by anybody.
            if let Ok(document) = toml_edit::Document::parse(text) {
                visit_toml(document.as_item(), &mut Vec::new(), visitor);
            }
        }
    }
}

/// Without recursion: how deep another program's file goes is not our choice.
fn visit_json(text: &str, visitor: &mut Visitor<'_>) {
    let plain = plain(text).text;
    let bytes = plain.as_bytes();
    // For each open bracket: is it an object, the key in it, the last text in it.
    let mut open: Vec<(bool, Option<String>, Option<String>)> = Vec::new();
    let mut index = 0;
    while index < bytes.len() {
        match bytes[index] {
            b'{' | b'[' => open.push((bytes[index] == b'{', None, None)),
            b'}' | b']' => drop(open.pop()),
            b',' => {
                if let Some((true, key, _)) = open.last_mut() {
                    *key = None;
                }
            }
            b'"' => {
                let start = index;
                index += 1;
                while index < bytes.len() && bytes[index] != b'"' {
                    index += if bytes[index] == b'\\' { 2 } else { 1 };
                }
                let end = (index + 1).min(bytes.len());
                let value: String = serde_json::from_str(&plain[start..end]).unwrap_or_default();
                match open.last_mut() {
                    Some((true, key @ None, _)) => *key = Some(value),
                    Some((is_object, _, before)) => {
                        let before = if *is_object { None } else { before.replace(value.clone()) };
                        // The nearest few are enough to know what a text is.
                        let near = &open[open.len().saturating_sub(4)..];
                        let near: Vec<_> = near.iter().filter_map(|(_, key, _)| key.as_deref()).collect();
                        visitor(&near, &value, before.as_deref(), start..end);
                    }
                    None => {}
                }
            }
            _ => {}
        }
        index += 1;
    }
}

fn visit_toml(item: &toml_edit::Item, keys: &mut Vec<String>, visitor: &mut Visitor<'_>) {
    if let Some(value) = item.as_value() {
        return visit_toml_value(value, keys, None, visitor);
    }
    if let Some(tables) = item.as_array_of_tables() {
        for (key, item) in tables.iter().flat_map(|table| table.iter()) {
            keys.push(key.to_owned());
            visit_toml(item, keys, visitor);
            keys.pop();
        }
    }
    for (key, item) in item.as_table().into_iter().flat_map(|table| table.iter()) {
        keys.push(key.to_owned());
        visit_toml(item, keys, visitor);
        keys.pop();
    }
}

fn visit_toml_value(value: &toml_edit::Value, keys: &mut Vec<String>, before: Option<&str>, visitor: &mut Visitor<'_>) {
    if let (Some(text), Some(range)) = (value.as_str(), value.span()) {
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        visitor(&keys, text, before, range);
    }
    let mut last = None;
    for value in value.as_array().into_iter().flat_map(|array| array.iter()) {
        visit_toml_value(value, keys, last, visitor);
        last = value.as_str();
    }
    for (key, value) in value.as_inline_table().into_iter().flat_map(|table| table.iter()) {
        keys.push(key.to_owned());
        visit_toml_value(value, keys, None, visitor);
        keys.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown_and_the_rest_is() {
        #[rustfmt::skip]
        let table = [
            (Format::Json, r#"{"env": {"A": "hunter2", "B": "${B}", "C": "${C:-hunter2}"}}"#, r#"{"env": {"A": "***", "B": "${B}", "C": "***"}}"#),
            (Format::Json, r#"{"headers": {"Authorization": "Bearer x", "X": "Bearer ${T}"}}"#, r#"{"headers": {"Authorization": "***", "X": "Bearer ${T}"}}"#),
            (Format::Json, r#"{"args": ["-y", "pkg@1.2.3", "--token", "x y", "--api-key=z", "--key=${K}"]}"#, r#"{"args": ["-y", "pkg@1.2.3", "--token", "***", "--api-key=***", "--key=${K}"]}"#),
            (Format::Json, r#"{"args": ["--header", "Authorization: Bearer x", "-e", "A=b", "postgres://u:p@h/d"]}"#, r#"{"args": ["--header", "Authorization:***", "-e", "A=***", "postgres://***@h/d"]}"#),
            (Format::Json, r#"{"args": ["--env=PASSWORD=hunter2", "--header=X-Key: hunter2", "-e", "${A}", "-e", "A=${B}"]}"#, r#"{"args": ["--env=PASSWORD=***", "--header=X-Key:***", "-e", "${A}", "-e", "A=${B}"]}"#),
            (Format::Json, r#"{"args": ["-c", "export TOKEN=hunter2; exec npx x --key 'hunter3' postgres://u:p@h/d", "API_KEY=x"]}"#, r#"{"args": ["-c", "export TOKEN=***; exec npx x --key '***' postgres://***@h/d", "API_KEY=***"]}"#),
            (Format::Json, r#"{"command": "env SECRET=hunter2 npx x"}"#, r#"{"command": "env SECRET=*** npx x"}"#),
            (Format::Json, r#"{"url": "https://u:p@h/mcp?key=1"}"#, r#"{"url": "https://***@h/mcp?***"}"#),
            (Format::Json, r#"{"primaryApiKey": "abc", "theme": "dark"} // ghp_0123456789ab"#, r#"{"primaryApiKey": "***", "theme": "dark"} // ***"#),
            (Format::Json, r#"{"path": "https://h/s/Zm9vYmFyYmF6cXV4MTIz/mcp"}"#, r#"{"path": "https://h/s/***/mcp"}"#),
            (Format::Json, r#"{"args": ["@modelcontextprotocol/server-filesystem@2025.7.1", "/home/me/notes"]}"#, r#"{"args": ["@modelcontextprotocol/server-filesystem@2025.7.1", "/home/me/notes"]}"#),
            (Format::Toml, "[a]\nenv = { A = \"hunter2\" }\nargs = ['--token', 'x']\nbearer_token_env_var = \"T\"", "[a]\nenv = { A = \"***\" }\nargs = ['--token', \"***\"]\nbearer_token_env_var = \"T\""),
            (Format::Toml, "[a.env]\nA = \"hunter2\"\n[a.http_headers]\nX = \"y\"\n[a.env_http_headers]\nX = \"VAR\"", "[a.env]\nA = \"***\"\n[a.http_headers]\nX = \"***\"\n[a.env_http_headers]\nX = \"VAR\""),
        ];
        for (format, text, expected) in table {
            let lines: String = masked(format, text).split_inclusive('\n').map(mask_words).collect();
            assert_eq!(lines, expected, "{text}");
        }
    }

    #[test]
    fn a_file_with_secrets_is_told_from_one_without() {
        let table = [
            ("[servers.a]\ncommand = \"x\"\nenv = { LEVEL = \"debug\" }", false),
            ("[servers.a]\ncommand = \"x\"\nenv = { API_KEY = \"${API_KEY}\" }", false),
            ("[servers.a]\ncommand = \"x\"\nenv = { API_KEY = \"hunter2\" }", true),
            ("[servers.a]\nurl = \"https://x\"\nheaders = { X = \"y\" }", true),
            ("[servers.a]\nargs = [\"--token\", \"y\"]", true),
            ("[servers.a]\nargs = [\"-c\", \"TOKEN=y npx x\"]", true),
            ("[servers.a]\nargs = [\"-c\", \"TOKEN=$TOKEN npx x\"]", false),
        ];
        for (text, expected) in table {
            assert_eq!(holds_secrets(Format::Toml, text), expected, "{text}");
        }
    }
}
