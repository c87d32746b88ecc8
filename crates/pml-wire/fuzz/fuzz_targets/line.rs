//! Whatever JSON text comes in, one line goes out that means the same.
//!
//! Run: `cargo +nightly fuzz run line` in `crates/pml-wire`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pml_wire::{Line, line::unbroken};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let whole = unbroken(bytes);
    assert_eq!(whole.len(), bytes.len());
    assert!(!whole.iter().any(|byte| matches!(byte, b'\n' | b'\r')));
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let line = Line::new(text.to_owned());
    assert!(!line.as_str().contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']));
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        assert_eq!(serde_json::from_str::<Value>(line.as_str()).unwrap(), value);
        assert_eq!(serde_json::from_slice::<Value>(&whole).unwrap(), value);
    }
});
