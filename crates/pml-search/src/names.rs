//! A query that is the name of a tool, or nearly.
//!
//! Who types an identifier means one tool. It is found by how few slips lie between, whatever its words mean.

use crate::{
    lexical::{NameWord, Word, name_words},
    standing::Standing,
    tokenize::{Run, runs},
};

/// A shorter name has too many neighbours to be mistyped: it is itself, or another.
const MISTYPED: usize = 5;
/// From this length on, two slips are one name still.
const TWICE_MISTYPED: usize = 10;
const MOST_SLIPS: usize = 2;
/// Longer ones are no names.
const LONGEST: usize = 128;

/// A name without what separates its words: `create_issue` and `createIssue` are typed for one another.
pub(crate) fn folded_name(name: &str) -> Box<str> {
    let runs = runs(name).into_iter().map(|run| match run {
        Run::Word { joined, .. } => joined,
        Run::Unspaced(chars) => chars.into_iter().collect(),
    });
    runs.collect::<String>().into()
}

/// What may be the name of a tool.
#[derive(Debug)]
pub(crate) struct Typed {
    /// All of it, without what separates words.
    whole: Box<str>,
    /// What is behind the name of a server, if something looks like one.
    tool: Option<Box<str>>,
    /// The words, in the order of their numbers.
    words: Vec<Word>,
    most_slips: usize,
}

/// Signs between the name of a server and that of a tool.
const SEPARATORS: [&str; 3] = [":", "__", "/"];
/// A name that is typed with spaces has not more words.
const SPACED_WORDS: usize = 8;

impl Typed {
    /// The query as a name, if it looks like one: a single word, several that only signs separate, or a few with spaces. Those may
    /// be mistyped only if `is_mistyped`, or else words of a wish would be taken for other words.
    pub(crate) fn new(query: &str, is_mistyped: bool) -> Option<Typed> {
        let query = query.trim();
        if query.is_empty() || query.len() > LONGEST {
            return None;
        }
        let whole = folded_name(query);
        let parts = query.split_whitespace().count();
        let most_slips = match parts {
            1 => usize::MAX,
            2..=SPACED_WORDS => usize::from(is_mistyped),
            _ => return None,
        };
        let behind = |sign: &str| query.rsplit_once(sign).map(|(_, tool)| folded_name(tool));
        let tool = SEPARATORS.iter().find_map(|sign| behind(sign)).filter(|tool| parts == 1 && !tool.is_empty());
        let mut words: Vec<Word> =
            name_words(query).iter().filter(|word| !word.is_whole).map(|word| word.word).collect();
        words.sort_unstable();
        (!whole.is_empty()).then_some(Typed { whole, tool, words, most_slips })
    }

    /// How many slips lie between it and the name of a tool, if it can be taken for it. A server that is not the tool's is one;
    /// so are words in another order.
    pub(crate) fn slips(&self, name: &[NameWord], standing: &Standing) -> Option<usize> {
        let Standing { name: folded, server, .. } = standing;
        let is_near = || self.whole.len().abs_diff(folded.len() + server.len()) <= MOST_SLIPS;
        let with_server = || if is_near() { slips(&self.whole, &[&**server, &**folded].concat()) } else { None };
        let without_server = || self.tool.as_ref().and_then(|tool| slips(tool, folded)).map(|slips| slips + 1);
        let reordered = || (self.most_slips > 1 && self.has_words_of(name)).then_some(1);
        // `a:b_c` is `b_c` of `a` before it is `a_b_c`.
        let as_one = slips(&self.whole, folded).map(|slips| slips + usize::from(self.tool.is_some()));
        let all = [as_one, with_server(), without_server(), reordered()];
        all.into_iter().flatten().min().filter(|slips| *slips <= self.most_slips)
    }

    fn has_words_of(&self, name: &[NameWord]) -> bool {
        let parts = || name.iter().filter(|word| !word.is_whole).map(|word| word.word);
        if self.words.len() < 2
            || parts().count() != self.words.len()
            || !parts().all(|word| self.words.contains(&word))
        {
            return false;
        }
        let mut words: Vec<Word> = parts().collect();
        words.sort_unstable();
        words == self.words
    }
}

/// How many slips lie between what was typed and a name, if it can be taken for it.
fn slips(typed: &str, name: &str) -> Option<usize> {
    let allowed = match typed.len() {
        length if length < MISTYPED => 0,
        length if length < TWICE_MISTYPED => 1,
        _ => MOST_SLIPS,
    };
    if typed == name {
        return Some(0);
    }
    if allowed == 0 || typed.len().abs_diff(name.len()) > allowed || name.len() > LONGEST {
        return None;
    }
    distance(typed.as_bytes(), name.as_bytes(), allowed)
}

/// Letters to be put in, left out, replaced or swapped with the next, if those are at most `allowed`.
fn distance(a: &[u8], b: &[u8], allowed: usize) -> Option<usize> {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut row = last.clone();
    for i in 1..=a.len() {
        row[0] = i;
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        if row.iter().all(|slips| *slips > allowed) {
            return None;
        }
        std::mem::swap(&mut before, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    Some(last[b.len()]).filter(|slips| *slips <= allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToolText;

    #[test]
    fn what_is_typed_is_a_name_by_how_few_slips() {
        #[rustfmt::skip]
        let table = [
            ("create_issue",    "createIssue",    Some(0)),
            ("create_isue",     "create_issue",   Some(1)),
            ("craete_issue",    "create_issue",   Some(1)),
            ("craete_isue",     "create_issue",   Some(2)),
            ("crate_iseu_x",    "create_issue",   None),
            ("forcast",         "forecast",       Some(1)),
            ("forcats",         "forecast",       None),
            ("read",            "head",           None),
            ("read",            "read",           Some(0)),
        ];
        for (typed, name, expected) in table {
            assert_eq!(slips_between(typed, "server", name, false), expected, "{typed}");
        }
        assert!(Typed::new(" \u{1f993} ", true).is_none());
    }

    fn slips_between(typed: &str, server: &str, name: &str, is_mistyped: bool) -> Option<usize> {
        let standing = Standing::of(&ToolText::new(server, name, "", &serde_json::json!({})));
        Typed::new(typed, is_mistyped)?.slips(&name_words(name), &standing)
    }

    #[test]
    fn a_name_may_have_its_server_before_it_spaces_in_it_or_another_order() {
        #[rustfmt::skip]
        let table = [
            // typed                       mistyped  slips to `read_file` of `disk-2`
            ("disk-2:read_file",           false,    Some(0)),
            ("disk-2:raed_file",           false,    Some(1)),
            ("disk_2__read_file",          false,    Some(0)),
            ("other:read_file",            false,    Some(1)),
            ("other/raed_file",            false,    Some(2)),
            ("file_read",                  false,    Some(1)),
            ("read file",                  false,    Some(0)),
            ("read flie",                  false,    None),
            ("read flie",                  true,     Some(1)),
            ("file read",                  true,     None),
            ("read file a b c d e f g h",  true,     None),
            ("disk-2:",                    false,    None),
        ];
        for (typed, is_mistyped, expected) in table {
            assert_eq!(slips_between(typed, "disk-2", "read_file", is_mistyped), expected, "{typed}");
        }
    }
}
