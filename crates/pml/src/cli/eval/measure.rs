//! How good learning is: streams traces into a model and judges its rankings on others.
//!
//! Each trace is learned once, in order. At checkpoints the model ranks all tools for each test trace: for the intent alone, and
//! for the intent and the tools so far. The search, two simple methods and the model are judged on the same questions.
//!
//! As in the host, traces are learned with the scores of the table, which take microseconds, and rankings reorder the scores of
//! the whole search.

use std::{collections::HashSet, thread};

use pml_learn::{
    Feature, Features, Model, Observation, Purpose, Query, Replay, Settings, Step, StepOutcome, Tools, TraceId,
};
use pml_search::{Embedder as _, Mode, Snapshot, Table as WordTable, word_hashes};

use super::{
    judged::{Interval, quality},
    lines::{Trace, shuffle},
};

/// Ranking methods, in the order in which they are reported.
pub(super) const METHODS: [&str; 4] = ["search", "markov", "knn", "ranker"];
pub(super) const SET_METRICS: [&str; 5] = ["r@1", "r@5", "r@10", "ndcg@10", "mrr"];
pub(super) const NEXT_METRICS: [&str; 3] = ["hit@1", "hit@5", "mrr"];
const SEARCH: usize = 0;
const RANKER: usize = 3;

#[derive(Clone, Debug)]
pub(super) struct Options {
    /// Numbers of learned traces at which the test is taken. The whole of the training traces is always one.
    pub(super) checkpoints: Vec<usize>,
    pub(super) replay: Replay,
    /// Orders in which the training traces are learned: as they are, then shuffled.
    pub(super) seeds: u64,
    /// Gives each training trace the intent of another.
    pub(super) shuffles_intents: bool,
}

/// Means over all questions of one kind: by method, then by metric.
pub(super) type Table<const M: usize> = [[Interval; M]; 4];

#[derive(Debug)]
pub(super) struct Checkpoint {
    /// Traces that were learned.
    pub(super) traces: usize,
    pub(super) set: Table<5>,
    pub(super) next: Table<3>,
    /// What the ranker gains over the search, question by question.
    pub(super) set_gain: [Interval; 5],
    pub(super) next_gain: [Interval; 3],
    /// In how many of the seeds the ranker was used and not the search, for tools of a task and for the next tool.
    pub(super) open: [u64; 2],
}

/// Judgements of one kind of question: by question, by method, by metric; sums over seeds.
struct Judgements<const M: usize>(Vec<[[f64; M]; 4]>);

/// What the search says about an intent.
struct Found {
    intent: Vec<f32>,
    words: Vec<u32>,
    /// Of each tool.
    scores: Vec<f32>,
}

/// The same tools twice, in the same order.
#[derive(Debug)]
pub(super) struct Searches {
    /// With the table, which traces are learned with.
    pub(super) table: Snapshot,
    /// As searches use it.
    pub(super) whole: Snapshot,
}

struct Judge<'s> {
    searches: &'s Searches,
    tools: Tools,
    test: &'s [Trace],
    /// What the whole search says about the intent of each test trace.
    found: Vec<Found>,
}

pub(super) fn measure(searches: &Searches, train: &[Trace], test: &[Trace], options: &Options) -> Vec<Checkpoint> {
    let judge = Judge::new(searches, test);
    let mut checkpoints: Vec<usize> = options.checkpoints.iter().copied().filter(|at| *at < train.len()).collect();
    checkpoints.push(train.len());
    checkpoints.sort_unstable();
    checkpoints.dedup();
    let seeds = options.seeds.max(1);
    let mut sums: Vec<(Judgements<5>, Judgements<3>, [u64; 2])> =
        checkpoints.iter().map(|_| (Judgements(Vec::new()), Judgements(Vec::new()), [0; 2])).collect();
    for seed in 0..seeds {
        let mut model = Model::new(Settings {
            dimensions: WordTable.dimensions(),
            replay: options.replay,
            seed,
            ..Settings::default()
        });
        let mut order: Vec<usize> = (0..train.len()).collect();
        let mut intents = order.clone();
        if seed > 0 {
            shuffle(&mut order, seed);
        }
        if options.shuffles_intents {
            shuffle(&mut intents, seed.wrapping_add(1 << 32));
        }
        let mut learned = 0;
        for (at, (set, next, open)) in checkpoints.iter().zip(&mut sums) {
            for number in &order[learned..*at] {
                judge.learn(&mut model, &train[*number], &train[intents[*number]].intent, *number);
            }
            learned = *at;
            judge.judge(&model, set, next);
            for (sum, is_open) in open.iter_mut().zip(model.learned().status().is_open) {
                *sum += u64::from(is_open);
            }
        }
    }
    let report = |(at, (set, next, open)): (&usize, (Judgements<5>, Judgements<3>, [u64; 2]))| Checkpoint {
        traces: *at,
        set: set.table(seeds),
        next: next.table(seeds),
        set_gain: set.gain(seeds),
        next_gain: next.gain(seeds),
        open,
    };
    checkpoints.iter().zip(sums).map(report).collect()
}

impl Found {
    fn new(snapshot: &Snapshot, intent: &str) -> Found {
        Found {
            intent: WordTable.query(intent),
            words: word_hashes(intent),
            scores: snapshot.scores(intent, Mode::Hybrid),
        }
    }
}

