//! Resources and prompts of all servers, in one list each.
//!
//! What a server has listed is remembered until it says that it has changed, or is connected anew, so that finding
//! out whose a resource is does not mean asking everybody each time; and nobody waits for a server that hangs unless
//! it may be the one that is meant.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{
    super::{gateway::Frontend, surface::one_page},
    names::{BETWEEN, is_fit, prefixed},
};
use crate::{
    catalog::Tool,
    events::Body,
    shown,
    upstream::{Kind, RpcError, Upstream},
};

/// How long a list waits for one server.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long others may take to say that they have it too, once one has.
const OTHERS: Duration = Duration::from_millis(200);

/// What one server has of a kind.
type Items = Arc<Vec<Value>>;

/// What servers have listed.
#[derive(Debug, Default)]
pub(in super::super) struct Lists {
    known: Mutex<HashMap<String, Known>>,
}

/// What one server has listed; `None` of what it was not asked for.
#[derive(Debug, Default)]
struct Known {
    resources: Option<Items>,
    templates: Option<Items>,
    prompts: Option<Items>,
    /// Counts what was forgotten: a list that was asked for before that is not kept.
    version: u64,
}

impl Known {
    fn of(&mut self, kind: Kind) -> &mut Option<Items> {
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
            kinds.iter().for_each(|kind| *known.of(*kind) = None);
        });
    }

    /// Forgets what is not so any more.
    fn hear(&self, body: &Body) {
        const ALL: [Kind; 3] = [Kind::Resources, Kind::ResourceTemplates, Kind::Prompts];
        match body {
            Body::PromptsChanged { server } => self.forget(server, &[Kind::Prompts]),
            Body::ResourcesChanged { server } => self.forget(server, &[Kind::Resources, Kind::ResourceTemplates]),
            Body::Disconnected { server, .. } | Body::Reconnected { server, .. } => self.forget(server, &ALL),
            Body::ServersChanged { added, removed, changed } => {
                added.iter().chain(removed).chain(changed).for_each(|server| self.forget(server, &ALL));
            }
            _ => {}
        }
    }

    fn forget_everything(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values_mut().for_each(|known| *known = Known { version: known.version + 1, ..Known::default() });
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
        let key = match kind {
            Kind::Prompts => "prompts",
            Kind::Resources => "resources",
            Kind::ResourceTemplates => "resourceTemplates",
        };
        let lists = self.lists_of(kind).await;
        let counts = counts(&lists);
        let mut all = Vec::new();
        for (server, items) in &lists {
            for item in items.iter() {
                let Value::Object(mut item) = item.clone() else { continue };
                if kind == Kind::Prompts {
                    let Some(name) = item.get("name").and_then(Value::as_str) else { continue };
                    let name = self.prompt_name(server.settings().name.as_str(), name, &counts);
                    item.insert("name".to_owned(), name.into());
                }
                shown::clean_listed(&mut item);
                all.push(item);
            }
        }
        Ok(json!({ key: all }))
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
    async fn lists_of(&self, kind: Kind) -> Vec<(Upstream, Items)> {
        let asks = self.capable(kind).into_iter().map(|server| async move {
            let items = self.list_of(&server, kind).await?;
            Some((server, items))
        });
        futures_util::future::join_all(asks).await.into_iter().flatten().collect()
    }

    /// What one server has of a kind, from what is known or from itself.
    async fn list_of(&self, server: &Upstream, kind: Kind) -> Option<Items> {
        let name = &server.settings().name;
        let (known, version) = self.lists.with(name, |known| (known.of(kind).clone(), known.version));
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
                *known.of(kind) = Some(Arc::clone(&items));
            }
        });
        Some(items)
    }

    /// The servers that say they have something of a kind, or have not said yet. Not those of which nothing may be
    /// called: what is kept from a client is kept whole.
    fn capable(&self, kind: Kind) -> Vec<Upstream> {
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
            let is_denied = tools.clone().next().is_some() && !tools.any(|tool| self.broker.allows(&tool.id));
            says && !is_denied
        });
        servers
    }

    fn prompt_name(&self, server: &str, prompt: &str, counts: &BTreeMap<String, usize>) -> String {
        match self.plain_names && counts.get(prompt) == Some(&1) && is_fit(prompt) {
            true => prompt.to_owned(),
            false => prefixed(server, prompt),
        }
    }

    /// The server that has a prompt, and what it calls it.
    pub(super) async fn find_prompt(&self, name: &str) -> Option<(Upstream, String)> {
        let lists = self.lists_of(Kind::Prompts).await;
        let counts = counts(&lists);
        let find = |is_it: &dyn Fn(&str, &str) -> bool| {
            lists.iter().find_map(|(server, items)| {
                let mut names = items.iter().filter_map(|item| item["name"].as_str());
                let found = names.find(|prompt| is_it(&server.settings().name, prompt))?;
                Some((server.clone(), found.to_owned()))
            })
        };
        // As it is listed; or in its long form, which is understood as well.
        find(&|server, prompt| self.prompt_name(server, prompt, &counts) == name)
            .or_else(|| find(&|server, prompt| prefixed(server, prompt) == name))
    }

    /// The server that has a resource; or, if none says so, all that may.
    pub(super) async fn holders(&self, uri: &str) -> Holders {
        let capable = self.capable(Kind::Resources);
        if let [only] = capable.as_slice() {
            return Holders::One(only.clone());
        }
        for (kind, key) in [(Kind::Resources, "uri"), (Kind::ResourceTemplates, "uriTemplate")] {
            let mut asks: FuturesUnordered<_> = capable
                .iter()
                .map(|server| async move { (server, self.list_of(server, kind).await.unwrap_or_default()) })
                .collect();
            let mut found: Option<&Upstream> = None;
            loop {
                // Of several the first by name, always the same; but those who are slow are not waited for once one is
                // found.
                let next = match found {
                    None => asks.next().await,
                    Some(_) => timeout(OTHERS, asks.next()).await.unwrap_or_default(),
                };
                let Some((server, items)) = next else { break };
                let is_better = found.is_none_or(|found| server.settings().name < found.settings().name);
                if is_better && items.iter().any(|item| fits(&item[key], uri)) {
                    found = Some(server);
                }
            }
            if let Some(server) = found {
                return Holders::One(server.clone());
            }
        }
        Holders::Any(capable)
    }
}

