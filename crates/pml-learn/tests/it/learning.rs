//! What is learned, and what is said about it.

use std::sync::Arc;

use pml_learn::{
    EdgeKind, Feature, Model, Observation, Purpose, Query, Reason, Replay, Settings, Step, StepOutcome, Tools, TraceId,
    needs_scores,
};

use crate::world::{TOOLS, Told, intent, learn, order, rank, scores, settings};

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
        words: &[],
        tools: &Tools::default(),
        scores: &[],
        steps: &steps,
        forecasts: &[],
        capability: Some("local.report"),
        success: true,
    });
    let edges: Vec<_> = model
        .learned()
        .edges()
        .map(|edge| (edge.kind, edge.from.to_string(), edge.to.to_string(), edge.count))
        .collect();
    let has = |kind, from: &str, to: &str, count| edges.contains(&(kind, from.to_owned(), to.to_owned(), count));
    assert!(has(EdgeKind::Sequence, "g", "h", 60) && has(EdgeKind::Sequence, "f", "e", 60), "{edges:?}");
    assert!(has(EdgeKind::CoOccurs, "g", "h", 60) && has(EdgeKind::Contains, "local.report", "g", 1));
    assert_eq!(edges.len(), 6, "{edges:?}");
    assert_eq!(&*model.learned().related("g", 3)[0].tool, "h");
    let statistics = model.learned().statistics("e").unwrap();
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
        let found: Vec<&str> = [&**name].into_iter().chain(others.map(|other| &**other)).collect();
        let mut scores = vec![0.85; found.len()];
        scores[0] = 0.9;
        let steps = [Step { tool: name, outcome: StepOutcome::Succeeded }];
        model.update(&Observation {
            trace: TraceId(round as u128),
            time_ms: round as i64,
            caller: "agent",
            intent: &intent,
            words: &[],
            tools: &Tools::new(found.into_iter().map(Arc::from)),
            scores: &scores,
            steps: &steps,
            forecasts: &[],
            capability: None,
            success: true,
        });
    }
    let status = model.learned().status();
    let query = Query {
        purpose: Purpose::Suggestion,
        intent: &intent(1, 0),
        words: &[],
        prefix: &[],
        tools: &TOOLS,
        scores: &scores(),
    };
    let ranking = model.learned().rank(&query, 3, |_, _| true);
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

#[test]
fn only_what_is_wanted_is_ranked_and_a_copy_stays_as_it_is() {
    let mut model = taught();
    let query = Query {
        purpose: Purpose::Suggestion,
        intent: &intent(1, 3),
        words: &[],
        prefix: &[],
        tools: &TOOLS,
        scores: &scores(),
    };
    let ranking = model.learned().rank(&query, 2, |place, _| &**TOOLS.name(place) != "g");
    assert!(order(&ranking).starts_with('h') && ranking.len() == 2, "{}", order(&ranking));
    let copy = model.learned().clone();
    let before = copy.rank(&query, 8, |_, _| true);
    for round in 0..60 {
        learn(&mut model, &Told::new(1000 + round, 1, &["a"]));
    }
    assert_eq!(copy.rank(&query, 8, |_, _| true), before);
    // The same tools in a list of their own, which has to be looked up.
    let others = Tools::new((0..8).map(|place| Arc::clone(TOOLS.name(place))));
    let elsewhere = Query { tools: &others, ..query };
    assert_eq!(model.learned().rank(&elsewhere, 8, |_, _| true), model.learned().rank(&query, 8, |_, _| true));
}

#[test]
fn a_search_is_for_what_is_looked_for_and_not_for_what_follows() {
    let model = taught(); // `h` follows `g`
    let mut found = vec![0.0; 8];
    (found[0], found[1], found[7]) = (0.9, 0.85, 0.4);
    let scores: Vec<f32> = found;
    let mut query = Query {
        purpose: Purpose::Search,
        intent: &intent(5, 5),
        words: &[],
        prefix: &["g"],
        tools: &TOOLS,
        scores: &scores,
    };
    let ranking = model.learned().rank(&query, 3, |_, _| true);
    assert!(order(&ranking).starts_with('a'), "{}", order(&ranking));
    query.purpose = Purpose::Suggestion;
    assert!(order(&model.learned().rank(&query, 3, |_, _| true)).starts_with('h'));
    // Among tools that fit equally well, the one that follows comes first, and says so.
    let equal = [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.9, 0.9];
    let query = Query { purpose: Purpose::Search, scores: &equal, ..query };
    let ranking = model.learned().rank(&query, 8, |_, _| true);
    let expected = Reason::FollowsOften { after: "g".into(), count: 60 };
    assert!(order(&ranking).starts_with('h') && ranking[0].reasons.contains(&expected), "{ranking:?}");
}

