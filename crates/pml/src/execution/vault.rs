//! Values that the host keeps for a run: results too large for the sandbox, images and other media.
//!
//! The program gets a handle and reads parts of the value through it. Where a handle leaves the run, in the
//! result or in the arguments of a call, it is replaced by the value ([`super::fill`]).
//!
//! Work that is linear in the size of a value ([`weigh`], [`KeptValue::read`], [`Filler`]) is separate from the vault
//! itself, so that it can run on another thread.
//!
//! **Invariant:** a value has an unguessable token. So a server cannot refer to a value that
//! another server returned, by putting a handle's JSON form into its own result.

use std::{any::Any, collections::HashMap, sync::Arc};

use pml_wire::{
    ErrorCode,
    message::{Block, CallError, Handle, Handles, Part as ReadPart, Slice},
};
use serde_json::value::RawValue;

use super::{
    fill::{Filler, marker},
    json_text::{IndexRoom, JsonText},
    run::Media,
};
use crate::{
    broker::{Answer, AnswerBody, Arguments, KeptBlock, KeptValues, NestedValue, Part},
    room::Held,
    work::Waiter,
};

/// Most bytes that one run may keep, and its share of the bytes of all runs.
const MAX_BYTES: usize = 512 * 1024 * 1024;
const MAX_SHARE: usize = 2;
/// Most memory for the indexes of kept values.
const INDEX_BYTES: usize = 32 * 1024 * 1024;

/// The values of one run.
#[derive(Debug)]
pub(super) struct Vault {
    values: HashMap<String, Arc<KeptValue>>,
    bytes: usize,
    /// Most bytes that may be kept.
    most_bytes: usize,
    limits: Limits,
}

/// Sizes that decide what goes to the program and what is indexed.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Largest value that is sent to the program in full.
    pub(super) whole_bytes: usize,
    index: IndexRoom,
}

/// A kept value, with its charge to the memory budget.
#[derive(Debug)]
pub(super) struct KeptValue {
    pub(super) stored: Stored,
    _held: Held,
}

#[derive(Debug)]
pub(super) enum Stored {
    /// A text, whose JSON form is created when needed.
    Text(JsonText),
    Json(JsonText),
    /// A JSON text, which stands for its value where a string is not expected.
    JsonText(JsonText),
    Media {
        /// Base64.
        data: JsonText,
        /// The whole block.
        block: Box<RawValue>,
        kind: String,
        mime_type: Option<String>,
        uri: Option<String>,
    },
}

/// Values of a run that the run around it gets, by their tokens.
#[derive(Debug)]
pub(super) struct HandedOn(pub(super) HashMap<String, Arc<KeptValue>>);

impl KeptValues for HandedOn {
    fn bytes(&self) -> usize {
        self.0.values().map(|kept| kept.bytes()).sum()
    }
}

/// The value that the program gets.
#[derive(Debug)]
pub(super) enum ProgramValue {
    Value(Box<str>),
    /// A JSON text.
    JsonText(Box<str>),
    Handles(Handles),
}

/// A response converted for the program, before the kept values have their tokens.
#[derive(Debug)]
pub(super) enum Weighed {
    Value(Box<str>),
    JsonText(Box<str>),
    Whole(KeptValue),
    Blocks(Vec<WeighedBlock>),
    /// What a nested run returned.
    Nested(Box<RawValue>, Arc<HandedOn>),
}

#[derive(Debug)]
pub(super) enum WeighedBlock {
    Value(Box<RawValue>),
    Kept(KeptValue),
}

/// Converts a response for the program, in time linear in its size.
pub(super) fn weigh(answer: Answer, limits: &Limits) -> Weighed {
    let Answer { body, held } = answer;
    let parts = match body {
        AnswerBody::Value(value) => return weigh_value(value, held, limits),
        AnswerBody::JsonText(text) if text.len() <= limits.whole_bytes => return Weighed::JsonText(text),
        AnswerBody::JsonText(text) => {
            let stored = Stored::JsonText(JsonText::of_json(text, &limits.index));
            return Weighed::Whole(KeptValue { stored, _held: held });
        }
        AnswerBody::Nested(nested) => return weigh_nested(nested, held, limits),
        AnswerBody::Blocks(parts) => parts,
    };
    let plain: usize = parts
        .iter()
        .map(|part| match part {
            Part::Value(value) => value.get().len(),
            Part::Kept(_) => 0,
        })
        .sum();
    if plain > limits.whole_bytes {
        let whole: Vec<_> = parts
            .into_iter()
            .map(|part| match part {
                Part::Value(value) => value,
                Part::Kept(kept) => kept.block,
            })
            .collect();
        let whole = serde_json::value::to_raw_value(&whole).expect("JSON texts serialize");
        return weigh_value(whole, held, limits);
    }
    let blocks = parts.into_iter().map(|part| match part {
        Part::Value(value) => WeighedBlock::Value(value),
        Part::Kept(KeptBlock { kind, mime_type, uri, data, block }) => {
            let data: String = serde_json::from_str(data.get()).unwrap_or_default();
            let data = JsonText::new(data.into(), &limits.index);
            let stored = Stored::Media { data, block, kind, mime_type, uri };
            WeighedBlock::Kept(KeptValue { stored, _held: held.clone() })
        }
    });
    Weighed::Blocks(blocks.collect())
}

