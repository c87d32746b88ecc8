//! Results that are one page of several, and that a program takes for all.
//!
//! A result that says that there is more (`nextCursor`, `has_more: true`) is noted when it arrives. It is told at the end if
//! the program neither asked for so many, nor asks the tool for a certain page, nor reads the mark anywhere, nor passed it on.
//! **Invariant:** only explicit marks count; what a page may look like without one is never guessed at.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, HashSet},
};

use rquickjs::{Object, Value};

use super::{quantities, raw};
use crate::transpile::{Source, innermost, plain};

/// Pages that are kept.
const MAX_PAGES: usize = 10;
/// How deep a page is looked for, and among how many members of an object.
const MAX_DEPTH: usize = 4;
const MAX_MEMBERS: usize = 30;
/// Longest arguments that are looked at.
const MAX_ARGUMENT_BYTES: usize = 4096;
/// So many are not wanted, but as many as there are.
const AS_MANY_AS_POSSIBLE: f64 = 50.0;

/// Names of what leads to the next page, and of flags for it, in lower case and without separators.
const CURSORS: [&str; 10] = [
    "nextcursor",
    "nextpagetoken",
    "nextpage",
    "nexttoken",
    "nextlink",
    "nextmarker",
    "nexturl",
    "next",
    "continuationtoken",
    "@odata.nextlink",
];
const FLAGS: [&str; 7] = ["hasmore", "hasnextpage", "hasnext", "moreresults", "moreavailable", "istruncated", "more"];
/// Names of how many there are in all.
const TOTALS: [&str; 8] =
    ["totalcount", "totalresults", "totalitems", "total", "totalhits", "totalsize", "numfound", "numresults"];
/// Names that stand beside a `total` of a list, and not beside the total of an order.
const PAGING: [&str; 9] = ["page", "perpage", "pagesize", "limit", "offset", "skip", "startat", "maxresults", "start"];
/// Members of an object that is nothing but a list and how many there are.
const MAX_BARE: usize = 2;
/// Names under which a page keeps its marks.
const BESIDE: [&str; 8] =
    ["pagination", "paging", "meta", "metadata", "pageinfo", "responsemetadata", "links", "_links"];
/// Arguments that say how many are wanted, and which.
const WANTED: [&str; 15] = [
    "limit",
    "first",
    "last",
    "top",
    "perpage",
    "pagesize",
    "count",
    "size",
    "take",
    "max",
    "maxresults",
    "maxitems",
    "numresults",
    "n",
    "rows",
];
const POSITIONS: [&str; 13] = [
    "page",
    "cursor",
    "offset",
    "skip",
    "start",
    "startcursor",
    "startingafter",
    "endingbefore",
    "after",
    "before",
    "pagetoken",
    "nexttoken",
    "startat",
];
/// What a program does with a list that needs only some of it.
const NARROW: [&str; 8] = ["[0]", "[1]", "[2]", ".find(", ".slice(", ".at(0)", ".some(", ".shift("];

/// The pages that the calls of a run gave.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// Tools that were asked for a few.
    bounded: RefCell<HashSet<String>>,
    noted: RefCell<Vec<Page>>,
    /// The results that tools gave which were asked from somewhere on, and whether one of them was the last page.
    further: RefCell<HashMap<String, (u32, bool)>>,
}

#[derive(Debug)]
struct Page {
    tool: String,
    /// The engine's line and column of the call.
    place: Option<(u32, u32)>,
    list: String,
    length: usize,
    total: Option<f64>,
    /// All marks of the object that say whether there is more, the one that is told first.
    marks: Vec<String>,
    /// Was it printed or passed to a tool?
    is_shown: Cell<bool>,
}

/// What the arguments of a call say of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Asked {
    /// Nothing, or for as many as possible from the first one on.
    #[default]
    All,
    /// For a few.
    Few,
    /// From somewhere on.
    From,
}

impl Asked {
    pub(super) fn of(arguments: &[u8]) -> Asked {
        if arguments.len() > MAX_ARGUMENT_BYTES {
            return Asked::All;
        }
        let Ok(serde_json::Value::Object(members)) = serde_json::from_slice(arguments) else { return Asked::All };
        let mut asked = Asked::All;
        for (name, value) in &members {
            let name = plain(name);
            let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
            if WANTED.contains(&name.as_str()) && number.is_some_and(|count| count < AS_MANY_AS_POSSIBLE) {
                return Asked::Few;
            }
            // The day that a list of events starts at is no page.
            let is_date = || value.as_str().and_then(quantities::read).is_some_and(|it| it.form().is_some());
            let is_first = || number.is_some_and(|number| number <= if name == "page" { 1.0 } else { 0.0 });
            if POSITIONS.contains(&name.as_str()) && !value.is_null() && !is_date() && !is_first() {
                asked = Asked::From;
            }
        }
        asked
    }
}

