//! Two embedders side by side: one that is quick, and one that reads more closely.

use std::sync::{Arc, LazyLock};

use crate::{
    embedder::{Embedder, dimensions},
    encoder::{self, Encoder},
    leaning::Leaning,
    table::Table,
    tool::ToolText,
    vector::Vector,
    wishes::Wishes,
};

static WISHES: LazyLock<Wishes> = LazyLock::new(|| Wishes::read(dimensions(&Both::built_in()), 1.0));

/// What is named in place of a word where a sentence was read.
const WHOLE: &str = "(the whole)";

/// A direction is that of the first and that of the second, one after the other, each shortened so that a cosine is the mean of
/// both, weighed by what the second counts. Where one has nothing to say, the other counts no more for it.
#[derive(Debug)]
pub struct Both {
    first: Arc<dyn Embedder>,
    second: Arc<dyn Embedder>,
    /// Roots of what each counts.
    lengths: [f32; 2],
    version: String,
    /// Is it what wishes were read by?
    is_built_in: bool,
}

impl Both {
    /// `share` is what the second counts, from 0 to 1. It must be above 0 and below 1 for both to count.
    pub fn new(first: Arc<dyn Embedder>, second: Arc<dyn Embedder>, share: f32) -> Both {
        let share = share.clamp(0.0, 1.0);
        let version = format!("{}+{}*{share}", first.version(), second.version());
        Both { first, second, lengths: [(1.0 - share).sqrt(), share.sqrt()], version, is_built_in: false }
    }

    /// What pml has with it: the table, and the small encoder.
    pub fn built_in() -> Both {
        Both { is_built_in: true, ..Both::new(Arc::new(Table), Arc::new(Encoder), encoder::SHARE) }
    }

    /// A stronger model beside the table.
    pub fn beside_table(model: Arc<dyn Embedder>) -> Both {
        Both::new(Arc::new(Table), model, 0.5)
    }

    fn join(&self, mut first: Vec<f32>, mut second: Vec<f32>, lengths: [f32; 2]) -> Vec<f32> {
        first.resize(dimensions(&*self.first), 0.0);
        second.resize(dimensions(&*self.second), 0.0);
        let scaled = |values: Vec<f32>, length: f32| values.into_iter().map(move |value| value * length);
        scaled(first, lengths[0]).chain(scaled(second, lengths[1])).collect()
    }
}

impl Embedder for Both {
    fn version(&self) -> &str {
        &self.version
    }

    fn dimensions(&self) -> usize {
        dimensions(&*self.first) + dimensions(&*self.second)
    }

    fn tool(&self, tool: &ToolText) -> Vec<f32> {
        self.join(self.first.tool(tool), self.second.tool(tool), self.lengths)
    }

    fn query(&self, text: &str) -> Vec<f32> {
        self.join(self.first.query(text), self.second.query(text), self.lengths)
    }

    /// The second has read the whole, and is not asked about its parts: it is the slow one, and it has seen what is beside
    /// what.
    fn parts(&self, whole: &[f32], parts: &[&str]) -> Vec<Vec<f32>> {
        let (first, second) = whole.split_at(dimensions(&*self.first).min(whole.len()));
        let of_parts = self.first.parts(first, parts).into_iter();
        of_parts.map(|part| self.join(part, second.to_vec(), [self.lengths[0], 1.0])).collect()
    }

    /// By the first alone, as if it were all.
    fn quick_query(&self, text: &str) -> Vec<f32> {
        self.join(self.first.query(text), Vec::new(), [1.0 / self.lengths[0].max(f32::MIN_POSITIVE), 0.0])
    }

    /// Wishes were read by the built-in two; of others the first says.
    fn leaning(&self, query: &[f32]) -> Option<Leaning> {
        if self.is_built_in {
            return WISHES.leaning(query);
        }
        let length = self.lengths[0].max(f32::MIN_POSITIVE);
        let first: Vec<f32> = query.iter().take(dimensions(&*self.first)).map(|value| value / length).collect();
        let leaning = self.first.leaning(&first)?;
        Some(Leaning { direction: self.join(leaning.direction, Vec::new(), self.lengths), ..leaning })
    }

