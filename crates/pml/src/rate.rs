//! A rate limit: so many calls or requests a minute.

use std::{
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use pml_wire::{ErrorCode, message::CallError};
use tokio::time::Instant;

/// A bucket of calls that fills evenly: a minute's worth may be made at once, then it drips.
#[derive(Debug)]
pub struct Bucket {
    per_minute: NonZeroU32,
    left: Mutex<(f64, Instant)>,
}

impl Bucket {
    pub fn new(per_minute: NonZeroU32) -> Bucket {
        Bucket { per_minute, left: Mutex::new((f64::from(per_minute.get()), Instant::now())) }
    }

    /// Takes one call, or says when there will be one.
    pub fn take(&self) -> Result<(), Duration> {
        self.take_above(0.0)
    }

    /// Takes one call if so many are left after it, or says when they will be.
    fn take_above(&self, reserve: f64) -> Result<(), Duration> {
        let capacity = f64::from(self.per_minute.get());
        let per_second = capacity / 60.0;
        let mut guard = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, since) = *guard;
        let now = Instant::now();
        let left = (left + now.duration_since(since).as_secs_f64() * per_second).min(capacity);
        let needed = 1.0 + reserve;
        let (left, result) = match left >= needed {
            true => (left - 1.0, Ok(())),
            false => (left, Err(Duration::from_secs_f64((needed - left) / per_second))),
        };
        *guard = (left, now);
        result
    }

    /// Takes one call, or says why not. `does` is who does what, such as "this run calls tools".
    pub fn admit(&self, does: &str) -> Result<(), CallError> {
        self.take().map_err(|wait| self.refusal(does, wait))
    }

    /// Takes one call if at least half of a minute's worth is left after it, or says why not.
    pub fn admit_spare(&self, does: &str) -> Result<(), CallError> {
        self.take_above(f64::from(self.per_minute.get()) / 2.0).map_err(|wait| self.refusal(does, wait))
    }

    fn refusal(&self, does: &str, wait: Duration) -> CallError {
        let (most, wait) = (self.per_minute, wait.as_secs_f64());
        let message = format!("{does} more than {most} times a minute; try again in {wait:.1} s");
        CallError::new(ErrorCode::RateLimited, message)
    }

    pub fn per_minute(&self) -> u32 {
        self.per_minute.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_minutes_worth_then_one_at_a_time() {
        let bucket = Bucket::new(NonZeroU32::new(60).unwrap());
        assert!((0..60).all(|_| bucket.take().is_ok()));
        let wait = bucket.take().unwrap_err();
        assert!(wait <= Duration::from_secs(1), "{wait:?}");
        tokio::time::advance(wait + Duration::from_millis(1)).await;
        assert!(bucket.take().is_ok());
        assert!(bucket.take().is_err());
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!((0..100).filter(|_| bucket.take().is_ok()).count(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_spare_is_the_upper_half() {
        let bucket = Bucket::new(NonZeroU32::new(10).unwrap());
        assert_eq!((0..100).filter(|_| bucket.admit_spare("x").is_ok()).count(), 5);
        assert_eq!((0..100).filter(|_| bucket.take().is_ok()).count(), 5, "the lower half is for others");
        let one = Bucket::new(NonZeroU32::MIN);
        assert!(one.admit_spare("x").is_err() && one.take().is_ok());
    }
}
