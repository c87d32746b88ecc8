//! A query that is the name of a tool, or nearly.
//!
//! Who types an identifier means one tool. It is found by how few slips lie between, whatever its words mean.

use crate::tokenize::{Run, runs};

/// A shorter name has too many neighbours to be mistyped: it is itself, or another.
const MISTYPED: usize = 5;
/// From this length on, two slips are one name still.
const TWICE_MISTYPED: usize = 10;
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

/// The query as a name, if it looks like one: a single word, or several that only signs separate.
pub(crate) fn as_name(query: &str) -> Option<Box<str>> {
    let query = query.trim();
    let is_one = !query.is_empty() && !query.contains(char::is_whitespace) && query.len() <= LONGEST;
    is_one.then(|| folded_name(query)).filter(|name| !name.is_empty())
}

/// How many slips lie between what was typed and a name, if it can be taken for it.
pub(crate) fn slips(typed: &str, name: &str) -> Option<usize> {
    let allowed = match typed.len() {
        length if length < MISTYPED => 0,
        length if length < TWICE_MISTYPED => 1,
        _ => 2,
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
            assert_eq!(slips(&as_name(typed).unwrap(), &folded_name(name)), expected, "{typed}");
        }
        assert_eq!(as_name("two words"), None);
        assert_eq!(as_name(" \u{1f993} "), None);
    }
}