/// What a nested run returned. A large one is kept, with its values in the places of their handles.
fn weigh_nested(NestedValue { json, kept }: NestedValue, held: Held, limits: &Limits) -> Weighed {
    let kept: Arc<dyn Any + Send + Sync> = kept;
    let Ok(kept) = kept.downcast::<HandedOn>() else { return weigh_value(json, held, limits) };
    if json.get().len() <= limits.whole_bytes {
        return Weighed::Nested(json, kept);
    }
    let filled_bytes = json.get().len() + kept.bytes();
    let filler = Filler { values: kept.0.clone(), texts: Vec::new(), filled_bytes };
    match filler.fill_result(&json, Media::Inline, usize::MAX) {
        Ok(filled) => weigh_value(filled.value, held, limits),
        Err(_) => weigh_value(json, held, limits),
    }
}

/// The value itself if it is small, else a kept value.
fn weigh_value(value: Box<RawValue>, held: Held, limits: &Limits) -> Weighed {
    if value.get().len() <= limits.whole_bytes {
        return Weighed::Value(Box::<RawValue>::into(value));
    }
    let stored = match serde_json::from_str::<String>(value.get()) {
        Ok(text) => Stored::Text(JsonText::new(text.into(), &limits.index)),
        Err(_) => Stored::Json(JsonText::of_json(Box::<RawValue>::into(value), &limits.index)),
    };
    Weighed::Whole(KeptValue { stored, _held: held })
}

impl Vault {
    /// A vault for values larger than `whole_bytes`. All runs together may keep `total_bytes`.
    pub(super) fn new(whole_bytes: usize, total_bytes: usize) -> Vault {
        Vault {
            values: HashMap::new(),
            bytes: 0,
            most_bytes: MAX_BYTES.min(total_bytes / MAX_SHARE),
            limits: Limits { whole_bytes, index: IndexRoom::new(INDEX_BYTES) },
        }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits.clone()
    }

    /// Keeps the large parts, and returns what the program gets.
    pub(super) fn keep(&mut self, weighed: Weighed) -> Result<ProgramValue, CallError> {
        Ok(match weighed {
            Weighed::Value(text) => ProgramValue::Value(text),
            Weighed::JsonText(text) => ProgramValue::JsonText(text),
            Weighed::Whole(kept) => ProgramValue::Handles(Handles::Whole(self.insert(kept)?)),
            Weighed::Blocks(blocks) => {
                let blocks = blocks.into_iter().map(|block| match block {
                    WeighedBlock::Value(value) => Ok(Block::Value(value)),
                    WeighedBlock::Kept(kept) => self.insert(kept).map(Block::Handle),
                });
                ProgramValue::Handles(Handles::Blocks(blocks.collect::<Result<_, _>>()?))
            }
            Weighed::Nested(value, kept) => {
                let mut handles = Vec::with_capacity(kept.0.len());
                for (token, kept) in &kept.0 {
                    handles.push(self.insert_as(token.clone(), Arc::clone(kept))?);
                }
                let is_whole = |handle: &Handle| value.get() == format!("{}{}\"}}", marker(), handle.token);
                match handles.pop() {
                    Some(handle) if handles.is_empty() && is_whole(&handle) => {
                        ProgramValue::Handles(Handles::Whole(handle))
                    }
                    last => {
                        handles.extend(last);
                        ProgramValue::Handles(Handles::Within { value, handles })
                    }
                }
            }
        })
    }

