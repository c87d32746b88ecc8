//! A model as bytes: a magic word, a version, a checksum over the rest, and the rest.
//!
//! The checksum finds damage. Whoever writes bytes on purpose gets past it, so every number is checked as well: indices for their
//! range, counts for being finite and not negative, lengths for their limit before memory is taken.

use sha2::{Digest, Sha256};

use crate::{
    clock::Clock,
    codec::{Reader, Writer},
    evidence::{self, CALLERS, Evidence},
    features::{FEATURES, Feature},
    foresight::{self, Foresight},
    gate::{Gate, WINDOW},
    graph::{Count, Counts, Graph, NAMES, Node},
    matching::{self, Calibration},
    memory::{Memory, Remembered},
    model::{Model, STEPS, Settings},
    names::NameId,
    observation::{Task, TraceId},
    random::Random,
    ranker::{Example, LARGEST_WEIGHT, RIVALS, Ranker},
    replay::{Buffer, CAPACITY, LEAST_PRIORITY, Replay},
    seen::Seen,
    words::{PAIRS, Row, WORDS, Words},
};

const MAGIC: &[u8; 8] = b"PMLLEARN";
/// Rises with every change of the format, of the features, of the meaning of a count or of which traces weights are learned from.
const VERSION: u32 = 6;
const CHECKSUM: usize = 32;
/// No count gets there: `2^64` half-lives' worth of one, times as many traces as there can be.
const LARGEST_COUNT: f64 = 1e60;

/// Why bytes are no model. The model can be rebuilt from stored traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    #[error("these bytes are not a snapshot of a model")]
    Foreign,
    #[error("the snapshot has version {found}, but this program reads version {reads}")]
    Version { found: u32, reads: u32 },
    #[error("the snapshot was written with other settings")]
    Settings,
    #[error("the snapshot is damaged")]
    Damaged,
}

/// A file: what kind it is, its version, a checksum, and the body.
pub(crate) fn seal(magic: &[u8; 8], version: u32, body: &[u8]) -> Vec<u8> {
    [magic, &version.to_le_bytes()[..], &Sha256::digest(body)[..], body].concat()
}

/// The body of a file that was [sealed](seal) with the same kind and version, and has not changed since.
pub(crate) fn unseal<'b>(magic: &[u8; 8], version: u32, bytes: &'b [u8]) -> Result<&'b [u8], SnapshotError> {
    let bytes = bytes.strip_prefix(magic).ok_or(SnapshotError::Foreign)?;
    let (found, bytes) = bytes.split_first_chunk().ok_or(SnapshotError::Damaged)?;
    let found = u32::from_le_bytes(*found);
    if found != version {
        return Err(SnapshotError::Version { found, reads: version });
    }
    let (checksum, body) = bytes.split_at_checked(CHECKSUM).ok_or(SnapshotError::Damaged)?;
    if Sha256::digest(body)[..] == *checksum { Ok(body) } else { Err(SnapshotError::Damaged) }
}

