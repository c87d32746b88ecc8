//! What a failed login means, in words for the user.

use pml_wire::ErrorCode;
use rmcp::transport::auth::AuthError;

use crate::error::Error;

pub(super) fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::LoginFailed, message)
}

/// What rmcp's error means. Nothing in it is secret: codes and tokens are not in its messages.
pub(super) fn explain(err: AuthError) -> Error {
    match err {
        AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => failed(format!(
            "the authorization server calls itself `{received_issuer}`, but `{expected_issuer}` is expected"
        ))
        .with_hint("somebody may be trying to get at the login; tell whoever runs the server"),
        AuthError::AuthorizationServerMissingIssuer { expected_issuer } => {
            failed(format!("the authorization server `{expected_issuer}` does not say who it is, as it must"))
        }
        AuthError::RegistrationFailed(why) => failed(format!(
            "pml cannot register itself at the authorization server: {why}"
        ))
        .with_hint("register pml there by hand, and give its id: --client-id, or `client_id` in [servers.NAME.oauth]"),
        AuthError::MetadataError(why) => failed(format!("how to log in cannot be found out: {why}")),
        AuthError::TokenExchangeFailed(why) => failed(format!("the authorization server gives no token: {why}")),
        AuthError::PkceUnsupported => {
            failed("the authorization server does not support PKCE with S256, without which a login is not safe")
        }
        other => failed(other.to_string()),
    }
}
