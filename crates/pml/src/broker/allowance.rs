//! What a run may use, and what is left of that to the run and to every run that it starts.
//!
//! A program may call a capability, which is a program too. Both spend the same calls, the same total time and the same
//! places among calls in flight, so nesting gains nothing.
//!
//! **Invariant:** nothing that waits for a nested run holds what the nested run needs. A place among calls in flight is held
//! by calls of servers only. Places of nested runs are counted for each depth by itself, and a run at one depth waits for
//! runs of greater depths only.

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

/// What one run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How long the program may compute. Waiting for tools and servers is not counted.
    pub timeout: Duration,
    /// Most that a request may ask for in place of `timeout`.
    pub max_timeout: Duration,
    /// How long the run may take in all.
    pub total: Duration,
    pub memory_bytes: usize,
    pub code_bytes: usize,
    pub result_bytes: usize,
    pub log_bytes: usize,
    /// Tool calls in all, with those of nested runs.
    pub calls: u32,
    /// Tool calls at the same time, with those of nested runs; more wait their turn.
    pub calls_in_flight: usize,
    /// Tool calls per minute, if limited.
    pub calls_per_minute: Option<NonZeroU32>,
    /// Branch decisions that are recorded.
    pub decisions: usize,
}

impl Budget {
    /// Sets how long the program may compute. The whole may take as long, if that is more than it could take.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
        self.max_timeout = self.max_timeout.max(timeout);
        self.total = self.total.max(timeout);
    }
}

/// What is left to a run and to every run that it starts. Clones share it.
#[derive(Clone, Debug)]
pub struct Allowance(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    budget: Budget,
    calls_left: AtomicU32,
    rate: Option<Bucket>,
    end: Instant,
    in_flight: Arc<Semaphore>,
    /// Nested runs that may go on at the same time, for each depth.
    nested: Vec<Arc<Semaphore>>,
    admission: Option<Arc<dyn Admission>>,
}

/// Admits nested runs where runs of many clients share the machine.
pub trait Admission: fmt::Debug + Send + Sync {
    /// Waits until a run at this depth may begin.
    fn admit(&self, depth: u32) -> HandlerFuture<'_, Result<Box<dyn Seat>, CallError>>;
}

/// What an admitted run holds while it goes on.
pub trait Seat: fmt::Debug + Send {
    /// The program waits and needs no processor.
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
    /// The whole budget of a run that begins now.
    pub fn new(budget: Budget) -> Allowance {
        Allowance::with(budget, None)
    }

    /// The same where nested runs are admitted by somebody.
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

    /// Takes one of the calls that are left, or says why there is none.
    pub fn spend_call(&self) -> Result<(), CallError> {
        let spent = self.0.calls_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if spent.is_err() {
            let message = format!("this run has spent its budget of {} tool calls", self.0.budget.calls);
            return Err(CallError::new(ErrorCode::CallBudgetSpent, message));
        }
        self.0.rate.as_ref().map_or(Ok(()), |rate| rate.admit("this run calls tools"))
    }

    /// What a run that begins now as a part of this one may use.
    pub fn nested_budget(&self) -> Budget {
        let total = self.0.end.saturating_duration_since(Instant::now());
        Budget { total: total.min(self.0.budget.total), ..self.0.budget }
    }

    /// Waits for a place among the calls in flight, which is given back when dropped. For calls of servers only.
    pub(super) async fn place(&self) -> OwnedSemaphorePermit {
        let places = Arc::clone(&self.0.in_flight);
        places.acquire_owned().await.expect("places are never closed")
    }

    /// Waits until a nested run at this depth may begin; refuses one that is too deep.
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
        // Calls of servers have places of their own, which no nested run holds.
        assert!(allowance.place().now_or_never().is_some());
        assert_eq!(allowance.nest(MAX_DEPTH + 1).await.unwrap_err().code, ErrorCode::NestingTooDeep);
        assert!(allowance.nest(0).await.is_err(), "the outermost run is not nested");
    }
}