impl Model {
    /// Everything that was learned. A model that is [read back](Self::from_bytes) goes on as this one would.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        self.write(&mut writer);
        seal(MAGIC, VERSION, &writer.0)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) has written with the same settings.
    pub fn from_bytes(bytes: &[u8], settings: Settings) -> Result<Model, SnapshotError> {
        let mut reader = Reader(unseal(MAGIC, VERSION, bytes)?);
        let model = Model::read(&mut reader, settings)?;
        if reader.0.is_empty() { Ok(model) } else { Err(SnapshotError::Damaged) }
    }

    fn write(&self, writer: &mut Writer) {
        write_settings(writer, &self.learned.settings);
        write_clock(writer, &self.learned.clock);
        writer.count(self.seen.iter().len());
        self.seen.iter().for_each(|id| writer.u128(id.0));
        writer.u64(self.learned.traces);
        write_graph(writer, &self.learned.graph);
        write_evidence(writer, &self.evidence);
        write_memory(writer, &self.learned.memory);
        write_words(writer, &self.learned.words);
        write_ranker(writer, &self.learned.ranker);
        for gate in &self.learned.gates {
            writer.count(gate.gains.len());
            gate.gains.iter().for_each(|gain| writer.f32(*gain));
        }
        write_buffer(writer, &self.buffer);
        write_calibration(writer, &self.learned.calibration);
        write_foresight(writer, &self.learned.foresight);
    }

    fn read(reader: &mut Reader<'_>, settings: Settings) -> Result<Model, SnapshotError> {
        let mut expected = Writer::default();
        write_settings(&mut expected, &settings);
        reader.0 = reader.0.strip_prefix(&expected.0[..]).ok_or(SnapshotError::Settings)?;
        let mut model = Model::new(settings);
        model.learned.clock = read_clock(reader, model.learned.settings.half_life_ms)?;
        let mut seen = Seen::default();
        for _ in 0..reader.count(16, usize::MAX)? {
            seen.insert(TraceId(reader.u128()?));
        }
        model.seen = seen;
        model.learned.traces = reader.u64()?;
        model.learned.graph = read_graph(reader)?;
        model.evidence = read_evidence(reader, model.learned.graph.names.len())?;
        model.learned.memory = read_memory(reader, &model.learned.settings, model.learned.graph.names.len())?;
        model.learned.words = read_words(reader, model.learned.graph.names.len())?;
        model.learned.ranker = read_ranker(reader)?;
        for gate in &mut model.learned.gates {
            *gate = Gate::default();
            for _ in 0..reader.count(4, WINDOW)? {
                let gain = reader.f32()?;
                if !(-1.0..=1.0).contains(&gain) {
                    return Err(SnapshotError::Damaged);
                }
                gate.record(gain);
            }
        }
        read_buffer(reader, &mut model.buffer)?;
        model.learned.calibration = read_calibration(reader)?;
        model.learned.foresight = read_foresight(reader)?;
        Ok(model)
    }
}

pub(crate) fn write_settings(writer: &mut Writer, settings: &Settings) {
    let Settings { dimensions, remembered, half_life_ms, replay, seed } = settings;
    writer.count(*dimensions);
    writer.count(*remembered);
    writer.i64(*half_life_ms);
    writer.u8(match replay {
        Replay::None => 0,
        Replay::Uniform => 1,
        Replay::Prioritized => 2,
    });
    writer.u64(*seed);
}

pub(crate) fn write_clock(writer: &mut Writer, clock: &Clock) {
    writer.i64(clock.epoch_ms);
    writer.i64(clock.now_ms);
    writer.flag(clock.is_started);
}

pub(crate) fn read_clock(reader: &mut Reader<'_>, half_life_ms: i64) -> Result<Clock, SnapshotError> {
    let clock = Clock {
        epoch_ms: reader.i64()?,
        now_ms: reader.i64()?,
        is_started: reader.flag()?,
        ..Clock::new(half_life_ms)
    };
    let age_ms = clock.now_ms.saturating_sub(clock.epoch_ms);
    if (0..=clock.span_ms()).contains(&age_ms) { Ok(clock) } else { Err(SnapshotError::Damaged) }
}

pub(crate) fn write_graph(writer: &mut Writer, graph: &Graph) {
    writer.count(graph.names.len());
    for (name, node) in graph.names.iter().zip(&graph.nodes) {
        writer.text(name);
        [node.traces, node.succeeded, node.failed].into_iter().for_each(|count| writer.f64(count));
        writer.i64(node.last_ms);
    }
    writer.f64(graph.traces);
    write_counts(writer, &graph.sequences);
    write_counts(writer, &graph.pair_sequences);
    write_counts(writer, &graph.co_occurrences);
    write_counts(writer, &graph.contained);
}

