//! Executions that have begun and will never have a trace of their own.

use pml_wire::{ExecutionId, trace::Trace};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::{
    body::Encoder,
    owner::Dead,
    place::Place,
    row::{KnownTools, Row},
};
use crate::{clock::now_millis, trace::TraceHead};

/// Makes interrupted traces of executions whose process has died; if `is_over`, also of those of this process. How many.
pub(super) fn recover(
    db: &mut Connection,
    place: &Place,
    encoder: &mut Encoder,
    own: Option<i64>,
    is_over: bool,
) -> rusqlite::Result<u64> {
    let mut owners: Vec<i64> = db
        .prepare_cached("SELECT DISTINCT owner FROM running")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    // Also those that run nothing, for their files.
    owners.extend(place.owners());
    owners.sort_unstable();
    owners.dedup();
    let mut found = 0;
    for id in owners {
        let dead = match Some(id) == own {
            true if is_over => None,
            true => continue,
            false => match Dead::find(place, id) {
                Some(dead) => Some(dead),
                None => continue,
            },
        };
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let heads: Vec<String> = transaction
            .prepare_cached("SELECT head FROM running WHERE owner = ?1")?
            .query_map([id], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for head in &heads {
            found += conclude(&transaction, encoder, head, TraceHead::interrupted)?;
        }
        transaction.execute("DELETE FROM running WHERE owner = ?1", [id])?;
        transaction.commit()?;
        if let Some(dead) = dead {
            dead.forget();
        }
    }
    Ok(found)
}

/// Executions whose traces were dropped have ended all the same: what is known of them becomes their trace.
pub(super) fn settle(db: &mut Connection, encoder: &mut Encoder, dropped: &[ExecutionId]) -> rusqlite::Result<()> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for id in dropped {
        let head = transaction
            .prepare_cached("SELECT head FROM running WHERE id = ?1")?
            .query_row([id.as_bytes()], |row| row.get::<_, String>(0))
            .optional()?;
        if let Some(head) = head {
            conclude(&transaction, encoder, &head, TraceHead::without_trace)?;
        }
    }
    transaction.commit()
}

/// Makes a trace of what is known of an execution. How many were made.
fn conclude(
    db: &Connection,
    encoder: &mut Encoder,
    head: &str,
    to_trace: fn(TraceHead) -> Trace,
) -> rusqlite::Result<u64> {
    let head = serde_json::from_str::<TraceHead>(head).ok();
    let row = head.and_then(|head| Row::new(to_trace(head), encoder).ok().flatten());
    match row {
        Some(row) => row.insert(db, &mut KnownTools::default(), now_millis()).map(|_| 1),
        None => Ok(0),
    }
}
