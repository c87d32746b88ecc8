//! Who is let in: the host that was asked for, the page that asks, the token, the rate, in this order.
//!
//! A browser that was lured to a page of somebody else sends a foreign `Origin`, or (if its resolver was lured too) a foreign
//! `Host`; neither gets further. There is no CORS grant.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::http::{HeaderMap, header};

use super::{
    super::results::Caller,
    tokens::{NamedToken, TokenBook},
};
use crate::{
    digest::{same, sha256},
    rate::Bucket,
};

/// Paths that need no token, because they tell nothing: whether pml lives, and an empty page.
pub(super) const OPEN: [&str; 4] = ["/", "/healthz", "/live.css", "/live.js"];
/// The path that named clients may use.
const MCP: &str = "/mcp";
/// Requests without the right token that one address may make in a minute.
const FAILURES: NonZeroU32 = NonZeroU32::new(60).expect("not zero");
/// Addresses that are remembered.
const MAX_ADDRESSES: usize = 10_000;

/// Who may come in.
#[derive(Debug)]
pub struct Access {
    /// What every request must carry; `None` only for this machine itself.
    pub token: Option<String>,
    /// The tokens of named clients, if there is a place for them.
    pub names: Option<TokenBook>,
    /// The profile of clients without a name.
    pub profile: Option<String>,
    /// Names under which pml is reached, besides those of this machine.
    pub hosts: Vec<String>,
    /// Pages that may use it.
    pub origins: Vec<String>,
    /// Requests that one address may make in a minute.
    pub requests_per_minute: NonZeroU32,
}

/// What a request that was let in may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Grant {
    /// The profile that the client is held to.
    pub(super) profile: Option<Arc<str>>,
}

#[derive(Debug)]
pub(super) struct Guard {
    access: Access,
    /// Where pml listens.
    address: SocketAddr,
    rates: Mutex<HashMap<IpAddr, Arc<Rates>>>,
    /// What each named client has left, wherever it comes from.
    named: Mutex<HashMap<String, Arc<Bucket>>>,
}

/// What one address has left.
#[derive(Debug)]
struct Rates {
    /// With the token.
    requests: Bucket,
    /// Without, where none is needed.
    open: Bucket,
    /// With a wrong one. Each its own, so that whoever has none takes nothing from those who have.
    failures: Bucket,
}

/// Why a request is not let in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It has too long a head.
    Head,
    /// It names no host, or several: HTTP wants one.
    NotOneHost,
    Host,
    Origin,
    Token,
    /// Only the token of this pml itself opens this.
    Owner,
    /// Come back then.
    Rate(Duration),
}

impl Guard {
    pub(super) fn new(access: Access, address: SocketAddr) -> Guard {
        Guard { access, address, rates: Mutex::default(), named: Mutex::default() }
    }

    pub(super) fn judge(&self, headers: &HeaderMap, path: &str, peer: IpAddr) -> Result<(Caller, Grant), Refusal> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("\u{0}"));
        let host = text(header::HOST).unwrap_or_default();
        let count = |name| headers.get_all(name).iter().count();
        if count(header::HOST) != 1 {
            return Err(Refusal::NotOneHost);
        }
        if !self.is_own_host(host) {
            return Err(Refusal::Host);
        }
        if let Some(origin) = text(header::ORIGIN)
            && (!self.is_welcome(origin, host) || count(header::ORIGIN) != 1)
        {
            return Err(Refusal::Origin);
        }
        let rates = self.rates(peer);
        if OPEN.contains(&path) {
            rates.open.take().map_err(Refusal::Rate)?;
            return Ok((Caller::new("anyone"), Grant::default()));
        }
        let given = text(header::AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        // Hashes are compared, so how long that takes says nothing about the token.
        let digest = self.access.token.as_deref().map(sha256);
        let is_own = digest.as_deref().zip(given).is_some_and(|(digest, given)| same(digest, &sha256(given)));
        let holder = given.zip(self.access.names.as_ref()).and_then(|(given, names)| names.holder(given));
        let own = || Grant { profile: self.access.profile.as_deref().map(Arc::from) };
        match (digest, holder) {
            (Some(digest), _) if is_own => {
                rates.requests.take().map_err(Refusal::Rate)?;
                Ok((Caller::new(format!("http:{}", &digest[..16])), own()))
            }
            (_, Some(NamedToken { name, profile, .. })) => {
                self.rate_of(&name).take().map_err(Refusal::Rate)?;
                // What everybody does is not for every client to see.
                match path == MCP {
                    true => Ok((Caller::new(name), Grant { profile: profile.map(Arc::from) })),
                    false => Err(Refusal::Owner),
                }
            }
            (None, None) => {
                rates.requests.take().map_err(Refusal::Rate)?;
                Ok((Caller::new("http"), own()))
            }
            (Some(_), None) => match rates.failures.take() {
                Ok(()) => Err(Refusal::Token),
                Err(wait) => Err(Refusal::Rate(wait)),
            },
        }
    }

    fn rate_of(&self, name: &str) -> Arc<Bucket> {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() >= MAX_ADDRESSES && !named.contains_key(name) {
            named.clear();
        }
        let limit = self.access.requests_per_minute;
        Arc::clone(named.entry(name.to_owned()).or_insert_with(|| Arc::new(Bucket::new(limit))))
    }

    /// Is this how pml is reached?
    pub(super) fn is_own_host(&self, host: &str) -> bool {
        let (name, port) = split_port(host);
        let is_listed =
            self.access.hosts.iter().any(|own| own.eq_ignore_ascii_case(host) || own.eq_ignore_ascii_case(name));
        if is_listed {
            return true;
        }
        // A name can be made to lead here by whoever owns it; an address leads where it says.
        let is_address = name.parse::<IpAddr>().is_ok();
        let is_port = port.is_none_or(|port| port.parse() == Ok(self.address.port()));
        (name.eq_ignore_ascii_case("localhost") || is_address) && is_port
    }

    /// May this page use pml? Its own pages may.
    fn is_welcome(&self, origin: &str, host: &str) -> bool {
        self.access.origins.iter().any(|own| own.trim_end_matches('/').eq_ignore_ascii_case(origin))
            || origin.eq_ignore_ascii_case(&format!("http://{host}"))
    }

    fn rates(&self, peer: IpAddr) -> Arc<Rates> {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        if rates.len() >= MAX_ADDRESSES && !rates.contains_key(&peer) {
            rates.clear(); // a flood of addresses; each begins anew
        }
        let limit = self.access.requests_per_minute;
        let fresh = || {
            let (requests, open) = (Bucket::new(limit), Bucket::new(limit));
            Arc::new(Rates { requests, open, failures: Bucket::new(FAILURES) })
        };
        Arc::clone(rates.entry(peer).or_insert_with(fresh))
    }
}

