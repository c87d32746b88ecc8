//! Resources, found at the server that they belong to.

use std::time::Duration;

use futures_util::{StreamExt, stream::FuturesUnordered};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::{
    super::{door::Broker, subject::Subject},
    addresses::{Holder, Offer, holder, listed, listed_template, listers, qualified, template_holder, unqualified},
    lists::Items,
};
use crate::{
    shown,
    upstream::{Kind, Upstream},
};

/// How long others may take to say that they have it too, once one has: those that say they have resources, and those
/// that were never reached.
const OTHERS: Duration = Duration::from_secs(2);
const STRANGERS: Duration = Duration::from_millis(200);

/// A resource, at its server.
#[derive(Clone, Debug)]
pub struct Resource {
    pub server: Upstream,
    /// The server's own address for it.
    pub uri: String,
}

impl Resource {
    pub fn subject(&self) -> Subject {
        Subject::resource(&self.server.settings().name, &self.uri)
    }
}

/// Why an address is of no server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoHolder {
    Nobody,
    /// It may be of any of these servers.
    Several(Vec<String>),
}

impl NoHolder {
    /// What to say of an address.
    pub fn explain(&self, uri: &str) -> String {
        match self {
            NoHolder::Nobody => {
                format!("there is no resource `{uri}`; `pml:SERVER:{uri}` would ask one server for it")
            }
            NoHolder::Several(servers) => {
                let addresses = quoted(&self.addresses(uri), " or ");
                format!("`{uri}` may be of {}; ask for {addresses}", quoted(servers, " and of "))
            }
        }
    }

    /// The addresses that say which server is meant.
    pub fn addresses(&self, uri: &str) -> Vec<String> {
        match self {
            NoHolder::Nobody => Vec::new(),
            NoHolder::Several(servers) => servers.iter().map(|server| qualified(server, uri)).collect(),
        }
    }
}

/// A resource or a template as it is listed: described by its server, under an address that is of this server alone.
#[derive(Clone, Debug)]
pub struct Listed {
    pub server: String,
    pub item: Map<String, Value>,
}

impl Broker {
    /// The one server that an address belongs to. A server is not asked for what may be another's; only if there is one
    /// server with resources at all, it is asked for whatever it may have.
    pub async fn find_resource(&self, uri: &str) -> Result<Resource, NoHolder> {
        let capable = self.capable(Kind::Resources);
        if let Some((name, own)) = unqualified(uri) {
            return at(&capable, &name, own);
        }
        if let [only] = capable.as_slice() {
            return Ok(Resource { server: only.clone(), uri: uri.to_owned() });
        }
        let listed = self.gather(&capable, Kind::Resources, |items| texts(items, "uri").any(|own| own == uri)).await;
        let templates = match listers(&offers(&capable, &listed, &[]), uri).is_empty() {
            true => self.gather(&capable, Kind::ResourceTemplates, |_| false).await,
            false => Vec::new(),
        };
        held(&capable, holder(&offers(&capable, &listed, &templates), uri), uri)
    }

    /// The server that lists a template, or that has an address.
    pub async fn find_template(&self, template: &str) -> Result<Resource, NoHolder> {
        let capable = self.capable(Kind::Resources);
        if unqualified(template).is_none() && capable.len() > 1 {
            let listed = self.gather(&capable, Kind::Resources, |_| false).await;
            let templates = self.gather(&capable, Kind::ResourceTemplates, |_| false).await;
            match template_holder(&offers(&capable, &listed, &templates), template) {
                Some(Holder::Nobody) | None => {}
                Some(found) => return held(&capable, found, template),
            }
        }
        self.find_resource(template).await
    }

    /// All resources or all templates that may be asked for. An address that is not clearly of one server names its server,
    /// and so does the title that a person sees.
    pub async fn listed_resources(&self, kind: Kind) -> Vec<Listed> {
        let key = if kind == Kind::ResourceTemplates { "uriTemplate" } else { "uri" };
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
                if !self.allows_subject(&Subject::resource(server, &*uri)) {
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
                all.push(Listed { server: server.to_owned(), item });
            }
        }
        all
    }

    /// What each of these servers lists. Once one has what is looked for, the others are not waited for without end: of
    /// those that do not say in time, what they listed the last time counts.
    async fn gather(&self, servers: &[Upstream], kind: Kind, is_hit: impl Fn(&Items) -> bool) -> Vec<Items> {
        let ask = |(index, server): (usize, _)| async move { (index, self.list_of(server, kind).await) };
        let mut asks: FuturesUnordered<_> = servers.iter().enumerate().map(ask).collect();
        let mut lists: Vec<Option<Option<Items>>> = vec![None; servers.len()];
        let mut until: Option<Instant> = None;
        loop {
            let next = match until {
                None => asks.next().await,
                Some(until) => timeout_at(until, asks.next()).await.ok().flatten(),
            };
            let Some((index, items)) = next else { break };
            let is_found = items.as_ref().is_some_and(&is_hit);
            lists[index] = Some(items);
            if is_found && until.is_none() {
                let mut missing = servers.iter().zip(&lists).filter(|(_, list)| list.is_none());
                let is_any_known = missing.any(|(server, _)| server.declared().is_some());
                until = Some(Instant::now() + if is_any_known { OTHERS } else { STRANGERS });
            }
        }
        let last = |server: &Upstream| self.lists.last(server, kind);
        servers.iter().zip(lists).map(|(server, list)| list.flatten().unwrap_or_else(|| last(server))).collect()
    }
}

/// A resource of the server of that name.
fn at(servers: &[Upstream], name: &str, uri: &str) -> Result<Resource, NoHolder> {
    let server = servers.iter().find(|server| server.settings().name == name).ok_or(NoHolder::Nobody)?;
    Ok(Resource { server: server.clone(), uri: uri.to_owned() })
}

fn held(servers: &[Upstream], holder: Holder, uri: &str) -> Result<Resource, NoHolder> {
    match holder {
        Holder::One(name) => at(servers, &name, uri),
        Holder::Several(names) => Err(NoHolder::Several(names)),
        Holder::Nobody => Err(NoHolder::Nobody),
    }
}

/// What servers list, for finding out whose an address is.
fn offers<'a>(servers: &'a [Upstream], listed: &'a [Items], templates: &'a [Items]) -> Vec<Offer<'a>> {
    let none = &[];
    let items = |lists: &'a [Items], index: usize| lists.get(index).map_or(&none[..], |items| items.as_slice());
    servers
        .iter()
        .enumerate()
        .map(|(index, server)| Offer {
            server: &server.settings().name,
            uris: items(listed, index).iter().filter_map(|item| item["uri"].as_str()).collect(),
            templates: items(templates, index).iter().filter_map(|item| item["uriTemplate"].as_str()).collect(),
        })
        .collect()
}

fn quoted(texts: &[String], between: &str) -> String {
    texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(between)
}

fn texts<'a>(items: &'a Items, key: &'a str) -> impl Iterator<Item = &'a str> {
    items.iter().filter_map(move |item| item[key].as_str())
}
