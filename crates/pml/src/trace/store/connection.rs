//! The connection that writes, and what can be wrong with it.

use std::{
    io,
    path::Path,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::JoinHandle,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use super::{
    Options, State, change,
    place::{Identity, Place},
    row::Known,
    schema::{self, Refusal},
};

/// How long one attempt waits for a lock of another process.
const BUSY: Duration = Duration::from_millis(50);
/// A log of this size is written into the database.
const LOG_BYTES: u64 = 4 * 1024 * 1024;
/// A log of this size is emptied, even if that holds up the writer.
const MAX_LOG_BYTES: u64 = 64 * 1024 * 1024;
/// A log that is smaller may stay behind when the store is closed.
const SMALL_LOG_BYTES: u64 = 256 * 1024;

/// What is wrong with the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Another process holds the lock.
    Busy,
    /// The server is not there, restarts, or has ended the connection. What was sent may have been done.
    Away(String),
    Full,
    ReadOnly(String),
    Damaged(String),
    Newer(i64),
    /// The database is well, but does not take this.
    Refused(String),
    Other(String),
}

impl Trouble {
    pub(super) fn of(err: &rusqlite::Error) -> Trouble {
        use rusqlite::ErrorCode as Code;
        let why = err.to_string();
        match err.sqlite_error_code() {
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => Trouble::Busy,
            Some(Code::DiskFull) => Trouble::Full,
            Some(Code::ReadOnly | Code::PermissionDenied | Code::CannotOpen) => Trouble::ReadOnly(why),
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => Trouble::Damaged(why),
            Some(Code::ConstraintViolation | Code::TypeMismatch | Code::TooBig) | None => Trouble::Refused(why),
            Some(_) => Trouble::Other(why),
        }
    }

    pub(crate) fn of_io(err: &io::Error) -> Trouble {
        match err.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Trouble::Full,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Trouble::ReadOnly(err.to_string()),
            io::ErrorKind::TimedOut => Trouble::Busy,
            _ => Trouble::Other(err.to_string()),
        }
    }

    pub(crate) fn state(&self) -> State {
        match self {
            Trouble::Busy => State::Locked,
            Trouble::Full => State::Full,
            Trouble::ReadOnly(why) => State::ReadOnly(why.clone()),
            Trouble::Newer(found) => State::Newer(*found),
            Trouble::Away(why) | Trouble::Damaged(why) | Trouble::Refused(why) | Trouble::Other(why) => {
                State::Failing(why.clone())
            }
        }
    }
}

/// An open database.
#[derive(Debug)]
pub(super) struct Db {
    pub(super) connection: Connection,
    pub(super) identity: Option<Identity>,
    pub(super) known: Known,
    /// Is a commit on the disk before it is told?
    is_durable: bool,
    /// Changes when another connection has changed the database.
    pub(super) version: Option<(i64, i64)>,
}

impl Db {
    /// Opens the database; makes it if there is none, and sets it aside if it is none.
    pub(super) fn open(place: &Place, options: &Options) -> Result<Db, Trouble> {
        match Db::try_open(place, options) {
            Err(Trouble::Damaged(why)) => {
                let aside = place.set_aside(place.identity()).map_err(|err| Trouble::of_io(&err))?;
                if let Some(aside) = aside {
                    tracing::error!(error = why, "the trace store is damaged; it is kept as `{}`", aside.display());
                }
                Db::try_open(place, options)
            }
            opened => opened,
        }
    }

    fn try_open(place: &Place, options: &Options) -> Result<Db, Trouble> {
        place.prepare().map_err(|err| Trouble::of_io(&err))?;
        let _lock = place.lock().map_err(|err| Trouble::of_io(&err))?;
        let path = place.real_path().map_err(|err| Trouble::of_io(&err))?;
        let identity = place.identity();
        let connection = Db::connect(&path, options).map_err(|refusal| match refusal {
            Refusal::Newer(found) => Trouble::Newer(found),
            Refusal::Failed(err) => Trouble::of(&err),
        })?;
        Ok(Db { connection, identity, known: Known::default(), is_durable: options.survives_power_cuts, version: None })
    }

