//! Checks a whole workflow before anything of it runs.

use std::{collections::BTreeMap, sync::Arc};

use pml_wire::{ErrorCode, json};
use serde_json::{Value, value::RawValue};

use super::{
    graph::{Action, Format, Task, Workflow},
    problem::{Problem, Problems, told},
    reference::shown,
    schedule::Dependencies,
    structure,
    template::Template,
};
use crate::{
    broker::{Broker, Budget, CallHandler as _, PlannedCall, Refusal},
    execution::{CallsOf, calls_of},
    sandbox::Pool,
    trace::{Context, MAX_DEPTH},
    work,
};

/// The tool that runs the program of a task.
pub(super) const RUN_PROGRAM: &str = "pml:run_program";

/// A workflow that may run. Only [`check`] makes one.
#[derive(Debug)]
pub struct Checked {
    pub(super) workflow: Workflow,
    pub(super) dependencies: Dependencies,
    pub(super) steps: Vec<Step>,
    /// The arguments of the workflow.
    pub(super) args: Box<RawValue>,
    pub(super) warnings: Vec<String>,
}

/// What is called for a task.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) target: String,
    pub(super) args: Template,
    /// May a call that failed be made again?
    pub(super) repeats: bool,
}

/// A workflow as it came.
#[derive(Clone, Debug)]
pub struct Document {
    pub text: String,
    pub format: Format,
    /// The arguments of the workflow, as JSON.
    pub args: Box<RawValue>,
}

impl Document {
    /// A document of JSON text.
    pub fn json(text: impl Into<String>, args: Box<RawValue>) -> Document {
        Document { text: text.into(), format: Format::Json, args }
    }
}

impl Checked {
    pub fn name(&self) -> Option<&str> {
        self.workflow.name.as_deref()
    }

    pub fn intent(&self) -> Option<&str> {
        self.workflow.intent.as_deref()
    }

    /// The arguments of the workflow.
    pub fn args(&self) -> &RawValue {
        &self.args
    }

    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How many tasks there are, and in how many layers.
    pub fn size(&self) -> (usize, u32) {
        (self.steps.len(), self.dependencies.layers.iter().copied().max().unwrap_or(0))
    }
}

/// Reads a workflow, and what its tasks depend on. Takes time in proportion to the text.
#[cfg(test)]
pub(super) fn read(document: &Document) -> Result<(Workflow, Dependencies), Problems> {
    match read_on(document)? {
        (workflow, dependencies, problems) if problems.is_empty() => Ok((workflow, dependencies)),
        (.., problems) => Err(problems),
    }
}

/// The same as far as it can be read, with what is wrong so far.
fn read_on(document: &Document) -> Result<(Workflow, Dependencies, Problems), Problems> {
    if json::depth(document.args.get()) > json::MAX_DEPTH {
        let message = format!("the arguments of the workflow are nested more than {} levels deep", json::MAX_DEPTH);
        return Err(Problem::new("", message).into());
    }
    let (workflow, mut problems) = Workflow::read_on(&document.text, document.format)?;
    let dependencies = structure::link(&workflow, Some(document.args.get()), &mut problems);
    Ok((workflow, dependencies, problems))
}

/// The same whatever its arguments are.
pub fn read_graph(document: &Document) -> Result<(Workflow, Dependencies), Problems> {
    let workflow = Workflow::read(&document.text, document.format)?;
    let dependencies = structure::dependencies(&workflow, None)?;
    Ok((workflow, dependencies))
}

