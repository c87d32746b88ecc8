//! What all handlers of requests share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{super::gateway::Frontend, guard::Guard, sessions::Sessions};
use crate::web::{Bodies, Streams};

#[derive(Debug)]
pub(super) struct Web {
    pub(super) frontend: Arc<Frontend>,
    pub(super) sessions: Sessions,
    pub(super) guard: Guard,
    pub(super) bodies: Arc<Bodies>,
    pub(super) streams: Streams,
    /// Cancelled when everything ends: nothing new is begun, and who only listens hears no more.
    pub(super) stop: CancellationToken,
    /// Cancelled a moment later, when the last answers have been given: nothing is done any more.
    pub(super) gone: CancellationToken,
}
