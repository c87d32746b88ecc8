//! Has programs read by a worker, without running them.

use std::time::Duration;

use pml_wire::{
    ErrorCode, Kind,
    message::{Analyse, Analysis, ErrorReport, ExecutionComplete, MAX_PARAMETERS, MAX_PREFLIGHT_CALLS, PreflightCall},
};
use tokio::time::{Instant, timeout, timeout_at};

use crate::sandbox::{Pool, Worker};

/// How long a worker may take for one program, and for all programs of one [`calls_of`].
const TIME: Duration = Duration::from_secs(20);
/// Workers that the programs of one [`calls_of`] may kill; what is left is then not read.
const MAX_DEATHS: usize = 4;

/// Analyses a program in a sandboxed worker, since only workers parse programs. Fails if the text is not a program.
pub async fn analyse(pool: &Pool, name: &str, code: &str) -> Result<Analysis, Box<ErrorReport>> {
    let mut worker = pool.lease().await.map_err(|err| Box::new(err.into()))?;
    match read(&mut worker, name, code).await {
        Ok(answer) => {
            worker.retire();
            answer
        }
        Err(ruined) => Err(ruined.report(worker).await),
    }
}

/// The calls of a program that can be read off it, or why it is no program.
pub type CallsOf = Result<Vec<PreflightCall>, Box<ErrorReport>>;

/// Reads programs, given with their names, in a jailed worker: the calls of each, by its place, or why it cannot be read. One
/// worker reads all, unless a program kills it.
pub async fn calls_of(pool: &Pool, programs: &[(String, &str)]) -> Vec<(usize, CallsOf)> {
    let mut all = Vec::new();
    let mut programs = programs.iter().enumerate().peekable();
    let late = Instant::now() + TIME;
    let mut deaths = 0;
    while let Some((place, _)) = programs.peek() {
        let mut worker = match pool.lease().await {
            Ok(worker) => worker,
            Err(err) => {
                all.push((*place, Err(Box::new(err.into()))));
                return all;
            }
        };
        loop {
            let Some((place, (name, code))) = programs.next() else {
                worker.retire();
                return all;
            };
            match timeout_at(late, read(&mut worker, name, code)).await {
                Ok(Ok(read)) => all.push((place, read.map(|analysis| analysis.calls))),
                Ok(Err(ruined)) => {
                    all.push((place, Err(ruined.report(worker).await)));
                    deaths += 1;
                    break;
                }
                Err(_) => {
                    let message = "the programs of the workflow take too long to read";
                    all.push((place, Err(Box::new(ErrorReport::new(ErrorCode::WorkerCrashed, message)))));
                    return all;
                }
            }
        }
        if deaths == MAX_DEATHS {
            break;
        }
    }
    all
}

/// Why a worker reads nothing any more.
enum Ruined {
    /// It is gone.
    Gone,
    /// It said why before it ended, or what it did is no answer.
    Because(Box<ErrorReport>),
}

impl Ruined {
    fn because(message: impl Into<String>) -> Ruined {
        Ruined::Because(Box::new(ErrorReport::new(ErrorCode::WorkerCrashed, message)))
    }

    /// What is wrong with the program that did it. Ends the worker.
    async fn report(self, worker: Worker) -> Box<ErrorReport> {
        match self {
            Ruined::Because(report) => report,
            Ruined::Gone => {
                let ended = worker.end().await;
                let ended = ended.describe();
                let message = format!(
                    "the sandbox process ended while it read the program, which may be nested too deeply: {ended}"
                );
                Box::new(ErrorReport::new(ErrorCode::WorkerCrashed, message))
            }
        }
    }
}

/// Has a worker read one program.
async fn read(worker: &mut Worker, name: &str, code: &str) -> Result<Result<Analysis, Box<ErrorReport>>, Ruined> {
    let question = Analyse { name: name.to_owned(), code: code.to_owned() };
    worker.send(Kind::Analyse, 0, &serde_json::to_vec(&question).expect("plain data serializes"));
    let analysis = match timeout(TIME, answer(worker)).await {
        Ok(answer) => answer?,
        Err(_) => return Err(Ruined::because("the sandbox process did not read the program in time")),
    };
    match analysis {
        Analysis { error: Some(error), .. } => Ok(Err(Box::new(error))),
        // A worker is believed as little as the program in it.
        Analysis { code: written, parameters, arguments, optional, calls, .. }
            if written.len() > code.len() + MAX_PARAMETERS * 1024
                || parameters.len() > MAX_PARAMETERS
                || arguments.len() > code.len()
                || optional.len() > arguments.len()
                || calls.len() > MAX_PREFLIGHT_CALLS =>
        {
            Err(Ruined::because("the sandbox process answered with more than it was asked for"))
        }
        analysis => Ok(Ok(analysis)),
    }
}

/// What the worker says.
async fn answer(worker: &mut Worker) -> Result<Analysis, Ruined> {
    loop {
        match worker.next_frame() {
            Ok(None) => worker.exchange(true).await.map_err(|_| Ruined::Gone)?,
            Ok(Some(frame)) if frame.kind == Kind::Analysis => {
                return serde_json::from_slice(&frame.body).map_err(|err| {
                    Ruined::because(format!("the sandbox process answered with something else: {err}"))
                });
            }
            // The worker's last words: the program is nested too deeply, or needs too much memory.
            Ok(Some(frame)) if frame.kind == Kind::ExecutionComplete => {
                let error = serde_json::from_slice::<ExecutionComplete>(&frame.body).ok().and_then(|it| it.error);
                return Err(match error {
                    Some(error) => Ruined::Because(Box::new(error)),
                    None => Ruined::because("the sandbox process ended without an answer"),
                });
            }
            Ok(Some(frame)) => {
                return Err(Ruined::because(format!("the sandbox process sent a {:?} frame", frame.kind)));
            }
            Err(err) => return Err(Ruined::because(err.to_string())),
        }
    }
}
