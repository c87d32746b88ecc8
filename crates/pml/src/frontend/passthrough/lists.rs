//! Resources and prompts of all servers, in one list each. What the policy denies is not listed.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{
    super::{gateway::Frontend, surface::one_page},
    names::{BETWEEN, distinct, prefixed},
};
use crate::{
    broker::Subject,
    catalog::Tool,
    shown,
    upstream::{Kind, RpcError, Upstream},
};

/// How long a call waits for servers that have never listed their tools.
const PATIENCE: Duration = Duration::from_secs(20);

impl Frontend {
    /// Everything of a kind that the servers have, each under the name that clients see.
    pub(super) async fn list_passed(&self, kind: Kind, params: &Map<String, Value>) -> Result<Value, RpcError> {
        one_page(params)?;
        Ok(match kind {
            Kind::Prompts => json!({ "prompts": self.listed_prompts().await }),
            Kind::Resources => json!({ "resources": self.listed_resources(kind).await }),
            Kind::ResourceTemplates => {
                json!({ "resourceTemplates": self.listed_resources(kind).await })
            }
        })
    }

    async fn listed_resources(&self, kind: Kind) -> Vec<Value> {
        self.broker.listed_resources(kind).await.into_iter().map(|listed| listed.item.into()).collect()
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
        let (servers, lists) = self.broker.lists_of(Kind::Prompts).await;
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
        let names = distinct(&ids, self.shared.plain_names);
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

    /// The server that has a prompt, and what it calls it.
    pub(super) async fn find_prompt(&self, name: &str) -> Option<(Upstream, String)> {
        let named = self.named_prompts().await;
        if let Some(prompt) = named.iter().find(|prompt| prompt.name == name) {
            return Some((prompt.server.clone(), prompt.own.clone()));
        }
        // The long form is understood as well, also of a prompt that the policy denies: the broker says so, and writes
        // it down.
        let (servers, lists) = self.broker.lists_of(Kind::Prompts).await;
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
