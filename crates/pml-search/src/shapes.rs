//! What something is by how it is written: `#general` is a channel, `OPS-31` an issue, `notes.md` a file.

/// Endings of file names. In order.
#[rustfmt::skip]
const ENDINGS: [&str; 44] = [
    "bak", "c", "cfg", "conf", "cpp", "css", "csv", "doc", "docx", "env", "gif", "go", "gz", "h", "html", "ini", "ipynb", "java",
    "jpeg", "jpg", "js", "json", "jsonl", "log", "lock", "md", "mp3", "mp4", "pdf", "png", "py", "rb", "rs", "sh", "sql", "svg",
    "toml", "ts", "tsx", "txt", "xlsx", "xml", "yaml", "yml",
];

/// What tools call the things that a query names.
pub(crate) fn shapes(text: &str) -> Vec<&'static str> {
    let mut shapes: Vec<&'static str> = text.split_whitespace().filter_map(shape).collect();
    shapes.sort_unstable();
    shapes.dedup();
    shapes
}

fn shape(token: &str) -> Option<&'static str> {
    let token = token.trim_matches(|c: char| !c.is_alphanumeric() && c != '#');
    if let Some(name) = token.strip_prefix('#') {
        let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        let is_name = name.starts_with(char::is_alphabetic);
        return if is_number { Some("issue") } else { is_name.then_some("channel") };
    }
    if token.starts_with("http://") || token.starts_with("https://") {
        return Some("url");
    }
    if let Some((key, number)) = token.split_once('-') {
        let is_key = key.len() > 1 && key.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        if is_key && key.starts_with(|c: char| c.is_ascii_uppercase()) && is_number {
            return Some("issue");
        }
    }
    let (name, ending) = token.rsplit_once('.')?;
    let is_file = !name.is_empty() && !name.contains('@') && ENDINGS.contains(&ending.to_lowercase().as_str());
    is_file.then_some("file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_known_by_how_they_are_written() {
        #[rustfmt::skip]
        let table = [
            ("tell #general it is done",          &["channel"][..]),
            ("close #12, please",                 &["issue"]),
            ("who reported OPS-31?",              &["issue"]),
            ("rename a.txt to \"final.DOC\"",   &["file"]),
            ("compare PROJ-1 with notes.md",      &["file", "issue"]),
            ("what does https://a.b/c.html say",  &["url"]),
            ("UTF-8 and covid-19, 3-4, e.g. v1.2", &["issue"]),
            ("node.js anna@home.py # a-1",        &["file"]),
            ("",                                  &[]),
        ];
        for (text, expected) in table {
            assert_eq!(shapes(text), expected, "{text}");
        }
    }
}
