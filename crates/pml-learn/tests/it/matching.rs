//! Which saved program fits an intent.

use std::sync::Arc;

use pml_learn::{Capabilities, Capability, Match, Model};
use proptest::prelude::*;

use crate::world::{DIMENSIONS, Told, intent, learn, settings};

fn capability(name: &str, tools: &[&str], intents: &[Vec<f32>]) -> Capability {
    Capability {
        name: name.to_owned(),
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        intents: intents.to_vec(),
    }
}

fn all(capabilities: impl IntoIterator<Item = Capability>) -> Capabilities {
    Capabilities::new(DIMENSIONS, capabilities)
}

fn best(model: &Model, intent: &[f32], capabilities: &Capabilities) -> Option<Match> {
    model.learned().matches(intent, capabilities, |_| true).first().copied()
}

/// Ten executions on each of three topics, each with tools of its own.
fn taught() -> Model {
    let mut model = Model::new(settings());
    for id in 0..30_u128 {
        let topic = id as usize % 3;
        let tools: &[&str] = [&["a", "b"][..], &["c"], &["d", "e"]][topic];
        learn(&mut model, &Told::new(id, topic, tools));
    }
    model
}

#[test]
fn an_intent_that_was_never_heard_matches_nothing_and_one_in_other_words_does() {
    let model = taught();
    let capabilities = all([capability("x:ab", &["b", "a"], &[]), capability("x:c", &["c"], &[])]);
    let found = best(&model, &intent(0, 7), &capabilities).unwrap();
    assert!(found.place == 0 && found.probability > 0.8, "{found:?}");
    assert!(best(&model, &intent(1, 5), &capabilities).is_some_and(|found| found.place == 1));
    // A set of tools that is no capability is what this needs; and nobody has asked for that.
    for topic in [2, 5] {
        let found = best(&model, &intent(topic, 3), &capabilities);
        assert!(found.is_none_or(|found| found.probability < 0.5), "{topic}: {found:?}");
    }
    assert!(model.learned().matches(&intent(0, 7), &all([]), |_| true).is_empty());
    assert!(best(&model, &[], &capabilities).is_none() && best(&model, &[1.0], &capabilities).is_none());
    let other = Capabilities::new(3, [capability("x:ab", &["a", "b"], &[vec![1.0, 0.0, 0.0]])]);
    assert!(best(&model, &intent(0, 7), &other).is_none(), "directions of another kind");
}

#[test]
fn what_a_capability_was_saved_for_is_enough_to_find_it() {
    let model = Model::new(settings());
    let capabilities =
        all([capability("x:one", &["a"], &[intent(0, 0)]), capability("x:two", &["b"], &[intent(4, 0)])]);
    let found = best(&model, &intent(0, 6), &capabilities).unwrap();
    assert!(found.place == 0 && found.probability > 0.3, "{found:?}");
    let unrelated = best(&model, &intent(6, 6), &capabilities).unwrap();
    assert!(unrelated.probability < 0.2 && unrelated.probability < found.probability, "{unrelated:?}");
}

#[test]
fn one_capability_alone_is_not_what_everything_needs() {
    let mut model = Model::new(settings());
    let capabilities = all([capability("x:ab", &["a", "b"], &[intent(0, 0)])]);
    model.set_capabilities(Arc::new(capabilities.clone()));
    for id in 0..60_u128 {
        let unrelated = best(&model, &intent(6, 2), &capabilities).unwrap();
        assert!(unrelated.probability < 0.5, "after {id} traces: {unrelated:?}");
        learn(&mut model, &Told::new(id, 0, if id % 2 == 0 { &["a", "b"] } else { &["x:ab"] }));
    }
    let found = best(&model, &intent(0, 0), &capabilities).unwrap();
    assert!(found.probability > 0.7, "in nearly the same words: {found:?}");
    let found = best(&model, &intent(0, 70), &capabilities).unwrap();
    assert!(found.probability > 0.5, "in other words: {found:?}");
}

