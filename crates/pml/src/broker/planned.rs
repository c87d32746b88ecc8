//! Calls that are known before they are made, but for values that come later: the tasks of a workflow.

use std::{collections::BTreeSet, sync::Arc};

use pml_wire::{ErrorCode, ToolId};
use serde_json::Value;

use super::{
    door::{Broker, repetition},
    preflight::{CheckContext, Mistake, Wrong, tell},
};
use crate::{
    catalog::{Pace, Snapshot, Source, Tool},
    trace::Context,
    upstream::Repetition,
    work::{self, Waiter},
};

/// A call that is known before it is made.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedCall {
    /// `server:tool` as it was written; not yet a [`ToolId`].
    pub target: String,
    pub args: Value,
    /// The places in `args` whose values come later, as JSON Pointers.
    pub holes: Vec<String>,
}

/// Why a planned call cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which of the calls.
    pub place: usize,
    pub code: ErrorCode,
    pub message: String,
}

impl Broker {
    /// Says of planned calls which cannot be made. Servers that nothing is known of are started, and so are those whose
    /// tools are known from earlier only, before a call is refused for it.
    pub async fn check_planned(&self, context: &Arc<Context>, calls: Vec<PlannedCall>) -> Vec<Refusal> {
        let calls: Arc<[PlannedCall]> = calls.into();
        let (mut known, mut mistakes) = self.planned_mistakes(&calls).await;
        let is_wrong = |place: usize| mistakes.iter().any(|(wrong, _)| *wrong == place);
        let doubtful: BTreeSet<_> = calls
            .iter()
            .enumerate()
            .filter_map(|(place, call)| {
                let id = call.target.parse::<ToolId>().ok()?;
                let server = known.snapshot.server_name(id.server())?;
                let is_doubtful = match known.snapshot.listing(server) {
                    None => true,
                    Some(listing) => listing.source == Source::Cached && is_wrong(place),
                };
                is_doubtful.then(|| server.to_owned())
            })
            .collect();
        if !doubtful.is_empty() {
            futures_util::future::join_all(doubtful.iter().map(|server| self.discover(server))).await;
            (known, mistakes) = self.planned_mistakes(&calls).await;
        }
        // Another process may have added what is missing.
        let missing = |(_, mistake): &(usize, Mistake)| match mistake {
            Mistake::Missing(id) => self.provider(id.server()),
            _ => None,
        };
        if let Some(provider) = mistakes.iter().find_map(missing) {
            provider.refresh().await;
            (known, mistakes) = self.planned_mistakes(&calls).await;
        }
        for (place, mistake) in &mistakes {
            if let (Mistake::Denied(_), Ok(tool)) = (mistake, calls[*place].target.parse::<ToolId>()) {
                let verdict = self.rules().policy.judge(&tool, &self.pins);
                self.record_denial(context, &tool, &verdict.rule);
            }
        }
        if mistakes.iter().any(|(_, mistake)| matches!(mistake, Mistake::Missing(_))) {
            known.index = self.suggesting().await;
        }
        let codes: Vec<_> = mistakes.iter().map(|(_, mistake)| mistake.code()).collect();
        let mistakes: Vec<_> = mistakes.into_iter().map(|(place, mistake)| (place, mistake, true)).collect();
        let told = work::weighed(!mistakes.is_empty(), move |_| tell(&mistakes, &known)).await;
        let refusal = |((place, message, _), code)| Refusal { place, code, message };
        told.into_iter().zip(codes).map(refusal).collect()
    }

    /// The tools that are known now.
    pub fn known_tools(&self) -> Arc<Snapshot> {
        self.snapshot()
    }

    /// Is it harmless to call a tool a second time? Only the hints of trusted servers count.
    pub fn repeats_harmlessly(&self, target: &str) -> bool {
        let Ok(id) = target.parse::<ToolId>() else { return false };
        let snapshot = self.snapshot();
        let Some(tool) = snapshot.tool(&id) else { return false };
        let Some(server) = self.servers.get(tool.id.server()) else { return false };
        repetition(tool, server.settings()) == Repetition::Harmless
    }

    /// What is wrong with which of the calls, and from what that is known.
    async fn planned_mistakes(&self, calls: &Arc<[PlannedCall]>) -> (CheckContext, Vec<(usize, Mistake)>) {
        let known = self.known();
        let calls = Arc::clone(calls);
        work::elsewhere(move |waiter: &Waiter| {
            let mistakes = mistakes(&known, &calls, waiter);
            (known, mistakes)
        })
        .await
    }
}

/// What is wrong with which of the calls. What takes too long to check is checked by the call itself.
fn mistakes(known: &CheckContext, calls: &[PlannedCall], waiter: &Waiter) -> Vec<(usize, Mistake)> {
    let mut mistakes = Vec::new();
    for (place, call) in calls.iter().enumerate().take_while(|_| !waiter.is_gone()) {
        let wrong = |tool: &Tool| {
            let verdict = tool.check_arguments_but(&call.args, &call.holes, Pace::Thorough)?;
            Ok(verdict.err().map(Wrong::Values).into_iter().collect())
        };
        let mistake = known.mistake(&call.target, wrong).ok().flatten();
        mistakes.extend(mistake.map(|mistake| (place, mistake)));
    }
    mistakes
}
