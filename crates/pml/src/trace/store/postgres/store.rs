//! Traces in a PostgreSQL database.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicU64},
};

use futures_util::future::BoxFuture;
use pml_wire::ExecutionId;

use super::{
    super::{
        Answer, Archive, Filter, Found, Health, Options, Outbox, Outgoing, Page, Reading, Record, Sample, Sampled,
        Scope, State, Stats, Store, StoreError, Stores, Turn, WayIn,
        connection::Trouble,
        health::Shared,
        intake::Intake,
        place::Place,
        query::{Stored, Whole},
    },
    address::Address,
    engine::PostgresEngine,
    follow::Follower,
    keys,
    pool::{Ask, Pool},
    query, schema,
    session::Session,
    tenant,
};
use crate::{
    digest::sha256,
    trace::{SanitizedTrace, TraceHead},
};

/// A PostgreSQL database with the traces of every scope. Several processes may share it.
#[derive(Clone, Debug)]
pub struct PostgresStores(Arc<Database>);

/// The traces of one scope in such a database.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    database: Arc<Database>,
    scope: Scope,
    /// How often something new had been heard of when somebody who follows last looked.
    seen: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Database {
    address: Address,
    intake: Intake,
    pool: Pool,
    follower: Follower,
}

impl PostgresStores {
    /// Connects in the background. Nothing fails here: whatever is wrong is in [`Stores::health`].
    pub fn open(address: Address, options: Options) -> PostgresStores {
        let (settings, to) = (options.clone(), address.clone());
        let journal = options.journal.as_deref().map(|folder| journal_place(folder, &address));
        let start = move |shared: Arc<Shared>| PostgresEngine::new(to, settings, shared);
        let intake = Intake::start(&options, journal, start);
        let pool = Pool::new(address.clone());
        let follower = Follower::new(address.clone());
        PostgresStores(Arc::new(Database { address, intake, pool, follower }))
    }

    pub fn scoped(&self, scope: Scope) -> PostgresStore {
        PostgresStore { database: Arc::clone(&self.0), scope, seen: Arc::default() }
    }

    /// Waits until the database is open, or cannot be opened.
    pub async fn opened(&self) {
        self.0.intake.opened().await;
    }

    /// Looks a few rows up, of any scope.
    pub(crate) async fn look_up<T>(&self, ask: impl Ask<T>) -> Result<T, StoreError> {
        Ok(self.0.pool.look_up(ask).await?)
    }

    /// Asks for something of every scope.
    pub(crate) async fn read<T>(&self, ask: impl Ask<T>) -> Result<T, StoreError> {
        Ok(self.0.pool.read(ask).await?)
    }

    /// Changes something, in a transaction.
    pub(crate) async fn run<T>(&self, change: impl Ask<T>) -> Result<T, StoreError> {
        Ok(self.0.pool.run(change).await?)
    }
}

/// Where heads are kept that this database has not taken in time. Another database is not told of them.
fn journal_place(data_dir: &Path, address: &Address) -> Place {
    Place::new(data_dir, &format!("postgres-{}", &sha256(address.to_string())[..16]))
}

impl Stores for PostgresStores {
    fn of(&self, scope: &Scope) -> Arc<dyn Store> {
        Arc::new(self.scoped(scope.clone()))
    }

    fn health(&self) -> Health {
        self.0.health()
    }

    fn state(&self) -> State {
        self.0.intake.state()
    }
}

impl Database {
    fn health(&self) -> Health {
        self.intake.health(self.address.to_string(), Vec::new())
    }
}

impl PostgresStore {
    /// Opens the store of what a gateway keeps for itself, in the background.
    pub fn open(address: Address, options: Options) -> PostgresStore {
        PostgresStores::open(address, options).scoped(Scope::local())
    }

    /// Waits until the database is open, or cannot be opened.
    pub async fn opened(&self) {
        self.database.intake.opened().await;
    }

    /// Looks a few rows of this scope up. If there is nothing of it, nothing is found.
    async fn look_up<T: Default + Send + 'static>(&self, ask: impl AskScope<T>) -> Result<T, StoreError> {
        Ok(self.database.pool.look_up(|session| of_scope(session, self.scope.clone(), ask.clone())).await?)
    }

    /// Asks for something of this scope. If there is nothing of it, nothing is found.
    async fn read<T: Default + Send + 'static>(&self, ask: impl AskScope<T>) -> Result<T, StoreError> {
        Ok(self.database.pool.read(|session| of_scope(session, self.scope.clone(), ask.clone())).await?)
    }
}

