//! One connection to the server, with the statements that were prepared on it.

use std::{
    collections::HashMap,
    error::Error as _,
    fmt, io,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::task::JoinHandle;
use tokio_postgres::{
    AsyncMessage, Client, NoTls, Row, Statement,
    config::Host,
    error::SqlState,
    types::{ToSql, Type},
};

use super::{
    super::{Scope, StoreError, connection::Trouble},
    address::Address,
    tls::Tls,
};

/// How long a connection may take to be ready, with its handshakes.
const READY: Duration = Duration::from_secs(10);
/// Scopes that are remembered with their number.
const MAX_TENANTS: usize = 10_000;

/// What is wrong with the database.
fn trouble(err: &tokio_postgres::Error) -> Trouble {
    let why = describe(err);
    let Some(code) = err.code() else { return Trouble::Away(why) };
    match code.code().get(..2) {
        // Connections, and a server that goes down or comes up.
        Some("08" | "57") if *code != SqlState::QUERY_CANCELED => Trouble::Away(why),
        _ if *code == SqlState::DISK_FULL => Trouble::Full,
        _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Trouble::ReadOnly(why),
        // Data that is no data, and constraints.
        Some("22" | "23" | "54") => Trouble::Refused(why),
        _ => Trouble::Other(why),
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(err: tokio_postgres::Error) -> Trouble {
        trouble(&err)
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> StoreError {
        match trouble {
            Trouble::Refused(why) => StoreError::Refused(why),
            trouble => StoreError::Unavailable(trouble.state()),
        }
    }
}

/// What the server or the network says, without what the statement was about.
pub(super) fn describe(err: &tokio_postgres::Error) -> String {
    match (err.as_db_error(), err.source()) {
        (Some(err), _) => format!("the database says: {}", err.message()),
        (None, Some(source)) => format!("{err}: {source}"),
        (None, None) => err.to_string(),
    }
}

fn is_unix(address: &Address) -> bool {
    address.config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)))
}

/// A connection that is ready. Ends when it is dropped.
pub(crate) struct Session {
    client: Client,
    driver: JoinHandle<()>,
    statements: Mutex<HashMap<&'static str, Statement>>,
    tenants: Mutex<HashMap<Scope, i32>>,
}

/// A parameter of a statement.
pub(crate) type Parameter<'a> = &'a (dyn ToSql + Sync);

impl Session {
    /// Connects, on the runtime that this is called on.
    pub(super) async fn connect(address: &Address) -> Result<Session, Trouble> {
        Session::listening(address, |_| {}).await
    }

    /// Connects, and tells what the server notifies of, by its payload.
    pub(super) async fn listening(
        address: &Address,
        heard: impl FnMut(&str) + Send + 'static,
    ) -> Result<Session, Trouble> {
        let connecting = async {
            if is_unix(address) {
                let (client, connection) = address.config.connect(NoTls).await?;
                return Ok(Session::new(client, tokio::spawn(drive(connection, heard))));
            }
            let tls = Tls::of(address).map_err(|err: io::Error| Trouble::Other(err.to_string()))?;
            let (client, connection) = address.config.connect(tls).await?;
            Ok(Session::new(client, tokio::spawn(drive(connection, heard))))
        };
        match tokio::time::timeout(READY, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(Trouble::Away("the database does not answer".to_owned())),
        }
    }

    fn new(client: Client, driver: JoinHandle<()>) -> Session {
        Session { client, driver, statements: Mutex::default(), tenants: Mutex::default() }
    }

    /// Asks the server to end the statement that is under way, and gives it a moment for that.
    pub(super) async fn cancel(&self, address: &Address) {
        let token = self.client.cancel_token();
        let cancelling = async {
            match is_unix(address) {
                true => token.cancel_query(NoTls).await.is_ok(),
                false => match Tls::of(address) {
                    Ok(tls) => token.cancel_query(tls).await.is_ok(),
                    Err(_) => false,
                },
            }
        };
        if !matches!(tokio::time::timeout(READY, cancelling).await, Ok(true)) {
            tracing::debug!("a statement that nobody waits for goes on until it times out");
        }
    }

    /// Is this of no use any more?
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(crate) async fn query(&self, sql: &'static str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Trouble> {
        let statement = self.prepare(sql).await?;
        Ok(self.client.query(&statement, parameters).await?)
    }

    /// The first row, if there is one.
    pub(crate) async fn query_opt(
        &self,
        sql: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<Row>, Trouble> {
        Ok(self.query(sql, parameters).await?.into_iter().next())
    }

    pub(crate) async fn execute(&self, sql: &'static str, parameters: &[Parameter<'_>]) -> Result<u64, Trouble> {
        let statement = self.prepare(sql).await?;
        Ok(self.client.execute(&statement, parameters).await?)
    }

    /// Executes statements that have no parameters.
    pub(super) async fn batch(&self, statements: &str) -> Result<(), Trouble> {
        Ok(self.client.batch_execute(statements).await?)
    }

    pub(super) fn known_tenant(&self, scope: &Scope) -> Option<i32> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).get(scope).copied()
    }

    pub(super) fn know_tenant(&self, scope: &Scope, number: i32) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= MAX_TENANTS {
            tenants.clear();
        }
        tenants.insert(scope.clone(), number);
    }

    async fn prepare(&self, sql: &'static str) -> Result<Statement, Trouble> {
        let known = || self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(statement) = known().get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        known().insert(sql, statement.clone());
        Ok(statement)
    }

    /// Does something in one transaction. Whatever it returns an error for is rolled back.
    pub(super) async fn transaction<T>(
        &self,
        work: impl AsyncFnOnce(&Session) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        self.batch("BEGIN").await?;
        match work(self).await {
            Ok(done) => {
                self.batch("COMMIT").await?;
                Ok(done)
            }
            Err(trouble) => {
                // Of a connection that is gone the server does it by itself.
                let _ = self.batch("ROLLBACK").await;
                Err(trouble)
            }
        }
    }
}

/// Moves the bytes of a connection until it ends.
async fn drive<S, T>(mut connection: tokio_postgres::Connection<S, T>, mut heard: impl FnMut(&str))
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(message) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
        match message {
            Ok(AsyncMessage::Notification(notification)) => heard(notification.payload()),
            Ok(_) => {}
            // Whoever uses the connection is told as well.
            Err(err) => {
                tracing::debug!(error = describe(&err), "a connection to the database has ended");
                return;
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A transaction that is open, or a lock, must not outlive its owner until the server has read what is on its way.
        self.driver.abort();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session")
    }
}

/// An id as `uuid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id(pub(crate) [u8; 16]);

impl ToSql for Id {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut tokio_postgres::types::private::BytesMut,
    ) -> Result<tokio_postgres::types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(tokio_postgres::types::IsNull::No)
    }

    tokio_postgres::types::accepts!(UUID);
    tokio_postgres::types::to_sql_checked!();
}

impl<'a> tokio_postgres::types::FromSql<'a> for Id {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Id, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Id(raw.try_into()?))
    }

    tokio_postgres::types::accepts!(UUID);
}
