//! One request that was let in, and how its parts are read.

use std::{collections::HashMap, str::FromStr, sync::Arc};

use axum::{body::Body, http::HeaderMap};
use pml_wire::hub::Code;

use super::{super::service::Hub, access::Caller, encoding::Encoding, problem::Problem};
use crate::web::Received;

/// A request that was let in.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) hub: Arc<Hub>,
    pub(super) caller: Caller,
    /// The parts of the path that the route leaves open.
    pub(super) path: HashMap<String, String>,
    pub(super) query: HashMap<String, String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
}

impl Call {
    /// A part of the path.
    pub(super) fn part<T: FromStr>(&self, name: &str) -> Result<T, Problem> {
        let text = self.path.get(name).map(String::as_str).unwrap_or_default();
        text.parse().map_err(|_| Problem::new(Code::NotFound, format!("there is no `{text}`")))
    }

    /// A part of the query, if it is there.
    pub(super) fn query<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.query.get(name) else { return Ok(None) };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(err) => Err(Problem::invalid(format!("`{name}` is `{text}`: {err}"))),
        }
    }

    /// A number in the query, within bounds.
    pub(super) fn number(&self, name: &str, default: usize, most: usize) -> Result<usize, Problem> {
        match self.query(name)?.unwrap_or(default) {
            number if number <= most => Ok(number),
            number => Err(Problem::invalid(format!("`{name}` is {number}, but may be {most} at most"))),
        }
    }

    /// Reads the body. What remains of the call is returned with it.
    pub(super) async fn read(mut self) -> Result<(Call, Received), Problem> {
        let body = std::mem::take(&mut self.body);
        let received = self.hub.bodies.read(body).await?;
        Ok((self, received))
    }

    /// Reads the body as JSON.
    pub(super) async fn json<T: serde::de::DeserializeOwned>(self) -> Result<(Call, T), Problem> {
        let encoding = Encoding::of(&self.headers)?;
        let (call, received) = self.read().await?;
        let plain = match encoding {
            Encoding::Identity => received.bytes,
            compressed => blocking(move || compressed.decode(received.bytes)).await??,
        };
        match serde_json::from_slice(&plain) {
            Ok(value) => Ok((call, value)),
            Err(err) => Err(Problem::invalid(format!("the body is not as it should be: {err}"))),
        }
    }
}

/// Does what takes a while on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|err| {
        tracing::error!(error = %err, "a request was not served as it should be");
        Problem::new(Code::Internal, "the hub made a mistake")
    })
}
