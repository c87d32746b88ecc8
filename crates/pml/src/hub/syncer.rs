//! Delivers the traces of a gateway to its hub.
//!
//! The store is the outbox: a trace is unsent until the hub has acknowledged its id, so nothing is lost when a process is killed,
//! and what is sent twice is stored once. The syncer reads what is unsent in batches, sends each, and notes for every trace what
//! the hub said. Of several processes on one folder one has the turn to send, for all of them.
//!
//! **Invariant:** nothing waits for the hub: neither executions nor the store, and shutting down only for its grace.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use pml_wire::ExecutionId;
use reqwest::Url;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::client::{Delivery, HubClient};
use crate::trace::{
    Outlet,
    store::{Outgoing, Store, StoreError},
};

/// Text of the traces of one request, but for a trace that is larger by itself.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// How long the next try waits at first; then twice as long each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// No hub is obeyed that wants to be left alone for longer.
const MAX_PAUSE: Duration = Duration::from_secs(60 * 60);
/// How long the last batches may take when pml ends.
const LAST: Duration = Duration::from_secs(2);

/// Where traces are delivered, checked.
#[derive(Clone, PartialEq, Eq)]
pub struct SyncSettings {
    pub url: Url,
    pub key: String,
    /// Traces of one request.
    pub batch: usize,
    /// How long traces wait for others, at most.
    pub interval: Duration,
    /// What may wait to be sent, as it is stored.
    pub outbox_bytes: u64,
    /// Longest pause after failures.
    pub longest_pause: Duration,
}

impl std::fmt::Debug for SyncSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the key.
        f.debug_struct("SyncSettings")
            .field("url", &self.url.as_str())
            .field("batch", &self.batch)
            .finish_non_exhaustive()
    }
}

/// Tells the syncer that there is something to send.
#[derive(Clone, Debug, Default)]
pub struct Nudge {
    waiting: Arc<AtomicUsize>,
    wake: Arc<Notify>,
    batch: usize,
}

impl Outlet for Nudge {
    fn stored(&self) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) + 1 == self.batch {
            self.wake.notify_one();
        }
    }
}

/// What became of everything that was unsent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncReport {
    pub sent: u64,
    /// Refused by the hub for good.
    pub dead: u64,
    /// Given up, since too much waited.
    pub dropped: u64,
    /// Why not everything is sent.
    pub trouble: Option<SyncTrouble>,
}

/// Why traces are not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncTrouble {
    /// Another process sends them.
    NotOurTurn,
    /// The hub cannot take them now. It may say when it can.
    Later(Option<Duration>, String),
    /// The hub takes nothing of this key.
    Stopped(String),
    /// The store does not say what is unsent.
    Store(String),
}

/// Sends traces of a store to a hub.
#[derive(Debug)]
pub struct Syncer {
    settings: SyncSettings,
    store: Arc<dyn Store>,
    client: HubClient,
}

impl Syncer {
    pub fn new(settings: SyncSettings, store: Arc<dyn Store>, client: HubClient) -> Syncer {
        Syncer { settings, store, client }
    }

    /// Builds the handle and the task's future. The caller spawns it, and so owns its end.
    pub fn start(self, stop: CancellationToken) -> (Nudge, impl Future<Output = ()> + Send) {
        let nudge = Nudge { batch: self.settings.batch, ..Nudge::default() };
        (nudge.clone(), self.run(nudge, stop))
    }

