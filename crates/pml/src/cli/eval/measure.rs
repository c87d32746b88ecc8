//! How good learning is: streams traces into a model and judges its rankings on others.
//!
//! Each trace is learned once, in order. At checkpoints the model ranks all tools for each test trace: for the intent alone, and
//! for the intent and the tools so far. The search, two simple methods, the model, and the same model without intents are judged
//! on the same questions.
//!
//! As in the host, traces are learned with the scores of the table, which take microseconds, and rankings reorder the scores of
//! the whole search.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    thread,
};

use pml_learn::{
    Feature, Features, Learned, Model, Observation, Purpose, Query, Replay, Settings, Step, StepOutcome, Tools, TraceId,
};
use pml_search::{Embedder as _, Mode, Snapshot, Table as WordTable, word_hashes};

use super::{
    folds::{Data, Fold},
    judged::{Interval, quality},
    lines::{Trace, shuffle},
};

/// Ranking methods, in the order in which they are reported.
pub(super) const METHODS: [&str; 5] = ["search", "markov", "knn", "ranker", "blind"];
pub(super) const SET_METRICS: [&str; 5] = ["r@1", "r@5", "r@10", "ndcg@10", "mrr"];
pub(super) const NEXT_METRICS: [&str; 3] = ["hit@1", "hit@5", "mrr"];
const SEARCH: usize = 0;
const RANKER: usize = 3;
/// The ranker, learned from the same traces and searches, whose traces have no intents: it has no votes of similar traces, no
/// words and no prototypes.
pub(super) const BLIND: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Options {
    /// Numbers of learned traces at which the test is taken. The whole of the training traces is always one.
    pub(super) checkpoints: Vec<usize>,
    pub(super) replay: Replay,
    /// Orders of the training traces, or splits of all traces.
    pub(super) seeds: u64,
    /// Gives each training trace the intent of another.
    pub(super) shuffles_intents: bool,
}

/// What one method gains over another: question by question, and over seeds if there are several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gain {
    pub(super) of_questions: Interval,
    pub(super) of_seeds: Option<Interval>,
}

/// Everything about one kind of question.
#[derive(Debug)]
pub(super) struct Report<const M: usize> {
    /// Means over all questions: by method, then by metric.
    pub(super) table: [[Interval; M]; 5],
    /// Of the ranker over the search.
    pub(super) gain: [Gain; M],
    /// Of the ranker over the same ranker without intents.
    pub(super) of_intents: [Gain; M],
}

#[derive(Debug)]
pub(super) struct Checkpoint {
    /// Traces that were learned; at the end the mean over seeds, which may have different numbers.
    pub(super) traces: usize,
    /// Seeds that have so many traces.
    pub(super) seeds: u64,
    pub(super) set: Report<5>,
    pub(super) next: Report<3>,
    /// In how many of the seeds the ranker was used and not the search, for tools of a task and for the next tool.
    pub(super) open: [u64; 2],
}

/// Answers to the questions of one seed: by question, by method, by metric.
type Answers<const M: usize> = BTreeMap<Question, [[f64; M]; 5]>;

/// The number of a trace, and how many of its tools are known.
type Question = (usize, usize);

/// What one seed says at one checkpoint.
#[derive(Debug, Default)]
struct Answered {
    traces: usize,
    set: Answers<5>,
    next: Answers<3>,
    open: [bool; 2],
}

/// What the search says about an intent.
#[derive(Debug)]
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
    /// What the whole search says about the intents that were asked about so far.
    found: HashMap<&'s str, Found>,
}

/// The model, and the same without intents.
struct Pupils {
    model: Model,
    blind: Model,
}

