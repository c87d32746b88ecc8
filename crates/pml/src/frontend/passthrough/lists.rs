//! Resources and prompts of all servers, in one list each.
//!
//! What a server has listed is remembered until it says that it has changed, or is connected anew, so that finding
//! out whose a resource is does not mean asking everybody each time; and nobody waits for a server that hangs unless
//! it may be the one that is meant. What the policy denies is not listed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{
    super::{gateway::Frontend, surface::one_page},
    addresses::{listed, listed_template},
    names::{BETWEEN, distinct, prefixed},
    resources::offers,
};
use crate::{
    broker::Subject,
    catalog::Tool,
    events::Body,
    shown,
    upstream::{Kind, RpcError, Upstream},
};

/// How long a list waits for one server.
const PATIENCE: Duration = Duration::from_secs(20);

const ALL: [Kind; 3] = [Kind::Resources, Kind::ResourceTemplates, Kind::Prompts];

/// What one server has of a kind.
pub(super) type Items = Arc<Vec<Value>>;

/// What servers have listed.
#[derive(Debug, Default)]
pub(in super::super) struct Lists {
    known: Mutex<HashMap<String, Known>>,
}

/// What one server has listed.
#[derive(Debug, Default)]
struct Known {
    resources: Slot,
    templates: Slot,
    prompts: Slot,
    /// Counts what was forgotten: a list that was asked for before that is not kept.
    version: u64,
}

/// One list of a server.
#[derive(Debug, Default)]
struct Slot {
    /// What it listed the last time; `None` if it was never asked.
    last: Option<Items>,
    /// Is that still so, as far as anybody knows?
    is_current: bool,
}

impl Slot {
    fn current(&self) -> Option<Items> {
        self.last.clone().filter(|_| self.is_current)
    }
}

impl Known {
    fn of(&mut self, kind: Kind) -> &mut Slot {
        match kind {
            Kind::Resources => &mut self.resources,
            Kind::ResourceTemplates => &mut self.templates,
            Kind::Prompts => &mut self.prompts,
        }
    }
}

impl Lists {
    fn with<T>(&self, server: &str, look: impl FnOnce(&mut Known) -> T) -> T {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        look(known.entry(server.to_owned()).or_default())
    }

    fn forget(&self, server: &str, kinds: &[Kind]) {
        self.with(server, |known| {
            known.version += 1;
            kinds.iter().for_each(|kind| known.of(*kind).is_current = false);
        });
    }

    /// What a server listed the last time, though that may have changed.
    pub(super) fn last(&self, server: &str, kind: Kind) -> Option<Items> {
        self.with(server, |known| known.of(kind).last.clone())
    }

    /// Forgets what is not so any more.
    fn hear(&self, body: &Body) {
        match body {
            Body::PromptsChanged { server } => self.forget(server, &[Kind::Prompts]),
            Body::ResourcesChanged { server } => self.forget(server, &[Kind::Resources, Kind::ResourceTemplates]),
            Body::Disconnected { server, .. } | Body::Reconnected { server, .. } => self.forget(server, &ALL),
            Body::ServersChanged { added, removed, changed } => {
                // Another server has the name now.
                for server in added.iter().chain(removed).chain(changed) {
                    self.with(server, |known| *known = Known { version: known.version + 1, ..Known::default() });
                }
            }
            _ => {}
        }
    }

    fn forget_everything(&self) {
        let servers: Vec<_> = self.known.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        servers.iter().for_each(|server| self.forget(server, &ALL));
    }
}

impl Frontend {
    /// Keeps what servers have listed true, until everything ends.
    pub(in super::super) fn follow_lists(self: &Arc<Self>) {
        let (frontend, mut news) = (Arc::clone(self), self.bus.listen());
        self.tasks.spawn(async move {
            let work = async {
                let mut lost = 0;
                while let Some(event) = news.next().await {
                    frontend.lists.hear(&event.body);
                    if news.lost() > lost {
                        lost = news.lost();
                        frontend.lists.forget_everything();
                    }
                }
            };
            tokio::select! {
                () = work => {}
                () = frontend.runs.ended() => {}
            }
        });
    }

    /// Everything of a kind that the servers have, each under the name that clients see.
    pub(super) async fn list_passed(&self, kind: Kind, params: &Map<String, Value>) -> Result<Value, RpcError> {
        one_page(params)?;
        Ok(match kind {
            Kind::Prompts => json!({ "prompts": self.listed_prompts().await }),
            Kind::Resources => json!({ "resources": self.listed_resources(kind, "uri").await }),
            Kind::ResourceTemplates => {
                json!({ "resourceTemplates": self.listed_resources(kind, "uriTemplate").await })
            }
        })
    }