/// A question about a scope, by its number.
trait AskScope<T>:
    for<'s> Fn(&'s Session, i32) -> BoxFuture<'s, Result<T, Trouble>> + Clone + Send + Sync + 'static
{
}

impl<T, F: for<'s> Fn(&'s Session, i32) -> BoxFuture<'s, Result<T, Trouble>> + Clone + Send + Sync + 'static>
    AskScope<T> for F
{
}

fn of_scope<'s, T: Default + Send + 'static>(
    session: &'s Session,
    scope: Scope,
    ask: impl AskScope<T>,
) -> BoxFuture<'s, Result<T, Trouble>> {
    Box::pin(async move {
        match tenant::find(session, &scope).await? {
            Some(tenant) => ask(session, tenant).await,
            None => Ok(T::default()),
        }
    })
}

impl Archive for PostgresStore {
    fn record(&self, id: ExecutionId) -> Answer<'_, Option<Record>> {
        Box::pin(async move {
            let found = self.look_up(move |session, tenant| Box::pin(query::by_id(session, tenant, id))).await?;
            Ok(found.map(Stored::whole).transpose()?.map(Whole::into_record))
        })
    }

    fn find(&self, prefix: &str) -> Answer<'_, Found> {
        let prefix = prefix.to_owned();
        Box::pin(self.look_up(move |session, tenant| {
            let prefix = prefix.clone();
            Box::pin(async move { query::find(session, tenant, &prefix).await })
        }))
    }

    fn list(&self, filter: Filter, reading: Reading, limit: usize) -> Answer<'_, Page> {
        Box::pin(self.read(move |session, tenant| {
            let filter = filter.clone();
            Box::pin(async move { query::list(session, tenant, &filter, reading, limit).await })
        }))
    }

    fn running(&self) -> Answer<'_, Vec<TraceHead>> {
        Box::pin(self.read(|session, tenant| Box::pin(query::running(session, tenant))))
    }

    fn stats(&self, filter: Filter) -> Answer<'_, Stats> {
        Box::pin(self.read(move |session, tenant| {
            let filter = filter.clone();
            Box::pin(async move { query::stats(session, tenant, &filter).await })
        }))
    }

    fn news(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.database.follower.news(&self.seen))
    }
}

impl Store for PostgresStore {
    fn way_in(&self) -> WayIn<'_> {
        self.database.intake.of(&self.scope)
    }

    fn unsent(&self, limit: usize) -> Answer<'_, Vec<Outgoing>> {
        Box::pin(async move {
            let found = self.read(move |session, tenant| Box::pin(query::unsent(session, tenant, limit))).await?;
            found.into_iter().map(|stored| Ok(stored.whole()?.into_outgoing())).collect()
        })
    }

    fn outbox(&self) -> Answer<'_, Outbox> {
        Box::pin(self.read(|session, tenant| Box::pin(query::outbox(session, tenant))))
    }

    /// Held by a connection of its own. If the server ends that, another process may take the turn as well; the hub stores
    /// what both send once.
    fn take_turn(&self) -> Answer<'_, Option<Turn>> {
        Box::pin(async move {
            let session = Session::connect(&self.database.address).await?;
            schema::migrate(&session).await?;
            let tenant = tenant::number(&session, &self.scope).await?;
            let sql = "SELECT pg_try_advisory_lock($1)";
            let row = session.query_opt(sql, &[&(keys::TURN | i64::from(tenant))]).await?;
            Ok(row.is_some_and(|row| row.get(0)).then(|| Turn::holding(session)))
        })
    }

    fn sample(&self, count: usize, exponent: f64, seed: u64, max_bytes: usize) -> Answer<'_, Sample> {
        Box::pin(async move {
            let (drawn, left) = self
                .read(move |session, tenant| Box::pin(query::sample(session, tenant, count, exponent, seed, max_bytes)))
                .await?;
            let sampled = |(stored, priority, probability): (Stored, f64, f64)| {
                let trace = SanitizedTrace::new(stored.whole()?.trace);
                Ok(Sampled { trace, priority, probability })
            };
            let traces = drawn.into_iter().map(sampled).collect::<Result<_, StoreError>>()?;
            Ok(Sample { traces, left })
        })
    }

    fn health(&self) -> Health {
        self.database.health()
    }
}
