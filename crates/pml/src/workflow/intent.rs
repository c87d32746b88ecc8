//! What is asked for: a workflow, a plan that was suggested before, or a suggestion for an intent.
//!
//! An intent never runs anything. It gives the capability that fits, or tools in the order in which they were used for such
//! intents, with the arguments that are still to be filled; the answer has a `plan_id`, and only `accept` of it runs.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use pml_learn::{Purpose, Ranked};
use pml_wire::{ErrorCode, ToolId, message::ErrorReport};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::time::Instant;

use super::{check::Document, reference::shown};
use crate::{
    broker::{Broker, CAPABILITIES, Question, rounded, whole},
    catalog::{Found, Tool, tool_now},
    learning::{View, reason},
    trace::Context,
};

/// Most tasks of a plan.
const MAX_STEPS: usize = 6;
/// How much of what was learned must speak for a tool to follow another in a plan.
const EVIDENT: f32 = 0.3;
/// Other tools that are named beside a plan.
const ALTERNATIVES: usize = 5;
/// Plans that are kept, and how long.
const MAX_PLANS: usize = 200;
const KEPT: Duration = Duration::from_secs(3600);
/// Longest that a whole workflow may be given.
const MAX_TIMEOUT_MS: u64 = 24 * 3600 * 1000;

/// The arguments of `execute_workflow`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    #[serde(default)]
    pub workflow: Option<Box<RawValue>>,
    #[serde(default)]
    pub intent: Option<String>,
    #[serde(default)]
    pub accept: Option<String>,
    #[serde(default)]
    pub args: Option<Box<RawValue>>,
    #[serde(default)]
    timeout_ms: Option<f64>,
}

/// What was asked for.
#[derive(Debug)]
pub enum Asked {
    Run(Document),
    Suggestion(Suggestion),
}

impl Ask {
    /// How long the whole may take, if that is said.
    pub fn timeout(&self) -> Result<Option<Duration>, String> {
        Ok(whole("timeout_ms", self.timeout_ms, 1, MAX_TIMEOUT_MS)?.map(Duration::from_millis))
    }
}

/// Finds out what is asked for.
pub async fn resolve(ask: Ask, door: &Broker, context: &Context, plans: &Plans) -> Result<Asked, Box<ErrorReport>> {
    let invalid = |message: &str| Box::new(ErrorReport::new(ErrorCode::InvalidArguments, message));
    let args = ask.args.filter(|args| args.get() != "null").unwrap_or_else(super::outcome::empty);
    match (ask.workflow, ask.accept, ask.intent) {
        (Some(_), Some(_), _) => Err(invalid("give either `workflow` or `accept`, not both")),
        (Some(workflow), None, _) => {
            // Models write an object as its text.
            let text = serde_json::from_str::<String>(workflow.get()).unwrap_or_else(|_| workflow.get().to_owned());
            Ok(Asked::Run(Document::json(text, args)))
        }
        (None, Some(id), _) => {
            let plan = plans.get(owner(context), &id).ok_or_else(|| {
                let message = format!("there is no plan `{}`", shown(&id));
                Box::new(ErrorReport::new(ErrorCode::PlanNotFound, message).with_hint("ask with the intent again"))
            })?;
            plan.check(door).await?;
            plan.document(&args).map(Asked::Run)
        }
        (None, None, Some(intent)) if !intent.trim().is_empty() => {
            let mut suggestion = suggest(door, &intent).await;
            suggestion.keep(plans, owner(context));
            Ok(Asked::Suggestion(suggestion))
        }
        (None, None, _) => Err(invalid("give a `workflow`, an `intent`, or `accept` with a plan_id")),
    }
}

/// Whose plans they are.
fn owner(context: &Context) -> &str {
    context.session.as_deref().unwrap_or(&context.caller)
}

/// A suggestion for an intent.
#[derive(Clone, Debug)]
pub struct Suggestion {
    intent: String,
    steps: Vec<Step>,
    /// How well the first step fits.
    confidence: Confidence,
    alternatives: Vec<String>,
    plan_id: Option<String>,
}

/// How well something fits an intent, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Confidence {
    /// That a capability is what is asked for: calibrated, by what was done for such intents.
    Probability(f64),
    /// Of the search.
    Score(f32),
}

