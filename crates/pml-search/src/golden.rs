//! The table was trained on text that `tools/embedding` has cut into words. Here it must be cut alike.
//!
//! `tools/embedding/check.py` writes the file and checks the Python side.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    model::entries_of,
    tokenize::{Run, runs, singular},
};

const GOLDEN: &str = include_str!("../../../tools/embedding/golden.jsonl");

#[test]
fn text_is_cut_as_it_was_for_training() {
    let mut lines = 0;
    for line in GOLDEN.lines() {
        let expected: Value = serde_json::from_str(line).unwrap();
        let text = expected["text"].as_str().unwrap();
        let runs: Vec<(String, Vec<String>)> = runs(text)
            .into_iter()
            .map(|run| match run {
                Run::Word { joined, parts } => (joined, parts),
                Run::Unspaced(chars) => {
                    let joined: String = chars.into_iter().collect();
                    (joined.clone(), vec![joined])
                }
            })
            .collect();
        let parts = runs.iter().flat_map(|(_, parts)| parts);
        let plurals: BTreeMap<_, _> = parts.filter_map(|part| Some((part, singular(part)?))).collect();
        let actual = json!({ "text": text, "runs": runs, "entries": entries_of(text), "singular": plurals });
        assert_eq!(actual, expected, "{text:?}");
        lines += 1;
    }
    assert!(lines > 30);
}
