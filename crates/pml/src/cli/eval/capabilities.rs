//! `pml eval capabilities`: how well capabilities are matched with intents, on anybody's traces.
//!
//! Every set of tools that was used with success is a capability from then on. The training traces and then the test traces are
//! gone through once, in order. Each is a question before it is learned: its intent needs the set of tools that it used, and the
//! answer is the most probable capability, which is right if it has exactly that set. For one question in five the capability
//! that it needs is taken away, with every trace of it, beside those questions whose set of tools nobody has used yet: then any
//! answer is wrong. The first third of the training traces is only learned, and an intent in words that were heard before is no
//! question.

use std::{
    collections::HashSet,
    io::{self, Write},
    sync::Arc,
};

use pml_learn::{Capabilities, Capability, Model, Observation, Settings, Step, StepOutcome, Tools, TraceId};
use pml_search::{Embedder, Table, encoder::Encoder};
use serde_json::{Value, json};

use super::{
    lines::{Trace, shuffle},
    sets::{SetArgs, Sets},
};
use crate::{catalog::built_in_model, error::Error};

const COMMAND: &str = "capabilities";
/// One question in so many is asked without the capability that it needs.
const ABSENT_EVERY: u64 = 5;
/// From where on a capability is suggested, and from where on it comes first.
const THRESHOLDS: [f64; 2] = [0.5, 0.8];
/// Ranges of probabilities in which the stated probability is compared with the share of right answers.
const BINS: usize = 10;
/// The rule that is reported for comparison: an answer if the cosine is at least this.
const FIXED_SIMILARITY: f64 = 0.7;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    sets: SetArgs,

    /// What gives intents their meaning
    #[arg(long, value_name = "WHICH", default_value = "table")]
    meaning: Meaning,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Meaning {
    /// The table, as learning uses it
    Table,
    /// The small encoder alone
    Encoder,
    /// Both, as the search uses them
    Both,
}

/// A question and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Judged {
    /// Of the most probable capability; 0 if there is none.
    probability: f64,
    similarity: f64,
    is_right: bool,
    /// Is there a capability that would be right?
    is_reusable: bool,
    /// Is it one of the test traces?
    is_test: bool,
}

/// Answers from a threshold on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Quality {
    matched: usize,
    right: usize,
    /// Answers to questions that have none.
    of_absent: usize,
    reusable: usize,
    absent: usize,
}

/// An intent with its direction, and what was used for it.
struct EvaluatedIntent<'t> {
    trace: &'t Trace,
    intent: Vec<f32>,
    /// The set of tools that succeeded.
    tools: Vec<String>,
}

/// Measures and prints. The inner error is that of printing.
pub(super) fn run(args: &Args) -> Result<io::Result<()>, Error> {
    let sets = args.sets.read(COMMAND)?;
    warn_about(&sets);
    pml_search::load();
    let embedder: Arc<dyn Embedder> = match args.meaning {
        Meaning::Table => Arc::new(Table),
        Meaning::Encoder => Arc::new(Encoder),
        Meaning::Both => built_in_model(),
    };
    let [train, test] = [&sets.train, &sets.test].map(|traces| asked(traces, &*embedder));
    let judged: Vec<Judged> =
        (0..args.sets.seeds).flat_map(|seed| judge(&train, &test, embedder.dimensions(), seed)).collect();
    let capabilities = train.iter().chain(&test).filter(|asked| asked.trace.success).map(|asked| &asked.tools);
    let capabilities = capabilities.collect::<HashSet<_>>().len();
    let report = Report { tools: sets.tools.len(), train: train.len(), test: test.len(), capabilities, judged };
    Ok(report.print(args.sets.json, args.sets.seeds))
}

/// Mistakes in the data that do not prevent an answer, but explain a bad one.
fn warn_about(sets: &Sets) {
    let Sets { tools, train, test } = sets;
    let known: HashSet<&str> = tools.iter().map(|(_, tool)| tool.id.as_str()).collect();
    let unknown = train.iter().chain(test).flat_map(Trace::succeeded).filter(|tool| !known.contains(tool)).count();
    if unknown > 0 {
        let _ = writeln!(io::stderr(), "warning: {unknown} steps are of no tool; they count like any other");
    }
    sets.warn_about_tests();
}

fn asked<'t>(traces: &'t [Trace], embedder: &dyn Embedder) -> Vec<EvaluatedIntent<'t>> {
    let ask = |trace: &'t Trace| {
        let mut tools: Vec<String> = trace.succeeded().map(str::to_owned).collect();
        tools.sort_unstable();
        tools.dedup();
        EvaluatedIntent { trace, intent: embedder.query(&trace.intent), tools }
    };
    traces.iter().map(ask).filter(|asked| !asked.tools.is_empty()).collect()
}

