//! What servers say to nobody in particular, told to those who want to hear it.

use std::{collections::HashSet, sync::Arc};

use futures_util::{StreamExt as _, stream};
use pml_wire::Line;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use super::super::{
    gateway::Frontend,
    rpc::{self, INVALID_REQUEST},
    session::{MAX_WATCHED, Scope, Session, level},
    surface::unknown_method,
};
use crate::{
    broker::Resource,
    events::{Body, Event, Listener},
    shown,
    upstream::{RpcError, Watch},
};

const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
/// Resources that are asked for at the same time.
const WATCHES: usize = 16;

/// What is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wanted {
    tools: bool,
    prompts: bool,
    resources: bool,
}

impl Frontend {
    /// Tells a client of the earlier era what changes, once its session has begun, until what is returned is dropped or
    /// another stream takes its place.
    pub(in super::super) fn follow_news(&self, session: &Arc<Session>, outlet: mpsc::Sender<Line>) -> DropGuard {
        let end = session.replace_stream();
        if self.passes_through() {
            let (mut news, session, end) = (self.bus.listen(), Arc::clone(session), end.clone());
            let mut unknown = self.unknown_names();
            self.tasks.spawn(async move {
                let everything = Wanted { tools: true, prompts: true, resources: true };
                let tell = |message: (&str, Value)| drop(outlet.try_send(rpc::notification(message.0, message.1)));
                let work = async {
                    session.initialized.cancelled().await;
                    while let Some((event, is_lost)) = next(&mut news).await {
                        if is_lost {
                            all_changed(everything, session.watched()).into_iter().for_each(tell);
                        }
                        log(&event, &session).into_iter().for_each(tell);
                        message(&event, everything, &mut unknown, |server, uri| session.watches(server, uri))
                            .into_iter()
                            .for_each(tell);
                    }
                };
                tokio::select! {
                    () = work => {}
                    () = end.cancelled() => {}
                }
            });
        }
        end.drop_guard()
    }

    fn unknown_names(&self) -> HashSet<String> {
        self.broker.not_ready().into_iter().collect()
    }

    /// Tells a client of the new era what changes, for as long as its request goes on.
    pub(in super::super) async fn listen(
        self: &Arc<Self>,
        params: &Map<String, Value>,
        scope: &Scope,
    ) -> Result<Value, RpcError> {
        if !self.passes_through() {
            return Err(unknown_method("subscriptions/listen")); // nothing here changes
        }
        let asked = params.get("notifications").cloned().unwrap_or_default();
        let is_asked = |key: &str| asked[key] == true;
        let wanted = Wanted {
            tools: is_asked("toolsListChanged"),
            prompts: is_asked("promptsListChanged"),
            resources: is_asked("resourcesListChanged"),
        };
        if !scope.streams {
            return Err(rpc::error(INVALID_REQUEST, "a subscription needs a client that accepts text/event-stream"));
        }
        // From now on, so that nothing is missed while resources are being watched.
        let mut news = self.bus.listen();
        let mut unknown = self.unknown_names();
        let uris = asked["resourceSubscriptions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut uris: Vec<_> = uris.take(MAX_WATCHED).map(str::to_owned).collect();
        uris.sort();
        uris.dedup();
        let watched: Vec<(String, Resource, Watch)> = stream::iter(uris)
            .map(|uri| async move {
                // What cannot be watched is not among what is acknowledged.
                let (resource, watch) = self.watch(&uri, scope).await.ok()?;
                Some((uri, resource, watch))
            })
            .buffered(WATCHES)
            .filter_map(std::future::ready)
            .collect()
            .await;
        let uris: Vec<_> = watched.iter().map(|(uri, ..)| uri.clone()).collect();
        let watches = |server: &str, uri: &str| -> Vec<String> {
            let is_it = |resource: &Resource| resource.server.settings().name == server && resource.uri == uri;
            watched.iter().filter(|(_, resource, _)| is_it(resource)).map(|(address, ..)| address.clone()).collect()
        };
        let mut accepted = Map::new();
        for (key, is_wanted) in [
            ("toolsListChanged", wanted.tools),
            ("promptsListChanged", wanted.prompts),
            ("resourcesListChanged", wanted.resources),
        ] {
            if is_wanted {
                accepted.insert(key.to_owned(), true.into());
            }
        }
        if !uris.is_empty() {
            accepted.insert("resourceSubscriptions".to_owned(), uris.iter().cloned().collect());
        }
        let id = json!({ SUBSCRIPTION_KEY: scope.id });
        let tell = |(method, mut params): (&str, Value)| {
            params["_meta"] = id.clone();
            scope.notify(method, params);
        };
        tell(("notifications/subscriptions/acknowledged", json!({ "notifications": accepted })));
        while let Some((event, is_lost)) = next(&mut news).await {
            if is_lost {
                all_changed(wanted, uris.iter().cloned()).into_iter().for_each(tell);
            }
            message(&event, wanted, &mut unknown, watches).into_iter().for_each(tell);
        }
        Ok(json!({ "_meta": id }))
    }
}

/// The next event, and whether some before it were missed.
async fn next(news: &mut Listener) -> Option<(Arc<Event>, bool)> {
    let before = news.lost();
    let event = news.next().await?;
    Some((event, news.lost() > before))
}

/// A log line that belongs to no request, if the client wants to hear it.
fn log(event: &Event, session: &Session) -> Option<(&'static str, Value)> {
    let Body::Log { server, level: severity, logger, data } = &event.body else { return None };
    let least = session.log_level()?;
    let is_wanted = level(severity).is_none_or(|severity| severity >= least);
    let logger = logger.as_deref().unwrap_or(server);
    is_wanted.then(|| {
        let mut params = json!({ "level": severity, "logger": logger, "data": data });
        shown::clean(&mut params);
        ("notifications/message", params)
    })
}

/// What a client is told of an event. `unknown` are the servers whose tools it has not been able to see, `watches` gives
/// the addresses by which it watches a resource of a server.
fn message(
    event: &Event,
    wanted: Wanted,
    unknown: &mut HashSet<String>,
    watches: impl Fn(&str, &str) -> Vec<String>,
) -> Vec<(&'static str, Value)> {
    let tools = Wanted { prompts: false, resources: false, ..wanted };
    match &event.body {
        // A server that was known from earlier has nothing new.
        Body::ToolsDiscovered { server, .. } if unknown.remove(server) => all_changed(tools, []),
        Body::ToolsRefreshed { added, removed, changed, .. }
            if !(added.is_empty() && removed.is_empty() && changed.is_empty()) =>
        {
            all_changed(tools, [])
        }
        Body::ServersChanged { added, .. } => {
            unknown.extend(added.iter().cloned());
            all_changed(wanted, [])
        }
        Body::PromptsChanged { .. } => all_changed(Wanted { tools: false, resources: false, ..wanted }, []),
        Body::ResourcesChanged { .. } => all_changed(Wanted { tools: false, prompts: false, ..wanted }, []),
        Body::ResourceUpdated { server, uri } => all_changed(Wanted::default(), watches(server, uri)),
        _ => Vec::new(),
    }
}

fn all_changed(wanted: Wanted, uris: impl IntoIterator<Item = String>) -> Vec<(&'static str, Value)> {
    let lists = [(wanted.tools, TOOLS), (wanted.prompts, PROMPTS), (wanted.resources, RESOURCES)];
    let lists = lists.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, method)| (method, json!({})));
    lists.chain(uris.into_iter().map(|uri| (UPDATED, json!({ "uri": uri })))).collect()
}