pub(super) fn measure(searches: &Searches, data: Data<'_>, options: &Options) -> Vec<Checkpoint> {
    let mut judge = Judge { searches, tools: Tools::new(searches.whole.ids().iter().cloned()), found: HashMap::new() };
    // By the number of traces; the whole of each seed's traces is last, however many they are.
    let mut answered: BTreeMap<usize, Vec<Answered>> = BTreeMap::new();
    for seed in 0..options.seeds.max(1) {
        let fold = data.fold(seed);
        judge.search_for(&fold.test);
        for (checkpoint, answers) in judge.take_test(&fold, seed, options) {
            answered.entry(checkpoint).or_default().push(answers);
        }
    }
    answered.into_values().map(|answers| Checkpoint::of(&answers)).collect()
}

impl Checkpoint {
    fn of(answered: &[Answered]) -> Checkpoint {
        let seeds = answered.len();
        let open = |task: usize| answered.iter().filter(|answers| answers.open[task]).count() as u64;
        Checkpoint {
            traces: (answered.iter().map(|answers| answers.traces).sum::<usize>() + seeds / 2) / seeds.max(1),
            seeds: seeds as u64,
            set: Report::of(answered.iter().map(|answers| &answers.set)),
            next: Report::of(answered.iter().map(|answers| &answers.next)),
            open: [open(0), open(1)],
        }
    }
}

