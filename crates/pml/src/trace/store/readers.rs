//! Connections that only read.
//!
//! In WAL mode a reader sees the database as it was when its query began, and neither waits for the writer nor makes it
//! wait. Each query has a connection for itself, on a thread that may be blocked.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use super::{
    State, StoreError,
    place::{Identity, Place},
    query, schema,
};
use crate::files::{self, Kind};

/// Queries at the same time.
const MAX_READERS: usize = 4;
/// How long a query waits where it must: while a log of a process that died is read back.
const BUSY: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Readers {
    place: Place,
    idle: Mutex<Vec<Reader>>,
    turns: Semaphore,
}

#[derive(Debug)]
struct Reader {
    identity: Option<Identity>,
    connection: Connection,
}

impl Readers {
    pub(super) fn new(place: Place) -> Readers {
        Readers { place, idle: Mutex::default(), turns: Semaphore::new(MAX_READERS) }
    }

    /// Runs a query. Without a database, nothing is found.
    pub(super) async fn read<T: Default + Send + 'static>(
        self: Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // The semaphore is never closed.
        let Ok(_turn) = self.turns.acquire().await else { return Ok(T::default()) };
        let readers = Arc::clone(&self);
        let answer = tokio::task::spawn_blocking(move || readers.read_now(query)).await;
        answer.map_err(StoreError::reading)?
    }

    fn read_now<T: Default>(&self, query: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let identity = self.place.identity();
        if identity.is_none() {
            return Ok(T::default());
        }
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let known = {
            let mut idle = idle();
            // One of a database that was set aside is of no use.
            idle.retain(|reader| reader.identity == identity);
            idle.pop()
        };
        let reader = match known {
            Some(reader) => reader,
            None => match self.open(identity)? {
                Some(reader) => reader,
                None => return Ok(T::default()),
            },
        };
        let answer = query(&reader.connection);
        idle().push(reader);
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
