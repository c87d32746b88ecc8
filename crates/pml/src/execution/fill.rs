//! Replaces handles and JSON texts by their values where JSON leaves a run: in its result, and in the arguments of calls.
//!
//! A handle stands for a value that the host keeps. A JSON text stays a string where a tool's schema has a
//! string, and becomes its value elsewhere.

use std::{collections::HashMap, sync::Arc};

use pml_wire::{
    ErrorCode, json,
    line::unbroken,
    message::{CallError, ErrorReport, HANDLE_KEY},
    walk::Walk,
};
use serde_json::{Value, value::RawValue};

use super::{
    run::Media,
    vault::{HandedOn, KeptValue, Stored},
};
use crate::{
    broker::{NestedValue, StandIns},
    catalog::wants_text,
};

/// Longest arguments of one call, after handles are replaced.
const MAX_ARGUMENT_BYTES: usize = 128 * 1024 * 1024;
/// Budget of schema steps per call for finding out where a string is expected: about a millisecond.
const MAX_STEPS: usize = 50_000;
/// Media attached to a result may be this many times as large as the result.
const ATTACHED_SHARE: usize = 4;

/// The beginning of a handle's JSON form. The worker writes JSON without spaces, and a quote inside a string as `\"`; so the
/// marker always is a handle.
pub(super) fn marker() -> String {
    format!("{{\"{HANDLE_KEY}\":\"")
}

/// The values that a JSON text refers to.
#[derive(Debug)]
pub(super) struct Filler {
    /// The values by the tokens of their handles.
    pub(super) values: HashMap<String, Arc<KeptValue>>,
    /// The offsets of the JSON texts, in ascending order.
    pub(super) texts: Vec<u32>,
    /// The approximate size of the text with its values.
    pub(super) filled_bytes: usize,
}

/// Content blocks attached to a result.
type Attached = Vec<Box<RawValue>>;

/// A result, once it has left its run.
#[derive(Debug)]
pub(crate) struct FilledResult {
    pub(crate) value: Box<RawValue>,
    /// Content blocks that the value refers to by number, with [`Media::Apart`].
    pub(crate) attached: Attached,
    /// The same value with its handles, with [`Media::Nested`], if it has any.
    pub(crate) nested: Option<NestedValue>,
}

impl From<Box<RawValue>> for FilledResult {
    fn from(value: Box<RawValue>) -> FilledResult {
        FilledResult { value, attached: Vec::new(), nested: None }
    }
}

