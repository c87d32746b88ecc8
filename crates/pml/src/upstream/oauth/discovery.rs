//! Does a server want a login, and where? What it says itself, and what its authorization server says.

use std::{net::IpAddr, time::Duration};

use pml_wire::ErrorCode;
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE},
};
use rmcp::transport::auth::{AuthorizationManager, AuthorizationMetadata};
use serde_json::json;
use tokio::time::timeout;

use super::{
    super::{
        settings::{HttpWire, Secret, Settings, Target},
        web::{parse_headers, parse_url, unreachable},
    },
    explain::{explain, failed},
};
use crate::{
    error::Error,
    protocol::{LEGACY, header::SESSION, method},
};

/// What pml calls itself where it registers.
pub(super) const CLIENT_NAME: &str = "pml";

/// How long the server may take to say that it wants a login.
const PROBE: Duration = Duration::from_secs(30);

/// Where and how to log in at a server.
pub(super) struct LoginTerms {
    pub(super) manager: AuthorizationManager,
    pub(super) metadata: AuthorizationMetadata,
    /// The server's address, as configured and as the authorization server may know it.
    pub(super) url: Secret,
    pub(super) resource: Url,
    /// What to ask for.
    pub(super) scopes: Vec<String>,
    /// Nothing says so; it was usual once.
    pub(super) is_guess: bool,
}

pub(super) async fn find(client: &Client, settings: &Settings) -> Result<LoginTerms, Error> {
    let (secret_url, url, headers, wire) = target(settings)?;
    let challenge = match probe(client, &url, &headers, wire).await? {
        Probe::Wanted(challenge) => Some(challenge),
        Probe::Open => None,
        Probe::Stream => return Err(no_login(settings)),
    };
    // The rest of an address may hold a key, which is none of the authorization server's business.
    let mut resource = url;
    resource.set_query(None);
    resource.set_fragment(None);
    let mut manager = AuthorizationManager::new(resource.clone()).await.map_err(explain)?;
    let found = manager.resolve_metadata_from_challenge(challenge.as_ref().and_then(|challenge| challenge.as_deref()));
    let found = found.await.map_err(explain)?;
    let is_guess = !found.source.is_discovered();
    if is_guess && challenge.is_none() {
        return Err(no_login(settings));
    }
    check_endpoints(&resource, &found.metadata)?;
    manager.set_metadata(found.metadata.clone());
    let scopes = match settings.oauth.scopes.as_slice() {
        [] => manager.select_initial_scopes(&[]).await,
        scopes => scopes.to_owned(),
    };
    Ok(LoginTerms { manager, metadata: found.metadata, url: secret_url.clone(), resource, scopes, is_guess })
}

/// Where to log in: the address as configured and as checked, the headers that go there, the wire.
fn target(settings: &Settings) -> Result<(&Secret, Url, HeaderMap, HttpWire), Error> {
    let invalid = |message: String| Error::new(ErrorCode::ConfigInvalid, message);
    let name = &settings.name;
    let (url, headers, wire) = match &settings.target {
        Ok(Target::Http { url, headers, wire }) => (url, headers, *wire),
        Ok(Target::Stdio { .. }) => {
            let message = format!("server `{name}` runs on this machine; only remote servers have a login");
            return Err(invalid(message).with_hint("give it what it needs through `env`"));
        }
        Err(why) => return Err(invalid(format!("server `{name}`: {why}"))),
    };
    let parsed = parse_url(url).map_err(|failure| invalid(format!("server `{name}`: {}", failure.message)))?;
    let map = parse_headers(headers).map_err(|failure| invalid(format!("server `{name}`: {}", failure.message)))?;
    if map.contains_key(AUTHORIZATION) {
        let message = format!("server `{name}` has an `Authorization` header in its configuration, which counts");
        return Err(invalid(message).with_hint("remove the header to log in instead"));
    }
    if !is_safe(&parsed) {
        return Err(invalid(format!(
            "server `{name}` has no https:// address, so a token would be sent for all to see"
        )));
    }
    Ok((url, parsed, map, wire))
}

