//! Admits the runs that programs of clients start: fairly among clients, and without waiting in a circle.

use std::sync::Arc;

use pml_wire::{ErrorCode, message::CallError};

use super::{
    gateway::Shared,
    shares::{Client, Share, Shares},
};
use crate::broker::{Admission, HandlerFuture, Seat};

/// Admits the nested runs of one client.
#[derive(Debug)]
pub(super) struct NestedRuns {
    places: Vec<Arc<Shares>>,
    turns: Arc<Shares>,
    client: Client,
}

impl NestedRuns {
    pub(super) fn new(shared: &Shared, client: &Client) -> NestedRuns {
        let (places, turns) = (shared.nested_places.clone(), Arc::clone(&shared.turns));
        NestedRuns { places, turns, client: client.clone() }
    }
}

impl Admission for NestedRuns {
    fn admit(&self, depth: u32) -> HandlerFuture<'_, Result<Box<dyn Seat>, CallError>> {
        Box::pin(async move {
            let too_many = |_| {
                let message = "too many nested runs of this client wait for their turn";
                CallError::new(ErrorCode::RateLimited, message)
            };
            // Places of a depth are held by runs of that depth only, and a program that waits gives its turn back.
            let level = (depth as usize).saturating_sub(1).min(self.places.len() - 1);
            let place = self.places[level].take(&self.client).await.map_err(too_many)?;
            let turn = self.turns.take(&self.client).await.map_err(too_many)?;
            Ok(Box::new(Seated { _place: place, turn }) as Box<dyn Seat>)
        })
    }
}

/// What an admitted run holds.
#[derive(Debug)]
struct Seated {
    _place: Share,
    turn: Share,
}

impl Seat for Seated {
    fn pause(&mut self) {
        self.turn.pause();
    }

    fn resume(&mut self) {
        self.turn.resume();
    }
}
