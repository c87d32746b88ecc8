//! The bus: what happens, told to whoever listens.
//!
//! It has two sides. Telemetry is every event, for [`Listener`]s: one that is too slow loses the oldest events and is told
//! how many; what it sees otherwise is complete and in order. Control is the events that change what clients may
//! see, for [`Follower`]s, each of which is told at once and keeps what it needs: however much telemetry there is, no
//! change is lost. Nobody who publishes waits for either.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use pml_wire::{ErrorCode, ToolId, message::LogLevel};
use serde::Serialize;
use tokio::sync::broadcast;

use crate::{audit::Decision, clock::now_millis};

/// Events that a listener may be behind.
const BACKLOG: usize = 1024;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// Milliseconds since 1970.
    pub ts: u64,
    /// What this belongs to: the id of an execution, or of one life of a connection.
    pub correlation_id: String,
    pub body: Body,
}

/// What happened. The topics are part of the interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "topic")]
pub enum Body {
    /// A server was connected for the first time and has listed its tools.
    #[serde(rename = "provider.mcp.tools.discovered")]
    ToolsDiscovered { server: String, count: usize, names: Vec<String> },
    /// A server has listed its tools again.
    #[serde(rename = "provider.mcp.tools.refreshed")]
    ToolsRefreshed { server: String, added: Vec<String>, removed: Vec<String>, changed: Vec<String>, unchanged: usize },
    /// A tool is not what it was when it was first seen. Told once for each thing that it becomes.
    #[serde(rename = "provider.mcp.tools.changed")]
    ToolChanged { tool: ToolId, parts: Vec<String>, first_seen: u64, before_sha256: String, after_sha256: String },
    #[serde(rename = "provider.mcp.tool.completed")]
    ToolCompleted { tool: ToolId, call: u32, duration_ms: f64, result_bytes: usize },
    #[serde(rename = "provider.mcp.tool.failed")]
    ToolFailed { tool: String, call: u32, duration_ms: f64, code: ErrorCode, retryable: bool, message: String },
    /// A request about a resource or a prompt was passed on and answered. The subject is `server:resource:ADDRESS` or
    /// `server:prompt:NAME`.
    #[serde(rename = "provider.mcp.request.completed")]
    RequestCompleted { method: &'static str, subject: String, duration_ms: f64, result_bytes: usize },
    #[serde(rename = "provider.mcp.request.failed")]
    RequestFailed {
        method: &'static str,
        subject: String,
        duration_ms: f64,
        code: ErrorCode,
        retryable: bool,
        message: String,
    },
    #[serde(rename = "provider.mcp.disconnected")]
    Disconnected { server: String, reason: String },
    #[serde(rename = "provider.mcp.reconnected")]
    Reconnected { server: String, attempt: u32 },
    #[serde(rename = "provider.mcp.reconnect.exhausted")]
    ReconnectExhausted { server: String, tries: u32, reason: String },
    /// Servers were added, removed or changed in the configuration.
    #[serde(rename = "provider.mcp.servers.changed")]
    ServersChanged { added: Vec<String>, removed: Vec<String>, changed: Vec<String> },
    /// A program was begun.
    #[serde(rename = "execution.started")]
    ExecutionStarted { caller: String, intent: Option<String>, code_bytes: usize },
    #[serde(rename = "execution.log")]
    ExecutionLog { level: LogLevel, text: String },
    #[serde(rename = "execution.progress")]
    ExecutionProgress { progress: f64, total: Option<f64>, message: Option<String> },
    /// A program calls a tool; how that ends is told as completed or failed.
    #[serde(rename = "execution.call.started")]
    ToolStarted { tool: ToolId, call: u32 },
    /// The server of a call that a program made says how far it is.
    #[serde(rename = "execution.call.progress")]
    ToolProgress { tool: String, call: u32, progress: Option<f64>, total: Option<f64>, message: Option<String> },
    #[serde(rename = "execution.ended")]
    ExecutionEnded { success: bool, code: Option<ErrorCode>, calls: usize, duration_ms: f64 },
    /// A server has other resources than before.
    #[serde(rename = "provider.mcp.resources.changed")]
    ResourcesChanged { server: String },
    /// A server has other prompts than before.
    #[serde(rename = "provider.mcp.prompts.changed")]
    PromptsChanged { server: String },
    /// A resource that is watched has changed.
    #[serde(rename = "provider.mcp.resource.updated")]
    ResourceUpdated { server: String, uri: String },
    /// A server logged something that belongs to no request.
    #[serde(rename = "provider.mcp.log")]
    Log { server: String, level: String, logger: Option<String>, data: serde_json::Value },
    /// A line of the audit log.
    #[serde(rename = "audit.entry")]
    Audited { who: String, tool: String, call: u32, decision: Decision, rule: String, success: bool },
    /// The policy refused a call, or a request about a resource or a prompt.
    #[serde(rename = "policy.denied")]
    PolicyDenied { tool: String, call: u32, rule: String },
}

impl Body {
    /// Does it change what clients may see? Such an event must not be lost.
    fn is_control(&self) -> bool {
        match self {
            Body::ToolsDiscovered { .. }
            | Body::ToolsRefreshed { .. }
            | Body::ServersChanged { .. }
            | Body::ResourcesChanged { .. }
            | Body::PromptsChanged { .. }
            | Body::ResourceUpdated { .. } => true,
            Body::ToolChanged { .. }
            | Body::ToolCompleted { .. }
            | Body::ToolFailed { .. }
            | Body::RequestCompleted { .. }
            | Body::RequestFailed { .. }
            | Body::Disconnected { .. }
            | Body::Reconnected { .. }
            | Body::ReconnectExhausted { .. }
            | Body::ExecutionStarted { .. }
            | Body::ExecutionLog { .. }
            | Body::ExecutionProgress { .. }
            | Body::ToolStarted { .. }
            | Body::ToolProgress { .. }
            | Body::ExecutionEnded { .. }
            | Body::Log { .. }
            | Body::Audited { .. }
            | Body::PolicyDenied { .. } => false,
        }
    }
}

/// Somebody who must hear of every change.
pub trait Follower: fmt::Debug + Send + Sync {
    /// Takes note of a change. Whoever publishes it waits for this, so it is a matter of moments.
    fn changed(&self, change: &Body);
}

/// The sending end, for everybody.
#[derive(Clone, Debug)]
pub struct Bus {
    sender: broadcast::Sender<Arc<Event>>,
    followers: Arc<Mutex<Vec<Weak<dyn Follower>>>>,
}

/// The receiving end of telemetry.
#[derive(Debug)]
pub struct Listener {
    receiver: broadcast::Receiver<Arc<Event>>,
    lost: u64,
}

impl Default for Bus {
    fn default() -> Bus {
        Bus { sender: broadcast::Sender::new(BACKLOG), followers: Arc::default() }
    }
}

impl Bus {
    /// Tells everybody who follows or listens.
    pub fn publish(&self, correlation_id: impl Into<String>, body: Body) {
        if body.is_control() {
            // Told without the lock, so that a follower may do what it likes with the bus.
            let followers: Vec<_> = self.followers().iter().filter_map(Weak::upgrade).collect();
            followers.iter().for_each(|follower| follower.changed(&body));
        }
        if !self.is_heard() {
            return; // an error would say the same
        }
        let event = Event { ts: now_millis(), correlation_id: correlation_id.into(), body };
        let _ = self.sender.send(Arc::new(event));
    }

