//! Words of texts and of identifiers.
//!
//! `tools/embedding/text.py` does the same when the table is trained; a change here is a change there.

/// A stretch of letters and digits, and the parts that an identifier has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// `getUserID`: joined `getuserid`; parts `get`, `user`, `id`. A plain word is its own only part.
    Word { joined: String, parts: Vec<String> },
    /// Characters of a script that puts no spaces between words.
    Unspaced(Vec<char>),
}

/// Cuts `text` into runs. Whatever is neither letter nor digit only separates.
pub(crate) fn runs(text: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut word: Vec<char> = Vec::new();
    let mut unspaced: Vec<char> = Vec::new();
    for c in text.chars() {
        if !unspaced.is_empty() && !is_unspaced(c) {
            runs.push(Run::Unspaced(std::mem::take(&mut unspaced)));
        }
        if !word.is_empty() && (is_unspaced(c) || !c.is_alphanumeric()) {
            runs.push(split(&std::mem::take(&mut word)));
        }
        if is_unspaced(c) {
            unspaced.push(c);
        } else if c.is_alphanumeric() {
            word.push(c);
        }
    }
    if !unspaced.is_empty() {
        runs.push(Run::Unspaced(unspaced));
    }
    if !word.is_empty() {
        runs.push(split(&word));
    }
    runs
}

/// Chinese characters and Japanese syllables.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// Splits at `aB`, before the `Bc` of `ABc`, and between letters and digits.
fn split(run: &[char]) -> Run {
    let mut parts = vec![String::new()];
    for (i, &c) in run.iter().enumerate() {
        if i > 0 {
            let before = run[i - 1];
            let is_end_of_acronym =
                before.is_uppercase() && c.is_uppercase() && run.get(i + 1).is_some_and(|next| next.is_lowercase());
            if before.is_numeric() != c.is_numeric() || (before.is_lowercase() && c.is_uppercase()) || is_end_of_acronym
            {
                parts.push(String::new());
            }
        }
        if let Some(part) = parts.last_mut() {
            part.extend(c.to_lowercase());
        }
    }
    Run::Word { joined: parts.concat(), parts }
}

/// The singular of an English word, if it looks like a plural. Nothing more is cut off: `computing` and `computer` are
/// different wishes, and longer stems cost more right answers than they bring.
pub(crate) fn singular(word: &str) -> Option<String> {
    if word.len() < 4 || !word.ends_with('s') || ["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        return None;
    }
    if word.len() > 4
        && let Some(stem) = word.strip_suffix("ies")
    {
        return Some(format!("{stem}y"));
    }
    let cut = if ["ches", "shes", "xes", "sses", "zes"].iter().any(|end| word.ends_with(end)) { 2 } else { 1 };
    Some(word[..word.len() - cut].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_identifiers_are_cut_into_words() {
        #[rustfmt::skip]
        let table = [
            // text                 parts of every run
            ("getUserID",           "get user id"),
            ("HTTPServer_v2",       "http server | v 2"),
            ("read-text-files",     "read | text | files"),
            ("S3 bucket, please!",  "s 3 | bucket | please"),
            ("搜索 bing",            "搜索 | bing"),
            ("bing搜索",             "bing | 搜索"),
            ("Größe",               "größe"),
            ("🦓 …?!",              ""),
            ("",                    ""),
        ];
        for (text, expected) in table {
            let shown: Vec<_> = runs(text)
                .into_iter()
                .map(|run| match run {
                    Run::Word { parts, .. } => parts.join(" "),
                    Run::Unspaced(chars) => chars.into_iter().collect(),
                })
                .collect();
            assert_eq!(shown.join(" | "), expected, "{text}");
        }
    }

    #[test]
    fn only_plurals_are_cut() {
        #[rustfmt::skip]
        let table = [
            ("buckets", Some("bucket")), ("queries", Some("query")), ("searches", Some("search")), ("boxes", Some("box")),
            ("classes", Some("class")), ("bus", None), ("status", None), ("analysis", None), ("access", None),
            ("bucket", None), ("s", None), ("dns", None), ("running", None), ("größes", Some("größe")),
        ];
        for (word, expected) in table {
            assert_eq!(singular(word).as_deref(), expected, "{word}");
        }
    }
}
