//! From what a server returned to what a program gets.

use pml_wire::{ErrorCode, json, message::CallError};
use serde_json::value::RawValue;

use super::handler::{Answer, AnswerBody, Kept, Part};
use crate::{
    catalog::Tool,
    shown::visible,
    upstream::{CallResult, Content, Item},
};

/// Longest message of a tool that failed.
const MESSAGE_BYTES: usize = 8 * 1024;

/// The value of a call: its structured content, else the text of a single text block, else all
/// blocks, else nothing. A schema that only wraps one value is unwrapped.
pub(super) fn answer(tool: &Tool, result: CallResult) -> Result<Answer, CallError> {
    if result.is_error {
        return Err(failed(result));
    }
    let body = match result.structured {
        Some(Item::Object(mut fields)) => {
            let inner = tool.unwrapped.as_deref().and_then(|key| fields.take(key));
            AnswerBody::Value(inner.unwrap_or_else(|| fields.to_raw()))
        }
        Some(Item::Other(value)) => AnswerBody::Value(value),
        None => blocks(result.content),
    };
    check_depth(&body)?;
    Ok(Answer { body, held: result.held })
}

pub(super) fn blocks(mut content: Vec<Content>) -> AnswerBody {
    match content.as_mut_slice() {
        [] => AnswerBody::Value(RawValue::NULL.to_owned()),
        [Content::Text(text)] => AnswerBody::Value(std::mem::replace(text, RawValue::NULL.to_owned())),
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

fn part(block: Content) -> Part {
    match block {
        Content::Text(text) => Part::Value(text_block(&text)),
        Content::Other(raw) => Part::Value(raw),
        Content::Media(media) => Part::Kept(Kept {
            kind: media.kind,
            mime_type: media.mime_type,
            uri: media.uri,
            data: media.data,
            block: media.block,
        }),
    }
}

fn text_block(text: &RawValue) -> Box<RawValue> {
    #[derive(serde::Serialize)]
    struct Text<'a> {
        r#type: &'static str,
        text: &'a RawValue,
    }
    serde_json::value::to_raw_value(&Text { r#type: "text", text }).expect("a JSON text serializes")
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
