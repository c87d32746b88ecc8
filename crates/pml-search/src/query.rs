//! What a query asks for.

use std::borrow::Cow;

use crate::{
    actions::{Action, wanted},
    kinship::kin,
    leaning::Leaning,
    lexical::{Form, Occurrence, occurrence, occurrences},
    model,
    shapes::shapes,
    spelling::{mended, other_form, written_out},
    tokenize::{Run, is_unspaced, runs},
    tool::beginning,
};

/// Of a longer query the beginning is read. It bounds the work, and no wish needs more words.
pub(crate) const QUERY_BYTES: usize = 4 * 1024;
pub(crate) const QUERY_WORDS: usize = 256;
/// Words that no tool has and that are looked for in another spelling.
const RESPELLED_WORDS: usize = 8;
/// Parts of a query that are looked for by themselves.
const CLAUSES: usize = 6;
/// A part with fewer words that mean something is none.
const CLAUSE_WORDS: usize = 2;

/// Words that any wish may have, whatever it is for.
const STOP_WORDS: &[&str] = &[
    "a", "about", "also", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can", "could", "did", "do",
    "does", "for", "from", "give", "had", "has", "have", "he", "help", "how", "i", "if", "in", "into", "is", "it",
    "its", "just", "know", "let", "like", "looking", "me", "my", "need", "no", "not", "of", "on", "or", "our",
    "please", "she", "should", "so", "some", "sure", "tell", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "those", "to", "us", "want", "was", "we", "were", "what", "when", "where", "which", "who",
    "why", "will", "with", "would", "you", "your",
];

/// Words that ask to be shown something. Tools for it are called `list` if there are many and `get` if there is one, and
/// which it is can be heard from the plural: "show me the secrets", "what is the secret".
const ASKING: [&str; 6] = ["display", "see", "show", "view", "what", "which"];
/// What is asked for stands near the beginning.
const ASKED_WITHIN: usize = 8;

/// What is known of a query of numbers and single letters: less than of one whose words are none.
const NO_WORDS: f32 = -0.4;

/// Words between two wishes.
const CONJUNCTIONS: [&str; 3] = ["also", "and", "then"];

#[derive(Debug)]
pub(crate) struct Query<'q> {
    /// Each word once in each form, in the order of their hashes.
    pub(crate) words: Vec<Occurrence>,
    /// What tools call what the query asks for, if it has another word for it.
    pub(crate) implied: Option<Occurrence>,
    /// What tools may call what the query has another word for.
    pub(crate) kin: Vec<Occurrence>,
    /// What a query of other words is for, by similar wishes.
    pub(crate) leaning: Option<Leaning>,
    /// Where it points, and nowhere if only its words count.
    pub(crate) direction: Vec<f32>,
    /// The share of its words that are words, from 0 to 1, or below for numbers: what neither a tool has nor the table knows is a name or a value, and
    /// a query of nothing else is none.
    pub(crate) known: f32,
    /// What is to be done.
    pub(crate) wanted: Option<Action>,
    /// The whole.
    pub(crate) text: &'q str,
    /// Its parts, if it has several: a task with two steps needs a tool for each, and each is nearer to its step than to
    /// the sum of both.
    pub(crate) clauses: Vec<&'q str>,
}

