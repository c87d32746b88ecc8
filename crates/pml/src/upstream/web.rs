//! What requests of HTTP to servers have in common: addresses, headers, kinds of bodies, and what statuses mean.

use std::{collections::BTreeMap, time::Duration};

use futures_util::StreamExt;
use pml_wire::{Delivery, ErrorCode};
use reqwest::{
    Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use tokio::time::timeout;

use super::{
    failure::{Failure, Retry},
    settings::Secret,
};

pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";

/// How much of a body that is no message is read and shown.
pub(super) const SHOWN_BYTES: usize = 300;
/// How long a body that is only shown is read.
const SHOWN: Duration = Duration::from_secs(5);

/// Was a message refused by its status? Then somebody is there, but not for this.
pub(super) fn is_rejected(failure: &Failure) -> bool {
    failure.data.as_ref().is_some_and(|data| data.get("status").is_some())
}

pub(super) fn parse_url(url: &Secret) -> Result<Url, Failure> {
    // The text may hold a token, so it is not shown.
    let url: Url = url.reveal().parse().map_err(|err| Failure::never(format!("its url is none: {err}")))?;
    match url.scheme() {
        "http" | "https" if url.host().is_some() => Ok(url),
        scheme => Err(Failure::never(format!("its url must begin with http:// or https://, not {scheme}:"))),
    }
}

pub(super) fn parse_headers(headers: &BTreeMap<String, Secret>) -> Result<HeaderMap, Failure> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let parsed: HeaderName =
            name.parse().map_err(|_| Failure::never(format!("`{name}` cannot be the name of a header")))?;
        let mut value = HeaderValue::from_str(value.reveal())
            .map_err(|_| Failure::never(format!("the value of its header `{name}` cannot be sent")))?;
        value.set_sensitive(true);
        map.insert(parsed, value);
    }
    Ok(map)
}

pub(super) fn content_type(response: &Response) -> &'static str {
    let header = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = header.split(';').next().unwrap_or_default().trim();
    match kind {
        "" => "",
        _ if kind.eq_ignore_ascii_case(JSON) => JSON,
        _ if kind.eq_ignore_ascii_case(EVENTS) => EVENTS,
        _ => "other",
    }
}

/// The beginning of a body that is no message.
pub(super) async fn shown(response: Response) -> String {
    let read = async {
        let mut bytes = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(Ok(part)) = stream.next().await {
            bytes.extend_from_slice(&part);
            if bytes.len() >= SHOWN_BYTES {
                break;
            }
        }
        bytes.truncate(SHOWN_BYTES);
        bytes
    };
    let bytes = timeout(SHOWN, read).await.unwrap_or_default();
    beginning(&bytes)
}

/// How a body begins, for a message.
pub(super) fn beginning(body: &[u8]) -> String {
    match body.is_empty() {
        true => "(no text)".to_owned(),
        false => String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]).into_owned(),
    }
}

/// Is this about the message, rather than about who sends it and when?
pub(super) fn is_refusal(status: StatusCode) -> bool {
    let is_other = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
    status.is_client_error() && !is_other
}

/// May the same be answered better in a moment?
pub(super) fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// What an answer means whose status is no success.
pub(super) async fn refusal(response: Response) -> Failure {
    let status = response.status();
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let after = header(RETRY_AFTER).map(|after| format!("; Retry-After: {after}")).unwrap_or_default();
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let wants = header(WWW_AUTHENTICATE).map(|wants| format!("; it wants {wants}")).unwrap_or_default();
            let message = format!("the server wants a login (HTTP {status}){wants}");
            Failure::new(ErrorCode::AuthRequired, message, Retry::Never)
        }
        StatusCode::TOO_MANY_REQUESTS => {
            let message = format!("the server takes no more calls at the moment (HTTP {status}){after}");
            Failure::new(ErrorCode::RateLimited, message, Retry::Later)
        }
        _ if status.is_server_error() => {
            let message = format!("the server answers with HTTP {status}{after}: {}", shown(response).await);
            // Its status says nothing about how far the server came.
            Failure { code: ErrorCode::ProviderUnavailable, outcome: Delivery::Unknown, ..rejected(status, message) }
        }
        _ if status.is_redirection() => {
            let message = format!("the server redirects to another place (HTTP {status}), which is not followed");
            rejected(status, message)
        }
        _ => rejected(status, format!("the server answers with HTTP {status}: {}", shown(response).await)),
    }
}

pub(super) fn rejected(status: StatusCode, message: String) -> Failure {
    Failure { data: Some(serde_json::json!({ "status": status.as_u16() })), ..Failure::protocol(message) }
}

/// Why there was no answer at all. The causes are told, the address is not: it may hold a token. Only a connection that
/// was never made is sure to have carried nothing.
pub(super) fn unreachable(err: &reqwest::Error) -> Failure {
    let mut causes = Vec::new();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(err);
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !causes.contains(&text) {
            causes.push(text);
        }
        cause = inner.source();
    }
    let what = match () {
        () if err.is_connect() => "the server cannot be reached",
        () if err.is_timeout() => "the server does not answer",
        () if err.is_redirect() => "the server redirects to another place, which is not followed",
        () => "the connection to the server broke",
    };
    let message = if causes.is_empty() { what.to_owned() } else { format!("{what}: {}", causes.join(": ")) };
    match err.is_connect() {
        true => Failure::new(ErrorCode::ProviderUnavailable, message, Retry::Reconnect),
        false => Failure::new(ErrorCode::ProviderUnavailable, message, Retry::Later).uncertain(),
    }
}
