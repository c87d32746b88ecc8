//! Several messages in one POST, which protocol version 2025-03-26 has, and no other.

use std::sync::Arc;

use axum::{
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    super::{
        rpc::{self, Broken, Incoming, WITH_BATCHES},
        session::OUTLET,
    },
    endpoint::{Visit, accepted, enter, failure},
    headers::{self, SESSION, VERSION},
    web::Web,
};
use crate::web::plain;

impl Web {
    /// Takes every message of a batch, and answers the requests among them together.
    pub(super) async fn post_batch(
        self: &Arc<Self>,
        headers: &HeaderMap,
        messages: Vec<Result<Incoming, Box<Broken>>>,
        visit: &Visit,
    ) -> Response {
        let refuse = || failure(StatusCode::BAD_REQUEST, &Value::Null, rpc::no_batches());
        let Some(id) = headers::text(headers, SESSION) else { return refuse() };
        let Some(session) = self.sessions.get(id, &visit.caller) else {
            return plain(StatusCode::NOT_FOUND, "there is no such session");
        };
        let is_other = headers::text(headers, VERSION).is_some_and(|version| version != WITH_BATCHES);
        if is_other || !session.has_batches() {
            return refuse();
        }
        let streams = headers::accepts(headers, "text/event-stream");
        let (outlet, told) = mpsc::channel(OUTLET);
        let (mut answers, mut entered) = (Vec::new(), Vec::new());
        for message in messages {
            match message {
                Ok(Incoming::Notification { method, params }) => self.frontend.notified(&method, &params, &session),
                Ok(Incoming::Answer { id, outcome }) => session.answered(&id, outcome),
                Err(broken) => {
                    let Broken { id, error } = *broken;
                    answers.extend(id.map(|id| rpc::answer(&id, Err(error))));
                }
                Ok(Incoming::Request(mut request)) => {
                    let id = request.id.clone();
                    let request = rpc::take_meta(&mut request).and_then(|meta| {
                        rpc::check_in_batch(&request, &meta)?;
                        enter(request, meta, Arc::clone(&session), outlet.clone(), streams)
                    });
                    match request {
                        Ok(request) => entered.push(request),
                        Err(error) => answers.push(rpc::answer(&id, Err(error))),
                    }
                }
            }
        }
        drop(outlet);
        if answers.is_empty() && entered.is_empty() {
            return accepted();
        }
        let guards = entered.iter().map(|entered| entered.in_flight.cancel.clone().drop_guard()).collect();
        let frontend = Arc::clone(&self.frontend);
        let serving = self.frontend.tasks.spawn(async move {
            let served = entered.into_iter().map(|entered| async {
                let (id, outcome) = entered.serve(&frontend).await?;
                Some(rpc::write_answer(&id, outcome).await)
            });
            answers.extend(futures_util::future::join_all(served).await.into_iter().flatten());
            Some((StatusCode::OK, rpc::batch(&answers)?))
        });
        self.respond(serving, told, streams, guards).await
    }
}
