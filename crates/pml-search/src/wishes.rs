//! Wishes as people say them, each with what tools call it.
//!
//! "Do I need an umbrella" has no word of `get_forecast`, and no meaning near it. It is near to other wishes for a forecast: so a
//! query is compared with a list of wishes, and leans towards what the nearest of them are for.
//!
//! `model/wishes.tsv` is written by hand, a line for each aim: words that tools have for it, a tab, and wishes. `wishes.bin` holds
//! the directions of all of them, which `examples/wishes.rs` makes: to make them when they are needed would take seconds.

use crate::{
    embedder::{Embedder, dimensions},
    leaning::Leaning,
    lexical::occurrence,
    vector::{Direction, Rows, Vector},
};

static LIST: &str = include_str!("../model/wishes.tsv");
static BYTES: &[u8] = include_bytes!("../model/wishes.bin");
/// Of a direction in the file: that of the table, and that of the encoder behind it.
const KEPT: usize = 640;

/// How near a wish must be for a query to lean at all.
const NEAR: f32 = 0.3;
/// Aims that a query leans towards, and how much less near than the nearest they may be. What is half as far away counts a
/// quarter.
const AIMS: usize = 4;
const SPREAD: f32 = 0.25;

/// The list, as one embedder reads it.
#[derive(Debug)]
pub(crate) struct Wishes {
    aims: Vec<Aim>,
    rows: Rows,
    /// What a row's length is multiplied by to be 1.
    factor: f32,
}

#[derive(Debug)]
struct Aim {
    name: &'static str,
    /// Of the name, and of the wishes after it.
    first_row: usize,
    rows: usize,
}

/// The directions of a list as an embedder gives them. With the built-in one they are what `wishes.bin` is to be.
pub fn directions(embedder: &dyn Embedder, list: &str) -> Vec<u8> {
    texts(list).flat_map(|text| Vector::new(embedder.query(text), dimensions(embedder)).to_bytes()).collect()
}

/// Of each line the aim, then its wishes.
fn texts(list: &str) -> impl Iterator<Item = &str> {
    list.lines().flat_map(texts_of)
}

fn texts_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(['\t', '|'])
}

impl Wishes {
    /// For queries whose direction has so many values, as the first of what is kept, which have this length there.
    pub(crate) fn read(dimensions: usize, length: f32) -> Wishes {
        let count = BYTES.len() / Vector::bytes_of(KEPT);
        let mut wishes = Wishes { aims: Vec::new(), rows: Rows::new(dimensions, count), factor: 1.0 / length };
        let mut first_row = 0;
        for line in LIST.lines() {
            let rows = texts_of(line).count();
            wishes.aims.push(Aim { name: texts_of(line).next().unwrap_or_default(), first_row, rows });
            first_row += rows;
        }
        for bytes in BYTES.chunks_exact(Vector::bytes_of(KEPT)) {
            // A test reads them all.
            let vector = Vector::from_bytes(bytes, KEPT).unwrap_or_else(|_| Vector::new(Vec::new(), KEPT));
            wishes.rows.push(&vector.beginning(dimensions));
        }
        wishes
    }

    pub(crate) fn leaning(&self, query: &[f32]) -> Option<Leaning> {
        let direction = Direction::new(query.to_vec(), query.len());
        let nearness = self.rows.cosines(&direction, &[], 0.0);
        let nearest_wish = |aim: &Aim| {
            let rows = nearness.get(aim.first_row..aim.first_row + aim.rows).unwrap_or_default();
            rows.iter().copied().fold(0.0, f32::max) * self.factor
        };
        let mut aims: Vec<(f32, &Aim)> = self.aims.iter().map(|aim| (nearest_wish(aim), aim)).collect();
        // The sort is stable: of equals the first of the list is first.
        aims.sort_by(|a, b| b.0.total_cmp(&a.0));
        let nearest = aims.first()?.0.min(1.0);
        if nearest <= NEAR {
            return None;
        }
        let strength = ((nearest - NEAR) / (1.0 - NEAR)).sqrt();
        let closeness = |near: f32| (1.0 - (nearest - near) / SPREAD).clamp(0.0, 1.0);
        let weighed: Vec<(f32, &Aim)> =
            aims.into_iter().take(AIMS).map(|(near, aim)| (closeness(near) * closeness(near), aim)).collect();
        let total: f32 = weighed.iter().map(|(weight, _)| weight).sum();
        let mut leaning = Leaning { strength, direction: vec![0.0; query.len()], words: Vec::new() };
        for (weight, aim) in weighed {
            self.lean(&mut leaning, aim, strength * weight / total);
        }
        Some(leaning)
    }

    fn lean(&self, leaning: &mut Leaning, aim: &Aim, weight: f32) {
        if let Some(vector) = self.rows.get(aim.first_row) {
            let factor = weight * vector.scale() * self.factor;
            let values = vector.values().iter().map(|value| f32::from(*value) * factor);
            leaning.direction.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        for word in aim.name.split(' ').map(|word| occurrence(word.to_owned())) {
            match leaning.words.iter_mut().find(|(known, _)| *known == word) {
                Some((_, sum)) => *sum += weight,
                None => leaning.words.push((word, weight)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{both::Both, table::Table};

    fn words_of(leaning: Option<Leaning>) -> Vec<String> {
        leaning.into_iter().flat_map(|leaning| leaning.words).map(|(word, _)| word.text).collect()
    }

    /// Whoever changes the list runs `cargo run --release -p pml-search --example wishes`.
    #[test]
    fn the_file_is_that_of_the_list() {
        let both = Both::built_in();
        assert_eq!(dimensions(&both), KEPT);
        let size = Vector::bytes_of(KEPT);
        assert_eq!(BYTES.len(), texts(LIST).count() * size);
        // Each takes milliseconds.
        for (text, bytes) in texts(LIST).zip(BYTES.chunks_exact(size)).step_by(97) {
            assert!(directions(&both, text) == bytes, "{text}");
        }
        for bytes in BYTES.chunks_exact(size) {
            assert!(Vector::from_bytes(bytes, KEPT).is_ok_and(|vector| vector.scale() > 0.0));
        }
    }

    #[test]
    fn the_list_is_well_formed() {
        let mut names: Vec<&str> = Vec::new();
        for line in LIST.lines() {
            let columns = line.split('\t').count();
            assert!(columns <= 2 && texts_of(line).all(|text| !text.is_empty() && text == text.trim()), "{line}");
            names.push(texts_of(line).next().unwrap());
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "an aim has one line");
        assert!(BYTES.len() + LIST.len() <= 2_000_000);
    }

    #[test]
    fn a_query_leans_to_what_similar_wishes_are_for() {
        let both = Both::built_in();
        for (query, word) in [
            ("will I need my raincoat in the morning", "forecast"),
            ("please get my boss on the phone", "call"),
            ("undo what we rolled out an hour ago", "rollback"),
        ] {
            let words = words_of(both.leaning(&both.query(query)));
            assert!(words.iter().any(|found| found == word), "{query}: {words:?}");
        }
        assert!(words_of(Table.leaning(&Table.query("wake me up at six"))).contains(&"alarm".to_owned()));
        for text in ["", "xqzzk vrrp", "🦓"] {
            assert!(both.leaning(&both.query(text)).is_none_or(|leaning| leaning.strength < 0.6), "{text}");
        }
        let leaning = both.leaning(&both.query("wake me up at six")).unwrap();
        let length = leaning.direction.iter().map(|value| value * value).sum::<f32>().sqrt();
        assert!(leaning.strength <= 1.0 && length <= leaning.strength * 1.02, "{leaning:?}");
    }
}
