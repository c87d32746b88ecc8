//! A hub, as a gateway and the command line reach it.
//!
//! **Invariant:** the key goes to the address that was configured with it, and nowhere else: redirects are not followed.

use std::time::Duration;

use chrono::DateTime;
use pml_wire::{
    CapabilityId, ErrorCode,
    hub::{Failure, IngestReply},
};
use reqwest::{
    Client, Method, RequestBuilder, Response, StatusCode, Url,
    header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH, IF_NONE_MATCH, RETRY_AFTER},
};
use serde::de::DeserializeOwned;

use crate::{clock::now_millis, digest::sha256, error::Error, trace::SanitizedTrace};

/// How long a hub may take to answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Longest answer to a delivery, and longest answer at all.
const MAX_REPLY_BYTES: usize = 1024 * 1024;
const MAX_MODEL_BYTES: usize = 16 * 1024 * 1024;
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// How well bodies are compressed: four times smaller, at 300 MB a second.
const LEVEL: i32 = 3;

/// A hub.
#[derive(Clone, Debug)]
pub struct HubClient {
    http: Client,
    base: Url,
    authorization: HeaderValue,
}

/// A capability of a hub, at its newest version.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct RemoteCapability {
    pub id: String,
    pub fqdn: String,
    pub namespace: String,
    pub action: String,
    pub code: String,
    #[serde(default)]
    pub parameters: Option<serde_json::Value>,
    #[serde(default)]
    pub description: String,
    pub visibility: String,
    /// Changes with every change of the capability.
    pub tag: String,
    /// The number of its newest version.
    pub version: u32,
}

/// What a capability of a hub must be like for a change to be made.
#[derive(Clone, Copy, Debug)]
pub enum IfItIs<'a> {
    /// No capability has the name.
    Absent,
    /// It has this tag.
    Tagged(&'a str),
}

/// A document that a hub has a tag for.
#[derive(Debug)]
pub enum Document {
    /// It is what was known.
    Unchanged,
    New {
        etag: Option<String>,
        bytes: Vec<u8>,
    },
}

/// What a hub said to a delivery.
#[derive(Debug)]
pub(super) enum Delivery {
    Answered(IngestReply),
    /// It was too much at once, or one of them is one that the hub cannot read.
    Refused(String),
    /// The hub cannot take it now. It may say when it can.
    Later(Option<Duration>, String),
    /// The hub does not take anything of this key.
    Stopped(String),
}

impl HubClient {
    /// `None` if the key is no text of a header.
    pub fn new(http: Client, base: Url, key: &str) -> Option<HubClient> {
        let mut authorization = HeaderValue::from_str(&format!("Bearer {key}")).ok()?;
        authorization.set_sensitive(true);
        Some(HubClient { http, base, authorization })
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }

    /// Delivers traces in one request.
    pub(super) async fn deliver(&self, traces: Vec<SanitizedTrace>) -> Delivery {
        let later = |why: String| Delivery::Later(None, why);
        let body = match tokio::task::spawn_blocking(move || encode(&traces)).await {
            Ok(Ok(body)) => body,
            Ok(Err(err)) => return Delivery::Refused(format!("it cannot be written: {err}")),
            Err(err) => return later(err.to_string()),
        };
        let request = self
            .http
            .post(self.url("/api/traces"))
            .header(AUTHORIZATION, self.authorization.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_ENCODING, "zstd")
            .timeout(ANSWER)
            .body(body);
        let response = match request.send().await {
            Ok(response) => response,
            Err(err) => return later(cause(&err)),
        };
        let (status, pause) = (response.status(), pause(&response));
        let text = match read(response, MAX_REPLY_BYTES).await {
            Ok(text) => text,
            Err(why) => return later(why),
        };
        let failure = serde_json::from_slice::<Failure>(&text).ok();
        let why = match &failure {
            Some(Failure { code, message }) => format!("{}: {code}: {message}", status.as_u16()),
            None => status.to_string(),
        };
        match status.as_u16() {
            200 => match serde_json::from_slice(&text) {
                Ok(reply) => Delivery::Answered(reply),
                Err(_) => later("the hub answered with something that is no answer".to_owned()),
            },
            401 | 403 => Delivery::Stopped(why),
            // Of a proxy, or of what is no hub at all, it means something else.
            400 | 422 if failure.is_some() => Delivery::Refused(why),
            413 => Delivery::Refused(why),
            300..=399 => later(format!("{why}: a redirect is not followed")),
            _ => Delivery::Later(pause, why),
        }
    }

