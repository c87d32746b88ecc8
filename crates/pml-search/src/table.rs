//! The built-in embedder: a direction is the sum of the rows of its words in the table.

use crate::{
    embedder::Embedder,
    index::bag_of,
    model::{self, Bag, DIMENSIONS, MODEL_VERSION},
    query::QUERY_WORDS,
    tokenize::{Run, runs},
    tool::ToolText,
    vector::Vector,
    wishes::{Leaning, leaning_of_table},
};

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
        leaning_of_table(query)
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
