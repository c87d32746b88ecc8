//! The login of one server as its requests need it: found, renewed in time, taken up when it is new.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pml_wire::ErrorCode;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::{
    super::{
        failure::{Failure, Retry},
        settings::{OAuth, Secret, Tokens},
    },
    renewal::{NotRenewed, renew},
    store::{Login, Logins, Stamp},
};
use crate::clock::now_millis;

/// How long nobody tries again after a renewal has failed.
const PAUSE: Duration = Duration::from_secs(5);

/// The login of one server. Shared by all its connections.
#[derive(Debug)]
pub(super) struct Bearer {
    pub(super) server: String,
    pub(super) url: Secret,
    pub(super) oauth: OAuth,
    pub(super) logins: Logins,
    /// Where tokens are told to, so that they are blotted out.
    pub(super) tokens: Tokens,
    /// Renewals that go on, also when whoever asked for them has gone.
    pub(super) tasks: TaskTracker,
    pub(super) known: Mutex<LoginFile>,
    /// Held while the login is renewed; the last one that failed, and when.
    pub(super) renewing: tokio::sync::Mutex<Option<(Instant, Failure)>>,
}

/// What is known of the file.
#[derive(Debug, Default)]
pub(super) struct LoginFile {
    /// The state of the file that was read.
    stamp: Option<Stamp>,
    login: Option<Arc<Login>>,
    /// A token that the server did not accept though it was new.
    refused: Option<Secret>,
    /// The state of the file with which the server last wanted another login.
    wanted: Option<Option<Stamp>>,
    /// The state in which the file could not be read, and why. Most servers want no login, so that alone is no failure.
    unreadable: Option<(Option<Stamp>, String)>,
}

impl Bearer {
    fn known(&self) -> MutexGuard<'_, LoginFile> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The login as it is in the file now, which is only read if it has changed. A file that cannot be read holds no
    /// login; [`Bearer::damage`] says why, should the server want one.
    async fn current(&self) -> Result<Option<Arc<Login>>, Failure> {
        let stamp = self.logins.stamp();
        {
            let mut known = self.known();
            if known.stamp == stamp {
                known.unreadable = None;
                return Ok(known.login.clone());
            }
        }
        let login = match self.logins.look_up(&self.server, &self.url).await {
            Ok(login) => login,
            Err(err) => {
                let mut known = self.known();
                let is_news = known.unreadable.as_ref().is_none_or(|(seen, _)| *seen != stamp);
                if is_news {
                    tracing::warn!(server = self.server, error = %err, "`credentials.json` cannot be used");
                }
                known.unreadable = Some((stamp, err.to_string()));
                // What was read before, such as a token that the user has logged out of, does not count any more.
                known.login = None;
                known.stamp = None;
                return Ok(None);
            }
        };
        for token in login.iter().flat_map(|login| [Some(&login.access_token), login.refresh_token.as_ref()]).flatten()
        {
            self.tokens.add(token);
        }
        let login = login.map(Arc::new);
        let mut known = self.known();
        // The stamp is older than what was read, if anything, so that a change in between is seen the next time.
        known.login.clone_from(&login);
        known.stamp = stamp;
        known.unreadable = None;
        Ok(login)
    }

