//! Tokens that need no user: for a login that is there already, and for pml itself.

use std::time::Duration;

use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, ClientCredentialsConfig, CredentialStore as _, InMemoryCredentialStore,
    OAuthClientConfig, OAuthTokenResponse, StoredCredentials,
};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::{
    super::settings::{Grant, OAuth, Secret},
    store::{Login, Terms},
};
use crate::clock::now_millis;

/// How long one token may take.
pub(super) const RENEWAL: Duration = Duration::from_secs(30);

/// Why there is no new token.
#[derive(Debug)]
pub(super) enum NotRenewed {
    /// The authorization server does not want this login any more.
    Rejected(String),
    /// It may work later.
    Failed(String),
}

/// Gets another token for a login. The refresh token is used up by that.
pub(super) async fn renew(login: &Login, oauth: &OAuth) -> Result<Login, NotRenewed> {
    ask(&login.terms, &login.scopes, oauth, login.refresh_token.as_ref()).await
}

/// Gets the first token for pml itself.
pub(super) async fn first(terms: &Terms, scopes: &[String], oauth: &OAuth) -> Result<Login, NotRenewed> {
    ask(terms, scopes, oauth, None).await
}

async fn ask(terms: &Terms, scopes: &[String], oauth: &OAuth, refresh: Option<&Secret>) -> Result<Login, NotRenewed> {
    let asked = timeout(RENEWAL, ask_unbounded(terms, scopes, oauth, refresh)).await;
    asked.unwrap_or_else(|_| Err(NotRenewed::Failed(format!("no answer within {RENEWAL:?}"))))
}

async fn ask_unbounded(
    terms: &Terms,
    scopes: &[String],
    oauth: &OAuth,
    refresh_token: Option<&Secret>,
) -> Result<Login, NotRenewed> {
    let mut manager = AuthorizationManager::new(terms.resource.as_str()).await.map_err(classify)?;
    // Without discovery rmcp takes the address for the name of the resource, with a slash behind a bare
    // host. Authorization servers may compare letter by letter.
    if Url::parse(&terms.resource).is_ok_and(|url| url.as_str() != terms.resource) {
        let _ = manager.resolve_metadata().await;
    }
    manager.set_metadata(terms.metadata.clone());
    // The configuration may have a newer one.
    let configured = oauth.client_secret.as_ref().filter(|_| oauth.client_id.as_ref() == Some(&terms.client_id));
    let secret = configured.or(terms.client_secret.as_ref()).map(|secret| secret.reveal().to_owned());
    let granted = match terms.grant {
        Grant::AuthorizationCode => refresh(&mut manager, terms, scopes, secret, refresh_token).await,
        Grant::ClientCredentials => {
            let config = ClientCredentialsConfig::ClientSecret {
                client_id: terms.client_id.clone(),
                client_secret: secret.unwrap_or_default(),
                scopes: scopes.to_owned(),
                resource: Some(terms.resource.clone()),
            };
            manager.validate_client_credentials_metadata(&config).map_err(classify)?;
            manager.configure_client_credentials(&config).map_err(classify)?;
            manager.exchange_client_credentials(&config).await
        }
    };
    let token = Token::read(&granted.map_err(classify)?).map_err(NotRenewed::Failed)?;
    let granted_scopes = match manager.get_current_scopes().await {
        // What is not said is what was asked for.
        none if none.is_empty() => scopes.to_owned(),
        granted => granted,
    };
    Ok(token.under(terms.clone(), granted_scopes))
}

fn classify(err: AuthError) -> NotRenewed {
    match err {
        AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_) => NotRenewed::Rejected(err.to_string()),
        AuthError::TokenRefreshFailed(why) | AuthError::ClientCredentialsError(why) => {
            // The registration is gone, and with it all that was granted to it.
            let is_final = ["invalid_client", "unauthorized_client"].iter().any(|code| why.contains(code));
            if is_final { NotRenewed::Rejected(why) } else { NotRenewed::Failed(why) }
        }
        other => NotRenewed::Failed(other.to_string()),
    }
}

/// Uses up a refresh token.
async fn refresh(
    manager: &mut AuthorizationManager,
    terms: &Terms,
    scopes: &[String],
    secret: Option<String>,
    refresh_token: Option<&Secret>,
) -> Result<OAuthTokenResponse, AuthError> {
    let mut config = OAuthClientConfig::new(&terms.client_id, &terms.redirect_uri);
    if let Some(secret) = secret {
        config = config.with_client_secret(secret);
    }
    manager.configure_client(config)?;
    // rmcp wants to have stored it itself. Of what it would have stored, only this counts.
    let refresh_token = refresh_token.map(Secret::reveal);
    let token = json!({ "access_token": "", "token_type": "bearer", "refresh_token": refresh_token });
    let token = serde_json::from_value(token).map_err(|err| AuthError::InternalError(err.to_string()))?;
    let stored = StoredCredentials::new(terms.client_id.clone(), Some(token), scopes.to_owned(), None);
    let store = InMemoryCredentialStore::new();
    store.save(stored.with_issuer(terms.issuer.clone())).await?;
    manager.set_credential_store(store);
    manager.refresh_token().await
}

/// The parts of a token that count.
#[derive(Deserialize)]
pub(super) struct Token {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    expires_in: Option<u64>,
}

impl Token {
    pub(super) fn read(granted: &OAuthTokenResponse) -> Result<Token, String> {
        let token = serde_json::to_value(granted).and_then(serde_json::from_value::<Token>);
        let token = token.map_err(|_| "the authorization server's answer holds no token".to_owned())?;
        match token.token_type.eq_ignore_ascii_case("bearer") {
            true => Ok(token),
            false => Err(format!("the token is of the kind `{}`, which pml cannot use", token.token_type)),
        }
    }

    /// The login that it is.
    pub(super) fn under(self, terms: Terms, scopes: Vec<String>) -> Login {
        let now = now_millis();
        Login {
            terms,
            scopes,
            access_token: Secret::new(self.access_token),
            refresh_token: self.refresh_token.map(Secret::new),
            obtained_at_ms: now,
            expires_at_ms: self.expires_in.map(|seconds| now.saturating_add(seconds.saturating_mul(1000))),
            is_rejected: false,
        }
    }
}
