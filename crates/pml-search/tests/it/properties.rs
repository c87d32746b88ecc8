//! What holds for any tools, in any order.

use std::collections::BTreeMap;

use pml_search::{Index, Mode, Snapshot, ToolText, Vector};
use proptest::prelude::*;
use serde_json::json;

#[derive(Clone, Debug)]
enum Change {
    Insert(u8, ToolText),
    Remove(u8),
}

fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => prop::sample::select(vec!["list", "files", "file", "send", "mail", "getUserID", "bucket", "buckets", "the"]),
        1 => Just("🦓"),
        1 => Just("搜索"),
    ];
    prop::collection::vec(word, 0..8).prop_map(|words| words.join(" "))
}

fn tool() -> impl Strategy<Value = ToolText> {
    (text(), text(), text(), ".{0,20}").prop_map(|(server, name, description, parameter)| {
        let schema = json!({ "properties": { parameter.as_str(): { "description": description } } });
        ToolText::new(&server, &name, &description, &schema)
    })
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        3 => (0..12_u8, tool()).prop_map(|(id, tool)| Change::Insert(id, tool)),
        1 => (0..12_u8).prop_map(Change::Remove),
    ];
    prop::collection::vec(change, 0..40)
}

fn answers(snapshot: &Snapshot, query: &str) -> Vec<(String, u32)> {
    [Mode::Bm25, Mode::Embedding, Mode::Hybrid]
        .into_iter()
        .flat_map(|mode| snapshot.search(query, 20, mode))
        .map(|hit| (hit.id.to_string(), hit.score.to_bits()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    /// An index that went through changes answers as one that was built from what is left, to the last bit.
    #[test]
    fn changed_is_the_same_as_built_anew(changes in changes(), query in text()) {
        let mut changed = Index::new();
        let mut left = BTreeMap::new();
        for change in &changes {
            match change {
                Change::Insert(id, tool) => {
                    changed.insert(&id.to_string(), tool);
                    left.insert(*id, tool.clone());
                }
                Change::Remove(id) => {
                    prop_assert_eq!(changed.remove(&id.to_string()), left.remove(id).is_some());
                }
            }
        }
        let mut built = Index::new();
        for (id, tool) in left.iter().rev() {
            built.insert(&id.to_string(), tool);
        }
        prop_assert_eq!(answers(&changed.snapshot(), &query), answers(&built.snapshot(), &query));
    }

    /// A vector from the disk is as good as a new one, and a clone does not see later changes.
    #[test]
    fn kept_vectors_and_clones_answer_alike(tools in prop::collection::vec(tool(), 1..10), query in text()) {
        let mut index = Index::new();
        let mut from_disk = Index::new();
        for (id, tool) in tools.iter().enumerate() {
            index.insert(&id.to_string(), tool);
            let vector = Vector::from_bytes(&index.vector(&id.to_string()).unwrap().to_bytes(), index.embedder().dimensions()).unwrap();
            from_disk.insert_with_vector(&id.to_string(), tool, vector);
        }
        let before = answers(&index.snapshot(), &query);
        prop_assert_eq!(&before, &answers(&from_disk.snapshot(), &query));
        let clone = index.clone();
        index.remove("0");
        prop_assert_eq!(before, answers(&clone.snapshot(), &query));
    }

    /// Scores are between 0 and 1, in order, and a smaller limit gives the beginning of a larger one's answer.
    #[test]
    fn answers_are_in_order(tools in prop::collection::vec(tool(), 0..20), query in prop_oneof![text().boxed(), "\\PC{0,40}".boxed()], limit in 0..20_usize) {
        let mut index = Index::new();
        for (id, tool) in tools.iter().enumerate() {
            index.insert(&id.to_string(), tool);
        }
        let snapshot = index.snapshot();
        for mode in [Mode::Bm25, Mode::Embedding, Mode::Hybrid] {
            let all = snapshot.search(&query, 100, mode);
            prop_assert!(all.iter().all(|hit| (0.0..=1.0).contains(&hit.score) && hit.score > 0.0));
            prop_assert!(all.is_sorted_by(|a, b| (b.score, &a.id) <= (a.score, &b.id)));
            prop_assert_eq!(&all[..limit.min(all.len())], &snapshot.search(&query, limit, mode)[..]);
        }
    }
}
