//! What a server says, without its secrets.
//!
//! A server knows its tokens, and some repeat them: in an error, a description, a log, a question. Whatever is shown of a
//! server, to a model, a client or a person, passes through here on its way in, so that no surface has to think of it.
//! The results of tools that succeed do not: they are data, and programs need them exact.
//!
//! JSON is masked text by text, and is otherwise the same bytes. Secrets that are plain words, such as a user's name,
//! are left where they may be structure: in keys, and in values such as `type` or `required`.

use serde_json::{Value, value::RawValue};

use super::{
    codec::RpcError,
    failure::Failure,
    payload::Item,
    result::{CallResult, Content},
    settings::{Secret, Settings},
};
use crate::{catalog::Declared, shown::visible};

/// What stands in the place of a secret.
const MASK: &str = "***";
/// Shorter secrets are none, and would blot out half of a text.
const MIN_SECRET_BYTES: usize = 6;
/// Longer words are no words.
const MAX_WORD_BYTES: usize = 32;
/// Keys whose values are structure, not text.
const STRUCTURE: [&str; 20] = [
    "$anchor",
    "$dynamicRef",
    "$id",
    "$ref",
    "$schema",
    "action",
    "const",
    "enum",
    "format",
    "jsonrpc",
    "level",
    "method",
    "mimeType",
    "mode",
    "name",
    "pattern",
    "required",
    "role",
    "type",
    "uri",
];

/// Which secrets are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    All,
    /// Those that are no plain words.
    Unmistakable,
}

/// A secret that could be a word of the protocol or of a schema.
fn is_word(secret: &str) -> bool {
    secret.len() <= MAX_WORD_BYTES && secret.chars().all(|c| c.is_ascii_alphabetic() || "_-./$".contains(c))
}

impl Settings {
    /// A text without the server's secrets.
    pub fn mask(&self, text: String) -> String {
        self.mask_text(&text, Which::All).unwrap_or(text)
    }

    /// The text without secrets; `None` if there are none in it.
    fn mask_text(&self, text: &str, which: Which) -> Option<String> {
        let mut masked: Option<String> = None;
        self.each_secret(|secret| {
            let current = masked.as_deref().unwrap_or(text);
            if (which == Which::All || !is_word(secret)) && current.contains(secret) {
                masked = Some(current.replace(secret, MASK));
            }
        });
        masked
    }

    fn each_secret(&self, mut look: impl FnMut(&str)) {
        let tokens = self.tokens.read();
        let secrets = self.masked.iter().chain(tokens.iter()).map(Secret::reveal);
        secrets.filter(|secret| secret.len() >= MIN_SECRET_BYTES).for_each(&mut look);
    }

    fn has_secrets(&self) -> bool {
        let mut has_any = false;
        self.each_secret(|_| has_any = true);
        has_any
    }

    /// JSON without the server's secrets. The values of `kept` in the outermost object stay as they are: names by which
    /// something is asked for.
    pub(super) fn mask_json(&self, json: Box<RawValue>, kept: &[&str]) -> Box<RawValue> {
        let text = json.get();
        // A secret may be written with escapes.
        let may_hold = text.contains('\\') || self.mask_text(text, Which::All).is_some();
        if !may_hold || !self.has_secrets() {
            return json;
        }
        match self.mask_tokens(text, kept) {
            Some(masked) => RawValue::from_string(masked).unwrap_or_else(|_| RawValue::NULL.to_owned()),
            None => json,
        }
    }

    /// JSON with its texts masked; `None` if that changes nothing.
    fn mask_tokens(&self, json: &str, kept: &[&str]) -> Option<String> {
        let mut out: Option<String> = None;
        let mut copied = 0;
        // The key of each open object or list; a list has that of the object it is in.
        let mut keys: Vec<String> = Vec::new();
        let mut key = String::new();
        let bytes = json.as_bytes();
        let mut index = 0;
        while index < bytes.len() {
            match bytes[index] {
                b'{' | b'[' => keys.push(key.clone()),
                b'}' | b']' => key = keys.pop().unwrap_or_default(),
                b'"' => {
                    let start = index;
                    index = end_of_text(bytes, start);
                    let token = &json[start..index];
                    let is_key = json[index..].trim_start().starts_with(':');
                    let is_structure = is_key || STRUCTURE.contains(&key.as_str());
                    let is_kept = !is_key && keys.len() == 1 && kept.contains(&key.as_str());
                    let which = if is_structure { Which::Unmistakable } else { Which::All };
                    let decoded = serde_json::from_str::<String>(token).ok();
                    if let Some(masked) = self.mask_token(token, decoded.as_deref(), which).filter(|_| !is_kept) {
                        let out = out.get_or_insert_default();
                        out.push_str(&json[copied..start]);
                        out.push_str(&masked);
                        copied = index;
                    }
                    if is_key {
                        key = decoded.unwrap_or_default();
                    }
                    continue;
                }
                _ => {}
            }
            index += 1;
        }
        let mut out = out?;
        out.push_str(&json[copied..]);
        Some(out)
    }

