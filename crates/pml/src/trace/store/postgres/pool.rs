//! Connections for whoever does not store traces, a few for all of them.
//!
//! A connection that the server has ended is replaced, and a question that was under way on one is asked again once. A
//! question that nobody waits for any more is cancelled on the server, and keeps its place until it is: the number of
//! questions that the server works on is bounded, whatever clients do.
//!
//! **Invariant:** lookups never wait for scans, which may read every row of a scope.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::{super::connection::Trouble, address::Address, schema, session::Session};

/// Most connections at once, and most of them that scan.
const MAX_SESSIONS: usize = 8;
const MAX_SCANS: usize = 4;

/// A question.
pub(crate) trait Ask<T>: for<'s> Fn(&'s Session) -> BoxFuture<'s, Result<T, Trouble>> + Send + Sync {}

impl<T, F: for<'s> Fn(&'s Session) -> BoxFuture<'s, Result<T, Trouble>> + Send + Sync> Ask<T> for F {}

#[derive(Debug)]
pub(super) struct Pool {
    address: Address,
    idle: Mutex<Vec<Session>>,
    turns: Arc<Semaphore>,
    scans: Arc<Semaphore>,
}

/// A connection, and one of the places that there are for connections.
#[derive(Debug)]
pub(super) struct Lent {
    session: Session,
    _turn: OwnedSemaphorePermit,
}

/// A question that is under way. Dropped before it is answered, it is cancelled on the server.
struct Asked {
    address: Address,
    /// Absent once it is answered.
    lent: Option<(Lent, Option<OwnedSemaphorePermit>)>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take()
            && let Ok(runtime) = Handle::try_current()
        {
            let address = self.address.clone();
            runtime.spawn(async move {
                lent.0.session.cancel(&address).await;
                drop(lent);
            });
        }
    }
}

impl Pool {
    pub(super) fn new(address: Address) -> Pool {
        let [turns, scans] = [MAX_SESSIONS, MAX_SCANS].map(|count| Arc::new(Semaphore::new(count)));
        Pool { address, idle: Mutex::default(), turns, scans }
    }

    /// Asks a question about a few rows, which are found by an index. Asks it again if the connection was an old one that is
    /// gone.
    pub(super) async fn look_up<T>(&self, ask: impl Ask<T>) -> Result<T, Trouble> {
        self.ask_again(&ask, None).await
    }

    /// The same about any number of rows.
    pub(super) async fn read<T>(&self, ask: impl Ask<T>) -> Result<T, Trouble> {
        let turn = Arc::clone(&self.scans).acquire_owned().await.map_err(|_| closed())?;
        self.ask_again(&ask, Some(turn)).await
    }

    async fn ask_again<T>(&self, ask: &impl Ask<T>, mut scan: Option<OwnedSemaphorePermit>) -> Result<T, Trouble> {
        let answer = self.ask(ask, &mut scan).await;
        match answer {
            Err(Trouble::Away(_)) => {
                self.idle().clear();
                self.ask(ask, &mut scan).await
            }
            answer => answer,
        }
    }

    /// Changes something in one transaction. It is tried again only if it had not begun.
    pub(super) async fn run<T>(&self, change: impl Ask<T>) -> Result<T, Trouble> {
        let mut lent = self.lend().await?;
        if let Err(Trouble::Away(_)) = lent.session.batch("BEGIN").await {
            drop(lent);
            self.idle().clear();
            lent = self.lend().await?;
            lent.session.batch("BEGIN").await?;
        }
        let changed = change(&lent.session).await;
        lent.session.batch(if changed.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
        if !lent.session.is_closed() {
            self.idle().push(lent.session);
        }
        changed
    }

    /// Asks a question. The place of a scan comes back with the answer.
    async fn ask<T>(&self, ask: &impl Ask<T>, scan: &mut Option<OwnedSemaphorePermit>) -> Result<T, Trouble> {
        let lent = self.lend().await?;
        let mut asked = Asked { address: self.address.clone(), lent: None };
        let (lent, _) = asked.lent.insert((lent, scan.take()));
        let answer = ask(&lent.session).await;
        if let Some((lent, turn)) = asked.lent.take() {
            *scan = turn;
            if !lent.session.is_closed() {
                self.idle().push(lent.session);
            }
        }
        answer
    }

    async fn lend(&self) -> Result<Lent, Trouble> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| closed())?;
        loop {
            let idle = self.idle().pop();
            match idle {
                Some(session) if session.is_closed() => {}
                Some(session) => return Ok(Lent { session, _turn: turn }),
                None => break,
            }
        }
        let session = Session::connect(&self.address).await?;
        schema::migrate(&session).await?;
        Ok(Lent { session, _turn: turn })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of a semaphore that is never closed.
fn closed() -> Trouble {
    Trouble::Other("the store is closed".to_owned())
}
