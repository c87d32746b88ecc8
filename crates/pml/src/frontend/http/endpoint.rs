//! `/mcp`: messages of both eras over streamable HTTP.
//!
//! An answer that is there soon is plain JSON. Otherwise, or if there is something to tell before it, the
//! answer is a stream; closing it cancels the request. Answers cannot be fetched later, in either era, so a
//! client that has gone gets none, and nothing more is done for it.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{ConnectInfo, Extension, Request as HttpRequest, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::Response,
};
use futures_util::{Stream, StreamExt};
use pml_wire::Line;
use serde_json::Value;
use tokio::{sync::mpsc, time::sleep};
use tokio_util::sync::DropGuard;

use super::{
    super::{
        gateway::Frontend,
        results::Caller,
        rpc::{self, Broken, Era, Incoming, Meta, Reply, Request, Sent},
        session::{InFlight, OUTLET, Scope, Session},
        shares::Client,
    },
    events::KEEP_ALIVE,
    headers::{self, SESSION},
    web::Web,
};
use crate::{
    upstream::RpcError,
    web::{MAX_BYTES, NoBody, Received, event_stream, plain, typed},
};

/// How long an answer is waited for before a stream is begun.
const SOON: Duration = Duration::from_secs(2);

pub(super) async fn serve(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<Caller>,
    Extension(ConnectInfo(peer)): Extension<ConnectInfo<SocketAddr>>,
    request: HttpRequest,
) -> Response {
    let (parts, body) = request.into_parts();
    match parts.method {
        Method::POST => match web.receive(&parts.headers, body).await {
            Ok(received) => web.post(&parts.headers, received, Visit { caller, peer }).await,
            Err(response) => *response,
        },
        Method::GET => web.open_stream(&parts.headers, &Visit { caller, peer }),
        Method::DELETE => match headers::text(&parts.headers, SESSION) {
            Some(id) if web.sessions.end(id, &caller) => plain(StatusCode::OK, "the session is over"),
            Some(_) => plain(StatusCode::NOT_FOUND, "there is no such session"),
            None => not_allowed(),
        },
        _ => not_allowed(),
    }
}

fn not_allowed() -> Response {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "send messages with POST");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}

/// The response to what is not answered.
pub(super) fn accepted() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// Who makes a request, and over which connection.
pub(super) struct Visit {
    pub(super) caller: Caller,
    peer: SocketAddr,
}

