//! What nobody should send, and what happens then.

use std::sync::Arc;

use pml_learn::{Model, Observation, Purpose, Query, SnapshotError, Step, StepOutcome, Tools, TraceId};

use crate::world::{Told, intent, learn, order, rank, settings};

/// Ordinary work of several callers.
fn ordinary(model: &mut Model) {
    for round in 0..100 {
        let topic = round as usize % 4;
        let tool = ["a", "b", "c", "d"][topic];
        learn(model, &Told { caller: format!("caller{}", round % 3), ..Told::new(round, topic, &[tool, "e"]) });
    }
}

#[test]
fn one_caller_that_floods_one_tool_does_not_take_the_ranking_over() {
    // The flood is on other intents, on the same ones, or by the only caller there is.
    for (caller, is_on_topic) in [("flood", false), ("flood", true), ("caller0", false)] {
        let mut model = Model::new(settings());
        ordinary(&mut model);
        for round in 0..10_000 {
            let topic = if is_on_topic { round as usize % 4 } else { 6 };
            learn(&mut model, &Told { caller: caller.to_owned(), ..Told::new(1000 + round, topic, &["h"]) });
        }
        for (topic, tool) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let ranking = order(&rank(&model, &intent(topic, 1), &[]));
            // On its own intents the flooded tool may come beside the right one, not instead of it.
            let place = ranking.split(' ').position(|found| found == tool).unwrap();
            assert!(place < 3, "{caller} {is_on_topic} {tool}: {ranking}");
            assert!(is_on_topic || !ranking.starts_with('h'), "{caller} {tool}: {ranking}");
            assert!(order(&rank(&model, &intent(topic, 1), &[tool])).starts_with('e'), "{caller} {is_on_topic} {tool}");
        }
        assert!(model.learned().status().evidence < 500.0, "{:?}", model.learned().status());
    }
}

#[test]
fn contradictory_traces_leave_the_search_in_charge() {
    let mut model = Model::new(settings());
    let tools = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for round in 0..400_u128 {
        let tool = tools[(round * 5 % 8) as usize];
        learn(&mut model, &Told { success: round % 2 == 0, ..Told::new(round, 1, &[tool]) });
    }
    let ranking = rank(&model, &intent(1, 0), &[]);
    assert_eq!(ranking.len(), 8);
    assert!(ranking.iter().all(|ranked| ranked.score.is_finite()));
    // All tools were used equally often for it, so what the search finds best is among the first.
    assert!(order(&ranking)[..5].contains('a'), "{}", order(&ranking));
    let rate = model.learned().statistics("a").unwrap().success_rate;
    assert!(rate > 0.9, "each call succeeded, whatever became of the whole: {rate}");
}

#[test]
fn a_hundred_thousand_tools_are_bounded() {
    let mut model = Model::new(settings());
    for round in 0..25_000_u128 {
        let names: Vec<String> = (0..4).map(|number| format!("server:tool{}", round * 4 + number)).collect();
        let mut told = Told::new(round, round as usize, &[]);
        told.steps = names.iter().map(|name| (name.clone(), StepOutcome::Succeeded)).collect();
        told.steps.push(("kept".to_owned(), StepOutcome::Succeeded));
        learn(&mut model, &told);
    }
    let status = model.learned().status();
    assert!(status.names <= 32_768 + 64 && status.edges < 300_000 && status.remembered == 200, "{status:?}");
    assert!(model.learned().statistics("kept").is_some(), "what is in use is not forgotten");
    let bytes = model.to_bytes();
    assert!(bytes.len() < 32 << 20, "{}", bytes.len());
    assert_eq!(Model::from_bytes(&bytes, settings()).unwrap().to_bytes(), bytes);
}

#[test]
fn tools_that_are_gone_do_not_disturb() {
    let mut model = Model::new(settings());
    for round in 0..50 {
        learn(&mut model, &Told::new(round, 1, &["gone", "renamed", "c"]));
    }
    let ranking = rank(&model, &intent(1, 0), &["gone", "renamed"]);
    assert!(order(&ranking).starts_with('c'), "{}", order(&ranking));
    assert_eq!(ranking.len(), 8, "only candidates are ranked");
    assert!(ranking.iter().all(|ranked| ranked.evidence.is_finite() && ranked.score.is_finite()), "{ranking:?}");
}

