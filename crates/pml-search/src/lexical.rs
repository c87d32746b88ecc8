//! Words that a tool has, and how much each counts: the document's half of BM25F.
//!
//! Words in a name count more than words in the description of an argument, and many words in one place count less each.
//! "Many" is against a fixed length and not against the mean of all tools: so what is known of a tool does not change
//! when others come and go.
//!
//! A word is kept under its singular, with its weight in either form apart. A query's `buckets` finds a `bucket`, but a
//! tool that says `buckets` comes first: which is what tells `list_buckets` from `get_bucket`.

use crate::{
    actions::undone,
    tokenize::{Run, runs, singular},
    tool::ToolText,
};

/// A place where words are: how much one counts there, and from how many on each counts less.
pub(crate) struct Field {
    weight: f32,
    usual_words: f32,
}

impl Field {
    /// What a word counts that is one of so many.
    pub(crate) fn weight_among(&self, words: usize) -> f32 {
        self.weight / (1.0 - SLOPE + SLOPE * words as f32 / self.usual_words)
    }
}

pub(crate) const NAME: Field = Field { weight: 6.0, usual_words: 3.0 };
const DESCRIPTION: Field = Field { weight: 1.0, usual_words: 40.0 };
const PARAMETER_NAMES: Field = Field { weight: 1.0, usual_words: 5.0 };
const PARAMETER_TEXTS: Field = Field { weight: 0.65, usual_words: 50.0 };
pub(crate) const SERVER: Field = Field { weight: 1.5, usual_words: 2.0 };

/// What a verb counts that a word of a name undoes, where that word counts 1.
const UNDONE: f32 = 1.0;

/// How much less a word counts among many: 0 is not at all, 1 is that twice as many count half.
const SLOPE: f32 = 0.4;

/// A word by its singular, hashed: the words themselves are not needed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Word(u64);

impl Word {
    /// Names something as a whole, such as a server.
    pub(crate) fn number(text: &str) -> u64 {
        Word::new(text).0
    }

    pub(crate) fn of(text: &str) -> Word {
        singular(text).map_or_else(|| Word::new(text), |singular| Word::new(&singular))
    }

    fn halves(self) -> [u32; 2] {
        [(self.0 >> 32) as u32, self.0 as u32]
    }

    fn of_halves([high, low]: [u32; 2]) -> Word {
        Word(u64::from(high) << 32 | u64::from(low))
    }

    /// Half of it.
    pub(crate) fn short(self) -> u32 {
        (self.0 ^ (self.0 >> 32)) as u32
    }

    fn new(text: &str) -> Word {
        // FNV-1a: short, and the same everywhere.
        Word(
            text.bytes()
                .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)),
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    Singular,
    Plural,
}

/// A word that a tool has, with its weight in each form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) word: Word,
    pub(crate) singular: f32,
    pub(crate) plural: f32,
}

/// The words of a tool, in the order of their hashes. There are thousands of tools, so a word takes 12 bytes.
#[derive(Debug, PartialEq)]
pub(crate) struct Words(Box<[Packed]>);

/// A word in one form: its two halves, and its weight, which is negative for the plural.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Packed {
    word: [u32; 2],
    weight: f32,
}

impl Words {
    /// Of entries in the order of their words.
    fn pack(entries: &[Entry]) -> Words {
        // Room for all at once: what a growing list leaves behind is not given back.
        let forms = |entry: &Entry| [entry.singular, -entry.plural].into_iter().filter(|weight| *weight != 0.0);
        let mut packed = Vec::with_capacity(entries.iter().flat_map(forms).count());
        for entry in entries {
            packed.extend(forms(entry).map(|weight| Packed { word: entry.word.halves(), weight }));
        }
        Words(packed.into())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> {
        self.0.chunk_by(|a, b| a.word == b.word).map(|same| Entry {
            word: Word::of_halves(same[0].word),
            singular: same.iter().map(|packed| packed.weight.max(0.0)).sum(),
            plural: same.iter().map(|packed| (-packed.weight).max(0.0)).sum(),
        })
    }
}

/// A word as it stands in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Occurrence {
    pub(crate) text: String,
    pub(crate) word: Word,
    pub(crate) form: Form,
}

/// The words of a run: parts of an identifier and the whole (`GitHub`: git, hub, github); of unspaced script, pairs of
/// characters.
pub(crate) fn occurrences(run: &Run) -> Vec<Occurrence> {
    match run {
        Run::Word { joined, parts } => {
            let is_numbered = parts.iter().any(|part| part.starts_with(char::is_numeric));
            let whole = (parts.len() > 1 && !is_numbered).then_some(joined);
            parts.iter().chain(whole).map(|text| occurrence(text.clone())).collect()
        }
        Run::Unspaced(chars) => {
            let width = chars.len().min(2);
            chars.windows(width).map(|pair| occurrence(pair.iter().collect())).collect()
        }
    }
}

