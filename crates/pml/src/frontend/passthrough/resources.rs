//! Resources: found at the server that they belong to, read, watched and completed there.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::{
    super::{
        gateway::Frontend,
        rpc::{self, Era, INVALID_PARAMS, Reply},
        session::{MAX_WATCHED, Scope},
    },
    addresses::{Holder, Offer, holder, listers, qualified, template_holder, unqualified},
    lists::Items,
    refused,
};
use crate::{
    broker::Subject,
    upstream::{Kind, RpcError, Upstream, Watch},
};

/// How long others may take to say that they have it too, once one has: those that say they have resources, and those
/// that were never reached.
const OTHERS: Duration = Duration::from_secs(2);
const STRANGERS: Duration = Duration::from_millis(200);

/// Longest address of a resource that is watched.
pub(super) const MAX_URI_BYTES: usize = 8 * 1024;
/// The code of the earlier era for a resource that is not there.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// A resource, at its server.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) server: Upstream,
    /// The server's own address for it.
    pub(super) uri: String,
}

impl Resource {
    fn subject(&self) -> Subject {
        Subject::resource(&self.server.settings().name, &self.uri)
    }
}

impl Frontend {
    /// The one server that an address belongs to. A server is not asked for what may be another's; only if there is one
    /// server with resources at all, it is asked for whatever it may have.
    pub(super) async fn find_resource(&self, uri: &str, era: Era) -> Result<Resource, RpcError> {
        let capable = self.capable(Kind::Resources);
        let named = |name: &str| capable.iter().find(|server| server.settings().name == name).cloned();
        if let Some((name, own)) = unqualified(uri) {
            let server = named(&name).ok_or_else(|| unknown(uri, era))?;
            return Ok(Resource { server, uri: own.to_owned() });
        }
        if let [only] = capable.as_slice() {
            return Ok(Resource { server: only.clone(), uri: uri.to_owned() });
        }
        let listed = self.gather(&capable, Kind::Resources, |items| texts(items, "uri").any(|own| own == uri)).await;
        let templates = match listers(&offers(&capable, &listed, &[]), uri).is_empty() {
            true => self.gather(&capable, Kind::ResourceTemplates, |_| false).await,
            false => Vec::new(),
        };
        match holder(&offers(&capable, &listed, &templates), uri) {
            Holder::One(name) => {
                let server = named(&name).ok_or_else(|| unknown(uri, era))?;
                Ok(Resource { server, uri: uri.to_owned() })
            }
            Holder::Several(servers) => Err(ambiguous(uri, &servers)),
            Holder::Nobody => Err(unknown(uri, era)),
        }
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
        let last = |server: &Upstream| self.lists.last(&server.settings().name, kind).unwrap_or_default();
        servers.iter().zip(lists).map(|(server, list)| list.flatten().unwrap_or_else(|| last(server))).collect()
    }

    /// Reads a resource from the server that has it.
    pub(super) async fn read_passed(
        self: &Arc<Self>,
        mut params: Map<String, Value>,
        scope: &Scope,
    ) -> Result<Reply, RpcError> {
        let resource = self.find_resource(&super::text(&params, "uri")?, scope.era).await?;
        params.insert("uri".to_owned(), resource.uri.as_str().into());
        let answer = self.pass_to(&resource.server, "resources/read", params, resource.subject(), scope).await;
        // Both eras have a code of their own for a resource that is not there.
        answer.map_err(|error| match error.code {
            RESOURCE_NOT_FOUND => RpcError { code: not_found(scope.era), ..error },
            _ => error,
        })
    }

    /// Watches a resource for a client of the earlier era, until it says otherwise or goes.
    pub(super) async fn subscribe(&self, uri: &str, scope: &Scope) -> Result<Value, RpcError> {
        let (resource, watch) = self.watch(uri, scope.era).await?;
        match scope.session.watch(uri, &resource.server.settings().name, watch) {
            true => Ok(json!({})),
            false => Err(rpc::error(INVALID_PARAMS, format!("more than {MAX_WATCHED} resources are watched"))),
        }
    }