impl Web {
    /// Reads the body of a message, if it can be one, and if there is room for it among the others.
    async fn receive(&self, headers: &HeaderMap, body: Body) -> Result<Received, Box<Response>> {
        let refuse = |status, text: &str| Err(Box::new(plain(status, text)));
        if !headers::is_json(headers) {
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the Content-Type must be application/json");
        }
        if !headers::accepts(headers, "application/json") {
            return refuse(StatusCode::NOT_ACCEPTABLE, "the client must accept application/json and text/event-stream");
        }
        let too_large = format!("a message has at most {MAX_BYTES} bytes");
        let size = headers.get(header::CONTENT_LENGTH).and_then(|size| size.to_str().ok()?.parse::<usize>().ok());
        if size.is_some_and(|size| size > MAX_BYTES) {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, &too_large);
        }
        match self.bodies.read(body).await {
            Ok(received) => Ok(received),
            Err(NoBody::TooLarge) => refuse(StatusCode::PAYLOAD_TOO_LARGE, &too_large),
            Err(NoBody::Broken) => refuse(StatusCode::BAD_REQUEST, "the message did not arrive whole"),
            Err(NoBody::TooSlow) => refuse(StatusCode::REQUEST_TIMEOUT, "the message took too long to arrive"),
        }
    }

    async fn post(self: &Arc<Self>, headers: &HeaderMap, received: Received, visit: Visit) -> Response {
        let Received { bytes, room } = received;
        let message = rpc::read(bytes).await;
        drop(room); // it is others' turn, however long this is served
        let request = match message {
            Ok(Sent::One(Incoming::Request(request))) => request,
            Ok(Sent::One(Incoming::Notification { method, params })) => {
                return self.accept(headers, &visit.caller, |session| {
                    // Without a session there is nothing that it could change.
                    if let Some(session) = session {
                        self.frontend.notified(&method, &params, session);
                    }
                    true
                });
            }
            Ok(Sent::One(Incoming::Answer { id, outcome })) => {
                return self.accept(headers, &visit.caller, |session| {
                    session.map(|session| session.answered(&id, outcome)).is_some()
                });
            }
            Ok(Sent::Batch(messages)) => return self.post_batch(headers, messages, &visit).await,
            Err(broken) => {
                let Broken { id, error } = *broken;
                return failure(StatusCode::BAD_REQUEST, &id.unwrap_or_default(), error);
            }
        };
        let id = request.id.clone();
        match self.admit(headers, request, visit) {
            Ok(admitted) => self.answer(admitted).await,
            Err((status, error)) => failure(status, &id, error),
        }
    }

    /// Takes what is not answered: a notification, or an answer to what a client was asked.
    fn accept(&self, headers: &HeaderMap, caller: &Caller, take: impl FnOnce(Option<&Session>) -> bool) -> Response {
        let id = headers::text(headers, SESSION);
        let session = id.and_then(|id| self.sessions.get(id, caller));
        if id.is_some() && session.is_none() {
            return plain(StatusCode::NOT_FOUND, "there is no such session");
        }
        if !take(session.as_deref()) {
            let error = rpc::error(rpc::INVALID_REQUEST, "nothing was asked that this could answer");
            return failure(StatusCode::BAD_REQUEST, &Value::Null, error);
        }
        accepted()
    }

    /// Checks a request, and finds or begins its session.
    fn admit(
        &self,
        headers: &HeaderMap,
        mut request: Request,
        visit: Visit,
    ) -> Result<Admitted, (StatusCode, RpcError)> {
        let bad = |error| (StatusCode::BAD_REQUEST, error);
        let version = request.params.get("_meta").and_then(|meta| meta.get(rpc::VERSION_KEY));
        headers::check_version(headers, version, &request.method).map_err(bad)?;
        let meta = rpc::take_meta(&mut request).map_err(bad)?;
        self.frontend.check_headers(headers, &request, meta.era).map_err(bad)?;
        let Visit { caller, peer } = visit;
        let (session, begun) = match (meta.era, headers::text(headers, SESSION)) {
            // Each request is a session of its own.
            (Era::Modern, _) => {
                let client = Client::new(&caller, peer.ip(), &peer.port().to_string());
                (Session::new(caller, client, self.gone.child_token()), None)
            }
            (Era::Legacy, _) if request.method == "initialize" => {
                // No session for what will not be answered with one.
                rpc::wanted_version(&request.params).map_err(bad)?;
                let (id, session) = self.sessions.begin(caller, peer.ip(), &self.gone).ok_or_else(|| {
                    let error = rpc::error(rpc::INTERNAL_ERROR, "no session can be begun");
                    (StatusCode::SERVICE_UNAVAILABLE, error)
                })?;
                (session, Some(id))
            }
            (Era::Legacy, Some(id)) => match self.sessions.get(id, &caller) {
                Some(session) => (session, None),
                None => {
                    let error = rpc::error(rpc::INVALID_REQUEST, "there is no such session; begin with `initialize`");
                    return Err((StatusCode::NOT_FOUND, error));
                }
            },
            (Era::Legacy, None) => {
                let message = "the header Mcp-Session-Id is missing; begin with `initialize`";
                return Err(bad(rpc::error(rpc::INVALID_REQUEST, message)));
            }
        };
        let (outlet, messages) = mpsc::channel(OUTLET);
        let streams = headers::accepts(headers, "text/event-stream");
        let entered = enter(request, meta, session, outlet, streams).map_err(bad)?;
        Ok(Admitted { entered, messages, streams, begun })
    }

    async fn answer(self: &Arc<Self>, admitted: Admitted) -> Response {
        let Admitted { entered, messages, streams, begun } = admitted;
        let (era, guard) = (entered.scope.era, entered.in_flight.cancel.clone().drop_guard());
        let frontend = Arc::clone(&self.frontend);
        let serving = self.frontend.tasks.spawn(async move {
            let (id, outcome) = entered.serve(&frontend).await?;
            let status = status(era, &outcome);
            Some((status, rpc::write_answer(&id, outcome).await))
        });
        let mut response = self.respond(serving, messages, streams, vec![guard]).await;
        if let Some(value) = begun.and_then(|id| HeaderValue::from_str(&id).ok()) {
            response.headers_mut().insert(SESSION, value);
        }
        response
    }

    /// Responds with what is served, as a whole or as a stream. Whatever becomes of the response, when it is gone the
    /// guards cancel the requests.
    pub(super) async fn respond(
        &self,
        mut serving: Serving,
        mut messages: mpsc::Receiver<Line>,
        streams: bool,
        guards: Vec<DropGuard>,
    ) -> Response {
        let first = tokio::select! {
            biased;
            answer = &mut serving => match answer {
                Ok(Some(answer)) => First::Answer(answer),
                _ => return plain(StatusCode::SERVICE_UNAVAILABLE, "the request was cancelled"),
            },
            Some(message) = messages.recv(), if streams => First::Message(message),
            () = sleep(SOON), if streams => First::Later,
        };
        match first {
            // What was said before it, and was not sent because the client takes no stream, is lost.
            First::Answer((status, answer)) => match messages.try_recv() {
                Ok(message) if streams => stream(Some(message), messages, Some(answer), None, guards),
                _ => typed(status, "application/json", answer.into_string()),
            },
            First::Message(message) => stream(Some(message), messages, None, Some(serving), guards),
            First::Later => stream(None, messages, None, Some(serving), guards),
        }
    }

    /// The stream of a session, for what belongs to no request.
    fn open_stream(self: &Arc<Self>, headers: &HeaderMap, visit: &Visit) -> Response {
        let Some(id) = headers::text(headers, SESSION) else { return not_allowed() };
        if !headers::accepts(headers, "text/event-stream") {
            return plain(StatusCode::NOT_ACCEPTABLE, "the client must accept text/event-stream");
        }
        let Some(session) = self.sessions.get(id, &visit.caller) else {
            return plain(StatusCode::NOT_FOUND, "there is no such session");
        };
        let end = self.streams.begin(&format!("{} {}", visit.caller.0, visit.peer.ip())).drop_guard();
        let (outlet, messages) = mpsc::channel(OUTLET);
        session.initialized.cancel(); // whoever opens a stream has begun
        let closed = self.frontend.follow_news(&session, outlet);
        let rest = Rest { first: None, messages, serving: None, answer: None, _guards: vec![closed] };
        let (stop, gone) = (self.stop.clone(), session.gone.clone());
        let ended = async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = gone.cancelled() => {}
                () = end.token().cancelled() => {} // for others
            }
        };
        let mut response = streamed(rest.chunks().take_until(Box::pin(ended)));
        if let Ok(value) = HeaderValue::from_str(id) {
            response.headers_mut().insert(SESSION, value);
        }
        response
    }
}