impl Confidence {
    fn number(self) -> f64 {
        match self {
            Confidence::Probability(probability) => rounded(probability as f32),
            Confidence::Score(score) => rounded(score),
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Confidence::Probability(_) => "probability",
            Confidence::Score(_) => "score",
        }
    }
}

/// A task of a plan.
#[derive(Clone, Debug)]
struct Step {
    tool: String,
    hash: String,
    signature: String,
    /// What must be filled: names and types.
    needs: Map<String, Value>,
    reasons: Vec<String>,
}

/// The capability or the tools that fit an intent.
async fn suggest(door: &Broker, intent: &str) -> Suggestion {
    let mut suggestion = Suggestion {
        intent: intent.to_owned(),
        steps: Vec::new(),
        confidence: Confidence::Score(0.0),
        alternatives: Vec::new(),
        plan_id: None,
    };
    let Ok(question) = Question::new(intent.to_owned(), None, None) else { return suggestion };
    let findings = door.search(question).await;
    let view = door.learned();
    let capability = capability_for(door, intent, &findings.found);
    let Some(first) = findings.found.first() else { return suggestion };
    if let Some(Fitting { found, confidence, is_certain }) = capability {
        suggestion.steps = vec![Step::of(&found.tool, view.as_deref(), found.reasons.clone())];
        suggestion.confidence = confidence;
        if !is_certain {
            suggestion.alternatives = others(&findings.found, &suggestion.steps);
        }
        return suggestion;
    }
    suggestion.confidence = Confidence::Score(first.score);
    suggestion.steps = match view.as_deref().filter(|view| view.ranks(Purpose::Suggestion, false)) {
        Some(view) => learned_steps(door, view, intent).await,
        None => Vec::new(),
    };
    if suggestion.steps.is_empty() {
        suggestion.steps = vec![Step::of(&first.tool, view.as_deref(), first.reasons.clone())];
    }
    suggestion.alternatives = others(&findings.found, &suggestion.steps);
    suggestion
}

/// What was found besides these steps, as far as it is named.
fn others(found: &[Found], steps: &[Step]) -> Vec<String> {
    let names = found.iter().map(|found| found.tool.id.to_string());
    names.filter(|name| steps.iter().all(|step| step.tool != *name)).take(ALTERNATIVES).collect()
}

/// The capability that fits an intent, if one does: the most probable one that a search suggests, or one that a search
/// finds before everything else by its description. So an intent gives what `search_tools` shows.
fn capability_for<'a>(door: &Broker, intent: &str, found: &'a [Found]) -> Option<Fitting<'a>> {
    let offered = door.offers(intent).into_iter().find_map(|offer| {
        let found = found.iter().find(|entry| entry.tool.id == offer.tool.id)?;
        let confidence = Confidence::Probability(offer.probability);
        Some(Fitting { found, confidence, is_certain: offer.is_first() })
    });
    let first = || found.first().filter(|first| first.tool.id.server() == CAPABILITIES);
    let by_search = |found: &'a Found| Fitting { found, confidence: Confidence::Score(found.score), is_certain: false };
    offered.or_else(|| first().map(by_search))
}

/// A capability that fits an intent.
struct Fitting<'a> {
    found: &'a Found,
    confidence: Confidence,
    /// Is there no need to name others?
    is_certain: bool,
}

/// Tools in the order in which they were used for such intents. Empty if nothing speaks for any.
async fn learned_steps(door: &Broker, view: &View, intent: &str) -> Vec<Step> {
    let index = door.settled_search(Duration::ZERO).await;
    let snapshot = door.known_tools();
    let may_name = |id: &str| tool_now(&snapshot, id).is_some_and(|tool| door.allows(&tool.id));
    let (tools, scores) = index.scores(intent);
    let mut after: Vec<String> = Vec::new();
    let mut steps: Vec<Step> = Vec::new();
    while steps.len() < MAX_STEPS {
        let is_wanted = |place: usize, evidence: f32| {
            let name = tools.name(place);
            let fits = if after.is_empty() { scores[place] > 0.0 || evidence > 0.0 } else { evidence >= EVIDENT };
            fits && !after.iter().any(|used| **used == **name) && may_name(name)
        };
        let asked = (Purpose::Suggestion, intent, after.as_slice());
        let Some(Ranked { place, evidence, reasons, .. }) =
            view.rank(asked, (tools, &scores), 1, is_wanted).into_iter().next()
        else {
            break;
        };
        // The first is what the intent is about; what follows was seen to follow.
        if !after.is_empty() && (evidence < EVIDENT || reasons.is_empty()) {
            break;
        }
        let name = tools.name(place);
        let Some(tool) = tool_now(&snapshot, name) else { break };
        let told = reasons.iter().filter_map(|known| reason(known, may_name)).collect();
        steps.push(Step::of(tool, Some(view), told));
        after.push(name.to_string());
    }
    steps
}

