//! What the writer does to a PostgreSQL database: one connection, which is made again when it is gone.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use pml_wire::ExecutionId;
use tokio::runtime::Runtime;

use super::{
    super::{
        Commit, Options, Scope, StoreError,
        body::Encoder,
        change::{Change, Progress},
        connection::Trouble,
        engine::{Begun, Coping, Engine, Entry, What},
        health::Shared,
        row::Row,
        writer::STOP_PATIENCE,
    },
    address::Address,
    ancestry,
    batch::{self, Head, Numbered},
    capability, change,
    notices::Notices,
    owner, schema,
    session::{Id, Session},
    tenant,
};

/// Waits between attempts: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Most tasks in one statement.
const MAX_TASKS: usize = 8192;

pub(in crate::trace::store) struct PostgresEngine {
    address: Address,
    options: Options,
    shared: Arc<Shared>,
    /// Runs the connection, on the writer's thread, while that waits for the server.
    runtime: Runtime,
    session: Option<Session>,
    encoder: Encoder,
    /// This process as an owner of executions, once it has run one.
    owner: Option<i64>,
    /// Traces that may have been stored when a connection ended.
    uncertain: HashSet<ExecutionId>,
    notices: Notices,
    pause: Duration,
}

impl PostgresEngine {
    pub(super) fn new(address: Address, options: Options, shared: Arc<Shared>) -> std::io::Result<PostgresEngine> {
        Ok(PostgresEngine {
            address,
            options,
            shared,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            session: None,
            encoder: Encoder::new()?,
            owner: None,
            uncertain: HashSet::new(),
            notices: Notices::default(),
            pause: FIRST_PAUSE,
        })
    }

    /// Does something with the open connection. Whatever goes wrong ends the connection; the end of the process does not wait
    /// for long.
    fn with<T>(&mut self, work: impl AsyncFnOnce(&mut Work<'_>) -> Result<T, Trouble>) -> Result<T, Trouble> {
        let PostgresEngine { address, shared, runtime, session, encoder, owner, .. } = self;
        let done = runtime.block_on(async {
            let working = async {
                if session.as_ref().is_none_or(Session::is_closed) {
                    *session = None;
                    *session = Some(open(address, *owner).await?);
                }
                let session = session.as_ref().expect("it was opened above");
                work(&mut Work { session, encoder, owner }).await
            };
            tokio::select! {
                done = working => done,
                () = hopeless(shared) => Err(Trouble::Away("the database does not answer".to_owned())),
            }
        });
        match &done {
            Ok(_) => self.pause = FIRST_PAUSE,
            // The connection is well, and so are its transactions: a statement that is refused is rolled back.
            Err(Trouble::Refused(_)) => {}
            Err(_) => {
                let session = self.session.take();
                // Its task is ended on the runtime that it belongs to.
                self.runtime.block_on(async { drop(session) });
            }
        }
        done
    }

    fn try_write(&mut self, batch: &[Entry]) -> Result<Vec<Commit>, Trouble> {
        let is_first_head = self.owner.is_none() && batch.iter().any(|what| matches!(what.what, What::Head(_)));
        self.with(async |work| {
            if is_first_head {
                let id = owner::mint()?;
                owner::register(work.session, id).await?;
                *work.owner = Some(id);
            }
            work.write(batch).await
        })
    }
}

/// What a statement needs.
struct Work<'a> {
    session: &'a Session,
    encoder: &'a mut Encoder,
    owner: &'a mut Option<i64>,
}