#[test]
fn a_renamed_tool_starts_anew_and_soon_has_the_place_of_the_old_one() {
    let mut model = Model::new(settings());
    for round in 0..60 {
        learn(&mut model, &Told::new(round, 1, &["old_name"]));
    }
    let place =
        |model: &Model| order(&rank(model, &intent(1, 0), &[])).split(' ').position(|tool| tool == "h").unwrap();
    assert_eq!(place(&model), 7, "nothing is known of the new name: the search decides");
    for round in 0..30 {
        learn(&mut model, &Told::new(100 + round, 1, &["h"]));
    }
    assert!(place(&model) < 2, "{}", order(&rank(&model, &intent(1, 0), &[])));
}

#[test]
fn a_clock_that_jumps_is_survived() {
    let mut model = Model::new(settings());
    for (round, time_ms) in
        [i64::MAX, 0, i64::MIN, -1, 1_700_000_000_000, 0, 5].into_iter().cycle().take(200).enumerate()
    {
        learn(&mut model, &Told { time_ms, ..Told::new(round as u128, 1, &["h", "g"]) });
    }
    let ranking = rank(&model, &intent(1, 0), &[]);
    assert!(order(&ranking).starts_with(['g', 'h']), "a clock that starts wrong does not end learning: {ranking:?}");
    assert!(ranking.iter().all(|ranked| ranked.score.is_finite()), "{ranking:?}");
    assert!(model.learned().edges().all(|edge| edge.weight.is_finite()));
}

#[test]
fn senseless_numbers_and_texts_have_an_answer() {
    let mut model = Model::new(settings());
    let long = "x".repeat(1 << 20);
    for (round, values) in
        [vec![f32::NAN; 16], vec![f32::MAX; 16], vec![], vec![1.0; 3], vec![0.0; 16]].into_iter().enumerate()
    {
        let tools = Tools::new(["a", "a", "", &long].map(Arc::from));
        let scores = [f32::NAN, f32::INFINITY, -1.0, 0.5, 7.0];
        let steps = [&long, "a", "", "a"].map(|tool| Step { tool, outcome: StepOutcome::Succeeded });
        let observation = Observation {
            trace: TraceId(round as u128),
            time_ms: 0,
            caller: &long,
            intent: &values,
            words: &[],
            tools: &tools,
            scores: &scores,
            steps: &steps,
            forecasts: &[],
            capability: Some(""),
            success: true,
        };
        let update = model.update(&observation).unwrap();
        assert!((0.01..=1.0).contains(&update.priority), "{update:?}");
        let query = Query {
            purpose: Purpose::Suggestion,
            intent: &values,
            words: &[],
            prefix: &["a", "", "a"],
            tools: &tools,
            scores: &scores[..round],
        };
        let ranking = model.learned().rank(&query, usize::MAX, |_, _| true);
        assert_eq!(ranking.len(), 4);
        assert!(ranking.iter().all(|ranked| ranked.score.is_finite()), "{ranking:?}");
    }
    let nothing = Query {
        purpose: Purpose::Suggestion,
        intent: &[],
        words: &[],
        prefix: &[],
        tools: &Tools::default(),
        scores: &[],
    };
    assert_eq!(model.learned().rank(&nothing, 5, |_, _| true), []);
    let steps: Vec<Step<'_>> = (0..10_000).map(|_| Step { tool: "a", outcome: StepOutcome::Succeeded }).collect();
    let trace = TraceId(u128::MAX);
    let endless = Observation {
        trace,
        time_ms: 0,
        caller: "",
        intent: &[],
        words: &[],
        tools: &Tools::new(["a".into()]),
        scores: &[1.0],
        steps: &steps,
        forecasts: &[],
        capability: None,
        success: true,
    };
    assert!(model.update(&endless).is_some());
}

#[test]
fn a_damaged_snapshot_is_an_error() {
    let mut model = Model::new(settings());
    ordinary(&mut model);
    let bytes = model.to_bytes();
    let read = |bytes: &[u8]| Model::from_bytes(bytes, settings()).map(|_| ());
    assert_eq!(read(&bytes), Ok(()));
    for place in (0..bytes.len()).step_by(bytes.len() / 300) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x40;
        assert!(read(&damaged).is_err(), "{place}");
        assert!(read(&bytes[..place]).is_err(), "{place}");
    }
    assert_eq!(read(b""), Err(SnapshotError::Foreign));
    assert_eq!(read(&[&bytes[..], b"more"].concat()), Err(SnapshotError::Damaged));
    let mut newer = bytes.clone();
    newer[8] = 7;
    assert_eq!(read(&newer), Err(SnapshotError::Version { found: 7, reads: 6 }));
    let other = pml_learn::Settings { dimensions: 17, ..settings() };
    assert_eq!(Model::from_bytes(&bytes, other).map(|_| ()), Err(SnapshotError::Settings));
}
