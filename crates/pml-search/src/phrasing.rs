//! What is around a wish: politeness, haste, and what is not to be done.
//!
//! "hey, could you restart the pod, please" wants what "restart the pod" wants, and "just read it, do not change anything" no
//! change. Words, meaning and verbs are read from what is left. Only a beginning, an end or a whole clause is left out, never a
//! word from the middle of a wish, and never so much that nothing is left.

use std::{borrow::Cow, ops::Range};

use crate::{
    query::{QUERY_BYTES, is_pause, is_stop_word},
    tool::beginning,
};

/// How a wish may begin, whatever it is for.
#[rustfmt::skip]
const OPENINGS: [&str; 80] = [
    "please", "pls", "plz", "kindly", "quickly", "just", "ok", "okay", "so", "um", "umm", "uh", "hey", "hey there", "hi there", "sorry",
    "sorry to bother", "sorry to bother you", "can you", "can you please", "can i", "can we", "could you", "could i", "could we", "would you",
    "would you mind", "will you", "may i", "do you mind", "do you think you can", "do you think you could", "i need to", "i need you to",
    "i have to", "i want to", "i want you to", "i would like to", "i would like you to", "i'd like to", "i'd like you to", "i'd love to",
    "i'd like", "i would like", "we need to", "we have to", "we want to", "we should", "we'd like to", "i should", "i must", "you should",
    "let's", "lets", "let us", "help me", "help me to", "go ahead and", "go and", "be so kind and", "be so kind as to",
    "would you be so kind and", "would you be so kind as to", "would you be able to", "are you able to", "is it possible to",
    "would it be possible to", "it would be great if you could", "do me a favor and", "do me a favour and", "next thing", "one more thing",
    "i was wondering if you could", "i was wondering whether you could", "i was hoping you could", "if you could", "is there a way to",
    "any chance you could", "i'm trying to", "i am trying to",
];
/// The same before a question.
#[rustfmt::skip]
const BEFORE_QUESTIONS: [&str; 19] = [
    "i want to know", "i'd like to know", "i would like to know", "i need to know", "i have to know", "i wonder", "i was wondering",
    "i'm wondering", "we need to know", "we want to know", "do you know", "can you tell me", "could you tell me", "tell me", "let me know",
    "please tell me", "i need to find out", "i want to find out", "any idea",
];
/// The same before a pause or another opening: what may as well be what is talked about.
const GREETINGS: [&str; 8] = ["hi", "hello", "good morning", "thanks", "thank you", "well", "now", "right"];
/// How a wish may end.
#[rustfmt::skip]
const ENDINGS: [&str; 36] = [
    "please", "pls", "plz", "thanks", "thank you", "thanks a lot", "many thanks", "thx", "cheers", "for me", "right now", "now", "asap",
    "as soon as possible", "as soon as you can", "quickly", "immediately", "if you can", "if you could", "if possible", "if that is possible",
    "if you don't mind", "will you", "would you", "could you", "can you", "when you get a minute", "when you have a minute",
    "when you have a moment", "when you get a chance", "when you have time", "ok", "okay", "sorry", "for a second", "real quick",
];
/// Words that a question begins with.
#[rustfmt::skip]
const ASKING: [&str; 19] = [
    "what", "what's", "whats", "which", "who", "who's", "whos", "whose", "whom", "when", "where", "where's", "why", "how", "if", "whether",
    "is", "are", "does",
];
/// What may be before the negation of a clause.
const BEFORE_NEGATIONS: [&str; 8] = ["and", "but", "just", "please", "so", "also", "only", "then"];
/// "Don't let me forget it" wants it done.
const WANTED_STILL: [&str; 5] = ["let", "forget", "lose", "miss", "hesitate"];
/// The longest of these, in words.
const LONGEST: usize = 7;

/// A word of a text, in small letters and with its apostrophes.
#[derive(Debug)]
struct Token {
    at: Range<usize>,
    text: String,
}

/// The wish without what is around it.
pub(crate) fn bare(query: &str) -> Cow<'_, str> {
    let query = beginning(query, QUERY_BYTES);
    if !query.trim().contains(char::is_whitespace) {
        return Cow::Borrowed(query);
    }
    let wish = without_frame(query);
    let dropped = negated(wish);
    if dropped.is_empty() {
        return Cow::Borrowed(wish);
    }
    let mut whole = String::with_capacity(wish.len());
    let mut done = 0;
    for range in dropped {
        whole.push_str(&wish[done..range.start]);
        done = range.end;
    }
    whole.push_str(&wish[done..]);
    Cow::Owned(without_frame(whole.trim()).to_owned())
}

