//! Calls that can be read off a program, checked before it runs.

use std::{collections::BTreeSet, sync::Arc};

use pml_wire::{
    ErrorCode, ExecutionId, ToolId,
    message::{ErrorReport, PreflightCall},
};

use super::{
    door::{Broker, Rules},
    search::explain_missing,
};
use crate::{
    catalog::{Pins, Searchable, Snapshot, Source, Tool, nearest},
    work,
};

/// Mistakes that one report names, and missing tools that others are suggested for.
const MAX_MISTAKES: usize = 10;

/// What is wrong with a call. What may have been meant takes time to find out, so it is said of a few only.
enum Mistake {
    /// There is no such tool.
    Missing(ToolId),
    /// The tool has no such argument.
    Argument(Arc<Tool>, String),
    Other(String),
}

impl Mistake {
    /// What is wrong, and if `suggests`, what may have been meant.
    fn tell(&self, suggests: bool, known: &Known) -> String {
        match self {
            Mistake::Other(text) => text.clone(),
            Mistake::Missing(id) if suggests => {
                explain_missing(&known.snapshot, id, (&known.rules, &known.pins), known.index.as_ref())
            }
            Mistake::Missing(id) => format!("there is no tool `{id}`"),
            Mistake::Argument(tool, unknown) => {
                let hint = if suggests { nearest_argument(tool, unknown) } else { String::new() };
                format!("`{}` has no argument `{unknown}`{hint}", tool.id)
            }
        }
    }
}

/// What suggestions are taken from.
struct Known {
    snapshot: Arc<Snapshot>,
    rules: Arc<Rules>,
    pins: Pins,
    index: Option<Searchable>,
}

impl Broker {
    /// Warnings, or why the program must not run: a call that is bound to be made is bound to fail.
    pub(super) async fn check_program(
        &self,
        execution: ExecutionId,
        calls: Vec<PreflightCall>,
    ) -> Result<Vec<String>, Box<ErrorReport>> {
        // What is bound to be called is started anyway, and what is known of it from earlier may not
        // be true any more; so nothing is refused before the server itself was asked.
        let snapshot = self.snapshot();
        let doubtful: BTreeSet<_> = calls
            .iter()
            .filter(|call| call.is_certain)
            .filter_map(|call| {
                let id = call.target.parse::<ToolId>().ok()?;
                let server = snapshot.server_name(id.server())?;
                let is_doubtful = match snapshot.listing(server) {
                    None => true,
                    Some(listing) => listing.source == Source::Cached && self.mistake(&snapshot, call).is_some(),
                };
                is_doubtful.then(|| server.to_owned())
            })
            .collect();
        futures_util::future::join_all(doubtful.iter().map(|server| self.discover(server))).await;

        let snapshot = self.snapshot();
        let mut mistakes: Vec<(usize, Mistake, bool)> = Vec::new();
        for (place, call) in calls.iter().enumerate() {
            if let Some(mistake) = self.mistake(&snapshot, call) {
                let is_fatal = call.is_certain && !self.may_appear(&snapshot, call, &calls[..place]);
                mistakes.push((place, mistake, is_fatal));
            }
        }
        let index = match mistakes.iter().any(|(_, mistake, _)| matches!(mistake, Mistake::Missing(_))) {
            true => self.suggesting().await,
            false => None,
        };
        let known = Known { snapshot: Arc::clone(&snapshot), rules: self.rules(), pins: self.pins.clone(), index };
        // Those that stop the program first.
        mistakes.sort_by_key(|(.., is_fatal)| !is_fatal);
        let told = work::weighed(!mistakes.is_empty(), move |_| {
            let told = mistakes.into_iter().enumerate();
            told.map(|(number, (place, mistake, is_fatal))| {
                (place, mistake.tell(number < MAX_MISTAKES, &known), is_fatal)
            })
            .collect::<Vec<_>>()
        });
        let told = told.await.into_iter().map(|(place, text, is_fatal)| (&calls[place], text, is_fatal));
        let (fatal, harmless): (Vec<_>, Vec<_>) = told.partition(|(.., is_fatal)| *is_fatal);
        let fatal: Vec<_> = fatal.into_iter().map(|(call, text, _)| (call, text)).collect();
        let warnings: Vec<_> =
            harmless.into_iter().map(|(call, text, _)| format!("line {}: {text}", call.line)).collect();
        let Some((first, _)) = fatal.first() else { return Ok(warnings) };
        for tool in fatal.iter().filter_map(|(call, _)| snapshot.tool(&call.target.parse().ok()?)) {
            let verdict = self.rules().policy.judge(&tool.id, &self.pins);
            if !verdict.is_allowed {
                self.record_denial(execution, &tool.id, &verdict.rule);
            }
        }
        let lines: Vec<_> = fatal
            .iter()
            .take(MAX_MISTAKES)
            .map(|(call, mistake)| format!("line {}, column {}: {mistake}", call.line, call.column))
            .collect();
        let message = format!("the program was not started:\n{}", lines.join("\n"));
        let mut report = ErrorReport::new(ErrorCode::PreflightFailed, message);
        report.frame = Some(first.frame.clone());
        report.tool = first.target.parse().ok();
        Err(Box::new(report))
    }

