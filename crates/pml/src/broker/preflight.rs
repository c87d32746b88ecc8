//! Calls that can be read off a program, checked before it runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pml_wire::{
    ErrorCode, ToolId,
    message::{ErrorReport, PreflightCall},
};

use serde_json::Value;

use super::{
    door::{Broker, Rules},
    provider::Provider,
    search::{did_you_mean, explain_missing, meant},
};
use crate::{
    catalog::{Pace, Pins, Searchable, Snapshot, Source, TooSlow, Tool, nearest},
    trace::Context,
    work::{self, Waiter},
};

/// Mistakes that one report names, and missing tools that others are suggested for.
const MAX_MISTAKES: usize = 10;
/// Signatures that one report shows.
const MAX_SIGNATURES: usize = 5;
/// So many calls are checked at once; more, elsewhere.
const AT_ONCE_CALLS: usize = 8;

/// Functions of pml that programs look for among the servers.
const FUNCTIONS: [&str; 8] = [
    "searchTools",
    "callTool",
    "callToolsBatch",
    "executeWorkflow",
    "readResource",
    "listResources",
    "getPrompt",
    "progress",
];
/// Names under which programs pass the arguments of a call as a whole.
const WRAPPERS: [&str; 4] = ["arguments", "args", "params", "input"];

/// What is wrong with a call. What may have been meant takes time to find out, so it is said of a few only.
pub(super) enum Mistake {
    /// There is no such tool.
    Missing(ToolId),
    /// No tool can be called so. In words.
    NoTool(String),
    /// The tool does not take these arguments.
    Arguments(Arc<Tool>, Vec<Wrong>),
    Denied(String),
}

/// What is wrong with the arguments of a call.
pub(super) enum Wrong {
    /// The tool has no such argument.
    Unknown(String),
    /// It needs these. The names of arguments that were given and that it does not know.
    Missing { needed: Vec<String>, unknown: Vec<String> },
    /// Values of others are wrong.
    Values(String),
}

impl Mistake {
    /// What is wrong, and if `suggests`, what may have been meant.
    fn tell(&self, suggests: bool, known: &CheckContext) -> String {
        match self {
            Mistake::Denied(text) | Mistake::NoTool(text) => text.clone(),
            Mistake::Missing(id) if suggests => {
                explain_missing(&known.snapshot, id, (&known.rules, &known.pins), known.index.as_ref())
            }
            Mistake::Missing(id) => format!("there is no tool `{id}`"),
            Mistake::Arguments(tool, wrong) => {
                wrong.iter().map(|wrong| wrong.tell(tool, suggests)).collect::<Vec<_>>().join("; ")
            }
        }
    }

    pub(super) fn code(&self) -> ErrorCode {
        match self {
            Mistake::Missing(_) | Mistake::NoTool(_) => ErrorCode::ToolNotFound,
            Mistake::Arguments(..) => ErrorCode::InvalidArguments,
            Mistake::Denied(_) => ErrorCode::PolicyDenied,
        }
    }

    /// The tool whose signature helps.
    fn tool(&self) -> Option<&Arc<Tool>> {
        match self {
            Mistake::Arguments(tool, _) => Some(tool),
            Mistake::Missing(_) | Mistake::NoTool(_) | Mistake::Denied(_) => None,
        }
    }
}

impl Wrong {
    fn tell(&self, tool: &Tool, suggests: bool) -> String {
        let id = &tool.id;
        match self {
            Wrong::Unknown(name) => {
                let hint = if suggests { nearest_argument(tool, name) } else { String::new() };
                format!("`{id}` has no argument `{name}`{hint}")
            }
            Wrong::Missing { needed, unknown } => {
                let meant = |name: &String| nearest(name, unknown.iter().map(String::as_str)).first().copied();
                let misspelt = needed.iter().filter(|_| suggests).find_map(|name| Some((meant(name)?, name)));
                let wrapper = unknown.iter().find(|name| WRAPPERS.contains(&name.as_str()));
                let hint = match (misspelt, wrapper) {
                    (Some((written, name)), _) => format!("; `{written}` is not known, did you mean `{name}`?"),
                    (None, Some(wrapper)) => {
                        format!("; pass the arguments themselves, not an object with `{wrapper}`")
                    }
                    (None, None) => String::new(),
                };
                let plural = if needed.len() == 1 { "" } else { "s" };
                format!("`{id}` needs the argument{plural} `{}`{hint}", needed.join("`, `"))
            }
            Wrong::Values(text) => {
                let text = text.replace(", got null", ", got null (leave it out if there is no value)");
                format!("the arguments of `{id}` are wrong: {text}")
            }
        }
    }
}

