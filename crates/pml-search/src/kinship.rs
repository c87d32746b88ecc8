//! Words that say little, and words that stand for one another.
//!
//! Who talks says "put", "back" and "right now", and in a catalogue such words are rare, which must not make them weighty. And who
//! talks says "ticket" where a tool says `issue`. Both lists are of the language of tools in general; a tool has its words
//! whatever they say.

use crate::{
    lexical::{Occurrence, occurrence},
    tokenize::singular,
};

/// What a light word counts, where another counts 1.
const LIGHT: f32 = 0.35;
/// What a word counts that stands for one of the query.
pub(crate) const KIN: f32 = 0.4;
/// Most words that are added to a query.
const MOST_KIN: usize = 12;

/// Words of any conversation: light verbs, particles, measures of time, words of politeness. In order.
#[rustfmt::skip]
const LIGHT_WORDS: [&str; 121] = [
    "actually", "again", "ago", "ahead", "all", "already", "always", "another", "anybody", "anyone", "anything",
    "around", "asap", "away", "back", "bad", "because", "before", "big", "bring", "come", "coming", "day", "did",
    "done", "down", "each", "either", "else", "even", "ever", "every", "everything", "far", "first", "going", "gone",
    "good", "got", "guy", "hello", "her", "here", "hey", "him", "his", "hour", "keep", "kind", "last", "late",
    "later", "least", "leave", "less", "little", "look", "lot", "made", "make", "many", "maybe", "mine", "minute",
    "moment", "month", "more", "most", "much", "must", "never", "new", "next", "nice", "now", "off", "ok", "okay",
    "old", "once", "one", "only", "other", "out", "over", "own", "people", "put", "quick", "quickly", "really",
    "right", "said", "same", "say", "seem", "somebody", "someone", "something", "soon", "still", "stuff", "such",
    "take", "thank", "thanks", "thing", "think", "today", "together", "tomorrow", "too", "try", "until", "up", "very",
    "way", "week", "while", "yesterday", "yet",
];

/// Words that stand for one another, a group in each line.
#[rustfmt::skip]
const GROUPS: [&str; 69] = [
    "ticket issue bug", "sms text message", "ci build pipeline workflow job", "pr mr pull merge", "repo repository",
    "email mail inbox", "meeting event appointment", "picture photo image", "movie video clip",
    "song music track", "bill invoice", "payment pay money", "server machine instance vm host box", "folder directory",
    "document doc file", "error exception crash failure", "log print output", "deploy deployment release rollout",
    "undo revert rollback previous", "restart reboot bounce", "docker container", "kubernetes cluster", "lambda function serverless",
    "bucket storage s3", "cdn cache", "domain dns", "ssl tls certificate", "db database sql", "customer client buyer",
    "employee colleague staff", "vacation holiday leave", "salary payslip wage earn", "remind reminder", "todo task chore",
    "weather forecast rain sunny umbrella", "flight plane fly", "hotel room stay accommodation", "currency dollar euro yen exchange",
    "stock share ticker", "website site web internet", "phone call ring dial", "spreadsheet sheet excel", "row line", "chart graph plot",
    "alert alarm", "oncall pager", "incident outage downtime", "screenshot capture", "speech voice loud aloud", "transcribe recording audio",
    "light lamp", "thermostat heating degree temperature", "search find lookup google", "comment feedback remark", "member user person",
    "cost spend expense price", "address location place", "distance far", "status state transition", "review approve", "stop pause halt",
    "bookmark star favorite", "mute silence snooze", "attach attachment upload", "follow watch subscribe watcher", "agenda calendar event",
    "email gmail", "disk filesystem", "restrict restriction permission",
];

/// What a word counts for a query.
pub(crate) fn weight(word: &str) -> f32 {
    if LIGHT_WORDS.binary_search(&word).is_ok() { LIGHT } else { 1.0 }
}

/// Words that stand for those of a query and that a tool has.
pub(crate) fn kin(words: &[Occurrence], holders: impl Fn(&str) -> u32) -> Vec<Occurrence> {
    let base = |word: &str| singular(word).unwrap_or_else(|| word.to_owned());
    let said: Vec<String> = words.iter().map(|found| base(&found.text)).collect();
    let is_said = |word: &str| said.iter().any(|said| said == word);
    let mut kin: Vec<&str> = GROUPS
        .iter()
        .filter(|group| group.split(' ').any(is_said))
        .flat_map(|group| group.split(' '))
        .filter(|word| !is_said(word) && holders(word) > 0)
        .take(MOST_KIN)
        .collect();
    kin.sort_unstable();
    kin.dedup();
    kin.into_iter().map(|word| occurrence(word.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_words_are_in_order_and_count_less() {
        assert!(LIGHT_WORDS.is_sorted());
        assert!(weight("put") < weight("bucket"));
    }

    #[test]
    fn a_word_brings_those_that_stand_for_it_if_tools_have_them() {
        let words = ["tickets", "done"].map(|word| occurrence(word.to_owned()));
        let found = kin(&words, |word| u32::from(word == "issue" || word == "track"));
        assert_eq!(found.into_iter().map(|found| found.text).collect::<Vec<_>>(), ["issue"]);
        assert!(kin(&words, |_| 0).is_empty());
    }
}