    /// All resources or all templates. An address that is not clearly of one server names its server, and so does the
    /// title that a person sees.
    async fn listed_resources(&self, kind: Kind, key: &str) -> Vec<Value> {
        let is_only = self.capable(Kind::Resources).len() == 1;
        let (servers, lists) = self.lists_of(kind).await;
        let other = match kind == Kind::ResourceTemplates && !is_only {
            true => self.current_or_last(&servers, Kind::Resources).await,
            false => Vec::new(),
        };
        let offers = match kind {
            Kind::ResourceTemplates => offers(&servers, &other, &lists),
            _ => offers(&servers, &lists, &[]),
        };
        let mut all = Vec::new();
        for (server, items) in servers.iter().zip(&lists) {
            let server = server.settings().name.as_str();
            for item in items.iter() {
                let Value::Object(mut item) = item.clone() else { continue };
                let Some(uri) = item.get(key).and_then(Value::as_str).map(str::to_owned) else { continue };
                if !self.broker.allows_subject(&Subject::resource(server, &*uri)) {
                    continue;
                }
                shown::clean_listed(&mut item);
                let address = match kind {
                    _ if is_only => uri.clone(),
                    Kind::ResourceTemplates => listed_template(&offers, server, &uri),
                    _ => listed(&offers, server, &uri),
                };
                if address != uri {
                    let title = item.get("title").or(item.get("name")).and_then(Value::as_str).unwrap_or(&uri);
                    item.insert("title".to_owned(), format!("{title} (server {server})").into());
                    item.insert(key.to_owned(), address.into());
                }
                all.push(item.into());
            }
        }
        all
    }

    async fn current_or_last(&self, servers: &[Upstream], kind: Kind) -> Vec<Items> {
        let lists = servers.iter().map(|server| async move {
            let current = self.list_of(server, kind).await;
            current.or_else(|| self.lists.last(&server.settings().name, kind)).unwrap_or_default()
        });
        futures_util::future::join_all(lists).await
    }

    async fn listed_prompts(&self) -> Vec<Value> {
        let listed = self.named_prompts().await.into_iter().filter_map(|prompt| {
            let Value::Object(mut item) = prompt.item else { return None };
            shown::clean_listed(&mut item);
            item.insert("name".to_owned(), prompt.name.into());
            Some(item.into())
        });
        listed.collect()
    }

    /// The prompts of all servers that may be used, under the names that clients see, no two the same.
    async fn named_prompts(&self) -> Vec<NamedPrompt> {
        let (servers, lists) = self.lists_of(Kind::Prompts).await;
        let mut found: Vec<(Upstream, String, Value)> = Vec::new();
        for (server, items) in servers.iter().zip(&lists) {
            for item in items.iter() {
                let Some(own) = item["name"].as_str() else { continue };
                let name = &server.settings().name;
                let is_second = found.iter().any(|(other, prompt, _)| other.settings().name == *name && prompt == own);
                if !is_second && self.broker.allows_subject(&Subject::prompt(name, own)) {
                    found.push((server.clone(), own.to_owned(), item.clone()));
                }
            }
        }
        let ids: Vec<_> =
            found.iter().map(|(server, own, _)| (server.settings().name.as_str(), own.as_str())).collect();
        let names = distinct(&ids, self.plain_names);
        let named = names.into_iter().zip(found);
        named.map(|(name, (server, own, item))| NamedPrompt { name, server, own, item }).collect()
    }

    /// The tool of that name, once the servers that have never listed their tools have done so. A client may
    /// know it from earlier, and call it before its server has started.
    pub(super) async fn first_listed(&self, name: &str) -> Option<Arc<Tool>> {
        let mut unknown = self.broker.unknown();
        let is_named = |server: &Upstream| {
            name.strip_prefix(server.settings().name.as_str()).is_some_and(|rest| rest.starts_with(BETWEEN))
        };
        if unknown.iter().any(is_named) {
            unknown.retain(is_named);
        }
        let starts = futures_util::future::join_all(unknown.iter().map(Upstream::init));
        let _ = timeout(PATIENCE, starts).await;
        self.passed_tool(name)
    }

