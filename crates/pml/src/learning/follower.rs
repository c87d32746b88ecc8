//! The thread that follows the store.
//!
//! It learns traces in the order in which they were stored, a page at a time, and publishes what was learned at most once a
//! second while there is more to read. It looks for traces when this process has stored one, and now and then for those of
//! other processes. Only the process that holds the lock writes: the snapshot, and the priorities of traces.

use std::{fs::File, future::pending, path::PathBuf, sync::Arc, time::Duration};

use pml_learn::{Capabilities, Model, Update};
use pml_wire::ExecutionId;
use tokio::{
    runtime::Handle,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    handle::{Options, Progress, Shared},
    orders::{FOLDER, Orders},
    others::{self, Others},
    ranking::{View, settings},
    reusable::Reusables,
    saved::Saved,
    teacher::{Page, Teacher},
};
use crate::{
    catalog::{CAPABILITIES, Finder},
    clock::now_millis,
    files,
    hub::client::HubClient,
    trace::{
        Shapes,
        store::{Cursor, Store, StoreError},
    },
    work,
};

/// How often to look for traces of other processes, and for orders.
const POLL: Duration = Duration::from_secs(10);
/// How long after a trace was submitted to look for it: it is committed by then, and others may have come.
const GATHER: Duration = Duration::from_millis(60);
/// How often what was learned is published while there is more to learn.
const PUBLISH: Duration = Duration::from_secs(1);
/// What was learned is written after so many traces, or after so long.
const SAVE_TRACES: u64 = 500;
const SAVE: Duration = Duration::from_secs(120);
/// The same while there is more to learn: what a rebuild that is cut off has to do again.
const SAVE_BEHIND: Duration = Duration::from_secs(15);
/// How often the hub is asked for its model.
const ASK: Duration = Duration::from_secs(300);
/// How long the hub may take for that.
const EXCHANGE: Duration = Duration::from_secs(10);
/// How long the first tools to search are waited for.
const TOOLS: Duration = Duration::from_secs(10);

type Exchange = AbortOnDropHandle<Option<String>>;

#[derive(Debug)]
pub(super) struct Follower {
    data_dir: PathBuf,
    store: Arc<dyn Store>,
    finder: Finder,
    hub: Option<HubClient>,
    /// When the hub was asked last.
    asked_at: Option<Instant>,
    /// What the hub is being asked. It gives the hash of what the hub was told.
    exchange: Option<Exchange>,
    shared: Arc<Shared>,
    teacher: Teacher,
    model: Model,
    shapes: Shapes,
    others: Others,
    /// The capabilities that the model knows of.
    reusables: Option<Reusables>,
    /// Which of the orders all of this is of.
    epoch: u64,
    cursor: Cursor,
    /// Held by the one process that writes.
    lock: Option<File>,
    unsaved: u64,
    saved_at: Option<Instant>,
    /// Does the view lack something?
    is_changed: bool,
}

impl Follower {
    pub(super) fn new(options: Options, shared: Arc<Shared>) -> Follower {
        let Options { data_dir, store, finder, hub } = options;
        Follower {
            data_dir,
            store,
            finder,
            hub,
            asked_at: None,
            exchange: None,
            shared,
            teacher: Teacher::default(),
            model: Model::new(settings()),
            shapes: Shapes::default(),
            others: Others::default(),
            reusables: None,
            epoch: 0,
            cursor: Cursor::default(),
            lock: None,
            unsaved: 0,
            saved_at: None,
            is_changed: true,
        }
    }

