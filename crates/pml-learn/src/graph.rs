//! How often tools are used, succeed, follow each other and occur together.
//!
//! Counts fade with time (see `clock`) and are bounded: where there are too many, the weakest quarter is forgotten.

use std::{collections::BTreeMap, sync::Arc};

use crate::names::{NameId, Names};

/// Tools and capabilities that are known. Each name more than this makes the least used quarter be forgotten.
pub(crate) const NAMES: usize = 32_768;
const SEQUENCES: usize = 65_536;
const PAIR_SEQUENCES: usize = 65_536;
/// Both directions of each pair are kept.
const CO_OCCURRENCES: usize = 131_072;
const CONTAINED: usize = 32_768;
/// Distinct tools of one trace that are counted as occurring together.
const TOGETHER: usize = 24;

/// What one name says about another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// A capability has called a tool.
    Contains,
    /// A tool was called right after another.
    Sequence,
    /// Two tools were called in one execution. Told once per pair.
    CoOccurs,
}

/// A line of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub kind: EdgeKind,
    pub from: Arc<str>,
    pub to: Arc<str>,
    /// How often it was seen.
    pub count: u32,
    /// The same with old observations fading, and with a bound on what one caller can add.
    pub weight: f64,
    /// The latest time it was seen, in milliseconds since 1970.
    pub last_ms: i64,
}

/// A tool that has to do with another.
#[derive(Clone, Debug, PartialEq)]
pub struct Related {
    pub tool: Arc<str>,
    /// [`EdgeKind::Sequence`] if it mostly comes next, [`EdgeKind::CoOccurs`] if the two are used in one execution.
    pub kind: EdgeKind,
    pub count: u32,
    /// From 0 to 1.
    pub strength: f64,
}

/// How a tool has done. Numbers fade with time.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolStatistics {
    pub succeeded: f64,
    pub failed: f64,
    /// The mean of a Beta distribution that starts at one success and one failure.
    pub success_rate: f64,
    /// When it was last called, in milliseconds since 1970.
    pub last_ms: i64,
}

/// What is kept of a tool or a capability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Node {
    /// Traces that have used it.
    pub(crate) traces: f64,
    pub(crate) succeeded: f64,
    pub(crate) failed: f64,
    pub(crate) last_ms: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Count {
    pub(crate) weight: f64,
    pub(crate) count: u32,
    pub(crate) last_ms: i64,
}

/// Counts by the names that they are about. All that begin with the same names are a row, in order and in one place: rankings
/// read whole rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counts<const N: usize> {
    /// By the key with a last part of 0.
    rows: BTreeMap<[NameId; N], Vec<(NameId, Count)>>,
    len: usize,
    pub(crate) capacity: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) names: Names,
    /// Of each name.
    pub(crate) nodes: Vec<Node>,
    /// Traces in all.
    pub(crate) traces: f64,
    pub(crate) sequences: Counts<2>,
    pub(crate) pair_sequences: Counts<3>,
    pub(crate) co_occurrences: Counts<2>,
    pub(crate) contained: Counts<2>,
}

