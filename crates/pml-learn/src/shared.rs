//! What was learned, as a document for others: what a hub gives to the gateways of an organisation.
//!
//! It has names of tools; how often each was used, succeeded and failed; how often tools follow each other and occur together;
//! for the latest [`REMEMBERED`] traces the direction of the intent, the tools and whether it succeeded; and the weights, its own
//! or those that others have learned. It has no text of an intent and no word of one, no caller, no trace id, no capability, and
//! no time but the day.
//!
//! Whoever reads it trusts it little: every number is checked, its counts are scaled down to [`LARGEST_EVIDENCE`] traces, its
//! weights are held near the prior, and in a ranking it has at most [`LARGEST_SHARE`].

use crate::{
    clock::DAY_MS,
    codec::{Reader, Writer},
    features::{FEATURES, Feature, Features},
    graph::{Counts, Graph},
    learned::Learned,
    memory::{Memory, Remembered},
    model::Settings,
    names::NameId,
    observation::Task,
    ranker::{PRIOR, Ranker},
    snapshot::{
        SnapshotError, read_clock, read_graph, read_memory, read_ranker, seal, unseal, write_clock, write_graph,
        write_memory, write_ranker, write_settings,
    },
};

const MAGIC: &[u8; 8] = b"PMLSHARE";
const VERSION: u32 = 3;
/// What the ids of tools begin with that run capabilities.
const CAPABILITIES: &str = "capabilities:";
/// Longest document that is read.
const LARGEST_BYTES: usize = 16 << 20;
/// Traces whose intents are told, as directions.
pub(crate) const REMEMBERED: usize = 2000;
/// What a document can say, in traces.
pub(crate) const LARGEST_EVIDENCE: f64 = 1000.0;
/// The most that a document counts in a ranking, where what was learned here counts the rest. Below a half: what the search finds
/// best, and nobody here has used yet, stays above what only the document speaks for.
pub(crate) const LARGEST_SHARE: f32 = 0.4;
/// Own traces after which a document counts half of that.
const OWN_TRACES: f64 = 100.0;
/// Weights that are from fewer traces are hardly more than the prior.
const LEAST_EVIDENCE: f64 = 20.0;

/// What others have learned.
#[derive(Clone, Debug)]
pub struct Shared(pub(crate) Learned);

impl Learned {
    /// The document for others. See [`Shared`]. A model that has learned no weights, since nobody has searched for it, can tell
    /// those of others.
    pub fn to_shared(&self, weights: Option<&[Features; 2]>) -> Vec<u8> {
        let mut writer = Writer::default();
        write_settings(&mut writer, &settings(&self.settings));
        let mut clock = self.clock.clone();
        clock.now_ms = clock.epoch_ms + (clock.now_ms - clock.epoch_ms) / DAY_MS * DAY_MS;
        write_clock(&mut writer, &clock);
        let (graph, numbers) = anonymous_graph(&self.graph);
        write_graph(&mut writer, &graph);
        write_memory(&mut writer, &anonymous_memory(&self.memory, &self.settings, &numbers));
        let ranker =
            weights.map(|weights| Ranker { weights: weights.map(|weights| weights.map(f64::from)), ..Ranker::new() });
        write_ranker(&mut writer, ranker.as_ref().unwrap_or(&self.ranker));
        seal(MAGIC, VERSION, &writer.0)
    }

    /// How much others count beside this, from 0 to [`LARGEST_SHARE`].
    pub(crate) fn share_of(&self, others: &Shared) -> f32 {
        if !others.0.is_used(Task::Set) {
            return 0.0;
        }
        let own = self.graph.traces * self.clock.factor();
        LARGEST_SHARE * (OWN_TRACES / (OWN_TRACES + own)) as f32
    }
}

impl Shared {
    /// Reads a document, which anybody may have written.
    pub fn from_bytes(bytes: &[u8], like: &Settings) -> Result<Shared, SnapshotError> {
        if bytes.len() > LARGEST_BYTES {
            return Err(SnapshotError::Damaged);
        }
        let mut reader = Reader(unseal(MAGIC, VERSION, bytes)?);
        let settings = settings(like);
        let mut expected = Writer::default();
        write_settings(&mut expected, &settings);
        reader.0 = reader.0.strip_prefix(&expected.0[..]).ok_or(SnapshotError::Settings)?;
        let mut learned = Learned::new(settings);
        learned.clock = read_clock(&mut reader, learned.settings.half_life_ms)?;
        learned.graph = read_graph(&mut reader)?;
        learned.memory = read_memory(&mut reader, &learned.settings, learned.graph.names.len())?;
        learned.ranker = read_ranker(&mut reader)?;
        if !reader.0.is_empty() {
            return Err(SnapshotError::Damaged);
        }
        bound(&mut learned);
        Ok(Shared(learned))
    }

    /// Traces that it is from, as far as they are believed.
    pub fn evidence(&self) -> f64 {
        self.0.graph.traces * self.0.clock.factor()
    }

