//! Draws traces by their priority.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{
    Sample, Sampled, StoreError,
    query::{self, View},
};
use crate::trace::SanitizedTrace;

/// A number that sorts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Key(f64);

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Traces with their priority and their chance in one draw among all.
///
/// Draws without putting back, in one pass: of keys `ln(u) / weight`, with `u` uniform in (0, 1), the largest are a sample
/// in which each has a chance in proportion to its weight (Efraimidis and Spirakis, 2006).
pub(super) fn draw(
    view: View<'_>,
    count: usize,
    exponent: f64,
    seed: u64,
    max_bytes: usize,
) -> Result<Sample, StoreError> {
    let mut kept: BinaryHeap<Reverse<(Key, i64)>> = BinaryHeap::new();
    let mut weights = 0.0;
    let mut random = SplitMix(seed);
    let weight = |priority: f64| priority.clamp(0.0, 1.0).powf(exponent);
    let mut drawn = std::collections::HashMap::new();
    query::priorities(view, |seq, priority| {
        let uniform = random.uniform();
        let weight = weight(priority);
        if weight <= 0.0 || !weight.is_finite() {
            return;
        }
        weights += weight;
        let key = Key(uniform.ln() / weight);
        if kept.len() < count {
            kept.push(Reverse((key, seq)));
        } else if let Some(mut least) = kept.peek_mut()
            && least.0.0 < key
        {
            drawn.remove(&least.0.1);
            *least = Reverse((key, seq));
        } else {
            return;
        }
        drawn.insert(seq, (priority, weight));
    })
    .map_err(StoreError::reading)?;
    let (mut sample, mut bytes) = (Sample::default(), 0);
    for Reverse((_, seq)) in kept.into_sorted_vec() {
        let (priority, weight) = drawn.get(&seq).copied().unwrap_or_default();
        // Deleted meanwhile, otherwise.
        let Some(stored) = query::by_number(view, seq)? else { continue };
        bytes += stored.size();
        if sample.left > 0 || bytes > max_bytes && !sample.traces.is_empty() {
            sample.left += 1;
            continue;
        }
        let trace = SanitizedTrace::new(stored.trace()?);
        sample.traces.push(Sampled { trace, priority, probability: weight / weights });
    }
    Ok(sample)
}

/// Enough randomness to draw samples, and the same on every machine.
struct SplitMix(u64);

impl SplitMix {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        // 53 bits, and never 0, which has no logarithm.
        ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
}
