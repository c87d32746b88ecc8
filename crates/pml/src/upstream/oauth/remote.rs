//! Requests to remote servers, with the login that belongs to them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use pml_wire::ErrorCode;
use reqwest::{
    Client, RequestBuilder, Response, StatusCode,
    header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE},
};
use rmcp::transport::auth::WWWAuthenticateParams;
use tokio_util::task::TaskTracker;

use super::{
    super::{
        failure::{Failure, Retry},
        settings::{Settings, Target},
        web::unreachable,
    },
    bearer::{Bearer, LoginFile},
    store::{Login, Logins},
};

/// The way to remote servers: one HTTP client, and the logins.
#[derive(Clone, Debug)]
pub struct Remote {
    client: Client,
    logins: Option<Logins>,
    bearers: Arc<Mutex<BTreeMap<String, Arc<Bearer>>>>,
    tasks: TaskTracker,
}

/// The way to one server.
#[derive(Clone, Debug)]
pub(in super::super) struct Sender {
    pub(in super::super) client: Client,
    server: String,
    /// The configuration has a token of its own.
    has_token: bool,
    bearer: Option<Arc<Bearer>>,
}

impl Remote {
    /// Without `logins`, nobody is logged in.
    pub fn new(client: Client, logins: Option<Logins>) -> Remote {
        Remote { client, logins, bearers: Arc::default(), tasks: TaskTracker::new() }
    }

    /// Waits for renewals that go on: what they bring is the only token there is.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(in super::super) fn sender(&self, settings: &Settings) -> Sender {
        let has_token = match &settings.target {
            Ok(Target::Http { headers, .. }) => headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")),
            _ => true,
        };
        let bearer = if has_token { None } else { self.bearer(settings) };
        Sender { client: self.client.clone(), server: settings.name.clone(), has_token, bearer }
    }

    fn bearer(&self, settings: &Settings) -> Option<Arc<Bearer>> {
        let (Some(logins), Ok(Target::Http { url, .. })) = (&self.logins, &settings.target) else { return None };
        let mut bearers = self.bearers.lock().unwrap_or_else(PoisonError::into_inner);
        // A server that is configured anew may be another one, under the same name.
        let known = bearers.get(&settings.name).filter(|bearer| {
            bearer.url == *url && bearer.oauth == settings.oauth && bearer.tokens.is_shared_with(&settings.tokens)
        });
        if let Some(bearer) = known {
            return Some(Arc::clone(bearer));
        }
        let bearer = Arc::new(Bearer {
            server: settings.name.clone(),
            url: url.clone(),
            oauth: settings.oauth.clone(),
            logins: logins.clone(),
            tokens: settings.tokens.clone(),
            tasks: self.tasks.clone(),
            known: Mutex::new(LoginFile::default()),
            renewing: tokio::sync::Mutex::default(),
        });
        bearers.insert(settings.name.clone(), Arc::clone(&bearer));
        Some(bearer)
    }

    /// Has somebody logged in since the server wanted that?
    pub(in super::super) fn has_news(&self, server: &str) -> bool {
        let bearer = self.bearers.lock().unwrap_or_else(PoisonError::into_inner).get(server).cloned();
        bearer.is_some_and(|bearer| bearer.has_news())
    }
}

