//! A small world: intents on a few topics, each with tools of its own.

use std::sync::{Arc, LazyLock};

use pml_learn::{
    Ahead, Forecasted, Model, Observation, Prospect, Purpose, Query, Ranked, Settings, Step, StepOutcome, Tools,
    TraceId,
};

pub(crate) const DIMENSIONS: usize = 16;

pub(crate) fn settings() -> Settings {
    Settings { dimensions: DIMENSIONS, remembered: 200, ..Settings::default() }
}

/// A direction near that of a topic.
pub(crate) fn intent(topic: usize, variant: usize) -> Vec<f32> {
    let mut values = vec![0.05; DIMENSIONS];
    values[topic % 8] = 1.0;
    values[8 + variant % 8] += 0.3;
    values
}

/// A trace as a test writes it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) id: u128,
    pub(crate) time_ms: i64,
    pub(crate) caller: String,
    pub(crate) intent: Vec<f32>,
    pub(crate) words: Vec<u32>,
    pub(crate) steps: Vec<(String, StepOutcome)>,
    pub(crate) success: bool,
}

impl Told {
    pub(crate) fn new(id: u128, topic: usize, tools: &[&str]) -> Told {
        Told {
            id,
            time_ms: 1_700_000_000_000 + id as i64 * 1000,
            caller: "agent".to_owned(),
            intent: intent(topic, id as usize),
            words: Vec::new(),
            steps: tools.iter().map(|tool| ((*tool).to_owned(), StepOutcome::Succeeded)).collect(),
            success: true,
        }
    }
}

/// Tools `a` to `h`.
pub(crate) static TOOLS: LazyLock<Tools> =
    LazyLock::new(|| Tools::new(["a", "b", "c", "d", "e", "f", "g", "h"].map(Arc::from)));

/// Scores that say nothing but the order of the tools, and a best one.
pub(crate) fn scores() -> Vec<f32> {
    (0..8).map(|place| 0.5 - place as f32 * 0.01).collect()
}

/// Most forecasts come true, and most calls that were made ahead are used.
fn forecast(id: u128) -> Forecasted {
    let prospect = Prospect { is_certain: id.is_multiple_of(2), follows: (id % 11) as f64 / 10.0 };
    let ahead = [Ahead::Used, Ahead::NotMade, Ahead::Used, Ahead::Wasted][(id % 4) as usize];
    Forecasted { prospect, probability: 0.9, came_true: id % 4 != 3, ahead }
}

pub(crate) fn learn(model: &mut Model, told: &Told) -> Option<pml_learn::Update> {
    let steps: Vec<Step<'_>> = told.steps.iter().map(|(tool, outcome)| Step { tool, outcome: *outcome }).collect();
    model.update(&Observation {
        trace: TraceId(told.id),
        time_ms: told.time_ms,
        caller: &told.caller,
        intent: &told.intent,
        words: &told.words,
        tools: &TOOLS,
        scores: &scores(),
        steps: &steps,
        forecasts: &[forecast(told.id)],
        capability: None,
        success: told.success,
    })
}

pub(crate) fn rank(model: &Model, intent: &[f32], prefix: &[&str]) -> Vec<Ranked> {
    model.learned().rank(
        &Query { purpose: Purpose::Suggestion, intent, words: &[], prefix, tools: &TOOLS, scores: &scores() },
        usize::MAX,
        |_, _| true,
    )
}

/// The tools of a ranking, best first.
pub(crate) fn order(ranking: &[Ranked]) -> String {
    ranking.iter().map(|ranked| &**TOOLS.name(ranked.place)).collect::<Vec<_>>().join(" ")
}