    /// Does anybody listen to telemetry?
    pub fn is_heard(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Listens to telemetry from now on.
    pub fn listen(&self) -> Listener {
        Listener { receiver: self.sender.subscribe(), lost: 0 }
    }

    /// Tells a follower of every change from now on, for as long as it lives.
    pub fn follow(&self, follower: &Arc<impl Follower + 'static>) {
        let follower: Weak<dyn Follower> = Arc::downgrade(follower) as Weak<dyn Follower>;
        let mut followers = self.followers();
        followers.retain(|follower| follower.strong_count() > 0);
        followers.push(follower);
    }

    fn followers(&self) -> MutexGuard<'_, Vec<Weak<dyn Follower>>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// The next event; `None` when nobody can publish any more.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(count)) => self.lost += count,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// How many events this listener was too slow for.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reconnected(attempt: u32) -> Body {
        Body::Reconnected { server: "a".to_owned(), attempt }
    }

    #[tokio::test]
    async fn a_slow_listener_loses_the_oldest_and_is_told_how_many() {
        let bus = Bus::default();
        bus.publish("before", reconnected(0)); // nobody listens yet
        let mut listener = bus.listen();
        for attempt in 0..BACKLOG as u32 + 5 {
            bus.publish("x", reconnected(attempt));
        }
        assert_eq!(listener.next().await.unwrap().body, reconnected(5));
        assert_eq!(listener.lost(), 5);
        drop(bus);
        let mut count = 1;
        while listener.next().await.is_some() {
            count += 1;
        }
        assert_eq!(count, BACKLOG);
    }

    #[derive(Debug, Default)]
    struct Notebook(Mutex<Vec<Body>>);

    impl Follower for Notebook {
        fn changed(&self, change: &Body) {
            self.0.lock().unwrap().push(change.clone());
        }
    }

    #[test]
    fn a_follower_hears_of_each_change_and_of_nothing_else() {
        let bus = Bus::default();
        let (changed, updated) = (
            Body::PromptsChanged { server: "a".to_owned() },
            Body::ResourceUpdated { server: "a".to_owned(), uri: "u".to_owned() },
        );
        let notebook = Arc::new(Notebook::default());
        bus.publish("before", changed.clone());
        bus.follow(&notebook);
        bus.publish("x", changed.clone()); // nobody listens to telemetry
        let _listener = bus.listen();
        for number in 0..5 * BACKLOG {
            let text = number.to_string();
            bus.publish("x", Body::ExecutionLog { level: LogLevel::Log, text });
        }
        bus.publish("x", updated.clone());
        assert_eq!(*notebook.0.lock().unwrap(), [changed.clone(), updated]);
        drop(notebook);
        bus.publish("x", changed);
        bus.follow(&Arc::new(Notebook::default()));
        assert_eq!(bus.followers().len(), 1, "those that are gone are forgotten");
    }

    #[test]
    fn the_topic_is_in_the_json() {
        let event = Event { ts: 1, correlation_id: "c".to_owned(), body: reconnected(2) };
        let expected = serde_json::json!({
            "ts": 1,
            "correlation_id": "c",
            "body": {"topic": "provider.mcp.reconnected", "server": "a", "attempt": 2},
        });
        assert_eq!(serde_json::to_value(event).unwrap(), expected);
    }
}