    fn insert(&mut self, kept: KeptValue) -> Result<Handle, CallError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|err| CallError::new(ErrorCode::ResultTooLarge, format!("the result cannot be kept: {err}")))?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        self.insert_as(token, Arc::new(kept))
    }

    /// A value of a nested run has the token that it had there: only that run could know it.
    fn insert_as(&mut self, token: String, kept: Arc<KeptValue>) -> Result<Handle, CallError> {
        let bytes = kept.bytes();
        let is_new = !self.values.contains_key(&token);
        if is_new && self.bytes + bytes > self.most_bytes {
            let message = format!("this run keeps as much of large results as it may, {} MB", self.most_bytes >> 20);
            return Err(CallError::new(ErrorCode::ResultTooLarge, message));
        }
        self.bytes += if is_new { bytes } else { 0 };
        let (kind, mime_type, uri) = kept.kind();
        let size = kept.text().as_str().len() as u64;
        let handle = Handle {
            token: token.clone(),
            r#type: kind.to_owned(),
            size,
            mime_type: mime_type.map(str::to_owned),
            uri: uri.map(str::to_owned),
        };
        self.values.insert(token, kept);
        Ok(handle)
    }

    /// The value with a token.
    pub(super) fn get(&self, token: &str) -> Result<Arc<KeptValue>, CallError> {
        let invalid = || CallError::new(ErrorCode::InvalidArguments, "there is no such result");
        self.values.get(token).cloned().ok_or_else(invalid)
    }

    /// The arguments of a call, with the values of their handles. `texts` are the offsets of the JSON
    /// texts.
    pub(super) fn arguments(&self, written: Box<RawValue>, texts: Vec<u32>) -> Result<Arguments, CallError> {
        let filler = match self.filler(&written) {
            Some(filler) => Filler { texts, ..filler },
            None if texts.is_empty() => return Ok(Arguments::new(written, None)),
            None => Filler { values: HashMap::new(), texts, filled_bytes: written.get().len() },
        };
        filler.check_arguments()?;
        Ok(Arguments::new(written, Some(Arc::new(filler))))
    }

    /// The values of the handles in a text; `None` if there are none.
    pub(super) fn filler(&self, json: &RawValue) -> Option<Filler> {
        if self.values.is_empty() {
            return None;
        }
        let marker = marker();
        let mut filler = Filler { values: HashMap::new(), texts: Vec::new(), filled_bytes: json.get().len() };
        for token in json.get().split(&marker).skip(1).filter_map(|behind| behind.split('"').next()) {
            if let Some(kept) = self.values.get(token) {
                filler.filled_bytes = filler.filled_bytes.saturating_add(kept.json_bytes());
                filler.values.entry(token.to_owned()).or_insert_with(|| Arc::clone(kept));
            }
        }
        (!filler.values.is_empty()).then_some(filler)
    }
}

impl KeptValue {
    /// What a handle says of it: its type, its MIME type and its address.
    pub(super) fn kind(&self) -> (&str, Option<&str>, Option<&str>) {
        match &self.stored {
            Stored::Text(_) => ("text", None, None),
            Stored::Json(_) | Stored::JsonText(_) => ("json", None, None),
            Stored::Media { kind, mime_type, uri, .. } => (kind, mime_type.as_deref(), uri.as_deref()),
        }
    }

    /// The text that is read through the handle.
    fn text(&self) -> &JsonText {
        match &self.stored {
            Stored::Text(text) | Stored::Json(text) | Stored::JsonText(text) | Stored::Media { data: text, .. } => text,
        }
    }

    /// The size of the value in memory.
    fn bytes(&self) -> usize {
        let block = if let Stored::Media { block, .. } = &self.stored { block.get().len() } else { 0 };
        self.text().as_str().len() + block
    }

    /// The approximate length of the JSON form: a text may need escapes.
    pub(super) fn json_bytes(&self) -> usize {
        match &self.stored {
            Stored::Text(text) | Stored::Json(text) | Stored::JsonText(text) => text.as_str().len(),
            Stored::Media { block, .. } => block.get().len(),
        }
    }

    /// The approximate number of bytes that a read looks at.
    pub(super) fn cost(&self, part: &ReadPart, limits: &Limits) -> usize {
        match part {
            ReadPart::Slice { from, to } => {
                let most = (limits.whole_bytes / 2) as u64;
                usize::try_from(to.saturating_sub(*from).min(most)).unwrap_or(usize::MAX)
            }
            ReadPart::Json { .. } => self.text().as_str().len(),
        }
    }

    /// Reads a part, in time linear in the value for the first path, and in the part afterwards.
    pub(super) fn read(&self, part: &ReadPart, limits: &Limits, wanted: &Waiter) -> Result<Answer, CallError> {
        let invalid = |message: String| CallError::new(ErrorCode::InvalidArguments, message);
        match part {
            ReadPart::Slice { from, to } => {
                let slice = slice(self.text().as_str(), *from, *to, limits.whole_bytes / 2);
                let text = serde_json::to_string(&slice).expect("plain data serializes");
                Ok(RawValue::from_string(text).map_err(|err| invalid(err.to_string()))?.into())
            }
            ReadPart::Json { path } => {
                let value = self.text().select(path, wanted).map_err(invalid)?;
                if pml_wire::json::depth(value) > pml_wire::json::MAX_DEPTH {
                    let message = format!("the value is nested more than {} levels deep", pml_wire::json::MAX_DEPTH);
                    return Err(invalid(message));
                }
                Ok(RawValue::from_string(value.to_owned()).map_err(|err| invalid(err.to_string()))?.into())
            }
        }
    }
}