    /// What is wrong with one call, as far as that can be known.
    fn mistake(&self, snapshot: &Snapshot, call: &PreflightCall) -> Option<Mistake> {
        let id: ToolId = call.target.parse().ok()?;
        let Some(tool) = snapshot.tool(&id) else {
            // A server that has never been reached may have any tool.
            let is_known = snapshot.server_name(id.server()).is_none_or(|server| snapshot.listing(server).is_some());
            return is_known.then_some(Mistake::Missing(id));
        };
        let verdict = self.rules().policy.judge(&tool.id, &self.pins);
        if !verdict.is_allowed {
            return Some(Mistake::Other(verdict.explain(&tool.id)));
        }
        wrong_arguments(tool, call)
    }

    /// May the tool be there when it is called? A server that says when its tools change may do so while
    /// it is called, so an unknown name behind another call to it may be right; and what is known only
    /// from earlier proves nothing.
    fn may_appear(&self, snapshot: &Snapshot, call: &PreflightCall, before: &[PreflightCall]) -> bool {
        let Ok(id) = call.target.parse::<ToolId>() else { return false };
        let Some(server) = snapshot.server_name(id.server()) else { return false };
        let is_called_before = before.iter().any(|other| other.target.split(':').next() == Some(id.server()));
        let is_old = snapshot.listing(server).is_some_and(|listing| listing.source == Source::Cached);
        is_old || (snapshot.tool(&id).is_none() && is_called_before && self.may_change(server))
    }
}

fn wrong_arguments(tool: &Arc<Tool>, call: &PreflightCall) -> Option<Mistake> {
    if let Some(accepted) = tool.accepted()
        && let Some(unknown) = call.keys.iter().find(|key| !accepted.contains(&key.as_str()))
    {
        return Some(Mistake::Argument(Arc::clone(tool), unknown.clone()));
    }
    if call.is_open {
        return None;
    }
    let missing: Vec<_> =
        tool.required().filter(|name| !call.keys.iter().chain(&call.perhaps).any(|key| key == name)).collect();
    (!missing.is_empty())
        .then(|| Mistake::Other(format!("`{}` needs the argument `{}`", tool.id, missing.join("`, `"))))
}

/// The argument that may have been meant, or those that there are.
fn nearest_argument(tool: &Tool, unknown: &str) -> String {
    let accepted = tool.accepted().unwrap_or_default();
    let near = nearest(unknown, accepted.iter().copied());
    match (near.first(), accepted.is_empty()) {
        (Some(near), _) => format!("; did you mean `{near}`?"),
        (None, true) => "; it takes none".to_owned(),
        (None, false) => format!("; it takes `{}`", accepted.join("`, `")),
    }
}
