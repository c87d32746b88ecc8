//! What all handlers of requests share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio_util::sync::CancellationToken;

use super::{super::gateway::Frontend, guard::Guard, sessions::Sessions};
use crate::web::{Bodies, Streams};

#[derive(Debug)]
pub(super) struct Web {
    /// What clients without a profile are served by.
    pub(super) frontend: Arc<Frontend>,
    /// What clients of each profile are served by.
    pub(super) of_profiles: Mutex<HashMap<String, Arc<Frontend>>>,
    pub(super) sessions: Sessions,
    pub(super) guard: Guard,
    pub(super) bodies: Arc<Bodies>,
    pub(super) streams: Streams,
    /// Cancelled when everything ends: nothing new is begun, and who only listens hears no more.
    pub(super) stop: CancellationToken,
    /// Cancelled a moment later, when the last answers have been given: nothing is done any more.
    pub(super) gone: CancellationToken,
}

/// Profiles for which something is remembered. Names of profiles are those of tokens, so this is a bound on mistakes.
const MAX_PROFILES: usize = 1000;

impl Web {
    /// What a client is served by.
    pub(super) fn frontend_for(&self, profile: Option<&str>) -> Arc<Frontend> {
        let Some(profile) = profile else { return Arc::clone(&self.frontend) };
        let mut known = self.of_profiles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(frontend) = known.get(profile) {
            return Arc::clone(frontend);
        }
        if known.len() >= MAX_PROFILES {
            known.clear();
        }
        let frontend = self.frontend.for_profile(profile);
        known.insert(profile.to_owned(), Arc::clone(&frontend));
        frontend
    }
}
