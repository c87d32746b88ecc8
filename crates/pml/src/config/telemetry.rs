//! The `[telemetry]` table: where spans and metrics are sent.

use std::collections::BTreeMap;

use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde::Deserialize;

use super::expand;
use crate::trace::export::{Payloads, exporter::Settings};

/// The `[telemetry]` table, as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryFile {
    /// The address of an OpenTelemetry collector that speaks OTLP over HTTP, such as `http://localhost:4318`. Default: none.
    pub otlp: Option<String>,
    /// Headers of each request, such as the key of a service. Values may use `${VAR}`.
    pub headers: BTreeMap<String, String>,
    /// Send arguments and results too, sanitized? Default: false.
    pub payloads: Option<bool>,
}

impl TelemetryFile {
    /// `None` if nothing is sent anywhere.
    pub(super) fn check(self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<Settings>, String> {
        let Some(otlp) = self.otlp.filter(|otlp| !otlp.trim().is_empty()) else { return Ok(None) };
        let unset =
            |key: &str, name: String| format!("`telemetry.{key}` needs the variable `{name}`, which is not set");
        let address = expand::expand(&otlp, lookup).map_err(|name| unset("otlp", name))?;
        let wrong =
            |why: &str| format!("`telemetry.otlp` is `{otlp}`, {why}; write an address such as http://localhost:4318");
        let base = Url::parse(address.trim()).map_err(|err| wrong(&format!("which is no address: {err}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(wrong("but must begin with http:// or https://"));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in self.headers {
            let key = format!("headers.{name}");
            let value = expand::expand(&value, lookup).map_err(|variable| unset(&key, variable))?;
            let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(&value).ok());
            let Some((name, mut value)) = parsed else { return Err(format!("`telemetry.{key}` is no HTTP header")) };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let payloads = if self.payloads == Some(true) { Payloads::Include } else { Payloads::Omit };
        Ok(Some(Settings { traces: signal(&base, "traces"), metrics: signal(&base, "metrics"), headers, payloads }))
    }
}

/// The address of one signal below that of the collector.
fn signal(base: &Url, name: &str) -> Url {
    let mut url = base.clone();
    let path = base.path().trim_end_matches('/').trim_end_matches("/v1/traces").to_owned();
    url.set_path(&format!("{path}/v1/{name}"));
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Option<Settings>, String> {
        let file: TelemetryFile = toml::from_str(text).unwrap();
        file.check(&|name| (name == "KEY").then(|| "s3cret".to_owned()))
    }

    #[test]
    fn signals_have_addresses_below_that_of_the_collector() {
        assert_eq!(check(""), Ok(None));
        for (address, traces) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://a.example/otlp", "https://a.example/otlp/v1/traces"),
            ("https://a.example/otlp/v1/traces", "https://a.example/otlp/v1/traces"),
        ] {
            let settings = check(&format!("otlp = \"{address}\"")).unwrap().unwrap();
            assert_eq!(settings.traces.as_str(), traces);
            assert_eq!(settings.metrics.as_str(), traces.replace("traces", "metrics"));
            assert_eq!(settings.payloads, Payloads::Omit);
        }
    }

    #[test]
    fn keys_come_from_the_environment_and_mistakes_are_named() {
        let settings = check("otlp = \"http://x\"\nheaders = { Authorization = \"Bearer ${KEY}\" }").unwrap().unwrap();
        assert_eq!(settings.headers["authorization"], "Bearer s3cret");
        assert!(!format!("{settings:?}").contains("s3cret"));
        for (text, part) in [
            ("otlp = \"localhost:4318\"", "must begin with http://"),
            ("otlp = \"::\"", "no address"),
            ("otlp = \"http://x\"\nheaders = { A = \"${NOT}\" }", "the variable `NOT`"),
            ("otlp = \"http://x\"\nheaders = { \"a b\" = \"c\" }", "`telemetry.headers.a b`"),
        ] {
            let message = check(text).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }
}