/// A request of a session.
pub(super) struct Entered {
    request: Request,
    scope: Scope,
    pub(super) in_flight: InFlight,
}

/// Begins to serve a request.
pub(super) fn enter(
    request: Request,
    meta: Meta,
    session: Arc<Session>,
    outlet: mpsc::Sender<Line>,
    streams: bool,
) -> Result<Entered, RpcError> {
    let Some(in_flight) = session.begin(&request.id) else {
        return Err(rpc::error(rpc::INVALID_REQUEST, "a request with this id is being served"));
    };
    let scope = Scope {
        id: request.id.clone(),
        era: meta.era,
        capabilities: meta.capabilities.unwrap_or_else(|| session.capabilities()),
        session,
        meta: meta.fields,
        outlet,
        streams,
        cancel: in_flight.cancel.clone(),
    };
    Ok(Entered { request, scope, in_flight })
}

impl Entered {
    /// Serves the request. Its id and outcome; `None` if it was cancelled. When this is done, the id may be used again,
    /// and nothing more is said about the request.
    pub(super) async fn serve(self, frontend: &Arc<Frontend>) -> Option<(Value, Result<Reply, RpcError>)> {
        let Entered { request, scope, in_flight } = self;
        let outcome = frontend.serve_until_cancelled(request, &scope).await;
        drop(in_flight);
        Some((scope.id, outcome?))
    }
}

