//! How good the search is where people talk: wishes as one says them to a colleague, over a catalogue of several hundred tools of
//! common services.
//!
//! `conversations/tools.jsonl` and `queries.jsonl` were written for pml, before the search was tried on them. A query is not
//! changed to be found. `pml eval search` reads the same files.

use std::sync::Arc;

use pml_search::{Both, Index, Mode};

use super::quality::{Quality, mean, quality_of, queries_of, snapshot_of};

const TOOLS: &str = include_str!("../conversations/tools.jsonl");
const QUERIES: &str = include_str!("../conversations/queries.jsonl");

#[test]
fn what_people_say_finds_the_tool() {
    let queries = queries_of(QUERIES);
    let measure = |index: Index| {
        let snapshot = snapshot_of(TOOLS, index);
        assert!(queries.len() >= 200 && snapshot.len() >= 300);
        mean(&queries.iter().map(|query| quality_of(&snapshot, query, Mode::Hybrid)).collect::<Vec<Quality>>())
    };
    let (table, both) = (measure(Index::new()), measure(Index::with(Arc::new(Both::built_in()))));
    assert!(both.hit_at_1 >= FLOOR_HIT && both.ndcg_at_10 >= FLOOR_NDCG, "{both:?}, the table alone {table:?}");
    assert!(both.ndcg_at_10 > table.ndcg_at_10, "{both:?}, the table alone {table:?}");
}

/// What it must not fall below.
const FLOOR_HIT: f64 = 0.68;
const FLOOR_NDCG: f64 = 0.80;
