//! Has a program read by a worker, without running it.

use std::time::Duration;

use pml_wire::{
    ErrorCode, Kind,
    message::{Analyse, Analysis, ErrorReport, ExecutionComplete, MAX_PARAMETERS},
};
use tokio::time::timeout;

use crate::sandbox::{Pool, Worker};

/// How long a worker may take.
const TIME: Duration = Duration::from_secs(20);

/// Reads a program in a jailed worker, which is all that ever parses one. Fails if the text is no program.
pub async fn analyse(pool: &Pool, name: &str, code: &str) -> Result<Analysis, Box<ErrorReport>> {
    let mut worker = pool.lease().await.map_err(|err| Box::new(err.into()))?;
    let question = Analyse { name: name.to_owned(), code: code.to_owned() };
    worker.send(Kind::Analyse, 0, &serde_json::to_vec(&question).expect("plain data serializes"));
    let answer = timeout(TIME, answer(&mut worker)).await;
    let failed = |message: &str| Box::new(ErrorReport::new(ErrorCode::WorkerCrashed, message));
    let analysis = match answer {
        Ok(Some(answer)) => answer?,
        Ok(None) => {
            let ended = worker.end().await;
            let message = format!("the sandbox process ended while it read the program: {}", ended.describe());
            return Err(failed(&message));
        }
        Err(_) => return Err(failed("the sandbox process did not read the program in time")),
    };
    worker.retire();
    match analysis {
        Analysis { error: Some(error), .. } => Err(Box::new(error)),
        // A worker is believed as little as the program in it.
        Analysis { code: written, parameters, arguments, .. }
            if written.len() > code.len() + MAX_PARAMETERS * 1024
                || parameters.len() > MAX_PARAMETERS
                || arguments.len() > code.len() =>
        {
            Err(failed("the sandbox process answered with more than it was asked for"))
        }
        analysis => Ok(analysis),
    }
}

/// What the worker says; `None` if it is gone.
async fn answer(worker: &mut Worker) -> Option<Result<Analysis, Box<ErrorReport>>> {
    loop {
        let crashed = |what: String| Some(Err(Box::new(ErrorReport::new(ErrorCode::WorkerCrashed, what))));
        match worker.next_frame() {
            Ok(None) => worker.exchange(true).await.ok()?,
            Ok(Some(frame)) if frame.kind == Kind::Analysis => {
                return match serde_json::from_slice(&frame.body) {
                    Ok(analysis) => Some(Ok(analysis)),
                    Err(err) => crashed(format!("the sandbox process answered with something else: {err}")),
                };
            }
            // Its last words: the program is nested too deeply, or needs too much memory.
            Ok(Some(frame)) if frame.kind == Kind::ExecutionComplete => {
                let error = serde_json::from_slice::<ExecutionComplete>(&frame.body).ok().and_then(|it| it.error);
                return match error {
                    Some(error) => Some(Err(Box::new(error))),
                    None => crashed("the sandbox process ended without an answer".to_owned()),
                };
            }
            Ok(Some(frame)) => return crashed(format!("the sandbox process sent a {:?} frame", frame.kind)),
            Err(err) => return crashed(err.to_string()),
        }
    }
}