    /// What the hub has learned, unless it is what is known under this tag.
    pub async fn model(&self, known: Option<&str>) -> Result<Option<Vec<u8>>, HubError> {
        let mut request =
            self.http.get(self.url("/api/model")).header(AUTHORIZATION, self.authorization.clone()).timeout(ANSWER);
        if let Some(tag) = known {
            request = request.header(IF_NONE_MATCH, format!("\"{tag}\""));
        }
        let response = request.send().await.map_err(|err| HubError::Unreachable(cause(&err)))?;
        let status = response.status();
        let bytes = read(response, MAX_MODEL_BYTES).await.map_err(HubError::Unreachable)?;
        match status {
            StatusCode::OK => Ok(Some(bytes)),
            // The same as before, or nothing yet.
            StatusCode::NOT_MODIFIED | StatusCode::NOT_FOUND => Ok(None),
            status => Err(HubError::refused(status, &bytes)),
        }
    }

    /// Sends the hub what was learned here and traces do not say: a [`Contribution`](pml_wire::hub::Contribution), as JSON.
    pub async fn contribute(&self, body: Vec<u8>) -> Result<(), HubError> {
        changed(self.request(Method::PUT, "/api/model/contribution").body(body)).await.map(drop)
    }

    /// Every capability that the key may see, unless that is what is known under this tag.
    pub async fn registry(&self, known: Option<&str>) -> Result<Document, HubError> {
        let mut request = self.request(Method::GET, "/api/registry");
        if let Some(tag) = known {
            request = request.header(IF_NONE_MATCH, tag);
        }
        let response = request.send().await.map_err(|err| HubError::Unreachable(cause(&err)))?;
        let status = response.status();
        let etag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        let bytes = read(response, MAX_MODEL_BYTES).await.map_err(HubError::Unreachable)?;
        match status {
            StatusCode::NOT_MODIFIED if known.is_some() => Ok(Document::Unchanged),
            StatusCode::OK => Ok(Document::New { etag, bytes }),
            status => Err(HubError::refused(status, &bytes)),
        }
    }

    /// A capability at its newest version.
    pub async fn capability(&self, id: CapabilityId) -> Result<RemoteCapability, HubError> {
        self.get(&format!("/api/capabilities/{id}"), &[]).await
    }

    /// The codes of all versions of a capability.
    pub async fn capability_versions(&self, id: CapabilityId) -> Result<Vec<String>, HubError> {
        #[derive(serde::Deserialize)]
        struct Version {
            code: String,
        }
        #[derive(serde::Deserialize)]
        struct Versions {
            versions: Vec<Version>,
            /// Where the next page begins.
            #[serde(default)]
            next: Option<usize>,
        }
        let (mut codes, mut offset) = (Vec::new(), 0);
        loop {
            let query = [("offset", offset.to_string())];
            let page: Versions = self.get(&format!("/api/capabilities/{id}/versions"), &query).await?;
            codes.extend(page.versions.into_iter().map(|version| version.code));
            match page.next {
                Some(next) if next > offset => offset = next,
                _ => return Ok(codes),
            }
        }
    }

    /// Stores a capability at the hub, or a new version of it.
    pub async fn put_capability(
        &self,
        body: &serde_json::Value,
        expected: IfItIs<'_>,
    ) -> Result<RemoteCapability, HubError> {
        let request = self.request(Method::POST, "/api/capabilities").body(body.to_string());
        answer(&self.send(request, expected).await?)
    }

    pub async fn rename_capability(
        &self,
        id: CapabilityId,
        (namespace, action): (&str, &str),
        expected: IfItIs<'_>,
    ) -> Result<RemoteCapability, HubError> {
        let body = serde_json::json!({ "namespace": namespace, "action": action });
        let request = self.request(Method::POST, &format!("/api/capabilities/{id}/name")).body(body.to_string());
        answer(&self.send(request, expected).await?)
    }

    pub async fn delete_capability(&self, id: CapabilityId, expected: IfItIs<'_>) -> Result<(), HubError> {
        let request = self.request(Method::DELETE, &format!("/api/capabilities/{id}"));
        self.send(request, expected).await.map(drop)
    }

    /// Tells this hub and key from others, without telling the key.
    pub fn identity(&self) -> String {
        sha256([self.base.as_str().as_bytes(), self.authorization.as_bytes()].concat())[..32].to_owned()
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, self.url(path))
            .header(AUTHORIZATION, self.authorization.clone())
            .header(CONTENT_TYPE, "application/json")
            .timeout(ANSWER)
    }

    /// Makes a change if a capability is as expected. The body of the answer.
    async fn send(&self, request: RequestBuilder, expected: IfItIs<'_>) -> Result<Vec<u8>, HubError> {
        let request = match expected {
            IfItIs::Absent => request.header(IF_NONE_MATCH, "*"),
            IfItIs::Tagged(tag) => request.header(IF_MATCH, format!("\"{tag}\"")),
        };
        changed(request).await
    }

    /// Asks for something.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, String)]) -> Result<T, HubError> {
        let mut url = self.url(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.get(url).header(AUTHORIZATION, self.authorization.clone()).timeout(ANSWER);
        let response = request.send().await.map_err(|err| HubError::Unreachable(cause(&err)))?;
        let status = response.status();
        let text = read(response, MAX_ANSWER_BYTES).await.map_err(HubError::Unreachable)?;
        match status {
            StatusCode::OK => answer(&text),
            status => Err(HubError::refused(status, &text)),
        }
    }
}