    /// Watches a resource for as long as the watch lives.
    pub(super) async fn watch(&self, uri: &str, era: Era) -> Result<(Resource, Watch), RpcError> {
        if uri.len() > MAX_URI_BYTES {
            return Err(rpc::error(INVALID_PARAMS, format!("`uri` has more than {MAX_URI_BYTES} bytes")));
        }
        let resource = self.find_resource(uri, era).await?;
        let watch = self.broker.watch(&resource.subject()).await.map_err(refused)?;
        Ok((resource, watch))
    }

    /// Completes an argument of a prompt, or a variable in a template of addresses.
    pub(super) async fn complete(
        self: &Arc<Self>,
        mut params: Map<String, Value>,
        scope: &Scope,
    ) -> Result<Reply, RpcError> {
        let about = params.get("ref").cloned().unwrap_or_default();
        let (server, subject) = match about["type"].as_str() {
            Some("ref/prompt") => {
                let name = about["name"].as_str().unwrap_or_default();
                let Some((server, prompt)) = self.find_prompt(name).await else {
                    return Err(rpc::error(INVALID_PARAMS, format!("there is no prompt `{name}`")));
                };
                params["ref"]["name"] = prompt.as_str().into();
                let subject = Subject::prompt(&server.settings().name, prompt);
                (server, subject)
            }
            Some("ref/resource") => {
                let resource = self.find_template(about["uri"].as_str().unwrap_or_default(), scope.era).await?;
                params["ref"]["uri"] = resource.uri.as_str().into();
                let subject = resource.subject();
                (resource.server, subject)
            }
            _ => return Err(rpc::error(INVALID_PARAMS, "`ref` must be a `ref/prompt` or a `ref/resource`")),
        };
        self.pass_to(&server, "completion/complete", params, subject, scope).await
    }

    /// The server that lists a template, or that has an address.
    async fn find_template(&self, template: &str, era: Era) -> Result<Resource, RpcError> {
        let capable = self.capable(Kind::Resources);
        if unqualified(template).is_none() && capable.len() > 1 {
            let listed = self.gather(&capable, Kind::Resources, |_| false).await;
            let templates = self.gather(&capable, Kind::ResourceTemplates, |_| false).await;
            match template_holder(&offers(&capable, &listed, &templates), template) {
                Some(Holder::One(name)) => {
                    let server = capable.into_iter().find(|server| server.settings().name == name);
                    let server = server.ok_or_else(|| unknown(template, era))?;
                    return Ok(Resource { server, uri: template.to_owned() });
                }
                Some(Holder::Several(servers)) => return Err(ambiguous(template, &servers)),
                Some(Holder::Nobody) | None => {}
            }
        }
        self.find_resource(template, era).await
    }
}

/// What servers list, for finding out whose an address is.
pub(super) fn offers<'a>(servers: &'a [Upstream], listed: &'a [Items], templates: &'a [Items]) -> Vec<Offer<'a>> {
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

fn texts<'a>(items: &'a Items, key: &'a str) -> impl Iterator<Item = &'a str> {
    items.iter().filter_map(move |item| item[key].as_str())
}

/// What a resource that is not there is called in either era.
fn not_found(era: Era) -> i64 {
    if era == Era::Legacy { RESOURCE_NOT_FOUND } else { INVALID_PARAMS }
}

fn unknown(uri: &str, era: Era) -> RpcError {
    let message = format!("there is no resource `{uri}`; `pml:SERVER:{uri}` would ask one server for it");
    RpcError { data: Some(json!({ "uri": uri })), ..rpc::error(not_found(era), message) }
}

fn ambiguous(uri: &str, servers: &[String]) -> RpcError {
    let uris: Vec<_> = servers.iter().map(|server| qualified(server, uri)).collect();
    let message = format!("`{uri}` may be of {}; ask for {}", quoted(servers, " and of "), quoted(&uris, " or "));
    RpcError { data: Some(json!({ "uri": uri, "uris": uris })), ..rpc::error(INVALID_PARAMS, message) }
}

fn quoted(texts: &[String], between: &str) -> String {
    texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(between)
}