impl Step {
    fn of(tool: &Tool, view: Option<&View>, reasons: Vec<String>) -> Step {
        let properties = &tool.input_schema["properties"];
        let needs = tool.required().map(|name| {
            let kind = properties[name].get("type").cloned().unwrap_or_else(|| "any".into());
            (name.to_owned(), kind)
        });
        Step {
            tool: tool.id.to_string(),
            hash: tool.hash.clone(),
            signature: View::signature(view, tool).into_owned(),
            needs: needs.collect(),
            reasons,
        }
    }
}

impl Suggestion {
    /// Keeps it, so that it can be accepted.
    fn keep(&mut self, plans: &Plans, owner: &str) {
        if !self.steps.is_empty() {
            let tools = self.steps.iter().map(|step| (step.tool.clone(), step.hash.clone())).collect();
            self.plan_id = plans.keep(owner, Plan { intent: self.intent.clone(), tools });
        }
    }

    fn is_capability(&self) -> bool {
        self.steps.first().is_some_and(|step| step.tool.split(':').next() == Some(CAPABILITIES))
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let status = match self.steps.is_empty() {
            true => "nothing",
            false if self.is_capability() => "capability",
            false => "plan",
        };
        let task = |(number, step): (usize, &Step)| {
            json!({
                "id": format!("t{}", number + 1),
                "tool": step.tool,
                "signature": step.signature,
                "args_needed": step.needs,
                "why": step.reasons,
            })
        };
        json!({
            "status": status,
            "intent": self.intent,
            "plan_id": self.plan_id,
            "confidence": self.confidence.number(),
            "confidence_is": self.confidence.noun(),
            "tasks": self.steps.iter().enumerate().map(task).collect::<Vec<_>>(),
            "alternatives": self.alternatives,
        })
    }

    /// For readers.
    pub fn to_text(&self) -> String {
        let Some(plan_id) = &self.plan_id else {
            return "No tool fits this. Nothing was run. search_tools with other words may find one.".to_owned();
        };
        let mut text = match self.is_capability() {
            true => {
                let (noun, number) = (self.confidence.noun(), self.confidence.number());
                format!("A capability fits ({noun} {number}). Nothing was run.\n")
            }
            false => {
                let score = self.confidence.number();
                format!("A plan, of which the first tool fits with {score}. Nothing was run.\n")
            }
        };
        for (number, step) in self.steps.iter().enumerate() {
            let why = if step.reasons.is_empty() { String::new() } else { format!("  // {}", step.reasons.join("; ")) };
            text += &format!("t{}: {}{why}\n", number + 1, step.signature);
        }
        if !self.alternatives.is_empty() {
            text += &format!("Others: {}\n", self.alternatives.join(", "));
        }
        text += &format!(
            "To run it, fill in the arguments by task, where a later one may refer to an earlier, such as $OUTPUT[t1].id: \
             execute_workflow({{\"accept\": \"{plan_id}\", \"args\": {{\"t1\": {{…}}}}}})"
        );
        text
    }
}

/// A plan that can be accepted.
#[derive(Clone, Debug)]
struct Plan {
    intent: String,
    /// Each with the hash of all that was known of it when the plan was made: of a capability that is also its program, and
    /// whether the tools of the program were as they had been.
    tools: Vec<(String, String)>,
}

impl Plan {
    /// Refuses a plan whose tools are not what they were.
    async fn check(&self, door: &Broker) -> Result<(), Box<ErrorReport>> {
        door.refresh_providers().await;
        let outdated = |(name, seen): &&(String, String)| {
            let now = name.parse::<ToolId>().ok().and_then(|id| door.tool(&id));
            now.is_none_or(|tool| tool.hash != *seen)
        };
        let Some((name, _)) = self.tools.iter().find(outdated) else { return Ok(()) };
        let (what, name) = match name.strip_prefix(CAPABILITIES).and_then(|name| name.strip_prefix(':')) {
            Some(name) => ("capability", name),
            None => ("tool", name.as_str()),
        };
        let message =
            format!("the {what} `{name}` has changed since the plan was made, so nothing of the plan was run");
        Err(Box::new(ErrorReport::new(ErrorCode::PlanOutdated, message).with_hint("ask with the intent again")))
    }

