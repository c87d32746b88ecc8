//! Whether a trace is its own ancestor.
//!
//! **Invariant:** the parents of stored traces form no cycle. The trace that would close one is refused, and so is a trace
//! whose ancestors are more than anybody follows: behind them there could be one.

use pml_wire::ExecutionId;

/// Most ancestors of a trace from elsewhere. Bounds what one trace costs: a lookup for each.
pub(super) const MAX_ANCESTORS: usize = 128;

/// Does the chain of parents of a trace come back to it, or go on for too long? It ends at a trace that has no parent, or is
/// not stored.
pub(super) fn is_endless<E>(
    id: ExecutionId,
    parent: ExecutionId,
    mut parent_of: impl FnMut(ExecutionId) -> Result<Option<ExecutionId>, E>,
) -> Result<bool, E> {
    let mut ancestor = parent;
    for _ in 0..MAX_ANCESTORS {
        if ancestor == id {
            return Ok(true);
        }
        match parent_of(ancestor)? {
            Some(next) => ancestor = next,
            None => return Ok(false),
        }
    }
    Ok(true)
}