impl Sender {
    /// Sends a request with the server's token. One that is refused is renewed, and the request sent once
    /// more; what is refused then needs the user.
    pub(in super::super) async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let Some(bearer) = &self.bearer else { return self.checked(plain(request).await?, None) };
        let login = bearer.login().await?;
        let again = request.try_clone();
        let response = plain(authorized(request, login.as_deref())).await?;
        let Some(again) = again.filter(|_| response.status() == StatusCode::UNAUTHORIZED) else {
            return self.checked(response, login.as_deref());
        };
        let Some(renewed) = bearer.renewed(login.as_deref()).await? else {
            return self.checked(response, login.as_deref());
        };
        let response = plain(authorized(again, Some(&renewed))).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            bearer.note_refused(&renewed);
        }
        self.checked(response, Some(&renewed))
    }

    /// An answer that is not about the login, or what to do about the login.
    fn checked(&self, response: Response, login: Option<&Login>) -> Result<Response, Failure> {
        let status = response.status();
        if self.has_token || !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Ok(response);
        }
        if let Some(bearer) = &self.bearer {
            bearer.note_wanted();
        }
        let header = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let asked = header.map(|header| WWWAuthenticateParams::parse(header, response.url())).unwrap_or_default();
        let command = format!("pml server login {}", word(&self.server).unwrap_or_else(|| "NAME".to_owned()));
        let message = match login {
            Some(login) if asked.is_insufficient_scope() => {
                let mut scopes = login.scopes.clone();
                scopes.extend(asked.scope.iter().flat_map(|scopes| scopes.split_whitespace()).map(str::to_owned));
                let mut seen = std::collections::BTreeSet::new();
                scopes.retain(|scope| seen.insert(scope.clone()));
                let words = scopes.iter().filter_map(|scope| word(scope));
                let options: String = words.map(|scope| format!(" --scope {scope}")).collect();
                format!("the login does not cover this (HTTP {status}); log in for more: `{command}{options}`")
            }
            Some(_) => format!("the server does not accept the login (HTTP {status}); log in again: `{command}`"),
            None if let Some(damage) = self.bearer.as_ref().and_then(|bearer| bearer.damage()) => {
                format!(
                    "the server wants a login (HTTP {status}), and `credentials.json` in the data folder cannot be used: {damage}"
                )
            }
            None => {
                // Where to find out more is for programs to read.
                let telling = header.filter(|_| asked.resource_metadata_url.is_none());
                let wants = telling.map(|wants| format!("; it wants {wants}")).unwrap_or_default();
                format!(
                    "the server wants a login (HTTP {status}){wants}; log in: `{command}`, or put a token into its `headers`"
                )
            }
        };
        Err(Failure::new(ErrorCode::AuthRequired, message, Retry::Never))
    }
}

/// A text as a shell takes it for one word. The server names scopes, and users copy commands.
fn word(text: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '_' | '/' | '-');
    match text {
        "" => None,
        _ if text.chars().all(is_plain) && !text.starts_with('-') => Some(text.to_owned()),
        // A backtick would end the command where the message shows it.
        _ if text.contains(['\'', '`']) || text.contains(char::is_control) || text.starts_with('-') => None,
        _ => Some(format!("'{text}'")),
    }
}

fn authorized(request: RequestBuilder, login: Option<&Login>) -> RequestBuilder {
    let value = login.and_then(|login| HeaderValue::from_str(&format!("Bearer {}", login.access_token.reveal())).ok());
    match value {
        Some(mut value) => {
            value.set_sensitive(true);
            request.header(AUTHORIZATION, value)
        }
        None => request,
    }
}

async fn plain(request: RequestBuilder) -> Result<Response, Failure> {
    request.send().await.map_err(|err| unreachable(&err))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::upstream::{HttpWire, Secret};

    #[test]
    fn a_server_under_an_old_name_gets_no_old_token() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let remote = Remote::new(Client::new(), Some(Logins::new(Path::new("/nowhere"))));
        let target = |url: &str| Target::Http { url: Secret::new(url), headers: BTreeMap::new(), wire: HttpWire::Auto };
        let bearer = |settings: &Settings| remote.sender(settings).bearer.unwrap();
        let one = Settings::new("a", Ok(target("https://one.example/mcp")));
        let two = Settings::new("a", Ok(target("https://two.example/mcp")));
        assert!(Arc::ptr_eq(&bearer(&one), &bearer(&one.clone())), "connections share a login");
        assert_eq!(bearer(&two).url, Secret::new("https://two.example/mcp"));
        assert_eq!(bearer(&one).url, Secret::new("https://one.example/mcp"));
    }

    #[test]
    fn what_a_server_names_does_nothing_in_a_shell() {
        let table = [
            ("mcp:read", Some("mcp:read")),
            ("https://a.example/scope.write", Some("https://a.example/scope.write")),
            ("$(reboot)", Some("'$(reboot)'")),
            ("a;b", Some("'a;b'")),
            ("a'b", None),
            ("a`b`", None),
            ("--config", None),
            ("a\nb", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(word(text).as_deref(), expected, "{text}");
        }
    }
}