/// A clause without how it begins.
pub(crate) fn without_opening(clause: &str) -> &str {
    let tokens = tokens(clause);
    let first = openings(clause, &tokens);
    tokens.get(first).map_or(clause, |token| &clause[token.at.start..])
}

fn without_frame(text: &str) -> &str {
    let tokens = tokens(text);
    let first = openings(text, &tokens);
    let is_question = tokens.get(first).is_some_and(|token| ASKING.contains(&token.text.as_str()));
    let count = endings(&tokens[first..], is_question);
    let left = &tokens[first..tokens.len() - count];
    if !left.iter().any(|token| !is_stop_word(&token.text)) {
        return text;
    }
    let start = if first == 0 { 0 } else { left[0].at.start };
    let end = if count == 0 { text.len() } else { left[left.len() - 1].at.end };
    &text[start..end]
}

/// How many words from the beginning on are openings.
fn openings(text: &str, tokens: &[Token]) -> usize {
    let mut first = 0;
    // What is pending was a greeting, if an opening follows.
    let mut pending = 0;
    loop {
        let rest = &tokens[first + pending..];
        let fits = |count: usize| {
            let (begin, after) = rest.split_at(count);
            let phrase = begin.iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(" ");
            let is_asked = after.first().is_some_and(|token| ASKING.contains(&token.text.as_str()));
            OPENINGS.contains(&phrase.as_str()) || (is_asked && BEFORE_QUESTIONS.contains(&phrase.as_str()))
        };
        if let Some(count) = (1..=LONGEST.min(rest.len())).rev().find(|count| fits(*count)) {
            first += pending + count;
            pending = 0;
            continue;
        }
        let is_greeting = |count: usize| {
            let phrase = rest[..count].iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(" ");
            GREETINGS.contains(&phrase.as_str())
        };
        let Some(count) = (1..=2.min(rest.len())).rev().find(|count| is_greeting(*count)) else { return first };
        let end = rest[count - 1].at.end;
        let is_apart = rest.get(count).is_some_and(|next| text[end..next.at.start].contains([',', '!', '.', ':', ';']));
        if is_apart {
            first += pending + count;
            pending = 0;
        } else if pending == 0 {
            pending = count;
        } else {
            return first;
        }
    }
}

/// How many words at the end are endings. In a question "now" may be what is asked about.
fn endings(tokens: &[Token], is_question: bool) -> usize {
    let mut count = 0;
    loop {
        let rest = &tokens[..tokens.len() - count];
        let fits = |length: usize| {
            let phrase = rest[rest.len() - length..].iter().map(|token| token.text.as_str()).collect::<Vec<_>>();
            let is_meant = is_question && phrase.last() == Some(&"now");
            ENDINGS.contains(&phrase.join(" ").as_str()) && !is_meant
        };
        match (1..=LONGEST.min(rest.len())).rev().find(|length| fits(*length)) {
            Some(length) => count += length,
            None => return count,
        }
    }
}

/// What is said not to be done, if something else is wanted beside it.
fn negated(text: &str) -> Vec<Range<usize>> {
    let clauses = clauses(text);
    let mut dropped = Vec::new();
    let mut left = 0;
    for clause in clauses {
        let tokens = tokens(&text[clause.clone()]);
        let meant = |tokens: &[Token]| tokens.iter().filter(|token| !is_stop_word(&token.text)).count();
        match negation(&tokens) {
            Some(first) => {
                let kept = meant(&tokens[..first]);
                left = left.max(kept);
                // A single word before it is no wish of its own: "run it without stopping".
                let start = if kept == 0 { clause.start } else { clause.start + tokens[first].at.start };
                dropped.push(start..clause.end);
            }
            None => left = left.max(meant(&tokens)),
        }
    }
    if left >= 2 { dropped } else { Vec::new() }
}