pub(crate) fn read_graph(reader: &mut Reader<'_>) -> Result<Graph, SnapshotError> {
    let mut graph = Graph::new();
    let names = reader.count(40, NAMES)?;
    for number in 0..names {
        if graph.intern(reader.text()?) as usize != number {
            return Err(SnapshotError::Damaged); // a name twice
        }
        graph.nodes[number] =
            Node { traces: count(reader)?, succeeded: count(reader)?, failed: count(reader)?, last_ms: reader.i64()? };
    }
    graph.traces = count(reader)?;
    read_counts(reader, &mut graph.sequences, names)?;
    read_counts(reader, &mut graph.pair_sequences, names)?;
    read_counts(reader, &mut graph.co_occurrences, names)?;
    read_counts(reader, &mut graph.contained, names)?;
    Ok(graph)
}

fn write_counts<const N: usize>(writer: &mut Writer, counts: &Counts<N>) {
    writer.count(counts.len());
    for (key, count) in counts.iter() {
        key.iter().for_each(|part| writer.u32(*part));
        writer.f64(count.weight);
        writer.u32(count.count);
        writer.i64(count.last_ms);
    }
}

fn read_counts<const N: usize>(
    reader: &mut Reader<'_>,
    counts: &mut Counts<N>,
    names: usize,
) -> Result<(), SnapshotError> {
    let mut before: Option<[NameId; N]> = None;
    for _ in 0..reader.count(20 + 4 * N, counts.capacity)? {
        let mut key: [NameId; N] = [0; N];
        for part in &mut key {
            *part = reader.index(names)?;
        }
        // They are written in order. In another order, putting them in place could be made to take seconds.
        if before.replace(key).is_some_and(|before| before >= key) {
            return Err(SnapshotError::Damaged);
        }
        counts.insert(key, Count { weight: count(reader)?, count: reader.u32()?, last_ms: reader.i64()? });
    }
    Ok(())
}

fn write_evidence(writer: &mut Writer, evidence: &Evidence) {
    let mut callers: Vec<_> = evidence.callers.iter().collect();
    callers.sort_by_key(|(_, id)| **id);
    writer.count(callers.len());
    callers.iter().for_each(|(name, _)| writer.text(name));
    writer.count(evidence.said.len());
    for ((caller, tool), said) in &evidence.said {
        writer.u32(*caller);
        writer.u32(*tool);
        writer.f64(*said);
    }
}

fn read_evidence(reader: &mut Reader<'_>, names: usize) -> Result<Evidence, SnapshotError> {
    let mut evidence = Evidence::default();
    for number in 0..reader.count(8, CALLERS)? {
        if evidence.caller(reader.text()?) as usize != number {
            return Err(SnapshotError::Damaged);
        }
    }
    for _ in 0..reader.count(16, evidence::PAIRS)? {
        let key = (reader.index(CALLERS + 1)?, reader.index(names)?);
        evidence.said.insert(key, count(reader)?);
    }
    Ok(evidence)
}

pub(crate) fn write_memory(writer: &mut Writer, memory: &Memory) {
    writer.u64(memory.next_number);
    writer.f64(memory.mean);
    writer.f64(memory.square);
    writer.u64(memory.observed);
    writer.count(memory.traces.len());
    for (place, trace) in memory.traces.iter().enumerate() {
        writer.f64(trace.weight);
        writer.flag(trace.success);
        writer.flag(trace.has_intent);
        writer.u32(trace.caller);
        writer.u64(trace.number);
        let tools = memory.tools(place);
        writer.count(tools.len());
        tools.for_each(|tool| writer.u32(tool));
        if trace.has_intent {
            let (numbers, step) = memory.rows.row(place);
            writer.f32(step);
            numbers.for_each(|number| writer.i8(number));
        }
    }
}