/// Asks and learns the training traces in one order, then the test traces.
fn judge(train: &[EvaluatedIntent<'_>], test: &[EvaluatedIntent<'_>], dimensions: usize, seed: u64) -> Vec<Judged> {
    let mut model = Model::new(Settings { dimensions, seed, ..Settings::default() });
    let mut order: Vec<usize> = (0..train.len()).collect();
    if seed > 0 {
        shuffle(&mut order, seed);
    }
    let mut sets: Vec<&Vec<String>> = train.iter().chain(test).map(|asked| &asked.tools).collect();
    sets.sort_unstable();
    sets.dedup();
    let capability = |(place, tools): (usize, &&Vec<String>)| Capability {
        name: format!("capability {place}"),
        tools: (*tools).clone(),
        intents: Vec::new(),
    };
    let capabilities = Capabilities::new(dimensions, sets.iter().enumerate().map(capability));
    let (mut used, mut heard) = (HashSet::new(), HashSet::new());
    let mut judged = Vec::new();
    let stream = order.iter().map(|number| &train[*number]).chain(test);
    for (number, asked) in stream.enumerate() {
        let needed = sets.binary_search(&&asked.tools).ok();
        let is_question = number >= train.len() / 3 && asked.trace.success;
        if heard.insert(&asked.trace.intent) && is_question {
            let is_taken_away = (judged.len() as u64 + seed).is_multiple_of(ABSENT_EVERY);
            let there = |place: usize| !is_taken_away || Some(place) != needed;
            let best = model.learned().matches(&asked.intent, &capabilities, there).first().copied();
            judged.push(Judged {
                probability: best.map_or(0.0, |best| best.probability),
                similarity: best.map_or(0.0, |best| f64::from(best.similarity)),
                is_right: best.is_some_and(|best| Some(best.place) == needed),
                is_reusable: used.contains(&needed) && !is_taken_away,
                is_test: number >= train.len(),
            });
        }
        learn(&mut model, asked, number);
        if asked.trace.success {
            used.insert(needed);
        }
    }
    judged
}

fn learn(model: &mut Model, asked: &EvaluatedIntent<'_>, number: usize) {
    let outcome = |succeeded: bool| if succeeded { StepOutcome::Succeeded } else { StepOutcome::Failed };
    let steps = asked.trace.steps.iter();
    let steps: Vec<Step<'_>> = steps.map(|(tool, succeeded)| Step { tool, outcome: outcome(*succeeded) }).collect();
    model.update(&Observation {
        trace: TraceId(number as u128),
        time_ms: asked.trace.time_ms,
        caller: &asked.trace.caller,
        intent: &asked.intent,
        words: &[],
        tools: &Tools::default(),
        scores: &[],
        steps: &steps,
        forecasts: &[],
        capability: None,
        success: asked.trace.success,
    });
}

impl Quality {
    fn of(judged: &[Judged], is_answered: impl Fn(&Judged) -> bool) -> Quality {
        let count = |counts: &dyn Fn(&Judged) -> bool| judged.iter().filter(|judged| counts(judged)).count();
        Quality {
            matched: count(&|judged| is_answered(judged)),
            right: count(&|judged| is_answered(judged) && judged.is_right),
            of_absent: count(&|judged| is_answered(judged) && !judged.is_reusable),
            reusable: count(&|judged| judged.is_reusable),
            absent: count(&|judged| !judged.is_reusable),
        }
    }

    /// Of the answers, how many are right; of the questions that have an answer, how many got it; of all questions, how many
    /// were answered; of those without an answer, how many were.
    fn shares(&self) -> [(&'static str, Option<f64>); 4] {
        let share = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
        [
            ("precision", share(self.right, self.matched)),
            ("recall", share(self.right, self.reusable)),
            ("coverage", share(self.matched, self.reusable + self.absent)),
            ("absent_matched", share(self.of_absent, self.absent)),
        ]
    }
}

/// Answers in one range of probabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bin {
    count: usize,
    probability: f64,
    right: usize,
}

fn bins(judged: &[Judged], stated: impl Fn(&Judged) -> f64) -> [Bin; BINS] {
    let mut bins = [Bin::default(); BINS];
    for judged in judged {
        let stated = stated(judged).clamp(0.0, 1.0);
        let bin = &mut bins[((stated * BINS as f64) as usize).min(BINS - 1)];
        bin.count += 1;
        bin.probability += stated;
        bin.right += usize::from(judged.is_right);
    }
    bins
}

/// The mean distance between the stated probability and the share of right answers.
fn calibration_error(bins: &[Bin]) -> f64 {
    let all: usize = bins.iter().map(|bin| bin.count).sum();
    bins.iter().map(|bin| (bin.probability - bin.right as f64).abs()).sum::<f64>() / all.max(1) as f64
}

/// The calibration error that chance alone gives to probabilities that are all true, with as many questions.
fn error_by_chance(judged: &[Judged]) -> f64 {
    const DRAWS: u64 = 50;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64; // the same draws each time
    let mut draw = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut error = || {
        let drawn = |judged: &Judged| Judged { is_right: draw() < judged.probability, ..*judged };
        calibration_error(&bins(&judged.iter().map(drawn).collect::<Vec<_>>(), |judged| judged.probability))
    };
    (0..DRAWS).map(|_| error()).sum::<f64>() / DRAWS as f64
}

struct Report {
    tools: usize,
    train: usize,
    test: usize,
    capabilities: usize,
    judged: Vec<Judged>,
}

