//! Tools as they were at one moment, packed for searching.
//!
//! Every tool is scored: with ten thousand of them that is less than a millisecond, and nothing can be missed.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap},
    iter,
    ops::Range,
    sync::Arc,
};

use crate::{
    embedder::{Embedder, dimensions},
    foreign::in_english,
    index::{Analysed, Index, Text},
    kinship::{KIN, weight},
    lexical::{Entry, Form, Occurrence, Word},
    math::ln,
    phrasing::bare,
    prefixes::{self, Correction},
    query::{Query, mend},
    rules::Rules,
    servers::Servers,
    vector::{Direction, Rows},
};

/// How soon more of a word counts no more.
const SATURATION: f32 = 2.5;
/// What a word counts in either form, and in the form that the query has.
const ANY_FORM: f32 = 0.5;
const SAME_FORM: f32 = 0.5;
/// What a word counts that the query only implies.
const IMPLIED: f32 = 0.5;
/// What words count in the fused score, where meaning counts 1, if some tool has all the words of the query.
const WORDS: f32 = 0.7;
/// What the query's parts count for meaning, where the query has several; the whole counts the rest.
const CLAUSES: f32 = 0.4;
/// A word that no tool has: the query is about something else, but it may also be a name or a value.
const UNKNOWN_WORD: f32 = 0.3;
/// How much less a query leans towards what similar wishes are for if a tool has all of its words.
const SAID: f32 = 0.3;

/// What a word of what similar wishes are for counts, where one of the query counts 1 and the query leans as much as it can.
const LEANT: f32 = 1.5;

/// What is named in place of a word where similar wishes did something.
const SIMILAR: &str = "(similar wishes)";

/// Which halves of the score are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Words only.
    Bm25,
    /// Meaning only.
    Embedding,
    #[default]
    Hybrid,
}

/// How long a search may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    Whole,
    Quick,
}

/// A tool that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub id: Arc<str>,
    /// How well it fits, from 0 to 1 and comparable between queries.
    pub score: f32,
    /// The share of the query's words that the tool has, from 0 to 1.
    pub words: f32,
    /// How near the tool's text is to the query in meaning, from 0 to 1.
    pub meaning: f32,
}

/// Why a tool has its score.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    pub hit: Hit,
    /// Words of the query, the ones that did most first.
    pub shares: Vec<WordShare>,
}

/// What a word of the query has done for a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct WordShare {
    pub word: String,
    /// Its part of [`Hit::words`].
    pub words: f32,
    /// Its part of the cosine with the whole query; negative if it led away.
    pub meaning: f32,
}

/// Searches do not change it and need no lock.
#[derive(Debug)]
pub struct Snapshot {
    embedder: Arc<dyn Embedder>,
    /// In order; a tool's place here is its slot.
    ids: Vec<Arc<str>>,
    texts: Vec<Arc<Text>>,
    servers: Servers,
    words: HashMap<Word, Postings>,
    postings: Vec<Posting>,
    /// Of all slots.
    vectors: Rows,
}

/// Where a word's postings are, and how rare it is: in any form, as singular, as plural. A form that no tool has counts
/// nothing.
#[derive(Clone, Copy, Debug)]
struct Postings {
    start: u32,
    len: u32,
    rarity: f32,
    singular_rarity: f32,
    plural_rarity: f32,
}

impl Postings {
    /// What a tool would get that has the word in this form without end.
    fn ideal(&self, form: Form) -> f32 {
        let form_rarity = match form {
            Form::Singular => self.singular_rarity,
            Form::Plural => self.plural_rarity,
        };
        match form_rarity > 0.0 {
            true => ANY_FORM * self.rarity + SAME_FORM * form_rarity,
            false => self.rarity,
        }
    }
}

/// What a tool gets for a word, if the query has it as singular or as plural.
#[derive(Clone, Copy, Debug, Default)]
struct Posting {
    slot: u32,
    if_singular: f32,
    if_plural: f32,
}

impl Default for Snapshot {
    /// Of no tools.
    fn default() -> Snapshot {
        Index::new().snapshot()
    }
}