impl<const N: usize> Counts<N> {
    pub(crate) fn new(capacity: usize) -> Counts<N> {
        Counts { rows: BTreeMap::new(), len: 0, capacity }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All entries, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ([NameId; N], &Count)> {
        self.rows.iter().flat_map(|(key, row)| row.iter().map(|(last, count)| (with_last(*key, *last), count)))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Count> {
        self.rows.values_mut().flatten().map(|(_, count)| count)
    }

    /// Sets an entry. Those that come in the order of their keys are appended.
    pub(crate) fn insert(&mut self, key: [NameId; N], count: Count) {
        *self.entry(key, count) = count;
    }

    /// The entry of a key, which is made if there is none.
    fn entry(&mut self, key: [NameId; N], new: Count) -> &mut Count {
        let row = self.rows.entry(with_last(key, 0)).or_default();
        let at = match row.binary_search_by_key(&key[N - 1], |(last, _)| *last) {
            Ok(at) => at,
            Err(at) => {
                row.insert(at, (key[N - 1], new));
                self.len += 1;
                at
            }
        };
        &mut row[at].1
    }

    pub(crate) fn add(&mut self, key: [NameId; N], weight: f64, time_ms: i64) {
        let entry = self.entry(key, Count { last_ms: time_ms, ..Count::default() });
        entry.weight += weight;
        entry.count = entry.count.saturating_add(1);
        entry.last_ms = entry.last_ms.max(time_ms);
        if self.len > self.capacity {
            self.forget_weakest();
        }
    }

    pub(crate) fn get(&self, key: [NameId; N]) -> Option<&Count> {
        let row = self.rows.get(&with_last(key, 0))?;
        let at = row.binary_search_by_key(&key[N - 1], |(last, _)| *last).ok()?;
        Some(&row[at].1)
    }

    /// All entries whose key begins with all of `start`, one name less than a key has, by the last part of their key.
    pub(crate) fn row<'c>(&'c self, start: &[NameId]) -> impl Iterator<Item = (NameId, &'c Count)> + use<'c, N> {
        let mut key = [0; N];
        key[..N - 1].copy_from_slice(start);
        self.rows.get(&key).into_iter().flatten().map(|(last, count)| (*last, count))
    }

    fn forget_weakest(&mut self) {
        let mut order: Vec<(f64, i64, [NameId; N])> =
            self.iter().map(|(key, count)| (count.weight, count.last_ms, key)).collect();
        let count = order.len() - self.capacity * 3 / 4;
        order.select_nth_unstable_by(count - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let mut gone: Vec<[NameId; N]> = order[..count].iter().map(|(.., key)| *key).collect();
        gone.sort_unstable();
        self.keep(|key, _| gone.binary_search(&key).is_err().then_some(key));
    }

    /// Keeps the entries that get a key, under that key.
    fn keep(&mut self, new_key: impl Fn([NameId; N], &Count) -> Option<[NameId; N]>) {
        let old = std::mem::replace(self, Counts::new(self.capacity));
        for (key, count) in old.iter() {
            if let Some(key) = new_key(key, count) {
                self.insert(key, *count);
            }
        }
    }

    fn rescale(&mut self, factor: f64) {
        self.values_mut().for_each(|count| count.weight *= factor);
    }

    /// Gives names their new numbers; what is about a name that is gone goes.
    fn renumber(&mut self, numbers: &[Option<NameId>]) {
        self.keep(|mut key, _| {
            for part in &mut key {
                *part = numbers[*part as usize]?;
            }
            Some(key)
        });
    }
}

fn with_last<const N: usize>(mut key: [NameId; N], last: NameId) -> [NameId; N] {
    key[N - 1] = last;
    key
}

impl Graph {
    pub(crate) fn new() -> Graph {
        Graph {
            names: Names::default(),
            nodes: Vec::new(),
            traces: 0.0,
            sequences: Counts::new(SEQUENCES),
            pair_sequences: Counts::new(PAIR_SEQUENCES),
            co_occurrences: Counts::new(CO_OCCURRENCES),
            contained: Counts::new(CONTAINED),
        }
    }

    pub(crate) fn intern(&mut self, name: &str) -> NameId {
        let id = self.names.intern(name);
        if self.nodes.len() < self.names.len() {
            self.nodes.push(Node { last_ms: i64::MIN, ..Node::default() });
        }
        id
    }

    /// Counts how a call ended.
    pub(crate) fn add_outcome(&mut self, tool: NameId, is_success: bool, weight: f64, time_ms: i64) {
        let node = &mut self.nodes[tool as usize];
        *(if is_success { &mut node.succeeded } else { &mut node.failed }) += weight;
        node.last_ms = node.last_ms.max(time_ms);
    }

    /// Counts a trace: the tools that succeeded, in their order, each with the weight of the trace for it.
    pub(crate) fn add_trace(&mut self, tools: &[(NameId, f64)], capability: Option<NameId>, time_ms: i64) {
        let distinct = distinct(tools);
        self.traces += distinct.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
        for (tool, weight) in &distinct {
            self.nodes[*tool as usize].traces += weight;
        }
        for pair in tools.windows(2) {
            self.sequences.add([pair[0].0, pair[1].0], pair[0].1.max(pair[1].1), time_ms);
        }
        for triple in tools.windows(3) {
            let weight = triple[0].1.max(triple[1].1).max(triple[2].1);
            self.pair_sequences.add([triple[0].0, triple[1].0, triple[2].0], weight, time_ms);
        }
        for (place, (first, first_weight)) in distinct.iter().take(TOGETHER).enumerate() {
            for (second, second_weight) in distinct.iter().take(TOGETHER).skip(place + 1) {
                let weight = first_weight.max(*second_weight);
                self.co_occurrences.add([*first, *second], weight, time_ms);
                self.co_occurrences.add([*second, *first], weight, time_ms);
            }
        }
        if let Some(capability) = capability {
            let node = &mut self.nodes[capability as usize];
            node.traces += distinct.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
            node.last_ms = node.last_ms.max(time_ms);
            for (tool, weight) in &distinct {
                self.contained.add([capability, *tool], *weight, time_ms);
            }
        }
    }

    pub(crate) fn rescale(&mut self, factor: f64) {
        self.traces *= factor;
        for node in &mut self.nodes {
            node.traces *= factor;
            node.succeeded *= factor;
            node.failed *= factor;
        }
        self.sequences.rescale(factor);
        self.pair_sequences.rescale(factor);
        self.co_occurrences.rescale(factor);
        self.contained.rescale(factor);
    }

    /// Forgets the least used quarter of names if there are more than `room`. The answer has the new number of each name,
    /// `None` if nothing has changed.
    pub(crate) fn make_room(&mut self, room: usize) -> Option<Vec<Option<NameId>>> {
        if self.names.len() <= room {
            return None;
        }
        let mut order: Vec<NameId> = (0..self.names.len() as NameId).collect();
        order.sort_unstable_by(|a, b| {
            let [first, second] = [a, b].map(|id| &self.nodes[*id as usize]);
            let by_use = second.traces.total_cmp(&first.traces).then(second.last_ms.cmp(&first.last_ms));
            by_use.then_with(|| self.names.name(*a).cmp(self.names.name(*b)))
        });
        let mut is_kept = vec![false; order.len()];
        order.iter().take(room * 3 / 4).for_each(|id| is_kept[*id as usize] = true);
        Some(self.retain(&is_kept))
    }

    /// Forgets all other names. The answer has the new number of each name.
    pub(crate) fn retain(&mut self, is_kept: &[bool]) -> Vec<Option<NameId>> {
        let numbers = self.names.retain(|id| is_kept[id as usize]);
        let mut kept = is_kept.iter();
        self.nodes.retain(|_| kept.next().copied().unwrap_or_default());
        self.sequences.renumber(&numbers);
        self.pair_sequences.renumber(&numbers);
        self.co_occurrences.renumber(&numbers);
        self.contained.renumber(&numbers);
        numbers
    }

    pub(crate) fn statistics(&self, tool: &str, factor: f64) -> Option<ToolStatistics> {
        let node = &self.nodes[self.names.id(tool)? as usize];
        let (succeeded, failed) = (node.succeeded * factor, node.failed * factor);
        let success_rate = (succeeded + 1.0) / (succeeded + failed + 2.0);
        Some(ToolStatistics { succeeded, failed, success_rate, last_ms: node.last_ms })
    }

    pub(crate) fn edges(&self, factor: f64) -> impl Iterator<Item = Edge> {
        let of = move |kind: EdgeKind, key: [NameId; 2], count: &Count| Edge {
            kind,
            from: Arc::clone(self.names.name(key[0])),
            to: Arc::clone(self.names.name(key[1])),
            count: count.count,
            weight: count.weight * factor,
            last_ms: count.last_ms,
        };
        let contains = self.contained.iter().map(move |(key, count)| of(EdgeKind::Contains, key, count));
        let sequences = self.sequences.iter().map(move |(key, count)| of(EdgeKind::Sequence, key, count));
        let pairs = self.co_occurrences.iter().filter(|(key, _)| key[0] < key[1]);
        contains.chain(sequences).chain(pairs.map(move |(key, count)| of(EdgeKind::CoOccurs, key, count)))
    }

    /// The tools that have most to do with one, strongest first.
    pub(crate) fn related(&self, tool: &str, limit: usize, factor: f64, doubt: f64) -> Vec<Related> {
        let Some(id) = self.names.id(tool) else { return Vec::new() };
        let followers: f64 = self.sequences.row(&[id]).map(|(_, count)| count.weight).sum::<f64>() * factor;
        let mut best: BTreeMap<NameId, Related> = BTreeMap::new();
        let mut offer = |other: NameId, kind: EdgeKind, count: u32, strength: f64| {
            if other != id && best.get(&other).is_none_or(|known| known.strength < strength) {
                best.insert(other, Related { tool: Arc::clone(self.names.name(other)), kind, count, strength });
            }
        };
        for (other, count) in self.co_occurrences.row(&[id]) {
            let strength = count.weight * factor / (self.geometric_mean(id, other) * factor + doubt);
            offer(other, EdgeKind::CoOccurs, count.count, strength);
        }
        for (other, count) in self.sequences.row(&[id]) {
            offer(other, EdgeKind::Sequence, count.count, count.weight * factor / (followers + doubt));
        }
        let mut related: Vec<Related> = best.into_values().collect();
        related.sort_by(|a, b| b.strength.total_cmp(&a.strength).then_with(|| a.tool.cmp(&b.tool)));
        related.truncate(limit);
        related
    }

    /// Of the traces of two tools, in units of the epoch.
    pub(crate) fn geometric_mean(&self, a: NameId, b: NameId) -> f64 {
        // Two roots: the product of two counts that grow with the epoch may overflow.
        self.nodes[a as usize].traces.sqrt() * self.nodes[b as usize].traces.sqrt()
    }
}

/// Each tool once, where it first occurs.
fn distinct(tools: &[(NameId, f64)]) -> Vec<(NameId, f64)> {
    let mut distinct: Vec<(NameId, f64)> = Vec::with_capacity(tools.len());
    for (tool, weight) in tools {
        if !distinct.iter().any(|(known, _)| known == tool) {
            distinct.push((*tool, *weight));
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weakest_are_forgotten_and_the_strongest_stay() {
        let mut counts: Counts<2> = Counts::new(100);
        for round in 0..300 {
            counts.add([7, 8], 1.0, round);
            counts.add([1000, round as NameId], 0.5, round);
            assert!(counts.len() <= 100 && counts.len() == counts.iter().count());
        }
        assert_eq!(counts.get([7, 8]).map(|count| count.count), Some(300));
        assert_eq!(counts.row(&[1000]).last().map(|(last, _)| last), Some(299), "of equally weak ones the oldest go");
    }

    #[test]
    fn names_that_go_take_their_edges_with_them() {
        let mut graph = Graph::new();
        for round in 0..20 {
            let [common, rare] = ["common".to_owned(), format!("rare{round}")].map(|name| graph.intern(&name));
            graph.add_outcome(rare, true, 1.0, round);
            graph.add_trace(&[(common, 1.0), (rare, 1.0)], None, round);
            if let Some(numbers) = graph.make_room(8) {
                assert_eq!(numbers.iter().flatten().count(), 6);
            }
            assert!(graph.names.len() <= 8 && graph.nodes.len() == graph.names.len());
        }
        assert!(graph.names.id("rare0").is_none());
        for edge in graph.edges(1.0) {
            assert!(graph.names.id(&edge.from).is_some() && graph.names.id(&edge.to).is_some());
        }
        let statistics = graph.nodes[graph.names.id("common").unwrap() as usize];
        assert_eq!(statistics.traces, 20.0);
    }

    #[test]
    fn related_tools_say_how() {
        let mut graph = Graph::new();
        let [list, get, send] = ["list", "get", "send"].map(|name| graph.intern(name));
        for round in 0..10 {
            graph.add_trace(&[(list, 1.0), (get, 1.0)], None, round);
        }
        graph.add_trace(&[(list, 1.0), (get, 1.0), (send, 1.0)], None, 11);
        let related = graph.related("list", 10, 1.0, 2.0);
        let told: Vec<_> = related.iter().map(|other| (&*other.tool, other.kind, other.count)).collect();
        assert_eq!(told, [("get", EdgeKind::CoOccurs, 11), ("send", EdgeKind::CoOccurs, 1)]);
        assert_eq!(graph.related("unknown", 10, 1.0, 2.0), []);
    }
}
