//! Memory for large texts of servers, shared by everything that holds one.
//!
//! A message that is being read, a result on its way to a program and a result that is kept each hold a [`Charge`] for
//! their size. When the room is full, whoever wants more waits for a while, so that the server that sends waits too; then it
//! is refused. Texts of up to [`FREE_BYTES`] are not counted.
//!
//! **Invariant:** the sum of all charges never exceeds the total. A charge lives as long as what it is for.

use std::{sync::Arc, time::Duration};

use pml_wire::{ErrorCode, message::CallError};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// What is too small to be counted.
pub const FREE_BYTES: usize = 128 * 1024;
/// What is counted at a time.
const UNIT_BYTES: usize = 64 * 1024;
/// How long a charge waits for others to end: at least, and at most. Those who wait may hold room that others wait for, so
/// not for ever; and not all equally long, so that what one gives up helps the others.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);
const MOST_PATIENCE: Duration = Duration::from_secs(3);

/// The room that is shared.
#[derive(Clone, Debug)]
pub struct Room {
    free: Arc<Semaphore>,
    total_bytes: usize,
}

/// A part of the room, given back when dropped.
#[derive(Debug)]
pub struct Charge {
    room: Room,
    held: Option<OwnedSemaphorePermit>,
}

/// The room that a large text takes, for as long as any part of it is held; `None` for what is too small to be counted.
pub type Held = Option<Arc<Charge>>;

/// There is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pml holds as much of large results as it may at the moment, {} MB in all", .total_bytes / (1024 * 1024))]
pub struct Full {
    total_bytes: usize,
}

impl Room {
    pub fn new(total_bytes: usize) -> Room {
        Room { free: Arc::new(Semaphore::new(total_bytes / UNIT_BYTES)), total_bytes }
    }

    /// Room for as much as this machine has.
    pub fn unlimited() -> Room {
        Room::new(usize::MAX / 1024)
    }

    pub fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    /// How much is held.
    pub fn used_bytes(&self) -> usize {
        self.total_bytes - self.free.available_permits() * UNIT_BYTES
    }

    /// A charge for nothing yet.
    pub fn charge(&self) -> Charge {
        Charge { room: self.clone(), held: None }
    }

    /// A charge for so many bytes, if there is room for them at once.
    pub fn try_charge(&self, bytes: usize) -> Result<Charge, Full> {
        let mut charge = self.charge();
        let units = units(bytes);
        if units > 0 {
            let permit = Arc::clone(&self.free).try_acquire_many_owned(units).map_err(|_| self.full())?;
            charge.held = Some(permit);
        }
        Ok(charge)
    }

    fn full(&self) -> Full {
        Full { total_bytes: self.total_bytes }
    }
}

impl Charge {
    /// Makes it a charge for so many bytes. More waits until there is room, for a while.
    pub async fn set(&mut self, bytes: usize) -> Result<(), Full> {
        let (wanted, held) = (units(bytes), self.units());
        if wanted <= held {
            self.shrink(bytes);
            return Ok(());
        }
        let full = self.room.full();
        if wanted as usize > self.room.total_bytes / UNIT_BYTES {
            return Err(full);
        }
        let more = Arc::clone(&self.room.free).acquire_many_owned(wanted - held);
        let more = timeout(patience(), more).await.map_err(|_| full)?.map_err(|_| full)?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }

    /// Gives back what is more than so many bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let (wanted, held) = (units(bytes), self.units());
        if let Some(permit) = &mut self.held
            && wanted < held
        {
            drop(permit.split((held - wanted) as usize));
        }
    }

    fn units(&self) -> u32 {
        self.held.as_ref().map_or(0, |held| u32::try_from(held.num_permits()).unwrap_or(u32::MAX))
    }
}

fn patience() -> Duration {
    let random = f64::from(getrandom::u32().unwrap_or(0)) / f64::from(u32::MAX);
    LEAST_PATIENCE + (MOST_PATIENCE - LEAST_PATIENCE).mul_f64(random)
}

fn units(bytes: usize) -> u32 {
    match bytes <= FREE_BYTES {
        true => 0,
        false => u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX),
    }
}

impl From<Full> for CallError {
    fn from(full: Full) -> CallError {
        let message = format!("{full}; ask for less, or for fewer large results at the same time");
        CallError { retryable: true, ..CallError::new(ErrorCode::ResultTooLarge, message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1024 * 1024;

    #[tokio::test(start_paused = true)]
    async fn more_than_there_is_waits_and_is_refused() {
        let room = Room::new(10 * MB);
        let (mut one, mut two) = (room.charge(), room.charge());
        one.set(6 * MB).await.unwrap();
        two.set(FREE_BYTES).await.unwrap();
        assert_eq!(room.used_bytes(), 6 * MB);
        assert!(two.set(5 * MB).await.is_err());
        assert!(two.set(11 * MB).await.is_err(), "more than there will ever be");
        let (waited, ()) = tokio::join!(two.set(5 * MB), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            one.shrink(MB);
        });
        assert!(waited.is_ok());
        assert_eq!(room.used_bytes(), 6 * MB);
        two.set(8 * MB).await.unwrap();
        drop(one);
        two.set(0).await.unwrap();
        assert_eq!(room.used_bytes(), 0);
        assert!(room.try_charge(10 * MB).is_ok() && room.try_charge(11 * MB).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_hold_and_wait_do_not_wait_for_ever() {
        let room = Room::new(10 * MB);
        let grow = async |first: usize| {
            let mut charge = room.charge();
            charge.set(5 * MB).await?;
            tokio::time::sleep(Duration::from_millis(first as u64)).await;
            charge.set(9 * MB).await
        };
        let (one, two) = tokio::join!(grow(1), grow(2));
        assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
        assert_eq!(room.used_bytes(), 0);
    }
}