    /// A JSON string without secrets; `None` if there are none in it.
    fn mask_token(&self, token: &str, decoded: Option<&str>, which: Which) -> Option<String> {
        match decoded {
            Some(text) => self.mask_text(text, which).map(|text| Value::from(text).to_string()),
            // Half of a character: nobody can say how it would be shown.
            None => self.mask_text(token, which).map(|_| format!("\"{MASK}\"")),
        }
    }

    /// The same for a value.
    pub(super) fn mask_value(&self, value: Value) -> Value {
        match self.has_secrets() {
            false => value,
            true => match self.mask_tokens(&value.to_string(), &[]) {
                Some(masked) => serde_json::from_str(&masked).unwrap_or_default(),
                None => value,
            },
        }
    }

    /// Does the name of an item hold a secret? A name cannot be masked, since the item is asked for by it.
    pub(super) fn is_named_like_a_secret(&self, item: &RawValue) -> bool {
        #[derive(serde::Deserialize)]
        struct Named {
            name: String,
        }
        let name = |item: &RawValue| serde_json::from_str::<Named>(item.get()).ok().map(|named| named.name);
        self.has_secrets() && name(item).is_some_and(|name| self.mask_text(&name, Which::Unmistakable).is_some())
    }

    pub(super) fn mask_failure(&self, failure: Failure) -> Failure {
        let data = failure.data.map(|data| self.mask_value(data));
        Failure { message: visible(&self.mask(failure.message)).into_owned(), data, ..failure }
    }

    pub(super) fn mask_error(&self, error: RpcError) -> RpcError {
        let data = error.data.map(|data| self.mask_value(data));
        RpcError { message: self.mask(error.message), data, ..error }
    }

    /// What a server says about itself.
    pub(super) fn mask_declared(&self, declared: Declared) -> Declared {
        Declared {
            info: self.mask_value(declared.info),
            capabilities: self.mask_value(declared.capabilities),
            instructions: declared.instructions.map(|text| self.mask(text)),
        }
    }

    /// What a tool returned, if it failed: what it says then is shown to models and people.
    pub(super) fn mask_result(&self, mut result: CallResult) -> CallResult {
        if !result.is_error || !self.has_secrets() {
            return result;
        }
        let mask = |json: &mut Box<RawValue>| {
            let taken = std::mem::replace(json, RawValue::NULL.to_owned());
            *json = self.mask_json(taken, &[]);
        };
        for block in &mut result.content {
            match block {
                Content::Text(block) => mask(&mut block.text),
                Content::Other(json) => mask(json),
                Content::Media(_) => {}
            }
        }
        match &mut result.structured {
            Some(Item::Object(fields)) => fields.0.iter_mut().for_each(|(_, json)| mask(json)),
            Some(Item::Other(json)) => mask(json),
            None => {}
        }
        result
    }

    /// A result that is passed on as it was sent, but for the secrets in one that says that a tool failed or that asks
    /// the client something.
    pub(super) fn mask_passed(&self, result: Box<RawValue>) -> Box<RawValue> {
        #[derive(Default, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Outcome {
            is_error: Value,
            result_type: Value,
        }
        let text = result.get();
        if !self.has_secrets() || !(text.contains("isError") || text.contains("input_required")) {
            return result;
        }
        let outcome: Outcome = serde_json::from_str(text).unwrap_or_default();
        match outcome.is_error == true || outcome.result_type == "input_required" {
            // The server gets its state back as it was.
            true => self.mask_json(result, &["requestState"]),
            false => result,
        }
    }
}