/// The word of a clause from which on it says what is not to be done.
fn negation(tokens: &[Token]) -> Option<usize> {
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let first = tokens.iter().take_while(|token| BEFORE_NEGATIONS.contains(&token.text.as_str())).count();
    let is_personal = ["i", "we"].contains(&word(first));
    let verb = first + usize::from(is_personal);
    let after = match word(verb) {
        "don't" | "dont" => Some(verb + 1),
        "do" if word(verb + 1) == "not" => Some(verb + 2),
        _ => None,
    };
    if let Some(after) = after
        && !WANTED_STILL.contains(&word(after))
        && (!is_personal || ["want", "need"].contains(&word(after)))
    {
        return Some(0);
    }
    let is_nothing =
        matches!((word(first), word(first + 1)), ("nothing", "else") | ("no", "need") | ("not", _) | ("never", _));
    if is_nothing {
        return Some(0);
    }
    let is_without = |at: &usize| word(*at) == "without" && word(*at + 1).len() > 4 && word(*at + 1).ends_with("ing");
    (0..tokens.len()).find(is_without)
}

/// What is between pauses, and before and after "but".
fn clauses(text: &str) -> Vec<Range<usize>> {
    let mut ends: Vec<usize> = Vec::new();
    for (at, c) in text.char_indices() {
        let after = at + c.len_utf8();
        let is_end =
            c != '.' && is_pause(c) || text[after..].chars().next().is_none_or(char::is_whitespace) && c == '.';
        if is_end {
            ends.push(after);
        }
    }
    ends.extend(tokens(text).into_iter().filter(|token| token.text == "but").map(|token| token.at.start));
    ends.push(text.len());
    ends.sort_unstable();
    let mut start = 0;
    let mut clauses = Vec::new();
    for end in ends {
        clauses.push(start..end);
        start = end;
    }
    clauses
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let is_mark = |c: char| matches!(c, '\'' | '’');
    for (at, c) in text.char_indices() {
        if !c.is_alphanumeric() && !is_mark(c) {
            continue;
        }
        let c = if is_mark(c) { '\'' } else { c };
        match tokens.last_mut() {
            Some(token) if token.at.end == at => {
                token.at.end = at + text[at..].chars().next().map_or(0, char::len_utf8);
                token.text.extend(c.to_lowercase());
            }
            _ => {
                let end = at + text[at..].chars().next().map_or(0, char::len_utf8);
                tokens.push(Token { at: at..end, text: c.to_lowercase().collect() });
            }
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_around_a_wish_is_left_out() {
        #[rustfmt::skip]
        let table = [
            ("Please restart the pod",                              "restart the pod"),
            ("hey, could you restart the pod for me, thanks!",      "restart the pod"),
            ("Hi! Can you please list my pods?",                    "list my pods?"),
            ("I need to know which pods run",                       "which pods run"),
            ("I’d like to restart it right now",                    "restart it"),
            ("ok so next thing: restart the pod asap",              "restart the pod"),
            // What may be meant stays.
            ("I need a new pod",                                    "I need a new pod"),
            ("hello world in rust",                                 "hello world in rust"),
            ("tell me a story",                                     "tell me a story"),
            ("right click on it",                                   "right click on it"),
            ("please",                                              "please"),
            ("could you please",                                    "could you please"),
            ("can you do it",                                       "can you do it"),
            ("send_please",                                         "send_please"),
            ("",                                                    ""),
        ];
        for (query, expected) in table {
            assert_eq!(bare(query), expected, "{query}");
        }
    }

    #[test]
    fn what_is_not_to_be_done_is_left_out() {
        #[rustfmt::skip]
        let table = [
            ("read cell B2. Do not change anything.",               "read cell B2."),
            ("just show the numbers of May, don't edit the sheet",  "show the numbers of May,"),
            ("don't edit the sheet, show the numbers",              "show the numbers"),
            ("fetch the rows of the table but do not lock it",      "fetch the rows of the table"),
            ("look at notes.md without opening an editor",          "look at notes.md"),
            ("list the buckets, nothing else",                      "list the buckets,"),
            // There would be nothing left, or it is what is wanted.
            ("do not disturb mode",                                 "do not disturb mode"),
            ("don't let me forget the milk, it is urgent today",    "don't let me forget the milk, it is urgent today"),
            ("issues without an assignee",                          "issues without an assignee"),
            ("pods that do not start, by namespace",                "pods that do not start, by namespace"),
        ];
        for (query, expected) in table {
            assert_eq!(bare(query), expected, "{query}");
        }
    }
}
