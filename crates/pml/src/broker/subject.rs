//! Relays the requests for resources and prompts that a client makes itself.
//!
//! They pass the same checks as tool calls: policy, rate; and leave one last line and one event. In the policy and in the audit
//! log a resource is `server:resource:ADDRESS` and a prompt `server:prompt:NAME`; no tool can have such a name.

use std::{fmt, sync::Arc};

use pml_wire::{CallId, ErrorCode, message::CallError, trace::TaskKind};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::{
    door::Broker,
    passthrough::{OwnTask, recorded},
    record::Record,
};
use crate::{
    audit::Decision,
    digest::sha256,
    trace::Context,
    upstream::{Forward, Owner, RpcError, ServerMessage, Upstream, Watch, Whole},
    work,
};

/// Longest name in records. Addresses may have kilobytes.
const MAX_RECORDED: usize = 512;

/// A resource or a prompt of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub server: String,
    pub kind: SubjectKind,
    /// An address, a template of addresses, or the name that the server itself has for a prompt.
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    Resource,
    Prompt,
}

impl Subject {
    pub fn resource(server: impl Into<String>, uri: impl Into<String>) -> Subject {
        Subject { server: server.into(), kind: SubjectKind::Resource, name: uri.into() }
    }

    pub fn prompt(server: impl Into<String>, name: impl Into<String>) -> Subject {
        Subject { server: server.into(), kind: SubjectKind::Prompt, name: name.into() }
    }
}

/// Its name in the policy.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            SubjectKind::Resource => "resource",
            SubjectKind::Prompt => "prompt",
        };
        write!(f, "{}:{kind}:{}", self.server, self.name)
    }
}

/// A relayed request.
#[derive(Debug)]
pub struct SubjectRequest {
    /// Each request of a client's own is an execution of its own.
    pub context: Arc<Context>,
    pub id: CallId,
    pub subject: Subject,
    pub method: &'static str,
    /// Without `_meta`.
    pub params: Map<String, Value>,
    /// What goes into `_meta`, see [`Forward::meta`]. Without a `traceparent`, pml puts in its own.
    pub meta: Map<String, Value>,
    /// Receives the messages that the server sends before it responds.
    pub relay: Option<mpsc::Sender<ServerMessage>>,
    /// The client that receives them, see [`Forward::owner`].
    pub owner: Option<Owner>,
}

impl Broker {
    /// May a client see and use this resource or prompt?
    pub fn allows_subject(&self, subject: &Subject) -> bool {
        self.rules().policy.allows_named(&subject.to_string())
    }

    /// Does the policy allow what has this name in it: a tool, a resource or a prompt?
    pub fn permits_named(&self, name: &str) -> bool {
        self.rules().policy.allows_named(name)
    }

    /// Relays a request and returns the server's result or error unchanged; or why the request was not sent,
    /// or got no response. Dropping the future cancels the request.
    pub async fn forward_about(&self, request: SubjectRequest) -> Result<Result<Whole, RpcError>, CallError> {
        let mut record = self.record_about((&request.context, request.id), &request.subject, request.method);
        let kind = match request.subject.kind {
            SubjectKind::Resource => TaskKind::Resource,
            SubjectKind::Prompt => TaskKind::Prompt,
        };
        let span = record.span();
        let own = OwnTask::begin(self, &request.context, kind, &record.tool).await;
        let outcome = self.pass_about(request, &mut record, own.as_ref()).instrument(span).await;
        recorded(record, own, outcome).await
    }

    async fn pass_about(
        &self,
        request: SubjectRequest,
        record: &mut Record,
        own: Option<&OwnTask>,
    ) -> Result<Result<Whole, RpcError>, CallError> {
        let SubjectRequest { context, id, subject, method, params, mut meta, relay, owner } = request;
        let is_heavy = params.values().any(work::is_heavy);
        let recording = own.map(|own| own.record.recording().clone());
        let hashed = work::weighed(is_heavy, move |_| {
            let text = serde_json::to_string(&params).expect("JSON serializes");
            if let Some(recording) = recording {
                recording.arguments(id, &text);
            }
            (sha256(&text), params)
        });
        let params;
        (record.args_sha256, params) = hashed.await;
        let upstream = self.admit_about(&subject, record)?;
        meta.entry("traceparent").or_insert_with(|| context.traceparent_of(id).into());
        // Over HTTP a header names the subject of a request; a completion has no such header.
        let name = (method != "completion/complete").then_some(subject.name.as_str());
        let forward = Forward { method, params, meta, name, headers: Vec::new(), relay, owner };
        record.start(None).await;
        if let Some(own) = own {
            own.record.recording().started(id, &record.tool);
        }
        Ok(upstream.forward(forward).await?)
    }

    /// Subscribes to a resource, see [`Upstream::watch`].
    pub async fn watch(&self, context: &Arc<Context>, subject: &Subject) -> Result<Watch, CallError> {
        let mut record = self.record_about((context, CallId(1)), subject, "resources/subscribe");
        record.args_sha256 = sha256(&subject.name);
        let own = OwnTask::begin(self, context, TaskKind::Resource, &record.tool).await;
        let outcome = match self.admit_about(subject, &mut record) {
            Ok(upstream) => {
                record.start(None).await;
                if let Some(own) = &own {
                    let args = json!({"method": "resources/subscribe", "uri": subject.name}).to_string();
                    own.record.recording().arguments(CallId(1), &args);
                    own.record.recording().started(CallId(1), &record.tool);
                }
                upstream.watch(&subject.name).await.map_err(CallError::from)
            }
            Err(error) => Err(error),
        };
        record.end_with(outcome.as_ref().map(|_| 0));
        if let Some(own) = own {
            own.finish(outcome.as_ref().map(|_| "null")).await;
        }
        outcome
    }

    fn record_about(&self, (context, id): (&Arc<Context>, CallId), subject: &Subject, method: &'static str) -> Record {
        let mut name = subject.to_string();
        if name.len() > MAX_RECORDED {
            name.truncate(name.floor_char_boundary(MAX_RECORDED));
            name.push('…');
        }
        let mut record = Record::new(self.sinks(), context, id, &name);
        record.method = Some(method);
        record
    }

    /// Finds the server of something that may be asked for now.
    fn admit_about(&self, subject: &Subject, record: &mut Record) -> Result<Upstream, CallError> {
        let name = subject.to_string();
        let rules = self.rules();
        let verdict = rules.policy.judge_named(&name);
        record.rule.clone_from(&verdict.rule);
        if !verdict.is_allowed {
            record.decision = Decision::Deny;
            return Err(CallError::new(ErrorCode::PolicyDenied, verdict.explain_named(&name)));
        }
        self.admit_rate(&rules, &subject.server, record)?;
        self.server(&subject.server)
    }
}
