//! The budget of a run, and the remainder that the run shares with its nested runs.
//!
//! A program may call a capability, which is a program too. Both use the same budget of calls, the same total time and the same
//! permits for calls in flight, so nesting gains nothing.
//!
//! **Invariant:** whatever waits for a nested run holds nothing that the nested run needs. Permits for calls in flight are held
//! by calls to servers only. Permits of nested runs are separate for each depth, and a run waits for
//! deeper runs only.

use std::{
    fmt,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use pml_wire::{ErrorCode, message::CallError};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::handler::HandlerFuture;
use crate::{rate::Bucket, trace::MAX_DEPTH};

/// The budget of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Compute time of the program. Waiting for tools and servers is not counted.
    pub timeout: Duration,
    /// Largest `timeout` that a request may ask for.
    pub max_timeout: Duration,
    /// Total time of the run.
    pub total: Duration,
    pub memory_bytes: usize,
    pub code_bytes: usize,
    pub result_bytes: usize,
    pub log_bytes: usize,
    /// Number of tool calls, including those of nested runs.
    pub calls: u32,
    /// Tool calls in flight, including those of nested runs; further calls are queued.
    pub calls_in_flight: usize,
    /// Tool calls per minute, if limited.
    pub calls_per_minute: Option<NonZeroU32>,
    /// Branch decisions that are recorded.
    pub decisions: usize,
}

impl Budget {
    /// Sets the compute time, and raises the total time to it if that is less.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
        self.max_timeout = self.max_timeout.max(timeout);
        self.total = self.total.max(timeout);
    }
}

/// The remaining budget of a run and its nested runs. Clones share it.
#[derive(Clone, Debug)]
pub struct Allowance(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    budget: Budget,
    calls_left: AtomicU32,
    rate: Option<Bucket>,
    end: Instant,
    in_flight: Arc<Semaphore>,
    /// Permits for concurrent nested runs, per depth.
    nested: Vec<Arc<Semaphore>>,
    admission: Option<Arc<dyn Admission>>,
}

/// Admits nested runs where runs of many clients share the machine.
pub trait Admission: fmt::Debug + Send + Sync {
    /// Waits until a run at this depth may start.
    fn admit(&self, depth: u32) -> HandlerFuture<'_, Result<Box<dyn Seat>, CallError>>;
}

/// The permit of an admitted run.
pub trait Seat: fmt::Debug + Send {
    /// The program waits and releases its turn.
    fn pause(&mut self);

    /// The program computes again.
    fn resume(&mut self);
}

/// The permission of one nested run to go on.
#[derive(Debug)]
pub struct NestedPlace {
    _permit: OwnedSemaphorePermit,
    seat: Option<Box<dyn Seat>>,
}

impl NestedPlace {
    pub fn pause(&mut self) {
        self.seat.iter_mut().for_each(|seat| seat.pause());
    }

    pub fn resume(&mut self) {
        self.seat.iter_mut().for_each(|seat| seat.resume());
    }
}

impl Allowance {
    /// The full budget of a run that starts now.
    pub fn new(budget: Budget) -> Allowance {
        Allowance::with(budget, None)
    }

    /// Like `new`, with an admission control for nested runs.
    pub fn admitted_by(budget: Budget, admission: Arc<dyn Admission>) -> Allowance {
        Allowance::with(budget, Some(admission))
    }

    fn with(budget: Budget, admission: Option<Arc<dyn Admission>>) -> Allowance {
        let places = || Arc::new(Semaphore::new(budget.calls_in_flight.clamp(1, Semaphore::MAX_PERMITS)));
        Allowance(Arc::new(Shared {
            calls_left: AtomicU32::new(budget.calls),
            rate: budget.calls_per_minute.map(Bucket::new),
            end: Instant::now() + budget.total,
            in_flight: places(),
            nested: (0..MAX_DEPTH).map(|_| places()).collect(),
            admission,
            budget,
        }))
    }

    /// Takes one call from the budget, or returns why none is left.
    pub fn spend_call(&self) -> Result<(), CallError> {
        let spent = self.0.calls_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if spent.is_err() {
            let message = format!(
                "this run has spent its budget of {} tool calls; look for a loop that never ends, ask for more with each call, or raise limits.calls",
                self.0.budget.calls
            );
            return Err(CallError::new(ErrorCode::CallBudgetSpent, message));
        }
        self.0.rate.as_ref().map_or(Ok(()), |rate| rate.admit("this run calls tools"))
    }

    /// The budget of a nested run that starts now.
    pub fn nested_budget(&self) -> Budget {
        let total = self.0.end.saturating_duration_since(Instant::now());
        Budget { total: total.min(self.0.budget.total), ..self.0.budget }
    }

    /// Waits for a permit for a call in flight, released when dropped. For calls to servers only.
    pub(super) async fn place(&self) -> OwnedSemaphorePermit {
        let places = Arc::clone(&self.0.in_flight);
        places.acquire_owned().await.expect("places are never closed")
    }

    /// Waits until a nested run at this depth may start; refuses one that is too deep.
    pub async fn nest(&self, depth: u32) -> Result<NestedPlace, CallError> {
        let level = (depth as usize).checked_sub(1).and_then(|level| self.0.nested.get(level));
        let Some(level) = level else {
            let message = format!("runs are nested more than {MAX_DEPTH} levels deep");
            return Err(CallError::new(ErrorCode::NestingTooDeep, message));
        };
        let permit = Arc::clone(level).acquire_owned().await.expect("places are never closed");
        let seat = match &self.0.admission {
            Some(admission) => Some(admission.admit(depth).await?),
            None => None,
        };
        Ok(NestedPlace { _permit: permit, seat })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    pub(crate) fn budget(calls: u32, calls_in_flight: usize) -> Budget {
        Budget {
            timeout: Duration::from_secs(1),
            max_timeout: Duration::from_secs(1),
            total: Duration::from_secs(60),
            memory_bytes: 1 << 26,
            code_bytes: 1 << 18,
            result_bytes: 1 << 20,
            log_bytes: 1 << 20,
            calls,
            calls_in_flight,
            calls_per_minute: None,
            decisions: 10,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clones_spend_the_same_calls_and_time() {
        let allowance = Allowance::new(budget(3, 1));
        let nested = allowance.clone();
        assert!(allowance.spend_call().is_ok() && nested.spend_call().is_ok() && nested.spend_call().is_ok());
        assert_eq!(allowance.spend_call().unwrap_err().code, ErrorCode::CallBudgetSpent);
        assert_eq!(nested.spend_call().unwrap_err().code, ErrorCode::CallBudgetSpent);
        tokio::time::advance(Duration::from_secs(50)).await;
        assert_eq!(nested.nested_budget().total, Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(50)).await;
        assert_eq!(nested.nested_budget().total, Duration::ZERO);
    }

    #[tokio::test]
    async fn each_depth_has_places_of_its_own_and_there_is_a_deepest() {
        let allowance = Allowance::new(budget(3, 1));
        let mut held = Vec::new();
        for depth in 1..=MAX_DEPTH {
            held.push(allowance.nest(depth).await.unwrap());
            assert!(allowance.nest(depth).now_or_never().is_none(), "the place at depth {depth} is taken");
        }
        // Calls to servers have separate permits, which no nested run holds.
        assert!(allowance.place().now_or_never().is_some());
        assert_eq!(allowance.nest(MAX_DEPTH + 1).await.unwrap_err().code, ErrorCode::NestingTooDeep);
        assert!(allowance.nest(0).await.is_err(), "the outermost run is not nested");
    }
}