    /// Those of the first, and what the second does, which reads no single words.
    fn shares(&self, query: &str, tool: &Vector) -> Vec<(String, f32)> {
        let split = dimensions(&*self.first);
        let of_first = self.first.shares(query, &tool.beginning(split)).into_iter();
        let mut shares: Vec<_> = of_first.map(|(word, share)| (word, share * self.lengths[0])).collect();
        let second = self.second.query(query);
        let values = tool.values().get(split..).unwrap_or_default();
        let cosine = second.iter().zip(values).map(|(a, b)| a * f32::from(*b)).sum::<f32>() * tool.scale();
        shares.push((WHOLE.to_owned(), cosine * self.lengths[1]));
        shares
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Index,
        vector::{Direction, Rows},
    };

    /// Says nothing but what it is told.
    #[derive(Debug)]
    struct Fixed(Vec<f32>);

    impl Embedder for Fixed {
        fn version(&self) -> &str {
            "fixed"
        }

        fn dimensions(&self) -> usize {
            2
        }

        fn tool(&self, _: &ToolText) -> Vec<f32> {
            vec![1.0, 0.0]
        }

        fn query(&self, text: &str) -> Vec<f32> {
            if text.is_empty() { Vec::new() } else { self.0.clone() }
        }
    }

    #[test]
    fn a_cosine_is_the_weighed_mean_of_both() {
        let both = Both::new(Arc::new(Fixed(vec![0.6, 0.8])), Arc::new(Fixed(vec![0.8, 0.6])), 0.25);
        let mut rows = Rows::new(4, 1);
        rows.push(&Vector::new(both.tool(&ToolText::default()), 4));
        let cosine = |unit: Vec<f32>| rows.cosines(&Direction::new(unit, 4), &[], 0.0)[0];
        for (unit, expected) in [
            (both.query("x"), 0.75 * 0.6 + 0.25 * 0.8),
            (both.parts(&both.query("x"), &["y"]).remove(0), 0.75 * 0.6 + 0.25 * 0.8),
            (both.quick_query("x"), 0.6),
            (both.query(""), 0.0),
        ] {
            let found = cosine(unit);
            assert!((found - expected).abs() < 0.01, "{found} instead of {expected}");
        }
    }

    #[test]
    fn shares_are_the_whole_cosine() {
        let both = Both::built_in();
        let tool = ToolText::new("disk", "move_file", "Gives a file another name.", &json!({}));
        let vector = Vector::new(both.tool(&tool), both.dimensions());
        let query = "rename a document";
        let shares = both.shares(query, &vector);
        let mut rows = Rows::new(both.dimensions(), 1);
        rows.push(&vector);
        let cosine = rows.cosines(&Direction::new(both.query(query), both.dimensions()), &[], 0.0)[0];
        let sum: f32 = shares.iter().map(|(_, share)| share).sum();
        assert!((sum - cosine).abs() < 0.01 && shares.iter().any(|(word, _)| word == WHOLE), "{shares:?}, {cosine}");
    }

    #[test]
    fn a_quick_search_asks_the_first_alone() {
        let mut index = Index::with(Arc::new(Both::new(Arc::new(Fixed(vec![0.6, 0.8])), Arc::new(Broken), 0.5)));
        index.insert_with_vector("a", &ToolText::new("", "a", "", &json!({})), Vector::new(vec![0.7, 0.0], 4));
        let hits = index.snapshot().search_quickly("words", 1, "", |_| true);
        assert_eq!(hits.len(), 1, "{hits:?}");
        assert!(hits[0].meaning > 0.5, "{hits:?}");
    }

    #[derive(Debug)]
    struct Broken;

    impl Embedder for Broken {
        fn version(&self) -> &str {
            "broken"
        }

        fn dimensions(&self) -> usize {
            2
        }

        fn tool(&self, _: &ToolText) -> Vec<f32> {
            panic!("asked about a tool")
        }

        fn query(&self, _: &str) -> Vec<f32> {
            panic!("asked about a query")
        }
    }
}
