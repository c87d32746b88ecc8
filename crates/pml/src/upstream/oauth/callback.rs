//! Where the browser comes back to after a login: a small web server on this machine, for one answer.

use std::{io, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use reqwest::Url;
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

/// How long the last page may take to be sent.
const GOODBYE: Duration = Duration::from_secs(1);

const THANKS: &str = "pml has its answer. You may close this page and go back to the terminal.\n";
const NO_ANSWER: &str = "This is not the answer to a login that pml has begun.\n";

/// What came back from the authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The user agreed: the whole address, with the code.
    Granted(String),
    /// The user or the authorization server did not agree: why.
    Denied(String),
    /// Somebody else answers than was asked.
    WrongIssuer(String),
}

/// What an answer must look like.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// Known to nobody but pml, the browser and the authorization server.
    pub(super) state: String,
    pub(super) issuer: Option<String>,
}

/// Listens on a port of this machine until it is dropped or closed.
#[derive(Debug)]
pub struct Callbacks {
    redirect_uri: String,
    listener: TcpListener,
}

/// The same, once it is known what to wait for.
#[derive(Debug)]
pub(super) struct Waiting {
    replies: mpsc::Receiver<Reply>,
    stop: CancellationToken,
    server: JoinHandle<io::Result<()>>,
}

struct Shared {
    redirect_uri: String,
    expected: Expected,
    replies: mpsc::Sender<Reply>,
}

impl Callbacks {
    /// Takes that port, or any.
    pub async fn listen(port: Option<u16>) -> io::Result<Callbacks> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await?;
        let redirect_uri = format!("http://127.0.0.1:{}/callback", listener.local_addr()?.port());
        Ok(Callbacks { redirect_uri, listener })
    }

    pub(super) fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    pub(super) fn wait(self, expected: Expected) -> Waiting {
        let (sender, replies) = mpsc::channel(1);
        let shared = Arc::new(Shared { redirect_uri: self.redirect_uri, expected, replies: sender });
        let router = Router::new().route("/callback", get(answer)).with_state(shared);
        let stop = CancellationToken::new();
        let serving = axum::serve(self.listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
        let server = tokio::spawn(async move { serving.await });
        Waiting { replies, stop, server }
    }
}

impl Waiting {
    /// The first answer that fits. Safe to drop and to call again.
    pub(super) async fn reply(&mut self) -> Reply {
        match self.replies.recv().await {
            Some(reply) => reply,
            // The web server holds the other end, and does not end before it is told to.
            None => std::future::pending().await,
        }
    }

    /// Stops to listen, after the last page is sent.
    pub(super) async fn close(self) {
        self.stop.cancel();
        let abort = self.server.abort_handle();
        if timeout(GOODBYE, self.server).await.is_err() {
            abort.abort();
        }
    }
}

async fn answer(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> impl IntoResponse {
    let address = format!("{}?{}", shared.redirect_uri, query.unwrap_or_default());
    // A second answer, by reloading the page, is none.
    let is_taken = judge(&address, &shared.expected).is_some_and(|reply| shared.replies.try_send(reply).is_ok());
    let (status, page) = match is_taken {
        true => (StatusCode::OK, THANKS),
        false => (StatusCode::BAD_REQUEST, NO_ANSWER),
    };
    // The code is in the address: it is not to be kept or passed on.
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (status, headers, page)
}

/// What an address with an answer says. `None` if it is no answer to what was asked: anybody can open
/// a page on this machine.
pub(super) fn judge(address: &str, expected: &Expected) -> Option<Reply> {
    let address: Url = address.parse().ok()?;
    let value = |wanted: &str| {
        let mut values = address.query_pairs().filter(|(key, _)| key == wanted).map(|(_, value)| value.into_owned());
        values.next().filter(|value| !value.is_empty())
    };
    if value("state")? != expected.state {
        return None;
    }
    // Before anything else that it says is believed.
    if let (Some(expected), Some(received)) = (&expected.issuer, value("iss"))
        && *expected != received
    {
        return Some(Reply::WrongIssuer(received));
    }
    if let Some(error) = value("error") {
        let described = value("error_description").map(|text| format!(": {text}")).unwrap_or_default();
        return Some(Reply::Denied(format!("{error}{described}")));
    }
    value("code").map(|_| Reply::Granted(address.to_string()))
}

/// The address in what the user has pasted: all of it, or what is behind its question mark.
pub(super) fn pasted(text: &str, redirect_uri: &str) -> Option<String> {
    let text = text.trim();
    match text.contains("://") {
        true => Some(text.to_owned()),
        false => text.contains("code=").then(|| format!("{redirect_uri}?{}", text.trim_start_matches('?'))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_fits_is_one() {
        let expected = Expected { state: "s3cret".to_owned(), issuer: Some("https://auth".to_owned()) };
        let granted = |query: &str| Some(Reply::Granted(format!("http://127.0.0.1:1/callback?{query}")));
        #[rustfmt::skip]
        let table = [
            ("code=c&state=s3cret", granted("code=c&state=s3cret")),
            ("code=c&state=s3cret&iss=https%3A%2F%2Fauth", granted("code=c&state=s3cret&iss=https%3A%2F%2Fauth")),
            ("code=c&state=other", None),
            ("code=c", None),
            ("state=s3cret", None),
            ("code=&state=s3cret", None),
            ("", None),
            ("error=access_denied&state=s3cret", Some(Reply::Denied("access_denied".to_owned()))),
            ("error=a&error_description=no+way&state=s3cret", Some(Reply::Denied("a: no way".to_owned()))),
            ("error=access_denied&state=other", None),
            ("code=c&state=s3cret&iss=https://evil", Some(Reply::WrongIssuer("https://evil".to_owned()))),
            ("error=x&error_description=phish&state=s3cret&iss=https://evil", Some(Reply::WrongIssuer("https://evil".to_owned()))),
        ];
        for (query, reply) in table {
            assert_eq!(judge(&format!("http://127.0.0.1:1/callback?{query}"), &expected), reply, "{query}");
        }
    }

    #[test]
    fn an_answer_may_be_pasted_in_part() {
        let whole = Some("http://r?code=c&state=s".to_owned());
        for text in ["http://r?code=c&state=s\n", "code=c&state=s", " ?code=c&state=s"] {
            assert_eq!(pasted(text, "http://r"), whole, "{text}");
        }
        for text in ["", "yes", "c"] {
            assert_eq!(pasted(text, "http://r"), None, "{text}");
        }
    }
}