/// Bytes `from..to` of a text, aligned to whole characters and at most `most`.
///
/// The end is moved back to a whole character, and the beginning too, so that slices one after the
/// other give everything once. Returns at least one character, so that a loop makes progress.
fn slice(text: &str, from: u64, to: u64, most: usize) -> Slice {
    let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(text.len());
    let from = text.floor_char_boundary(clamp(from));
    let wanted = text.floor_char_boundary(clamp(to).min(from.saturating_add(most.max(4))));
    let to = match wanted > from {
        true => wanted,
        false if clamp(to) <= from => from,
        false => text.ceil_char_boundary(from + 1),
    };
    Slice { text: text[from..to].to_owned(), next: to as u64 }
}

#[cfg(test)]
mod tests {
    use pml_wire::message::HANDLE_KEY;
    use serde_json::Value;

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn tell(vault: &mut Vault, answer: Answer) -> ProgramValue {
        vault.keep(weigh(answer, &vault.limits())).unwrap()
    }

    fn kept(vault: &mut Vault, text: &str) -> Handle {
        match tell(vault, raw(text).into()) {
            ProgramValue::Handles(Handles::Whole(handle)) => handle,
            other => panic!("{other:?}"),
        }
    }

    fn vault(whole_bytes: usize) -> Vault {
        Vault::new(whole_bytes, 1 << 30)
    }

