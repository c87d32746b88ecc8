//! What every transport is given.

use std::{sync::Arc, time::Duration};

use tokio_util::task::TaskTracker;

use super::super::news::News;
use crate::room::Room;

/// Messages that may wait to be written.
pub(super) const OUTBOX: usize = 64;

/// What every transport is given.
#[derive(Clone, Debug)]
pub(in super::super) struct Plumbing {
    pub(in super::super) news: Arc<News>,
    /// Counts the processes that have not ended.
    pub(in super::super) lives: TaskTracker,
    pub(in super::super) max_message_bytes: usize,
    /// Where large messages find room.
    pub(in super::super) room: Room,
    pub(in super::super) stop_grace: Duration,
}