/// The destination of the values.
enum Target<'a> {
    /// Into a result.
    Result,
    /// Into a result, with media attached to it.
    ResultAnd(&'a mut Beside),
    /// Into a record of the result: a note takes the place of each value.
    Record,
    /// Into arguments with this schema.
    Arguments(&'a Value),
}

/// Why values cannot be inserted.
enum Unfit {
    /// The text would have this many bytes.
    TooLong(usize),
    /// A claimed JSON text is not valid JSON, or is nested too deeply.
    NotJson,
}

impl Filler {
    pub(super) fn bytes(&self) -> usize {
        self.filled_bytes
    }

    /// Checks the length of the arguments.
    pub(super) fn check_arguments(&self) -> Result<(), CallError> {
        match self.filled_bytes > MAX_ARGUMENT_BYTES {
            true => Err(Unfit::TooLong(self.filled_bytes).into()),
            false => Ok(()),
        }
    }

    /// The result of the run with handles replaced, and what goes beside it.
    pub(super) fn fill_result(
        &self,
        value: &RawValue,
        media: Media,
        limit: usize,
    ) -> Result<FilledResult, Box<ErrorReport>> {
        let mut beside = Beside::default();
        let target = match media {
            Media::Inline => Target::Result,
            Media::Apart => Target::ResultAnd(&mut beside),
            Media::Nested => Target::Record,
        };
        let too_large = |size: usize, limit: usize| {
            let message = format!("the result has {size} bytes, more than the limit of {limit}");
            let hint = "return a part of it: `slice`, `json(path)` or a summary";
            Box::new(ErrorReport::new(ErrorCode::ResultTooLarge, message).with_hint(hint))
        };
        let filled = match self.fill_in(value, limit, target) {
            Ok(filled) => filled,
            Err(Unfit::TooLong(size)) => return Err(too_large(size, limit)),
            // A result has no JSON texts.
            Err(Unfit::NotJson) => value.to_owned(),
        };
        let (size, most) =
            (beside.blocks.iter().map(|block| block.get().len()).sum(), limit.saturating_mul(ATTACHED_SHARE));
        let nested = (media == Media::Nested)
            .then(|| NestedValue { json: value.to_owned(), kept: Arc::new(HandedOn(self.values.clone())) });
        match size > most {
            true => Err(too_large(size, most)),
            false => Ok(FilledResult { value: filled, attached: beside.blocks, nested }),
        }
    }

    /// Replaces handles and JSON texts, or inserts a note for attached media; fails if the text would
    /// exceed `limit` bytes.
    fn fill_in(&self, json: &RawValue, limit: usize, mut target: Target<'_>) -> Result<Box<RawValue>, Unfit> {
        let (text, marker) = (json.get(), marker());
        let mut places = Places { walk: Walk::new(text), left: MAX_STEPS };
        let mut filled = String::new();
        let mut at = 0;
        let mut texts = self.texts.iter().map(|at| *at as usize).peekable();
        let mut handle = text.find(&marker);
        loop {
            let next_text = texts.peek().copied();
            match (next_text, handle) {
                (Some(start), _) if handle.is_none_or(|handle| start < handle) => {
                    texts.next();
                    let token = string_at(text, start).filter(|_| start >= at).ok_or(Unfit::NotJson)?;
                    filled.push_str(&text[at..start]);
                    at = start + token.len();
                    let inner: String = serde_json::from_str(token).map_err(|_| Unfit::NotJson)?;
                    match &target {
                        Target::Arguments(schema) if places.want_text(start, schema, &inner) => {
                            filled.push_str(token);
                        }
                        _ => push_json(&mut filled, &inner)?,
                    }
                }
                (_, Some(start)) => {
                    let behind = &text[start + marker.len()..];
                    let token = behind.split('"').next().unwrap_or_default();
                    let found = self.values.get(token).filter(|_| behind[token.len()..].starts_with("\"}"));
                    let end = start + marker.len() + found.map_or(0, |_| token.len() + 2);
                    handle = text[end..].find(&marker).map(|next| end + next);
                    let Some(kept) = found.filter(|_| start >= at) else { continue };
                    filled.push_str(&text[at..start]);
                    at = end;
                    match (&kept.stored, &mut target) {
                        (Stored::Media { block, kind, mime_type, .. }, Target::ResultAnd(beside)) => {
                            let number = beside.number(token, block);
                            let note = serde_json::json!({ "type": kind, "mimeType": mime_type, "attached": number });
                            filled.push_str(&note.to_string());
                        }
                        (_, Target::Record) => {
                            let (kind, mime_type, _) = kept.kind();
                            let note =
                                serde_json::json!({ "type": kind, "mimeType": mime_type, "size": kept.json_bytes() });
                            filled.push_str(&note.to_string());
                        }
                        (stored, target) => {
                            // Checked before the value is copied.
                            let size = filled.len() + kept.json_bytes();
                            if size > limit {
                                return Err(Unfit::TooLong(size));
                            }
                            stored.write(&mut filled, |json| match target {
                                Target::Arguments(schema) => places.want_text(start, schema, json),
                                Target::Result | Target::ResultAnd(_) | Target::Record => false,
                            });
                        }
                    }
                }
                (_, None) => break,
            }
        }
        filled.push_str(&text[at..]);
        if filled.len() > limit {
            return Err(Unfit::TooLong(filled.len()));
        }
        if !self.texts.is_empty() && json::depth(&filled) > json::MAX_DEPTH {
            return Err(Unfit::NotJson);
        }
        RawValue::from_string(filled).map_err(|_| Unfit::NotJson)
    }
}

/// The JSON string that starts at an offset of a JSON text, if any.
fn string_at(text: &str, start: usize) -> Option<&str> {
    let rest = text.get(start..).filter(|rest| rest.starts_with('"'))?;
    let place = Walk::new(rest).next()?;
    rest.get(place.span)
}

/// Appends JSON text without its line breaks.
fn push_json(out: &mut String, json: &str) -> Result<(), Unfit> {
    out.push_str(str::from_utf8(&unbroken(json.as_bytes())).map_err(|_| Unfit::NotJson)?);
    Ok(())
}

/// The offsets of arguments, in ascending order.
struct Places<'a> {
    walk: Walk<'a>,
    /// Remaining budget of schema steps.
    left: usize,
}

impl Places<'_> {
    /// Does the schema expect a string at an offset, and not the value of `json`? If the budget is exhausted,
    /// the answer is no; the arguments are checked in any case.
    fn want_text(&mut self, start: usize, schema: &Value, json: &str) -> bool {
        let Some(place) = self.walk.find(|place| place.span.start >= start) else { return false };
        let Some(left) = self.left.checked_sub(place.depth).filter(|left| *left > 0) else { return false };
        self.left = left;
        wants_text(schema, &self.walk.path(&place), json, &mut self.left)
    }
}

/// Media attached to a result, each once.
#[derive(Debug, Default)]
struct Beside {
    tokens: Vec<String>,
    blocks: Attached,
}

impl Beside {
    /// The number of a block, from 1.
    fn number(&mut self, token: &str, block: &RawValue) -> usize {
        let known = self.tokens.iter().position(|known| known == token);
        let index = known.unwrap_or_else(|| {
            self.tokens.push(token.to_owned());
            self.blocks.push(block.to_owned());
            self.tokens.len() - 1
        });
        index + 1
    }
}