impl Report {
    fn print(&self, as_json: bool, seeds: u64) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        if as_json {
            let held_out: Vec<Judged> = self.judged.iter().filter(|judged| judged.is_test).copied().collect();
            let mut report = quality_json(&self.judged);
            report["tools"] = self.tools.into();
            report["train"] = self.train.into();
            report["test"] = self.test.into();
            report["seeds"] = seeds.into();
            report["capabilities"] = self.capabilities.into();
            report["held_out"] = quality_json(&held_out);
            return writeln!(stdout, "{report}");
        }
        let absent = self.judged.iter().filter(|judged| !judged.is_reusable).count();
        writeln!(
            stdout,
            "{} capabilities of {} traces, {} questions, {absent} of them without an answer",
            self.capabilities,
            self.train + self.test,
            self.judged.len()
        )?;
        write!(stdout, "  {:<16}{:>8}", "", "matched")?;
        Quality::default().shares().iter().try_for_each(|(name, _)| write!(stdout, "{name:>16}"))?;
        writeln!(stdout)?;
        let at = THRESHOLDS
            .map(|least| (format!("p >= {least}"), Quality::of(&self.judged, |judged| judged.probability >= least)));
        let fixed = Quality::of(&self.judged, |judged| judged.similarity >= FIXED_SIMILARITY);
        for (name, quality) in at.into_iter().chain([(format!("cosine >= {FIXED_SIMILARITY}"), fixed)]) {
            write!(stdout, "  {name:<16}{:>8}", quality.matched)?;
            for (_, share) in quality.shares() {
                let share = share.map_or("-".to_owned(), |share| format!("{:.1}%", share * 100.0));
                write!(stdout, "{share:>16}")?;
            }
            writeln!(stdout)?;
        }
        let error = calibration_error(&bins(&self.judged, |judged| judged.probability));
        let of_cosine = calibration_error(&bins(&self.judged, |judged| judged.similarity));
        let by_chance = error_by_chance(&self.judged);
        writeln!(stdout, "  calibration error {error:.3}, by chance {by_chance:.3}; of the cosine {of_cosine:.3}")
    }
}

fn quality_json(judged: &[Judged]) -> Value {
    let told = |quality: Quality| {
        let mut told = json!({ "matched": quality.matched });
        quality.shares().into_iter().for_each(|(name, share)| told[name] = share.into());
        told
    };
    let at = THRESHOLDS.map(|least| {
        let mut told = told(Quality::of(judged, |judged| judged.probability >= least));
        told["p"] = least.into();
        told
    });
    let stated = bins(judged, |judged| judged.probability);
    let bin = |bin: &Bin| {
        let share = |sum: f64| sum / bin.count as f64;
        json!({ "count": bin.count, "stated": share(bin.probability), "right": share(bin.right as f64) })
    };
    let mut fixed = told(Quality::of(judged, |judged| judged.similarity >= FIXED_SIMILARITY));
    fixed["similarity"] = FIXED_SIMILARITY.into();
    fixed["calibration_error"] = calibration_error(&bins(judged, |judged| judged.similarity)).into();
    json!({
        "queries": judged.len(),
        "reusable": judged.iter().filter(|judged| judged.is_reusable).count(),
        "absent": judged.iter().filter(|judged| !judged.is_reusable).count(),
        "at": at,
        "calibration_error": calibration_error(&stated),
        "calibration_error_by_chance": error_by_chance(judged),
        "bins": stated.iter().filter(|bin| bin.count > 0).map(bin).collect::<Vec<_>>(),
        "fixed_similarity": fixed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(probability: f64, is_right: bool, is_reusable: bool) -> Judged {
        Judged { probability, similarity: 0.0, is_right, is_reusable, is_test: true }
    }

    #[test]
    fn answers_are_counted() {
        let all =
            [judged(0.9, true, true), judged(0.85, false, false), judged(0.6, true, true), judged(0.1, false, true)];
        let quality = Quality::of(&all, |judged| judged.probability >= 0.8);
        assert_eq!(quality, Quality { matched: 2, right: 1, of_absent: 1, reusable: 3, absent: 1 });
        let [precision, recall, coverage, absent] = quality.shares().map(|(_, share)| share.unwrap());
        assert_eq!((precision, coverage, absent), (0.5, 0.5, 1.0));
        assert!((recall - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(Quality::default().shares().map(|(_, share)| share), [None; 4]);
    }

    #[test]
    fn a_probability_that_is_true_has_no_error() {
        let right: Vec<Judged> = (0..100).map(|number| judged(0.75, number % 4 != 0, true)).collect();
        let error = |all: &[Judged]| calibration_error(&bins(all, |judged| judged.probability));
        assert!(error(&right) < 1e-9);
        let wrong: Vec<Judged> = right.iter().map(|it| Judged { is_right: false, ..*it }).collect();
        assert!((error(&wrong) - 0.75).abs() < 1e-9);
        assert!((0.01..0.1).contains(&error_by_chance(&right)));
        assert_eq!(error(&[]), 0.0);
    }
}
