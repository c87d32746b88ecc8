//! What others may be told, and what they can do to a ranking.

use pml_learn::{
    Feature, Features, Model, Observation, Purpose, Query, Ranked, Shared, SnapshotError, Step, StepOutcome, TraceId,
    mean_weights,
};
use sha2::{Digest as _, Sha256};

use crate::world::{TOOLS, Told, intent, learn, order, scores, settings};

fn hub() -> Model {
    let mut model = Model::new(settings());
    for round in 0..80 {
        learn(&mut model, &Told { caller: format!("caller{round}"), ..Told::new(round, 1, &["g", "h"]) });
    }
    model
}

fn rank(model: &Model, others: Option<&Shared>, topic: usize) -> Vec<Ranked> {
    rank_by(model, others, topic, &scores())
}

fn rank_by(model: &Model, others: Option<&Shared>, topic: usize, scores: &[f32]) -> Vec<Ranked> {
    let intent = intent(topic, 2);
    let query = Query { purpose: Purpose::Search, intent: &intent, words: &[], prefix: &[], tools: &TOOLS, scores };
    model.learned().rank_with(others, &query, 8, |_, _| true)
}

#[test]
fn others_help_who_has_learned_nothing_and_less_who_has() {
    let others = Shared::from_bytes(&hub().learned().to_shared(None), &settings()).unwrap();
    assert!(others.evidence() > 50.0 && others.names().any(|name| name == "g"));
    let place = |ranking: &[Ranked], tool: &str| order(ranking).split(' ').position(|found| found == tool).unwrap();
    let fresh = Model::new(settings());
    assert_eq!(order(&rank(&fresh, None, 1)), "a b c d e f g h");
    assert!(place(&rank(&fresh, Some(&others), 1), "g") < 3, "{}", order(&rank(&fresh, Some(&others), 1)));
    let mut own = Model::new(settings());
    for round in 0..300 {
        learn(&mut own, &Told::new(round, 1, &["c"]));
    }
    assert!(order(&rank(&own, Some(&others), 1)).starts_with('c'), "what was learned here comes first");
}

#[test]
fn others_lead_where_the_search_fits_nothing_and_only_there() {
    let others = Shared::from_bytes(&hub().learned().to_shared(None), &settings()).unwrap();
    let fresh = Model::new(settings());
    // `a` is best by far, well or badly.
    let scored = |best: f32| [&[best][..], &[best / 10.0; 7]].concat();
    assert!(order(&rank_by(&fresh, Some(&others), 1, &scored(0.1))).starts_with(['g', 'h']));
    assert!(order(&rank_by(&fresh, Some(&others), 1, &scored(0.4))).starts_with('a'));
    // Others have nothing to say about a request that is unlike all of theirs.
    assert!(order(&rank_by(&fresh, Some(&others), 5, &scored(0.1))).starts_with('a'));
    // What was learned here fits, whatever the search says.
    let mut own = Model::new(settings());
    for round in 0..300 {
        learn(&mut own, &Told::new(round, 1, &["c"]));
    }
    assert!(order(&rank_by(&own, Some(&others), 1, &scored(0.1))).starts_with('c'));
}

#[test]
fn a_document_names_tools_and_nobody() {
    let mut model = hub();
    model.update(&Observation {
        trace: TraceId(0xdead_beef_dead_beef),
        time_ms: 1_700_000_123_456,
        caller: "a caller of ours",
        intent: &intent(1, 1),
        words: &[0x1234_5678],
        tools: &TOOLS,
        scores: &scores(),
        steps: &[Step { tool: "a", outcome: StepOutcome::Succeeded }],
        forecasts: &[],
        capability: Some("local.our_report"),
        success: true,
    });
    let bytes = model.learned().to_shared(None);
    let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    for absent in [
        &b"caller"[..],
        b"our_report",
        &0xdead_beef_dead_beef_u128.to_le_bytes(),
        &0x1234_5678_u32.to_le_bytes(),
        &1_700_000_123_456_i64.to_le_bytes(),
    ] {
        assert!(!has(absent), "{absent:?}");
    }
    assert_eq!(model.learned().to_shared(None), bytes, "the same model is the same document");
}

