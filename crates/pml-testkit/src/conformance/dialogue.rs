//! Asking the client, in the way of its era.
//!
//! A legacy client gets a request from the server while its own is open. A modern one gets an
//! `InputRequiredResult`, and sends its request again with the answers. A [`Dialogue`] says what is
//! asked; how is decided here, so that every tool that asks works in both eras.

#![expect(deprecated, reason = "sampling and roots are deprecated, and servers use them")]

use std::collections::BTreeMap;

use rmcp::{
    ErrorData, RoleServer,
    model::{ClientCapabilities, InputRequest, InputRequests, InputRequiredResult, InputResponses},
    service::{Peer, RequestContext},
};
use serde::Serialize;
use serde_json::Value;

use super::shared::{Pending, Shared};

/// What the client has answered, by the names of the questions.
pub(super) type Answers = BTreeMap<String, Value>;

/// What a tool or a prompt wants to know before it can answer.
#[derive(Debug)]
pub(super) struct Dialogue {
    /// Asked one after the other; the requests of a round together.
    pub(super) rounds: Vec<InputRequests>,
    /// Whether the server wants to recognise the client's next request.
    pub(super) keeps_state: bool,
    /// What is said in the end.
    pub(super) finish: fn(&Answers) -> String,
}

/// What a modern client sends along when it repeats its request.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) responses: Option<InputResponses>,
    pub(super) state: Option<String>,
}

/// How far a dialogue has come.
#[derive(Debug)]
pub(super) enum Turn {
    Ask(InputRequiredResult),
    Done(String),
}

impl Dialogue {
    /// Leaves out what this client cannot be asked.
    pub(super) fn restricted_to(mut self, capabilities: &ClientCapabilities) -> Dialogue {
        for round in &mut self.rounds {
            round.retain(|_, request| lacking(capabilities, request).is_none());
        }
        self
    }

    /// Goes on with the dialogue that `what` leads, as far as it goes in this request.
    pub(super) async fn go_on(
        &self,
        what: &str,
        told: Told,
        context: &RequestContext<RoleServer>,
        shared: &Shared,
    ) -> Result<Turn, ErrorData> {
        let capabilities = context.client_capabilities().unwrap_or_default();
        let mut requests = self.rounds.iter().flat_map(BTreeMap::values);
        if let Some(lacking) = requests.find_map(|request| lacking(&capabilities, request)) {
            return Err(ErrorData::missing_required_client_capability(lacking));
        }
        if is_legacy(context) { self.ask_now(&context.peer).await } else { self.answer(what, told, shared) }
    }

    /// The legacy way: all rounds, while the client waits.
    async fn ask_now(&self, peer: &Peer<RoleServer>) -> Result<Turn, ErrorData> {
        let mut answers = Answers::new();
        for (name, request) in self.rounds.iter().flatten() {
            answers.insert(name.clone(), ask(peer, request).await?);
        }
        Ok(Turn::Done((self.finish)(&answers)))
    }

    /// The modern way: one round per request.
    fn answer(&self, what: &str, told: Told, shared: &Shared) -> Result<Turn, ErrorData> {
        let mut pending = match (self.keeps_state, told.state) {
            (true, Some(state)) => shared
                .find(what, &state)
                .ok_or_else(|| ErrorData::invalid_params("this requestState was not given out here", None))?,
            (true, None) => {
                return Ok(self.ask_later(Pending { what: what.into(), round: 0, answers: Answers::new() }, shared));
            }
            (false, _) => Pending { what: what.into(), round: 0, answers: Answers::new() },
        };
        let responses = told.responses.unwrap_or_default();
        for (name, request) in &self.rounds[pending.round] {
            match responses.get(name).filter(|response| fits(request, response)) {
                Some(response) => pending.answers.insert(name.clone(), response.clone()),
                // A wrong answer or none: the round is asked again.
                None => return Ok(self.ask_later(pending, shared)),
            };
        }
        pending.round += 1;
        if pending.round == self.rounds.len() {
            return Ok(Turn::Done((self.finish)(&pending.answers)));
        }
        Ok(self.ask_later(pending, shared))
    }

    fn ask_later(&self, pending: Pending, shared: &Shared) -> Turn {
        let requests = self.rounds[pending.round].clone();
        let state = self.keeps_state.then(|| shared.keep(pending));
        Turn::Ask(InputRequiredResult::new(Some(requests), state))
    }
}

/// Whether the client of this request has shaken hands, and can be sent requests.
pub(super) fn is_legacy(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_none_or(|version| version.has_initialize())
}

/// The capability that the client would need for this request, and has not declared.
fn lacking(declared: &ClientCapabilities, request: &InputRequest) -> Option<ClientCapabilities> {
    let needed = ClientCapabilities::builder();
    match request {
        InputRequest::CreateMessage(_) if declared.sampling.is_none() => Some(needed.enable_sampling().build()),
        InputRequest::Elicitation(_) if declared.elicitation.is_none() => Some(needed.enable_elicitation().build()),
        InputRequest::ListRoots(_) if declared.roots.is_none() => Some(needed.enable_roots().build()),
        _ => None,
    }
}

/// Whether a modern client's answer has the shape that the request asks for.
fn fits(request: &InputRequest, response: &Value) -> bool {
    match request {
        InputRequest::Elicitation(_) => response["action"].is_string(),
        InputRequest::CreateMessage(_) => response["role"].is_string() && !response["content"].is_null(),
        InputRequest::ListRoots(_) => response["roots"].is_array(),
        _ => false,
    }
}

async fn ask(peer: &Peer<RoleServer>, request: &InputRequest) -> Result<Value, ErrorData> {
    match request.clone() {
        InputRequest::CreateMessage(request) => written(peer.create_message(request.params).await),
        InputRequest::Elicitation(request) => written(peer.create_elicitation(request.params).await),
        InputRequest::ListRoots(_) => written(peer.list_roots().await),
        other => Err(ErrorData::internal_error(format!("nobody has said how to ask {other:?}"), None)),
    }
}

/// The answer as it was on the wire.
fn written(answer: Result<impl Serialize, rmcp::ServiceError>) -> Result<Value, ErrorData> {
    let answer = answer.map_err(|err| ErrorData::internal_error(format!("the client did not answer: {err}"), None))?;
    serde_json::to_value(answer).map_err(|err| ErrorData::internal_error(err.to_string(), None))
}
