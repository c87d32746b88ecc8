//! What holds for any traces, in any order.

use pml_learn::{Feature, Model, Purpose, Query, Replay, Settings, StepOutcome};
use proptest::prelude::*;

use crate::world::{TOOLS, Told, intent, learn, rank, scores, settings};

fn told() -> impl Strategy<Value = Told> {
    let outcome = prop_oneof![
        4 => Just(StepOutcome::Succeeded),
        1 => Just(StepOutcome::Failed),
        1 => Just(StepOutcome::Skipped),
    ];
    let tool = prop::sample::select(vec!["a", "b", "c", "h", "unknown", "other"]);
    let steps = prop::collection::vec((tool.prop_map(str::to_owned), outcome), 0..6);
    let values = prop_oneof![4 => (0..8_usize, 0..8_usize).prop_map(|(topic, variant)| intent(topic, variant)), 1 => Just(Vec::new())];
    let time_ms = prop_oneof![8 => 0..100_000_000_000_i64, 1 => any::<i64>()];
    let words = prop::collection::vec(0..6_u32, 0..5);
    (0..30_u128, time_ms, 0..3_u8, values, words, steps, any::<bool>()).prop_map(
        |(id, time_ms, caller, intent, words, steps, success)| Told {
            id,
            time_ms,
            caller: caller.to_string(),
            intent,
            words,
            steps,
            success,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// A model that was saved and read back in between, one that was built anew, and one that got traces twice are the same,
    /// to the last bit.
    #[test]
    fn rebuilt_restored_and_delivered_twice_are_the_same(traces in prop::collection::vec(told(), 0..60), cut in 0..60_usize) {
        let mut plain = Model::new(settings());
        let mut restored = Model::new(settings());
        let mut twice = Model::new(settings());
        for (place, told) in traces.iter().enumerate() {
            let update = learn(&mut plain, told);
            if place == cut {
                restored = Model::from_bytes(&restored.to_bytes(), settings()).unwrap();
            }
            prop_assert_eq!(learn(&mut restored, told), update);
            prop_assert_eq!(learn(&mut twice, told), update);
            prop_assert_eq!(learn(&mut twice, told), None);
            prop_assert_eq!(learn(&mut twice, &traces[place / 2]), None);
        }
        prop_assert_eq!(plain.to_bytes(), restored.to_bytes());
        prop_assert_eq!(plain.to_bytes(), twice.to_bytes());
    }

    /// Features keep their bounds, so a model that replays examples is read back whatever it has learned.
    #[test]
    fn features_are_bounded(traces in prop::collection::vec(told(), 0..60), words in prop::collection::vec(0..6_u32, 0..8)) {
        let settings = Settings { replay: Replay::Uniform, ..settings() };
        let mut model = Model::new(settings.clone());
        for told in &traces {
            learn(&mut model, told);
        }
        let (intent, scores) = (intent(1, 1), scores());
        let query = Query {
            purpose: Purpose::Suggestion,
            intent: &intent,
            words: &words,
            prefix: &["a"],
            tools: &TOOLS,
            scores: &scores,
        };
        for features in model.learned().features(&query) {
            for (index, value) in features.iter().enumerate() {
                let most = if index == Feature::Lift.index() { 3.0 } else { 1.0 };
                prop_assert!((0.0..=most).contains(value), "{index}: {value}");
            }
        }
        let restored = Model::from_bytes(&model.to_bytes(), settings).unwrap();
        prop_assert_eq!(restored.to_bytes(), model.to_bytes());
    }

    /// Every candidate is ranked once, by a number.
    #[test]
    fn a_ranking_is_a_permutation_by_numbers(traces in prop::collection::vec(told(), 0..80), prefix in prop::collection::vec(prop::sample::select(vec!["a", "h", "unknown", "new"]), 0..4)) {
        let mut model = Model::new(settings());
        for told in &traces {
            if let Some(update) = learn(&mut model, told) {
                prop_assert!((-1.0..=1.0).contains(&update.td_error) && (0.01..=1.0).contains(&update.priority));
            }
        }
        let ranking = rank(&model, &intent(1, 1), &prefix);
        let mut places: Vec<usize> = ranking.iter().map(|ranked| ranked.place).collect();
        places.sort_unstable();
        prop_assert_eq!(places, (0..8).collect::<Vec<_>>());
        prop_assert!(ranking.iter().all(|ranked| ranked.score.is_finite()));
        prop_assert!(ranking.is_sorted_by(|a, b| a.score >= b.score));
        let status = model.learned().status();
        prop_assert!(status.evidence.is_finite() && status.weights.iter().flatten().all(|weight| weight.is_finite()));
        prop_assert!(model.learned().edges().all(|edge| edge.weight.is_finite() && edge.weight >= 0.0));
    }
}