impl Query<'_> {
    /// `holders` says how many tools have a word.
    pub(crate) fn parse(text: &str, holders: impl Fn(&str) -> u32) -> Query<'_> {
        let text = beginning(text, QUERY_BYTES);
        let mut words: Vec<Occurrence> = runs(text).iter().flat_map(occurrences).take(QUERY_WORDS).collect();
        let implied = implied(&words);
        words.retain(|found| !is_stop_word(&found.text));
        let unheld = words.iter_mut().filter(|found| holders(&found.text) == 0).take(RESPELLED_WORDS);
        for found in unheld {
            if let Some(form) = other_form(&found.text, &holders) {
                let text = std::mem::take(&mut found.text); // it stays: it is what was asked
                *found = Occurrence { text, ..occurrence(form) };
            }
        }
        words.sort_by(|a, b| (a.word, a.form, &a.text).cmp(&(b.word, b.form, &b.text)));
        words.dedup_by_key(|found| (found.word, found.form));

        let mut kin = kin(&words, &holders);
        for shape in shapes(text).into_iter().map(|shape| occurrence(shape.to_owned())) {
            if holders(&shape.text) > 0 && words.iter().chain(&kin).all(|known| known.word != shape.word) {
                kin.push(shape);
            }
        }
        let is_known = |found: &&Occurrence| holders(&found.text) > 0 || model::knows(&found.text);
        let is_letters = |found: &&Occurrence| is_spoken(&found.text);
        let letters: Vec<&Occurrence> = words.iter().filter(is_letters).collect();
        let known = match letters.len() {
            0 if words.is_empty() || has_short_name(text, &holders) => 1.0,
            0 => NO_WORDS,
            count => letters.into_iter().filter(is_known).count() as f32 / count as f32,
        };
        let parts = text.split(is_pause).flat_map(split_at_conjunctions);
        let mut clauses: Vec<&str> = parts.filter(|part| is_wish(&runs(part))).take(CLAUSES).collect();
        if clauses.len() < 2 {
            clauses.clear();
        }
        Query { words, implied, kin, leaning: None, direction: Vec::new(), known, wanted: None, text, clauses }
    }

    /// The same with what it wants done, which may show in how it was typed.
    pub(crate) fn typed(self, typed: &str) -> Self {
        Query { wanted: wanted(typed, self.text, !self.clauses.is_empty()), ..self }
    }

    /// The same with what it means.
    pub(crate) fn towards(self, direction: Vec<f32>, leaning: Option<Leaning>) -> Self {
        Query { direction, leaning, ..self }
    }

    /// What similar wishes add to its words: words that it does not have, and what each counts. Not a verb for something else than
    /// what the query wants done.
    pub(crate) fn leant(&self) -> impl Iterator<Item = (&Occurrence, f32)> {
        let is_new = |word: &Occurrence| self.words.iter().all(|said| said.word != word.word);
        let is_other = |word: &Occurrence| match (self.wanted, Action::of(&word.text)) {
            (Some(wanted), Some(action)) => !wanted.is_like(action),
            _ => false,
        };
        let words = self.leaning.iter().flat_map(|leaning| &leaning.words);
        words.filter(move |(word, _)| is_new(word) && !is_other(word)).map(|(word, weight)| (word, *weight))
    }
}