    /// Of all tools of a task, and of the next tool.
    pub fn weights(&self) -> [Features; 2] {
        Task::ALL.map(|task| self.0.ranker.weights(task))
    }

    /// Names of the tools that it knows.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.names()
    }
}

/// The mean of the weights that several models have learned, each with the traces that it is from. Whoever tells them is
/// believed within the bounds of a document. `None` if none of them has learned from enough traces.
pub fn mean_weights(told: impl IntoIterator<Item = (f64, [Features; 2])>) -> Option<[Features; 2]> {
    let mut sums = [[0.0; FEATURES]; 2];
    let mut total = 0.0;
    for (evidence, weights) in told {
        let is_finite = evidence.is_finite() && weights.iter().flatten().all(|weight| weight.is_finite());
        if !is_finite || evidence < LEAST_EVIDENCE {
            continue;
        }
        let share = evidence.min(LARGEST_EVIDENCE);
        total += share;
        let bounded = bounded(weights.map(|weights| weights.map(f64::from)));
        let pairs = sums.iter_mut().flatten().zip(bounded.into_iter().flatten());
        pairs.for_each(|(sum, weight)| *sum += share * weight);
    }
    (total > 0.0).then(|| sums.map(|sums| sums.map(|sum| (sum / total) as f32)))
}

/// Weights that are not far from the prior, and above 0 but for that of used tools.
fn bounded(mut weights: [[f64; FEATURES]; 2]) -> [[f64; FEATURES]; 2] {
    for (weights, prior) in weights.iter_mut().zip(&PRIOR) {
        for feature in 0..FEATURES {
            let most = 2.0 * prior[feature].abs() + 1.0;
            let least = if feature == Feature::Used.index() { -most } else { 0.0 };
            weights[feature] = weights[feature].clamp(least, most);
        }
    }
    weights
}

/// Those of a document: what is not told is the same everywhere.
fn settings(like: &Settings) -> Settings {
    Settings {
        dimensions: like.dimensions,
        half_life_ms: like.half_life_ms,
        remembered: REMEMBERED,
        ..Settings::default()
    }
}

/// The same without capabilities, and with days in place of times; and the new number of each name.
fn anonymous_graph(graph: &Graph) -> (Graph, Vec<Option<NameId>>) {
    let day = |time_ms: i64| time_ms - time_ms.rem_euclid(DAY_MS);
    let mut graph = graph.clone();
    let is_capability = |id: NameId, graph: &Graph| {
        let has_run = graph.contained.row(&[id]).next().is_some() && graph.sequences.row(&[id]).next().is_none();
        has_run || graph.names.name(id).starts_with(CAPABILITIES)
    };
    let kept: Vec<bool> = (0..graph.names.len() as NameId).map(|id| !is_capability(id, &graph)).collect();
    graph.contained = Counts::new(graph.contained.capacity);
    let numbers = graph.retain(&kept);
    graph.nodes.iter_mut().for_each(|node| node.last_ms = day(node.last_ms.max(0)));
    let counts = graph.sequences.values_mut().chain(graph.co_occurrences.values_mut());
    counts.chain(graph.pair_sequences.values_mut()).for_each(|count| count.last_ms = day(count.last_ms));
    (graph, numbers)
}

/// The latest traces, of nobody, with tools as they are numbered in the document.
fn anonymous_memory(memory: &Memory, settings: &Settings, numbers: &[Option<NameId>]) -> Memory {
    let mut places: Vec<usize> = (0..memory.traces.len()).filter(|place| memory.traces[*place].has_intent).collect();
    places.sort_by_key(|place| std::cmp::Reverse(memory.traces[*place].number));
    places.truncate(REMEMBERED);
    places.reverse();
    let mut anonymous = Memory::new(settings.dimensions, REMEMBERED);
    anonymous.copy_scale(memory);
    for (number, place) in places.into_iter().enumerate() {
        let trace = &memory.traces[place];
        anonymous.rows.push_row(&memory.rows, place);
        let trace = Remembered { caller: 0, number: number as u64, ..trace.clone() };
        let tools: Vec<NameId> = memory.tools(place).filter_map(|tool| numbers[tool as usize]).collect();
        anonymous.restore(trace, &tools);
    }
    anonymous.next_number = anonymous.traces.len() as u64;
    anonymous
}

/// Holds a document to what one may say.
fn bound(learned: &mut Learned) {
    let factor = learned.clock.factor();
    let claimed = learned.graph.traces.max(learned.graph.nodes.iter().map(|node| node.traces).fold(0.0, f64::max));
    let evidence = claimed * factor;
    if evidence > LARGEST_EVIDENCE {
        learned.graph.rescale(LARGEST_EVIDENCE / evidence);
    }
    // No trace says more than one.
    learned.memory.cap_weights(1.0 / factor.max(f64::MIN_POSITIVE));
    learned.ranker.weights = bounded(learned.ranker.weights);
}
