//! What others are told of: the ids of new traces, at most a few times in a second.
//!
//! A notification takes a lock of the whole server when it is committed, so it is never part of a transaction that stores
//! traces, and there are few of them.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use pml_wire::ExecutionId;
use tokio::time::Instant;

/// How long ids are collected.
const EVERY: Duration = Duration::from_millis(50);
/// Ids in one notification, which has 8000 bytes at most.
const MOST: usize = 200;

/// Ids of traces by tenant, until they are told.
#[derive(Debug, Default)]
pub(super) struct Notices {
    ids: BTreeMap<i32, Vec<ExecutionId>>,
    since: Option<Instant>,
    last: Option<Instant>,
}

impl Notices {
    pub(super) fn add(&mut self, tenant: i32, id: ExecutionId) {
        let ids = self.ids.entry(tenant).or_default();
        // That there are more than these is told too.
        if ids.len() <= MOST {
            ids.push(id);
        }
        self.since.get_or_insert_with(Instant::now);
    }

    /// When there is something to tell; `None` if there is nothing.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.since?;
        Some(self.last.map_or(Duration::ZERO, |last| EVERY.saturating_sub(last.elapsed())))
    }

    /// What to tell: `TENANT ID,ID,…`, or `TENANT *` if there are too many.
    pub(super) fn take(&mut self) -> Vec<String> {
        self.since = None;
        self.last = Some(Instant::now());
        let payload = |(tenant, ids): (i32, Vec<ExecutionId>)| match ids.len() > MOST {
            true => format!("{tenant} *"),
            false => ids.iter().enumerate().fold(format!("{tenant} "), |mut payload, (at, id)| {
                let _ = write!(payload, "{}{id}", if at == 0 { "" } else { "," });
                payload
            }),
        };
        std::mem::take(&mut self.ids).into_iter().map(payload).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_traces_are_one_notification_that_fits() {
        let mut notices = Notices::default();
        assert_eq!(notices.due_in(), None);
        let ids: Vec<_> = (0..MOST).map(|_| ExecutionId::mint()).collect();
        ids.iter().for_each(|id| notices.add(7, *id));
        notices.add(2_000_000_000, ids[0]);
        assert_eq!(notices.due_in(), Some(Duration::ZERO), "the first is told at once");
        let payloads = notices.take();
        assert!(payloads[0].starts_with("7 ") && payloads[1] == format!("2000000000 {}", ids[0]), "{payloads:?}");
        assert!(
            payloads.iter().all(|payload| payload.len() < 8000) && payloads[0].ends_with(&ids[MOST - 1].to_string())
        );
        (0..=MOST).for_each(|_| notices.add(7, ids[0]));
        assert_eq!(notices.due_in(), Some(EVERY));
        tokio::time::advance(EVERY).await;
        assert_eq!(notices.due_in(), Some(Duration::ZERO));
        assert_eq!((notices.take(), notices.due_in()), (vec!["7 *".to_owned()], None));
    }
}