pub(crate) fn read_memory(reader: &mut Reader<'_>, settings: &Settings, names: usize) -> Result<Memory, SnapshotError> {
    let mut memory = Memory::new(settings.dimensions, settings.remembered);
    memory.next_number = reader.u64()?;
    memory.mean = reader.within(-1.01, 1.01)?;
    memory.square = reader.within(0.0, 1.01)?;
    memory.observed = reader.u64()?;
    let mut row = vec![0_i8; memory.rows.row_len()];
    for _ in 0..reader.count(30, memory.capacity)? {
        let trace = Remembered {
            weight: count(reader)?,
            success: reader.flag()?,
            has_intent: reader.flag()?,
            caller: reader.index(CALLERS + 1)?,
            number: reader.u64()?,
        };
        let tools = reader.count(4, STEPS)?;
        let tools: Vec<NameId> = (0..tools).map(|_| reader.index(names)).collect::<Result<_, _>>()?;
        row.fill(0);
        let mut step = 0.0;
        if trace.has_intent {
            step = reader.f32()?;
            for number in &mut row {
                *number = reader.i8()?;
            }
            // A direction has the length 1, but for rounding.
            let length: f64 = row.iter().map(|number| (f64::from(*number) * f64::from(step)).powi(2)).sum();
            if !(step >= 0.0 && length < 1.2) {
                return Err(SnapshotError::Damaged);
            }
        }
        memory.rows.push(&row, step);
        memory.restore(trace, &tools);
    }
    Ok(memory)
}

fn write_words(writer: &mut Writer, words: &Words) {
    writer.f64(words.all);
    writer.count(words.rows.len());
    for (word, row) in &words.rows {
        writer.u32(*word);
        writer.f64(row.traces);
        writer.count(row.tools.len());
        for (tool, count) in &row.tools {
            writer.u32(*tool);
            writer.f64(*count);
        }
    }
}

fn read_words(reader: &mut Reader<'_>, names: usize) -> Result<Words, SnapshotError> {
    let mut words = Words::default();
    words.all = count(reader)?;
    let mut left = PAIRS;
    for _ in 0..reader.count(20, WORDS)? {
        let word = reader.u32()?;
        let mut row = Row { traces: count(reader)?, tools: Vec::new() };
        for _ in 0..reader.count(12, left)? {
            let tool = reader.index(names)?;
            if row.tools.last().is_some_and(|(last, _)| *last >= tool) {
                return Err(SnapshotError::Damaged);
            }
            row.tools.push((tool, count(reader)?));
        }
        left -= row.tools.len();
        words.restore(word, row);
    }
    Ok(words)
}

pub(crate) fn write_ranker(writer: &mut Writer, ranker: &Ranker) {
    for numbers in ranker.weights.iter().chain(&ranker.squares) {
        numbers.iter().for_each(|number| writer.f64(*number));
    }
    writer.f64(ranker.repeats);
    writer.f64(ranker.nexts);
}

pub(crate) fn read_ranker(reader: &mut Reader<'_>) -> Result<Ranker, SnapshotError> {
    let mut ranker = Ranker::new();
    for weights in &mut ranker.weights {
        for (feature, weight) in weights.iter_mut().enumerate() {
            let least = if feature == Feature::Used.index() { -LARGEST_WEIGHT } else { 0.0 };
            *weight = reader.within(least, LARGEST_WEIGHT)?;
        }
    }
    for square in ranker.squares.iter_mut().flatten() {
        *square = reader.within(1.0, LARGEST_COUNT)?;
    }
    ranker.repeats = count(reader)?;
    ranker.nexts = reader.within(ranker.repeats, LARGEST_COUNT)?;
    Ok(ranker)
}

fn write_buffer(writer: &mut Writer, buffer: &Buffer) {
    writer.count(buffer.next);
    writer.u64(buffer.draws);
    writer.u64(buffer.random.0);
    writer.count(buffer.examples.len());
    for (example, priority) in buffer.examples.iter().zip(&buffer.priorities) {
        writer.f64(*priority);
        writer.flag(example.task == Task::Next);
        writer.count(example.used);
        writer.count(example.features.len());
        example.features.iter().flatten().for_each(|number| writer.f32(*number));
    }
}

