//! Whether a program will make a call that is known in advance, and whether the forecast may be acted on.
//!
//! A host can know a call of a program before the program makes it, arguments included: the call is written out further down.
//! A *forecast* says that the program will make that call before it does anything that could change the answer. Two things are
//! known of the call, its [`Prospect`]: whether the program makes it whenever it gets that far, and how often the tool has
//! followed the tools before it, which is the model's own probability of the next tool.
//!
//! That probability is not one of the call: a call that is written out is more likely than its tool, one in a branch less. So it
//! is calibrated. Prospects fall into [`CELLS`]; each cell counts its forecasts and those that came true, and the calibrated
//! probability is `(true + 1) / (all + 2)`. A cell without evidence says 1/2, and one needs five forecasts, all true, to say
//! [`LEAST_PROBABILITY`]. A cell that has counted [`FADING`] forecasts halves its counts, so that it follows what programs do now.
//!
//! The record of the calls that were really made ahead is kept besides: of the last [`WINDOW`], how many answers were used. While
//! the lower end of the Wilson interval of that share is below [`LEAST_SHARE`], nothing is to be made ahead. Forecasts go on then,
//! and those that would have been acted on count by whether they came true, so that the record can recover.

use std::collections::VecDeque;

use crate::{features::DOUBT, graph::Graph, learned::Learned, names::NameId};

/// The lowest calibrated probability at which a call is worth making ahead.
pub const LEAST_PROBABILITY: f64 = 0.85;
/// The lowest share of used answers, at the lower end of its interval, at which calls are still made ahead.
pub const LEAST_SHARE: f64 = 0.5;
/// Upper ends of the ranges of [`Prospect::follows`]; the first is for a tool that never followed.
const RANGES: [f64; 4] = [0.0, 0.25, 0.5, 0.75];
/// Cells of the calibration: the ranges and what is above them, for calls in doubt and for certain ones.
pub(crate) const CELLS: usize = 2 * (RANGES.len() + 1);
/// Forecasts at which the counts of a cell are halved.
pub(crate) const FADING: f64 = 200.0;
/// Calls made ahead whose outcome is remembered.
pub(crate) const WINDOW: usize = 100;
/// Outcomes before a verdict.
const ENOUGH: usize = 20;
/// The normal quantile of a two-sided interval of 95 %.
const Z: f64 = 1.96;
/// Forecasts of one trace that are learned from, the first ones.
const FORECASTS: usize = 32;

/// What is known of a call that a program is expected to make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prospect {
    /// The program makes the call whenever it gets that far.
    pub is_certain: bool,
    /// How often the tool has followed the tools before it, from 0 to 1.
    pub follows: f64,
}

/// A forecast and what became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecasted {
    pub prospect: Prospect,
    /// The calibrated probability at that moment.
    pub probability: f64,
    /// Did the program make the call, while an answer from ahead was still good?
    pub came_true: bool,
    pub ahead: Ahead,
}

/// What became of the call that was made ahead for a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// None was made.
    NotMade,
    Used,
    /// It failed, or its answer was never asked for.
    Wasted,
}

/// How calls that were made ahead have done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeculationStatus {
    /// Calls made ahead, and answers of those that were used, ever.
    pub made: u64,
    pub used: u64,
    /// Forecasts that the verdict rests on, and the good ones among them.
    pub judged: usize,
    pub good: usize,
    /// The lower end of the interval of that share.
    pub lower_bound: f64,
    /// May calls be made ahead?
    pub is_on: bool,
    /// Forecasts that the calibration rests on, faded.
    pub forecasts: f64,
}

/// Forecasts so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Foresight {
    /// Of each cell, the forecasts that came true and all of them.
    pub(crate) cells: [(f64, f64); CELLS],
    /// Outcomes of what was, or would have been, made ahead, oldest first.
    pub(crate) outcomes: VecDeque<bool>,
    pub(crate) made: u64,
    pub(crate) used: u64,
}

impl Foresight {
    pub(crate) fn probability(&self, prospect: Prospect) -> f64 {
        let (right, all) = self.cells[cell(prospect)];
        (right + 1.0) / (all + 2.0)
    }

