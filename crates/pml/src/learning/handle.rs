//! The way to what was learned, for those who search.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
    thread::JoinHandle,
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    follower::Follower,
    ranking::View,
    samples::{Sample, Samples},
};
use crate::{
    catalog::{Finder, Tool},
    hub::client::HubClient,
    trace::store::Store,
};

/// How long the end of the follower is waited for: it may be writing what was learned.
const STOP: Duration = Duration::from_secs(3);

/// What a follower needs.
#[derive(Debug)]
pub struct Options {
    pub data_dir: PathBuf,
    pub store: Arc<dyn Store>,
    pub finder: Finder,
    /// The hub whose model is used beside the own one, if any.
    pub hub: Option<HubClient>,
}

/// How far a follower has got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is learned in this process.
    #[default]
    None,
    /// There are traces that are not learned yet.
    Behind,
    /// All traces that were stored a moment ago are learned.
    CaughtUp,
    /// The user has switched learning off.
    Off,
    /// Traces cannot be read.
    Failed(String),
}

/// Clones lead to the same follower. The default learns nothing.
#[derive(Clone, Debug, Default)]
pub struct Learning {
    shared: Option<Arc<Shared>>,
}

/// What the follower shares with searches.
#[derive(Debug)]
pub(super) struct Shared {
    /// The lock is held to exchange the pointer, and for nothing else.
    view: RwLock<Arc<View>>,
    pub(super) samples: Samples,
    /// There is something to do.
    pub(super) news: Notify,
    /// Cancelled when the follower is to end.
    pub(super) over: CancellationToken,
    pub(super) progress: watch::Sender<Progress>,
    work: Mutex<Work>,
}

/// What there is of the thread.
#[derive(Debug)]
enum Work {
    ToDo(Box<Options>),
    Going(JoinHandle<()>),
    Over,
}

impl Learning {
    /// Of a store. Nothing is read before somebody [asks for it](Self::begin).
    pub fn new(options: Options) -> Learning {
        let shared = Shared {
            view: RwLock::new(Arc::new(View::nothing())),
            samples: Samples::default(),
            news: Notify::new(),
            over: CancellationToken::new(),
            progress: watch::Sender::new(Progress::None),
            work: Mutex::new(Work::ToDo(Box::new(options))),
        };
        Learning { shared: Some(Arc::new(shared)) }
    }

    /// Starts to follow the store, in the background.
    pub fn begin(&self) {
        let Some(shared) = &self.shared else { return };
        let mut work = shared.work.lock().unwrap_or_else(PoisonError::into_inner);
        *work = match std::mem::replace(&mut *work, Work::Over) {
            Work::ToDo(options) => {
                options.finder.prepare();
                shared.progress.send_replace(Progress::Behind);
                let follower = Follower::new(*options, Arc::clone(shared));
                match std::thread::Builder::new().name("learning".to_owned()).spawn(move || follower.run()) {
                    Ok(thread) => Work::Going(thread),
                    Err(err) => {
                        tracing::warn!(error = %err, "nothing is learned: there is no thread for it");
                        shared.progress.send_replace(Progress::Failed(err.to_string()));
                        Work::Over
                    }
                }
            }
            going => going,
        };
    }

    /// What was learned so far. Waits for nothing.
    pub fn view(&self) -> Option<Arc<View>> {
        let shared = self.shared.as_ref()?;
        Some(Arc::clone(&shared.view.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// A trace may have been stored.
    pub fn nudge(&self) {
        if let Some(shared) = &self.shared {
            shared.news.notify_one();
        }
    }

    /// Shows the follower a result of a tool that does not say what it returns. `result` is asked for only if it is wanted.
    pub fn show(&self, tool: &Tool, bytes: usize, result: impl FnOnce() -> Option<String>) {
        let Some(shared) = &self.shared else { return };
        if tool.output_schema.is_some() || *shared.progress.borrow() == Progress::None {
            return;
        }
        let seen = self.view().map_or(0, |view| view.shapes.results(tool.id.as_str()));
        if shared.samples.wants(bytes, seen)
            && let Some(result) = result()
        {
            shared.samples.offer(Sample { tool: tool.id.to_string(), hash: tool.hash.clone(), result });
        }
    }

    /// Waits until the traces that are stored are learned, or cannot be; at most so long.
    pub async fn settled(&self, at_most: Duration) -> Progress {
        let Some(shared) = &self.shared else { return Progress::None };
        self.begin();
        let mut progress = shared.progress.subscribe();
        let _ = timeout(at_most, progress.wait_for(|progress| *progress != Progress::Behind)).await;
        shared.progress.borrow().clone()
    }

    /// Ends the follower, when what was learned is on disk.
    pub async fn stop(&self) {
        let Some(shared) = &self.shared else { return };
        shared.over.cancel();
        shared.news.notify_one();
        let work = std::mem::replace(&mut *shared.work.lock().unwrap_or_else(PoisonError::into_inner), Work::Over);
        if let Work::Going(thread) = work {
            let joined = tokio::task::spawn_blocking(move || thread.join());
            match timeout(STOP, joined).await {
                Ok(Ok(Ok(()))) => {}
                Ok(_) => tracing::error!("the thread that learns did not end as it should"),
                Err(_) => tracing::warn!("what was learned last is not on disk; it is learned again"),
            }
        }
    }
}

impl Shared {
    pub(super) fn publish(&self, view: View) {
        let view = Arc::new(view);
        let old = std::mem::replace(&mut *self.view.write().unwrap_or_else(PoisonError::into_inner), view);
        drop(old); // after the lock: what is dropped is large
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }
}
