//! Calls that a server answers with a task, and the result later.
//!
//! Until 2025-11-25 a tool may require that it is called as a task: the server answers at once with the task's id, is asked how
//! it is until it has ended, and is then asked for the result. Since 2026-07-28 tasks are an extension: a server that has it may
//! answer any call with a task, and the answer to the question how it is has the result in it. Whoever makes the call notices
//! nothing of it.
//!
//! **Invariant:** a task that nobody waits for any more is cancelled at its server, if the connection is shared; one with a
//! process of its own ends with the process.

use std::{sync::Arc, time::Duration};

use pml_wire::ErrorCode;
use serde::Deserialize;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use super::{
    codec::RpcError,
    connection::Connection,
    exchange::{Request, from_rpc},
    failure::{Failure, Retry},
    payload::Payload,
    pending::Answer,
};
use crate::{catalog::Declared, protocol::method};

/// How often a server is asked at most and at least, whatever it suggests.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// How often it is asked that suggests nothing.
const USUAL: Duration = Duration::from_millis(500);
/// What a cancellation may take.
const CANCEL: Duration = Duration::from_secs(5);

/// The extension, as servers declare it.
const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How a server does calls as tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Support {
    /// If it is asked to, in a parameter of the call.
    AsAsked,
    /// With any call, as it likes.
    AsItLikes,
}

/// How a server may do a call as a task, if it may. `is_needed` if the tool is called in no other way.
pub(super) fn support(declared: &Declared, is_needed: bool) -> Option<Support> {
    let has = |place: &str| declared.capabilities.pointer(place).is_some_and(|it| !it.is_null());
    if declared.capabilities["extensions"][EXTENSION].is_object() {
        return Some(Support::AsItLikes);
    }
    (is_needed && has("/tasks/requests/tools/call")).then_some(Support::AsAsked)
}

/// How a task is, as far as it matters here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    task_id: String,
    status: String,
    #[serde(default)]
    status_message: Option<String>,
    /// In milliseconds.
    #[serde(default, alias = "pollIntervalMs")]
    poll_interval: Option<f64>,
}

impl Task {
    fn of(payload: &Payload) -> Option<Task> {
        Some(Task {
            task_id: payload.get("taskId")?,
            status: payload.get("status")?,
            status_message: payload.get("statusMessage"),
            poll_interval: payload.get("pollInterval").or_else(|| payload.get("pollIntervalMs")),
        })
    }

    fn is_working(&self) -> bool {
        !matches!(self.status.as_str(), "completed" | "failed" | "cancelled")
    }

    fn pause(&self) -> Duration {
        match self.poll_interval {
            Some(interval) if interval.is_finite() => {
                Duration::from_millis(interval.max(0.0) as u64).clamp(SHORTEST, LONGEST)
            }
            _ => USUAL,
        }
    }
}

/// Cancels a task when it is dropped before the task's end.
pub(super) struct Cancelling {
    pub(super) connection: Arc<Connection>,
    pub(super) lives: TaskTracker,
}

struct Guard {
    cancelling: Option<Cancelling>,
    task_id: String,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(Cancelling { connection, lives }) = self.cancelling.take() else { return };
        let task_id = std::mem::take(&mut self.task_id);
        lives.spawn(async move {
            // Best effort: the task may have ended by now.
            let _ = connection.exchange(&about(method::TASKS_CANCEL, &task_id, CANCEL)).await;
        });
    }
}

fn about<'a>(method: &'a str, task_id: &str, bound: Duration) -> Request<'a> {
    let request = Request::new(method, bound).with("taskId", serde_json::Value::from(task_id).to_string());
    Request { is_task: true, ..request }
}

/// Makes a call as a task and waits for its result. The answer is that of a call.
pub(super) async fn run(connection: &Connection, request: &Request<'_>, cancelling: Option<Cancelling>) -> Answer {
    let until = Instant::now() + request.total;
    let payload = match connection.exchange(request).await? {
        Ok(payload) => payload,
        Err(error) => return Ok(Err(error)),
    };
    // Some answer at once.
    let (mut task, support) = match payload.get::<String>("resultType").as_deref() {
        Some("task") => (Task::of(&payload).ok_or_else(silent)?, Support::AsItLikes),
        _ => match payload.get::<Task>("task") {
            Some(task) => (task, Support::AsAsked),
            None => return Ok(Ok(payload)),
        },
    };
    let mut guard = Guard { cancelling, task_id: task.task_id.clone() };
    let mut told = None;
    loop {
        // What it says at its end is in its result.
        if let Some(following) = request.following.as_ref().filter(|_| task.is_working() && told != task.status_message)
        {
            following.sender.tell(None, None, task.status_message.clone());
            told.clone_from(&task.status_message);
        }
        match (task.status.as_str(), support) {
            ("completed" | "failed", Support::AsAsked) => break,
            ("cancelled", _) => {
                guard.cancelling = None;
                let why = task.status_message.map(|why| format!(": {why}")).unwrap_or_default();
                let message = format!("the server cancelled the task{why}");
                return Err(Failure::new(ErrorCode::ToolError, message, Retry::Never));
            }
            ("input_required", _) => {
                let message = "the task asks the user something, and nobody can be asked";
                return Err(Failure::new(ErrorCode::InputRequired, message, Retry::Later));
            }
            _ => {}
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let state = task.status_message.as_deref().unwrap_or(&task.status);
            let message = format!("the task has not ended within {:?}; it says: {state}", request.total);
            return Err(Failure::new(ErrorCode::ProviderTimeout, message, Retry::Later));
        }
        sleep(task.pause().min(left)).await;
        let asked = connection.exchange(&about(method::TASKS_GET, &guard.task_id, request.idle)).await;
        // Whatever became of this question, the task itself was begun.
        let asked = asked.map_err(Failure::uncertain)?;
        let payload = asked.map_err(from_rpc)?;
        task = Task::of(&payload).ok_or_else(silent)?;
        let ended = match (task.status.as_str(), support) {
            ("completed", Support::AsItLikes) => payload.into_result("result").map(Ok),
            ("failed", Support::AsItLikes) => payload.raw("error").map(RpcError::parse).map(Err),
            _ => continue,
        };
        guard.cancelling = None;
        return ended.map(Ok).unwrap_or_else(|| {
            let message = "the task has ended, and the server does not say with what";
            Err(Failure::new(ErrorCode::ProviderProtocol, message, Retry::Later))
        });
    }
    let answer = connection.exchange(&about(method::TASKS_RESULT, &guard.task_id, request.idle)).await;
    guard.cancelling = None;
    answer.map_err(Failure::uncertain)
}

fn silent() -> Failure {
    Failure::new(ErrorCode::ProviderProtocol, "the server does not say how its task is", Retry::Later)
}