const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const RESOURCES: &str = "notifications/resources/list_changed";
const UPDATED: &str = "notifications/resources/updated";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_hear_what_they_want_and_nothing_twice() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let refreshed = |added: &[&str]| Body::ToolsRefreshed {
            server: "a".to_owned(),
            added: names(added),
            removed: Vec::new(),
            changed: Vec::new(),
            unchanged: 1,
        };
        let discovered =
            |server: &str| Body::ToolsDiscovered { server: server.to_owned(), count: 0, names: Vec::new() };
        let everything = Wanted { tools: true, prompts: true, resources: true };
        let mut unknown = HashSet::from(["new".to_owned()]);
        let server = || "a".to_owned();
        let table = [
            (discovered("new"), everything, &[TOOLS][..]),
            (discovered("new"), everything, &[]),
            (discovered("old"), everything, &[]),
            (refreshed(&[]), everything, &[]),
            (refreshed(&["x"]), everything, &[TOOLS]),
            (refreshed(&["x"]), Wanted::default(), &[]),
            (Body::PromptsChanged { server: server() }, everything, &[PROMPTS]),
            (Body::ResourcesChanged { server: server() }, everything, &[RESOURCES]),
            (Body::ResourceUpdated { server: server(), uri: "watched".to_owned() }, Wanted::default(), &[UPDATED]),
            (Body::ResourceUpdated { server: server(), uri: "other".to_owned() }, everything, &[]),
            (Body::ResourceUpdated { server: "evil".to_owned(), uri: "watched".to_owned() }, everything, &[]),
            (
                Body::ServersChanged { added: names(&["later"]), removed: Vec::new(), changed: Vec::new() },
                everything,
                &[TOOLS, PROMPTS, RESOURCES],
            ),
            (discovered("later"), everything, &[TOOLS]),
        ];
        for (body, wanted, expected) in table {
            let event = Event { ts: 0, correlation_id: String::new(), body };
            let watches = |server: &str, uri: &str| match (server, uri) {
                ("a", "watched") => vec!["pml:a:watched".to_owned()],
                _ => Vec::new(),
            };
            let told: Vec<_> =
                message(&event, wanted, &mut unknown, watches).into_iter().map(|(method, _)| method).collect();
            assert_eq!(told, expected, "{:?}", event.body);
        }
    }
}