/// Checks all that can be known before a workflow runs. It would run as a part of, or as, the execution of the context. Programs
/// are read by a worker of the pool, since the host reads none.
pub async fn check(
    document: Document,
    door: &Broker,
    context: &Arc<Context>,
    (budget, pool): (&Budget, &Pool),
) -> Result<Checked, Problems> {
    let bytes = document.text.len() + document.args.get().len();
    // All that is wrong is told at once, so what can be read is checked although other parts cannot be.
    let (workflow, dependencies, planned, args, mut problems) = work::sized(bytes, move |_| {
        let (workflow, dependencies, problems) = read_on(&document)?;
        let planned: Vec<_> = workflow.tasks.iter().map(planned).collect();
        Ok::<_, Problems>((workflow, dependencies, planned, document.args, problems))
    })
    .await?;

    // The places of the tasks that call tools.
    let (places, calls): (Vec<usize>, Vec<PlannedCall>) =
        planned.into_iter().enumerate().filter_map(|(place, call)| Some((place, call?))).unzip();
    // Each text once: a program that many tasks run is read for the first of them.
    let mut programs: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, task) in workflow.tasks.iter().enumerate() {
        let Action::Code(code) = &task.action else { continue };
        if code.is_empty() {
            continue; // told of already
        }
        match check_code(code, context, budget) {
            Ok(()) => {
                programs.entry(code).or_insert(place);
            }
            Err((code, message)) => problems.push(problem((place, task), "code", code, message)),
        }
    }
    let mut warnings = Vec::new();
    for (place, read) in read_programs(&workflow, &programs, pool).await {
        let task = &workflow.tasks[place];
        // What can be read off a program is checked as it would be if the program ran.
        let checked = match read {
            Ok(calls) if calls.is_empty() => continue,
            Ok(calls) => door.preflight(Arc::clone(context), calls).await,
            Err(report) => Err(report),
        };
        match checked {
            Ok(more) => warnings.extend(more.into_iter().map(|warning| format!("task `{}`: {warning}", task.id))),
            Err(report) => problems.push(problem((place, task), "code", report.code, told(&report))),
        }
    }
    for Refusal { place, code, message } in door.check_planned(context, calls).await {
        let place = places[place];
        let task = &workflow.tasks[place];
        if code == ErrorCode::InvalidArguments && !task.is_whole {
            continue; // its arguments may be what could not be read
        }
        let path = if code == ErrorCode::InvalidArguments { "args" } else { task.action.key() };
        let message = match &task.action {
            Action::Capability(name) if code == ErrorCode::ToolNotFound => {
                format!("there is no capability `{}`: {message}", shown(name))
            }
            _ => message,
        };
        problems.push(problem((place, task), path, code, message));
    }
    if !problems.is_empty() {
        return Err(problems);
    }

    let steps = workflow.tasks.iter().map(|task| {
        let step = step(task, door);
        if task.retry.times > 0 && !step.repeats {
            warnings.push(format!(
                "task `{}` is not retried: only calls of tools that a trusted server marks as read-only or idempotent are",
                task.id
            ));
        }
        step
    });
    let steps: Vec<_> = steps.collect();
    warnings.truncate(MAX_WARNINGS);
    Ok(Checked { workflow, dependencies, steps, args, warnings })
}

const MAX_WARNINGS: usize = 20;

/// The call of a task that calls a tool.
fn planned(task: &Task) -> Option<PlannedCall> {
    let target = task.action.target()?.into_owned();
    let args = serde_json::from_str(&task.args.outline()).unwrap_or(Value::Null);
    Some(PlannedCall { target, args, holes: task.args.holes.iter().map(|hole| hole.pointer.clone()).collect() })
}

/// The calls that can be read off programs, or why one is no program, by their places, in the order of the tasks.
async fn read_programs(workflow: &Workflow, programs: &BTreeMap<&str, usize>, pool: &Pool) -> Vec<(usize, CallsOf)> {
    let mut places: Vec<_> = programs.iter().map(|(code, place)| (*place, *code)).collect();
    places.sort_unstable();
    let named = |(place, code): &(usize, _)| (format!("{}.ts", workflow.tasks[*place].id), *code);
    let named: Vec<(String, &str)> = places.iter().map(named).collect();
    if named.is_empty() {
        return Vec::new();
    }
    let read = calls_of(pool, &named).await;
    read.into_iter().map(|(number, calls)| (places[number].0, calls)).collect()
}

/// What can be known of a program without reading it: its size, and how deep it would run.
fn check_code(code: &str, context: &Context, budget: &Budget) -> Result<(), (ErrorCode, String)> {
    if code.len() > budget.code_bytes {
        let message = format!("the code has {} bytes, more than the limit of {}", code.len(), budget.code_bytes);
        return Err((ErrorCode::CodeTooLarge, message));
    }
    if context.depth >= MAX_DEPTH {
        let message = format!("runs are nested more than {MAX_DEPTH} levels deep");
        return Err((ErrorCode::NestingTooDeep, message));
    }
    Ok(())
}

fn problem((place, task): (usize, &Task), path: &str, code: ErrorCode, message: String) -> Problem {
    Problem { task: Some(task.id.clone()), code, ..Problem::new(format!("tasks[{place}].{path}"), message) }
}

fn step(task: &Task, door: &Broker) -> Step {
    match &task.action {
        Action::Code(code) => {
            let name = Value::String(format!("{}.ts", task.id));
            let before = format!("{{\"code\":{},\"name\":{name},\"args\":", Value::String(code.clone()));
            Step { target: RUN_PROGRAM.to_owned(), args: task.args.between(&before, "}"), repeats: false }
        }
        Action::Tool(_) | Action::Capability(_) => {
            let target = task.action.target().unwrap_or_default().into_owned();
            let repeats = door.repeats_harmlessly(&target);
            Step { target, args: task.args.clone(), repeats }
        }
    }
}
