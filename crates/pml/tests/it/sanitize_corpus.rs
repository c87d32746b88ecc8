//! The sanitizer on a corpus: every format of tokens in every context, written cases of both kinds, and what must stay.
//!
//! Tokens are made up here from the formats in `tests/sanitize/tokens.txt`, so that the repository holds none.

use std::{collections::BTreeMap, fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use pml::trace::sanitize::Sanitizer;
use proptest::prelude::*;
use serde_json::{Value, json};

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sanitize").join(name);
    fs::read_to_string(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
}

fn lines(name: &str) -> Vec<String> {
    file(name).lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// What `pml sanitize` makes of a line.
fn sanitized(sanitizer: &Sanitizer, line: &str) -> String {
    match sanitizer.json(line) {
        Some((clean, _)) => clean.into_owned(),
        None => json!(sanitizer.text(line)).to_string(),
    }
}

/// The same numbers on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }

    fn text(&mut self, alphabet: &[u8], length: usize) -> String {
        (0..length).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }

    /// A token of a format.
    fn token(&mut self, format: &str) -> String {
        const ALNUM: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        const LOWER: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        const UPPER: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        let mut token = String::new();
        let mut rest = format;
        while let Some((before, behind)) = rest.split_once('{') {
            let (part, behind) = behind.split_once('}').expect("a closing brace");
            token.push_str(before);
            let length = part[1..].parse().unwrap_or(0);
            let text = match &part[..1] {
                "a" => self.text(ALNUM, length),
                "h" => self.text(b"0123456789abcdef", length),
                "H" => self.text(b"0123456789ABCDEF", length),
                "U" => self.text(UPPER, length),
                "l" => self.text(LOWER, length),
                "n" => format!("{}{}", 1 + self.below(9), self.text(b"0123456789", length - 1)),
                "b" => self.text(&[ALNUM, b"+/"].concat(), length),
                "d" => {
                    let inner = self.text(&[ALNUM, b"-_"].concat(), length.saturating_sub(2));
                    format!("{}{inner}{}", self.text(ALNUM, 1), self.text(ALNUM, 1))
                }
                "u" => {
                    let mut part = |length| self.text(b"0123456789abcdef", length);
                    format!("{}-{}-4{}-a{}-{}", part(8), part(4), part(3), part(3), part(12))
                }
                "g" => base62(crc32(token.rsplit('_').next().unwrap().as_bytes())),
                other => panic!("{other} is no part"),
            };
            token.push_str(&text);
            rest = behind;
        }
        token + rest
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 })
    })
}

fn base62(mut number: u32) -> String {
    const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = [b'0'; 6];
    for place in text.iter_mut().rev() {
        *place = DIGITS[(number % 62) as usize];
        number /= 62;
    }
    text.iter().map(|byte| char::from(*byte)).collect()
}

