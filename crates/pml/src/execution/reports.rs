//! Progress of the calls of a run, forwarded at a bounded rate.
//!
//! Servers report as often as they like. Only the latest report of each call is kept, and one report is forwarded every
//! [`PACE`], from the call that has waited longest: a call that reports without end neither floods the listener nor
//! hides the others.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pml_wire::CallId;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::upstream::{Progress, ProgressListener};

/// Pause between two reports of one run. The first is forwarded at once.
const PACE: Duration = Duration::from_millis(100);

/// The receiving end of the reports of one run.
#[derive(Debug)]
pub(crate) struct Reports {
    shared: Arc<Shared>,
    /// When the next report may be forwarded.
    due: Instant,
}

/// The sending end of the reports of one run.
#[derive(Clone, Debug)]
pub(crate) struct Reporting(Arc<Shared>);

impl Reporting {
    /// The progress listener of a call.
    pub(super) fn listener(&self, call: CallId) -> ProgressListener {
        let shared = Arc::clone(&self.0);
        ProgressListener::new(move |progress| shared.put(call, progress))
    }
}

#[derive(Debug, Default)]
struct Shared {
    /// Pending reports, at most one per call.
    untold: Mutex<VecDeque<Report>>,
    news: Notify,
}

/// The latest report of one call.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) call: CallId,
    pub(crate) progress: Progress,
}

impl Shared {
    fn untold(&self) -> MutexGuard<'_, VecDeque<Report>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, call: CallId, progress: Progress) {
        let mut untold = self.untold();
        match untold.iter_mut().find(|report| report.call == call) {
            Some(report) => report.progress = progress,
            None => untold.push_back(Report { call, progress }),
        }
        self.news.notify_one();
    }
}

impl Reports {
    pub(crate) fn new() -> Reports {
        Reports { shared: Arc::default(), due: Instant::now() }
    }

    pub(crate) fn reporting(&self) -> Reporting {
        Reporting(Arc::clone(&self.shared))
    }

    /// Drops the report of a call that has ended: the end supersedes it.
    pub(crate) fn forget(&self, call: CallId) {
        self.shared.untold().retain(|report| report.call != call);
    }

    /// The next report, when it is due; never completes without `reports`. Cancel safe.
    pub(crate) async fn next_of(reports: &mut Option<Reports>) -> Report {
        match reports {
            Some(reports) => reports.next().await,
            None => std::future::pending().await,
        }
    }

    async fn next(&mut self) -> Report {
        loop {
            if self.shared.untold().is_empty() {
                self.shared.news.notified().await;
                continue;
            }
            sleep_until(self.due).await;
            // The call may have ended in the meantime.
            if let Some(report) = self.shared.untold().pop_front() {
                self.due = Instant::now() + PACE;
                return report;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reports received within a time: when, of which call, and their number.
    async fn taken(reports: &mut Reports, within: Duration) -> Vec<(u128, u32, Option<f64>)> {
        let begun = Instant::now();
        let mut taken = Vec::new();
        while let Ok(Report { call, progress }) = tokio::time::timeout_at(begun + within, reports.next()).await {
            taken.push((begun.elapsed().as_millis(), call.0, progress.progress));
        }
        taken
    }

    fn put(reports: &Reports, call: u32, number: f64) {
        reports.shared.put(CallId(call), Progress::of(number));
    }

    #[tokio::test(start_paused = true)]
    async fn reports_are_paced_the_newest_counts_and_nobody_is_drowned_out() {
        let mut reports = Reports::new();
        put(&reports, 1, 1.0);
        put(&reports, 2, 1.0);
        (0..10_000).for_each(|number| put(&reports, 1, f64::from(number)));
        put(&reports, 3, 1.0);
        let expected = [(0, 1, Some(9999.0)), (100, 2, Some(1.0)), (200, 3, Some(1.0))];
        assert_eq!(taken(&mut reports, Duration::from_secs(5)).await, expected);
        put(&reports, 1, 7.0);
        assert_eq!(taken(&mut reports, Duration::from_secs(5)).await, [(0, 1, Some(7.0))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_has_ended_is_not_reported() {
        let mut reports = Reports::new();
        put(&reports, 1, 1.0);
        put(&reports, 2, 1.0);
        reports.forget(CallId(1));
        assert_eq!(taken(&mut reports, Duration::from_secs(5)).await, [(0, 2, Some(1.0))]);
    }
}