    fn connect(path: &Path, options: &Options) -> Result<Connection, Refusal> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.set_prepared_statement_cache_capacity(64);
        schema::migrate(&mut connection)?;
        connection.pragma_update(None, "synchronous", if options.survives_power_cuts { "FULL" } else { "NORMAL" })?;
        // The log is written back by a thread of its own: a commit must not wait for that.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_update(None, "cache_size", -8192)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        // What is deleted is overwritten.
        connection.pragma_update(None, "secure_delete", true)?;
        if let Some(pages) = options.max_pages {
            connection.pragma_update(None, "max_page_count", pages)?;
        }
        Ok(connection)
    }

    /// Says whether the next commits are to survive a power cut. Not within a transaction.
    pub(super) fn set_durable(&mut self, is_durable: bool) -> rusqlite::Result<()> {
        if self.is_durable != is_durable {
            self.connection.pragma_update(None, "synchronous", if is_durable { "FULL" } else { "NORMAL" })?;
            self.is_durable = is_durable;
        }
        Ok(())
    }

    /// What changes when another connection has changed the database, and the version of its tables.
    pub(super) fn version(db: &Connection) -> rusqlite::Result<(i64, i64)> {
        let changes = db.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        Ok((changes, schema::version(db)?))
    }

    /// Closes the database. A small log stays behind: to write it back would cost every short command a few milliseconds.
    pub(super) fn close(self, place: &Place) {
        let is_small = change::log_bytes(&place.path()) < SMALL_LOG_BYTES;
        if is_small {
            let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

/// A thread that writes the log into the database, while the writer goes on.
#[derive(Debug)]
pub(super) struct Checkpointer {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Since the thread was last woken.
    bytes: u64,
}

impl Checkpointer {
    pub(super) fn start(place: Place) -> io::Result<Checkpointer> {
        let (wake, woken) = sync_channel(1);
        let thread = std::thread::Builder::new().name("trace log".to_owned()).spawn(move || run(&place, &woken))?;
        Ok(Checkpointer { wake: Some(wake), thread: Some(thread), bytes: 0 })
    }

    /// So much was written.
    pub(super) fn written(&mut self, bytes: usize) {
        // Rows, indexes and whole pages: the log grows by several times what is compressed.
        self.bytes += 4 * bytes as u64;
        if self.bytes >= LOG_BYTES {
            self.wake();
        }
    }

    pub(super) fn log_grew_to(&mut self, bytes: u64) {
        if bytes >= LOG_BYTES {
            self.wake();
        }
    }

    fn wake(&mut self) {
        self.bytes = 0;
        if let Some(wake) = &self.wake {
            // Full if the thread is about to look anyway.
            let _ = wake.try_send(());
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the trace store's log was not written back as it should be");
        }
    }
}

fn run(place: &Place, woken: &Receiver<()>) {
    while woken.recv().is_ok() {
        let path = place.path();
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let done = place.real_path().map_err(|err| err.to_string()).and_then(|path| {
            let db = Connection::open_with_flags(path, flags).map_err(|err| err.to_string())?;
            let how = if change::log_bytes(&place.path()) > MAX_LOG_BYTES { "TRUNCATE" } else { "PASSIVE" };
            let checkpoint = format!("PRAGMA wal_checkpoint({how})");
            let done = db.busy_timeout(BUSY).and_then(|()| db.query_row(&checkpoint, [], |_| Ok(())));
            let _ = db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
            done.map_err(|err| err.to_string())
        });
        if let Err(err) = done {
            // The log grows until it works.
            tracing::debug!(error = err, "the log of `{}` is not written back", path.display());
        }
    }
}