/// A host without its port, and the port. Brackets around an address are taken off.
fn split_port(host: &str) -> (&str, Option<&str>) {
    if let Some(rest) = host.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((address, "")) => (address, None),
            Some((address, port)) if port.starts_with(':') => (address, port.strip_prefix(':')),
            _ => (host, None),
        };
    }
    match host.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn guard(token: Option<&str>) -> Guard {
        let access = Access {
            token: token.map(str::to_owned),
            names: None,
            profile: None,
            hosts: vec!["pml.example".to_owned()],
            origins: vec!["https://app.example".to_owned()],
            requests_per_minute: NonZeroU32::new(1000).unwrap(),
        };
        Guard::new(access, "127.0.0.1:8080".parse().unwrap())
    }

    fn judge(guard: &Guard, headers: &[(&str, &str)]) -> Result<(Caller, Grant), Refusal> {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        guard.judge(&all, "/mcp", "127.0.0.1".parse().unwrap())
    }

    #[tokio::test]
    async fn only_those_who_should_get_in() {
        let guard = guard(Some("secret"));
        let right = ("authorization", "Bearer secret");
        type Headers<'a> = &'a [(&'a str, &'a str)];
        let table: [(Headers<'_>, Result<(), Refusal>); 26] = [
            (&[("host", "localhost:8080"), right], Ok(())),
            (&[("host", "127.0.0.1:8080"), right], Ok(())),
            (&[("host", "[::1]:8080"), right], Ok(())),
            (&[("host", "localhost"), right], Ok(())),
            (&[("host", "192.168.0.7:8080"), right], Ok(())),
            (&[("host", "pml.example"), right], Ok(())),
            (&[("host", "PML.example:443"), right], Ok(())),
            (&[("host", "localhost:8080"), ("authorization", "bearer secret")], Ok(())),
            (&[("host", "localhost:8080"), ("origin", "http://localhost:8080"), right], Ok(())),
            (&[("host", "localhost:8080"), ("origin", "https://app.example"), right], Ok(())),
            (&[right], Err(Refusal::NotOneHost)),
            (&[("host", "localhost:8080"), ("host", "localhost:8080"), right], Err(Refusal::NotOneHost)),
            (&[("host", "localhost:8080"), ("host", "evil.example"), right], Err(Refusal::NotOneHost)),
            (&[("host", ""), right], Err(Refusal::Host)),
            (&[("host", "evil.example"), right], Err(Refusal::Host)),
            (&[("host", "localhost:9"), right], Err(Refusal::Host)),
            (&[("host", "localhost.evil.example:8080"), right], Err(Refusal::Host)),
            (&[("host", "[::1"), right], Err(Refusal::Host)),
            (&[("host", "[::1].evil.example"), right], Err(Refusal::Host)),
            (
                &[
                    ("host", "localhost:8080"),
                    ("origin", "http://localhost:8080"),
                    ("origin", "http://evil.example"),
                    right,
                ],
                Err(Refusal::Origin),
            ),
            (&[("host", "localhost:8080"), ("origin", "http://evil.example"), right], Err(Refusal::Origin)),
            (&[("host", "localhost:8080"), ("origin", "null"), right], Err(Refusal::Origin)),
            (&[("host", "localhost:8080"), ("origin", "http://localhost:3000"), right], Err(Refusal::Origin)),
            (&[("host", "localhost:8080")], Err(Refusal::Token)),
            (&[("host", "localhost:8080"), ("authorization", "Bearer wrong")], Err(Refusal::Token)),
            (&[("host", "localhost:8080"), ("authorization", "Basic secret")], Err(Refusal::Token)),
        ];
        for (headers, expected) in table {
            assert_eq!(judge(&guard, headers).map(drop), expected, "{headers:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_guesses_tokens_is_slowed_down() {
        let guard = guard(Some("secret"));
        let wrong = [("host", "localhost"), ("authorization", "Bearer guess")];
        for _ in 0..FAILURES.get() {
            assert_eq!(judge(&guard, &wrong), Err(Refusal::Token));
        }
        assert!(matches!(judge(&guard, &wrong), Err(Refusal::Rate(_))));
        assert!(judge(&guard, &[("host", "localhost"), ("authorization", "Bearer secret")]).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_take_nothing_from_those_who_have_the_token() {
        let guard = guard(Some("secret"));
        for _ in 0..5000 {
            let _ = judge(&guard, &[("host", "localhost")]);
        }
        assert!(judge(&guard, &[("host", "localhost"), ("authorization", "Bearer secret")]).is_ok());
    }
}