    #[test]
    fn what_is_small_goes_whole_and_what_is_large_stays() {
        let mut vault = vault(20);
        assert!(matches!(tell(&mut vault, raw("[1,2,3]").into()), ProgramValue::Value(text) if &*text == "[1,2,3]"));
        let text = kept(&mut vault, r#""a text of more than twenty bytes""#);
        assert_eq!((text.r#type.as_str(), text.size), ("text", 32));
        let json = kept(&mut vault, r#"{"items":[1,2,3],"name":"long enough"}"#);
        assert_eq!((json.r#type.as_str(), json.size), ("json", 38));
        let part = ReadPart::Json { path: "items[1]".to_owned() };
        let read = vault.get(&json.token).unwrap().read(&part, &vault.limits(), &Waiter::default()).unwrap();
        assert!(matches!(read.body, AnswerBody::Value(value) if value.get() == "2"));
        assert_eq!(vault.get("x").unwrap_err().code, ErrorCode::InvalidArguments);
    }

    #[test]
    fn a_run_keeps_no_more_than_its_share() {
        let mut vault = Vault::new(20, 400);
        let answer = || raw(&format!("\"{}\"", "x".repeat(80)));
        assert!(vault.keep(weigh(answer().into(), &vault.limits())).is_ok());
        assert!(vault.keep(weigh(answer().into(), &vault.limits())).is_ok());
        let error = vault.keep(weigh(answer().into(), &vault.limits())).unwrap_err();
        assert_eq!(error.code, ErrorCode::ResultTooLarge);
    }

    #[test]
    fn slices_are_whole_characters_and_give_everything_once() {
        let text = "aäö€😀z".repeat(50);
        for size in 1..12 {
            let (mut at, mut whole) = (0, String::new());
            while at < text.len() as u64 {
                let part = slice(&text, at, at + size, 1000);
                assert!(part.next > at);
                whole.push_str(&part.text);
                at = part.next;
            }
            assert_eq!(whole, text);
        }
        assert_eq!(slice("abc", 2, 1, 10), Slice { text: String::new(), next: 2 });
        assert_eq!(slice("abc", 1, u64::MAX, 10), Slice { text: "bc".to_owned(), next: 3 });
        assert_eq!(slice("abcdefgh", 0, 8, 5).text, "abcde");
    }

    #[test]
    fn values_take_the_place_of_their_handles_only() {
        let mut vault = vault(40);
        let long = format!("\"{}\"", "x\\n".repeat(20));
        let handle = kept(&mut vault, &long);
        let marker = format!("{{\"{HANDLE_KEY}\":\"{}\"}}", handle.token);
        let arguments = |text: &str| vault.arguments(raw(text), vec![]).unwrap().fill(&Value::Null).unwrap();
        let filled = arguments(&format!("{{\"a\":[{marker},1],\"b\":{marker}}}"));
        assert_eq!(filled.get(), format!("{{\"a\":[{long},1],\"b\":{long}}}"));
        // An unknown token, or a text that looks like a handle, is left alone.
        for text in [
            format!("[{{\"{HANDLE_KEY}\":\"0000\"}}]"),
            serde_json::to_string(&marker).unwrap(),
            format!("{{\"{HANDLE_KEY}\":\"{}\",\"more\":1}}", handle.token),
        ] {
            assert_eq!(arguments(&text).get(), text);
        }
        let filler = vault.filler(&raw(&marker)).unwrap();
        let error = filler.fill_result(&raw(&marker), Media::Inline, 40).unwrap_err();
        assert_eq!(error.code, ErrorCode::ResultTooLarge);
    }

    #[test]
    fn an_image_comes_back_as_the_block_it_was() {
        let mut vault = vault(1000);
        let block = r#"{"type":"image","data":"AAAA","mimeType":"image/png"}"#;
        let image = KeptBlock {
            kind: "image".to_owned(),
            mime_type: Some("image/png".to_owned()),
            uri: None,
            data: raw("\"AAAA\""),
            block: raw(block),
        };
        let body = AnswerBody::Blocks(vec![Part::Value(raw("1")), Part::Kept(image)]);
        let ProgramValue::Handles(Handles::Blocks(blocks)) = tell(&mut vault, Answer { body, held: None }) else {
            panic!("no blocks")
        };
        let Block::Handle(handle) = &blocks[1] else { panic!("no handle") };
        assert_eq!((handle.r#type.as_str(), handle.size), ("image", 4));
        let result = format!("[{{\"{HANDLE_KEY}\":\"{}\"}}]", handle.token);
        let fill = |text: &str, media| vault.filler(&raw(text)).unwrap().fill_result(&raw(text), media, 1000).unwrap();
        let inline = fill(&result, Media::Inline);
        assert_eq!((inline.value.get(), inline.attached.len()), (&*format!("[{block}]"), 0));
        let twice = result.replace('[', "[0,").replace(']', &format!(",{}]", &result[1..result.len() - 1]));
        let apart = fill(&twice, Media::Apart);
        let note = r#"{"type":"image","mimeType":"image/png","attached":1}"#;
        assert_eq!(apart.value.get(), format!("[0,{note},{note}]"));
        assert_eq!(apart.attached.iter().map(|block| block.get()).collect::<Vec<_>>(), [block]);
    }

    #[test]
    fn the_run_around_gets_handles_of_what_a_nested_run_returns() {
        let mut inner = vault(40);
        let long = format!("\"{}\"", "x".repeat(50));
        let handle = kept(&mut inner, &long);
        let marker = format!("{{\"{HANDLE_KEY}\":\"{}\"}}", handle.token);
        let hand_on = |inner: &Vault, text: &str| {
            let filled = inner.filler(&raw(text)).unwrap().fill_result(&raw(text), Media::Nested, 1000).unwrap();
            (filled.value, Answer { body: AnswerBody::Nested(filled.nested.unwrap()), held: None })
        };
        let (noted, answer) = hand_on(&inner, &format!("{{\"a\":[{marker},1]}}"));
        assert_eq!(noted.get(), r#"{"a":[{"type":"text","mimeType":null,"size":50},1]}"#, "what the trace has");
        let mut outer = vault(1000);
        let ProgramValue::Handles(Handles::Within { value, handles }) = tell(&mut outer, answer) else {
            panic!("no handles")
        };
        assert_eq!((&handles[..], value.get()), (&[handle.clone()][..], &*format!("{{\"a\":[{marker},1]}}")));
        let filled = outer.filler(&value).unwrap().fill_result(&value, Media::Inline, 1000).unwrap();
        assert_eq!(filled.value.get(), format!("{{\"a\":[{long},1]}}"));
        // The same value twice takes the room once, and a value that is all of the result is a handle itself.
        let bytes = outer.bytes;
        let (_, answer) = hand_on(&inner, &marker);
        assert!(matches!(tell(&mut outer, answer), ProgramValue::Handles(Handles::Whole(whole)) if whole == handle));
        assert_eq!(outer.bytes, bytes);
        // What is too large for the program is kept whole, with the values in it.
        let mut small = vault(30);
        let (_, answer) = hand_on(&inner, &format!("[{marker}]"));
        let ProgramValue::Handles(Handles::Whole(whole)) = tell(&mut small, answer) else { panic!("no handle") };
        assert_eq!(small.get(&whole.token).unwrap().text().as_str(), format!("[{long}]"));
    }
}