    /// Sends until `stop` is cancelled, and then what is left, for no longer than [`LAST`].
    async fn run(self, nudge: Nudge, stop: CancellationToken) {
        let mut failures = 0;
        // What an earlier process has left is sent soon.
        let mut next = Instant::now() + self.settings.interval.min(FIRST_PAUSE);
        let mut may_send_early = true;
        loop {
            tokio::select! {
                // First: under a flood of traces it must still be seen.
                biased;
                () = stop.cancelled() => break,
                () = nudge.wake.notified(), if may_send_early => {}
                () = sleep_until(next) => {}
            }
            nudge.waiting.store(0, Ordering::Relaxed);
            let report = tokio::select! {
                report = self.send_all() => report,
                // What was sent may have arrived; if so it is a duplicate next time.
                () = stop.cancelled() => break,
            };
            if report.dropped > 0 {
                tracing::warn!(count = report.dropped, "too much waits for the hub; the oldest traces are not sent");
            }
            if report.dead > 0 {
                tracing::warn!(count = report.dead, "the hub refuses traces; `pml trace sync --status` says why");
            }
            let pause = match report.trouble {
                None | Some(SyncTrouble::NotOurTurn) => {
                    if failures > 0 && report.trouble.is_none() {
                        tracing::info!("the hub takes traces again");
                    }
                    (failures, may_send_early) = (0, report.trouble.is_none());
                    self.settings.interval
                }
                Some(SyncTrouble::Stopped(why)) => {
                    let hint = "set `hub.key` to a valid key and start pml again; until then traces are kept";
                    tracing::error!(hint, "the hub does not let this pml in, and no more is sent: {why}");
                    stop.cancelled().await;
                    return;
                }
                Some(SyncTrouble::Later(pause, why)) => {
                    if failures == 0 {
                        tracing::warn!("traces are kept and sent later: {why}");
                    }
                    (failures, may_send_early) = (failures + 1, false);
                    pause.unwrap_or(Duration::ZERO).min(MAX_PAUSE).max(backoff(failures, self.settings.longest_pause))
                }
                Some(SyncTrouble::Store(why)) => {
                    if failures == 0 {
                        tracing::warn!("traces are not sent: {why}");
                    }
                    (failures, may_send_early) = (failures + 1, false);
                    backoff(failures, self.settings.longest_pause)
                }
            };
            next = Instant::now() + pause;
        }
        // A change waits behind the traces that were submitted before it.
        let last = async {
            let _ = self.store.acknowledge(Vec::new()).await;
            self.send_all().await
        };
        match timeout(LAST, last).await {
            Ok(SyncReport { trouble: None | Some(SyncTrouble::NotOurTurn), .. }) => {}
            _ => tracing::debug!("what is unsent is sent when pml is started again"),
        }
    }

    /// Sends everything that is unsent, until something goes wrong.
    pub async fn send_all(&self) -> SyncReport {
        let mut report = SyncReport::default();
        match self.store.take_turn().await {
            Ok(Some(turn)) => {
                report.trouble = self.send_in_turn(&mut report).await.err();
                drop(turn);
            }
            Ok(None) => report.trouble = Some(SyncTrouble::NotOurTurn),
            Err(err) => report.trouble = Some(SyncTrouble::Store(err.to_string())),
        }
        report
    }