#[test]
fn failures_make_a_capability_less_probable() {
    let capabilities = all([capability("x:ab", &["a", "b"], &[])]);
    let mut model = taught();
    let before = best(&model, &intent(0, 7), &capabilities).unwrap().probability;
    for id in 100..130_u128 {
        learn(&mut model, &Told { success: false, ..Told::new(id, 0, &["a", "b"]) });
    }
    let after = best(&model, &intent(0, 7), &capabilities).unwrap().probability;
    assert!(after < before / 2.0, "{before} {after}");
}

#[test]
fn runs_of_a_capability_count_for_it_and_one_tool_set_of_two_for_neither() {
    let mut model = Model::new(settings());
    for id in 0..12_u128 {
        learn(&mut model, &Told::new(id, 0, &["x:ab"]));
        learn(&mut model, &Told::new(100 + id, 1, &["a", "b"]));
    }
    let one = all([capability("x:ab", &["a", "b"], &[])]);
    model.set_capabilities(Arc::new(one.clone()));
    assert!(best(&model, &intent(0, 7), &one).unwrap().probability > 0.8);
    assert!(best(&model, &intent(1, 7), &one).unwrap().probability > 0.8, "its tools without it");
    let two = all([capability("x:ab", &["a", "b"], &[]), capability("x:ba", &["b", "a"], &[])]);
    assert!(best(&model, &intent(0, 7), &two).is_some_and(|found| found.place == 0));
    assert!(best(&model, &intent(1, 7), &two).is_none_or(|found| found.probability < 0.5), "which of the two?");
}

#[test]
fn one_caller_cannot_teach_that_everything_matches() {
    let mut model = taught();
    let capabilities = all([capability("x:c", &["c"], &[])]);
    for id in 1000..9000_u128 {
        learn(&mut model, &Told { caller: "loud".to_owned(), ..Told::new(id, 1, &["c"]) });
    }
    let unrelated = best(&model, &intent(6, 2), &capabilities);
    assert!(unrelated.is_none_or(|found| found.probability < 0.5), "{unrelated:?}");
}

#[test]
fn what_is_done_again_is_counted() {
    let model = taught();
    let times = |topic: usize, tools: &[&str]| model.learned().repetitions(&intent(topic, 1), tools);
    assert_eq!((times(0, &["b", "a"]), times(0, &["a"]), times(1, &["c"])), (10, 0, 10));
    assert_eq!((times(4, &["a", "b"]), times(0, &["nobody"]), times(0, &[])), (0, 0, 0));
    assert_eq!(model.learned().repetitions(&[], &["a", "b"]), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    /// Every capability is matched at most once, the most probable first, by a probability; what is not there is not matched;
    /// and a model that was saved and read back says the same.
    #[test]
    fn matches_are_probabilities(
        traces in prop::collection::vec((0..8_usize, 0..5_usize, any::<bool>()), 0..120),
        asked in (0..8_usize, 0..8_usize),
        gone in 0..4_usize,
    ) {
        let sets: [&[&str]; 5] = [&["a"], &["a", "b"], &["c", "d", "c"], &["x:one"], &["h"]];
        let mut model = Model::new(settings());
        let capabilities = all([
            capability("x:one", &["a", "b"], &[intent(0, 0), vec![f32::NAN; DIMENSIONS], Vec::new()]),
            capability("x:two", &["d", "c"], &[]),
            capability("x:three", &[], &[intent(3, 1)]),
            capability("x:four", &["nobody:knows"], &[]),
        ]);
        model.set_capabilities(Arc::new(capabilities.clone()));
        for (id, (topic, set, success)) in traces.iter().enumerate() {
            learn(&mut model, &Told { success: *success, ..Told::new(id as u128, *topic, sets[*set]) });
        }
        let intent = intent(asked.0, asked.1);
        let matches = model.learned().matches(&intent, &capabilities, |place| place != gone);
        prop_assert!(matches.is_sorted_by(|a, b| a.probability >= b.probability));
        prop_assert!(matches.iter().all(|found| (0.0..=1.0).contains(&found.probability) && found.place != gone));
        let mut places: Vec<usize> = matches.iter().map(|found| found.place).collect();
        places.sort_unstable();
        places.dedup();
        prop_assert_eq!(places.len(), matches.len());
        let restored = Model::from_bytes(&model.to_bytes(), settings()).unwrap();
        prop_assert_eq!(restored.learned().matches(&intent, &capabilities, |place| place != gone), matches);
    }
}
