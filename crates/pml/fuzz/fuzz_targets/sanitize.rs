//! Whatever comes in, what goes out is sanitized once and for all, and JSON stays JSON.
//!
//! Run: `cargo +nightly fuzz run sanitize` in `crates/pml`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pml::trace::sanitize::Sanitizer;
use serde_json::{Value, json};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let sanitizer = Sanitizer::default();
    let once = sanitizer.text(&text).into_owned();
    assert_eq!(sanitizer.text(&once), once);
    for line in [text.into_owned(), json!({ "password": once, "items": ["--token", once] }).to_string()] {
        let Some((clean, _)) = sanitizer.json(&line) else { continue };
        assert!(serde_json::from_str::<Value>(&clean).is_ok(), "{clean}");
        let again = sanitizer.json(&clean).map(|(again, _)| again.into_owned());
        assert_eq!(again.as_deref(), Some(clean.as_ref()));
    }
});