#[test]
fn a_poisoned_document_is_refused_or_bounded() {
    let bytes = hub().learned().to_shared(None);
    let read = |bytes: &[u8]| Shared::from_bytes(bytes, &settings());
    let fresh = Model::new(settings());
    const START: usize = 8 + 4 + 32;
    let mut accepted = 0;
    for place in (START..bytes.len()).step_by(7) {
        let mut poisoned = bytes.clone();
        // Large exponents, negative numbers, wrong indices: with a checksum that fits.
        let end = (place + 8).min(poisoned.len());
        poisoned[place..end].fill([0x7e, 0xff, 0x01][place % 3]);
        let checksum = Sha256::digest(&poisoned[START..]);
        poisoned[12..START].copy_from_slice(&checksum);
        if let Ok(others) = read(&poisoned) {
            accepted += 1;
            assert!(others.evidence() <= 1001.0, "{place}: {}", others.evidence());
            for topic in [1, 5] {
                let ranking = rank(&fresh, Some(&others), topic);
                assert!(ranking.iter().all(|ranked| ranked.score.is_finite()), "{place}");
                // The search's best is among the first, whatever the document says.
                assert!(order(&ranking)[..5].contains('a'), "{place}: {}", order(&ranking));
            }
        }
        assert_eq!(read(&bytes[..place]).err(), Some(SnapshotError::Damaged));
    }
    assert!(accepted > 20, "{accepted}");
    assert_eq!(read(b"").err(), Some(SnapshotError::Foreign));
    assert!(read(&vec![0; 17 << 20]).is_err());
}

#[test]
fn capabilities_are_left_out_and_the_rest_keeps_its_tools() {
    let mut model = Model::new(settings());
    for id in 0..40_u128 {
        learn(&mut model, &Told::new(id, 0, &["capabilities:secret_name"]));
        learn(&mut model, &Told::new(100 + id, 1, &["g", "h"]));
    }
    let bytes = model.learned().to_shared(None);
    let secret = b"secret_name";
    assert!(!bytes.windows(secret.len()).any(|window| window == secret));
    let others = Shared::from_bytes(&bytes, &settings()).unwrap();
    assert_eq!(others.names().collect::<Vec<_>>(), ["g", "h"]);
    let ranking = order(&rank(&Model::new(settings()), Some(&others), 1));
    let place = |tool: char| ranking.find(tool).unwrap();
    assert!(place('g') < place('f') && place('h') < place('f'), "{ranking}");
}

#[test]
fn a_hub_flooded_with_one_tool_does_not_take_the_ranking_over() {
    let mut flooded = Model::new(settings());
    for round in 0..3000 {
        let caller = format!("bot{}", round % 50);
        learn(&mut flooded, &Told { caller, ..Told::new(round, round as usize % 8, &["h"]) });
    }
    let others = Shared::from_bytes(&flooded.learned().to_shared(None), &settings()).unwrap();
    let fresh = Model::new(settings());
    for topic in 0..8 {
        assert!(order(&rank(&fresh, Some(&others), topic)).starts_with('a'), "{topic}");
    }
}

#[test]
fn weights_of_others_are_their_mean_within_bounds() {
    let prior = Model::new(settings()).learned().status().weights;
    let changed = |change: f32| prior.map(|weights| weights.map(|weight| weight + change));
    let search = |weights: [Features; 2]| weights[0][Feature::Search.index()];
    let mean = |told: &[(f64, [Features; 2])]| mean_weights(told.iter().copied());
    assert_eq!(mean(&[]), None);
    assert_eq!(mean(&[(19.0, changed(1.0)), (f64::NAN, changed(1.0)), (1e3, changed(f32::NAN))]), None);
    let both = mean(&[(100.0, changed(1.0)), (300.0, changed(0.0))]).unwrap();
    assert!((search(both) - 4.25).abs() < 1e-6, "{both:?}");
    // Whoever claims to have learned from ever so many traces has the say of a thousand, and within bounds.
    let boast = mean(&[(1e300, changed(1e30)), (1000.0, prior)]).unwrap();
    assert!((search(boast) - (9.0 + 4.0) / 2.0).abs() < 1e-6, "{boast:?}");
    let least = mean(&[(1000.0, changed(-1e30))]).unwrap();
    assert!(least.iter().flatten().all(|weight| *weight >= -2.0) && search(least) == 0.0, "{least:?}");

    let told = Shared::from_bytes(&hub().learned().to_shared(Some(&both)), &settings()).unwrap();
    assert_eq!(told.weights(), both);
    let own = Shared::from_bytes(&hub().learned().to_shared(None), &settings()).unwrap();
    assert_eq!(own.weights()[0], hub().learned().status().weights[0], "its own, within the bounds of a document");
}