/// Who has a resource.
pub(super) enum Holders {
    One(Upstream),
    /// Nobody lists it; these have resources.
    Any(Vec<Upstream>),
}

impl Holders {
    pub(super) fn into_vec(self) -> Vec<Upstream> {
        match self {
            Holders::One(server) => vec![server],
            Holders::Any(servers) => servers,
        }
    }
}

fn counts(lists: &[(Upstream, Items)]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for name in lists.iter().flat_map(|(_, items)| items.iter()).filter_map(|item| item["name"].as_str()) {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

/// Is this the address, or can it be made of this template? Its fixed beginning decides.
fn fits(pattern: &Value, uri: &str) -> bool {
    match pattern.as_str() {
        Some(pattern) => match pattern.split_once('{') {
            Some((start, _)) => uri.starts_with(start) || pattern == uri,
            None => pattern == uri,
        },
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_found_by_its_address_or_template() {
        let table = [
            ("file:///a", "file:///a", true),
            ("file:///a", "file:///ab", false),
            ("file:///{path}", "file:///ab", true),
            ("file:///{path}", "http:///ab", false),
            ("file:///{path}", "file:///{path}", true),
        ];
        for (pattern, uri, expected) in table {
            assert_eq!(fits(&pattern.into(), uri), expected, "{pattern} {uri}");
        }
        assert!(!fits(&Value::Null, "x"));
    }

    #[test]
    fn what_has_changed_is_forgotten() {
        let lists = Lists::default();
        let items = || Some(Items::default());
        let set = |server: &str| {
            lists.with(server, |known| (known.resources, known.templates, known.prompts) = (items(), items(), items()));
        };
        let is_known = |server: &str, kind: Kind| lists.with(server, |known| known.of(kind).is_some());
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
    }
}
