//! How pml itself reaches the network, as the environment says it to every program: proxies and certificates.

use std::path::PathBuf;

use crate::serve::Network;

/// Files with certificates besides those of the system. (`SSL_CERT_FILE` and `SSL_CERT_DIR`, which stand in place of the
/// system's, are read where those are.)
const CERTIFICATES: [&str; 3] = ["NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];

/// Reads what the environment says. As with most programs, a name in small letters counts before one in capitals.
pub(super) fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Network {
    let set = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
    let either = |name: &str| set(name).or_else(|| set(&name.to_ascii_uppercase()));
    Network {
        http_proxy: either("http_proxy"),
        https_proxy: either("https_proxy"),
        all_proxy: either("all_proxy"),
        no_proxy: either("no_proxy"),
        certificates: CERTIFICATES.into_iter().filter_map(set).map(PathBuf::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cases_count_and_empty_ones_do_not() {
        let lookup = |name: &str| match name {
            "HTTPS_PROXY" => Some("http://upper".to_owned()),
            "http_proxy" => Some("http://lower".to_owned()),
            "HTTP_PROXY" => Some("http://upper".to_owned()),
            "ALL_PROXY" => Some(String::new()),
            "no_proxy" => Some("a,b".to_owned()),
            "REQUESTS_CA_BUNDLE" => Some("/ca.pem".to_owned()),
            _ => None,
        };
        let network = Network {
            http_proxy: Some("http://lower".to_owned()),
            https_proxy: Some("http://upper".to_owned()),
            all_proxy: None,
            no_proxy: Some("a,b".to_owned()),
            certificates: vec!["/ca.pem".into()],
        };
        assert_eq!(read(&lookup), network);
    }
}
