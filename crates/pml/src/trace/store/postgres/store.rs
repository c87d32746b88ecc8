//! Traces in a PostgreSQL database.

use std::sync::{Arc, atomic::AtomicU64};

use futures_util::future::BoxFuture;
use pml_wire::ExecutionId;

use super::{
    super::{
        Answer, Archive, Filter, Found, Health, Options, Outbox, Outgoing, Page, Reading, Record, Sampled, Scope,
        Stats, Store, StoreError, Stores, Turn, WayIn, connection::Trouble, health::Shared, intake::Intake,
        query::Stored,
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
use crate::trace::{SanitizedTrace, TraceHead};

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
        let intake = Intake::start(&options, move |shared: Arc<Shared>| PostgresEngine::new(to, settings, shared));
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

    /// Asks for something of every scope.
    pub(crate) async fn read<T>(&self, ask: impl Ask<T>) -> Result<T, StoreError> {
        Ok(self.0.pool.read(ask).await?)
    }

    /// Changes something, in a transaction.
    pub(crate) async fn run<T>(&self, change: impl Ask<T>) -> Result<T, StoreError> {
        Ok(self.0.pool.run(change).await?)
    }
}

impl Stores for PostgresStores {
    fn of(&self, scope: &Scope) -> Arc<dyn Store> {
        Arc::new(self.scoped(scope.clone()))
    }

    fn health(&self) -> Health {
        self.0.health()
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

    /// Asks for something of this scope. If there is nothing of it, nothing is found.
    async fn read<T: Default + Send + 'static>(
        &self,
        ask: impl for<'s> Fn(&'s Session, i32) -> BoxFuture<'s, Result<T, Trouble>> + Clone + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        let read = self.database.pool.read(|session| {
            let (scope, ask) = (self.scope.clone(), ask.clone());
            Box::pin(async move {
                match tenant::find(session, &scope).await? {
                    Some(tenant) => ask(session, tenant).await,
                    None => Ok(T::default()),
                }
            })
        });
        Ok(read.await?)
    }
}

impl Archive for PostgresStore {
    fn record(&self, id: ExecutionId) -> Answer<'_, Option<Record>> {
        Box::pin(async move {
            let found = self.read(move |session, tenant| Box::pin(query::by_id(session, tenant, id))).await?;
            let Some(found) = found.map(Stored::whole).transpose()? else { return Ok(None) };
            Ok(Some(Record {
                // This and what follows was sanitized when it was stored.
                trace: SanitizedTrace::new(found.trace),
                capability: found.capability,
                priority: found.priority,
                stored_at: found.stored_at,
            }))
        })
    }

    fn find(&self, prefix: &str) -> Answer<'_, Found> {
        let prefix = prefix.to_owned();
        Box::pin(self.read(move |session, tenant| {
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
            let outgoing = |stored: Stored| {
                let whole = stored.whole()?;
                Ok(Outgoing { trace: SanitizedTrace::new(whole.trace), attempts: whole.attempts })
            };
            found.into_iter().map(outgoing).collect()
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

    fn sample(&self, count: usize, exponent: f64, seed: u64) -> Answer<'_, Vec<Sampled>> {
        Box::pin(async move {
            let drawn = self
                .read(move |session, tenant| Box::pin(query::sample(session, tenant, count, exponent, seed)))
                .await?;
            let sampled = |(stored, priority, probability): (Stored, f64, f64)| {
                let trace = SanitizedTrace::new(stored.whole()?.trace);
                Ok(Sampled { trace, priority, probability })
            };
            drawn.into_iter().map(sampled).collect()
        })
    }

    fn health(&self) -> Health {
        self.database.health()
    }
}
