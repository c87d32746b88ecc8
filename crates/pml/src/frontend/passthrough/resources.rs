//! Resources: found at the server that they belong to, read, watched and completed there.

use std::sync::Arc;

use pml_wire::trace::Entry;
use serde_json::{Map, Value, json};

use super::{
    super::{
        gateway::Frontend,
        rpc::{self, Era, INVALID_PARAMS, Reply},
        session::Scope,
        watches::{MAX_WATCHED, Watches},
    },
    forward::{refused, text},
};
use crate::{
    broker::{NoHolder, Resource, Subject},
    protocol::code::RESOURCE_NOT_FOUND,
    upstream::RpcError,
};

/// Longest address of a resource that is watched.
pub(super) const MAX_URI_BYTES: usize = 8 * 1024;

impl Frontend {
    async fn find_resource(&self, uri: &str, era: Era) -> Result<Resource, RpcError> {
        self.broker.find_resource(uri).await.map_err(|why| missing(uri, &why, era))
    }

    /// Reads a resource from the server that has it.
    pub(super) async fn read_passed(
        self: &Arc<Self>,
        mut params: Map<String, Value>,
        scope: &Scope,
    ) -> Result<Reply, RpcError> {
        let resource = self.find_resource(&text(&params, "uri")?, scope.era).await?;
        params.insert("uri".to_owned(), resource.uri.as_str().into());
        let answer = self.pass_to(&resource.server, "resources/read", params, resource.subject(), scope).await;
        // Both eras have a code of their own for a resource that is not there.
        answer.map_err(|error| match error.code {
            RESOURCE_NOT_FOUND => RpcError { code: not_found(scope.era), ..error },
            _ => error,
        })
    }

    /// Watches a resource for a client, until it says otherwise or goes.
    pub(super) async fn watch(&self, address: &str, watches: &Watches, scope: &Scope) -> Result<(), RpcError> {
        if address.len() > MAX_URI_BYTES {
            return Err(rpc::error(INVALID_PARAMS, format!("`uri` has more than {MAX_URI_BYTES} bytes")));
        }
        let resource = self.find_resource(address, scope.era).await?;
        if !watches.expect(address, &resource.server.settings().name, &resource.uri) {
            return Err(rpc::error(INVALID_PARAMS, format!("more than {MAX_WATCHED} resources are watched")));
        }
        // Also if this future is dropped before the server has agreed.
        let _unless_kept = GiveUp { address, watches };
        let context = Arc::new(scope.context(Entry::Passthrough));
        let watch = self.broker.watch(&context, &resource.subject()).await.map_err(refused)?;
        watches.keep(address, watch);
        Ok(())
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
                let uri = about["uri"].as_str().unwrap_or_default();
                let resource = self.broker.find_template(uri).await.map_err(|why| missing(uri, &why, scope.era))?;
                params["ref"]["uri"] = resource.uri.as_str().into();
                let subject = resource.subject();
                (resource.server, subject)
            }
            _ => return Err(rpc::error(INVALID_PARAMS, "`ref` must be a `ref/prompt` or a `ref/resource`")),
        };
        self.pass_to(&server, "completion/complete", params, subject, scope).await
    }
}

/// Forgets, when dropped, a resource whose server has not agreed to report its updates.
struct GiveUp<'a> {
    address: &'a str,
    watches: &'a Watches,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        self.watches.give_up(self.address);
    }
}

/// What a resource that is not there is called in either era.
fn not_found(era: Era) -> i64 {
    if era == Era::Legacy { RESOURCE_NOT_FOUND } else { INVALID_PARAMS }
}

/// Why an address is of no server, as an error of the protocol.
fn missing(uri: &str, why: &NoHolder, era: Era) -> RpcError {
    let (code, data) = match why {
        NoHolder::Nobody => (not_found(era), json!({ "uri": uri })),
        NoHolder::Several(_) => (INVALID_PARAMS, json!({ "uri": uri, "uris": why.addresses(uri) })),
    };
    RpcError { data: Some(data), ..rpc::error(code, why.explain(uri)) }
}
