//! How good the search is on a catalogue and on queries of our own: what it must not fall below.
//!
//! `quality/tools.jsonl` has tools of common kinds, `quality/queries.jsonl` wishes for them in words of the tool, in other
//! words, mistyped, as identifiers, with the server's name, in one word. `pml eval search` reads the same files. A query is
//! not changed to be found; what is not found shows what the search cannot do.

use std::collections::BTreeMap;

use pml_search::{Index, Mode, Snapshot, ToolText};
use serde_json::Value;

const TOOLS: &str = include_str!("../quality/tools.jsonl");
const QUERIES: &str = include_str!("../quality/queries.jsonl");
const SHOWN: usize = 10;

pub(super) struct Query {
    kind: String,
    pub(super) text: String,
    relevant: Vec<String>,
}

/// How well some queries are answered, from 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quality {
    pub(super) hit_at_1: f64,
    pub(super) ndcg_at_10: f64,
}

fn lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"))
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn snapshot() -> Snapshot {
    snapshot_of(TOOLS, Index::new())
}

pub(super) fn snapshot_of(tools: &str, mut index: Index) -> Snapshot {
    for tool in lines(tools) {
        let [id, server, name, description] = ["id", "server", "name", "description"].map(|key| text(&tool[key]));
        index.insert(&id, &ToolText::new(&server, &name, &description, &tool["inputSchema"]));
    }
    index.snapshot()
}

fn queries() -> Vec<Query> {
    queries_of(QUERIES)
}

pub(super) fn queries_of(queries: &str) -> Vec<Query> {
    let query = |line: Value| Query {
        kind: text(&line["kind"]),
        text: text(&line["query"]),
        relevant: line["relevant"].as_array().expect("ids").iter().map(text).collect(),
    };
    lines(queries).map(query).collect()
}

pub(super) fn quality_of(snapshot: &Snapshot, query: &Query, mode: Mode) -> Quality {
    let hits = snapshot.search(&query.text, SHOWN, mode);
    let is_good: Vec<bool> = hits.iter().map(|hit| query.relevant.iter().any(|id| **id == *hit.id)).collect();
    let discount = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
    let gain: f64 = is_good.iter().enumerate().filter(|(_, good)| **good).map(|(rank, _)| discount(rank)).sum();
    let ideal: f64 = (0..query.relevant.len()).map(discount).sum();
    Quality { hit_at_1: f64::from(is_good.first() == Some(&true)), ndcg_at_10: gain / ideal }
}

pub(super) fn mean(qualities: &[Quality]) -> Quality {
    let count = qualities.len() as f64;
    Quality {
        hit_at_1: qualities.iter().map(|quality| quality.hit_at_1).sum::<f64>() / count,
        ndcg_at_10: qualities.iter().map(|quality| quality.ndcg_at_10).sum::<f64>() / count,
    }
}

fn measure(mode: Mode) -> Quality {
    let snapshot = snapshot();
    mean(&queries().iter().map(|query| quality_of(&snapshot, query, mode)).collect::<Vec<_>>())
}

#[test]
fn every_query_has_an_answer_among_the_tools() {
    let snapshot = snapshot();
    let queries = queries();
    assert!(snapshot.len() >= 60 && queries.len() >= 60);
    for query in queries {
        assert!(!query.relevant.is_empty(), "{}", query.text);
        for id in query.relevant {
            assert!(snapshot.explain("", &id, Mode::Hybrid).is_some(), "{}: no tool {id}", query.text);
        }
    }
}

#[test]
fn the_right_tool_comes_first_and_no_half_is_better_than_both() {
    let [words, meaning, both] = [Mode::Bm25, Mode::Embedding, Mode::Hybrid].map(measure);
    assert!(both.hit_at_1 >= 0.88 && both.ndcg_at_10 >= 0.92, "{both:?}");
    assert!(both.ndcg_at_10 > words.ndcg_at_10 && both.hit_at_1 > words.hit_at_1, "{both:?}, words {words:?}");
    assert!(
        both.ndcg_at_10 >= meaning.ndcg_at_10 && both.hit_at_1 >= meaning.hit_at_1,
        "{both:?}, meaning {meaning:?}"
    );
}

#[test]
fn each_kind_of_query_is_answered() {
    #[rustfmt::skip]
    let table = [
        // kind         hit@1  nDCG@10
        ("words",       1.00,  1.00),
        ("paraphrase",  0.60,  0.75),
        ("typo",        1.00,  1.00),
        ("spelling",    0.80,  0.92),
        ("inflection",  1.00,  1.00),
        ("identifier",  1.00,  1.00),
        ("server",      1.00,  1.00),
        ("short",       1.00,  1.00),
        ("two",         1.00,  0.85),
    ];
    let snapshot = snapshot();
    let mut kinds: BTreeMap<String, Vec<Quality>> = BTreeMap::new();
    for query in queries() {
        kinds.entry(query.kind.clone()).or_default().push(quality_of(&snapshot, &query, Mode::Hybrid));
    }
    assert_eq!(kinds.len(), table.len());
    for (kind, hit_at_1, ndcg_at_10) in table {
        let quality = mean(&kinds[kind]);
        assert!(quality.hit_at_1 >= hit_at_1 && quality.ndcg_at_10 >= ndcg_at_10, "{kind}: {quality:?}");
    }
}
