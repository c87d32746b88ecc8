//! What is learned, and what is said about it.

use pml_learn::{EdgeKind, Model, Observation, Query, Reason, Replay, Settings, Step, StepOutcome, TraceId};

use crate::world::{Told, candidates, intent, learn, order, rank, settings};

fn taught() -> Model {
    let mut model = Model::new(settings());
    for round in 0..60 {
        learn(&mut model, &Told::new(round * 2, 1, &["g", "h"]));
        learn(&mut model, &Told::new(round * 2 + 1, 2, &["e", "f", "e"]));
    }
    model
}

#[test]
fn without_traces_the_order_is_that_of_the_search() {
    let model = Model::new(settings());
    assert_eq!(order(&rank(&model, &intent(1, 0), &[])), "a b c d e f g h");
    assert_eq!(order(&rank(&model, &intent(1, 0), &["b", "a"])), "a b c d e f g h");
    // Nor does a trace change it that is no evidence.
    let mut model = model;
    let mut told = Told::new(1, 1, &["h"]);
    for outcome in [StepOutcome::Failed, StepOutcome::Skipped] {
        told.id += 1;
        told.steps[0].1 = outcome;
        learn(&mut model, &told);
        assert_eq!(order(&rank(&model, &intent(1, 0), &[])), "a b c d e f g h", "{outcome:?}");
    }
}

#[test]
fn tools_of_similar_intents_come_first_with_a_reason() {
    let model = taught();
    let ranking = rank(&model, &intent(1, 3), &[]);
    assert!(order(&ranking).starts_with("g h") || order(&ranking).starts_with("h g"), "{}", order(&ranking));
    assert!(matches!(ranking[0].reasons[..], [Reason::UsedForSimilar { times: 60 }]), "{:?}", ranking[0]);
    assert!(order(&rank(&model, &intent(2, 3), &[])).starts_with(['e', 'f']));
}

#[test]
fn the_next_tool_is_the_one_that_followed() {
    let model = taught();
    for intent in [intent(2, 1), Vec::new()] {
        let ranking = rank(&model, &intent, &["e"]);
        assert!(order(&ranking).starts_with('f'), "{}", order(&ranking));
        let expected = Reason::FollowsOften { after: "e".into(), count: 60 };
        assert!(ranking[0].reasons.contains(&expected), "{:?}", ranking[0]);
    }
    assert!(order(&rank(&model, &intent(1, 1), &["g"])).starts_with('h'));
    assert_eq!(order(&rank(&model, &[], &["never seen"])).len(), 15, "an unknown tool is no reason to fail");
}

#[test]
fn the_graph_tells_what_was_counted() {
    let mut model = taught();
    let steps = [Step { tool: "g", outcome: StepOutcome::Succeeded }];
    model.update(&Observation {
        trace: TraceId(u128::MAX),
        time_ms: 5,
        caller: "agent",
        intent: &[],
        candidates: &[],
        steps: &steps,
        capability: Some("local.report"),
        success: true,
    });
    let edges: Vec<_> =
        model.edges().map(|edge| (edge.kind, edge.from.to_string(), edge.to.to_string(), edge.count)).collect();
    let has = |kind, from: &str, to: &str, count| edges.contains(&(kind, from.to_owned(), to.to_owned(), count));
    assert!(has(EdgeKind::Sequence, "g", "h", 60) && has(EdgeKind::Sequence, "f", "e", 60), "{edges:?}");
    assert!(has(EdgeKind::CoOccurs, "g", "h", 60) && has(EdgeKind::Contains, "local.report", "g", 1));
    assert_eq!(edges.len(), 6, "{edges:?}");
    assert_eq!(&*model.related("g", 3)[0].tool, "h");
    let statistics = model.statistics("e").unwrap();
    assert!((statistics.succeeded - 120.0).abs() < 0.1 && statistics.success_rate > 0.99, "{statistics:?}");
}

#[test]
fn the_error_of_prediction_shrinks_with_evidence_and_grows_with_surprise() {
    let mut model = Model::new(settings());
    let first = learn(&mut model, &Told::new(1, 1, &["a"])).unwrap();
    assert_eq!((first.predicted, first.td_error, first.priority), (0.5, 0.5, 0.5));
    let mut last = first;
    for id in 2..40 {
        last = learn(&mut model, &Told::new(id, 1, &["a"])).unwrap();
    }
    assert!(last.priority < 0.1, "{last:?}");
    let surprise = learn(&mut model, &Told { success: false, ..Told::new(99, 1, &["a"]) }).unwrap();
    assert!(surprise.td_error < -0.9 && surprise.priority > 0.9, "{surprise:?}");
}

#[test]
fn what_loses_to_the_search_is_not_used() {
    let mut model = Model::new(settings());
    // Each intent needs what the search finds first, and never what the last trace on it has used.
    let names: Vec<String> = (0..300).map(|number| format!("t{number}")).collect();
    for (round, name) in names.iter().enumerate() {
        let intent = intent(1, 0);
        let others = names.iter().filter(|other| *other != name).take(60);
        let mut found = vec![pml_learn::Candidate { tool: name, score: 0.9 }];
        found.extend(others.map(|tool| pml_learn::Candidate { tool, score: 0.85 }));
        let steps = [Step { tool: name, outcome: StepOutcome::Succeeded }];
        model.update(&Observation {
            trace: TraceId(round as u128),
            time_ms: round as i64,
            caller: "agent",
            intent: &intent,
            candidates: &found,
            steps: &steps,
            capability: None,
            success: true,
        });
    }
    let status = model.status();
    let ranking = model.rank(&Query { intent: &intent(1, 0), prefix: &[], candidates: &candidates() }, 3);
    // Either the weights have learned to follow the search, or the gate is closed.
    assert_eq!(order(&ranking), "a b c", "{status:?}");
}

#[test]
fn replay_learns_the_same_things() {
    for replay in [Replay::None, Replay::Uniform, Replay::Prioritized] {
        let mut model = Model::new(Settings { replay, seed: 3, ..settings() });
        for round in 0..50 {
            learn(&mut model, &Told::new(round, round as usize % 2, &[["g", "h"][round as usize % 2]]));
        }
        assert!(order(&rank(&model, &intent(1, 2), &[])).starts_with('h'), "{replay:?}");
        let copy = Model::from_bytes(&model.to_bytes(), model.settings().clone()).unwrap();
        assert_eq!(copy.to_bytes(), model.to_bytes(), "{replay:?}");
    }
}