impl Work<'_> {
    async fn write(&mut self, batch: &[Entry]) -> Result<Vec<Commit>, Trouble> {
        let mut commits = vec![Commit::Stored; batch.len()];
        let ended: HashSet<_> = batch.iter().filter_map(Entry::trace).map(|row| row.id).collect();
        let mut heads = Vec::new();
        for what in batch {
            // What has begun and ended since the last time only has ended.
            if let What::Head(Begun { scope, id, ts, json }) = &what.what
                && !ended.contains(id)
            {
                let (tenant, id, owner) =
                    (tenant::number(self.session, scope).await?, Id(*id.as_bytes()), self.owner.unwrap_or(0));
                heads.push(Head { tenant, id, owner, ts: *ts, json: json.replace('\0', "") });
            }
        }
        // The last of two heads of the same execution counts.
        heads.reverse();
        heads.sort_by_key(|head| (head.tenant, head.id));
        heads.dedup_by_key(|head| (head.tenant, head.id));
        let rows: Vec<(usize, &Row)> =
            batch.iter().enumerate().filter_map(|(at, what)| Some((at, what.trace()?))).collect();
        let mut rest = &rows[..];
        loop {
            let mut tasks = 0;
            let fits = |(_, row): &&(usize, &Row)| {
                tasks += row.tasks.len();
                tasks <= MAX_TASKS
            };
            let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
            let (part, later) = rest.split_at(count);
            let done = self.store(&heads, part).await?;
            for ((at, _), commit) in part.iter().zip(done) {
                commits[*at] = commit;
            }
            heads.clear();
            rest = later;
            if rest.is_empty() {
                return Ok(commits);
            }
        }
    }

    async fn store(&mut self, heads: &[Head], rows: &[(usize, &Row)]) -> Result<Vec<Commit>, Trouble> {
        let mut traces = Vec::with_capacity(rows.len());
        for (_, row) in rows {
            traces.push(Numbered { tenant: tenant::number(self.session, &row.scope).await?, row, capability: None });
        }
        let has_suspects = traces.iter().any(ancestry::is_suspect);
        if !has_suspects && traces.iter().all(|trace| trace.row.capability.is_none()) {
            return batch::store(self.session, heads, &traces).await;
        }
        self.session
            .transaction(async |session| {
                let endless = match has_suspects {
                    true => ancestry::endless(session, &traces).await?,
                    false => vec![false; traces.len()],
                };
                let mut is_endless = endless.iter();
                traces.retain(|_| is_endless.next() == Some(&false));
                // A capability that arrives meanwhile is either seen here, or sees these traces.
                session.execute("SELECT pg_advisory_xact_lock_shared(8100849829732679682)", &[]).await?;
                for trace in &mut traces {
                    if let Some(name) = &trace.row.capability {
                        trace.capability = capability::resolve(session, trace.tenant, name).await?;
                    }
                }
                let mut commits = batch::store_within(session, heads, &traces).await?.into_iter();
                let commit = |is_endless| match is_endless {
                    true => Commit::Endless,
                    false => commits.next().unwrap_or(Commit::Stored),
                };
                Ok(endless.into_iter().map(commit).collect())
            })
            .await
    }
}

/// Connects, for writing.
async fn open(address: &Address, owner: Option<i64>) -> Result<Session, Trouble> {
    let session = Session::connect(address).await?;
    schema::migrate(&session).await?;
    // A commit that is told is on the disk, whatever the server's settings say otherwise.
    let sql =
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";
    session.query(sql, &[]).await?;
    if let Some(owner) = owner {
        owner::register(&session, owner).await?;
    }
    Ok(session)
}

/// Comes back some time after the process has begun to end.
async fn hopeless(shared: &Shared) {
    while !shared.is_stopping.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(STOP_PATIENCE).await;
}

impl Engine for PostgresEngine {
    fn open(&mut self) -> Result<(), Trouble> {
        self.with(async |_| Ok(()))
    }

    fn is_open(&self) -> bool {
        self.session.is_some()
    }