/// Behind the string that begins at `start`.
fn end_of_text(bytes: &[u8], start: usize) -> usize {
    let mut index = start + 1;
    while index < bytes.len() && bytes[index] != b'"' {
        index += if bytes[index] == b'\\' { 2 } else { 1 };
    }
    (index + 1).min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(secrets: &[&str]) -> Settings {
        let mut settings = Settings::new("a", Err(String::new()));
        settings.masked = secrets.iter().map(|secret| Secret::new(*secret)).collect();
        settings
    }

    #[test]
    fn secrets_are_blotted_out() {
        let settings = settings(&["hunter2", "a"]);
        assert_eq!(settings.mask("a token hunter2!".to_owned()), "a token ***!");
        // What one copy learns, all know.
        settings.clone().tokens.add(&Secret::new("fresh-token"));
        assert_eq!(settings.mask("fresh-token, hunter2".to_owned()), "***, ***");
    }

    #[test]
    fn json_is_masked_text_by_text_and_stays_json() {
        let settings = settings(&["hunter2", "n12345", "say \"hi\"\\", "müller", "string", "object"]);
        #[rustfmt::skip]
        let table = [
            (r#"{"name": "hunter2", "description": "uses hunter2", "n": 1e400}"#, r#"{"name": "hunter2", "description": "uses ***", "n": 1e400}"#),
            (r#"{"a":{"name":"hunter2"}}"#, r#"{"a":{"name":"***"}}"#),
            // Written with escapes.
            (r#"{"a":"h\u0075nter2"}"#, r#"{"a":"***"}"#),
            (r#"{"a":"x say \"hi\"\\ y"}"#, r#"{"a":"x *** y"}"#),
            (r#"{"a":"m\u00fcller"}"#, r#"{"a":"***"}"#),
            // Not what only looks so.
            (r#"{"a":"\n12345"}"#, r#"{"a":"\n12345"}"#),
            (r#"{"a":"plain\\ text"}"#, r#"{"a":"plain\\ text"}"#),
            // Half of a character.
            (r#"{"a":"hunter2 \ud800"}"#, r#"{"a":"***"}"#),
            (r#"{"a":"fine \ud800"}"#, r#"{"a":"fine \ud800"}"#),
            // Words may be structure.
            (r#"{"type":"string","description":"a string"}"#, r#"{"type":"string","description":"a ***"}"#),
            (r#"{"properties":{"object":{"type":["object","null"]}},"required":["object"]}"#, r#"{"properties":{"object":{"type":["object","null"]}},"required":["object"]}"#),
            (r#"{"hunter2":{"enum":["hunter2"]}}"#, r#"{"***":{"enum":["***"]}}"#),
            (r#"[["hunter2", {"required": ["string"], "x": "string"}], "string"]"#, r#"[["***", {"required": ["string"], "x": "***"}], "***"]"#),
        ];
        for (json, expected) in table {
            let masked = settings.mask_json(RawValue::from_string(json.to_owned()).unwrap(), &["name"]);
            assert_eq!(masked.get(), expected, "{json}");
        }
        // However deep.
        let deep = format!("{}\"hunter2\"{}", "[".repeat(10_000), "]".repeat(10_000));
        let masked = settings.mask_tokens(&deep, &[]).unwrap();
        assert!(masked.contains("\"***\"") && masked.len() == deep.len() - 4);
    }

    #[test]
    fn a_name_that_holds_a_secret_is_known() {
        let settings = settings(&["hunter2", "string"]);
        for (item, expected) in
            [(r#"{"name":"get_h\u0075nter2"}"#, true), (r#"{"name":"string"}"#, false), ("1", false)]
        {
            let item = RawValue::from_string(item.to_owned()).unwrap();
            assert_eq!(settings.is_named_like_a_secret(&item), expected, "{item}");
        }
    }

    #[test]
    fn a_failed_result_is_masked_and_another_is_not() {
        let settings = settings(&["hunter2"]);
        let mask = |text: &str| settings.mask_passed(RawValue::from_string(text.to_owned()).unwrap()).get().to_owned();
        let failed = r#"{"content":[{"type":"text","text":"no: hunter2"}],"isError":true}"#;
        assert_eq!(mask(failed), failed.replace("hunter2", "***"));
        let asks = r#"{"resultType":"input_required","inputRequests":{"a":{"params":{"message":"hunter2?"}}},"requestState":"hunter2"}"#;
        assert_eq!(mask(asks), asks.replacen("hunter2", "***", 1));
        for exact in [failed.replace("true", "false"), failed.replace("isError", "error")] {
            assert_eq!(mask(&exact), exact);
        }
    }
}