/// A short hash of each word of a text, but for those that any text may have: each word once, in whatever form. For those who
/// count words, and must not keep them.
pub fn word_hashes(text: &str) -> Vec<u32> {
    let found = runs(beginning(text, QUERY_BYTES)).iter().flat_map(occurrences).take(QUERY_WORDS).collect::<Vec<_>>();
    let mut hashes: Vec<u32> =
        found.iter().filter(|found| !is_stop_word(&found.text)).map(|found| found.word.short()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// The text with words mended that neither a tool has nor the table knows, for both halves: the pieces of a mistyped word
/// mean nothing. What is short for something is written out, if no tool writes it short.
pub(crate) fn mend(text: &str, holders: impl Fn(&str) -> u32) -> Cow<'_, str> {
    let text = beginning(text, QUERY_BYTES);
    let (mut whole, mut done, mut left) = (String::new(), 0, RESPELLED_WORDS);
    for (start, word) in words_of(text) {
        // Identifiers are copied more often than they are typed.
        let plain = match runs(word).as_slice() {
            [Run::Word { joined, parts }] if parts.len() == 1 => joined.clone(),
            _ => continue,
        };
        if left == 0 || holders(&plain) > 0 || is_stop_word(&plain) {
            continue;
        }
        let better = match written_out(&plain) {
            Some(long) => Some(long.to_owned()),
            None if model::knows(&plain) => continue,
            None => {
                left -= 1;
                mended(&plain, &holders, model::knows)
            }
        };
        if let Some(better) = better {
            whole.push_str(&text[done..start]);
            whole.push_str(&better);
            done = start + word.len();
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    whole.push_str(&text[done..]);
    Cow::Owned(whole)
}

/// Is it a word, and neither a number nor a single letter?
fn is_spoken(word: &str) -> bool {
    let mut chars = word.chars();
    let is_long = chars.next().is_some_and(is_unspaced) || chars.next().is_some();
    is_long && word.chars().all(char::is_alphabetic)
}

/// Has the text a name such as `S3` or `k8s` whose letters and digits a tool has?
fn has_short_name(text: &str, holders: impl Fn(&str) -> u32) -> bool {
    runs(text).iter().any(|run| match run {
        Run::Word { parts, .. } => parts.len() > 1 && parts.iter().all(|part| holders(part) > 0),
        Run::Unspaced(_) => false,
    })
}

/// What stands between all that is no letter or digit, and where it begins.
fn words_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split(|c: char| !c.is_alphanumeric() || is_unspaced(c)).map(move |word| {
        let start = at;
        at += word.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
        (start, word)
    })
}

fn implied(words: &[Occurrence]) -> Option<Occurrence> {
    let is_asking = words.iter().any(|found| ASKING.contains(&found.text.as_str()));
    if !is_asking || words.iter().any(|found| found.text == "list") {
        return None;
    }
    let is_plural = |found: &Occurrence| found.form == Form::Plural && !is_stop_word(&found.text);
    let verb = if words.iter().take(ASKED_WITHIN).any(is_plural) { "list" } else { "get" };
    Some(occurrence(verb.to_owned()))
}

pub(crate) fn is_pause(c: char) -> bool {
    matches!(c, '.' | ';' | '!' | '?' | ',' | '\n')
}

pub(crate) fn split_at_conjunctions(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut done = 0;
    for (start, word) in words_of(text) {
        if CONJUNCTIONS.iter().any(|conjunction| word.eq_ignore_ascii_case(conjunction)) {
            parts.push(&text[done..start]);
            done = start + word.len();
        }
    }
    parts.push(&text[done..]);
    parts
}

fn is_wish(clause: &[Run]) -> bool {
    let parts = clause.iter().map(|run| match run {
        Run::Word { parts, .. } => parts.iter().filter(|part| !is_stop_word(part)).count(),
        Run::Unspaced(_) => 0,
    });
    parts.sum::<usize>() >= CLAUSE_WORDS
}

pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_in_order() {
        assert!(STOP_WORDS.is_sorted());
    }

    #[test]
    fn a_query_has_words_that_mean_something_and_parts() {
        #[rustfmt::skip]
        let table = [
            // query                                         words  parts
            ("",                                             0,     0),
            ("🦓 ?!",                                        0,     0),
            ("what is it",                                   0,     0),
            ("list my buckets",                              2,     0),
            ("bucket buckets bucket",                        2,     0),
            ("find flights, then send an email to anna",     5,     2),
            ("read it. ok",                                  2,     0),
            ("搜索结果",                                      3,     0),
        ];
        for (text, words, clauses) in table {
            let query = Query::parse(text, |_| 1);
            assert_eq!((query.words.len(), query.clauses.len()), (words, clauses), "{text}");
        }
    }

    #[test]
    fn parts_are_between_conjunctions() {
        #[rustfmt::skip]
        let table = [
            ("find it And send it",     &["find it ", " send it"][..]),
            ("sand and then band",      &["sand ", " ", " band"]),
            ("and",                     &["", ""]),
            ("搜and索",                  &["搜", "索"]),
            ("größe and éé",            &["größe ", " éé"]),
            ("get_user_and_group",      &["get_user_", "_group"]),
            ("",                        &[""]),
        ];
        for (text, expected) in table {
            assert_eq!(split_at_conjunctions(text), expected, "{text}");
        }
    }

    #[test]
    fn mistyped_words_are_mended_in_place() {
        let holders = |word: &str| u32::from(word == "forecast");
        #[rustfmt::skip]
        let table = [
            ("the Forcast, please",      "the forecast, please"),
            ("forcast",                  "forecast"),
            ("größe 搜forcast索 forcast", "größe 搜forecast索 forecast"),
            ("forCast for_cast x1",      "forCast for_cast x1"),
            ("weather report",           "weather report"),
            ("open a PR, k8s",           "open a pull request, k8s"),
            ("",                         ""),
        ];
        for (text, expected) in table {
            assert_eq!(mend(text, holders), expected, "{text}");
        }
    }

    #[test]
    fn what_is_shown_is_listed_or_got() {
        #[rustfmt::skip]
        let table = [
            ("Show me the secrets in the vault",  Some("list")),
            ("What is the secret called x",       Some("get")),
            ("list and show the secrets",         None),
            ("delete the secrets",                None),
            ("",                                  None),
        ];
        for (text, expected) in table {
            assert_eq!(Query::parse(text, |_| 1).implied.map(|found| found.text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_long_query_is_cut() {
        let text = "send mail, and find file. ".repeat(1000);
        let query = Query::parse(&text, |_| 1);
        assert!(query.text.len() <= QUERY_BYTES);
        assert_eq!(query.clauses.len(), CLAUSES);
        let words: String = (0..10 * QUERY_WORDS).map(|number| format!("{number} ")).collect();
        assert!(Query::parse(&words, |_| 1).words.len() <= QUERY_WORDS);
    }
}
