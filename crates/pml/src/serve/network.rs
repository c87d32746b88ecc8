//! The way to remote servers: one HTTP client for all of them, through the proxies and with the certificates that the user's
//! other programs use.

use std::{fs, path::PathBuf, time::Duration};

use pml_wire::ErrorCode;
use reqwest::{Certificate, NoProxy, Proxy, Url, redirect};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use crate::error::Error;

/// How long a remote server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;
/// Most certificates that are read from a file.
const MAX_CERTIFICATES: usize = 10_000;
/// What is on this machine is never behind a proxy.
const LOCAL: &str = "localhost,127.0.0.0/8,::1";

/// What the environment says about the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    pub http_proxy: Option<String>,
    pub https_proxy: Option<String>,
    /// For addresses that have no proxy of their own.
    pub all_proxy: Option<String>,
    /// Names of hosts and ranges of addresses that are reached without a proxy.
    pub no_proxy: Option<String>,
    /// Files with certificates besides those of the system.
    pub certificates: Vec<PathBuf>,
}

impl Network {
    /// Makes a client. What is wrong in the environment is logged and left out, since it need not matter to any server.
    pub(crate) fn client(&self) -> Result<reqwest::Client, Error> {
        let redirects = redirect::Policy::custom(|attempt| {
            // Headers with tokens go along, so they go nowhere else.
            let is_same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
            // The others turn a message into a question.
            let keeps_message = matches!(attempt.status().as_u16(), 307 | 308);
            match is_same && keeps_message && attempt.previous().len() <= MAX_REDIRECTS {
                true => attempt.follow(),
                false => attempt.stop(),
            }
        });
        self.client_with(redirects, None)
    }

    /// Makes a client for one address, which follows no redirect. Without TLS it needs no certificates.
    pub(crate) fn strict_client(&self, url: &Url) -> Result<reqwest::Client, Error> {
        self.client_with(redirect::Policy::none(), Some(url))
    }

    /// `only` is the one address that is asked, if it is known.
    fn client_with(&self, redirects: redirect::Policy, only: Option<&Url>) -> Result<reqwest::Client, Error> {
        // An error says that there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("pml/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .redirect(redirects)
            // Not what the library reads from the environment: `self` says it all.
            .no_proxy();
        let proxies = self.proxies();
        // A proxy may want TLS, whatever is behind it.
        let has_tls = only.is_none_or(|url| url.scheme() == "https") || !proxies.is_empty();
        for proxy in proxies {
            builder = builder.proxy(proxy);
        }
        let certificates: Vec<_> = self.certificates.iter().filter(|_| has_tls).flat_map(certificates).collect();
        if !has_tls {
            builder = builder.tls_certs_only([]);
        } else if !certificates.is_empty() {
            builder = builder.tls_certs_merge(certificates);
        }
        builder.build().map_err(|err| {
            Error::new(ErrorCode::ConfigInvalid, format!("no HTTP client can be made: {err}")).caused_by(err)
        })
    }

    fn proxies(&self) -> Vec<Proxy> {
        let without = match &self.no_proxy {
            // Some programs write `*.example.org` for `.example.org`.
            Some(hosts) => format!("{},{LOCAL}", hosts.replace("*.", ".")),
            None => LOCAL.to_owned(),
        };
        let make = |name: &str, address: Option<&String>, proxy: fn(&str) -> reqwest::Result<Proxy>| {
            // The address may hold a password.
            let made = proxy(address?);
            made.inspect_err(|_| tracing::warn!("the variable `{name}` is no address of a proxy, and is not used"))
                .ok()
                .map(|proxy| proxy.no_proxy(NoProxy::from_string(&without)))
        };
        let proxies = [
            make("HTTP_PROXY", self.http_proxy.as_ref(), |address| Proxy::http(address)),
            make("HTTPS_PROXY", self.https_proxy.as_ref(), |address| Proxy::https(address)),
            make("ALL_PROXY", self.all_proxy.as_ref(), |address| Proxy::all(address)),
        ];
        proxies.into_iter().flatten().collect()
    }
}

/// The usable certificates of a file. Each is tried alone: a client that is built with an unusable one is an error.
fn certificates(path: &PathBuf) -> Vec<Certificate> {
    let bytes = fs::read(path).unwrap_or_else(|err| {
        tracing::warn!("the certificates in `{}` are not used: {err}", path.display());
        Vec::new()
    });
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&bytes).take(MAX_CERTIFICATES) {
        let usable = certificate.map_err(|err| err.to_string()).and_then(|certificate| {
            RootCertStore::empty().add(certificate.clone()).map_err(|err| err.to_string())?;
            Certificate::from_der(&certificate).map_err(|err| err.to_string())
        });
        match usable {
            Ok(certificate) => found.push(certificate),
            Err(why) => tracing::warn!("a certificate in `{}` is not used: {why}", path.display()),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_in_the_environment_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let good = include_str!("../../tests/tls/ca.pem");
        let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        fs::write(folder.path().join("bad.pem"), "-----BEGIN CERTIFICATE-----\nno\n").unwrap();
        fs::write(folder.path().join("empty.pem"), format!("{empty}text\n{good}{empty}")).unwrap();
        let network = Network {
            http_proxy: Some("::no address::".to_owned()),
            https_proxy: Some("proxy.example:3128".to_owned()),
            certificates: ["none.pem", "bad.pem", "empty.pem"].map(|name| folder.path().join(name)).to_vec(),
            ..Network::default()
        };
        assert_eq!(network.proxies().len(), 1);
        let counts: Vec<_> = network.certificates.iter().map(|path| certificates(path).len()).collect();
        assert_eq!(counts, [0, 0, 1]);
        network.client().unwrap();
    }
}
