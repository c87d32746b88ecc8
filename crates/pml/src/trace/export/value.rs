//! Pieces that spans and metrics share.

use serde_json::{Value, json, value::RawValue};

use super::{semconv, spans::Payloads};

/// A list of attributes.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes(Vec<Value>);

impl Attributes {
    fn add(mut self, key: &str, value: Option<Value>) -> Attributes {
        self.0.extend(value.map(|value| json!({"key": key, "value": value})));
        self
    }

    pub(super) fn text(self, key: &str, value: Option<&str>) -> Attributes {
        self.add(key, value.map(|text| json!({"stringValue": text})))
    }

    pub(super) fn number(self, key: &str, value: Option<u64>) -> Attributes {
        // 64-bit numbers are texts in this JSON.
        self.add(key, value.map(|number| json!({"intValue": number.to_string()})))
    }

    pub(super) fn flag(self, key: &str, value: bool) -> Attributes {
        self.add(key, value.then(|| json!({"boolValue": true})))
    }

    pub(super) fn payload(self, key: &str, value: Option<&RawValue>, payloads: Payloads) -> Attributes {
        self.text(key, value.filter(|_| payloads == Payloads::Include).map(|value| value.get()))
    }

    pub(super) fn into_json(self) -> Value {
        Value::Array(self.0)
    }
}

/// The process that measured, of the given version.
pub(super) fn resource(version: &str) -> Value {
    let attributes = Attributes::default()
        .text(semconv::SERVICE_NAME, Some("pml"))
        .text(semconv::SERVICE_VERSION, Some(version).filter(|version| !version.is_empty()));
    json!({"attributes": attributes.into_json()})
}

/// What part of the process measured.
pub(super) fn scope() -> Value {
    json!({"name": "pml", "version": env!("CARGO_PKG_VERSION")})
}

/// Milliseconds since 1970 as nanoseconds, as text.
pub(super) fn nanoseconds(millis: u64) -> String {
    (millis.min(u64::MAX / 1_000_000) * 1_000_000).to_string()
}
