//! The one table of routes.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, sync::atomic::Ordering};

use axum::{
    Extension, Router,
    extract::{
        ConnectInfo, Query, RawPathParams, Request,
        rejection::{QueryRejection, RawPathParamsRejection},
    },
    http::{Method, StatusCode, header},
    middleware::{self, Next},
    response::Response,
    routing::{MethodFilter, get, on},
};
use futures_util::future::BoxFuture;
use pml_wire::hub::Code;

use super::{
    super::{service::Hub, store::Permission},
    call::Call,
    capabilities, document, health, ingest, model,
    problem::{Problem, refused},
    traces,
};
use crate::web::{Visitor, is_head_too_large, typed};

/// What is served at one path for one method.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) permission: Permission,
    pub(super) summary: &'static str,
    /// Parts of the query, with what they mean.
    pub(super) query: &'static [(&'static str, &'static str)],
    /// The name of the schema of the body, if there is one, and of the answer.
    pub(super) body: Option<&'static str>,
    pub(super) answer: &'static str,
    handler: Handler,
}

type Handler = fn(Call) -> BoxFuture<'static, Result<Response, Problem>>;

const FILTER: &[(&str, &str)] = &[
    ("limit", "most traces of a page; 50, at most 1000"),
    ("cursor", "`next` of the page before"),
    ("after", "`end` of an earlier page: what was stored since, in that order"),
    ("failed", "`true`: only executions that failed"),
    ("tool", "only executions with a call like this, such as `github:*`"),
    ("since", "only executions that began then or later, in RFC 3339"),
    ("before", "only executions that began earlier, in RFC 3339"),
    ("client", "only executions of clients or callers whose name contains this"),
    ("intent", "only executions whose intent contains this"),
    ("capability", "only executions of the capability with this id"),
];

/// Those of [`FILTER`] that are about pages.
const PAGING: usize = 3;

/// Everything below `/api` but the document itself.
#[rustfmt::skip]
pub(super) fn table() -> Vec<Route> {
    use Permission::{Admin, Ingest, Read};
    let route = |method, path, permission, summary, query, body, answer, handler| {
        Route { method, path, permission, summary, query, body, answer, handler }
    };
    vec![
        route(Method::POST, "/api/traces", Ingest, "Stores traces, each for itself.", &[],
            Some("IngestRequest"), "IngestReply", |call| Box::pin(ingest::post(call))),
        route(Method::GET, "/api/traces", Read, "Lists traces, the newest first.", FILTER,
            None, "TraceList", |call| Box::pin(traces::list(call))),
        route(Method::GET, "/api/traces/sample", Read, "Draws traces by their priority; of those that are 8 MB together, `left` says how many more were drawn.",
            &[("n", "how many; 32, at most 256"), ("alpha", "the power of the priority; 0.6"), ("seed", "draws the same again")],
            None, "Sample", |call| Box::pin(traces::sample(call))),
        route(Method::GET, "/api/traces/find", Read, "Finds traces by the beginning of their ids.",
            &[("prefix", "the beginning")], None, "Ids", |call| Box::pin(traces::find(call))),
        route(Method::GET, "/api/traces/{id}", Read, "One trace.", &[],
            None, "Trace", |call| Box::pin(traces::get(call))),
        route(Method::DELETE, "/api/traces/{id}", Admin, "Deletes a trace.", &[],
            None, "Deleted", |call| Box::pin(traces::delete(call))),
        route(Method::GET, "/api/stats", Read, "Counts traces and tools.", &FILTER[PAGING..],
            None, "StatsReply", |call| Box::pin(traces::stats(call))),
        route(Method::POST, "/api/capabilities", Ingest, "Stores a capability, or a new version of it.", &[],
            Some("NewCapability"), "Capability", |call| Box::pin(capabilities::put(call))),
        route(Method::GET, "/api/capabilities", Read, "Finds capabilities by words.",
            &[("text", "words that all occur"), ("limit", "most capabilities; 50, at most 500"), ("offset", "how many to leave out; `next` of the page before")],
            None, "CapabilityList", |call| Box::pin(capabilities::list(call))),
        route(Method::GET, "/api/capabilities/{which}", Read, "One capability, by id or by a name of 4 or 5 parts.", &[],
            None, "Capability", |call| Box::pin(capabilities::get(call))),
        route(Method::GET, "/api/capabilities/{which}/versions", Read, "Versions of a capability, the newest first.",
            &[("offset", "`next` of the page before")],
            None, "VersionList", |call| Box::pin(capabilities::versions(call))),
        route(Method::PATCH, "/api/capabilities/{which}", Ingest, "Changes what is said about a capability.", &[],
            Some("CapabilityChange"), "Capability", |call| Box::pin(capabilities::change(call))),
        route(Method::POST, "/api/capabilities/{which}/name", Ingest, "Renames a capability that this key has put, or with admin any; the old name still leads to it.", &[],
            Some("CapabilityName"), "Capability", |call| Box::pin(capabilities::rename(call))),
        route(Method::DELETE, "/api/capabilities/{which}", Ingest, "Deletes a capability that this key has put, or with admin any, with all of its versions.", &[],
            None, "Deleted", |call| Box::pin(capabilities::delete(call))),
        route(Method::GET, "/api/registry", Read, "All capabilities that the key may see, without their code, and those that were deleted; with an ETag.", &[],
            None, "Registry", |call| Box::pin(capabilities::registry(call))),
        route(Method::GET, "/api/model", Read, "What was learned from the traces of the project, for its gateways; with an ETag.", &[],
            None, "Model", |call| Box::pin(model::get(call))),
        route(Method::PUT, "/api/model/contribution", Ingest, "Stores the result types and weights that a gateway has learned.", &[],
            Some("Contribution"), "Stored", |call| Box::pin(model::contribute(call))),
        route(Method::DELETE, "/api/model/contribution", Admin, "Forgets the result types and weights of all gateways.", &[],
            None, "Forgotten", |call| Box::pin(model::forget(call))),
        route(Method::GET, "/api/metrics", Admin, "What the hub has done, for Prometheus.", &[],
            None, "Text", |call| Box::pin(health::metrics(call))),
    ]
}

