//! `execute_code`: one run, followed, bounded, answered.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pml_wire::{ErrorCode, json, message::ErrorReport, trace::Entry};
use serde_json::{Value, value::to_raw_value};
use tokio_util::sync::CancellationToken;

use super::{
    answer::{self, Keeper},
    follow::Teller,
    gateway::{Frontend, tool_failure},
    nested::NestedRuns,
    recall::ClientHandler,
    session::Scope,
    shares::TooMany,
    tools::Execute,
};
use crate::{
    broker::Allowance,
    events::Body,
    execution::{self, Event, Media, Outcome, Request},
    trace::{Program, Recording, Summary},
    work,
};

/// How long the first start of servers that a program names may take, beside the program's own time.
const FIRST_START: Duration = Duration::from_secs(60);

impl Frontend {
    /// Runs a program. Returns soon after the request is cancelled.
    pub(super) async fn execute(&self, arguments: Execute, scope: &Scope) -> Value {
        let teller = Teller::new(scope);
        let saving = match self.saving(&arguments, scope) {
            Ok(saving) => saving,
            Err(err) => return tool_failure(err.code, &err.message, err.hint.as_deref()),
        };
        let intent = arguments.intent.clone();
        let mut outcome = teller.during(self.run(arguments, &teller, scope)).await;
        let called = outcome.calls.iter().filter_map(|call| call.tool.parse().ok());
        outcome.warnings.extend(self.note_changes(&scope.session, called));
        let saved = match saving {
            Some(saving) => Some(Box::pin(self.save(saving, &outcome)).await),
            None => {
                outcome.warnings.extend(self.propose(intent.as_deref(), &outcome, &scope.session));
                None
            }
        };
        let (results, caller) = (Arc::clone(&self.shared.results), scope.session.caller.clone());
        let keeper = Keeper { results, caller, budget: self.settings().output_tokens };
        let mut answer = work::sized(outcome.bytes(), move |_| answer::answer(outcome, &keeper)).await;
        if let Some(saved) = saved {
            saved.tell(&mut answer);
        }
        answer
    }

