//! How much one caller can say for one tool.
//!
//! The more a caller has said for a tool already, the less the next trace adds: `1 - said / MOST`. What was said fades like every
//! count, so a tool in daily use stays known, and a program that calls one tool ten thousand times says no more than
//! [`MOST`].

use std::collections::{BTreeMap, HashMap};

use crate::names::NameId;

/// What one caller can say for one tool, in traces.
pub(crate) const MOST: f64 = 300.0;
/// Callers that are told apart; all others count as one.
pub(crate) const CALLERS: usize = 1024;
/// Pairs of caller and tool that are kept.
pub(crate) const PAIRS: usize = 131_072;

pub(crate) type CallerId = u32;

#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) callers: HashMap<Box<str>, CallerId>,
    /// In units of the epoch.
    pub(crate) said: BTreeMap<(CallerId, NameId), f64>,
}

impl Evidence {
    pub(crate) fn caller(&mut self, name: &str) -> CallerId {
        if let Some(id) = self.callers.get(name) {
            return *id;
        }
        let id = self.callers.len() as CallerId;
        if self.callers.len() < CALLERS {
            self.callers.insert(name.into(), id);
        }
        id
    }

    /// What a trace of a caller says for a tool, from 0 to 1, and notes that it was said. `weight` is that of the trace's time.
    pub(crate) fn admit(&mut self, caller: CallerId, tool: NameId, weight: f64, factor: f64) -> f64 {
        let said = self.said.entry((caller, tool)).or_default();
        let share = (1.0 - *said * factor / MOST).clamp(0.0, 1.0);
        *said += share * weight;
        if self.said.len() > PAIRS {
            let mut order: Vec<(f64, (CallerId, NameId))> = self.said.iter().map(|(key, said)| (*said, *key)).collect();
            order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for (_, key) in &order[..PAIRS / 4] {
                self.said.remove(key);
            }
        }
        share
    }

    pub(crate) fn rescale(&mut self, factor: f64) {
        self.said.values_mut().for_each(|said| *said *= factor);
    }

    pub(crate) fn renumber(&mut self, numbers: &[Option<NameId>]) {
        let old = std::mem::take(&mut self.said);
        self.said.extend(
            old.into_iter().filter_map(|((caller, tool), said)| Some(((caller, numbers[tool as usize]?), said))),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_says_no_more_than_the_most() {
        let mut evidence = Evidence::default();
        let (loud, quiet) = (evidence.caller("loud"), evidence.caller("quiet"));
        let said: f64 = (0..10_000).map(|_| evidence.admit(loud, 1, 1.0, 1.0)).sum();
        assert!((said - MOST).abs() < 1e-6, "{said}");
        assert_eq!(evidence.admit(loud, 2, 1.0, 1.0), 1.0);
        assert_eq!(evidence.admit(quiet, 1, 1.0, 1.0), 1.0);
    }

    #[test]
    fn what_was_said_fades() {
        let mut evidence = Evidence::default();
        let caller = evidence.caller("c");
        for _ in 0..10_000 {
            evidence.admit(caller, 1, 1.0, 1.0);
        }
        let share = evidence.admit(caller, 1, 1.0, 0.5); // a half-life later
        assert!((share - 0.5).abs() < 0.01, "{share}");
    }

    #[test]
    fn callers_and_pairs_are_bounded() {
        let mut evidence = Evidence::default();
        let ids: Vec<CallerId> = (0..3000).map(|number| evidence.caller(&number.to_string())).collect();
        assert_eq!((ids[5], ids[CALLERS], ids[2999]), (5, CALLERS as CallerId, CALLERS as CallerId));
        for tool in 0..PAIRS as NameId + 10 {
            evidence.admit(0, tool, 1.0, 1.0);
        }
        assert!(evidence.said.len() <= PAIRS);
    }
}