impl<const M: usize> Report<M> {
    fn of<'a>(seeds: impl Iterator<Item = &'a Answers<M>> + Clone) -> Report<M> {
        let interval = |value: &dyn Fn(&[[f64; M]; 5]) -> f64| {
            let mut questions: BTreeMap<Question, (f64, u32)> = BTreeMap::new();
            for (question, answer) in seeds.clone().flatten() {
                let (sum, answers) = questions.entry(*question).or_default();
                *sum += value(answer);
                *answers += 1;
            }
            Interval::of_questions(&questions.into_values().collect::<Vec<_>>())
        };
        let gain = |over: usize| {
            std::array::from_fn(|metric| {
                let value = |answer: &[[f64; M]; 5]| answer[RANKER][metric] - answer[over][metric];
                let of_seed = |answers: &Answers<M>| answers.values().map(value).sum::<f64>() / answers.len() as f64;
                let of_seeds: Vec<f64> = seeds.clone().filter(|seed| !seed.is_empty()).map(of_seed).collect();
                Gain { of_questions: interval(&value), of_seeds: Interval::of_repetitions(&of_seeds) }
            })
        };
        Report {
            table: std::array::from_fn(|method| {
                std::array::from_fn(|metric| interval(&|answer| answer[method][metric]))
            }),
            gain: gain(SEARCH),
            of_intents: gain(BLIND),
        }
    }
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
    /// Searches for the intents that were not searched for yet, on all processors: the encoder takes milliseconds for each.
    fn search_for(&mut self, test: &[(usize, &'s Trace)]) {
        let intents: HashSet<&str> = test.iter().map(|(_, trace)| trace.intent.as_str()).collect();
        let new: Vec<&str> = intents.into_iter().filter(|intent| !self.found.contains_key(intent)).collect();
        let snapshot = &self.searches.whole;
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let found = thread::scope(|scope| {
            let parts = new.chunks(new.len().div_ceil(threads).max(1));
            let find = move |intent: &&'s str| (*intent, Found::new(snapshot, intent));
            let parts: Vec<_> =
                parts.map(|part| scope.spawn(move || part.iter().map(find).collect::<Vec<_>>())).collect();
            parts.into_iter().flat_map(|part| part.join().expect("a search does not panic")).collect::<Vec<_>>()
        });
        self.found.extend(found);
    }

    /// Learns the traces of one seed and answers the test at each checkpoint, the last of which is [`usize::MAX`].
    fn take_test(&self, fold: &Fold<'_>, seed: u64, options: &Options) -> Vec<(usize, Answered)> {
        let Fold { train, test } = fold;
        let mut checkpoints: Vec<usize> = options.checkpoints.iter().copied().filter(|at| *at < train.len()).collect();
        checkpoints.push(usize::MAX);
        checkpoints.sort_unstable();
        checkpoints.dedup();
        let mut intents: Vec<usize> = (0..train.len()).collect();
        if options.shuffles_intents {
            shuffle(&mut intents, seed.wrapping_add(1 << 32));
        }
        let mut pupils = Pupils::new(options.replay, seed);
        let mut learned = 0;
        let mut answered = Vec::new();
        for checkpoint in checkpoints {
            let traces = checkpoint.min(train.len());
            for number in learned..traces {
                pupils.learn(self, train[number], &train[intents[number]].intent, number);
            }
            learned = traces;
            let mut answers = Answered { traces, open: pupils.model.learned().status().is_open, ..Answered::default() };
            for (number, trace) in test {
                self.ask(&pupils, *number, trace, &mut answers);
            }
            answered.push((checkpoint, answers));
        }
        answered
    }

    fn ask(&self, pupils: &Pupils, number: usize, trace: &Trace, answers: &mut Answered) {
        let succeeded: Vec<&str> = trace.succeeded().collect();
        let Some(found) = self.found.get(trace.intent.as_str()).filter(|_| !succeeded.is_empty()) else { return };
        let relevant: HashSet<&str> = succeeded.iter().copied().collect();
        let query = Query {
            purpose: Purpose::Suggestion,
            intent: &found.intent,
            words: &found.words,
            prefix: &[],
            tools: &self.tools,
            scores: &found.scores,
        };
        let judged = pupils.rankings(&query).map(|ranking| {
            let is_good: Vec<bool> =
                ranking.iter().map(|place| relevant.contains(&**self.tools.name(*place))).collect();
            let quality = quality(&is_good, relevant.len());
            [quality.recall_1, quality.recall_5, quality.recall_10, quality.ndcg_10, quality.mrr]
        });
        answers.set.insert((number, 0), judged);
        for position in 1..succeeded.len() {
            let query = Query { prefix: &succeeded[..position], ..query };
            let judged = pupils.rankings(&query).map(|ranking| {
                let rank = ranking.iter().position(|place| **self.tools.name(*place) == *succeeded[position]);
                let within = |count: usize| f64::from(rank.is_some_and(|rank| rank < count));
                [within(1), within(5), rank.map_or(0.0, |rank| 1.0 / (rank as f64 + 1.0))]
            });
            answers.next.insert((number, position), judged);
        }
    }
}

impl Pupils {
    fn new(replay: Replay, seed: u64) -> Pupils {
        let settings = Settings { dimensions: WordTable.dimensions(), replay, seed, ..Settings::default() };
        Pupils { model: Model::new(settings.clone()), blind: Model::new(settings) }
    }

    fn learn(&mut self, judge: &Judge<'_>, trace: &Trace, intent: &str, number: usize) {
        let found = Found::new(&judge.searches.table, intent);
        let outcome = |succeeded: bool| if succeeded { StepOutcome::Succeeded } else { StepOutcome::Failed };
        let steps: Vec<Step<'_>> =
            trace.steps.iter().map(|(tool, succeeded)| Step { tool, outcome: outcome(*succeeded) }).collect();
        let observation = Observation {
            trace: TraceId(number as u128),
            time_ms: trace.time_ms,
            caller: &trace.caller,
            intent: &found.intent,
            words: &found.words,
            tools: &judge.tools,
            scores: &found.scores,
            steps: &steps,
            forecasts: &[],
            capability: None,
            success: trace.success,
        };
        self.model.update(&observation);
        self.blind.update(&Observation { intent: &[], words: &[], ..observation });
    }

    /// The places of all candidates, best first, by each method. Where a method sees no difference the search decides.
    fn rankings(&self, query: &Query<'_>) -> [Vec<usize>; 5] {
        let features = self.model.learned().features(query);
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
        let blind = Query { intent: &[], words: &[], ..*query };
        [searched, markov, knn, ranked(self.model.learned(), query), ranked(self.blind.learned(), &blind)]
    }
}

fn ranked(learned: &Learned, query: &Query<'_>) -> Vec<usize> {
    learned.rank(query, usize::MAX, |_, _| true).into_iter().map(|ranked| ranked.place).collect()
}
