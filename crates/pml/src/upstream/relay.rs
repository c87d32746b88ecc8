//! Relays client requests to a server, and the progress, logs and questions that the server sends before it responds.
//!
//! The response is returned as the server wrote it. Progress goes to the request whose token it carries; logs and the server's own
//! requests go to the request on whose stream they arrive. A message that arrives outside any stream is attributed to the
//! most recent request, provided that all requests in flight belong to the same client.
//!
//! **Invariant:** a question caused by one client's request is never sent to another client.

use std::sync::Arc;

use pml_wire::ErrorCode;
use serde_json::{Map, Value, value::RawValue};
use tokio::{sync::mpsc, time::sleep};

use super::{
    codec::{BROKEN, RpcError},
    discovery::{self, Kind},
    exchange::{Passing, Request, from_rpc},
    failure::{Failure, Retry},
    handle::Upstream,
    questions::{MessageSender, Owner, ServerMessage},
    subscriber::Watch,
};
use crate::{
    catalog::Declared,
    protocol::{Era, Version, method},
    room::Held,
    work,
};

/// A result as the server wrote it, always a JSON object.
#[derive(Debug)]
pub struct Whole {
    pub text: Box<RawValue>,
    /// Its charge to the memory budget, if it is large.
    pub held: Held,
}

/// A request to relay.
#[derive(Debug)]
pub struct Forward<'a> {
    pub method: &'a str,
    /// Without `_meta`.
    pub params: Map<String, Value>,
    /// Entries of `_meta` in addition to pml's own: `traceparent`, the client's capabilities
    /// and log level, vendor keys. Excludes the client's progress token, version and name.
    pub meta: Map<String, Value>,
    /// The tool, prompt or address of the request, for the HTTP header.
    pub name: Option<&'a str>,
    /// Arguments that are also sent as HTTP headers.
    pub headers: Vec<(String, String)>,
    /// Receives the messages that the server sends before it responds.
    pub relay: Option<mpsc::Sender<ServerMessage>>,
    /// The client that receives them. Requests without an owner share one anonymous client.
    pub owner: Option<Owner>,
}

impl Upstream {
    /// Relays a request and returns the server's result, a JSON object, or its error, both unchanged except that the
    /// server's secrets are masked in errors. Dropping the future cancels the request.
    ///
    /// As with [`execute`](Upstream::execute), the server is started if necessary, and the request is queued and has the
    /// same timeouts; the idle timeout is paused while a question to the client is open. Answers to the server's
    /// questions are sent only while the future is polled, and the last messages may still be in the channel when it
    /// completes.
    pub async fn forward(&self, forward: Forward<'_>) -> Result<Result<Whole, RpcError>, Failure> {
        let settings = Arc::clone(&self.settings);
        match self.pass(forward).await.map_err(|failure| settings.mask_failure(failure))? {
            Ok(Whole { text, held }) => {
                let masked = work::sized(text.get().len(), move |_| settings.mask_passed(text)).await;
                Ok(Ok(Whole { text: masked, held }))
            }
            Err(error) => Ok(Err(settings.mask_error(error))),
        }
    }

    async fn pass(&self, forward: Forward<'_>) -> Result<Result<Whole, RpcError>, Failure> {
        let Forward { method, params, meta, name, headers, relay, owner } = forward;
        // The method is written into the message and into a header without escaping.
        if method.is_empty() || method.bytes().any(|byte| !byte.is_ascii_graphic() || matches!(byte, b'"' | b'\\')) {
            return Err(Failure::protocol(format!("`{}` is no method", method.escape_debug())));
        }
        let tool = name.filter(|_| method == method::TOOLS_CALL);
        let (idle, total) = self.settings.timeouts_for(tool.unwrap_or_default());
        let is_heavy = params.values().any(work::is_heavy);
        let relay = relay.map(|sender| MessageSender::new(sender, &self.settings));
        let passing = work::weighed(is_heavy, move |_| Passing::new(&params, meta, relay, owner)).await;
        let passing = Some(Arc::new(passing));
        let request = Request { name, headers, idle, total, passing, ..Request::new(method, total) };
        match self.perform(&request, tool).await? {
            Ok(payload) if payload.is_repaired => {
                Err(Failure::protocol("the server's answer cannot be read: it has bytes that are no UTF-8"))
            }
            Ok(mut payload) => {
                let held = payload.held.take();
                match payload.into_whole().filter(|whole| whole.get().starts_with('{')) {
                    Some(text) => Ok(Ok(Whole { text, held })),
                    None => Err(Failure::protocol("the server's answer is no object")),
                }
            }
            Err(error) if error.code == BROKEN => Err(from_rpc(error)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// All resources, templates or prompts, as the server describes them. Empty if the server does not support them.
    pub async fn list(&self, kind: Kind) -> Result<Vec<Value>, Failure> {
        let settings = &self.settings;
        let list = async {
            let status = self.ready(self.settings.max_call).await?;
            match &status.connection {
                Some(connection) => discovery::list(settings, connection, kind).await,
                None => {
                    let work = async |connection: &_| discovery::list(settings, connection, kind).await;
                    self.alone(settings.limits, status.version, work).await
                }
            }
        };
        list.await.map_err(|failure| self.settings.mask_failure(failure))
    }

    /// Subscribes to a resource: while the returned [`Watch`] lives, changes of the resource are published on the bus. The
    /// server has accepted the subscription when this returns, and pml renews it after a reconnect.
    pub async fn watch(&self, uri: &str) -> Result<Watch, Failure> {
        let watch = async {
            let status = self.ready(self.settings.max_call).await?;
            let Some(connection) = &status.connection else {
                return Err(Failure::protocol("a server with a process per call has no resources that can be watched"));
            };
            if connection.declared.capabilities["resources"]["subscribe"] != true {
                return Err(Failure::protocol("the server does not offer to watch resources"));
            }
            let watch = Watch::begin(&self.wanted, uri);
            let bound = self.settings.max_call;
            tokio::select! {
                settled = watch.settled() => settled?,
                failure = connection.closed() => return Err(failure),
                () = sleep(bound) => {
                    let message = format!("the server does not agree to the subscription within {bound:?}");
                    return Err(Failure::new(ErrorCode::ProviderTimeout, message, Retry::Later));
                }
            }
            Ok(watch)
        };
        watch.await.map_err(|failure| self.settings.mask_failure(failure))
    }

    /// Sets the level of the logs that the server sends, now or once it runs. Servers of the modern era get the level
    /// with each request instead.
    pub fn set_log_level(&self, level: &str) {
        self.wanted.set_level(level);
    }

    /// Notifies the server that the client's roots have changed, if the server runs and may ask for roots.
    pub fn roots_changed(&self) {
        let connection = self.status.borrow().connection.clone();
        if let Some(connection) = connection.filter(|_| self.settings.relays) {
            connection.roots_changed();
        }
    }

    /// The server's declaration (name, capabilities, instructions), from the current connection or the last one.
    pub fn declared(&self) -> Option<Arc<Declared>> {
        self.status.borrow().declared.clone()
    }

    /// The protocol version of the current connection, or of the last one.
    pub fn version(&self) -> Option<&'static str> {
        self.status.borrow().version.map(Version::as_str)
    }

    /// Does the current connection, or the last one, use the modern era?
    pub fn is_modern(&self) -> bool {
        self.status.borrow().version.map(Version::era) == Some(Era::Modern)
    }
}
