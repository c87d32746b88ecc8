//! How many calls each client of a profile may still make.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
};

use crate::rate::Bucket;

/// Clients that are remembered.
const MAX_CLIENTS: usize = 10_000;

/// A client: its profile and its name.
type Client = (Arc<str>, Arc<str>);

/// What clients have left.
#[derive(Debug, Default)]
pub(super) struct Paces(Mutex<HashMap<Client, Arc<Bucket>>>);

impl Paces {
    /// What a client of a profile has left of so many calls in a minute. A pace that was changed counts anew, and so does
    /// everybody's after a flood of names.
    pub(super) fn of(&self, profile: &Arc<str>, caller: &Arc<str>, pace: NonZeroU32) -> Arc<Bucket> {
        let mut paces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (Arc::clone(profile), Arc::clone(caller));
        if paces.get(&key).is_some_and(|bucket| bucket.per_minute() != pace.get()) {
            paces.remove(&key);
        } else if paces.len() >= MAX_CLIENTS {
            paces.clear();
        }
        Arc::clone(paces.entry(key).or_insert_with(|| Arc::new(Bucket::new(pace))))
    }
}