/// A request that may be served.
struct Admitted {
    entered: Entered,
    messages: mpsc::Receiver<Line>,
    streams: bool,
    /// The session that begins with it.
    begun: Option<String>,
}

/// What comes first.
enum First {
    Answer((StatusCode, Line)),
    /// Something to tell before the answer.
    Message(Line),
    Later,
}

pub(super) type Serving = tokio::task::JoinHandle<Option<(StatusCode, Line)>>;

/// What a stream still has to give.
struct Rest {
    first: Option<Line>,
    messages: mpsc::Receiver<Line>,
    serving: Option<Serving>,
    /// The answer, when it is known and what was said before it has not been given yet.
    answer: Option<Line>,
    _guards: Vec<DropGuard>,
}

/// A stream of messages, of which the answer is the last. Dropped, it cancels what it is about.
fn stream(
    first: Option<Line>,
    messages: mpsc::Receiver<Line>,
    answer: Option<Line>,
    serving: Option<Serving>,
    guards: Vec<DropGuard>,
) -> Response {
    streamed(Rest { first, messages, serving, answer, _guards: guards }.chunks())
}

fn streamed(chunks: impl Stream<Item = Result<String, Infallible>> + Send + 'static) -> Response {
    event_stream(Body::from_stream(chunks))
}

impl Rest {
    fn chunks(self) -> impl Stream<Item = Result<String, Infallible>> + Send + 'static {
        futures_util::stream::unfold(self, async |mut rest| {
            let text = rest.next().await?;
            Some((Ok(text), rest))
        })
    }

    async fn next(&mut self) -> Option<String> {
        if let Some(message) = self.first.take() {
            return Some(event(&message));
        }
        let is_live = self.serving.is_some() || self.answer.is_none();
        tokio::select! {
            biased;
            message = self.messages.recv() => match (message, self.serving.take(), self.answer.take()) {
                (Some(message), serving, answer) => {
                    (self.serving, self.answer) = (serving, answer);
                    Some(event(&message))
                }
                // Nobody can say anything more but the answer.
                (None, _, Some(answer)) => Some(event(&answer)),
                (None, Some(serving), None) => Some(event(&serving.await.ok()??.1)),
                (None, None, None) => None,
            },
            () = sleep(KEEP_ALIVE), if is_live => Some(": still here\n\n".to_owned()),
        }
    }
}

fn event(message: &Line) -> String {
    format!("event: message\ndata: {}\n\n", message.as_str())
}

/// The status of an answer that is sent as a whole. In the earlier era, only the body says what went wrong.
fn status(era: Era, outcome: &Result<Reply, RpcError>) -> StatusCode {
    match (era, outcome) {
        (Era::Legacy, _) | (_, Ok(_)) => StatusCode::OK,
        (Era::Modern, Err(error)) => match error.code {
            rpc::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            rpc::HEADER_MISMATCH | rpc::MISSING_CAPABILITY | rpc::UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        },
    }
}

pub(super) fn failure(status: StatusCode, id: &Value, error: RpcError) -> Response {
    typed(status, "application/json", rpc::answer(id, Err(error)).into_string())
}
