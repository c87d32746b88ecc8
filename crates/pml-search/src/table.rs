//! The built-in embedder: a direction is the sum of the rows of its words in the table.

use std::sync::LazyLock;

use crate::{
    embedder::Embedder,
    encoder,
    index::bag_of,
    leaning::Leaning,
    model::{self, Bag, DIMENSIONS, MODEL_VERSION},
    query::QUERY_WORDS,
    tokenize::{Run, runs},
    tool::ToolText,
    vector::Vector,
    wishes::Wishes,
};

/// Of what is kept of a wish, the table's part.
static WISHES: LazyLock<Wishes> = LazyLock::new(|| Wishes::read(DIMENSIONS, (1.0 - encoder::SHARE).sqrt()));

/// How far the nearness of whole sentences is believed where only words are added up.
const TRUST: f32 = 0.5;

/// The table that is compiled in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Table;

impl Embedder for Table {
    fn version(&self) -> &str {
        MODEL_VERSION
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn tool(&self, tool: &ToolText) -> Vec<f32> {
        bag_of(tool).unit().to_vec()
    }

    fn query(&self, text: &str) -> Vec<f32> {
        let mut bag = Bag::default();
        for run in &words(text) {
            bag.add_run(run, 1.0);
        }
        bag.unit().to_vec()
    }

    fn leaning(&self, query: &[f32]) -> Option<Leaning> {
        WISHES.leaning(query).map(|leaning| leaning.weakened(TRUST))
    }

    fn shares(&self, query: &str, tool: &Vector) -> Vec<(String, f32)> {
        model::shares(&words(query), tool.scale(), tool.values())
    }
}

fn words(query: &str) -> Vec<Run> {
    let mut runs = runs(query);
    runs.truncate(QUERY_WORDS);
    runs
}
