//! The room that a message takes while it is read.

use crate::room::{Charge, FREE_BYTES, Full, Room};

/// Room is made in steps, of which the first has this size and none is larger than the last.
const FIRST_STEP: usize = 1024 * 1024;
const LAST_STEP: usize = 32 * 1024 * 1024;

/// Charges the message that is being read on one stream, as it grows.
#[derive(Debug)]
pub(super) struct Reading {
    room: Room,
    charge: Charge,
    /// How large the message may get before more room is needed.
    enough_bytes: usize,
}

impl Reading {
    pub(super) fn new(room: &Room) -> Reading {
        Reading { charge: room.charge(), room: room.clone(), enough_bytes: FREE_BYTES }
    }

    /// Makes room for a message that has grown to so many bytes. Whoever reads waits here, and so does the server.
    pub(super) async fn grown(&mut self, bytes: usize) -> Result<(), Full> {
        if bytes > self.enough_bytes {
            let enough_bytes = bytes + bytes.clamp(FIRST_STEP, LAST_STEP);
            self.charge.set(enough_bytes).await?;
            self.enough_bytes = enough_bytes;
        }
        Ok(())
    }

    /// The charge of the message that was read, or given up. The next one begins with nothing.
    pub(super) fn take(&mut self) -> Charge {
        self.enough_bytes = FREE_BYTES;
        std::mem::replace(&mut self.charge, self.room.charge())
    }
}
