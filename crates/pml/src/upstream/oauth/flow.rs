//! A login from its beginning to its token.

use reqwest::{Client, Url};
use rmcp::transport::auth::{AuthorizationMetadata, AuthorizationRequest, AuthorizationSession, OAuthClientConfig};
use serde_json::json;
use tokio::time::timeout;

use super::{
    super::settings::{Grant, Secret, Settings},
    callback::{Callbacks, Expected, Reply, Waiting, judge, pasted},
    discovery::{CLIENT_NAME, LoginTerms, find, no_metadata},
    explain::{explain, failed},
    renewal::{NotRenewed, RENEWAL, Token, first},
    store::{Login, Terms},
};
use crate::error::Error;

/// The only further field of the metadata that a renewal needs.
const AUTH_METHODS: &str = "token_endpoint_auth_methods_supported";

/// A login that waits for the user.
#[expect(missing_debug_implementations, reason = "rmcp's session has none, and holds secrets")]
pub struct Begun {
    session: AuthorizationSession,
    waiting: Waiting,
    expected: Expected,
    terms: Terms,
}

/// Finds out how to log in at a server, registers pml there if need be, and prepares everything.
pub async fn begin(client: &Client, settings: &Settings, callbacks: Callbacks) -> Result<Begun, Error> {
    let LoginTerms { mut manager, metadata, url, resource, scopes, is_guess } = find(client, settings).await?;
    let oauth = &settings.oauth;
    let redirect_uri = callbacks.redirect_uri().to_owned();
    let takes_documents = metadata.additional_fields.get("client_id_metadata_document_supported");
    let document = oauth.client_metadata_url.as_ref().filter(|_| takes_documents == Some(&json!(true)));
    let (client_id, client_secret) = match (&oauth.client_id, document) {
        (Some(id), _) => (id.clone(), oauth.client_secret.clone()),
        (None, Some(document)) => (document.clone(), None),
        (None, None) => {
            let scopes: Vec<_> = scopes.iter().map(String::as_str).collect();
            let registered = manager.register_client(CLIENT_NAME, &redirect_uri, &scopes).await;
            let config = registered.map_err(|err| match is_guess {
                true => no_metadata(&settings.name),
                false => explain(err),
            })?;
            (config.client_id, config.client_secret.map(Secret::new))
        }
    };
    let mut request = AuthorizationRequest::new(&redirect_uri).with_scopes(scopes).with_initial_scope_selection();
    request = request.with_preregistered_client(&client_id);
    if let Some(secret) = &client_secret {
        request = request.with_client_secret(secret.reveal());
    }
    let session = AuthorizationSession::new(manager, request).await.map_err(|(_, err)| explain(err))?;
    let value = |wanted: &str| parameter(session.get_authorization_url(), wanted);
    let expected = Expected {
        state: value("state").ok_or_else(|| failed("the login has no state"))?,
        issuer: metadata.issuer.clone(),
    };
    let terms = Terms {
        server: settings.name.clone(),
        url,
        issuer: metadata.issuer.clone(),
        resource: value("resource").unwrap_or_else(|| resource.to_string()),
        grant: Grant::AuthorizationCode,
        client_id,
        client_secret,
        redirect_uri,
        metadata: trimmed(metadata),
    };
    Ok(Begun { waiting: callbacks.wait(expected.clone()), expected, terms, session })
}

/// Logs in as pml itself, for which nobody need be asked. The login is not kept yet.
pub async fn begin_alone(client: &Client, settings: &Settings) -> Result<Login, Error> {
    let LoginTerms { mut manager, metadata, url, resource, scopes, .. } = find(client, settings).await?;
    let oauth = &settings.oauth;
    let client_id = oauth.client_id.clone().unwrap_or_default();
    manager.configure_client(OAuthClientConfig::new(&client_id, resource.as_str())).map_err(explain)?;
    // rmcp tells what the resource is called only in the address of the page on which users log in.
    let page = manager.get_authorization_url(&[]).await.unwrap_or_default();
    let terms = Terms {
        server: settings.name.clone(),
        url,
        issuer: metadata.issuer.clone(),
        resource: parameter(&page, "resource").unwrap_or_else(|| resource.to_string()),
        grant: Grant::ClientCredentials,
        client_id,
        client_secret: oauth.client_secret.clone(),
        redirect_uri: String::new(),
        metadata: trimmed(metadata),
    };
    first(&terms, &scopes, oauth).await.map_err(|err| match err {
        NotRenewed::Rejected(why) | NotRenewed::Failed(why) => {
            failed(format!("the authorization server gives no token: {why}"))
        }
    })
}

impl Begun {
    /// The page on which the user logs in.
    pub fn address(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// The answer that comes through the browser.
    pub async fn reply(&mut self) -> Reply {
        self.waiting.reply().await
    }

    /// The answer in what the user has pasted, if it is one.
    pub fn pasted(&self, text: &str) -> Option<Reply> {
        judge(&pasted(text, &self.terms.redirect_uri)?, &self.expected)
    }

    /// Gives up.
    pub async fn close(self) {
        self.waiting.close().await;
    }

    /// Turns an answer into a login, which is not kept yet.
    pub async fn finish(self, reply: Reply) -> Result<Login, Error> {
        let login = async {
            let address = match reply {
                Reply::Granted(address) => address,
                Reply::Denied(why) => return Err(failed(format!("the login was denied: {why}"))),
                Reply::WrongIssuer(issuer) => {
                    let expected = self.expected.issuer.clone().unwrap_or_default();
                    return Err(failed(format!(
                        "the answer comes from `{issuer}`, but the login was begun at `{expected}`; it is not used"
                    )));
                }
            };
            let granted = timeout(RENEWAL, self.session.handle_callback_url(&address)).await;
            let granted =
                granted.map_err(|_| failed(format!("the authorization server gives no token within {RENEWAL:?}")))?;
            let token = Token::read(&granted.map_err(explain)?).map_err(failed)?;
            Ok(token.under(self.terms, self.session.auth_manager.get_current_scopes().await))
        };
        let login = login.await;
        self.waiting.close().await;
        login
    }
}

fn parameter(address: &str, wanted: &str) -> Option<String> {
    let address: Url = address.parse().ok()?;
    address.query_pairs().filter(|(key, _)| key == wanted).map(|(_, value)| value.into_owned()).last()
}

/// As much of the metadata as is kept.
fn trimmed(mut metadata: AuthorizationMetadata) -> AuthorizationMetadata {
    metadata.additional_fields.retain(|key, _| key == AUTH_METHODS);
    metadata
}