#[test]
fn a_prospect_is_how_often_a_tool_followed() {
    let mut model = Model::new(settings());
    let nothing = model.learned().prospect(&["a"], "b", true);
    assert_eq!((nothing.follows, model.learned().probability(nothing)), (0.0, 0.5));
    for number in 0..30 {
        let tools = if number % 3 == 0 { ["a", "c", "d"] } else { ["a", "b", "c"] };
        let caller = format!("caller {number}");
        learn(&mut model, &Told { caller, ..Told::new(number, 1, &tools) });
    }
    let follows = |before: &[&str], tool: &str| model.learned().prospect(before, tool, true).follows;
    let (often, seldom) = (follows(&["a"], "b"), follows(&["a"], "c"));
    assert!(often > 0.55 && often < 0.68 && seldom > 0.25 && seldom < 0.35, "{often} {seldom}");
    assert!(follows(&["a", "b"], "c") > 0.8, "two tools say more than one: {}", follows(&["a", "b"], "c"));
    assert_eq!((follows(&[], "b"), follows(&["new"], "b"), follows(&["a"], "new")), (0.0, 0.0, 0.0));
}

/// A rebuild searches only for the traces from which weights are learned.
#[test]
fn scores_that_are_not_needed_change_nothing() {
    let (mut with, mut without) = (Model::new(settings()), Model::new(settings()));
    let (tools, all, none) = (&*TOOLS, scores(), Vec::new());
    let mut skipped = 0;
    for id in 0..3000_u128 {
        let told = Told::new(id, id as usize % 5, &[["a", "h", "c", "g", "e"][id as usize % 5], "b"]);
        let steps: Vec<Step<'_>> = told.steps.iter().map(|(tool, outcome)| Step { tool, outcome: *outcome }).collect();
        let observation = Observation {
            trace: TraceId(id),
            time_ms: told.time_ms,
            caller: ["x", "y", "z"][id as usize % 3],
            intent: &told.intent,
            words: &[],
            tools,
            scores: &all,
            steps: &steps,
            forecasts: &[],
            capability: None,
            success: true,
        };
        let is_needed = needs_scores(without.learned().traces(), TraceId(id));
        let weights = with.learned().status().weights;
        with.update(&observation);
        without.update(&Observation { scores: if is_needed { &all } else { &none }, ..observation });
        if !is_needed {
            skipped += 1;
            assert!(id >= 2000);
            assert_eq!(with.learned().status().weights, weights, "{id}");
        }
    }
    assert!((700..800).contains(&skipped), "{skipped}");
    assert!(with.to_bytes() == without.to_bytes());
}

/// Tool `a` is in every trace, and `b` only where an intent has a word. Shares of the word's traces are the same for both.
#[test]
fn a_tool_of_a_word_is_told_from_one_that_is_always_used() {
    let settings = Settings { replay: Replay::Uniform, ..settings() };
    let mut model = Model::new(settings.clone());
    for round in 0..200_u128 {
        let is_marked = round % 10 == 0;
        let tools: &[&str] = if is_marked { &["a", "b"] } else { &["a", "c"] };
        let words = if is_marked { vec![7] } else { vec![8] };
        learn(&mut model, &Told { words, caller: format!("caller{round}"), ..Told::new(round, 1, tools) });
    }
    let (intent, scores) = (intent(1, 1), scores());
    let features = |words: &[u32]| {
        let query =
            Query { purpose: Purpose::Suggestion, intent: &intent, words, prefix: &[], tools: &TOOLS, scores: &scores };
        model.learned().features(&query)
    };
    let of = |words: &[u32], tool: usize, feature: Feature| features(words)[tool][feature.index()];
    let (a, b) = (0, 1);
    assert!((of(&[7], a, Feature::Words) - of(&[7], b, Feature::Words)).abs() < 0.01, "words cannot tell");
    assert!(of(&[7], b, Feature::Lift) > 1.5 && of(&[7], b, Feature::Lift) > of(&[7], a, Feature::Lift) + 0.5);
    // A word that says nothing halves the mean; one that nobody has used changes nothing.
    assert!(of(&[7, 8], b, Feature::Lift) < of(&[7], b, Feature::Lift));
    assert_eq!(of(&[7, 999], b, Feature::Lift), of(&[7], b, Feature::Lift));
    assert_eq!(of(&[999], b, Feature::Lift), 0.0);
    assert_eq!(of(&[], b, Feature::Lift), 0.0);
    let restored = Model::from_bytes(&model.to_bytes(), settings).unwrap();
    assert_eq!(restored.to_bytes(), model.to_bytes(), "examples that are replayed have lifts above 1");
}