    /// The login for a request, renewed if it is about to end.
    pub(super) async fn login(self: &Arc<Bearer>) -> Result<Option<Arc<Login>>, Failure> {
        let Some(login) = self.current().await? else { return Ok(None) };
        if !login.is_renewable() || !login.is_due(now_millis()) {
            return Ok(Some(login));
        }
        match self.renewed(Some(&login)).await {
            Ok(Some(renewed)) => Ok(Some(renewed)),
            // The server may still take what there is, or says that it does not. Who has logged out meanwhile has none.
            Ok(None) => self.current().await,
            Err(failure) if !login.is_over(now_millis()) => {
                tracing::debug!(server = self.server, "not renewed in advance: {}", failure.message);
                Ok(Some(login))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Another login than `old`, which is refused or about to end. `None` if only the user can give one.
    pub(super) async fn renewed(self: &Arc<Bearer>, old: Option<&Login>) -> Result<Option<Arc<Login>>, Failure> {
        let Some(current) = self.current().await? else { return Ok(None) };
        if is_other(&current, old) {
            return Ok(Some(current));
        }
        let is_refused = self.known().refused.as_ref() == Some(&current.access_token);
        if !current.is_renewable() || is_refused {
            return Ok(None);
        }
        // A call may be dropped at any time; the new token, which is the only one from then on, must
        // not be dropped with it.
        let bearer = Arc::clone(self);
        let renewal = self.tasks.spawn(async move { bearer.renew(&current).await });
        renewal.await.unwrap_or_else(|_| Err(unavailable("the renewal was stopped")))
    }

    /// Renews a login, unless somebody else does so or has done so, here or in another process.
    async fn renew(&self, old: &Login) -> Result<Option<Arc<Login>>, Failure> {
        let mut last = self.renewing.lock().await;
        if let Some(current) = self.current().await?.filter(|current| is_other(current, Some(old))) {
            return Ok(Some(current));
        }
        if let Some((_, failure)) = last.as_ref().filter(|(at, _)| at.elapsed() < PAUSE) {
            return Err(failure.clone());
        }
        let _lock = self.logins.lock_refresh(&self.server, &self.url).await.map_err(|err| unreadable(&err))?;
        let Some(current) = self.current().await? else { return Ok(None) };
        if is_other(&current, Some(old)) {
            return Ok(Some(current));
        }
        if !current.is_renewable() {
            return Ok(None);
        }
        let renewed = match renew(&current, &self.oauth).await {
            Ok(renewed) => renewed,
            Err(NotRenewed::Rejected(why)) => {
                tracing::warn!(server = self.server, "the login is over: {why}");
                // Nobody need try again.
                let ended = Login { is_rejected: true, refresh_token: None, ..Login::clone(&current) };
                self.logins.replace(&current.access_token, ended).await.map_err(|err| unreadable(&err))?;
                return Ok(self.current().await?.filter(|current| is_other(current, Some(old))));
            }
            Err(NotRenewed::Failed(why)) => {
                let failure = unavailable(&why);
                *last = Some((Instant::now(), failure.clone()));
                return Err(failure);
            }
        };
        *last = None;
        for token in [Some(&renewed.access_token), renewed.refresh_token.as_ref()].into_iter().flatten() {
            self.tokens.add(token);
        }
        match self.logins.replace(&current.access_token, renewed.clone()).await {
            Ok(true) => tracing::debug!(server = self.server, "the login is renewed"),
            Ok(false) => tracing::debug!(server = self.server, "the login was renewed, but is another by now, or none"),
            Err(err) => {
                // It works until this process ends.
                tracing::error!(server = self.server, error = %err, "the renewed login cannot be kept");
                let renewed = Arc::new(renewed);
                self.known().login = Some(Arc::clone(&renewed));
                return Ok(Some(renewed));
            }
        }
        self.current().await
    }

    /// The server does not take a token though it is new: another one would fare no better.
    pub(super) fn note_refused(&self, login: &Login) {
        self.known().refused = Some(login.access_token.clone());
    }

    /// The server wants another login than what was in the file when it was read.
    pub(super) fn note_wanted(&self) {
        let mut known = self.known();
        let seen = known.unreadable.as_ref().map_or(known.stamp, |(seen, _)| *seen);
        known.wanted = Some(seen);
    }

    /// Why the file of logins could not be read, if it could not.
    pub(super) fn damage(&self) -> Option<String> {
        self.known().unreadable.as_ref().map(|(_, why)| why.clone())
    }

    /// Has the file changed since the server wanted a login?
    pub(super) fn has_news(&self) -> bool {
        let wanted = self.known().wanted;
        wanted.is_some_and(|stamp| stamp != self.logins.stamp())
    }
}

fn is_other(current: &Login, old: Option<&Login>) -> bool {
    old.is_none_or(|old| old.access_token != current.access_token)
}

fn unreadable(err: &io::Error) -> Failure {
    let message = format!("`credentials.json` in the data folder cannot be used: {err}");
    Failure::new(ErrorCode::AuthRequired, message, Retry::Never)
}

fn unavailable(why: &str) -> Failure {
    let message = format!("the login could not be renewed: {why}");
    Failure::new(ErrorCode::ProviderUnavailable, message, Retry::Later)
}