impl StandIns for Filler {
    fn bytes(&self) -> usize {
        self.filled_bytes
    }

    fn fill(&self, written: &RawValue, schema: &Value) -> Result<Box<RawValue>, CallError> {
        Ok(self.fill_in(written, MAX_ARGUMENT_BYTES, Target::Arguments(schema))?)
    }
}

impl Stored {
    /// The JSON form of the value. `is_text_wanted` decides for a JSON text whether it stays a string.
    fn write(&self, out: &mut String, is_text_wanted: impl FnOnce(&str) -> bool) {
        let push_text =
            |out: &mut String, text: &str| out.push_str(&serde_json::to_string(text).expect("a text serializes"));
        match self {
            Stored::Text(text) => push_text(out, text.as_str()),
            Stored::JsonText(text) if is_text_wanted(text.as_str()) => push_text(out, text.as_str()),
            // A text of a server may contain line breaks; those between JSON tokens were removed on arrival.
            Stored::JsonText(text) => out.push_str(&String::from_utf8_lossy(&unbroken(text.as_str().as_bytes()))),
            Stored::Json(value) => out.push_str(value.as_str()),
            Stored::Media { block, .. } => out.push_str(block.get()),
        }
    }
}

impl From<Unfit> for CallError {
    fn from(unfit: Unfit) -> CallError {
        let message = match unfit {
            Unfit::TooLong(bytes) => format!(
                "with the results that are passed on, the arguments have {bytes} bytes, more than {MAX_ARGUMENT_BYTES}"
            ),
            Unfit::NotJson => {
                format!("with the results that are passed on, the arguments nest more than {} levels", json::MAX_DEPTH)
            }
        };
        CallError::new(ErrorCode::InvalidArguments, message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fill(text: &str, starts: &[u32], schema: &Value) -> Result<String, CallError> {
        let filler = Filler { values: HashMap::new(), texts: starts.to_vec(), filled_bytes: text.len() };
        let written = RawValue::from_string(text.to_owned()).unwrap();
        StandIns::fill(&filler, &written, schema).map(|filled| filled.get().to_owned())
    }

    #[test]
    fn a_json_text_is_a_text_where_one_is_wanted_and_its_value_elsewhere() {
        let text = r#"{"a":"{\"x\": 9007199254740993,\n \"y\":1.0}","b":["[1]","[2]"]}"#;
        let starts: Vec<u32> =
            text.match_indices(r#""{"#).chain(text.match_indices(r#""["#)).map(|(at, _)| at as u32).collect();
        assert_eq!(starts.len(), 3);
        let value = r#"{"x": 9007199254740993,  "y":1.0}"#;
        let table = [
            (json!({}), format!(r#"{{"a":{value},"b":[[1],[2]]}}"#)),
            (json!({"properties": {"a": {"type": "string"}}}), text.replace(r#"["[1]","[2]"]"#, "[[1],[2]]")),
            (
                json!({"properties": {"b": {"prefixItems": [{}, {"type": "string"}]}}}),
                format!(r#"{{"a":{value},"b":[[1],"[2]"]}}"#),
            ),
        ];
        for (schema, expected) in table {
            assert_eq!(fill(text, &starts, &schema).unwrap(), expected, "{schema}");
        }
    }

    #[test]
    fn finding_out_what_is_wanted_ends() {
        let branch = |key: &str| json!({"properties": {"a": {"$ref": "#/$defs/n"}}, "required": [key]});
        let n = json!({"anyOf": [branch("b"), branch("c")], "items": {"$ref": "#/$defs/n"}});
        let schema = json!({"$ref": "#/$defs/n", "$defs": {"n": n}});
        let (open, close) = (r#"{"a":"#.repeat(90), "}".repeat(90));
        let text = format!("{open}[{}]{close}", vec![r#""[]""#; 20_000].join(","));
        let starts: Vec<u32> = text.match_indices(r#""[]""#).map(|(at, _)| at as u32).collect();
        let filled = fill(&text, &starts, &schema).unwrap();
        assert_eq!(filled, text.replace(r#""[]""#, "[]"));
    }

    #[test]
    fn what_a_worker_makes_up_is_refused() {
        let deep = format!("{{\"a\":\"{}{}\"}}", "[".repeat(200), "]".repeat(200));
        let table: [(&str, &[u32]); 7] = [
            (r#"{"a":"[1]"}"#, &[1000]),
            (r#"{"a":"[1]"}"#, &[4]),
            (r#"{"a":"[1]"}"#, &[5, 5]),
            (r#"{"a":"[1]","b":"[2]"}"#, &[15, 5]),
            (r#"{"a":"[1"}"#, &[5]),
            (r#"{"é":"[1]"}"#, &[3]),
            (&deep, &[5]),
        ];
        for (text, starts) in table {
            assert_eq!(fill(text, starts, &json!({})).unwrap_err().code, ErrorCode::InvalidArguments, "{text}");
        }
    }
}