    /// Learns what became of the forecasts of one trace.
    pub(crate) fn learn(&mut self, forecasts: &[Forecasted]) {
        let is_sound = |forecast: &&Forecasted| {
            [forecast.prospect.follows, forecast.probability].iter().all(|share| (0.0..=1.0).contains(share))
        };
        for forecast in forecasts.iter().filter(is_sound).take(FORECASTS) {
            let (right, all) = &mut self.cells[cell(forecast.prospect)];
            *right += f64::from(u8::from(forecast.came_true));
            *all += 1.0;
            if *all >= FADING {
                (*right, *all) = (*right / 2.0, *all / 2.0);
            }
            self.made += u64::from(forecast.ahead != Ahead::NotMade);
            self.used += u64::from(forecast.ahead == Ahead::Used);
            match forecast.ahead {
                Ahead::NotMade if forecast.probability < LEAST_PROBABILITY => {}
                Ahead::NotMade => self.judge(forecast.came_true),
                Ahead::Used => self.judge(true),
                Ahead::Wasted => self.judge(false),
            }
        }
    }

    fn judge(&mut self, is_good: bool) {
        if self.outcomes.len() == WINDOW {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back(is_good);
    }

    pub(crate) fn status(&self) -> SpeculationStatus {
        let judged = self.outcomes.len();
        let good = self.outcomes.iter().filter(|is_good| **is_good).count();
        let lower_bound = wilson_lower(good, judged);
        SpeculationStatus {
            made: self.made,
            used: self.used,
            judged,
            good,
            lower_bound,
            is_on: judged < ENOUGH || lower_bound >= LEAST_SHARE,
            forecasts: self.cells.iter().map(|(_, all)| all).sum(),
        }
    }
}

impl Learned {
    /// What is known of a call of `tool`, when the tools in `before` were called last, the latest one last.
    pub fn prospect(&self, before: &[&str], tool: &str, is_certain: bool) -> Prospect {
        Prospect { is_certain, follows: follows(&self.graph, self.clock.factor(), before, tool).unwrap_or(0.0) }
    }

    /// The calibrated probability of a forecast.
    pub fn probability(&self, prospect: Prospect) -> f64 {
        self.foresight.probability(prospect)
    }

