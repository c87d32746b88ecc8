//! Limits of a profile, in addition to those of the configuration.

use std::{num::NonZeroU32, time::Duration};

use crate::broker::Budget;

/// Upper limits of the runs of some clients; an absent limit is that of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceilings {
    pub timeout: Option<Duration>,
    pub total: Option<Duration>,
    pub memory_bytes: Option<usize>,
    pub result_bytes: Option<usize>,
    pub calls: Option<u32>,
    pub calls_in_flight: Option<usize>,
    pub calls_per_minute: Option<NonZeroU32>,
}

impl Ceilings {
    /// Lowers a budget to these limits. Never raises a limit.
    pub fn lower(&self, budget: &mut Budget) {
        fn least<T: Ord + Copy>(value: &mut T, ceiling: Option<T>) {
            *value = ceiling.map_or(*value, |ceiling| ceiling.min(*value));
        }
        let Ceilings { timeout, total, memory_bytes, result_bytes, calls, calls_in_flight, calls_per_minute } = *self;
        least(&mut budget.timeout, timeout);
        // Also limits the `timeout_ms` of a request.
        least(&mut budget.max_timeout, timeout);
        least(&mut budget.total, total);
        least(&mut budget.memory_bytes, memory_bytes);
        least(&mut budget.result_bytes, result_bytes);
        least(&mut budget.calls, calls);
        least(&mut budget.calls_in_flight, calls_in_flight);
        budget.calls_per_minute = match (budget.calls_per_minute, calls_per_minute) {
            (Some(own), Some(ceiling)) => Some(own.min(ceiling)),
            (own, ceiling) => own.or(ceiling),
        };
    }
}