impl Pages {
    /// Notes a call: of a tool that is asked for a few, the program knows that there are more.
    pub(super) fn note_call(&self, tool: &str, asked: Asked) {
        if asked == Asked::Few {
            self.bounded.borrow_mut().insert(tool.to_owned());
        }
    }

    /// Notes a result, if it says that there is more.
    pub(super) fn note(&self, tool: &str, asked: Asked, stack: &Value<'_>, value: &Value<'_>) {
        let find = || value.as_object().and_then(|object| find(object, 0));
        if asked == Asked::From {
            let mut further = self.further.borrow_mut();
            if further.len() < MAX_PAGES || further.contains_key(tool) {
                let (count, has_ended) = further.entry(tool.to_owned()).or_default();
                *count += 1;
                // How many there are in all does not say whether more follow.
                let is_total = |page: Page| page.marks.first().is_some_and(|it| TOTALS.contains(&plain(it).as_str()));
                *has_ended = *has_ended || find().is_none_or(is_total);
            }
            return;
        }
        let mut noted = self.noted.borrow_mut();
        if noted.len() >= MAX_PAGES || noted.iter().any(|page| page.tool == tool) {
            return;
        }
        let stack = Some(stack).filter(|stack| stack.is_string()).and_then(raw::text);
        let place = stack.and_then(|(stack, _)| innermost(&stack));
        noted.extend(find().map(|page| Page { tool: tool.to_owned(), place, ..page }));
    }

    /// A text that the program printed or sent: what it shows is no secret.
    pub(super) fn show(&self, text: &[u8]) {
        let noted = self.noted.borrow();
        if noted.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(text);
        for page in noted.iter() {
            page.is_shown.set(page.is_shown.get() || page.marks.iter().any(|mark| text.contains(mark.as_str())));
        }
    }

    /// The warnings of a run that ended with `result`.
    /// `sought` are the tools in whose results the program looked for a mark that is not there.
    pub(super) fn told(&self, source: &Source, result: &[u8], sought: &HashSet<String>) -> Vec<String> {
        self.show(result);
        let (noted, bounded, further) = (self.noted.take(), self.bounded.take(), self.further.take());
        let is_told = |page: &&Page| {
            (!bounded.contains(&page.tool) || sought.contains(&page.tool))
                && further.get(&page.tool).is_none_or(|(_, has_ended)| !has_ended)
                && !page.is_shown.get()
                && !page.marks.iter().any(|mark| source.reads(mark))
                && source.mentions(&page.list)
                && !takes_some(&source.uses(&page.list))
        };
        let sentences = noted.iter().filter(is_told).map(|page| {
            let Page { tool, place, list, length, total, marks, .. } = page;
            let line = place.and_then(|(line, column)| source.line(line, column));
            let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let mark = marks.first().map_or("", String::as_str);
            if let Some((count, _)) = further.get(tool) {
                return format!(
                    "{line}{tool} gave {} pages, and each says that there are more `{list}`, as `{mark}` does, which the program did not \
                     read: go on until there are none",
                    count + 1
                );
            }
            match total {
                Some(total) => format!(
                    "{line}{tool} gave only {length} of {total} `{list}`, as `{mark}` says, which the program did not read: get the \
                     other pages, too"
                ),
                None => format!(
                    "{line}{tool} gave only the first {length} `{list}`: there are more, as `{mark}` says, which the program did not \
                     read"
                ),
            }
        });
        sentences.collect()
    }
}

/// Is only some of a list taken, by what stands behind its name in each place? Where it is declared, it is not used.
fn takes_some(behind: &[&str]) -> bool {
    let behind: Vec<&str> = behind
        .iter()
        .map(|it| it.strip_prefix("?.").filter(|it| it.starts_with('[')).unwrap_or(it.trim_start_matches(['?', '!'])))
        .collect();
    let is_declared = |it: &&str| it.trim_start().starts_with([',', '}', '=', ':']);
    let is_some = |it: &&str| NARROW.iter().any(|narrow| it.starts_with(narrow));
    behind.iter().any(is_some) && behind.iter().all(|it| is_some(it) || is_declared(it))
}

/// The names and values of an object's own properties, as they are.
fn members<'js>(object: &Object<'js>) -> Vec<(String, Value<'js>)> {
    if object.is_proxy() || object.is_function() || object.is_array() {
        return Vec::new();
    }
    let value = |name: &String| {
        let name = rquickjs::String::from_str(object.ctx().clone(), name).ok()?;
        raw::own_data(object, name.as_value())
    };
    object
        .keys::<String>()
        .flatten()
        .take(MAX_MEMBERS)
        .filter_map(|name| Some((value(&name)?, name)))
        .map(|(value, name)| (name, value))
        .collect()
}

