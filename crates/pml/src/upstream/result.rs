//! What a tool returned, as the server wrote it.

use pml_wire::ErrorCode;
use serde_json::value::RawValue;

use super::{
    failure::{Failure, Retry},
    payload::{Fields, Item, Payload},
};
use crate::room::Held;

/// The result of one call.
#[derive(Debug, Default)]
pub struct CallResult {
    pub structured: Option<Item>,
    pub content: Vec<Content>,
    /// The tool ran and failed.
    pub is_error: bool,
    /// The room that it takes, if it is large.
    pub held: Held,
}

/// A block of content.
#[derive(Debug)]
pub enum Content {
    Text(TextBlock),
    /// Something to look at or listen to, or a file.
    Media(Media),
    /// Any other block, whole.
    Other(Box<RawValue>),
}

/// A block of text.
#[derive(Debug)]
pub struct TextBlock {
    /// A JSON string.
    pub text: Box<RawValue>,
    /// What else the server said about it, such as annotations.
    pub more: Fields,
}

/// A block with data in base64.
#[derive(Debug)]
pub struct Media {
    /// `image`, `audio` or `resource`.
    pub kind: String,
    pub mime_type: Option<String>,
    pub uri: Option<String>,
    /// The data, a JSON string of base64 digits.
    pub data: Box<RawValue>,
    /// The block, whole.
    pub block: Box<RawValue>,
}

impl CallResult {
    pub(super) fn from_payload(mut payload: Payload) -> Result<CallResult, Failure> {
        // A result is data: a character that the server did not write would be taken for one that it did.
        if payload.is_repaired {
            return Err(Failure::protocol("the server's answer cannot be read: it has bytes that are no UTF-8"));
        }
        if payload.get::<String>("resultType").as_deref() == Some("input_required") {
            let asked: serde_json::Value = payload.get("inputRequests").unwrap_or_default();
            let methods = asked.as_object().into_iter().flatten().filter_map(|(_, ask)| ask["method"].as_str());
            let methods: Vec<_> = methods.take(5).collect();
            let message = format!("the tool asks the user something ({}), and nobody can be asked", methods.join(", "));
            return Err(Failure::new(ErrorCode::InputRequired, message, Retry::Later));
        }
        let content = match payload.take_items("content") {
            Some(items) => items.into_iter().map(Content::from_item).collect(),
            // Some servers give the text itself.
            None => payload
                .take_raw("content")
                .filter(|content| content.get().starts_with('"'))
                .map(Content::plain)
                .into_iter()
                .collect(),
        };
        Ok(CallResult {
            structured: payload.take_structured(),
            content,
            is_error: payload.get("isError").unwrap_or(false),
            held: payload.held.take(),
        })
    }

    /// The texts of all blocks, for a message.
    pub fn text(&self) -> String {
        let texts: Vec<String> = self
            .content
            .iter()
            .filter_map(|block| match block {
                Content::Text(block) => serde_json::from_str(block.text.get()).ok(),
                Content::Media(_) | Content::Other(_) => None,
            })
            .collect();
        texts.join("\n")
    }

    /// How large it is, about.
    pub fn bytes(&self) -> usize {
        let content = self.content.iter().map(|block| match block {
            Content::Text(block) => block.text.get().len() + block.more.bytes(),
            Content::Other(raw) => raw.get().len(),
            Content::Media(media) => media.block.get().len(),
        });
        content.sum::<usize>() + self.structured.as_ref().map_or(0, Item::bytes)
    }
}

impl Content {
    /// A text that nothing else is said about.
    fn plain(text: Box<RawValue>) -> Content {
        Content::Text(TextBlock { text, more: Fields::default() })
    }

    fn from_item(item: Item) -> Content {
        let mut fields = match item {
            Item::Object(fields) => fields,
            Item::Other(raw) if raw.get().starts_with('"') => return Content::plain(raw),
            Item::Other(raw) => return Content::Other(raw),
        };
        let is_text = |raw: &&RawValue| raw.get().starts_with('"');
        match fields.get::<String>("type").as_deref() {
            Some("text") if fields.raw("text").filter(is_text).is_some() => {
                let text = fields.take("text").unwrap_or_else(|| RawValue::NULL.to_owned());
                fields.take("type");
                Content::Text(TextBlock { text, more: fields })
            }
            Some(kind @ ("image" | "audio")) => match fields.raw("data").filter(is_text) {
                Some(data) => Content::Media(Media {
                    kind: kind.to_owned(),
                    mime_type: fields.get("mimeType"),
                    uri: None,
                    data: data.to_owned(),
                    block: fields.to_raw(),
                }),
                None => Content::Other(fields.to_raw()),
            },
            Some("resource") => embedded(&fields).map_or_else(|| Content::Other(fields.to_raw()), Content::Media),
            _ => Content::Other(fields.to_raw()),
        }
    }
}