pub(crate) fn occurrence(text: String) -> Occurrence {
    let (word, form) = match singular(&text) {
        Some(singular) => (Word::new(&singular), Form::Plural),
        None => (Word::new(&text), Form::Singular),
    };
    Occurrence { text, word, form }
}

/// A word of a name, in its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NameWord {
    pub(crate) word: Word,
    pub(crate) is_plural: bool,
    /// An identifier as a whole, beside its parts.
    pub(crate) is_whole: bool,
}

/// The words of a name, in their order.
pub(crate) fn name_words(name: &str) -> Box<[NameWord]> {
    let of_run = |run: &Run| {
        let parts = match run {
            Run::Word { parts, .. } => parts.len(),
            Run::Unspaced(_) => usize::MAX,
        };
        let name_word = |(place, Occurrence { word, form, .. })| NameWord {
            word,
            is_plural: form == Form::Plural,
            is_whole: place >= parts,
        };
        occurrences(run).into_iter().enumerate().map(name_word).collect::<Vec<_>>()
    };
    runs(name).iter().flat_map(of_run).collect()
}

/// All words of a tool, in the order of their hashes.
pub(crate) fn analyse(tool: &ToolText) -> Words {
    let mut entries = Vec::new();
    add(&mut entries, &NAME, [tool.name.as_str()]);
    add_undone(&mut entries, &tool.name);
    add(&mut entries, &DESCRIPTION, [tool.description.as_str()]);
    add(&mut entries, &PARAMETER_NAMES, tool.parameters.iter().map(|parameter| parameter.name.as_str()));
    let texts = tool.parameters.iter().flat_map(|parameter| {
        [parameter.description.as_str()].into_iter().chain(parameter.values.iter().map(String::as_str))
    });
    add(&mut entries, &PARAMETER_TEXTS, texts);
    add(&mut entries, &SERVER, [tool.server.as_str()]);
    // The sort is stable and fields are added in one order, so that equal words are summed in one order too.
    entries.sort_by_key(|entry: &Entry| entry.word);
    let merged = entries.chunk_by(|a, b| a.word == b.word).map(|same| Entry {
        word: same[0].word,
        singular: same.iter().map(|entry| entry.singular).sum(),
        plural: same.iter().map(|entry| entry.plural).sum(),
    });
    Words::pack(&merged.collect::<Vec<_>>())
}

fn add<'a>(entries: &mut Vec<Entry>, field: &Field, texts: impl IntoIterator<Item = &'a str>) {
    let words: Vec<_> = texts.into_iter().flat_map(runs).flat_map(|run| occurrences(&run)).collect();
    let weight = field.weight_among(words.len());
    entries.extend(words.into_iter().map(|Occurrence { word, form, .. }| match form {
        Form::Singular => Entry { word, singular: weight, plural: 0.0 },
        Form::Plural => Entry { word, singular: 0.0, plural: weight },
    }));
}

/// `unstar_repository` also has the word `star`: who no longer wants one says so.
fn add_undone(entries: &mut Vec<Entry>, name: &str) {
    let words: Vec<_> = runs(name).iter().flat_map(occurrences).collect();
    let weight = UNDONE * NAME.weight_among(words.len());
    let undone = words.iter().filter_map(|found| undone(&found.text));
    entries.extend(undone.map(|base| Entry { word: Word::of(base), singular: weight, plural: 0.0 }));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_is_found_by_its_parts_and_as_a_whole() {
        #[rustfmt::skip]
        let table = [
            ("GitHub",    "git hub github"),
            ("buckets",   "buckets"),
            ("v2",        "v 2"),
            ("搜索结果",   "搜索 索结 结果"),
            ("搜",        "搜"),
        ];
        for (text, expected) in table {
            let words: Vec<_> = runs(text).iter().flat_map(occurrences).map(|found| found.text).collect();
            assert_eq!(words.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn a_word_counts_most_in_the_name_and_less_among_many() {
        let weight = |name: &str, description: &str| {
            let tool = ToolText::new("", name, description, &json!({}));
            let entries = analyse(&tool);
            let found = entries.iter().find(|entry| entry.word == Word::new("bucket"));
            found.map(|entry| (entry.singular, entry.plural))
        };
        let (name, _) = weight("bucket", "").unwrap();
        let (text, _) = weight("", "bucket").unwrap();
        let (among_many, _) = weight("", &format!("bucket {}", "word ".repeat(100))).unwrap();
        assert!(name > text && text > among_many);
        assert_eq!(weight("", "buckets").map(|(singular, _)| singular), Some(0.0));
        assert_eq!(weight("x", "y"), None);
        let (one, many) = weight("bucket", "buckets").unwrap();
        assert!(one > many && many > 0.0, "each form has its weight");
    }
}
