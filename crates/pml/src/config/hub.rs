//! The `[hub]` table: where traces are delivered, and how a hub is served.

use std::{num::NonZeroU32, time::Duration};

use pml_wire::hub::MAX_TRACES;
use reqwest::Url;
use serde::Deserialize;

use super::{expand, within};
use crate::hub::syncer::SyncSettings;

/// Where the key is read from if the file names none.
pub const KEY_VARIABLE: &str = "PML_HUB_KEY";

/// The `[hub]` table, as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HubFile {
    /// The address of the hub that traces are delivered to, such as `https://hub.example`. Default: none, and nothing is sent.
    pub url: Option<String>,
    /// A key of that hub; may use `${VAR}`. Default: `$PML_HUB_KEY`.
    pub key: Option<String>,
    /// Traces of one request. Default: 10. At most 100.
    pub batch: Option<u64>,
    /// How long traces wait for others before they are sent. Default: 5000.
    pub interval_ms: Option<u64>,
    /// Size of unsent traces from which on the oldest are given up, successes first. Default: 256.
    pub outbox_mb: Option<u64>,
    /// Longest pause after failures. Default: 300 000.
    pub max_pause_ms: Option<u64>,
    /// For a hub: requests that one key may make in a minute. Default: 6000.
    pub requests_per_minute: Option<u64>,
}

/// The `[hub]` table, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubConfig {
    /// Where traces are delivered, if anywhere.
    pub sync: Option<SyncSettings>,
    pub requests_per_minute: NonZeroU32,
}

impl HubFile {
    pub(super) fn is_set(&self) -> bool {
        let HubFile { url, key, batch, interval_ms, outbox_mb, max_pause_ms, requests_per_minute } = self;
        let numbers = [batch, interval_ms, outbox_mb, max_pause_ms, requests_per_minute];
        url.is_some() || key.is_some() || numbers.iter().any(|number| number.is_some())
    }

    pub(super) fn check(self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<HubConfig, String> {
        let per_minute = within("hub.requests_per_minute", self.requests_per_minute, 6000, 10_000_000)?;
        let requests_per_minute = u32::try_from(per_minute).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX);
        let batch = within("hub.batch", self.batch, 10, MAX_TRACES as u64)? as usize;
        let interval = Duration::from_millis(within("hub.interval_ms", self.interval_ms, 5000, 86_400_000)?);
        let outbox_bytes = within("hub.outbox_mb", self.outbox_mb, 256, 1024 * 1024)? * 1024 * 1024;
        let longest_pause = Duration::from_millis(within("hub.max_pause_ms", self.max_pause_ms, 300_000, 86_400_000)?);
        let Some(url) = self.url.filter(|url| !url.trim().is_empty()) else {
            return Ok(HubConfig { sync: None, requests_per_minute });
        };
        let unset = |key: &str, name: String| format!("`hub.{key}` needs the variable `{name}`, which is not set");
        let address = expand::expand(&url, lookup).map_err(|name| unset("url", name))?;
        let key = match self.key {
            Some(key) => expand::expand(&key, lookup).map_err(|name| unset("key", name))?,
            None => lookup(KEY_VARIABLE)
                .ok_or_else(|| format!("`hub.url` is set, but neither `hub.key` nor the variable `{KEY_VARIABLE}`"))?,
        };
        let url = hub_url("`hub.url`", &address)?;
        if key.trim().is_empty() || !key.trim().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("`hub.key` is no key; `pml hub key add` prints one".to_owned());
        }
        let key = key.trim().to_owned();
        let sync = SyncSettings { url, key, batch, interval, outbox_bytes, longest_pause };
        Ok(HubConfig { sync: Some(sync), requests_per_minute })
    }
}

/// The address of a hub. The key is sent there, so to other machines only in secret.
pub fn hub_url(name: &str, text: &str) -> Result<Url, String> {
    // Whoever writes a secret into an address need not read it in a log.
    if text.contains(['@', '?', '#']) {
        return Err(format!(
            "{name} holds more than an address: write it without a user, a password, a query and a fragment; \
             the key is `hub.key` or $PML_HUB_KEY"
        ));
    }
    checked(text).map_err(|why| format!("{name} is `{text}`, {why}"))
}

fn checked(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim()).map_err(|err| format!("which is no address: {err}"))?;
    let is_here = url.host_str().is_some_and(|host| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    });
    match url.scheme() {
        _ if url.host().is_none() => Err("but must name a host".to_owned()),
        "https" => Ok(url),
        "http" if is_here => Ok(url),
        "http" => {
            Err("but must begin with https:// unless the hub is on this machine: the key would be readable".to_owned())
        }
        _ => Err("but must begin with https://".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<HubConfig, String> {
        let file: HubFile = toml::from_str(text).unwrap();
        file.check(&|name| (name == "KEY").then(|| "pmlhub_1".to_owned()))
    }

    #[test]
    fn nothing_is_sent_unless_a_hub_is_named() {
        assert_eq!(check("").unwrap().sync, None);
        let sync = check("url = \"https://hub.example\"\nkey = \"${KEY}\"").unwrap().sync.unwrap();
        assert_eq!((sync.batch, sync.interval, sync.key.as_str()), (10, Duration::from_secs(5), "pmlhub_1"));
        assert!(!format!("{sync:?}").contains("pmlhub_1"));
    }

    #[test]
    fn mistakes_are_named() {
        #[rustfmt::skip]
        let table = [
            ("url = \"https://x\"", "neither `hub.key`"),
            ("url = \"https://x\"\nkey = \"${NONE}\"", "`NONE`"),
            ("url = \"http://hub.example\"\nkey = \"k\"", "https://"),
            ("url = \"ftp://x\"\nkey = \"k\"", "https://"),
            ("url = \"https://ann:s3cret@x\"\nkey = \"k\"", "without a user"),
            ("url = \"https://x/?key=s3cret\"\nkey = \"k\"", "without a user"),
            ("url = \"hub\"\nkey = \"k\"", "no address"),
            ("url = \"https://x\"\nkey = \"a b\"", "no key"),
            ("batch = 101", "`hub.batch`"),
            ("interval_ms = 0", "`hub.interval_ms`"),
        ];
        for (text, part) in table {
            let message = check(text).unwrap_err();
            assert!(message.contains(part) && !message.contains("s3cret"), "{text}: {message}");
        }
        for here in ["http://127.0.0.1:7", "http://localhost:7", "http://[::1]:7"] {
            assert!(check(&format!("url = \"{here}\"\nkey = \"k\"")).is_ok(), "{here}");
        }
    }
}