    /// The workflow that it is, with its arguments by task.
    fn document(&self, args: &RawValue) -> Result<Document, Box<ErrorReport>> {
        let invalid = |message: String| Box::new(ErrorReport::new(ErrorCode::InvalidArguments, message));
        let mut filled: Map<String, Value> = serde_json::from_str(args.get())
            .map_err(|_| invalid("`args` of a plan are its arguments by task: {\"t1\": {…}}".to_owned()))?;
        let task = |(number, (tool, _)): (usize, &(String, String))| {
            let id = format!("t{}", number + 1);
            let args = filled.remove(&id).unwrap_or_else(|| json!({}));
            let before = (number > 0).then(|| format!("t{number}"));
            json!({ "id": id, "tool": tool, "args": args, "dependsOn": before.into_iter().collect::<Vec<_>>() })
        };
        let tasks: Vec<_> = self.tools.iter().enumerate().map(task).collect();
        if let Some(unknown) = filled.keys().next() {
            let message = format!("the plan has no task `{}`; it has t1 to t{}", shown(unknown), self.tools.len());
            return Err(invalid(message));
        }
        let workflow = json!({ "intent": self.intent, "tasks": tasks });
        Ok(Document::json(workflow.to_string(), super::outcome::empty()))
    }
}

/// Plans that were suggested, for a while, each for the one who asked.
#[derive(Debug, Default)]
pub struct Plans(Mutex<VecDeque<KeptPlan>>);

#[derive(Debug)]
struct KeptPlan {
    id: String,
    owner: String,
    plan: Plan,
    since: Instant,
}

impl Plans {
    fn keep(&self, owner: &str, plan: Plan) -> Option<String> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).ok()?;
        let id = format!("p_{}", random.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        kept.retain(|kept| now.duration_since(kept.since) < KEPT);
        if kept.len() >= MAX_PLANS {
            kept.pop_front();
        }
        kept.push_back(KeptPlan { id: id.clone(), owner: owner.to_owned(), plan, since: now });
        Some(id)
    }

    fn get(&self, owner: &str, id: &str) -> Option<Plan> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_meant = |kept: &&KeptPlan| kept.id == id && kept.owner == owner && kept.since.elapsed() < KEPT;
        kept.iter().find(is_meant).map(|kept| kept.plan.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan { intent: "do it".to_owned(), tools: ["a:b", "c:d"].map(|tool| (tool.to_owned(), String::new())).to_vec() }
    }

    #[tokio::test(start_paused = true)]
    async fn plans_are_kept_for_their_owner_and_not_for_ever() {
        let plans = Plans::default();
        let id = plans.keep("me", plan()).unwrap();
        assert!(plans.get("me", &id).is_some());
        assert!(plans.get("you", &id).is_none() && plans.get("me", "p_0").is_none());
        tokio::time::advance(KEPT).await;
        assert!(plans.get("me", &id).is_none());
        let first = plans.keep("me", plan()).unwrap();
        (0..MAX_PLANS).for_each(|_| drop(plans.keep("me", plan())));
        assert!(plans.get("me", &first).is_none(), "the oldest makes room");
        assert!(plans.0.lock().unwrap().len() <= MAX_PLANS);
    }

    #[test]
    fn a_plan_with_arguments_is_a_workflow() {
        let raw = |value: Value| RawValue::from_string(value.to_string()).unwrap();
        let document = plan().document(&raw(json!({ "t1": {"x": 1}, "t2": {"y": "$OUTPUT[t1].z"} }))).unwrap();
        let written: Value = serde_json::from_str(&document.text).unwrap();
        assert_eq!(
            written["tasks"][1],
            json!({"id": "t2", "tool": "c:d", "args": {"y": "$OUTPUT[t1].z"}, "dependsOn": ["t1"]})
        );
        assert!(super::super::check::read(&document).is_ok());
        assert!(plan().document(&raw(json!({ "t3": {} }))).unwrap_err().message.contains("it has t1 to t2"));
        assert!(plan().document(&raw(json!([1]))).unwrap_err().message.contains("by task"));
    }
}