/// Sends a request that changes something. The body of the response, if the hub accepts it.
async fn changed(request: RequestBuilder) -> Result<Vec<u8>, HubError> {
    let response = request.send().await.map_err(|err| HubError::Unreachable(cause(&err)))?;
    let status = response.status();
    let bytes = read(response, MAX_MODEL_BYTES).await.map_err(HubError::Unreachable)?;
    match status.is_success() {
        true => Ok(bytes),
        false => Err(HubError::refused(status, &bytes)),
    }
}

/// Reads the body of an answer.
pub(crate) fn answer<T: DeserializeOwned>(body: &[u8]) -> Result<T, HubError> {
    serde_json::from_slice(body).map_err(|err| HubError::Unreadable(err.to_string()))
}

/// Why a hub did not answer a question.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error("the hub cannot be reached: {0}")]
    Unreachable(String),
    #[error("the hub's answer cannot be read: {0}")]
    Unreadable(String),
    #[error("the hub refuses: {}", failure.as_ref().map_or_else(|| status.to_string(), |failure| failure.message.clone()))]
    Refused { status: u16, failure: Option<Failure> },
}

impl HubError {
    fn refused(status: StatusCode, body: &[u8]) -> HubError {
        HubError::Refused { status: status.as_u16(), failure: serde_json::from_slice(body).ok() }
    }

    /// Does it concern one capability alone, so that others can still be synced?
    pub fn is_of_one_capability(&self) -> bool {
        matches!(self, HubError::Refused { status: 400 | 403 | 404 | 409 | 412 | 413, failure: Some(_) })
    }

    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, HubError::Refused { status: 404, failure: Some(_) })
    }
}

impl From<HubError> for Error {
    fn from(err: HubError) -> Error {
        let (code, hint) = match &err {
            HubError::Unreachable(_) => (ErrorCode::HubUnavailable, "check the address, and whether the hub runs"),
            HubError::Unreadable(_) => (ErrorCode::HubUnavailable, "is this the address of a hub?"),
            HubError::Refused { status: 401 | 403, .. } => {
                (ErrorCode::HubRefused, "set PML_HUB_KEY, or `hub.key`, to a key of this hub: `pml hub key add`")
            }
            HubError::Refused { status: 408 | 429 | 500..=599, .. } => {
                (ErrorCode::HubUnavailable, "the hub cannot answer now; try again later")
            }
            HubError::Refused { .. } => (ErrorCode::HubRefused, "is this the address of a hub?"),
        };
        Error::new(code, err.to_string()).with_hint(hint).caused_by(err)
    }
}

/// The body of a delivery.
fn encode(traces: &[SanitizedTrace]) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), LEVEL)?;
    use std::io::Write as _;
    encoder.write_all(br#"{"traces":["#)?;
    for (index, trace) in traces.iter().enumerate() {
        if index > 0 {
            encoder.write_all(b",")?;
        }
        serde_json::to_writer(&mut encoder, trace.trace())?;
    }
    encoder.write_all(b"]}")?;
    encoder.finish()
}

async fn read(mut response: Response, most: usize) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|err| cause(&err))? {
        if text.len() + part.len() > most {
            return Err("the answer of the hub is too long".to_owned());
        }
        text.extend_from_slice(&part);
    }
    Ok(text)
}

/// When a hub wants to be asked again.
fn pause(response: &Response) -> Option<Duration> {
    after(response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim(), now_millis())
}

/// A number of seconds, or a date (RFC 9110, section 10.2.3).
fn after(text: &str, now: u64) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let moment = DateTime::parse_from_rfc2822(text).ok()?.timestamp_millis();
    Some(Duration::from_millis(u64::try_from(moment).ok()?.saturating_sub(now)))
}

/// What an error is really about, without the address, which is known.
fn cause(err: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = err;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if err.is_timeout() { "no answer in time".to_owned() } else { cause.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_says_when_in_seconds_or_by_a_date() {
        let now = 784_111_777_000;
        #[rustfmt::skip]
        let table = [
            ("7",                             Some(7)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("soon",                          None),
        ];
        for (text, seconds) in table {
            assert_eq!(after(text, now), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
