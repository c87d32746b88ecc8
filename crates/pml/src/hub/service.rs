//! The hub as a whole, and how it is served.

use std::{
    collections::HashMap,
    io,
    num::NonZeroU32,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::Router;
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

use super::{
    api::{self, Rates},
    learner::Learner,
    store::HubStore,
};
use crate::{
    trace::sanitize::{Rules, Sanitizer},
    web::{self, AnswerRoom, Bodies, Grace, HalfClosed},
};

/// What all answers may take together until they are read.
const ANSWERS_BYTES: usize = 64 * 1024 * 1024;

/// How a hub is served.
#[derive(Clone, Debug)]
pub struct HubSettings {
    /// Requests that one key may make in a minute.
    pub requests_per_minute: NonZeroU32,
    /// What is removed from traces besides the built-in kinds of secrets, and what stays.
    pub rules: Arc<Rules>,
}

/// A hub.
#[derive(Debug)]
pub struct Hub {
    pub(super) store: Arc<dyn HubStore>,
    pub(super) sanitizer: Sanitizer,
    pub(super) rates: Rates,
    pub(super) bodies: Arc<Bodies>,
    /// Room for answers that are made or not read yet.
    pub(super) answers: AnswerRoom,
    /// Turns to decode and clean traces: as many as there are processors.
    pub(super) turns: Arc<Semaphore>,
    counts: Mutex<HashMap<String, Arc<HubCounts>>>,
    pub(super) learner: Learner,
    /// Is the hub ending? Then it is not ready for more.
    is_stopping: AtomicBool,
    /// Was it said in the log that the keys are lost?
    pub(super) has_told_loss: AtomicBool,
}

/// What has happened to the requests of one organisation since the hub was started.
#[derive(Debug, Default)]
pub(super) struct HubCounts {
    pub(super) requests: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) stored: AtomicU64,
    pub(super) duplicates: AtomicU64,
    pub(super) rejected: AtomicU64,
}

impl Hub {
    pub fn new(store: Arc<dyn HubStore>, settings: HubSettings) -> Arc<Hub> {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        Arc::new(Hub {
            store,
            sanitizer: Sanitizer::new(settings.rules),
            rates: Rates::new(settings.requests_per_minute),
            bodies: Arc::default(),
            answers: AnswerRoom::new(ANSWERS_BYTES),
            turns: Arc::new(Semaphore::new(processors)),
            counts: Mutex::default(),
            learner: Learner::default(),
            is_stopping: AtomicBool::new(false),
            has_told_loss: AtomicBool::new(false),
        })
    }

    /// The routes below `/api`, for a gateway that is a hub too.
    pub fn routes(self: &Arc<Self>) -> Router {
        api::routes(self)
    }

    /// Serves HTTP until `stop` is cancelled and every connection has ended, for which requests have the time of `grace`.
    pub async fn serve(
        self: &Arc<Self>,
        listener: TcpListener,
        stop: &CancellationToken,
        grace: Duration,
    ) -> io::Result<()> {
        let router = api::routes_of_hub(self);
        let grace = Grace {
            half_closed: HalfClosed::IsAnswered,
            refused: api::refused,
            last_answers: grace,
            gone: CancellationToken::new(),
        };
        let ending = async {
            stop.cancelled().await;
            self.is_stopping.store(true, Ordering::Relaxed);
            std::future::pending::<()>().await;
        };
        let serving = web::serve(listener, router, stop, grace);
        tokio::select! {
            () = serving => {}
            () = ending => {}
        }
        Ok(())
    }

    /// The counts of an organisation; `""`, which none is called, is whoever has no valid key.
    pub(super) fn counts(&self, org: &str) -> Arc<HubCounts> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get(org) {
            Some(counts) => Arc::clone(counts),
            None => Arc::clone(counts.entry(org.to_owned()).or_default()),
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }
}