impl Snapshot {
    pub(crate) fn pack(embedder: Arc<dyn Embedder>, tools: &BTreeMap<Arc<str>, Arc<Analysed>>) -> Snapshot {
        #[derive(Default)]
        struct Count {
            any: u32,
            singular: u32,
            plural: u32,
        }

        let mut counts: HashMap<Word, Count> = HashMap::new();
        for entry in tools.values().flat_map(|tool| tool.text.words.iter()) {
            let count = counts.entry(entry.word).or_default();
            count.any += 1;
            count.singular += u32::from(entry.singular > 0.0);
            count.plural += u32::from(entry.plural > 0.0);
        }
        let total = tools.len();
        let mut start = 0;
        let mut words: HashMap<Word, Postings> = HashMap::with_capacity(counts.len());
        for (word, count) in counts {
            let [rarity, singular_rarity, plural_rarity] = [count.any, count.singular, count.plural]
                .map(|holders| if holders == 0 { 0.0 } else { rarity(holders, total) });
            words.insert(word, Postings { start, len: 0, rarity, singular_rarity, plural_rarity });
            start += count.any;
        }
        let mut postings = vec![Posting::default(); start as usize];
        let mut vectors = Rows::new(dimensions(&*embedder), total);
        let prefixes = prefixes::shared(tools.values().map(|tool| (tool.text.server, &*tool.text.name)));
        let saturated = |weight: f32| weight / (SATURATION + weight);
        for (slot, tool) in (0..).zip(tools.values()) {
            vectors.push(&tool.vector);
            let prefix = prefixes.get(&tool.text.server).map(Vec::as_slice).unwrap_or_default();
            let corrections = prefixes::corrections(&tool.text.name, prefix);
            for entry in tool.text.words.iter() {
                let entry = corrected(entry, &corrections);
                let Some(place) = words.get_mut(&entry.word) else { continue };
                let any = ANY_FORM * place.rarity * saturated(entry.singular + entry.plural);
                postings[(place.start + place.len) as usize] = Posting {
                    slot,
                    if_singular: any + SAME_FORM * place.singular_rarity * saturated(entry.singular),
                    if_plural: any + SAME_FORM * place.plural_rarity * saturated(entry.plural),
                };
                place.len += 1;
            }
        }
        let texts: Vec<_> = tools.values().map(|tool| Arc::clone(&tool.text)).collect();
        let holders = |word: Word| words.get(&word).map_or(0, |place| place.len);
        let servers = Servers::new(texts.iter().map(|text| &**text), holders);
        Snapshot { embedder, ids: tools.keys().cloned().collect(), texts, servers, words, postings, vectors }
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The tools that fit a query, best first, equally good ones in the order of their ids. Nothing that does not fit at
    /// all; nothing if the query says nothing.
    pub fn search(&self, query: &str, limit: usize, mode: Mode) -> Vec<Hit> {
        self.search_among(query, limit, mode, "", |_| true)
    }

    /// As [`search`](Self::search), among those whose id begins so and that `is_wanted`, which is asked about the best ones
    /// only. A tool's score does not depend on which others are.
    pub fn search_among(
        &self,
        query: &str,
        limit: usize,
        mode: Mode,
        prefix: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<Hit> {
        self.best(query, limit, (mode, Effort::Whole), prefix, is_wanted)
    }

    /// As [`search_among`](Self::search_among) with both halves, where a search must not take milliseconds: meaning is that
    /// of the quicker embedder, if there are two.
    pub fn search_quickly(
        &self,
        query: &str,
        limit: usize,
        prefix: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<Hit> {
        self.best(query, limit, (Mode::Hybrid, Effort::Quick), prefix, is_wanted)
    }

    fn best(
        &self,
        query: &str,
        limit: usize,
        (mode, effort): (Mode, Effort),
        prefix: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<Hit> {
        let query = bare(query);
        let text = self.text_of(&query);
        let scores = Scores::new(self, &query, &self.parse(&query, &text, mode, effort), mode);
        // A positive float is ordered like its bits, and of equal scores the first slot counts more.
        let fitting = self.slots(prefix).map(|slot| (scores.fused(slot, mode), Reverse(slot)));
        let mut best: BinaryHeap<(u32, Reverse<usize>)> =
            fitting.filter(|(score, _)| *score > 0.0).map(|(score, slot)| (score.to_bits(), slot)).collect();
        iter::from_fn(|| best.pop())
            .map(|(_, Reverse(slot))| slot)
            .filter(|slot| is_wanted(&self.ids[*slot]))
            .take(limit)
            .map(|slot| self.hit(slot, &scores, mode))
            .collect()
    }

    /// The ids of all tools, in order.
    pub fn ids(&self) -> &[Arc<str>] {
        &self.ids
    }

    /// The score that [`search`](Self::search) gives to each of [`ids`](Self::ids); 0 if a tool does not fit at all.
    pub fn scores(&self, query: &str, mode: Mode) -> Vec<f32> {
        let query = bare(query);
        let text = self.text_of(&query);
        let scores = Scores::new(self, &query, &self.parse(&query, &text, mode, Effort::Whole), mode);
        (0..self.ids.len()).map(|slot| scores.fused(slot, mode)).collect()
    }

    /// How many tools have an id that begins so.
    pub fn count(&self, prefix: &str) -> usize {
        self.slots(prefix).len()
    }

    fn slots(&self, prefix: &str) -> Range<usize> {
        let first = self.ids.partition_point(|id| **id < *prefix);
        let count = self.ids[first..].partition_point(|id| id.starts_with(prefix));
        first..first + count
    }

    /// Why the tool `id` has the score that it has, however low. `None` if there is no such tool.
    pub fn explain(&self, query: &str, id: &str, mode: Mode) -> Option<Explanation> {
        let slot = self.ids.binary_search_by(|known| (**known).cmp(id)).ok()?;
        let typed = bare(query);
        let text = self.text_of(&typed);
        let query = self.parse(&typed, &text, mode, Effort::Whole);
        let scores = Scores::new(self, &typed, &query, mode);
        let mut shares: Vec<WordShare> = Vec::new();
        let mut add = |word: String, words: f32, meaning: f32| match shares.iter_mut().find(|share| share.word == word)
        {
            Some(share) => {
                share.words += words;
                share.meaning += meaning;
            }
            None => shares.push(WordShare { word, words, meaning }),
        };
        if mode != Mode::Embedding {
            for word in query.words.iter().chain(&query.kin).chain(&query.implied) {
                add(word.text.clone(), 0.0, 0.0);
            }
            let mut has_word = false;
            self.score_words(&query, |word, is_implied, at, share| {
                if at == slot && (has_word || !is_implied) {
                    has_word = true;
                    add(word.text.clone(), share * scores.share, 0.0);
                }
            });
        }
        if mode != Mode::Bm25
            && let Some(vector) = self.vectors.get(slot)
        {
            for (word, meaning) in self.embedder.shares(query.text, &vector) {
                add(word, 0.0, meaning * scores.share);
            }
            if let Some(leaning) = &query.leaning {
                let values = vector.values().iter().map(|value| f32::from(*value) * vector.scale());
                let cosine: f32 = leaning.direction.iter().zip(values).map(|(a, b)| a * b).sum();
                add(SIMILAR.to_owned(), 0.0, cosine * scores.share);
            }
        }
        shares
            .sort_by(|a, b| (b.words + b.meaning).total_cmp(&(a.words + a.meaning)).then_with(|| a.word.cmp(&b.word)));
        Some(Explanation { hit: self.hit(slot, &scores, mode), shares })
    }

    fn hit(&self, slot: usize, scores: &Scores<'_>, mode: Mode) -> Hit {
        Hit {
            id: Arc::clone(&self.ids[slot]),
            score: scores.fused(slot, mode),
            words: scores.words.get(slot).copied().unwrap_or_default().clamp(0.0, 1.0),
            meaning: scores.meaning.get(slot).copied().unwrap_or_default().clamp(0.0, 1.0),
        }
    }

    /// What a query means in the words of these tools: in English, and spelled as they spell it.
    fn text_of(&self, query: &str) -> String {
        let english = in_english(query, |word| self.holders(word));
        mend(&english, |word| self.holders(word)).into_owned()
    }

    /// Of a text, and of it as it was typed.
    fn parse<'q>(&self, typed: &str, text: &'q str, mode: Mode, effort: Effort) -> Query<'q> {
        let query = Query::parse(text, |word| self.holders(word)).typed(typed);
        let direction = match (mode, effort) {
            (Mode::Bm25, _) => return query,
            (_, Effort::Whole) => self.embedder.query(query.text),
            (_, Effort::Quick) => self.embedder.quick_query(query.text),
        };
        // Who says it in the words of a tool needs to be understood less.
        let leaning = self.embedder.leaning(&direction);
        let leaning = leaning.map(|leaning| leaning.weakened(1.0 - SAID * self.best_words(&query).min(1.0)));
        let query = match effort {
            Effort::Whole => query,
            Effort::Quick => Query { clauses: Vec::new(), ..query },
        };
        query.towards(direction, leaning)
    }

    /// The largest share of the query's words that a tool has.
    fn best_words(&self, query: &Query<'_>) -> f32 {
        let mut words = vec![0.0_f32; self.ids.len()];
        self.score_words(query, |_, is_implied, slot, share| {
            if !is_implied {
                words[slot] += share;
            }
        });
        words.into_iter().fold(0.0, f32::max)
    }

    /// How many tools have a word, in whatever form.
    fn holders(&self, word: &str) -> u32 {
        self.words.get(&Word::of(word)).map_or(0, |place| place.len)
    }

    /// The score of a tool that would have all words of the query, as often as it takes.
    fn ideal(&self, query: &Query<'_>) -> f32 {
        let rarities = query.words.iter().map(|occurrence| match self.words.get(&occurrence.word) {
            Some(place) => weight(&occurrence.text) * place.ideal(occurrence.form),
            None => weight(&occurrence.text) * UNKNOWN_WORD * rarity(0, self.ids.len()),
        });
        rarities.sum()
    }

    /// What each word of the query gives to each tool that has it: the word, the slot, its part of the ideal. An implied
    /// word comes last.
    fn score_words<'q>(&self, query: &'q Query<'_>, mut add: impl FnMut(&'q Occurrence, bool, usize, f32)) {
        let ideal = self.ideal(query);
        if ideal <= 0.0 {
            return;
        }
        let words = query.words.iter().map(|word| (word, false, weight(&word.text) / ideal));
        let kin = query.kin.iter().map(|word| (word, false, KIN / ideal));
        let leant = query.leant().map(|(word, weight)| (word, false, LEANT * weight / ideal));
        let implied = query.implied.iter().map(|word| (word, true, IMPLIED / ideal));
        for (word, is_implied, factor) in words.chain(kin).chain(leant).chain(implied) {
            let Some(place) = self.words.get(&word.word) else { continue };
            let postings = &self.postings[place.start as usize..(place.start + place.len) as usize];
            match word.form {
                Form::Singular => {
                    postings.iter().for_each(|at| add(word, is_implied, at.slot as usize, at.if_singular * factor));
                }
                Form::Plural => {
                    postings.iter().for_each(|at| add(word, is_implied, at.slot as usize, at.if_plural * factor));
                }
            }
        }
    }
}

