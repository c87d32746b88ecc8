//! Keeps the resource subscriptions and the log level of a server up to date, also after its session is replaced.
//!
//! One task per connection compares the wanted subscriptions with those sent to the server, and sends the difference, one
//! request after the other. [`Watch::settled`] waits for the server's response to a subscription.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    future::pending,
    sync::Arc,
    time::Duration,
};

use pml_wire::ErrorCode;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use tokio::{sync::watch, time::sleep};

use super::{
    connection::Connection,
    exchange::Request,
    failure::{Failure, Retry},
};
use crate::protocol::{Era, method};

/// Pause between the end of a subscription and the next attempt.
const RESUBSCRIBE: Duration = Duration::from_secs(5);

/// The wanted subscriptions and log level of a server, and the server's responses. Shared by its handles and its actor.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    wishes: watch::Sender<Wishes>,
    /// The server's response to each subscription, on the current connection.
    settled: watch::Sender<BTreeMap<String, Result<(), Failure>>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Wishes {
    /// The number of watchers of each resource.
    uris: BTreeMap<String, usize>,
    /// The log level.
    level: Option<String>,
}

/// A subscription to a resource, which lasts as long as this value. Changes are published on the bus.
#[derive(Debug)]
pub struct Watch {
    uri: String,
    wanted: Arc<Wanted>,
}

impl Watch {
    pub(super) fn begin(wanted: &Arc<Wanted>, uri: &str) -> Watch {
        wanted.wishes.send_modify(|wishes| *wishes.uris.entry(uri.to_owned()).or_default() += 1);
        Watch { uri: uri.to_owned(), wanted: Arc::clone(wanted) }
    }

    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Waits for the server's response to the subscription.
    pub(super) async fn settled(&self) -> Result<(), Failure> {
        let mut settled = self.wanted.settled.subscribe();
        let settled = settled.wait_for(|settled| settled.contains_key(&self.uri)).await;
        settled.ok().and_then(|settled| settled.get(&self.uri).cloned()).unwrap_or(Ok(()))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.wanted.wishes.send_modify(|wishes| {
            if let Some(count) = wishes.uris.get_mut(&self.uri) {
                *count -= 1;
                if *count == 0 {
                    wishes.uris.remove(&self.uri);
                    // The next watcher asks the server again after a refusal. An accepted subscription stays in force
                    // until the task unsubscribes.
                    self.wanted.settled.send_if_modified(|settled| {
                        let is_refused = settled.get(&self.uri).is_some_and(Result::is_err);
                        is_refused && settled.remove(&self.uri).is_some()
                    });
                }
            }
        });
    }
}

impl Wanted {
    pub(super) fn set_level(&self, level: &str) {
        self.wishes.send_modify(|wishes| wishes.level = Some(level.to_owned()));
    }

    /// The current wishes. Drops the responses to subscriptions that are no longer wanted, before anybody can want them
    /// again.
    fn current(&self, wishes: &mut watch::Receiver<Wishes>) -> Wishes {
        let now = wishes.borrow_and_update();
        self.settled.send_modify(|settled| settled.retain(|uri, _| now.uris.contains_key(uri)));
        now.clone()
    }

    fn are_settled(&self, uris: &[String]) -> bool {
        let settled = self.settled.borrow();
        uris.iter().all(|uri| settled.contains_key(uri))
    }

    /// Drops the responses of an earlier connection.
    pub(super) fn reset(&self) {
        self.settled.send_replace(BTreeMap::new());
    }
}

/// Sends the wishes to the server, for as long as the connection lasts. With `relays`, also subscribes to changes of
/// prompts and resources; `bound` is the timeout of one request.
pub(super) async fn run(connection: Arc<Connection>, wanted: Arc<Wanted>, relays: bool, bound: Duration) -> Infallible {
    match connection.version().era() {
        Era::Legacy => legacy(&connection, &wanted, bound).await,
        Era::Modern => modern(&connection, &wanted, relays, bound).await,
    }
}

/// In the legacy era each wish is a separate request, and a new session has none of them.
async fn legacy(connection: &Connection, wanted: &Wanted, bound: Duration) -> Infallible {
    let (mut wishes, mut renewals) = (wanted.wishes.subscribe(), connection.sessions());
    let mut told = Wishes::default();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut session = renewals.borrow_and_update().number;
    loop {
        let now = wanted.current(&mut wishes);
        if now.level != told.level
            && let Some(level) = &now.level
            && connection.declared.capabilities["logging"].is_object()
        {
            let request = Request::new(method::SET_LEVEL, bound);
            let request = request.with("level", Value::from(level.as_str()).to_string());
            if let Err(failure) = connection.request(&request).await {
                tracing::debug!(server = connection.server, code = %failure.code, "the level of logs is not set");
            }
        }
        for uri in known.iter().filter(|uri| !now.uris.contains_key(*uri)) {
            // The resource is no longer wanted, whatever the response.
            let _ = about(connection, method::RESOURCES_UNSUBSCRIBE, uri, bound).await;
        }
        known.retain(|uri| now.uris.contains_key(uri));
        for uri in now.uris.keys().filter(|uri| !known.contains(*uri)).cloned().collect::<Vec<_>>() {
            let answer = about(connection, method::RESOURCES_SUBSCRIBE, &uri, bound).await;
            settle(wanted, [(uri.clone(), answer.clone())]);
            if answer.is_ok() {
                known.insert(uri);
            }
        }
        told = now;
        tokio::select! {
            Ok(()) = wishes.changed() => {}
            Ok(()) = renewals.changed() => {}
            else => pending().await,
        }
        let current = renewals.borrow_and_update().number;
        if std::mem::replace(&mut session, current) != current {
            told = Wishes::default();
            known.clear();
        }
    }
}

