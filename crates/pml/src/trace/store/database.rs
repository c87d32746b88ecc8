//! A database of traces: a queue, the thread that writes, and connections that read.
//!
//! This is the machinery of [`SqliteStore`](super::SqliteStore), which takes sanitized traces alone, and of
//! [`RawStore`](super::RawStore), which says what it is.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rusqlite::Connection;

use super::{
    Health, Scope, StoreError,
    change::{Change, Run},
    intake::Intake,
    place::{Place, TRACES},
    query::View,
    readers::Readers,
    sqlite_engine::SqliteEngine,
};

/// Commands that may wait.
const QUEUE: usize = 4096;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How a store keeps traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What was stored earlier is deleted.
    pub keep: Duration,
    /// If the database is larger, what was stored first is deleted.
    pub max_bytes: u64,
    /// Is a commit on the disk before it is told? Then it survives a power cut too, not only the end of the process.
    pub survives_power_cuts: bool,
    /// Commands that may wait for the writer.
    pub queue: usize,
    /// The data folder in which a gateway keeps its journal if the database is elsewhere. One that is in a data folder itself keeps
    /// it there.
    pub journal: Option<PathBuf>,
    /// Most pages of the database: what is more is a full disk. To try that out.
    pub max_pages: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            keep: 30 * DAY,
            max_bytes: 1024 * 1024 * 1024,
            survives_power_cuts: false,
            queue: QUEUE,
            journal: None,
            max_pages: None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Database {
    place: Place,
    pub(super) intake: Intake,
    readers: Arc<Readers>,
    /// Was it noted that there are keys in it?
    is_noted: AtomicBool,
}

impl Database {
    /// Opens `name` in the data folder, in the background: whatever is wrong with it is in its [`State`](super::State).
    pub(super) fn open(data_dir: &Path, name: &'static str, options: Options) -> Database {
        let place = Place::new(data_dir, name);
        let to = place.clone();
        // No answer waits for a raw trace.
        let journal = (name == TRACES).then(|| place.clone());
        let intake = Intake::start(&options.clone(), journal, |_| SqliteEngine::new(to, options));
        let readers = Arc::new(Readers::new(place.clone()));
        Database { place, intake, readers, is_noted: AtomicBool::new(false) }
    }

    /// Looks a few rows of one scope up. If there is nothing of it, nothing is found.
    pub(super) async fn look_up<T: Default + Send + 'static>(
        &self,
        scope: &Scope,
        query: impl FnOnce(View<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.look_up_all(of_scope(scope, query)).await
    }

    /// Looks a few rows up, of any scope.
    pub(super) async fn look_up_all<T: Default + Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        Arc::clone(&self.readers).look_up(query).await
    }

    /// Asks for something of one scope. If there is nothing of it, nothing is found.
    pub(super) async fn read<T: Default + Send + 'static>(
        &self,
        scope: &Scope,
        query: impl FnOnce(View<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.read_all(of_scope(scope, query)).await
    }

    /// Asks for something of every scope.
    pub(super) async fn read_all<T: Default + Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        Arc::clone(&self.readers).scan(query).await
    }

    /// Runs something in a transaction, perhaps several times: what the last run returns counts.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        scope: &Scope,
        mut change: impl FnMut(View<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let made = Arc::new(Mutex::new(None));
        let result = Arc::clone(&made);
        let run = Run::new(move |view| {
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(change(view)?);
            Ok(())
        });
        self.change(scope, Change::Run(run)).await?;
        let made = made.lock().unwrap_or_else(PoisonError::into_inner).take();
        made.ok_or_else(|| StoreError::Unavailable(self.intake.state()))
    }

    pub(super) async fn change(&self, scope: &Scope, change: Change) -> Result<u64, StoreError> {
        self.intake.change(scope, change).await
    }

    /// The turn to send what is unsent, if no other process has it.
    pub(super) fn take_turn(&self) -> io::Result<Option<File>> {
        self.place.take_turn()
    }

    /// Notes beside the database that there are keys in it.
    pub(super) fn note_keys(&self) -> io::Result<()> {
        // Once, also if that fails: whoever asks goes on either way.
        match self.is_noted.swap(true, Ordering::Relaxed) {
            true => Ok(()),
            false => self.place.note_keys(),
        }
    }

    pub(super) fn has_noted_keys(&self) -> bool {
        self.place.has_noted_keys()
    }

    pub(super) fn health(&self) -> Health {
        self.intake.health(self.place.path().display().to_string(), self.place.all_aside())
    }
}

/// Puts a question about one scope to a database. If there is nothing of that scope, nothing is found.
fn of_scope<T: Default>(
    scope: &Scope,
    query: impl FnOnce(View<'_>) -> Result<T, StoreError> + Send + 'static,
) -> impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static {
    let scope = scope.clone();
    move |db: &Connection| match View::of(db, &scope).map_err(StoreError::reading)? {
        Some(view) => query(view),
        None => Ok(T::default()),
    }
}