    /// What each server has of a kind. One that does not answer has nothing, for now.
    async fn lists_of(&self, kind: Kind) -> (Vec<Upstream>, Vec<Items>) {
        let asks = self.capable(kind).into_iter().map(|server| async move {
            let items = self.list_of(&server, kind).await?;
            Some((server, items))
        });
        futures_util::future::join_all(asks).await.into_iter().flatten().unzip()
    }

    /// What one server has of a kind, from what is known or from itself.
    pub(super) async fn list_of(&self, server: &Upstream, kind: Kind) -> Option<Items> {
        let name = &server.settings().name;
        let (known, version) = self.lists.with(name, |known| (known.of(kind).current(), known.version));
        if known.is_some() {
            return known;
        }
        let items = match timeout(PATIENCE, server.list(kind)).await {
            Ok(Ok(items)) => Arc::new(items),
            Ok(Err(failure)) => {
                tracing::warn!(server = name, ?kind, "not listed: {}", failure.message);
                return None;
            }
            Err(_) => return None,
        };
        self.lists.with(name, |known| {
            if known.version == version {
                *known.of(kind) = Slot { last: Some(Arc::clone(&items)), is_current: true };
            }
        });
        Some(items)
    }

    /// The servers that say they have something of a kind, or have not said yet. Not those of which nothing may be
    /// called: what is kept from a client is kept whole.
    pub(super) fn capable(&self, kind: Kind) -> Vec<Upstream> {
        let capability = match kind {
            Kind::Prompts => "prompts",
            Kind::Resources | Kind::ResourceTemplates => "resources",
        };
        let snapshot = self.catalog.snapshot();
        let mut servers = self.servers.all();
        servers.retain(|server| {
            let says = server
                .declared()
                .is_none_or(|declared| declared.capabilities.get(capability).is_some_and(|it| !it.is_null()));
            let mut tools = snapshot.listing(&server.settings().name).into_iter().flat_map(|it| it.tools.values());
            let is_denied = tools.clone().next().is_some() && !tools.any(|tool| self.broker.permits(&tool.id));
            says && !is_denied
        });
        servers
    }

    /// The server that has a prompt, and what it calls it.
    pub(super) async fn find_prompt(&self, name: &str) -> Option<(Upstream, String)> {
        let named = self.named_prompts().await;
        if let Some(prompt) = named.iter().find(|prompt| prompt.name == name) {
            return Some((prompt.server.clone(), prompt.own.clone()));
        }
        // The long form is understood as well, also of a prompt that the policy denies: the broker says so, and writes
        // it down.
        let (servers, lists) = self.lists_of(Kind::Prompts).await;
        let mut same = servers.iter().zip(&lists).flat_map(|(server, items)| {
            let own = items.iter().filter_map(|item| item["name"].as_str());
            let is_it = move |own: &&str| prefixed(&server.settings().name, own) == name;
            own.filter(is_it).map(move |own| (server.clone(), own.to_owned()))
        });
        let first = same.next()?;
        same.all(|(server, own)| server.settings().name == first.0.settings().name && own == first.1).then_some(first)
    }
}

/// A prompt, as clients see it.
struct NamedPrompt {
    name: String,
    server: Upstream,
    /// What the server calls it.
    own: String,
    item: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_is_forgotten() {
        let lists = Lists::default();
        let set = |server: &str| {
            let slot = || Slot { last: Some(Items::default()), is_current: true };
            lists.with(server, |known| ALL.iter().for_each(|kind| *known.of(*kind) = slot()));
        };
        let is_known = |server: &str, kind: Kind| lists.with(server, |known| known.of(kind).current().is_some());
        set("a");
        set("b");
        lists.hear(&Body::PromptsChanged { server: "a".to_owned() });
        assert!(!is_known("a", Kind::Prompts) && is_known("a", Kind::Resources) && is_known("b", Kind::Prompts));
        lists.hear(&Body::ResourcesChanged { server: "b".to_owned() });
        assert!(!is_known("b", Kind::ResourceTemplates) && is_known("b", Kind::Prompts));
        set("a");
        lists.hear(&Body::Disconnected { server: "a".to_owned(), reason: String::new() });
        assert!(!is_known("a", Kind::Resources));
        lists.forget_everything();
        assert!(!is_known("b", Kind::Prompts));
        assert!(lists.last("b", Kind::Prompts).is_some(), "what it had the last time is still known");
        lists.hear(&Body::ServersChanged { added: Vec::new(), removed: vec!["b".to_owned()], changed: Vec::new() });
        assert!(lists.last("b", Kind::Prompts).is_none(), "it is another server");
    }
}