impl<'s> Judge<'s> {
    fn new(searches: &'s Searches, test: &'s [Trace]) -> Judge<'s> {
        let find = |trace: &Trace| Found::new(&searches.whole, &trace.intent);
        // The encoder takes milliseconds for each.
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let found = thread::scope(|scope| {
            let parts = test.chunks(test.len().div_ceil(threads).max(1));
            let parts = parts.map(|part| scope.spawn(move || part.iter().map(find).collect::<Vec<_>>()));
            let parts: Vec<_> = parts.collect();
            parts.into_iter().flat_map(|part| part.join().expect("a search does not panic")).collect()
        });
        let tools = Tools::new(searches.whole.ids().iter().cloned());
        Judge { searches, tools, test, found }
    }

    fn learn(&self, model: &mut Model, trace: &Trace, intent: &str, number: usize) {
        let found = Found::new(&self.searches.table, intent);
        let outcome = |succeeded: bool| if succeeded { StepOutcome::Succeeded } else { StepOutcome::Failed };
        let steps: Vec<Step<'_>> =
            trace.steps.iter().map(|(tool, succeeded)| Step { tool, outcome: outcome(*succeeded) }).collect();
        model.update(&Observation {
            trace: TraceId(number as u128),
            time_ms: trace.time_ms,
            caller: &trace.caller,
            intent: &found.intent,
            words: &found.words,
            tools: &self.tools,
            scores: &found.scores,
            steps: &steps,
            capability: None,
            success: trace.success,
        });
    }

    fn judge(&self, model: &Model, set: &mut Judgements<5>, next: &mut Judgements<3>) {
        let (mut set_number, mut next_number) = (0, 0);
        for (trace, found) in self.test.iter().zip(&self.found) {
            let succeeded: Vec<&str> = trace.succeeded().collect();
            if succeeded.is_empty() {
                continue;
            }
            let relevant: HashSet<&str> = succeeded.iter().copied().collect();
            let query = Query {
                purpose: Purpose::Suggestion,
                intent: &found.intent,
                words: &found.words,
                prefix: &[],
                tools: &self.tools,
                scores: &found.scores,
            };
            let judged = rankings(model, &query).map(|ranking| {
                let is_good: Vec<bool> =
                    ranking.iter().map(|place| relevant.contains(&**self.tools.name(*place))).collect();
                let quality = quality(&is_good, relevant.len());
                [quality.recall_1, quality.recall_5, quality.recall_10, quality.ndcg_10, quality.mrr]
            });
            set.add(set_number, judged);
            set_number += 1;
            for position in 1..succeeded.len() {
                let query = Query { prefix: &succeeded[..position], ..query };
                let judged = rankings(model, &query).map(|ranking| {
                    let rank = ranking.iter().position(|place| **self.tools.name(*place) == *succeeded[position]);
                    let within = |count: usize| f64::from(rank.is_some_and(|rank| rank < count));
                    [within(1), within(5), rank.map_or(0.0, |rank| 1.0 / (rank as f64 + 1.0))]
                });
                next.add(next_number, judged);
                next_number += 1;
            }
        }
    }
}

/// The places of all candidates, best first, by each method. Where a method sees no difference the search decides.
fn rankings(model: &Model, query: &Query<'_>) -> [Vec<usize>; 4] {
    let features = model.learned().features(query);
    let mut searched: Vec<usize> = (0..features.len()).collect();
    searched.sort_by(|a, b| query.scores[*b].total_cmp(&query.scores[*a]));
    let by = |key: &dyn Fn(&Features) -> f32| {
        let mut places = searched.clone();
        places.sort_by(|a, b| key(&features[*b]).total_cmp(&key(&features[*a])));
        places
    };
    let of = |feature: Feature| move |features: &Features| features[feature.index()];
    let (markov, knn) = match query.prefix.is_empty() {
        true => (by(&of(Feature::Popularity)), by(&of(Feature::Similar))),
        // Votes for what came after the last tool, and among equals those for any tool.
        false => {
            let after = of(Feature::SimilarSequence);
            let any = of(Feature::Similar);
            (by(&of(Feature::Follows)), by(&move |features| after(features) + 1e-3 * any(features)))
        }
    };
    let ranked = model.learned().rank(query, usize::MAX, |_, _| true);
    let ranker = ranked.into_iter().map(|ranked| ranked.place).collect();
    [searched, markov, knn, ranker]
}

impl<const M: usize> Judgements<M> {
    fn add(&mut self, number: usize, judged: [[f64; M]; 4]) {
        if number == self.0.len() {
            self.0.push([[0.0; M]; 4]);
        }
        for (sums, values) in self.0[number].iter_mut().zip(judged) {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }

    fn table(&self, seeds: u64) -> Table<M> {
        std::array::from_fn(|method| self.intervals(seeds, |values, metric| values[method][metric]))
    }

    fn gain(&self, seeds: u64) -> [Interval; M] {
        self.intervals(seeds, |values, metric| values[RANKER][metric] - values[SEARCH][metric])
    }

    fn intervals(&self, seeds: u64, value: impl Fn(&[[f64; M]; 4], usize) -> f64) -> [Interval; M] {
        std::array::from_fn(|metric| {
            let values: Vec<f64> = self.0.iter().map(|values| value(values, metric) / seeds as f64).collect();
            Interval::of(&values)
        })
    }
}
