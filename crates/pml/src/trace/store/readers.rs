//! Connections that only read.
//!
//! In WAL mode a reader sees the database as it was when its query began, and neither waits for the writer nor makes it
//! wait. Each query has a connection for itself. A lookup reads a few pages by an index, and is made by whoever asks: waking a
//! thread and being woken by it takes longer. A scan may read every row of a scope, so it runs on a thread that may be
//! blocked, and ends when nobody waits for it any more.
//!
//! **Invariant:** lookups never wait for scans. What one client may have scanned keeps no other from its keys and traces.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
    task,
};

use super::{
    State, StoreError,
    place::{Identity, Place},
    query, schema,
};
use crate::files::{self, Kind};

/// Lookups, and scans, at the same time.
pub(super) const MAX_LOOKUPS: usize = 4;
pub(super) const MAX_SCANS: usize = 2;
/// Steps of SQLite's machine between two looks whether a scan is still wanted: some microseconds.
const STEPS: i32 = 1000;
/// How long a query waits where it must: while a log of a process that died is read back.
const BUSY: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Readers {
    place: Place,
    idle: Mutex<Vec<Reader>>,
    lookups: Semaphore,
    scans: Arc<Semaphore>,
}

/// Ends a scan when it is dropped: says that nobody waits for it any more.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Reader {
    identity: Option<Identity>,
    connection: Connection,
}

impl Readers {
    pub(super) fn new(place: Place) -> Readers {
        Readers {
            place,
            idle: Mutex::default(),
            lookups: Semaphore::new(MAX_LOOKUPS),
            scans: Arc::new(Semaphore::new(MAX_SCANS)),
        }
    }

    /// Runs a query that reads a few rows by an index. Without a database, nothing is found.
    pub(super) async fn look_up<T: Default + Send + 'static>(
        self: Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // The semaphore is never closed.
        let Ok(_turn) = self.lookups.acquire().await else { return Ok(T::default()) };
        if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
            // Other tasks of this thread go on elsewhere meanwhile.
            return task::block_in_place(|| self.read_now(|db| query(db)));
        }
        let readers = Arc::clone(&self);
        task::spawn_blocking(move || readers.read_now(|db| query(db))).await.map_err(StoreError::reading)?
    }

    /// Runs a query that may read many rows. Without a database, nothing is found. Dropping the future ends the query.
    pub(super) async fn scan<T: Default + Send + 'static>(
        self: Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // The semaphore is never closed.
        let Ok(turn) = Arc::clone(&self.scans).acquire_owned().await else { return Ok(T::default()) };
        let waiting = Waiting(Arc::default());
        let is_unwanted = Arc::clone(&waiting.0);
        let scanning = move |db: &mut Connection| {
            // Asked, not told: `sqlite3_interrupt` does nothing if the statement is about to begin.
            let asked = move || is_unwanted.load(Ordering::Relaxed);
            db.progress_handler(STEPS, Some(asked)).map_err(StoreError::reading)?;
            let answer = query(db);
            // From here on the connection may be used by others.
            db.progress_handler(0, None::<fn() -> bool>).map_err(StoreError::reading)?;
            answer
        };
        let readers = Arc::clone(&self);
        let reading = task::spawn_blocking(move || {
            let answer = readers.read_now(scanning);
            drop(turn);
            answer
        });
        let answer = reading.await.map_err(StoreError::reading)?;
        drop(waiting);
        answer
    }

    fn read_now<T: Default>(
        &self,
        query: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let identity = self.place.identity();
        if identity.is_none() {
            return Ok(T::default());
        }
        let known = {
            let mut idle = lock(&self.idle);
            // One of a database that was set aside is of no use.
            idle.retain(|reader| reader.identity == identity);
            idle.pop()
        };
        let mut reader = match known {
            Some(reader) => reader,
            None => match self.open(identity)? {
                Some(reader) => reader,
                None => return Ok(T::default()),
            },
        };
        let answer = query(&mut reader.connection);
        lock(&self.idle).push(reader);
        answer
    }

    /// `None` if the database has no tables yet.
    fn open(&self, identity: Option<Identity>) -> Result<Option<Reader>, StoreError> {
        if let Err(problem) = files::look(&self.place.path(), Kind::Private) {
            return Err(StoreError::reading(problem.into_io(&self.place.path())));
        }
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let path = self.place.real_path().map_err(StoreError::reading)?;
        let connection = Connection::open_with_flags(path, flags).map_err(StoreError::reading)?;
        connection.busy_timeout(BUSY).map_err(StoreError::reading)?;
        match schema::version(&connection).map_err(StoreError::reading)? {
            0 => return Ok(None),
            schema::VERSION => {}
            newer if newer > schema::VERSION => return Err(StoreError::Unavailable(State::Newer(newer))),
            older => {
                let why =
                    format!("the database has version {older} of an older pml, and was not brought up to date yet");
                return Err(StoreError::reading(why));
            }
        }
        query::add_functions(&connection).map_err(StoreError::reading)?;
        Ok(Some(Reader { identity, connection }))
    }
}
