//! From what a server returned to what a program gets.

use pml_wire::{ErrorCode, json, message::CallError};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::handler::{Answer, AnswerBody, KeptBlock, Part};
use crate::{
    catalog::Tool,
    shown::visible,
    upstream::{CallResult, Content, Fields, Item, TextBlock},
};

/// Longest message of a tool that failed.
const MESSAGE_BYTES: usize = 8 * 1024;

/// Is the text of a result read as JSON, where it is?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum JsonTexts {
    Read,
    Keep,
}

/// The value of a call: its structured content, else the text of a single text block, else all
/// blocks, else nothing. A schema that only wraps one value is unwrapped. A single text that is wholly a JSON object or
/// array is that value, unless the tool has an output schema.
pub(super) fn answer(tool: &Tool, result: CallResult, texts: JsonTexts) -> Result<Answer, CallError> {
    if result.is_error {
        return Err(failed(result));
    }
    let body = match result.structured {
        Some(Item::Object(mut fields)) => {
            let inner = tool.unwrapped.as_deref().and_then(|key| fields.take(key));
            AnswerBody::Value(inner.unwrap_or_else(|| fields.to_raw()))
        }
        Some(Item::Other(value)) => AnswerBody::Value(value),
        None if tool.output_schema.is_some() => blocks(result.content, JsonTexts::Keep),
        None => blocks(result.content, texts),
    };
    check_depth(&body)?;
    Ok(Answer { body, held: result.held })
}

pub(super) fn blocks(mut content: Vec<Content>, texts: JsonTexts) -> AnswerBody {
    match content.as_mut_slice() {
        [] => AnswerBody::Value(RawValue::NULL.to_owned()),
        [Content::Text(TextBlock { text, .. })] => {
            match (texts == JsonTexts::Read).then(|| json_text(text)).flatten() {
                Some(text) => AnswerBody::JsonText(text),
                None => AnswerBody::Value(std::mem::replace(text, RawValue::NULL.to_owned())),
            }
        }
        _ => {
            let has_media = content.iter().any(|block| matches!(block, Content::Media(_)));
            let parts: Vec<_> = content.into_iter().map(part).collect();
            match has_media {
                true => AnswerBody::Blocks(parts),
                false => AnswerBody::Value(list(&parts)),
            }
        }
    }
}

/// The text in a JSON string, if it is wholly one JSON object or array, and not nested too deeply to be passed on.
fn json_text(text: &RawValue) -> Option<Box<str>> {
    // Most texts are known not to be JSON by how they begin, without a copy.
    let inner = text.get().strip_prefix('"')?;
    let space = |rest: &str| ["\\n", "\\r", "\\t", " "].iter().find(|space| rest.starts_with(**space)).map(|s| s.len());
    let mut start = inner;
    while let Some(length) = space(start) {
        start = &start[length..];
    }
    if !start.starts_with(['{', '[']) {
        return None;
    }
    let text: String = serde_json::from_str(text.get()).ok()?;
    serde_json::from_str::<IgnoredAny>(&text).ok()?;
    (json::depth(&text) <= json::MAX_DEPTH).then(|| text.into())
}

fn part(block: Content) -> Part {
    match block {
        Content::Text(block) => Part::Value(text_block(block)),
        Content::Other(raw) => Part::Value(raw),
        Content::Media(media) => Part::Kept(KeptBlock {
            kind: media.kind,
            mime_type: media.mime_type,
            uri: media.uri,
            data: media.data,
            block: media.block,
        }),
    }
}

fn text_block(block: TextBlock) -> Box<RawValue> {
    let TextBlock { text, more } = block;
    let kind = RawValue::from_string("\"text\"".to_owned()).expect("a JSON string");
    let mut fields = Fields::default();
    fields.push("type", kind);
    fields.push("text", text);
    fields.extend(more);
    fields.to_raw()
}

fn list(parts: &[Part]) -> Box<RawValue> {
    let values: Vec<&RawValue> = parts
        .iter()
        .map(|part| match part {
            Part::Value(value) => &**value,
            Part::Kept(kept) => &kept.block,
        })
        .collect();
    serde_json::value::to_raw_value(&values).expect("JSON texts serialize")
}

/// What a tool says that failed.
fn failed(result: CallResult) -> CallError {
    let text = result.text();
    let mut message = visible(&text[..text.floor_char_boundary(MESSAGE_BYTES)]).into_owned();
    if message.trim().is_empty() {
        "the tool failed without saying why".clone_into(&mut message);
    }
    let structured = match result.structured {
        Some(Item::Object(fields)) => Some(fields.to_raw()),
        Some(Item::Other(value)) => Some(value),
        None => None,
    };
    let data = structured.filter(|value| value.get().len() <= MESSAGE_BYTES).and_then(|value| {
        // Values nested too deeply for a reader are not told.
        serde_json::from_str(value.get()).ok()
    });
    CallError { data, ..CallError::new(ErrorCode::ToolError, message) }
}

pub(super) fn check_depth(body: &AnswerBody) -> Result<(), CallError> {
    let is_deep = |value: &RawValue| {
        // A text has no depth, however long it is.
        !value.get().starts_with('"') && json::depth(value.get()) > json::MAX_DEPTH
    };
    let any = match body {
        AnswerBody::Value(value) => is_deep(value),
        AnswerBody::JsonText(_) => false,
        AnswerBody::Nested(nested) => is_deep(&nested.json),
        AnswerBody::Blocks(parts) => parts.iter().any(|part| match part {
            Part::Value(value) => is_deep(value),
            Part::Kept(kept) => is_deep(&kept.block),
        }),
    };
    match any {
        true => {
            let message = format!("the result is nested more than {} levels deep", json::MAX_DEPTH);
            Err(CallError::new(ErrorCode::ProviderProtocol, message))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_json_if_all_of_it_is_an_object_or_array() {
        let table = [
            (r#"{"a":1}"#, true),
            ("[]", true),
            (" \r\n\t[1, 2]\n", true),
            ("{}", true),
            (r#"["\ud800"]"#, true),
            ("[1e400]", true),
            ("1", false),
            ("\"text\"", false),
            ("null", false),
            ("", false),
            ("[INFO] started", false),
            ("Found 3 issues:\n[1,2,3]", false),
            ("{\"a\":1}\n{\"a\":2}", false),
            ("[1,]", false),
            ("{'a':1}", false),
            ("[NaN]", false),
            ("\u{feff}[]", false),
        ];
        for (text, expected) in table {
            let raw = serde_json::value::to_raw_value(text).unwrap();
            assert_eq!(json_text(&raw).as_deref(), expected.then_some(text), "{text:?}");
        }
        for (levels, expected) in [(json::MAX_DEPTH, true), (json::MAX_DEPTH + 1, false), (100_000, false)] {
            let text = "[".repeat(levels) + &"]".repeat(levels);
            let raw = serde_json::value::to_raw_value(&text).unwrap();
            assert_eq!(json_text(&raw).is_some(), expected, "{levels}");
        }
    }
}
