//! Connections for whoever does not store traces, a few for all of them.
//!
//! A connection that the server has ended is replaced, and a question that was under way on one is asked again once.

use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{super::connection::Trouble, address::Address, schema, session::Session};

/// Most connections at once.
const MAX_SESSIONS: usize = 8;

/// A question.
pub(crate) trait Ask<T>: for<'s> Fn(&'s Session) -> BoxFuture<'s, Result<T, Trouble>> + Send + Sync {}

impl<T, F: for<'s> Fn(&'s Session) -> BoxFuture<'s, Result<T, Trouble>> + Send + Sync> Ask<T> for F {}

#[derive(Debug)]
pub(super) struct Pool {
    address: Address,
    idle: Mutex<Vec<Session>>,
    turns: Semaphore,
}

/// A connection, and one of the places that there are for connections.
#[derive(Debug)]
pub(super) struct Lent<'a> {
    session: Session,
    _turn: SemaphorePermit<'a>,
}

impl Pool {
    pub(super) fn new(address: Address) -> Pool {
        Pool { address, idle: Mutex::default(), turns: Semaphore::new(MAX_SESSIONS) }
    }

    /// Asks a question, and asks it again if the connection was an old one that is gone.
    pub(super) async fn read<T>(&self, ask: impl Ask<T>) -> Result<T, Trouble> {
        let answer = self.ask(&ask).await;
        match answer {
            Err(Trouble::Away(_)) => {
                self.idle().clear();
                self.ask(&ask).await
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

    async fn ask<T>(&self, ask: &impl Ask<T>) -> Result<T, Trouble> {
        let lent = self.lend().await?;
        let answer = ask(&lent.session).await;
        // One whose question is given up half-way is busy with it for a while: it does not come back.
        if !lent.session.is_closed() {
            self.idle().push(lent.session);
        }
        answer
    }

    async fn lend(&self) -> Result<Lent<'_>, Trouble> {
        let turn = self.turns.acquire().await.map_err(|_| Trouble::Other("the store is closed".to_owned()))?;
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
