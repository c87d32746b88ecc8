//! Executions that have begun and will never have a trace of their own.

use pml_wire::{ExecutionId, trace::Trace};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::{
    body::Encoder,
    owner::Dead,
    place::Place,
    row::{Known, Origin, Row},
    scope::Scope,
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
            false => match Dead::find(place.owner_path(id)) {
                Some(dead) => Some(dead),
                None => continue,
            },
        };
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let heads: Vec<Head> = transaction
            .prepare_cached(&format!("{HEADS} WHERE owner = ?1"))?
            .query_map([id], read)?
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
            .prepare_cached(&format!("{HEADS} WHERE running.id = ?1"))?
            .query_row([id.as_bytes()], read)
            .optional()?;
        if let Some(head) = head {
            conclude(&transaction, encoder, &head, TraceHead::without_trace)?;
        }
    }
    transaction.commit()
}

/// What is known of an execution, and whose it is.
type Head = (String, String, String);

const HEADS: &str = "SELECT head, org, project FROM running JOIN tenant ON tenant.id = running.tenant";

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Head> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

/// Makes a trace of what is known of an execution. How many were made.
fn conclude(
    db: &Connection,
    encoder: &mut Encoder,
    (head, org, project): &Head,
    to_trace: fn(TraceHead) -> Trace,
) -> rusqlite::Result<u64> {
    let head = serde_json::from_str::<TraceHead>(head).ok().zip(Scope::new(org, project).ok());
    let row = head.and_then(|(head, scope)| Row::new(&scope, Origin::Own, to_trace(head), encoder).ok().flatten());
    match row {
        Some(row) => row.insert(db, &mut Known::default(), now_millis()).map(|_| 1),
        None => Ok(0),
    }
}
