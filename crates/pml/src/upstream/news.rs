//! What a server says without being asked, until its actor has time for it.
//!
//! News that say the same are one, and of the rest there is a bound: a server that floods loses its
//! own logs, and nothing else.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Mutex, PoisonError},
};

use serde_json::value::RawValue;
use tokio::sync::Notify;

/// Most logs, and most resources that changed, that wait for the actor.
const MAX_LOGS: usize = 64;
const MAX_UPDATES: usize = 1024;
/// Longest log and longest address that are kept.
const MAX_LOG_BYTES: usize = 64 * 1024;
const MAX_URI_BYTES: usize = 8 * 1024;

/// The place where news wait.
#[derive(Debug, Default)]
pub(super) struct News {
    waiting: Mutex<Digest>,
    came: Notify,
}

/// The news since the last time.
#[derive(Debug, Default)]
pub(super) struct Digest {
    pub(super) tools_changed: bool,
    pub(super) resources_changed: bool,
    pub(super) prompts_changed: bool,
    /// The addresses of resources that changed.
    pub(super) updated: BTreeSet<String>,
    /// Logs that belong to no request, as the server wrote them.
    pub(super) logs: VecDeque<Box<RawValue>>,
    /// How many were too many.
    pub(super) lost: u64,
}

impl Digest {
    fn is_empty(&self) -> bool {
        !(self.tools_changed || self.resources_changed || self.prompts_changed)
            && self.updated.is_empty()
            && self.logs.is_empty()
    }
}

impl News {
    fn tell(&self, change: impl FnOnce(&mut Digest)) {
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.came.notify_one();
    }

    pub(super) fn tools_changed(&self) {
        self.tell(|digest| digest.tools_changed = true);
    }

    pub(super) fn resources_changed(&self) {
        self.tell(|digest| digest.resources_changed = true);
    }

    pub(super) fn prompts_changed(&self) {
        self.tell(|digest| digest.prompts_changed = true);
    }

    pub(super) fn updated(&self, uri: String) {
        self.tell(|digest| match digest.updated.len() < MAX_UPDATES && uri.len() <= MAX_URI_BYTES {
            true => drop(digest.updated.insert(uri)),
            false => digest.lost += 1,
        });
    }

    /// Keeps a log; of too many, the oldest goes.
    pub(super) fn logged(&self, log: Box<RawValue>) {
        self.tell(|digest| {
            if log.get().len() > MAX_LOG_BYTES {
                digest.lost += 1;
                return;
            }
            if digest.logs.len() == MAX_LOGS {
                digest.logs.pop_front();
                digest.lost += 1;
            }
            digest.logs.push_back(log);
        });
    }

    /// Waits for news, and takes them.
    pub(super) async fn next(&self) -> Digest {
        loop {
            let digest = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            if !digest.is_empty() {
                return digest;
            }
            self.came.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_loses_its_oldest_logs_and_nothing_else() {
        let news = News::default();
        for number in 0..10_000 {
            news.logged(RawValue::from_string(number.to_string()).unwrap());
            news.updated(format!("a:{}", number % 2000));
        }
        news.tools_changed();
        news.tools_changed();
        let digest = news.next().await;
        assert!(digest.tools_changed && !digest.prompts_changed && !digest.resources_changed);
        assert_eq!((digest.logs.len(), digest.logs[63].get()), (MAX_LOGS, "9999"));
        assert_eq!(digest.updated.len(), MAX_UPDATES);
        assert!(digest.lost > 0);
        news.prompts_changed();
        let digest = news.next().await;
        assert!(digest.prompts_changed && !digest.tools_changed && digest.logs.is_empty());
    }
}