    pub fn speculation(&self) -> SpeculationStatus {
        self.foresight.status()
    }
}

/// The share of a tool among those that followed the last two tools, backed off to those that followed the last one.
fn follows(graph: &Graph, factor: f64, before: &[&str], tool: &str) -> Option<f64> {
    let id = |name: &str| graph.names.id(name);
    let total = |row: &mut dyn Iterator<Item = f64>| row.sum::<f64>() * factor;
    let (tool, last) = (id(tool)?, id(before.last()?)?);
    let weight = |weight: Option<f64>| weight.unwrap_or(0.0) * factor;
    let of_one: f64 = total(&mut graph.sequences.row(&[last]).map(|(_, count)| count.weight));
    let share = weight(graph.sequences.get([last, tool]).map(|count| count.weight)) / (of_one + DOUBT);
    let second: Option<NameId> = before.len().checked_sub(2).and_then(|at| id(before[at]));
    let Some(second) = second else { return Some(share) };
    let of_two: f64 = total(&mut graph.pair_sequences.row(&[second, last]).map(|(_, count)| count.weight));
    let of_pair = weight(graph.pair_sequences.get([second, last, tool]).map(|count| count.weight));
    Some((of_pair + DOUBT * share) / (of_two + DOUBT))
}

fn cell(prospect: Prospect) -> usize {
    let range = RANGES.iter().position(|end| prospect.follows <= *end).unwrap_or(RANGES.len());
    range + usize::from(prospect.is_certain) * (RANGES.len() + 1)
}

/// The lower end of the Wilson interval of a share. 0 without a sample.
fn wilson_lower(good: usize, all: usize) -> f64 {
    if all == 0 {
        return 0.0;
    }
    let count = all as f64;
    let (share, square) = (good as f64 / count, Z * Z);
    let middle = share + square / (2.0 * count);
    let width = Z * (share * (1.0 - share) / count + square / (4.0 * count * count)).sqrt();
    ((middle - width) / (1.0 + square / count)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prospect(is_certain: bool, follows: f64) -> Prospect {
        Prospect { is_certain, follows }
    }

    fn forecasted(came_true: bool, probability: f64, ahead: Ahead) -> Forecasted {
        Forecasted { prospect: prospect(true, 0.0), probability, came_true, ahead }
    }

    #[test]
    fn a_wilson_bound_is_that_of_the_tables() {
        #[rustfmt::skip]
        let table = [
            // good all  lower end
            (0,     0,   0.0),
            (1,     1,   0.2065),
            (10,    10,  0.7225),
            (5,     10,  0.2366),
            (60,    100, 0.5020),
            (0,     20,  0.0),
        ];
        for (good, all, expected) in table {
            assert!((wilson_lower(good, all) - expected).abs() < 5e-4, "{good} of {all}: {}", wilson_lower(good, all));
        }
    }

    #[test]
    fn without_evidence_nothing_is_probable() {
        let mut foresight = Foresight::default();
        for follows in [0.0, 0.3, 1.0] {
            assert_eq!(foresight.probability(prospect(true, follows)), 0.5);
        }
        for count in 1..=6 {
            foresight.learn(&[forecasted(true, 0.5, Ahead::NotMade)]);
            let probability = foresight.probability(prospect(true, 0.0));
            assert_eq!(probability >= LEAST_PROBABILITY, count >= 5, "{count}: {probability}");
        }
        // Evidence of certain calls says nothing about others, nor that of one range about another.
        assert_eq!(foresight.probability(prospect(false, 0.0)), 0.5);
        assert_eq!(foresight.probability(prospect(true, 0.9)), 0.5);
    }

    #[test]
    fn a_probability_is_the_share_that_came_true() {
        let mut foresight = Foresight::default();
        for number in 0..2000 {
            foresight.learn(&[forecasted(number % 10 != 0, 0.5, Ahead::NotMade)]);
        }
        let probability = foresight.probability(prospect(true, 0.0));
        assert!((probability - 0.9).abs() < 0.02, "{probability}");
        assert!(foresight.cells.iter().all(|(right, all)| right <= all && *all < FADING));
        // What programs do now counts more than what they did.
        for _ in 0..FADING as usize {
            foresight.learn(&[forecasted(false, 0.5, Ahead::NotMade)]);
        }
        assert!(foresight.probability(prospect(true, 0.0)) < 0.45);
    }

    #[test]
    fn it_switches_itself_off_and_recovers_by_forecasts_alone() {
        let mut foresight = Foresight::default();
        let learn = |foresight: &mut Foresight, came_true: bool, ahead: Ahead, times: usize| {
            (0..times).for_each(|_| foresight.learn(&[forecasted(came_true, 0.9, ahead)]));
        };
        learn(&mut foresight, false, Ahead::Wasted, ENOUGH - 1);
        assert!(foresight.status().is_on, "too few to say");
        learn(&mut foresight, false, Ahead::Wasted, 1);
        let status = foresight.status();
        assert_eq!((status.is_on, status.made, status.used, status.judged), (false, 20, 0, 20));
        // Forecasts that would not have been acted on change nothing.
        (0..200).for_each(|_| foresight.learn(&[forecasted(true, 0.8, Ahead::NotMade)]));
        assert!(!foresight.status().is_on);
        learn(&mut foresight, true, Ahead::NotMade, 20);
        assert!(!foresight.status().is_on, "half is not enough: {:?}", foresight.status());
        learn(&mut foresight, true, Ahead::NotMade, 30);
        let status = foresight.status();
        assert!(status.is_on && status.lower_bound >= LEAST_SHARE, "{status:?}");
        assert_eq!((status.made, status.used), (20, 0), "nothing was made meanwhile");
        learn(&mut foresight, true, Ahead::Used, WINDOW);
        assert_eq!((foresight.status().judged, foresight.status().good), (WINDOW, WINDOW));
    }

    #[test]
    fn a_call_that_failed_is_wasted_though_the_forecast_was_right() {
        let mut foresight = Foresight::default();
        (0..30).for_each(|_| foresight.learn(&[forecasted(true, 0.9, Ahead::Wasted)]));
        assert!(foresight.probability(prospect(true, 0.0)) > 0.9);
        assert!(!foresight.status().is_on);
    }

    #[test]
    fn numbers_that_are_none_teach_nothing() {
        let mut foresight = Foresight::default();
        for odd in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
            foresight.learn(&[forecasted(true, odd, Ahead::Used)]);
            let prospect = prospect(true, odd);
            foresight.learn(&[Forecasted { prospect, ..forecasted(true, 0.9, Ahead::Used) }]);
        }
        assert_eq!(foresight, Foresight::default());
        foresight.learn(&vec![forecasted(true, 0.9, Ahead::Used); 1000]);
        assert_eq!(foresight.made, FORECASTS as u64, "what one trace can say is bounded");
    }
}
