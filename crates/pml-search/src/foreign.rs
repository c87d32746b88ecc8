//! Queries in German, French, Spanish, Chinese and Japanese, in English words.
//!
//! Tools speak English, and so does what gives texts their meaning. `model/words.tsv` has the verbs and nouns that tools use, in
//! beginnings of words (`lösch` for löschen, lösche, gelöschte is not found); it was written for pml. Word for word is enough to
//! find a tool, and a word that is not in the list stays as it is: names are the same in all languages.

use std::{borrow::Cow, collections::HashMap, sync::LazyLock};

use crate::{
    fold::folded,
    model,
    query::{QUERY_BYTES, is_stop_word},
    tokenize::{Run, is_unspaced, runs},
    tool::beginning,
};

static WORDS: &str = include_str!("../model/words.tsv");
static LISTS: LazyLock<Lists> = LazyLock::new(Lists::read);

/// German, French, Spanish.
const SPACED: usize = 3;
/// Letters that may follow a beginning.
const ENDING: usize = 4;
/// A beginning of fewer letters is a whole word, but for its plural.
const SHORT: usize = 4;
/// The longest word of the unspaced lists, in characters.
const LONGEST: usize = 12;

/// Words that any sentence of a language has, and English has not.
#[rustfmt::skip]
const FUNCTION_WORDS: [&[&str]; SPACED] = [
    &["alle", "am", "auf", "aus", "bei", "bitte", "das", "dass", "dem", "den", "der", "die", "ein", "eine", "einen", "einer", "eines",
        "für", "gib", "habe", "ich", "im", "ist", "kann", "kannst", "mein", "meine", "meinen", "meiner", "mir", "mit", "möchte", "nach",
        "nicht", "sind", "über", "und", "uns", "vom", "von", "was", "welche", "wie", "wird", "wo", "zu", "zum", "zur"],
    &["au", "aux", "avec", "ce", "ces", "cette", "comment", "dans", "des", "du", "est", "et", "il", "je", "la", "le", "les", "ma",
        "mes", "moi", "mon", "nous", "où", "par", "pour", "quel", "quelle", "quelles", "quels", "qui", "sont", "sur", "une", "un",
        "veux", "voudrais", "vous"],
    &["al", "cómo", "con", "cuál", "cuáles", "de", "del", "el", "en", "es", "esta", "este", "hay", "la", "las", "los", "me", "mi",
        "mis", "para", "por", "qué", "que", "quiero", "se", "su", "todos", "un", "una", "unos", "y"],
];

struct Lists {
    /// By the first letter of the beginning.
    spaced: [HashMap<char, Vec<(String, &'static str)>>; SPACED],
    function_words: [Vec<String>; SPACED],
    unspaced: [HashMap<&'static str, &'static str>; 2],
}

impl Lists {
    fn read() -> Lists {
        let mut lists = Lists {
            spaced: Default::default(),
            function_words: FUNCTION_WORDS.map(|words| words.iter().map(|word| folded(word)).collect()),
            unspaced: Default::default(),
        };
        for line in WORDS.lines() {
            let mut columns = line.split('\t');
            let english = columns.next().unwrap_or_default();
            for (language, beginnings) in columns.by_ref().take(SPACED).enumerate() {
                for beginning in beginnings.split(',').map(folded).filter(|word| !word.is_empty()) {
                    let first = beginning.chars().next().unwrap_or_default();
                    lists.spaced[language].entry(first).or_default().push((beginning, english));
                }
            }
            for (list, words) in lists.unspaced.iter_mut().zip(columns) {
                words.split(',').for_each(|word| {
                    list.entry(word).or_insert(english);
                });
            }
        }
        lists
    }

    /// What a word of a language is in English, by its longest beginning.
    fn english(&self, language: usize, word: &str) -> Option<&'static str> {
        let fits = |beginning: &str| {
            let ending = if beginning.len() < SHORT { 1 } else { ENDING };
            word.starts_with(beginning) && word.len() - beginning.len() <= ending
        };
        let candidates = self.spaced[language].get(&word.chars().next()?)?;
        let fitting = candidates.iter().filter(|(beginning, _)| fits(beginning));
        fitting.max_by_key(|(beginning, _)| beginning.len()).map(|(_, english)| *english)
    }
}

/// The query in English, as far as it is in another language that is known. `holders` says how many tools have a word.
pub(crate) fn in_english(query: &str, holders: impl Fn(&str) -> u32) -> Cow<'_, str> {
    let query = beginning(query, QUERY_BYTES);
    if query.chars().any(is_unspaced) {
        return Cow::Owned(unspaced_in_english(query, holders));
    }
    let words: Vec<String> = runs(query).into_iter().filter_map(plain_word).collect();
    let Some(language) = language(&words, &holders) else { return Cow::Borrowed(query) };
    let mut english: Vec<&str> = Vec::with_capacity(words.len());
    for word in &words {
        let plain = folded(word);
        match LISTS.english(language, &plain) {
            Some(translated) => {
                english.push(translated);
                if holders(word) > 0 && translated != word {
                    english.push(word);
                }
            }
            None if LISTS.function_words[language].contains(&plain) => {}
            None => english.push(word),
        }
    }
    Cow::Owned(english.join(" "))
}