    async fn run(&self, mut arguments: Execute, teller: &Teller<'_>, scope: &Scope) -> Outcome {
        let context = Arc::new(scope.context(Entry::ExecuteCode).with_intent(arguments.intent.take()));
        let id = context.execution;
        let settings = self.settings();
        let mut budget = settings.limits;
        let args = to_raw_value(&arguments.args).expect("a JSON value serializes");
        let mut cut = None;
        let refused = match arguments.timeout_ms() {
            Ok(Some(timeout)) => {
                let (wanted, most) = (Duration::from_millis(timeout), budget.max_timeout);
                cut = (wanted > most).then(|| {
                    format!("`timeout_ms` is {timeout}, and was cut to {}, limits.max_timeout_ms", most.as_millis())
                });
                budget.set_timeout(wanted.min(most));
                None
            }
            Ok(None) => None,
            Err(message) => Some(ErrorReport::new(ErrorCode::InvalidArguments, message)),
        };
        let refused = refused.or_else(|| {
            (json::depth(args.get()) > json::MAX_DEPTH).then(|| {
                let message = format!("`args` is nested more than {} levels deep", json::MAX_DEPTH);
                ErrorReport::new(ErrorCode::InvalidArguments, message)
            })
        });
        if let Some(report) = refused {
            return Outcome::refused(id, report);
        }
        let Some(_running) = self.shared.runs.begin() else {
            return Outcome::refused(id, ErrorReport::new(ErrorCode::ShuttingDown, "pml is shutting down"));
        };
        self.shared.recorder.ready().await;
        let record = self.shared.recorder.begin(context, Some(Program { code: &arguments.code, args: &args }));
        let recording = record.recording().clone();
        let mut ending = Ending { frontend: self, recording: recording.clone(), outcome: None };
        let correlation = id.to_string();
        // Cancelled by the client, or because everything ends.
        let stop = scope.cancel.child_token();
        let work = async {
            // First, so that a server that is slow to start takes nobody else's turn.
            self.prepare(&arguments.code, teller, &stop).await;
            let client = &scope.session.client;
            let granted = tokio::select! {
                granted = async { Ok((self.shared.places.take(client).await?, self.shared.turns.take(client).await?)) } => Some(granted),
                () = stop.cancelled() => None,
            };
            let (_place, turn) = match granted {
                Some(Ok(granted)) if !self.shared.runs.are_over() => granted,
                Some(Err(TooMany)) => {
                    let message = "too many programs of this client wait for their turn";
                    return Outcome::refused(id, ErrorReport::new(ErrorCode::RateLimited, message));
                }
                _ => {
                    let message = "it was cancelled before it ran";
                    return Outcome::refused(id, ErrorReport::new(ErrorCode::Cancelled, message));
                }
            };
            let turn = Mutex::new(turn);
            let listener = |event: Event<'_>| {
                match event {
                    Event::Waiting => turn.lock().unwrap_or_else(PoisonError::into_inner).pause(),
                    Event::Awake => turn.lock().unwrap_or_else(PoisonError::into_inner).resume(),
                    _ => {}
                }
                teller.tell(&event);
                self.publish(&correlation, &event);
            };
            let follows_calls = scope.progress_token().is_some() || self.shared.bus.is_heard();
            let admission = NestedRuns::new(&self.shared, client);
            let allowance = Some(Allowance::admitted_by(budget, Arc::new(admission)));
            let request = Request {
                recording,
                args,
                media: Media::Apart,
                follows_calls,
                allowance,
                ..Request::new(arguments.code)
            };
            let (broker, results, caller) = (&*self.broker, &*self.shared.results, &scope.session.caller);
            let handler = ClientHandler { broker, results, caller };
            execution::run(&self.shared.pool, request, budget, &handler, &listener, &stop).await
        };
        let announced = record.recording().clone();
        let work = std::pin::pin!(work);
        let mut work = std::pin::pin!(announced.during(work));
        let outcome = tokio::select! {
            outcome = &mut work => outcome,
            () = self.shared.runs.ended() => {
                stop.cancel();
                work.await
            }
        };
        let outcome = Outcome { warnings: cut.into_iter().chain(outcome.warnings).collect(), ..outcome };
        let (summary, receipt) = record.finish(outcome.finish());
        ending.outcome = Some(summary);
        receipt.wait().await;
        outcome
    }

    /// Starts the servers that a program names. Those of which nothing is known are waited for, so that the
    /// first start of a slow server does not use up the program's own time; why one failed is said by
    /// the call that needs it.
    async fn prepare(&self, code: &str, teller: &Teller<'_>, stop: &CancellationToken) {
        let snapshot = self.shared.catalog.snapshot();
        let (known, unknown): (Vec<_>, Vec<_>) = self
            .shared
            .servers
            .named_in(code)
            .into_iter()
            .filter(|server| self.broker.shows_server(&server.settings().name))
            .partition(|server| snapshot.listing(&server.settings().name).is_some());
        known.into_iter().for_each(|server| self.start_behind(server));
        if unknown.is_empty() || stop.is_cancelled() {
            return;
        }
        let names: Vec<_> = unknown.iter().map(|server| server.settings().name.clone()).collect();
        teller.progress(|| format!("starting {}", names.join(", ")));
        let starts = futures_util::future::join_all(unknown.iter().map(|server| server.init()));
        tokio::select! {
            _ = tokio::time::timeout(FIRST_START, starts) => {}
            () = stop.cancelled() => {}
        }
    }

    fn publish(&self, correlation: &str, event: &Event<'_>) {
        let body = match event {
            Event::Log(log) => Body::ExecutionLog { level: log.level, text: log.text.clone() },
            Event::Progress(progress) => Body::ExecutionProgress {
                progress: progress.progress,
                total: progress.total,
                message: progress.message.clone(),
            },
            Event::CallProgress { call, tool, progress } => Body::ToolProgress {
                tool: (*tool).to_owned(),
                call: call.0,
                progress: progress.progress,
                total: progress.total,
                message: progress.message(),
            },
            // The broker tells of calls.
            Event::CallStarted(_) | Event::CallEnded(_) | Event::Waiting | Event::Awake => return,
        };
        self.shared.bus.publish(correlation, body);
    }
}

/// Counts a run that has ended, also if it was dropped: then it was cancelled.
struct Ending<'a> {
    frontend: &'a Frontend,
    recording: Recording,
    outcome: Option<Summary>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if let Some(summary) = self.outcome.or_else(|| self.recording.summary()) {
            self.frontend.shared.metrics.run(&self.recording.context().caller, summary);
        }
    }
}