/// The page in an object, or in one of its members.
fn find(object: &Object<'_>, depth: usize) -> Option<Page> {
    let members = members(object);
    let mut lists = members.iter().filter_map(|(name, value)| Some((name, value.as_array()?)));
    if let (Some((list, array)), None) = (lists.next(), lists.next())
        && !array.is_empty()
    {
        let beside = members.iter().filter(|(name, _)| BESIDE.contains(&plain(name).as_str()));
        let beside = beside.filter_map(|(_, value)| value.as_object()).flat_map(self::members);
        let all: Vec<(String, Value<'_>)> = members.iter().cloned().chain(beside).collect();
        let (marks, total) = marks(&all, array.len())?;
        let (list, length) = (list.clone(), array.len());
        return Some(Page { tool: String::new(), place: None, list, length, total, marks, is_shown: Cell::new(false) });
    }
    if depth >= MAX_DEPTH {
        return None;
    }
    members.iter().filter_map(|(_, value)| value.as_object()).find_map(|member| find(member, depth + 1))
}

/// The marks of a page, if one of them says that there is more, and how many there are in all.
fn marks(members: &[(String, Value<'_>)], length: usize) -> Option<(Vec<String>, Option<f64>)> {
    let named = |names: &[&str]| -> Vec<(&String, &Value<'_>)> {
        let named = members.iter().filter(|(name, _)| names.contains(&plain(name).as_str()));
        named.map(|(name, value)| (name, value)).collect()
    };
    let (cursors, flags) = (named(&CURSORS), named(&FLAGS));
    let totals = named(&TOTALS);
    let has_paging = !named(&PAGING).is_empty() || !cursors.is_empty() || !flags.is_empty();
    let total = totals.iter().find_map(|(name, value)| {
        let total = value.as_number().filter(|total| total.fract() == 0.0 && *total > length as f64)?;
        (plain(name) != "total" || has_paging || members.len() <= MAX_BARE).then_some((*name, total))
    });
    let leads_on = |value: &Value<'_>| {
        value.as_number().is_some_and(|page| page > 0.0)
            || value.is_string() && raw::with_text(value, |text, _| !text.is_empty()).unwrap_or(false)
    };
    let flag = flags.iter().find(|(_, value)| value.as_bool() == Some(true));
    let is_last = flags.iter().any(|(_, value)| value.as_bool() == Some(false));
    let cursor = cursors.iter().find(|(_, value)| leads_on(value));
    let is_last = is_last || cursor.is_none() && !cursors.is_empty() && flag.is_none();
    let first = cursor.or(flag).map(|(name, _)| *name).or(total.map(|(name, _)| name)).filter(|_| !is_last)?;
    let all = cursors.iter().chain(&flags).chain(&totals).map(|(name, _)| (*name).clone());
    let rest = all.filter(|name| name != first);
    Some((std::iter::once(first.clone()).chain(rest).collect(), total.map(|(_, total)| total)))
}

#[cfg(test)]
mod tests {
    use super::{Asked, takes_some};

    #[test]
    fn what_calls_ask_for() {
        let table = [
            (r#"{}"#, Asked::All),
            (r#"{"limit": 500}"#, Asked::All),
            (r#"{"limit": 5, "page": 2}"#, Asked::Few),
            (r#"{"per_page": "10"}"#, Asked::Few),
            (r#"{"page": 2}"#, Asked::From),
            (r#"{"page": 1, "limit": 100}"#, Asked::All),
            (r#"{"offset": 0}"#, Asked::All),
            (r#"{"offset": 50}"#, Asked::From),
            (r#"{"cursor": "abc"}"#, Asked::From),
            (r#"{"after": null}"#, Asked::All),
            (r#"{"start": "2026-03-01", "after": "2026-03-01T00:00:00Z"}"#, Asked::All),
            (r#"[1]"#, Asked::All),
        ];
        for (arguments, expected) in table {
            assert_eq!(Asked::of(arguments.as_bytes()), expected, "{arguments}");
        }
    }

    #[test]
    fn some_of_a_list() {
        let table: [(&[&str], bool); 7] = [
            (&[" } = page", "[0].id"], true),
            (&["?.[0]?.id"], true),
            (&[".slice(0, 5).map(f)"], true),
            (&[".slice(0, 5)", ".length"], false),
            (&[".map(f)[0]"], false),
            (&[", rest } = page", ";"], false),
            (&[" } = page"], false),
        ];
        for (behind, expected) in table {
            assert_eq!(takes_some(behind), expected, "{behind:?}");
        }
    }
}