fn plain_word(run: Run) -> Option<String> {
    match run {
        Run::Word { joined, .. } => Some(joined),
        Run::Unspaced(_) => None,
    }
}

/// The language of a query, if it is not English.
fn language(words: &[String], holders: impl Fn(&str) -> u32) -> Option<usize> {
    let english = words.iter().filter(|word| is_stop_word(word)).count();
    let is_unknown = |word: &str| holders(word) == 0 && !model::knows(word);
    let evidence = |language: usize| {
        let plain = words.iter().map(|word| (word, folded(word)));
        plain
            .filter(|(word, plain)| match LISTS.function_words[language].contains(plain) {
                true => !is_stop_word(word),
                false => is_unknown(word) && LISTS.english(language, plain).is_some(),
            })
            .count()
    };
    let (found, best) = (0..SPACED)
        .map(|language| (evidence(language), language))
        .max_by_key(|(found, language)| (*found, std::cmp::Reverse(*language)))?;
    let has_content = words.iter().any(|word| is_unknown(word) && LISTS.english(best, &folded(word)).is_some());
    (has_content && found > english && (found >= 2 || words.len() <= 2)).then_some(best)
}

/// Behind each stretch of unspaced script, what its words are in English; nothing behind one that tools have themselves.
fn unspaced_in_english(query: &str, holders: impl Fn(&str) -> u32) -> String {
    let is_japanese = query.chars().any(|c| matches!(c, '\u{3040}'..='\u{30ff}'));
    let order = if is_japanese { [1, 0] } else { [0, 1] };
    let mut english = String::with_capacity(query.len() * 2);
    for run in runs(query) {
        let Run::Unspaced(chars) = run else {
            english.extend(plain_word(run).map(|word| format!("{word} ")));
            continue;
        };
        english.extend(&chars);
        let is_held = chars.windows(2).any(|pair| holders(&pair.iter().collect::<String>()) > 0);
        let mut at = if is_held { chars.len() } else { 0 };
        while at < chars.len() {
            let longest = (1..=LONGEST.min(chars.len() - at)).rev().find_map(|length| {
                let word: String = chars[at..at + length].iter().collect();
                let found = order.iter().find_map(|list| LISTS.unspaced[*list].get(word.as_str()))?;
                Some((length, *found))
            });
            if let Some((_, word)) = longest {
                english.push(' ');
                english.push_str(word);
            }
            at += longest.map_or(1, |(length, _)| length);
        }
        english.push(' ');
    }
    english
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_told_in_english() {
        #[rustfmt::skip]
        let table = [
            ("lösche die alte Datei",               "delete old file"),
            ("Wetter morgen in Berlin",             "weather tomorrow in berlin"),
            ("envoie un message à Paul",            "send message à paul"),
            ("crea una nueva carpeta",              "create new folder"),
            ("muéstrame los archivos",              "show file"),
            ("删除文件",                             "删除文件 delete file "),
            ("ファイルを削除",                        "ファイルを削除 file delete "),
            // English stays.
            ("list the table names of a message",   "list the table names of a message"),
            ("send the document to la",             "send the document to la"),
            ("die",                                 "die"),
            ("kubectl get pods",                    "kubectl get pods"),
            ("",                                    ""),
        ];
        for (query, expected) in table {
            assert_eq!(in_english(query, |_| 0), expected, "{query}");
        }
    }

    #[test]
    fn every_line_has_six_columns() {
        for line in WORDS.lines() {
            let columns: Vec<&str> = line.split('\t').filter(|column| !column.is_empty()).collect();
            assert_eq!(columns.len(), 2 + SPACED + 1, "{line}");
            let unspaced = columns[1 + SPACED..].iter().flat_map(|words| words.split(','));
            assert!(unspaced.into_iter().all(|word| word.chars().count() <= LONGEST), "{line}");
        }
    }
}