/// May a token go there? Over TLS, or not further than this machine.
fn is_safe(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.ends_with(".localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Codes and tokens go to these addresses. rmcp has checked their hosts, but takes http as well.
fn check_endpoints(resource: &Url, metadata: &AuthorizationMetadata) -> Result<(), Error> {
    let endpoints = [Some(&metadata.authorization_endpoint), Some(&metadata.token_endpoint)];
    let others = [metadata.registration_endpoint.as_ref(), metadata.issuer.as_ref()];
    for address in endpoints.into_iter().chain(others).flatten() {
        let is_fine =
            address.parse().is_ok_and(|url: Url| is_safe(&url) && (is_loopback(resource) || !is_loopback(&url)));
        if !is_fine {
            return Err(failed(format!("the authorization server has an address that is not safe: `{address}`"))
                .with_hint("it must begin with https://; tell whoever runs the server"));
        }
    }
    Ok(())
}

fn no_login(settings: &Settings) -> Error {
    failed(format!("server `{}` wants no login", settings.name))
        .with_hint(format!("it can be used as it is; `pml server status {}` shows how it is", settings.name))
}

pub(super) fn no_metadata(name: &str) -> Error {
    failed(format!("server `{name}` wants a login, but does not say where: it has no OAuth metadata"))
        .with_hint("put a token into its `headers`, such as Authorization = \"Bearer ${TOKEN}\"")
}

/// What a server says to a request without a token.
enum Probe {
    /// Nothing without a login. How it says so.
    Wanted(Option<String>),
    /// Something else.
    Open,
    /// Its stream of events, which only ends with the connection.
    Stream,
}

async fn probe(client: &Client, url: &Url, headers: &HeaderMap, wire: HttpWire) -> Result<Probe, Error> {
    let send = async |request: reqwest::RequestBuilder| -> Result<Response, Error> {
        let response = timeout(PROBE, request.headers(headers.clone()).send()).await;
        let response = response.map_err(|_| failed(format!("the server does not answer within {PROBE:?}")))?;
        response.map_err(|err| failed(unreachable(&err).message).caused_by(err.without_url()))
    };
    if wire != HttpWire::Sse {
        let client_info = json!({ "name": CLIENT_NAME, "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": LEGACY[0], "capabilities": {}, "clientInfo": client_info });
        let mut session = None;
        let mut is_open = false;
        // Some let everybody in, but nobody do anything.
        for (method, params) in [(method::INITIALIZE, params), (method::TOOLS_LIST, json!({}))] {
            let body = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
            let mut post = client.post(url.clone()).header(ACCEPT, "application/json, text/event-stream");
            if let Some(session) = &session {
                post = post.header(SESSION, session);
            }
            let response = send(post.header(CONTENT_TYPE, "application/json").body(body.to_string())).await?;
            if response.status() == StatusCode::UNAUTHORIZED {
                return Ok(Probe::Wanted(challenge(&response)));
            }
            session = session.or_else(|| response.headers().get(SESSION).cloned());
            is_open |= response.status().is_success();
        }
        if let Some(session) = session {
            let _ = send(client.delete(url.clone()).header(SESSION, session)).await;
        }
        if is_open || wire == HttpWire::Streamable {
            return Ok(Probe::Open);
        }
    }
    let response = send(client.get(url.clone()).header(ACCEPT, "text/event-stream")).await?;
    match response.status() {
        StatusCode::UNAUTHORIZED => Ok(Probe::Wanted(challenge(&response))),
        status if status.is_success() => Ok(Probe::Stream),
        _ => Ok(Probe::Open),
    }
}

/// The header that says how to log in. There may be several, for several ways.
fn challenge(response: &Response) -> Option<String> {
    let all: Vec<_> =
        response.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()).collect();
    let telling = all.iter().find(|value| value.contains("resource_metadata"));
    let bearer = all.iter().find(|value| value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer")));
    telling.or(bearer).map(|value| (*value).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_over_tls_or_stay_on_this_machine() {
        let table = [
            ("https://example.org/mcp", true),
            ("http://127.0.0.1:80/mcp", true),
            ("http://localhost/mcp", true),
            ("http://a.localhost/mcp", true),
            ("http://[::1]:8000/mcp", true),
            ("http://example.org/mcp", false),
            ("http://10.0.0.1/mcp", false),
            ("http://localhost.example.org/mcp", false),
            ("ftp://example.org", false),
        ];
        for (url, expected) in table {
            assert_eq!(is_safe(&url.parse().unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn an_authorization_server_in_the_open_is_refused() {
        let metadata = |token_endpoint: &str| {
            let mut metadata = AuthorizationMetadata::default();
            metadata.authorization_endpoint = "https://auth.example.org/authorize".to_owned();
            metadata.token_endpoint = token_endpoint.to_owned();
            metadata
        };
        let table = [
            ("https://a.example.org/mcp", "https://auth.example.org/token", true),
            ("https://a.example.org/mcp", "http://auth.example.org/token", false),
            // A server elsewhere may not send pml to what listens on this machine.
            ("https://a.example.org/mcp", "http://127.0.0.1/token", false),
            ("https://a.example.org/mcp", "https://localhost/token", false),
            ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/token", true),
        ];
        for (resource, token_endpoint, expected) in table {
            let checked = check_endpoints(&resource.parse().unwrap(), &metadata(token_endpoint));
            assert_eq!(checked.is_ok(), expected, "{resource} {token_endpoint}");
        }
    }
}
