//! What servers say to nobody in particular, told to the clients that want to hear it.

use std::{collections::HashSet, sync::Arc};

use futures_util::{StreamExt as _, stream};
use pml_wire::Line;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use super::super::{
    bulletin::{Bulletin, ListSubscriptions},
    gateway::Frontend,
    rpc::{self, INVALID_REQUEST},
    session::{Scope, Session, level},
    surface::unknown_method,
    watches::{MAX_WATCHED, Watches},
};
use crate::{
    broker::Broker,
    events::{Body, Event},
    shown,
    upstream::RpcError,
};

const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
/// Resources that are asked for at the same time.
const WATCHES: usize = 16;

impl Frontend {
    /// Tells a client of the earlier era what changes and what servers log, once its session has begun, until what is
    /// returned is dropped or another stream takes its place.
    pub(in super::super) fn follow_news(&self, session: &Arc<Session>, outlet: mpsc::Sender<Line>) -> DropGuard {
        let end = session.replace_stream();
        if self.announces() {
            let bulletin = self.bulletin(session);
            let (mut telemetry, session, end) = (self.shared.bus.listen(), Arc::clone(session), end.clone());
            let broker = Arc::clone(&self.broker);
            self.shared.tasks.spawn(async move {
                let work = async {
                    session.initialized.cancelled().await;
                    loop {
                        tokio::select! {
                            biased;
                            is_there = bulletin.tell(&outlet, None) => match is_there {
                                true => {}
                                false => return,
                            },
                            event = telemetry.next() => match event {
                                // A client that is slow loses log lines.
                                Some(event) => {
                                    if let Some(line) = log(&event, &session, &broker) {
                                        let _ = outlet.try_send(line);
                                    }
                                }
                                None => return,
                            },
                        }
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

    /// What a client of the earlier era is still to be told about changes.
    pub(in super::super) fn bulletin(&self, session: &Session) -> Arc<Bulletin> {
        let everything = ListSubscriptions { tools: true, prompts: true, resources: true };
        Arc::clone(session.bulletin.get_or_init(|| self.begin_bulletin(everything, &session.watches)))
    }

    fn begin_bulletin(&self, wanted: ListSubscriptions, watches: &Arc<Watches>) -> Arc<Bulletin> {
        let unknown: HashSet<_> = self.broker.not_ready().into_iter().collect();
        let bulletin = Bulletin::new(wanted, Arc::clone(watches), unknown);
        self.shared.bus.follow(&bulletin);
        bulletin
    }

    /// Tells a client of the new era what changes, for as long as its request goes on.
    pub(in super::super) async fn listen(
        self: &Arc<Self>,
        params: &Map<String, Value>,
        scope: &Scope,
    ) -> Result<Value, RpcError> {
        if !self.announces() {
            return Err(unknown_method("subscriptions/listen")); // nothing here changes
        }
        let asked = params.get("notifications").cloned().unwrap_or_default();
        let is_asked = |key: &str| asked[key] == true;
        let wanted = ListSubscriptions {
            tools: is_asked("toolsListChanged"),
            prompts: is_asked("promptsListChanged"),
            resources: is_asked("resourcesListChanged"),
        };
        if !scope.streams {
            return Err(rpc::error(INVALID_REQUEST, "a subscription needs a client that accepts text/event-stream"));
        }
        let watches = Arc::<Watches>::default();
        // From now on, so that nothing is missed while servers are asked to report updates.
        let bulletin = self.begin_bulletin(wanted, &watches);
        let uris = asked["resourceSubscriptions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let uris: Vec<_> = uris.take(MAX_WATCHED).map(str::to_owned).collect();
        let watching = &watches;
        // A resource that cannot be watched is not among those that are acknowledged.
        let watched = stream::iter(uris).map(|uri| async move { self.watch(&uri, watching, scope).await.is_ok() });
        let _: Vec<bool> = watched.buffer_unordered(WATCHES).collect().await;
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
        let uris = watches.addresses();
        if !uris.is_empty() {
            accepted.insert("resourceSubscriptions".to_owned(), uris.into());
        }
        let id = json!({ SUBSCRIPTION_KEY: scope.id });
        let params = json!({ "notifications": accepted, "_meta": id });
        let acknowledged = rpc::notification("notifications/subscriptions/acknowledged", params);
        if scope.outlet.send(acknowledged).await.is_ok() {
            while bulletin.tell(&scope.outlet, Some(&id)).await {}
        }
        Ok(json!({ "_meta": id }))
    }
}

/// A log line that belongs to no request, if the client wants to hear it.
fn log(event: &Event, session: &Session, broker: &Broker) -> Option<Line> {
    let Body::Log { server, level: severity, logger, data } = &event.body else { return None };
    let least = session.log_level()?;
    let is_wanted = level(severity).is_none_or(|severity| severity >= least) && broker.shows_server(server);
    let logger = logger.as_deref().unwrap_or(server);
    is_wanted.then(|| {
        let mut params = json!({ "level": severity, "logger": logger, "data": data });
        shown::clean(&mut params);
        rpc::notification("notifications/message", params)
    })
}
