//! What the gateways of a project have learned and their traces do not say: the shapes of results, and weights.
//!
//! Each gateway's contribution takes the place of its last one, so that what is told twice counts once. They are stored as one
//! model, of which a change never overwrites another.

use std::collections::BTreeMap;

use pml_learn::{FEATURES, Features, mean_weights};
use pml_wire::hub::Contribution;
use serde::{Deserialize, Serialize};

use super::store::{Models, PutModel};
use crate::trace::{Shapes, store::StoreError};

/// The name under which they are stored.
const NAME: &str = "contributions";
/// Gateways of a project that are told apart. Of more, the oldest contribution of the key that has most of them goes.
const MOST: usize = 64;
/// Size of all contributions together, as they are stored.
const MAX_BYTES: usize = 16 << 20;
/// A gateway that has not been heard of for so long does not count.
const KEPT_MS: u64 = 180 * 24 * 60 * 60 * 1000;
/// A contribution that has not changed is stored again after so long, so that it is kept.
const RENEWED_MS: u64 = 24 * 60 * 60 * 1000;
/// How often to try while others change the contributions at the same time.
const TRIES: usize = 8;

/// What the gateways of a project have told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Contributions {
    /// By key and gateway.
    told: BTreeMap<String, Told>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Told {
    key: String,
    at_ms: u64,
    evidence: f64,
    weights: [Vec<f32>; 2],
    types: Shapes,
}

/// What all of them say together.
#[derive(Debug, Default)]
pub(super) struct Together {
    pub(super) shapes: Shapes,
    pub(super) weights: Option<[Features; 2]>,
}

impl Contributions {
    /// Those that are stored, and their tag. What cannot be read is nothing: gateways tell it again.
    pub(super) async fn stored(models: &dyn Models) -> Result<(Contributions, Option<String>), StoreError> {
        let stored = models.get(NAME).await?;
        let read = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap_or_default();
        Ok(stored.map_or_else(Default::default, |model| (read(&model.bytes), Some(model.etag))))
    }

    /// The tag of those that are stored.
    pub(super) async fn tag(models: &dyn Models) -> Result<Option<String>, StoreError> {
        models.etag(NAME).await
    }

    /// Stores what a gateway tells, in place of what it has told before.
    pub(super) async fn store(
        models: &dyn Models,
        key: &str,
        contribution: Contribution<Shapes>,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        for _ in 0..TRIES {
            let (mut all, tag) = Contributions::stored(models).await?;
            if !all.take(key, contribution.clone(), now_ms) {
                return Ok(());
            }
            let bytes = all.bounded_bytes();
            if let PutModel::Stored { .. } = models.put(NAME, bytes, Some(tag)).await? {
                return Ok(());
            }
        }
        Err(StoreError::Failed { doing: "stored", source: "others change the contributions all the time".into() })
    }

    /// Forgets all of them.
    pub(super) async fn forget(models: &dyn Models) -> Result<(), StoreError> {
        models.put(NAME, Contributions::default().bounded_bytes(), None).await.map(drop)
    }

    /// Takes a contribution in; whether that changes anything.
    fn take(&mut self, key: &str, contribution: Contribution<Shapes>, now_ms: u64) -> bool {
        let Contribution { gateway, evidence, weights, types } = contribution;
        let told = Told { key: key.to_owned(), at_ms: now_ms, evidence, weights, types: types.of_others().to_tell() };
        let name = format!("{key} {gateway}");
        let is_known = |known: &Told| {
            now_ms.abs_diff(known.at_ms) < RENEWED_MS && Told { at_ms: known.at_ms, ..told.clone() } == *known
        };
        if self.told.get(&name).is_some_and(is_known) {
            return false;
        }
        self.told.retain(|_, told| now_ms.saturating_sub(told.at_ms) <= KEPT_MS);
        self.told.insert(name, told);
        true
    }

    /// As they are stored, without those that make too many.
    fn bounded_bytes(&mut self) -> Vec<u8> {
        loop {
            let bytes = serde_json::to_vec(self).unwrap_or_default();
            if (self.told.len() <= MOST && bytes.len() <= MAX_BYTES) || self.told.is_empty() {
                return bytes;
            }
            let count = |key: &str| self.told.values().filter(|told| told.key == key).count();
            let first = self.told.iter().min_by_key(|(_, told)| (std::cmp::Reverse(count(&told.key)), told.at_ms));
            let Some(name) = first.map(|(name, _)| name.clone()) else { return bytes };
            self.told.remove(&name);
        }
    }

    pub(super) fn together(self) -> Together {
        let weights = self.told.values().filter_map(|told| {
            let [set, next] = &told.weights;
            let of = |weights: &[f32]| <[f32; FEATURES]>::try_from(weights).ok();
            Some((told.evidence, [of(set)?, of(next)?]))
        });
        let weights = mean_weights(weights);
        let mut shapes = Shapes::default();
        self.told.into_values().for_each(|told| shapes.merge(told.types));
        Together { shapes: shapes.to_tell(), weights }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn contribution(gateway: &str, evidence: f64, results: u32) -> Contribution<Shapes> {
        let tool = json!({ "hash": "h", "results": results, "shape": { "strings": results } });
        Contribution {
            gateway: gateway.to_owned(),
            evidence,
            weights: [vec![1.0; FEATURES], vec![1.0; FEATURES]],
            types: serde_json::from_value(json!({ "s:t": tool })).unwrap(),
        }
    }

    fn results(contributions: &Contributions) -> serde_json::Value {
        serde_json::to_value(contributions.clone().together().shapes).unwrap()["s:t"]["results"].clone()
    }

    #[test]
    fn what_a_gateway_tells_twice_counts_once() {
        let mut all = Contributions::default();
        assert!(all.take("key", contribution("a", 50.0, 5), 1000));
        assert!(!all.take("key", contribution("a", 50.0, 5), 2000), "nothing new");
        assert!(all.take("key", contribution("a", 50.0, 5), 1000 + RENEWED_MS), "it is kept");
        assert!(all.take("key", contribution("a", 60.0, 7), 3000));
        assert_eq!(results(&all), 7);
        all.take("key", contribution("b", 60.0, 4), 3000);
        all.take("another", contribution("b", 1.0, 1000), 3000);
        assert_eq!(results(&all), 1011);
        assert!(all.clone().together().weights.is_some());
        all.take("key", contribution("c", 60.0, 3), 4000 + KEPT_MS);
        assert_eq!(results(&all), 3, "the others were not heard of for long");
        // Weights of another version, or of too few traces.
        let mut few = Contributions::default();
        few.take("key", contribution("a", 19.0, 3), 1);
        few.take("key", Contribution { weights: [vec![1.0], vec![]], ..contribution("b", 99.0, 3) }, 1);
        assert_eq!(few.together().weights, None);
    }

    #[test]
    fn one_key_cannot_push_the_gateways_of_others_out() {
        let mut all = Contributions::default();
        all.take("quiet", contribution("a", 50.0, 5), 1);
        for number in 0..500 {
            all.take("loud", contribution(&number.to_string(), 50.0, 5), 1000 + number);
            all.bounded_bytes();
        }
        assert_eq!(all.told.len(), MOST);
        assert!(all.told.contains_key("quiet a") && all.told.contains_key("loud 499"));
        let read: Contributions = serde_json::from_slice(&all.bounded_bytes()).unwrap();
        assert_eq!(read, all);
    }
}