    fn write(&mut self, batch: &[Entry]) -> Result<Vec<Commit>, (Trouble, Option<usize>)> {
        let mut commits = match self.try_write(batch) {
            Ok(commits) => commits,
            Err(Trouble::Refused(why)) => {
                // Which one? Those that are stored by this are found to be so when they are tried again.
                let culprit = (0..batch.len()).find(|at| {
                    let alone = self.try_write(&batch[*at..=*at]);
                    self.uncertain.extend(batch[*at].trace().map(|row| row.id));
                    matches!(alone, Err(Trouble::Refused(_)))
                });
                return Err((Trouble::Refused(why), culprit));
            }
            Err(trouble) => {
                // Of the others it is known that nothing was stored.
                if matches!(trouble, Trouble::Away(_) | Trouble::Other(_)) {
                    self.uncertain.extend(batch.iter().filter_map(Entry::trace).map(|row| row.id));
                }
                return Err((trouble, None));
            }
        };
        for (what, commit) in batch.iter().zip(&mut commits) {
            let Some(row) = what.trace() else { continue };
            if self.uncertain.remove(&row.id) && *commit == Commit::Duplicate {
                *commit = Commit::Stored;
            }
            if *commit == Commit::Stored
                && let Some(tenant) = self.session.as_ref().and_then(|session| session.known_tenant(&row.scope))
            {
                self.notices.add(tenant, row.id);
            }
        }
        Ok(commits)
    }

    fn count(&mut self, more: &[(&'static str, u64)]) -> Result<(), Trouble> {
        self.with(async |work| {
            for (what, n) in more {
                let sql =
                    "INSERT INTO count (what, n) VALUES ($1, $2) ON CONFLICT (what) DO UPDATE SET n = count.n + $2";
                work.session.execute(sql, &[what, &i64::try_from(*n).unwrap_or(i64::MAX)]).await?;
            }
            Ok(())
        })
    }

    fn slice(&mut self, scope: &Scope, change: &mut Change) -> Result<(u64, Progress), (Trouble, StoreError)> {
        let options = self.options.clone();
        let sliced = self.with(async |work| {
            let tenant = tenant::number(work.session, scope).await?;
            change::slice(work.session, tenant, change, &options).await
        });
        sliced.map_err(|trouble| (trouble.clone(), trouble.into()))
    }

    fn recover(&mut self) -> Result<u64, Trouble> {
        self.with(async |work| {
            if let Some(own) = *work.owner {
                // Also if another session of this process had the lock until now.
                owner::register(work.session, own).await?;
            }
            owner::recover(work.session, work.encoder, *work.owner).await
        })
    }

    fn settle(&mut self, dropped: &[ExecutionId]) -> Result<(), Trouble> {
        self.with(async |work| owner::settle(work.session, work.encoder, *work.owner, dropped).await)
    }

    fn tick(&mut self) -> Option<Duration> {
        if let Some(wait) = self.notices.due_in() {
            if !wait.is_zero() {
                return Some(wait);
            }
            let payloads = self.notices.take();
            self.session.as_ref()?;
            // Who follows looks by itself after a while.
            let _ = self.with(async |work| {
                for payload in &payloads {
                    work.session.query("SELECT pg_notify('pml_trace', $1)", &[payload]).await?;
                }
                Ok(())
            });
        }
        None
    }

    fn cope(&mut self, _: &Trouble) -> Coping {
        let pause = self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Coping::Wait(jittered(pause))
    }

    fn close(&mut self) {
        if let Some(owner) = self.owner
            && self.with(async |work| owner::conclude(work.session, work.encoder, owner).await).is_err()
        {
            tracing::debug!("executions that have not ended are left to another pml");
        }
        self.tick();
        let session = self.session.take();
        self.runtime.block_on(async { drop(session) });
    }
}

/// Between half of it and all of it, so that many processes do not come back at the same moment.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0; 1];
    let _ = getrandom::fill(&mut byte);
    pause / 2 + pause / 2 * u32::from(byte[0]) / 256
}

impl fmt::Debug for PostgresEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresEngine").field("address", &self.address).finish_non_exhaustive()
    }
}