fn read_buffer(reader: &mut Reader<'_>, buffer: &mut Buffer) -> Result<(), SnapshotError> {
    let next = usize::try_from(reader.u64()?).ok().filter(|next| *next < CAPACITY).ok_or(SnapshotError::Damaged)?;
    buffer.draws = reader.u64()?;
    let random = Random(reader.u64()?);
    for _ in 0..reader.count(25, CAPACITY)? {
        let priority = reader.within(LEAST_PRIORITY, 1.0)?;
        let task = if reader.flag()? { Task::Next } else { Task::Set };
        let used = reader.count(4 * FEATURES, STEPS)?;
        let features = reader.count(4 * FEATURES, STEPS + RIVALS)?;
        let mut example = Example { task, used, features: Vec::with_capacity(features) };
        for _ in 0..features {
            let mut row = [0.0; FEATURES];
            for number in &mut row {
                *number = reader.f32()?;
            }
            if row.iter().enumerate().any(|(index, number)| !(0.0..=Feature::largest(index)).contains(number)) {
                return Err(SnapshotError::Damaged);
            }
            example.features.push(row);
        }
        if used == 0 || used > features {
            return Err(SnapshotError::Damaged);
        }
        buffer.push(example, priority);
    }
    if next != buffer.next && !(buffer.examples.len() == CAPACITY || buffer.examples.is_empty()) {
        return Err(SnapshotError::Damaged);
    }
    buffer.next = next;
    buffer.random = random;
    Ok(())
}

fn write_calibration(writer: &mut Writer, calibration: &Calibration) {
    let Calibration { weights, squares, bins, asked } = calibration;
    weights.iter().chain(squares).for_each(|number| writer.f64(*number));
    bins.iter().flat_map(|(right, all)| [*right, *all]).for_each(|number| writer.f64(number));
    writer.u64(*asked);
}

fn read_calibration(reader: &mut Reader<'_>) -> Result<Calibration, SnapshotError> {
    let mut calibration = Calibration::new();
    for (term, weight) in calibration.weights.iter_mut().enumerate() {
        let least = if term == 0 { -matching::LARGEST_WEIGHT } else { 0.0 };
        *weight = reader.within(least, matching::LARGEST_WEIGHT)?;
    }
    for square in &mut calibration.squares {
        *square = reader.within(1.0, LARGEST_COUNT)?;
    }
    for (right, all) in &mut calibration.bins {
        *right = count(reader)?;
        *all = reader.within(*right, LARGEST_COUNT)?;
    }
    calibration.asked = reader.u64()?;
    Ok(calibration)
}

fn write_foresight(writer: &mut Writer, foresight: &Foresight) {
    let Foresight { cells, outcomes, made, used } = foresight;
    for (right, all) in cells {
        writer.f64(*right);
        writer.f64(*all);
    }
    writer.count(outcomes.len());
    outcomes.iter().for_each(|is_good| writer.flag(*is_good));
    writer.u64(*made);
    writer.u64(*used);
}

fn read_foresight(reader: &mut Reader<'_>) -> Result<Foresight, SnapshotError> {
    let mut foresight = Foresight::default();
    for (right, all) in &mut foresight.cells {
        *right = reader.within(0.0, foresight::FADING)?;
        *all = reader.within(*right, foresight::FADING)?;
    }
    for _ in 0..reader.count(1, foresight::WINDOW)? {
        foresight.outcomes.push_back(reader.flag()?);
    }
    foresight.made = reader.u64()?;
    foresight.used = Some(reader.u64()?).filter(|used| *used <= foresight.made).ok_or(SnapshotError::Damaged)?;
    Ok(foresight)
}

/// A count: not negative, and finite.
pub(crate) fn count(reader: &mut Reader<'_>) -> Result<f64, SnapshotError> {
    reader.within(0.0, LARGEST_COUNT)
}