/// What calls are checked against, and suggestions taken from.
#[derive(Clone)]
pub(super) struct CheckContext {
    pub(super) snapshot: Arc<Snapshot>,
    rules: Arc<Rules>,
    pins: Pins,
    /// They may have tools that are in no list.
    providers: BTreeMap<&'static str, Arc<dyn Provider>>,
    pub(super) index: Option<Searchable>,
}

impl Broker {
    /// Warnings, or why the program must not run: a call that is bound to be made is bound to fail.
    pub(super) async fn check_program(
        &self,
        context: Arc<Context>,
        calls: Vec<PreflightCall>,
    ) -> Result<Vec<String>, Box<ErrorReport>> {
        let calls: Arc<[PreflightCall]> = calls.into();
        let (mut known, mut mistakes) = self.mistakes(&calls).await;
        // What is bound to be called is started anyway, and what is known of it from earlier may not
        // be true any more; so nothing is refused before the server itself was asked.
        let doubtful: BTreeSet<_> = calls
            .iter()
            .enumerate()
            .filter(|(_, call)| call.is_certain)
            .filter_map(|(place, call)| {
                let id = call.target.parse::<ToolId>().ok()?;
                let server = known.snapshot.server_name(id.server())?;
                let is_doubtful = match known.snapshot.listing(server) {
                    None => true,
                    Some(listing) => {
                        listing.source == Source::Cached && mistakes.iter().any(|(wrong, _)| *wrong == place)
                    }
                };
                is_doubtful.then(|| server.to_owned())
            })
            .collect();
        if !doubtful.is_empty() {
            futures_util::future::join_all(doubtful.iter().map(|server| self.discover(server))).await;
            (known, mistakes) = self.mistakes(&calls).await;
        }

        let missing = |(_, mistake): &(usize, Mistake)| match mistake {
            Mistake::Missing(id) => self.provider(id.server()),
            _ => None,
        };
        let asked: Vec<_> = mistakes.iter().find_map(missing).into_iter().collect();
        for provider in asked {
            // Another process may have added what is missing.
            provider.refresh().await;
            (known, mistakes) = self.mistakes(&calls).await;
        }

        let mut mistakes: Vec<(usize, Mistake, bool)> = mistakes
            .into_iter()
            .map(|(place, mistake)| {
                let call = &calls[place];
                let is_fatal = call.is_certain && !self.may_appear(&known.snapshot, call, &calls[..place]);
                (place, mistake, is_fatal)
            })
            .collect();
        if mistakes.iter().any(|(_, mistake, _)| matches!(mistake, Mistake::Missing(_))) {
            known.index = self.suggesting().await;
        }
        let snapshot = Arc::clone(&known.snapshot);
        // Those that stop the program first.
        mistakes.sort_by_key(|(.., is_fatal)| !is_fatal);
        let told = work::weighed(!mistakes.is_empty(), move |_| tell(&mistakes, &known)).await;
        let told = told.into_iter().map(|(place, text, is_fatal)| (&calls[place], text, is_fatal));
        let (fatal, harmless): (Vec<_>, Vec<_>) = told.partition(|(.., is_fatal)| *is_fatal);
        let fatal: Vec<_> = fatal.into_iter().map(|(call, text, _)| (call, text)).collect();
        let warnings: Vec<_> =
            harmless.into_iter().map(|(call, text, _)| format!("line {}: {text}", call.line)).collect();
        let Some((first, _)) = fatal.first() else { return Ok(warnings) };
        for tool in fatal.iter().filter_map(|(call, _)| snapshot.tool(&call.target.parse().ok()?)) {
            let verdict = self.rules().policy.judge(&tool.id, &self.pins);
            if !verdict.is_allowed {
                self.record_denial(&context, &tool.id, &verdict.rule);
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

    /// What calls are checked against now.
    pub(super) fn known(&self) -> CheckContext {
        let (rules, pins, providers) = (self.rules(), self.pins.clone(), self.providers());
        CheckContext { snapshot: self.snapshot(), rules, pins, providers, index: None }
    }

    /// What is wrong with which of the calls, as far as that can be known now, and from what.
    async fn mistakes(&self, calls: &Arc<[PreflightCall]>) -> (CheckContext, Vec<(usize, Mistake)>) {
        let known = self.known();
        let is_heavy = calls.len() > AT_ONCE_CALLS || calls.iter().any(|call| call.values.values().any(work::is_heavy));
        if !is_heavy && let Ok(mistakes) = known.mistakes(calls, Pace::Quick, &Waiter::default()) {
            return (known, mistakes);
        }
        let calls = Arc::clone(calls);
        work::elsewhere(move |waiter| {
            let mistakes = known.mistakes(&calls, Pace::Thorough, waiter).unwrap_or_default();
            (known, mistakes)
        })
        .await
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

impl CheckContext {
    /// What is wrong with which of the calls, as far as that can be known.
    fn mistakes(&self, calls: &[PreflightCall], pace: Pace, waiter: &Waiter) -> Result<Vec<(usize, Mistake)>, TooSlow> {
        let mut mistakes = Vec::new();
        for (place, call) in calls.iter().enumerate().take_while(|_| !waiter.is_gone()) {
            let wrong = |tool: &Tool| wrong_arguments(tool, call, pace);
            mistakes.extend(self.mistake(&call.target, wrong)?.map(|mistake| (place, mistake)));
        }
        Ok(mistakes)
    }

    /// What is wrong with a call of `target`, whose arguments `wrong` knows.
    pub(super) fn mistake(
        &self,
        target: &str,
        wrong: impl FnOnce(&Tool) -> Result<Vec<Wrong>, TooSlow>,
    ) -> Result<Option<Mistake>, TooSlow> {
        let CheckContext { snapshot, rules, pins, .. } = self;
        let id = match target.parse::<ToolId>() {
            Ok(id) => id,
            Err(err) if snapshot.server_name(target).is_some() => {
                let why =
                    format!("{err}; `{target}` is a server: call one of its tools, as in `mcp.{target}.tool({{ … }})`");
                return Ok(Some(Mistake::NoTool(why)));
            }
            Err(err) => {
                let meant = meant(snapshot, target, |tool| rules.policy.allows_as_it_is(&tool.id, pins));
                let function = nearest(target, FUNCTIONS).first().map(|near| format!("; did you mean `pml.{near}`?"));
                let near = function.filter(|_| meant.is_empty()).unwrap_or_else(|| did_you_mean(&meant));
                return Ok(Some(Mistake::NoTool(format!("{err}{near}"))));
            }
        };
        let hidden = || self.providers.get(id.server())?.hidden(id.tool());
        let Some(tool) = snapshot.tool(&id).cloned().or_else(hidden) else {
            // A server that has never been reached may have any tool.
            let is_known = snapshot.server_name(id.server()).is_none_or(|server| snapshot.listing(server).is_some());
            return Ok(is_known.then_some(Mistake::Missing(id)));
        };
        let verdict = rules.policy.judge(&tool.id, pins);
        if !verdict.is_allowed {
            return Ok(Some(Mistake::Denied(verdict.explain(&tool.id))));
        }
        let wrong = wrong(&tool)?;
        Ok((!wrong.is_empty()).then(|| Mistake::Arguments(tool, wrong)))
    }
}

/// What is wrong with the arguments that can be read off. What takes too long in any case is checked by the call itself.
fn wrong_arguments(tool: &Tool, call: &PreflightCall, pace: Pace) -> Result<Vec<Wrong>, TooSlow> {
    let mut wrong = Vec::new();
    if let Some(accepted) = tool.accepted()
        && let Some(unknown) = call.keys.iter().find(|key| !accepted.contains(&key.as_str()))
    {
        wrong.push(Wrong::Unknown(unknown.clone()));
    }
    if !call.values.is_empty() {
        match tool.check_some_arguments(&Value::Object(call.values.clone()), pace) {
            Ok(verdict) => wrong.extend(verdict.err().map(Wrong::Values)),
            Err(TooSlow) if pace == Pace::Quick => return Err(TooSlow),
            Err(TooSlow) => {}
        }
    }
    let is_given = |name: &str| call.keys.iter().chain(&call.perhaps).any(|key| key == name);
    let needed: Vec<_> = tool.required().filter(|name| !is_given(name)).map(str::to_owned).collect();
    if !call.is_open && !needed.is_empty() {
        let known = &tool.input_schema["properties"];
        let unknown = call.keys.iter().filter(|key| known.get(key.as_str()).is_none()).cloned().collect();
        wrong.push(Wrong::Missing { needed, unknown });
    }
    Ok(wrong)
}

/// The mistakes in words, each with the signature of its tool where that was not shown before.
pub(super) fn tell(mistakes: &[(usize, Mistake, bool)], known: &CheckContext) -> Vec<(usize, String, bool)> {
    let mut shown = BTreeSet::new();
    let told = mistakes.iter().enumerate().map(|(number, (place, mistake, is_fatal))| {
        let mut text = mistake.tell(number < MAX_MISTAKES, known);
        if let Some(tool) = mistake.tool().filter(|_| shown.len() < MAX_SIGNATURES)
            && shown.insert(tool.id.clone())
        {
            text.push_str("\n  signature: ");
            text.push_str(tool.signature());
        }
        (*place, text, *is_fatal)
    });
    told.collect()
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