    async fn send_in_turn(&self, report: &mut SyncReport) -> Result<(), SyncTrouble> {
        report.dropped += self.store.trim_outbox(self.settings.outbox_bytes).await?;
        loop {
            let unsent = match self.store.unsent(self.settings.batch).await {
                Err(StoreError::Damaged { id, why }) => {
                    report.dead += self.store.bury(vec![id], &format!("it is damaged: {why}")).await?;
                    continue;
                }
                unsent => unsent?,
            };
            if unsent.is_empty() {
                return Ok(());
            }
            let is_last = unsent.len() < self.settings.batch;
            for part in parts(unsent) {
                self.send(part, report).await?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Sends traces in one request, or in several if the hub wants that.
    async fn send(&self, traces: Vec<Outgoing>, report: &mut SyncReport) -> Result<(), SyncTrouble> {
        let mut waiting = vec![traces];
        while let Some(traces) = waiting.pop() {
            let ids: Vec<_> = traces.iter().map(|outgoing| outgoing.trace.trace().trace_id).collect();
            let sent: Vec<_> = traces.iter().map(|outgoing| outgoing.trace.clone()).collect();
            match self.client.deliver(sent).await {
                Delivery::Answered(reply) => {
                    let mut rest: HashMap<String, ExecutionId> = ids.iter().map(|id| (id.to_string(), *id)).collect();
                    let taken: Vec<_> = reply.acknowledged.iter().filter_map(|id| rest.remove(id)).collect();
                    report.sent += self.store.acknowledge(taken).await?;
                    for error in &reply.errors {
                        if let Some(id) = error.trace_id.as_ref().and_then(|id| rest.remove(id)) {
                            let reason = format!("{}: {}", error.code, error.message);
                            report.dead += self.store.bury(vec![id], &reason).await?;
                        }
                    }
                    if !rest.is_empty() {
                        let why = "the hub neither took nor refused it".to_owned();
                        self.store.note_failure(rest.into_values().collect(), &why).await?;
                        return Err(SyncTrouble::Later(None, why));
                    }
                }
                Delivery::Refused(why) if ids.len() == 1 => report.dead += self.store.bury(ids, &why).await?,
                Delivery::Refused(_) => {
                    let mut first = traces;
                    let second = first.split_off(first.len() / 2);
                    // The first half is taken next: parents come before their children.
                    waiting.extend([second, first]);
                }
                Delivery::Later(pause, why) => {
                    self.store.note_failure(ids, &why).await?;
                    return Err(SyncTrouble::Later(pause, why));
                }
                Delivery::Stopped(why) => {
                    self.store.note_failure(ids, &why).await?;
                    return Err(SyncTrouble::Stopped(why));
                }
            }
        }
        Ok(())
    }
}

impl From<StoreError> for SyncTrouble {
    fn from(err: StoreError) -> SyncTrouble {
        SyncTrouble::Store(err.to_string())
    }
}

/// Cuts a batch where its text is too long for one request.
fn parts(traces: Vec<Outgoing>) -> Vec<Vec<Outgoing>> {
    let mut parts: Vec<Vec<Outgoing>> = Vec::new();
    let mut bytes = 0;
    for outgoing in traces {
        let size = outgoing.trace.size_hint();
        match parts.last_mut() {
            Some(part) if bytes + size <= BATCH_BYTES => {
                bytes += size;
                part.push(outgoing);
            }
            _ => {
                bytes = size;
                parts.push(vec![outgoing]);
            }
        }
    }
    parts
}

/// The pause after so many failures: twice as long each time, and never the same for two gateways.
fn backoff(failures: u32, longest: Duration) -> Duration {
    let pause = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(longest);
    let random = f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX);
    pause.mul_f64(0.5 + random / 2.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
        net::{TcpListener, TcpStream},
        sync::mpsc,
    };

    use super::*;
    use crate::trace::{
        SanitizedTrace,
        store::{Options, SqliteStore},
    };

    /// Requests that the hub refuses before it is back: with pauses of up to 5 minutes, more than an hour of them.
    const REFUSED: usize = 25;

    /// A request that reached the hub, and the traces that the hub has acknowledged.
    struct Arrival {
        ids: Vec<String>,
        is_taken: bool,
    }

    /// Reads one request, and takes or refuses it.
    async fn answer(socket: TcpStream, is_taken: bool) -> Arrival {
        let mut socket = BufReader::new(socket);
        let mut length = 0;
        loop {
            let mut line = String::new();
            socket.read_line(&mut line).await.unwrap();
            match line.to_ascii_lowercase().trim().split_once(':') {
                Some(("content-length", size)) => length = size.trim().parse().unwrap(),
                None if line.trim().is_empty() => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await.unwrap();
        let request: Value = serde_json::from_slice(&zstd::decode_all(&body[..]).unwrap()).unwrap();
        let id = |trace: &Value| trace["traceId"].as_str().unwrap().to_owned();
        let ids: Vec<_> = request["traces"].as_array().unwrap().iter().map(id).collect();
        let (status, reply) = match is_taken {
            true => (
                200,
                json!({"received": ids.len(), "stored": ids.len(), "duplicates": 0, "acknowledged": ids, "errors": []}),
            ),
            false => (503, json!({"code": "UNAVAILABLE", "message": "away"})),
        };
        let reply = reply.to_string();
        let reply =
            format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{reply}", reply.len());
        socket.get_mut().write_all(reply.as_bytes()).await.unwrap();
        Arrival { ids, is_taken }
    }

    /// A trace that compressing makes little smaller.
    fn trace(number: u64, success: bool) -> SanitizedTrace {
        let noise: String =
            (0..60).map(|at| format!("{:x}", (number * 7919 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        let trace = json!({
            "traceId": ExecutionId::mint(), "entry": "execute_code", "caller": "agent", "success": success,
            "durationMs": 1.5, "timestamp": 1_790_000_000_000 + number, "args": {"noise": noise},
            "metadata": {"pmlVersion": "0.1.0", "schemaVersion": 1},
        });
        SanitizedTrace::of_hub(serde_json::from_value(trace).unwrap())
    }

    #[tokio::test]
    async fn a_hub_that_is_away_for_long_gets_what_is_left_once_and_nothing_grows_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path(), Options::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let (told, mut arrivals) = mpsc::unbounded_channel();
        let (holds, mut held) = mpsc::unbounded_channel();
        let (go, mut gone) = mpsc::unbounded_channel();
        let hub = tokio::spawn(async move {
            let mut requests = 0;
            while let Ok((socket, _)) = listener.accept().await {
                requests += 1;
                if requests <= REFUSED {
                    let _ = holds.send(());
                    gone.recv().await;
                }
                let _ = told.send(answer(socket, requests > REFUSED).await);
            }
        });
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let client = HubClient::new(http, url.clone(), "pmlhub_x").unwrap();
        let settings = SyncSettings {
            url,
            key: "pmlhub_x".to_owned(),
            batch: 10,
            interval: Duration::from_millis(5),
            outbox_bytes: 50_000,
            longest_pause: Duration::from_millis(10),
        };
        let stop = CancellationToken::new();
        let (nudge, run) = Syncer::new(settings, Arc::clone(&store), client).start(stop.clone());
        let syncer = tokio::spawn(run);

        let (mut all, mut failed, mut taken) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut largest = 0;
        // Executions go on: some while the hub has a request that it then refuses.
        for number in 0..10 * (REFUSED as u64 + 1) {
            let (round, at) = (number / 10, number % 10);
            if round > 0 && at == 0 {
                held.recv().await.unwrap();
            }
            let trace = trace(number + 1, (number + 1) % 20 != 0);
            let id = trace.trace().trace_id.to_string();
            if !trace.trace().success {
                failed.insert(id.clone());
            }
            all.insert(id);
            assert!(store.submit(trace).outcome().await.is_some());
            nudge.stored();
            if at == 9 {
                largest = largest.max(store.outbox().await.unwrap().unsent_bytes);
            }
            if round > 0 && at == 9 {
                go.send(()).unwrap();
                assert!(!arrivals.recv().await.unwrap().is_taken);
            }
        }
        // The hub is back.
        while store.outbox().await.unwrap().unsent > 0 {
            // The last acknowledgement may only have to be noted.
            let Ok(arrival) = timeout(Duration::from_millis(20), arrivals.recv()).await else { continue };
            let arrival = arrival.unwrap();
            assert!(arrival.is_taken && arrival.ids.len() <= 10, "a request has no more than a batch");
            assert!(arrival.ids.into_iter().all(|id| taken.insert(id)), "each is sent once");
        }
        // What was sent before its acknowledgement is noted.
        while let Ok(arrival) = arrivals.try_recv() {
            taken.extend(arrival.ids);
        }
        stop.cancel();
        syncer.await.unwrap();
        hub.abort();

        let outbox = store.outbox().await.unwrap();
        let lost = all.len() - taken.len();
        assert!(lost > 0 && outbox.dropped == lost as u64, "what was given up is counted: {outbox:?}");
        assert_eq!((outbox.unsent, outbox.dead), (0, 0));
        // The outbox is trimmed before each request, so one batch more may be in it.
        assert!(largest <= 50_000 + 10 * 1_200, "{largest}");
        assert!(taken.is_subset(&all) && failed.is_subset(&taken), "failures are kept longest");
    }

    #[test]
    fn pauses_grow_to_the_longest_and_differ() {
        let longest = Duration::from_secs(300);
        for (failures, most) in [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (u32::MAX, 300)] {
            let (least, most) = (Duration::from_millis(most * 500), Duration::from_secs(most));
            let pauses: Vec<_> = (0..20).map(|_| backoff(failures, longest)).collect();
            assert!(pauses.iter().all(|pause| (least..=most).contains(pause)), "{failures}: {pauses:?}");
            assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{failures}");
        }
    }
}