fn percent(text: &str) -> String {
    let escape = |byte: u8| match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// The part of a token that must not be seen: what was drawn at random, not the host of a webhook.
fn secret_of(token: &str) -> &str {
    let start = token.rfind('/').filter(|_| token.starts_with("https://")).map_or(0, |slash| slash + 1);
    token[start..].trim_start_matches("AccountKey=").trim_end_matches('=')
}

#[derive(Default)]
struct Score {
    all: usize,
    missed: Vec<String>,
}

impl Score {
    fn assert_at_least(&self, rate: f64) {
        let count = self.missed.len();
        let is_enough = 1.0 - count as f64 / self.all as f64 >= rate;
        assert!(is_enough, "{count} of {} are wrong:\n{}", self.all, self.missed.join("\n"));
    }
}

#[test]
fn every_format_is_found_in_every_context() {
    let sanitizer = Sanitizer::default();
    let mut random = Random(1);
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    let contexts = lines("contexts.txt");
    let formats = lines("tokens.txt");
    assert!(formats.len() >= 130, "{}", formats.len());
    for format in &formats {
        let (name, format) = format.split_once(' ').unwrap();
        for context in &contexts {
            let mut parts = context.splitn(3, ' ');
            let (tier, place, template) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
            let token = random.token(format);
            let secret = secret_of(&token);
            let line = template
                .replace("{percent}", &percent(&token))
                .replace("{base64}", &STANDARD.encode(format!("value: {token}")))
                .replace("{}", &token);
            let clean = sanitized(&sanitizer, &line);
            let score = scores.entry(tier.to_owned()).or_default();
            score.all += 1;
            let is_seen = clean.contains(secret) || clean.contains(&percent(secret)) || clean.contains(&line);
            let is_again = sanitized(&sanitizer, &clean) == clean;
            let is_json = serde_json::from_str::<Value>(&clean).is_ok();
            if is_seen || !is_again || !is_json {
                score.missed.push(format!("{name} in {place}: {line}\n  -> {clean} again: {is_again} json: {is_json}"));
            }
        }
    }
    scores["1"].assert_at_least(1.0);
    scores["2"].assert_at_least(0.99);
}

#[test]
fn what_is_written_down_is_found() {
    let sanitizer = Sanitizer::default();
    let mut scores: BTreeMap<u64, Score> = BTreeMap::new();
    let cases = lines("positives.jsonl");
    for case in &cases {
        let case: Value = serde_json::from_str(case).unwrap_or_else(|err| panic!("{case}: {err}"));
        let input = match &case["input"] {
            Value::String(text) if case["text"] != true => text.clone(),
            Value::String(text) => json!({ "text": text }).to_string(),
            value => value.to_string(),
        };
        let clean = sanitized(&sanitizer, &input);
        let hidden = case["hidden"].as_array().unwrap_or_else(|| panic!("{case}"));
        let is_seen = hidden.iter().any(|secret| clean.contains(secret.as_str().unwrap()));
        let has_marker = case["marker"].as_str().is_none_or(|marker| clean.contains(marker));
        let has_kept =
            case["kept"].as_array().is_none_or(|kept| kept.iter().all(|kept| clean.contains(kept.as_str().unwrap())));
        let is_again = sanitized(&sanitizer, &clean) == clean;
        let score = scores.entry(case["tier"].as_u64().unwrap()).or_default();
        score.all += 1;
        if is_seen || !has_marker || !has_kept || !is_again || serde_json::from_str::<Value>(&clean).is_err() {
            score.missed.push(format!("{input}\n  -> {clean}"));
        }
    }
    scores[&1].assert_at_least(1.0);
    scores[&2].assert_at_least(0.97);
}

#[test]
fn what_is_no_secret_stays_byte_for_byte() {
    let sanitizer = Sanitizer::default();
    let mut score = Score::default();
    let mut check = |line: String| {
        let clean = sanitized(&sanitizer, &line);
        let expected = if serde_json::from_str::<Value>(&line).is_ok() { line } else { json!(line).to_string() };
        score.all += 1;
        if clean != expected {
            score.missed.push(format!("{expected}\n  -> {clean}"));
        }
    };
    lines("negatives.jsonl").into_iter().for_each(&mut check);
    // Harmless values in every place where a token was found.
    let mut random = Random(2);
    let values = [
        "{u}",
        "{h40}",
        "{h64}",
        "sha256:{h64}",
        "17{n8}",
        "17{n11}",
        "v1.{n2}.{n1}",
        "1.{n1}.{n2}-rc.1",
        "ORD-{n8}",
        "{n3}-{n7}-{n7}",
        "INV-2026-{n5}",
        "978-3-16-148410-0",
        "192.168.{n2}.{n2}",
        "10.0.0.{n2}:8080",
        "2026-01-15T10:30:00Z",
        "src/lib/module_{n2}.rs",
        "/usr/local/lib/node_modules/pkg/index.js",
        "https://example.com/a/b?page={n2}",
        "PROJ-{n4}",
        "feature/add-login-{n2}",
        "{n10}",
        "#{n4}",
        "$ {n3}.99",
        "main@{h7}",
        "us-east-1",
        "image/png",
        "gpt-4o-mini",
        "application/json; charset=utf-8",
        "arn:aws:s3:::bucket-{n4}",
        "node_modules/.bin/tsc",
    ];
    let harmless = [
        "prose",
        "innocent-key",
        "array",
        "sentence-in-json",
        "env-file",
        "yaml",
        "toml",
        "code",
        "markdown",
        "log",
        "json-in-string",
        "xml",
        "csv",
        "key",
        "parentheses",
    ];
    for value in values {
        for context in lines("contexts.txt") {
            let mut parts = context.splitn(3, ' ');
            let (_, place, template) = (parts.next(), parts.next().unwrap(), parts.next().unwrap());
            if harmless.contains(&place) && place != "env-file" {
                check(template.replace("{}", &random.token(value)));
            }
        }
    }
    assert!(score.all >= 500, "{}", score.all);
    score.assert_at_least(0.995);
}

/// Pieces out of which texts are made that come near to everything that is looked for.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "password",
        "=",
        ":",
        " ",
        "\"",
        "\\",
        "\n",
        "token",
        "hunter2",
        "ghp_",
        "sk-",
        "eyJ",
        ".",
        "@",
        "example.com",
        "jane",
        "+1",
        "415",
        "-",
        "555",
        "2671",
        "4111111111111111",
        "[EMAIL]",
        "[REDACTED:",
        "]",
        "://",
        "%22",
        "%",
        "{",
        "}",
        "[",
        ",",
        "'",
        "`",
        "Bearer ",
        "Basic ",
        "curl -u ",
        "<",
        ">",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END ",
        "DE89370400440532013000",
        "Authorization",
        "cookie",
        "é",
        "\u{2028}",
        "mysql -p",
        "&",
        ";",
        "is ",
        "$2b$12$",
        "AKIA",
        "Q7WL2PZ9XKD4MVB8",
        "cGFzc3dvcmQ9aHVudGVyMg==",
        "(",
        ")",
        "null",
        "true",
        "1",
        "api_key",
        "\\n",
        "\\u0022",
        "[TRUNCATED]",
        "secret",
    ];
    prop_oneof![4 => proptest::sample::select(fixed.to_vec()).prop_map(str::to_owned), 1 => "[a-zA-Z0-9]{1,40}", 1 => "\\PC{0,6}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_is_sanitized_once_and_for_all(pieces in prop::collection::vec(piece(), 0..24)) {
        let sanitizer = Sanitizer::default();
        let text = pieces.concat();
        let once = sanitizer.text(&text).into_owned();
        prop_assert_eq!(sanitizer.text(&once).into_owned(), once);
    }

    #[test]
    fn any_json_stays_json_and_is_sanitized_once_and_for_all(
        keys in prop::collection::vec(prop::collection::vec(piece(), 0..4), 1..5),
        values in prop::collection::vec(prop::collection::vec(piece(), 0..10), 1..5),
    ) {
        let sanitizer = Sanitizer::default();
        let mut object = serde_json::Map::new();
        for (index, value) in values.iter().enumerate() {
            let value = value.concat();
            let value = match index % 4 {
                0 => json!(value),
                1 => json!([value, "--token", value, 4_111_111_111_111_111_u64]),
                2 => json!({ "name": keys[0].concat(), "value": value }),
                _ => json!(json!({ "a": value }).to_string()),
            };
            object.insert(keys[index % keys.len()].concat(), value);
        }
        let text = Value::Object(object).to_string();
        let once = sanitizer.json(&text).unwrap().0.into_owned();
        prop_assert!(serde_json::from_str::<Value>(&once).is_ok(), "{}", once);
        prop_assert_eq!(sanitizer.json(&once).unwrap().0.into_owned(), once);
    }
}