    pub(super) fn run(mut self) {
        work::lower_priority();
        // A runtime of its own: this thread must not depend on those who serve clients, nor they on it.
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(self.follow()),
            Err(err) => {
                self.shared.progress.send_replace(Progress::Failed(err.to_string()));
            }
        }
    }

    async fn follow(&mut self) {
        let orders = Orders::read(&self.data_dir);
        self.restore(&orders);
        self.others.refresh(&self.data_dir);
        self.publish(!orders.is_off);
        let _ = timeout(TOOLS, self.finder.searchable()).await;
        let mut orders = orders;
        while !self.shared.is_over() {
            let before = std::mem::replace(&mut orders, Orders::read(&self.data_dir));
            if orders.epoch != self.epoch {
                self.restore(&orders);
            }
            self.is_changed |= before.is_off != orders.is_off;
            self.ask_hub(!orders.is_off);
            self.is_changed |= self.others.refresh(&self.data_dir);
            let progress = match orders.is_off {
                true => {
                    drop(self.shared.samples.take());
                    Progress::Off
                }
                false => {
                    self.take_shapes();
                    match self.catch_up().await {
                        Ok(()) => Progress::CaughtUp,
                        Err(err) => Progress::Failed(err.to_string()),
                    }
                }
            };
            self.publish(!orders.is_off);
            self.shared.progress.send_replace(progress);
            self.save_if_due();
            tokio::select! {
                told = answered(&mut self.exchange) => self.others.told = told.or(self.others.told.take()),
                // Whoever waits is told of at once; what comes in quick succession is read together.
                noticed = timeout(POLL, self.shared.news.notified()) => if noticed.is_ok() && !self.shared.is_over() {
                    sleep(GATHER).await;
                },
            }
        }
        if self.unsaved > 0 {
            self.save();
        }
    }

    /// Tells the hub now and then what was learned here and traces do not say, and asks what it has learned. One process does so
    /// for all. Learning goes on meanwhile, and a hub that hangs is left after a while.
    fn ask_hub(&mut self, is_on: bool) {
        let is_due = self.asked_at.is_none_or(|asked| asked.elapsed() > ASK);
        if self.hub.is_none() || self.exchange.is_some() || !is_due || !self.is_writer() {
            return;
        }
        self.asked_at = Some(Instant::now());
        let Some(hub) = self.hub.clone() else { return };
        let news = is_on.then(|| self.others.news(&self.data_dir, self.model.learned(), &self.shapes)).flatten();
        let data_dir = self.data_dir.clone();
        let exchange = async move {
            let exchanged = timeout(EXCHANGE, others::exchange(&data_dir, &hub, news)).await;
            exchanged.unwrap_or_else(|_| {
                tracing::debug!("the hub does not answer what it is asked about learning");
                None
            })
        };
        self.exchange = Some(AbortOnDropHandle::new(tokio::spawn(exchange)));
    }

    /// Begins with what was saved, or from nothing.
    fn restore(&mut self, orders: &Orders) {
        self.epoch = orders.epoch;
        let saved = Saved::read(&self.data_dir, &settings()).filter(|saved| saved.epoch == orders.epoch);
        let cursor = |text: &str| text.parse::<Cursor>().ok();
        (self.model, self.shapes, self.cursor) = match saved {
            Some(saved) => (saved.model, saved.shapes, cursor(&saved.cursor).unwrap_or_default()),
            None => {
                let start = orders.after.as_deref().and_then(cursor).unwrap_or_default();
                (Model::new(settings()), Shapes::default(), start)
            }
        };
        self.reusables = None;
        self.unsaved = 0;
        self.is_changed = true;
    }

    /// Tells the model which capabilities there are: what used them, or exactly their tools, was right to be matched with them.
    fn take_capabilities(&mut self) {
        let snapshot = self.finder.catalog();
        let has_any = snapshot.listing(CAPABILITIES).is_some();
        if self.reusables.as_ref().map_or(!has_any, |known| known.are_of(&snapshot)) {
            return;
        }
        self.reusables = Reusables::of(&snapshot);
        self.model.set_capabilities(match &self.reusables {
            Some(reusables) => Arc::clone(&reusables.capabilities),
            None => Arc::new(Capabilities::new(settings().dimensions, [])),
        });
    }

    fn take_shapes(&mut self) {
        for sample in self.shared.samples.take() {
            self.shapes.add(&sample.tool, &sample.hash, &sample.result);
            self.is_changed = true;
            self.unsaved += 1;
        }
    }

    /// Learns what was stored since. While a page of traces is learned, another thread reads the next one and searches for its
    /// intents: the order of the traces, and so the model, does not depend on how far ahead that thread is.
    async fn catch_up(&mut self) -> Result<(), StoreError> {
        let mut published = Instant::now();
        let begun = published;
        let mut reading = self.read_after(self.cursor);
        loop {
            let (teacher, page) =
                reading.await.map_err(|err| StoreError::Failed { doing: "learned", source: err.into() })?;
            self.teacher = teacher;
            let page = page?;
            let next = (!page.is_last).then(|| self.read_after(page.end));
            self.take_capabilities();
            let mut priorities = Vec::new();
            for prepared in &page.lessons {
                if self.shared.is_over() {
                    return Ok(());
                }
                if let Some(Update { priority, .. }) = prepared.teach(&mut self.model) {
                    self.unsaved += 1;
                    self.is_changed = true;
                    priorities.push((prepared.id, priority));
                }
            }
            self.write_priorities(priorities).await;
            self.cursor = page.end;
            let Some(next) = next else { return Ok(()) };
            reading = next;
            self.shared.progress.send_replace(Progress::Behind);
            if published.elapsed() > PUBLISH {
                self.publish(true);
                published = Instant::now();
            }
            if self.unsaved > 0 && self.saved_at.map_or(begun, |saved| saved.max(begun)).elapsed() > SAVE_BEHIND {
                self.save();
            }
        }
    }

    /// Begins to read the page of traces that were stored after a place, with the tools of this moment.
    fn read_after(&mut self, after: Cursor) -> JoinHandle<(Teacher, Result<Page, StoreError>)> {
        let mut teacher = std::mem::take(&mut self.teacher);
        if let Some(index) = self.finder.now() {
            teacher.set_index(index.table(), index.table_tools());
        }
        let (store, runtime) = (Arc::clone(&self.store), Handle::current());
        let learned = self.model.learned().traces();
        spawn_blocking(move || {
            let page = runtime.block_on(teacher.prepare(&*store, (after, learned), now_millis()));
            (teacher, page)
        })
    }

    async fn write_priorities(&mut self, priorities: Vec<(ExecutionId, f64)>) {
        if priorities.is_empty() || !self.is_writer() {
            return;
        }
        if let Err(err) = self.store.set_priorities(priorities).await {
            tracing::debug!(error = %err, "how much there is to learn from traces is not written down");
        }
    }

    fn publish(&mut self, is_on: bool) {
        if std::mem::take(&mut self.is_changed) {
            let view = View {
                learned: self.model.learned().clone(),
                shapes: self.shapes.clone(),
                others: self.others.shared.clone(),
                shapes_of_others: Arc::clone(&self.others.shapes),
                is_on,
            };
            self.shared.publish(view);
        }
    }

    fn save_if_due(&mut self) {
        let is_old = self.saved_at.is_none_or(|saved| saved.elapsed() > SAVE);
        if self.unsaved >= SAVE_TRACES || (self.unsaved > 0 && is_old) {
            self.save();
        }
    }

    fn save(&mut self) {
        self.saved_at = Some(Instant::now());
        // Orders that were given meanwhile make it worthless.
        if !self.is_writer() || Orders::read(&self.data_dir).epoch != self.epoch {
            return;
        }
        match Saved::write(&self.data_dir, (self.epoch, self.cursor.to_string()), &self.model, &self.shapes) {
            Ok(()) => self.unsaved = 0,
            Err(err) => tracing::warn!(error = %err, "what was learned cannot be written; it is learned again"),
        }
    }

    /// Is this the one process that writes? The lock ends with the process, however that ends.
    fn is_writer(&mut self) -> bool {
        if self.lock.is_none() {
            let folder = self.data_dir.join(FOLDER);
            let locked = files::make_folder(&folder)
                .and_then(|()| files::append(&folder.join("lock")))
                .and_then(|file| file.try_lock().map(|()| file).map_err(std::io::Error::from));
            self.lock = locked.ok();
        }
        self.lock.is_some()
    }
}

/// Waits until the hub has answered, for ever if it is not being asked.
async fn answered(exchange: &mut Option<Exchange>) -> Option<String> {
    let Some(asked) = exchange else { return pending().await };
    let told = asked.await.ok().flatten();
    *exchange = None;
    told
}
