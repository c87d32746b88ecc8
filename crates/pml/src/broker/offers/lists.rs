//! What servers have listed.
//!
//! A list is remembered until the server says that it has changed, or is connected anew, so that finding out whose a resource is
//! does not mean asking everybody each time; and nobody waits for a server that hangs unless it may be the one that is meant.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::timeout;

use super::super::door::Broker;
use crate::upstream::{Kind, Upstream};

/// How long a list waits for one server.
const PATIENCE: Duration = Duration::from_secs(20);

/// What one server has of a kind.
pub type Items = Arc<Vec<Value>>;

/// What servers have listed the last time, by name and kind.
#[derive(Debug, Default)]
pub(in super::super) struct Lists {
    known: Mutex<HashMap<(String, Kind), CachedList>>,
}

/// One list of a server.
#[derive(Clone, Debug)]
struct CachedList {
    /// The server, and the edition that it was at when it was asked.
    server: u64,
    edition: u64,
    items: Items,
}

impl Lists {
    fn of(&self, server: &Upstream, kind: Kind) -> Option<CachedList> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&(server.settings().name.clone(), kind))?;
        // Another server may have the name now.
        (known.server == server.id()).then(|| known.clone())
    }

    fn keep(&self, server: &Upstream, kind: Kind, edition: u64, items: &Items) {
        let entry = CachedList { server: server.id(), edition, items: Arc::clone(items) };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert((server.settings().name.clone(), kind), entry);
    }

    /// What a server listed the last time, though that may have changed.
    pub(super) fn last(&self, server: &Upstream, kind: Kind) -> Items {
        self.of(server, kind).map(|known| known.items).unwrap_or_default()
    }
}

impl Broker {
    /// What each server has of a kind. One that does not answer has nothing, for now.
    pub async fn lists_of(&self, kind: Kind) -> (Vec<Upstream>, Vec<Items>) {
        let asks = self.capable(kind).into_iter().map(|server| async move {
            let items = self.list_of(&server, kind).await?;
            Some((server, items))
        });
        join_all(asks).await.into_iter().flatten().unzip()
    }

    /// The same of these servers, with what they listed the last time for those that do not answer.
    pub(super) async fn current_or_last(&self, servers: &[Upstream], kind: Kind) -> Vec<Items> {
        let lists = servers.iter().map(|server| async move {
            let current = self.list_of(server, kind).await;
            current.unwrap_or_else(|| self.lists.last(server, kind))
        });
        join_all(lists).await
    }

    /// What one server has of a kind, from what is known or from itself.
    pub(super) async fn list_of(&self, server: &Upstream, kind: Kind) -> Option<Items> {
        // Looked at first: what changes while the server answers makes the answer old.
        let edition = server.edition(kind);
        if let Some(known) = self.lists.of(server, kind).filter(|known| known.edition == edition) {
            return Some(known.items);
        }
        let items = match timeout(PATIENCE, server.list(kind)).await {
            Ok(Ok(items)) => Arc::new(items),
            Ok(Err(failure)) => {
                tracing::warn!(server = server.settings().name, ?kind, "not listed: {}", failure.message);
                return None;
            }
            Err(_) => return None,
        };
        self.lists.keep(server, kind, edition, &items);
        Some(items)
    }

    /// The servers that say they have something of a kind, or have not said yet. Not those of which nothing may be
    /// called: what is kept from a client is kept whole.
    pub fn capable(&self, kind: Kind) -> Vec<Upstream> {
        let capability = match kind {
            Kind::Prompts => "prompts",
            Kind::Resources | Kind::ResourceTemplates => "resources",
        };
        let (snapshot, rules) = (self.snapshot(), self.rules());
        let mut servers = self.servers.all();
        servers.retain(|server| {
            let says = server
                .declared()
                .is_none_or(|declared| declared.capabilities.get(capability).is_some_and(|it| !it.is_null()));
            let mut tools = snapshot.listing(&server.settings().name).into_iter().flat_map(|it| it.tools.values());
            let name = &server.settings().name;
            let is_denied = tools.clone().next().is_some()
                && !tools.any(|tool| self.permits(&tool.id))
                && !rules.policy.names_subject_of(name);
            says && !is_denied && self.shows_server(name)
        });
        servers
    }
}