/// A resource with binary content. One with text is left as it is.
fn embedded(block: &Fields) -> Option<Media> {
    let resource: std::collections::BTreeMap<String, &RawValue> = block.get("resource")?;
    let text = |key: &str| resource.get(key).and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let data = resource.get("blob").filter(|raw| raw.get().starts_with('"'))?;
    Some(Media {
        kind: "resource".to_owned(),
        mime_type: text("mimeType"),
        uri: text("uri"),
        data: (*data).to_owned(),
        block: block.to_raw(),
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            codec::{Message, parse},
            payload::Keep,
        },
        *,
    };

    fn result(text: &str) -> Result<CallResult, Failure> {
        let line = format!(r#"{{"id":1,"result":{text}}}"#);
        let Some(Message::Answer { answer: Ok(payload), .. }) = parse(line.as_bytes(), Keep::Parts).unwrap().pop()
        else {
            panic!("{text}")
        };
        CallResult::from_payload(payload)
    }

    fn describe(text: &str) -> String {
        let result = result(text).unwrap();
        let blocks = result.content.iter().map(|block| match block {
            Content::Text(block) if block.more.0.is_empty() => block.text.get().to_owned(),
            Content::Text(block) => format!("{} {}", block.text, block.more.to_raw()),
            Content::Media(media) => format!("{} {:?} {}", media.kind, media.mime_type, media.data),
            Content::Other(raw) => format!("other {raw}"),
        });
        let mut parts: Vec<_> = blocks.collect();
        parts.extend(result.structured.map(|value| match value {
            Item::Object(fields) => format!("structured {}", fields.to_raw()),
            Item::Other(value) => format!("structured {value}"),
        }));
        parts.join(" | ")
    }

    #[test]
    fn odd_results_keep_their_data() {
        let table = [
            (r#"{"content":[{"type":"text","text":"a\n"}]}"#, r#""a\n""#),
            (r#"{"content":[{"type":"text","text":"a","_meta":{"n":1.0}}]}"#, r#""a" {"_meta":{"n":1.0}}"#),
            (r#"{"content":"plain"}"#, r#""plain""#),
            (r#"{"content":["plain",7]}"#, r#""plain" | other 7"#),
            (r#"{"content":null}"#, ""),
            (r"{}", ""),
            (r#"{"structuredContent":[1]}"#, "structured [1]"),
            (r#"{"structuredContent":{"a":{"b":1}}}"#, r#"structured {"a":{"b":1}}"#),
            (r#"{"structuredContent":null,"content":[]}"#, ""),
            (r#"{"content":[{"type":"text","text":7}]}"#, r#"other {"type":"text","text":7}"#),
            (r#"{"content":[{"type":"new","x":1}],"tools":[1]}"#, r#"other {"type":"new","x":1}"#),
            (
                r#"{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}"#,
                r#"image Some("image/png") "AA==""#,
            ),
            (r#"{"content":[{"type":"image"}]}"#, r#"other {"type":"image"}"#),
            (r#"{"content":[{"type":"resource","resource":{"uri":"a:b","blob":"AA=="}}]}"#, r#"resource None "AA==""#),
            (
                r#"{"content":[{"type":"resource","resource":{"uri":"a:b","text":"x"}}]}"#,
                r#"other {"type":"resource","resource":{"uri":"a:b","text":"x"}}"#,
            ),
        ];
        for (text, expected) in table {
            assert_eq!(describe(text), expected, "{text}");
        }
    }

    #[test]
    fn a_question_to_the_user_is_an_error() {
        let text = r#"{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create"}}}"#;
        let failure = result(text).unwrap_err();
        assert_eq!(failure.code, ErrorCode::InputRequired);
        assert!(failure.message.contains("elicitation/create"));
    }
}
