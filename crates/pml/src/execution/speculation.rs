//! Calls that are made ahead of a run.
//!
//! While a run waits for an answer, the calls that it is expected to make next are made for it, if all of this holds: a trusted
//! server says that the tool only reads, the arguments are fully known, the calibrated probability of the call is
//! [`LEAST_PROBABILITY`] or more, and the record of such calls is good. At most [`MOST_AHEAD`] answers are under way or wait to be
//! asked for. None counts against the run's budget, and no failure of one is seen by the run: its own call is then made as if there
//! had been no other.
//!
//! An answer is given to a call of the same tool with the same arguments, and to no other. It must be younger than [`MAX_AGE`], and
//! nothing that may have changed the answer may have been asked for since the call was made: every request of the run that is not
//! the call of a tool that only reads, a search, a list, or a read of what the host keeps, drops all answers that were not asked
//! for yet. While such a request goes on, nothing is called ahead; after one of which nobody knows whether it happened, nothing
//! is any more.
//!
//! Every expected call is a *forecast*, whether or not it was acted on, and is in the trace with what became of it. That is
//! what the probability is learned from.

use std::{collections::HashMap, future::poll_fn, sync::Arc, task::Poll, time::Duration};

use pml_learn::LEAST_PROBABILITY;
use pml_wire::{
    CallId, Delivery, ToolId,
    message::{Ask, CallError},
    trace::{Forecast, ForecastOutcome},
};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::plan::{Plan, Progress};
use crate::{
    broker::{Afterwards, Allowance, Arguments, CallHandler, Early, Foresight, HandlerFuture, Notices, ToolCall},
    trace::Recording,
};

/// Most calls made ahead that the run has not asked for, in flight or answered.
const MOST_AHEAD: usize = 2;
/// An answer of a call that was made longer ago is not given to the run.
const MAX_AGE: Duration = Duration::from_secs(2);
/// The ids of calls that are made ahead begin here. Those of a run's own calls stay far below.
const FIRST_ID: u32 = 1 << 31;

/// The calls that are made ahead of one run.
pub(super) struct Speculation<'a> {
    handler: &'a dyn CallHandler,
    foresight: Foresight,
    recording: Recording,
    allowance: Allowance,
    plan: Plan,
    /// In the order in which they were made, as in the trace.
    forecasts: Vec<Forecast>,
    /// The number of the forecast about a call of the plan.
    by_place: HashMap<usize, usize>,
    flights: Vec<Flight<'a>>,
    /// Own calls of the run that wait for an early answer, and the number of the forecast.
    claimed: HashMap<CallId, (Early, usize)>,
    /// A call of the run was started since the last look.
    is_due: bool,
    /// A call that was made ahead has failed. The next one may fail too, so there is none.
    has_failed: bool,
    next_id: u32,
}

/// A call that was made ahead.
struct Flight<'a> {
    /// The number of its forecast.
    number: usize,
    early: Early,
    made_at: Instant,
    /// Says whether it succeeded. Absent once it is over.
    work: Option<HandlerFuture<'a, bool>>,
    /// The run has made the call: it is the run's own now.
    is_claimed: bool,
}