async fn about(connection: &Connection, method: &'static str, uri: &str, bound: Duration) -> Result<(), Failure> {
    let request = Request::new(method, bound).with("uri", Value::from(uri).to_string());
    connection.request(&request).await.map(drop)
}

/// In the modern era all wishes are one long-lived request, which a changed set of wishes replaces. The old request stays
/// open until the server has acknowledged the new one, so that no change is missed.
async fn modern(connection: &Connection, wanted: &Wanted, relays: bool, bound: Duration) -> Infallible {
    let mut wishes = wanted.wishes.subscribe();
    let (mut current, mut told) = (None, Map::new());
    loop {
        let uris: Vec<String> = wanted.current(&mut wishes).uris.into_keys().collect();
        let filter = filter(connection, relays, &uris);
        if filter.is_empty() {
            current = None;
            wanted.reset();
            changed(&mut wishes).await;
            continue;
        }
        // The log level is sent with each request. A refused subscription may be wanted again.
        if current.is_none() || filter != told || !wanted.are_settled(&uris) {
            let (acknowledged, mut heard) = watch::channel(None);
            told.clone_from(&filter);
            let text = Value::Object(filter).to_string();
            let mut next = Box::pin(async move { connection.subscribe(&text, acknowledged).await });
            let agreed = tokio::select! {
                biased;
                Ok(honoured) = heard.wait_for(Option::is_some) => Ok(honoured.clone()),
                ended = &mut next => Err(ended.err().unwrap_or_else(|| Failure::protocol("the server ended it at once"))),
                () = sleep(bound) => Err(silent(bound)),
            };
            let refusal = agreed.as_ref().err().cloned();
            let honoured = agreed.map(|honoured| honoured_in(honoured.as_deref()));
            settle(
                wanted,
                uris.into_iter().map(|uri| {
                    let answer = match &honoured {
                        Ok(honoured) if honoured.contains(&uri) => Ok(()),
                        Ok(_) => Err(Failure::protocol("the server does not tell of changes of this resource")),
                        Err(failure) => Err(failure.clone()),
                    };
                    (uri, answer)
                }),
            );
            match refusal {
                // The server may only be slow to acknowledge.
                Some(failure) if failure.code == ErrorCode::ProviderTimeout => current = Some(next),
                Some(failure) => {
                    // The server does not support subscriptions after all; pml polls its lists.
                    let is_final = failure.code == ErrorCode::ToolError;
                    let pause = async { if is_final { pending().await } else { sleep(RESUBSCRIBE).await } };
                    // Forces a new request, even while the old one is open.
                    told = Map::new();
                    tokio::select! {
                        () = pause => {}
                        () = changed(&mut wishes) => {}
                    }
                    continue;
                }
                None => current = Some(next),
            }
        }
        let Some(listening) = &mut current else { continue };
        tokio::select! {
            () = changed(&mut wishes) => {}
            _ = listening => {
                current = None;
                tokio::select! {
                    () = sleep(RESUBSCRIBE) => {}
                    () = changed(&mut wishes) => {}
                }
            }
        }
    }
}

/// What a server of the modern era is asked to tell.
fn filter(connection: &Connection, relays: bool, uris: &[String]) -> Map<String, Value> {
    let tells = |what: &str| connection.declared.capabilities[what]["listChanged"].as_bool().unwrap_or(false);
    let mut filter = Map::new();
    for (what, key, is_wanted) in [
        ("tools", "toolsListChanged", true),
        ("prompts", "promptsListChanged", relays),
        ("resources", "resourcesListChanged", relays),
    ] {
        if is_wanted && tells(what) {
            filter.insert(key.to_owned(), true.into());
        }
    }
    if !uris.is_empty() {
        filter.insert("resourceSubscriptions".to_owned(), uris.into());
    }
    filter
}

fn honoured_in(notifications: Option<&RawValue>) -> BTreeSet<String> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Honoured {
        resource_subscriptions: BTreeSet<String>,
    }
    let honoured: Option<Honoured> = notifications.and_then(|raw| serde_json::from_str(raw.get()).ok());
    honoured.unwrap_or_default().resource_subscriptions
}

fn settle(wanted: &Wanted, answers: impl IntoIterator<Item = (String, Result<(), Failure>)>) {
    wanted.settled.send_modify(|settled| settled.extend(answers));
}

fn silent(bound: Duration) -> Failure {
    let message = format!("the server does not agree to the subscription within {bound:?}");
    Failure::new(ErrorCode::ProviderTimeout, message, Retry::Later)
}

/// Waits for other wishes.
async fn changed(wishes: &mut watch::Receiver<Wishes>) {
    if wishes.changed().await.is_err() {
        pending().await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_answer_to_one_watcher_is_no_answer_to_the_next() {
        let wanted = Arc::new(Wanted::default());
        let (first, second) = (Watch::begin(&wanted, "a:1"), Watch::begin(&wanted, "a:1"));
        settle(&wanted, [("a:1".to_owned(), Err(silent(Duration::ZERO)))]);
        drop(first);
        assert!(second.settled().now_or_never().unwrap().is_err());
        drop(second);
        let third = Watch::begin(&wanted, "a:1");
        assert!(third.settled().now_or_never().is_none(), "it is asked anew");
        settle(&wanted, [("a:1".to_owned(), Ok(()))]);
        assert!(third.settled().now_or_never().unwrap().is_ok());
        drop(third);
        // The server has not been told yet that nobody wants it.
        assert!(Watch::begin(&wanted, "a:1").settled().now_or_never().unwrap().is_ok());
    }
}