/// The word with what its place in the name makes of it.
fn corrected(mut entry: Entry, corrections: &[Correction]) -> Entry {
    for correction in corrections.iter().filter(|correction| correction.word == entry.word) {
        match correction.is_plural {
            true => entry.plural += correction.weight,
            false => entry.singular += correction.weight,
        }
    }
    entry
}

/// How much a word says that so many of the tools have. Always above zero.
fn rarity(holders: u32, total: usize) -> f32 {
    let holders = f64::from(holders);
    ln(1.0 + (total as f64 - holders + 0.5) / (holders + 0.5)) as f32
}

/// Both halves of every slot's score. A half that is not asked for is empty.
struct Scores<'s> {
    words: Vec<f32>,
    meaning: Vec<f32>,
    /// What words count in this query. Where even the best tool has few of them, the query says it in other words, and
    /// meaning decides.
    words_weight: f32,
    /// What both halves are multiplied by: they are the mean of what the query says and of what similar wishes are for, which
    /// count as much as the query leans.
    share: f32,
    rules: Rules<'s>,
}

impl<'s> Scores<'s> {
    /// Of a query, and of it as it was typed.
    fn new(snapshot: &'s Snapshot, typed: &str, query: &Query<'_>, mode: Mode) -> Scores<'s> {
        let rules = Rules::new(&snapshot.texts, &snapshot.servers, typed, query);
        let share = 1.0 / (1.0 + query.leaning.as_ref().map_or(0.0, |leaning| leaning.strength));
        let mut scores = Scores { words: Vec::new(), meaning: Vec::new(), words_weight: 0.0, share, rules };
        if mode != Mode::Embedding {
            scores.words = vec![0.0; snapshot.ids.len()];
            snapshot.score_words(query, |_, is_implied, slot, share| {
                // What is implied tells apart tools that have a word of the query, and finds none by itself.
                if !is_implied || scores.words[slot] > 0.0 {
                    scores.words[slot] += share;
                }
            });
            let best = scores.words.iter().copied().fold(0.0, f32::max);
            if best > 0.0 {
                scores.words_weight = WORDS / best.sqrt();
            }
            scores.words.iter_mut().for_each(|words| *words *= share);
        }
        if mode != Mode::Bm25 {
            scores.meaning = meaning(snapshot, query);
            scores.meaning.iter_mut().for_each(|meaning| *meaning *= share);
        }
        scores
    }

    /// From 0 to 1. What is implied may be more than the ideal, and a cosine of 1 a little more than that.
    fn fused(&self, slot: usize, mode: Mode) -> f32 {
        let words = self.words.get(slot).copied().unwrap_or_default();
        let meaning = self.meaning.get(slot).copied().unwrap_or_default();
        let score = match mode {
            Mode::Bm25 => words,
            Mode::Embedding => meaning,
            Mode::Hybrid => self.rules.apply(slot, (meaning + self.words_weight * words) / (1.0 + WORDS)),
        };
        score.clamp(0.0, 1.0)
    }
}

/// How near each slot is to the query; empty if the query says nothing.
fn meaning(snapshot: &Snapshot, query: &Query<'_>) -> Vec<f32> {
    let embedder = &*snapshot.embedder;
    let direction = |values: Vec<f32>| Direction::new(values, dimensions(embedder));
    let parts = embedder.parts(&query.direction, &query.clauses).into_iter().map(direction).collect::<Vec<_>>();
    let mut whole = query.direction.clone();
    if let Some(leaning) = &query.leaning {
        whole.iter_mut().zip(&leaning.direction).for_each(|(value, more)| *value += more);
    }
    let whole = direction(whole);
    if whole.is_zero() {
        return Vec::new();
    }
    snapshot.vectors.cosines(&whole, &parts, CLAUSES)
}