impl<'a> Speculation<'a> {
    pub(super) fn new(
        handler: &'a dyn CallHandler,
        foresight: Foresight,
        (recording, allowance): (Recording, Allowance),
        plan: Plan,
    ) -> Speculation<'a> {
        Speculation {
            handler,
            foresight,
            recording,
            allowance,
            plan,
            forecasts: Vec::new(),
            by_place: HashMap::new(),
            flights: Vec::new(),
            claimed: HashMap::new(),
            is_due: false,
            has_failed: false,
            next_id: FIRST_ID,
        }
    }

    /// The run asks for a call. It may have to wait for its turn.
    pub(super) fn issued(&mut self, id: CallId, target: &str) {
        let tool = target.parse().ok().map(|tool| self.handler.canonical(tool));
        if !tool.is_some_and(|tool| self.foresight.only_reads(&tool)) {
            self.overtake(id);
        }
    }

    /// The run asks for something that no tool answers.
    pub(super) fn asked(&mut self, id: CallId, ask: &Ask) {
        match ask {
            Ask::Search(_) | Ask::ListResources { .. } => {}
            // Nothing says that reading these changes nothing.
            Ask::ReadResource { .. } | Ask::GetPrompt { .. } => self.overtake(id),
        }
    }

    /// The run does something that may change what was read for it.
    fn overtake(&mut self, id: CallId) {
        self.plan.writes(id);
        for number in 0..self.forecasts.len() {
            self.give_up(number, ForecastOutcome::Overtaken);
        }
    }

    /// A call of the run starts. Its early answer, if there is one for exactly this call. `args` are those that the server gets,
    /// if they are known as they stand.
    pub(super) fn started(&mut self, id: CallId, tool: &ToolId, args: Option<&RawValue>) -> Option<Early> {
        self.is_due = true;
        let Progress { made, passed } = self.plan.called(tool, args);
        for place in passed {
            if let Some(number) = self.by_place.get(&place).copied() {
                self.give_up(number, ForecastOutcome::Wrong);
            }
        }
        let number = self.by_place.get(&made?).copied()?;
        if self.forecasts[number].outcome != ForecastOutcome::Open {
            return None;
        }
        let Some(flight) = self.flights.iter_mut().find(|flight| flight.number == number) else {
            self.settle(number, ForecastOutcome::Right);
            return None;
        };
        if flight.made_at.elapsed() > MAX_AGE {
            self.give_up(number, ForecastOutcome::Late);
            return None;
        }
        flight.is_claimed = true;
        let early = flight.early.clone();
        self.claimed.insert(id, (early.clone(), number));
        self.flights.retain(|flight| flight.work.is_some() || !flight.is_claimed);
        Some(early)
    }

    /// A call or a question of the run has ended.
    pub(super) fn ended(&mut self, id: CallId, error: Option<&CallError>) {
        let is_known = error.is_none_or(|error| error.outcome != Delivery::Unknown);
        self.plan.ended(id, is_known);
        if let Some((early, number)) = self.claimed.remove(&id) {
            let is_used = early.is_used();
            if is_used {
                self.recording.answered_ahead(id);
            }
            self.settle(number, if is_used { ForecastOutcome::Used } else { ForecastOutcome::Failed });
        }
    }

    /// Thinks about what comes next, if the run has started a call since the last time, and makes calls ahead.
    pub(super) fn look_ahead(&mut self) {
        if !std::mem::take(&mut self.is_due) {
            return;
        }
        let mut ahead = Vec::new();
        for candidate in self.plan.candidates(|tool| self.foresight.only_reads(tool)) {
            let number = *self.by_place.entry(candidate.place).or_insert_with(|| {
                let (prospect, probability) =
                    self.foresight.forecast(&candidate.before, candidate.tool, candidate.is_certain);
                let forecast = Forecast {
                    tool: candidate.tool.to_string(),
                    call_id: None,
                    certain: prospect.is_certain,
                    follows: rounded(prospect.follows),
                    probability: rounded(probability),
                    outcome: ForecastOutcome::Open,
                };
                self.recording.forecast(self.forecasts.len(), forecast.clone());
                self.forecasts.push(forecast);
                self.forecasts.len() - 1
            });
            let Forecast { call_id, probability, outcome, .. } = &self.forecasts[number];
            let is_likely = *outcome == ForecastOutcome::Open && *probability >= LEAST_PROBABILITY;
            if call_id.is_none() && is_likely && self.foresight.allows(candidate.tool) {
                ahead.push((number, candidate.tool.clone(), candidate.args.to_owned()));
            }
        }
        for (number, tool, args) in ahead {
            let waiting = self.flights.iter().filter(|flight| !flight.is_claimed).count();
            if self.foresight.is_on() && !self.has_failed && waiting < MOST_AHEAD {
                self.make(number, tool, args);
            }
        }
    }

    /// Makes a call ahead.
    fn make(&mut self, number: usize, tool: ToolId, args: Box<RawValue>) {
        let id = CallId(self.next_id);
        self.next_id += 1;
        let call = ToolCall {
            context: Arc::clone(self.recording.context()),
            id,
            tool,
            args: Arguments::new(args, None),
            is_raw: false,
            suggests: false,
            allowance: self.allowance.clone(),
            notices: Notices::default(),
            afterwards: Afterwards::default(),
            progress: None,
            early: None,
        };
        let (sender, early) = Early::new();
        let (handler, announcement) = (self.handler, self.recording.announcement());
        let work = Box::pin(async move {
            if let Some(announcement) = announcement {
                announcement.await;
            }
            let outcome = handler.call_ahead(call).await;
            let has_succeeded = outcome.is_ok();
            // The run may have ended.
            let _ = sender.send(outcome);
            has_succeeded
        });
        self.flights.push(Flight { number, early, made_at: Instant::now(), work: Some(work), is_claimed: false });
        self.forecasts[number].call_id = Some(id.0);
        self.recording.forecast(number, self.forecasts[number].clone());
    }

    /// A forecast that is open, and not claimed, has come to nothing. The call that was made for it is cancelled.
    fn give_up(&mut self, number: usize, outcome: ForecastOutcome) {
        let is_claimed = self.claimed.values().any(|(_, claimed)| *claimed == number);
        if self.forecasts[number].outcome == ForecastOutcome::Open && !is_claimed {
            self.flights.retain(|flight| flight.number != number);
            self.settle(number, outcome);
        }
    }

    fn settle(&mut self, number: usize, outcome: ForecastOutcome) {
        self.forecasts[number].outcome = outcome;
        self.recording.forecast(number, self.forecasts[number].clone());
    }

    /// Is any call that was made ahead in flight?
    pub(super) fn is_in_flight(&self) -> bool {
        self.flights.iter().any(|flight| flight.work.is_some())
    }

    /// Waits until a call that was made ahead is over. Only this lets them go on.
    pub(super) async fn next_landing(&mut self) {
        poll_fn(|cx| {
            let mut has_landed = false;
            for flight in &mut self.flights {
                if let Some(work) = &mut flight.work
                    && let Poll::Ready(has_succeeded) = work.as_mut().poll(cx)
                {
                    flight.work = None;
                    self.has_failed |= !has_succeeded;
                    has_landed = true;
                }
            }
            self.flights.retain(|flight| flight.work.is_some() || !flight.is_claimed);
            if has_landed { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// The run has ended: what it has not asked for by now it never will.
    pub(super) fn finish(mut self) {
        for number in 0..self.forecasts.len() {
            self.give_up(number, ForecastOutcome::Wrong);
        }
    }
}

/// As many digits as are worth keeping.
fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}
