//! Learns from traces which tools fit an intent, and which tool comes next.
//!
//! [`Model::update`] takes one trace as an [`Observation`]; [`Learned::rank`] reorders the results of a search by what was
//! learned. The host supplies everything from outside as data: the vector of an intent, the score that the search gave to each
//! tool, the time. There is no clock, no file, no thread and no network here.
//!
//! A ranking is a weighted sum of ten [features](Feature): the score of the search, votes of traces with a similar intent,
//! transitions, co-occurrence, popularity. Weights start at a prior, are learned online, and are never negative. A gate
//! compares the weighted sum with the search on every trace before the trace is learned, and hands out the order of the search
//! while the weighted sum is losing.
//!
//! **Invariants.** Without a trace the order is the order of the search. The same observations in the same order give the same
//! model, to the last bit, also across [`Model::to_bytes`]. A trace counts once. Everything that grows is bounded, and what one
//! caller can say for one tool too.

mod clock;
mod codec;
mod evidence;
mod features;
mod foresight;
mod gate;
mod graph;
mod learned;
mod matching;
mod math;
mod memory;
mod model;
mod names;
mod observation;
mod random;
mod ranker;
mod replay;
mod seen;
mod shared;
mod snapshot;
mod tools;
mod vector;
mod words;

pub use self::{
    features::{FEATURES, Feature, Features},
    foresight::{Ahead, Forecasted, LEAST_PROBABILITY, LEAST_SHARE, Prospect, SpeculationStatus},
    graph::{Edge, EdgeKind, Related, ToolStatistics},
    learned::{Learned, Ranked, Reason, Status},
    matching::{Capabilities, Capability, Match},
    model::{Model, Settings, Update, needs_scores},
    observation::{Observation, Purpose, Query, Step, StepOutcome, Task, TraceId},
    replay::{Draw, PrioritySampler, Replay},
    shared::{Shared, mean_weights},
    snapshot::SnapshotError,
    tools::Tools,
};
