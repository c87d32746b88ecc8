//! Traces that would be their own ancestors, found before a batch is stored.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
};

use pml_wire::ExecutionId;

use super::{
    super::{
        ancestry::{MAX_ANCESTORS, is_endless},
        connection::Trouble,
        row::Origin,
    },
    batch::Numbered,
    keys,
    session::{Id, Session},
};

/// The stored ones among traces and their ancestors. A trace of an execution that was taken for dead may be replaced, so it
/// counts as stored for its children alone.
const STORED: &str = "
WITH RECURSIVE up (id, depth) AS (
    SELECT id, 0 FROM unnest($2::uuid[]) AS seed (id)
    UNION
    SELECT trace.parent, up.depth + 1 FROM up JOIN trace ON trace.tenant = $1 AND trace.id = up.id
    WHERE trace.parent IS NOT NULL AND up.depth < $3
)
SELECT DISTINCT trace.id, trace.parent, trace.interrupted FROM up JOIN trace ON trace.tenant = $1 AND trace.id = up.id";

/// May this trace close a cycle?
pub(super) fn is_suspect(trace: &Numbered<'_>) -> bool {
    trace.row.origin == Origin::Elsewhere && trace.row.parent.is_some()
}

/// For each trace, whether it would be its own ancestor if all were stored in this order. Within a transaction, in which no
/// other process stores traces with parents for these tenants.
pub(super) async fn endless(session: &Session, traces: &[Numbered<'_>]) -> Result<Vec<bool>, Trouble> {
    let mut tenants: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (at, trace) in traces.iter().enumerate() {
        tenants.entry(trace.tenant).or_default().push(at);
    }
    let mut endless = vec![false; traces.len()];
    // In the order of tenants, so that two processes do not wait for each other in a circle.
    for (tenant, of_tenant) in tenants {
        if !of_tenant.iter().any(|at| is_suspect(&traces[*at])) {
            continue;
        }
        let lock = keys::PARENTS | i64::from(tenant);
        session.execute("SELECT pg_advisory_xact_lock($1)", &[&lock]).await?;
        let seeds = of_tenant.iter().flat_map(|at| [Some(traces[*at].row.id), traces[*at].row.parent]);
        let seeds: Vec<_> = seeds.flatten().map(|id| Id(*id.as_bytes())).collect();
        let rows = session.query(STORED, &[&tenant, &seeds, &(MAX_ANCESTORS as i32)]).await?;
        let execution = |Id(bytes)| ExecutionId::from_bytes(bytes);
        let mut parents: HashMap<ExecutionId, Option<ExecutionId>> = HashMap::new();
        let mut replaceable = HashMap::new();
        for row in &rows {
            let id = execution(row.get(0));
            parents.insert(id, row.get::<_, Option<Id>>(1).map(execution));
            replaceable.insert(id, row.get::<_, bool>(2));
        }
        for at in of_tenant {
            let row = traces[at].row;
            let is_stored = parents.contains_key(&row.id) && !replaceable.get(&row.id).copied().unwrap_or(false);
            if is_stored {
                continue; // a duplicate, or a conflict
            }
            if let Some(parent) = row.parent.filter(|_| is_suspect(&traces[at])) {
                let parent_of = |id| Ok::<_, Infallible>(parents.get(&id).copied().flatten());
                let Ok(is_endless) = is_endless(row.id, parent, parent_of);
                endless[at] = is_endless;
            }
            if !endless[at] {
                parents.insert(row.id, row.parent);
                replaceable.insert(row.id, row.interrupted);
            }
        }
    }
    Ok(endless)
}