/// The routes below `/api`.
pub(in super::super) fn routes(hub: &Arc<Hub>) -> Router {
    below_api(hub).layer(middleware::from_fn(with_sound_head))
}

fn below_api(hub: &Arc<Hub>) -> Router {
    let mut router = Router::new().route("/api/openapi.json", get(async || document::serve()));
    for Route { method, path, permission, handler, .. } in table() {
        let hub = Arc::clone(hub);
        let serve = move |parts: Result<RawPathParams, RawPathParamsRejection>,
                          query: Result<Query<Vec<(String, String)>>, QueryRejection>,
                          ConnectInfo(peer): ConnectInfo<SocketAddr>,
                          visitor: Extension<Arc<Visitor>>,
                          request: Request| {
            let hub = Arc::clone(&hub);
            async move {
                let read = parts_of(parts).and_then(|path| Ok((path, query_of(query)?)));
                match read {
                    Ok((path, query)) => {
                        let entered = Entered { path, query, peer, visitor: visitor.0 };
                        entered.serve(hub, request, permission, handler).await
                    }
                    Err(problem) => problem.into_response(),
                }
            }
        };
        let method = MethodFilter::try_from(method).unwrap_or(MethodFilter::GET);
        router = router.route(path, on(method, serve));
    }
    router.method_not_allowed_fallback(not_allowed)
}

/// The routes of a hub that is nothing else.
pub(in super::super) fn routes_of_hub(hub: &Arc<Hub>) -> Router {
    let ready = Arc::clone(hub);
    below_api(hub)
        .route("/healthz", get(health::live))
        .route("/readyz", get(move || health::ready(ready)))
        .method_not_allowed_fallback(not_allowed)
        .fallback(async || {
            Problem::new(Code::NotFound, "there is /api/openapi.json, /healthz and /readyz").into_response()
        })
        .layer(middleware::from_fn(with_sound_head))
}

/// The parts of a path that a route leaves open.
fn parts_of(parts: Result<RawPathParams, RawPathParamsRejection>) -> Result<HashMap<String, String>, Problem> {
    let parts = parts.map_err(|_| Problem::invalid("the path is no UTF-8"))?;
    Ok(parts.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The parts of a query. Of a part that is there twice nobody knows which one is meant.
fn query_of(query: Result<Query<Vec<(String, String)>>, QueryRejection>) -> Result<HashMap<String, String>, Problem> {
    let Query(query) = query.map_err(|_| Problem::invalid("the query cannot be read"))?;
    let mut parts = HashMap::with_capacity(query.len());
    for (name, value) in query {
        if parts.contains_key(&name) {
            return Err(Problem::invalid(format!("`{name}` is there twice")));
        }
        parts.insert(name, value);
    }
    Ok(parts)
}

async fn not_allowed() -> Response {
    Problem::new(Code::MethodNotAllowed, "there is nothing here for this method; /api/openapi.json says what there is")
        .into_response()
}

/// A request says once whom it is for (RFC 9112, section 3.2): otherwise a proxy may understand it differently. Its head is as
/// small as that of any request, however it arrives.
async fn with_sound_head(request: Request, next: Next) -> Response {
    if is_head_too_large(&request) {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        let (kind, body) = refused(status);
        return typed(status, kind, body);
    }
    match request.headers().get_all(header::HOST).iter().count() {
        1 => next.run(request).await,
        _ => Problem::invalid("a request has one `Host` header").into_response(),
    }
}

/// A request before anybody knows whose it is.
struct Entered {
    path: HashMap<String, String>,
    query: HashMap<String, String>,
    peer: SocketAddr,
    visitor: Arc<Visitor>,
}

impl Entered {
    async fn serve(self, hub: Arc<Hub>, request: Request, permission: Permission, handler: Handler) -> Response {
        let Entered { path, query, peer, visitor } = self;
        let (head, body) = request.into_parts();
        let mut counts = hub.counts("");
        let served = match hub.admit(&head.headers, peer.ip(), permission).await {
            Ok(caller) => {
                counts = hub.counts(caller.key.scope.org());
                counts.requests.fetch_add(1, Ordering::Relaxed);
                visitor.let_in();
                let busy = visitor.begin();
                let call =
                    Call { hub: Arc::clone(&hub), caller, path, query, headers: head.headers, body: body.into() };
                handler(call).await.map(|response| busy.until_answered(response))
            }
            Err(problem) => Err(problem),
        };
        served.unwrap_or_else(|problem| {
            let count = match problem.code {
                Code::Unavailable | Code::Internal => &counts.failed,
                _ => &counts.refused,
            };
            count.fetch_add(1, Ordering::Relaxed);
            problem.into_response()
        })
    }
}
