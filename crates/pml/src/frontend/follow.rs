//! What a client hears while a run goes on: progress and log notifications.
//!
//! **Invariant:** a run never waits for a client that does not read. What a slow client misses is
//! progress and log lines; the answer has the console anyway.

use std::{
    future::Future,
    sync::atomic::{AtomicU64, Ordering},
    task::Poll,
    time::Duration,
};

use pml_wire::message::{Log, LogLevel, Progress};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::session::{LEVELS, Scope};
use crate::{
    execution::{Event, millis},
    shown::visible,
};

/// Longest silence during a run. Clients give up on silent tools, some after a minute.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Tells one client about one run.
#[derive(Debug)]
pub(super) struct Teller<'a> {
    scope: &'a Scope,
    logs_from: Option<usize>,
    /// Progress must grow with each notification; how much there will be is not known.
    step: AtomicU64,
    lost: AtomicU64,
}

impl<'a> Teller<'a> {
    pub(super) fn new(scope: &'a Scope) -> Teller<'a> {
        Teller { scope, logs_from: scope.log_level(), step: AtomicU64::new(0), lost: AtomicU64::new(0) }
    }

    /// Tells what happened in a run.
    pub(super) fn tell(&self, event: &Event<'_>) {
        match event {
            Event::Log(log) => self.log(log),
            Event::Progress(progress) => self.progress(|| of_program(progress)),
            Event::CallStarted(call) => self.progress(|| format!("calling {}", call.tool)),
            Event::CallProgress { call, tool, progress } => {
                self.progress(|| format!("{tool} (call {}): {progress}", call.0));
            }
            Event::CallEnded(record) => self.progress(|| match &record.error {
                None => format!("{} answered in {} ms", record.tool, millis(record.duration)),
                Some(error) => format!("{} failed: {}", record.tool, error.code),
            }),
            Event::Waiting | Event::Awake => {}
        }
    }

    pub(super) fn progress(&self, message: impl FnOnce() -> String) {
        let Some(token) = self.scope.progress_token() else { return };
        let step = self.step.fetch_add(1, Ordering::Relaxed) + 1;
        let params = json!({ "progressToken": token, "progress": step, "message": visible(&message()) });
        self.count(self.scope.notify("notifications/progress", params));
    }

    fn log(&self, log: &Log) {
        let level = match log.level {
            LogLevel::Debug => 0,
            LogLevel::Info | LogLevel::Log => 1,
            LogLevel::Warn => 3,
            LogLevel::Error => 4,
        };
        if self.logs_from.is_some_and(|least| level >= least) {
            let params = json!({ "level": LEVELS[level], "logger": "console", "data": visible(&log.text) });
            self.count(self.scope.notify("notifications/message", params));
        }
    }

    fn count(&self, is_told: bool) {
        self.lost.fetch_add(u64::from(!is_told), Ordering::Relaxed);
    }

    /// Does `work`, and says from time to time that it goes on.
    pub(super) async fn during<F: Future>(&self, work: F) -> F::Output {
        let started = Instant::now();
        let mut work = std::pin::pin!(work);
        let mut silence = std::pin::pin!(sleep(HEARTBEAT));
        let mut last = 0;
        // Polled with each thing that the work does, so what is said in between is seen.
        std::future::poll_fn(|context| {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(output);
            }
            let step = self.step.load(Ordering::Relaxed);
            if step != last {
                last = step;
                silence.as_mut().reset(Instant::now() + HEARTBEAT);
            }
            while silence.as_mut().poll(context).is_ready() {
                self.progress(|| format!("running for {} s", started.elapsed().as_secs()));
                last = self.step.load(Ordering::Relaxed);
                silence.as_mut().reset(Instant::now() + HEARTBEAT);
            }
            Poll::Pending
        })
        .await
    }
}

impl Drop for Teller<'_> {
    fn drop(&mut self) {
        let lost = *self.lost.get_mut();
        if lost > 0 {
            tracing::debug!(lost, "a client was too slow for some notifications");
        }
    }
}

/// What a program says about its own progress.
fn of_program(progress: &Progress) -> String {
    let count = match progress.total {
        Some(total) => format!("{}/{total}", progress.progress),
        None => progress.progress.to_string(),
    };
    match &progress.message {
        Some(message) => format!("{count} {message}"),
        None => count,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Map, Value};
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    use super::{
        super::{results::Caller, rpc::Era, session::Session, shares::Client},
        *,
    };

    #[tokio::test(start_paused = true)]
    async fn silence_is_never_longer_than_a_heartbeat() {
        let session = Session::new(Caller::new("me"), Client::only(), CancellationToken::new());
        let (outlet, mut told) = mpsc::channel(100);
        let meta: Map<String, Value> = [("progressToken".to_owned(), Value::from(7))].into_iter().collect();
        let cancel = session.gone.child_token();
        let scope = Scope {
            id: Value::Null,
            session: Arc::clone(&session),
            era: Era::Legacy,
            capabilities: Value::Null,
            meta,
            outlet,
            streams: true,
            cancel,
        };
        let teller = Teller::new(&scope);
        let begun = Instant::now();
        let work = async {
            sleep(Duration::from_secs(3)).await;
            teller.progress(|| "said".to_owned());
            sleep(Duration::from_secs(11)).await;
        };
        let listen = async {
            let mut heard = Vec::new();
            while heard.len() < 3 {
                let note: Value = serde_json::from_str(told.recv().await.unwrap().as_str()).unwrap();
                heard.push((begun.elapsed().as_secs(), note["params"]["progress"].as_u64().unwrap()));
            }
            heard
        };
        let ((), heard) = tokio::join!(teller.during(work), listen);
        assert_eq!(heard, [(3, 1), (8, 2), (13, 3)]);
    }
}
