//! Runs programs as parts of other executions: capabilities, and the programs of workflows.

use std::sync::{Arc, Mutex, PoisonError};

use pml_wire::message::CallError;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::{
    outcome::Outcome,
    run::{Event, Media, Request, run},
};
use crate::{
    broker::{Allowance, CallHandler},
    sandbox::Pool,
    trace::{Context, Program, Recorder},
    upstream::{Progress, ProgressListener},
};

/// Runs programs as parts of other executions.
#[derive(Clone, Debug)]
pub struct Nested {
    pool: Pool,
    recorder: Recorder,
}

/// A program to run as a part of another execution.
#[derive(Debug)]
pub struct NestedProgram {
    /// Created by [`Context::child`].
    pub context: Context,
    pub code: Arc<str>,
    /// The name of the program in messages.
    pub name: String,
    /// The value of the global `args`.
    pub args: Box<RawValue>,
}

impl Nested {
    pub fn new(pool: Pool, recorder: Recorder) -> Nested {
        Nested { pool, recorder }
    }

    /// What runs programs, and reads them before they run.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Runs a program in a worker of its own and records it as an execution of its own. It spends what is left to the
    /// execution around it. Fails if the program may not begin. Dropping the future kills the run.
    pub async fn run(
        &self,
        program: NestedProgram,
        handler: &dyn CallHandler,
        allowance: &Allowance,
        progress: Option<ProgressListener>,
    ) -> Result<Outcome, CallError> {
        let NestedProgram { context, code, name, args } = program;
        let place = Mutex::new(allowance.nest(context.depth).await?);
        let record = self.recorder.begin(Arc::new(context), Some(Program { code: &code, args: &args }));
        let listener = |event: Event<'_>| match event {
            Event::Waiting => place.lock().unwrap_or_else(PoisonError::into_inner).pause(),
            Event::Awake => place.lock().unwrap_or_else(PoisonError::into_inner).resume(),
            event => {
                if let Some((listener, report)) = progress.as_ref().zip(report(&event)) {
                    listener.tell(report);
                }
            }
        };
        let request = Request {
            recording: record.recording().clone(),
            name,
            args,
            media: Media::Nested,
            follows_calls: progress.is_some(),
            allowance: Some(allowance.clone()),
            ..Request::new(&*code)
        };
        // Cancelling the outer run drops this future.
        let cancel = CancellationToken::new();
        let work = run(&self.pool, request, allowance.nested_budget(), handler, &listener, &cancel);
        let recording = record.recording().clone();
        let outcome = recording.during(std::pin::pin!(work)).await;
        // Not awaited: the store keeps the order of traces, and the outer execution waits for its own.
        let (_, receipt) = record.finish(outcome.finish());
        drop(receipt);
        Ok(outcome)
    }
}

/// The progress in an event.
fn report(event: &Event<'_>) -> Option<Progress> {
    match event {
        Event::Progress(own) => Some(Progress::of_program(Some(own.progress), own.total, own.message.clone())),
        Event::CallProgress { tool, progress, .. } => {
            let message = match progress.message() {
                Some(message) => format!("{tool}: {message}"),
                None => (*tool).to_owned(),
            };
            Some(Progress::of_program(progress.progress, progress.total, Some(message)))
        }
        Event::Log(_) | Event::CallStarted(_) | Event::CallEnded(_) | Event::Waiting | Event::Awake => None,
    }
}
