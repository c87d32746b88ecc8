//! What the host keeps for a run: results too large for the sandbox, and images and the like.
//!
//! The program gets a handle, and reads parts through it. Where a handle leaves the run, in the
//! result or in the arguments of a call, the value takes its place.
//!
//! **Invariant:** a value is named by a token that nobody can guess. So a server cannot name what
//! another server returned, by putting a handle's JSON form into its own result.

use std::collections::HashMap;

use pml_wire::{
    ErrorCode,
    message::{Block, CallError, ErrorReport, HANDLE_KEY, Handle, Handles, Part as ReadPart, Read, Slice},
};
use serde_json::value::RawValue;

use super::{Media, path};
use crate::broker::{Answer, Kept, Part};

/// Most that one run may keep.
const MAX_BYTES: usize = 512 * 1024 * 1024;
/// Longest arguments of one call, once values have taken their handles' places.
const MAX_ARGUMENT_BYTES: usize = 128 * 1024 * 1024;

/// The values of one run.
#[derive(Debug)]
pub(super) struct Vault {
    values: HashMap<String, Stored>,
    bytes: usize,
    /// Largest value that goes to the program whole.
    limit: usize,
}

#[derive(Debug)]
enum Stored {
    /// A text, and its JSON form is made when it is needed.
    Text(String),
    Json(Box<RawValue>),
    Media {
        /// Base64.
        data: String,
        /// The whole block.
        block: Box<RawValue>,
        kind: String,
        mime_type: Option<String>,
    },
}

/// Content blocks that go beside a result.
type Attached = Vec<Box<RawValue>>;

/// What the program is told.
#[derive(Debug)]
pub(super) enum Told {
    Value(Box<str>),
    Handles(Handles),
}

impl Vault {
    pub(super) fn new(limit: usize) -> Vault {
        Vault { values: HashMap::new(), bytes: 0, limit }
    }

    /// Makes an answer fit for the program, keeping what does not go to it.
    pub(super) fn answer(&mut self, answer: Answer) -> Result<Told, CallError> {
        let value = match answer {
            Answer::Value(value) => value,
            Answer::Blocks(parts) => {
                let plain: usize = parts
                    .iter()
                    .map(|part| match part {
                        Part::Value(value) => value.get().len(),
                        Part::Kept(_) => 0,
                    })
                    .sum();
                if plain <= self.limit {
                    let blocks: Result<_, _> = parts.into_iter().map(|part| self.block(part)).collect();
                    return Ok(Told::Handles(Handles::Blocks(blocks?)));
                }
                let whole: Vec<_> = parts
                    .into_iter()
                    .map(|part| match part {
                        Part::Value(value) => value,
                        Part::Kept(kept) => kept.block,
                    })
                    .collect();
                serde_json::value::to_raw_value(&whole).expect("JSON texts serialize")
            }
        };
        self.told(value)
    }

    /// A value itself if it is small enough, else a handle to it.
    fn told(&mut self, value: Box<RawValue>) -> Result<Told, CallError> {
        if value.get().len() <= self.limit {
            let text: Box<str> = Box::<RawValue>::into(value);
            return Ok(Told::Value(text));
        }
        let stored = match serde_json::from_str::<String>(value.get()) {
            Ok(text) => Stored::Text(text),
            Err(_) => Stored::Json(value),
        };
        Ok(Told::Handles(Handles::Whole(self.keep(stored, None, None, None)?)))
    }

    fn block(&mut self, part: Part) -> Result<Block, CallError> {
        match part {
            Part::Value(value) => Ok(Block::Value(value)),
            Part::Kept(Kept { kind, mime_type, uri, data, block }) => {
                let text = serde_json::from_str(data.get()).unwrap_or_default();
                let media = Stored::Media { data: text, block, kind: kind.clone(), mime_type: mime_type.clone() };
                Ok(Block::Handle(self.keep(media, Some(kind), mime_type, uri)?))
            }
        }
    }

    fn keep(
        &mut self,
        stored: Stored,
        kind: Option<String>,
        mime_type: Option<String>,
        uri: Option<String>,
    ) -> Result<Handle, CallError> {
        let held = stored.text().len() + if let Stored::Media { block, .. } = &stored { block.get().len() } else { 0 };
        if self.bytes + held > MAX_BYTES {
            let message = format!("this run keeps more than {} MB of results already", MAX_BYTES / (1024 * 1024));
            return Err(CallError::new(ErrorCode::ResultTooLarge, message));
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|err| CallError::new(ErrorCode::ResultTooLarge, format!("the result cannot be kept: {err}")))?;
        self.bytes += held;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let kind = kind.unwrap_or_else(|| if let Stored::Text(_) = &stored { "text" } else { "json" }.to_owned());
        let handle = Handle { token: token.clone(), r#type: kind, size: stored.text().len() as u64, mime_type, uri };
        self.values.insert(token, stored);
        Ok(handle)
    }

    /// Reads a part of what is kept.
    pub(super) fn read(&mut self, read: &Read) -> Result<Told, CallError> {
        let invalid = |message: String| CallError::new(ErrorCode::InvalidArguments, message);
        let stored = self.values.get(&read.token).ok_or_else(|| invalid("there is no such result".to_owned()))?;
        let text = stored.text();
        match &read.part {
            ReadPart::Slice { from, to } => {
                let slice = slice(text, *from, *to, self.limit / 2);
                Ok(Told::Value(serde_json::to_string(&slice).expect("plain data serializes").into()))
            }
            ReadPart::Json { path } => {
                let value = path::select(text, path).map_err(invalid)?.to_owned();
                if pml_wire::json::depth(value.get()) > pml_wire::json::MAX_DEPTH {
                    let message = format!("the value is nested more than {} levels deep", pml_wire::json::MAX_DEPTH);
                    return Err(invalid(message));
                }
                self.told(value)
            }
        }
    }

    /// The arguments of a call, with values in place of handles.
    pub(super) fn fill_arguments(&self, args: Box<RawValue>) -> Result<Box<RawValue>, CallError> {
        self.fill(args, MAX_ARGUMENT_BYTES, &mut |stored, out| stored.write(out)).map_err(|size| {
            let message = format!(
                "with the results that are passed on, the arguments have {size} bytes, more than {MAX_ARGUMENT_BYTES}"
            );
            CallError::new(ErrorCode::InvalidArguments, message)
        })
    }

    /// The result of the run, with values in place of handles, and what goes beside it.
    pub(super) fn fill_result(
        &self,
        value: Box<RawValue>,
        media: Media,
    ) -> Result<(Box<RawValue>, Attached), Box<ErrorReport>> {
        let mut attached = Attached::new();
        let filled = self.fill(value, self.limit, &mut |stored, out| match (stored, media) {
            (Stored::Media { block, kind, mime_type, .. }, Media::Apart) => {
                let number = attached.iter().position(|known| known.get() == block.get()).unwrap_or_else(|| {
                    attached.push(block.clone());
                    attached.len() - 1
                });
                let note = serde_json::json!({ "type": kind, "mimeType": mime_type, "attached": number + 1 });
                out.push_str(&note.to_string());
            }
            _ => stored.write(out),
        });
        let filled = filled.map_err(|size| {
            let message = format!("the result has {size} bytes, more than the limit of {}", self.limit);
            let hint = "return a part of it: `slice`, `json(path)` or a summary";
            Box::new(ErrorReport::new(ErrorCode::ResultTooLarge, message).with_hint(hint))
        })?;
        Ok((filled, attached))
    }

    /// Puts values in place of handles, unless the whole would have more than `limit` bytes.
    ///
    /// The worker writes JSON without spaces, and a quote inside a text is written `\"`; so the
    /// marker, found in the text, is a handle's form and nothing else.
    fn fill(
        &self,
        json: Box<RawValue>,
        limit: usize,
        write: &mut dyn FnMut(&Stored, &mut String),
    ) -> Result<Box<RawValue>, usize> {
        let marker = format!("{{\"{HANDLE_KEY}\":\"");
        if self.values.is_empty() || !json.get().contains(&marker) {
            return Ok(json);
        }
        // Counted before anything is copied.
        let tokens = json.get().split(&marker).skip(1).filter_map(|behind| behind.split('"').next());
        let size = tokens.filter_map(|token| self.values.get(token)).map(|stored| stored.text().len()).sum::<usize>();
        if size > limit {
            return Err(size);
        }
        let mut filled = String::with_capacity(json.get().len() + size);
        let mut rest = json.get();
        while let Some(at) = rest.find(&marker) {
            let behind = &rest[at + marker.len()..];
            let token = behind.split('"').next().unwrap_or_default();
            let found = self.values.get(token).filter(|_| behind[token.len()..].starts_with("\"}"));
            let Some(stored) = found else {
                filled.push_str(&rest[..at + marker.len()]);
                rest = behind;
                continue;
            };
            filled.push_str(&rest[..at]);
            write(stored, &mut filled);
            if filled.len() > limit {
                return Err(filled.len());
            }
            rest = &behind[token.len() + 2..];
        }
        filled.push_str(rest);
        match filled.len() > limit {
            true => Err(filled.len()),
            false => Ok(RawValue::from_string(filled).unwrap_or(json)),
        }
    }
}

impl Stored {
    /// What is read through the handle.
    fn text(&self) -> &str {
        match self {
            Stored::Text(text) | Stored::Media { data: text, .. } => text,
            Stored::Json(value) => value.get(),
        }
    }

    /// Its JSON form.
    fn write(&self, out: &mut String) {
        match self {
            Stored::Text(text) => out.push_str(&serde_json::to_string(text).expect("a text serializes")),
            Stored::Json(value) | Stored::Media { block: value, .. } => out.push_str(value.get()),
        }
    }
}

/// Bytes `from..to` of a text, but whole characters and not more than `most`.
///
/// The end is moved back to a whole character, and the beginning too, so that slices one after the
/// other give everything once. At least one character comes, so that it goes on.
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
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn kept(vault: &mut Vault, text: &str) -> Handle {
        match vault.answer(Answer::Value(raw(text))).unwrap() {
            Told::Handles(Handles::Whole(handle)) => handle,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_small_goes_whole_and_what_is_large_stays() {
        let mut vault = Vault::new(20);
        assert!(matches!(vault.answer(Answer::Value(raw("[1,2,3]"))), Ok(Told::Value(text)) if &*text == "[1,2,3]"));
        let text = kept(&mut vault, r#""a text of more than twenty bytes""#);
        assert_eq!((text.r#type.as_str(), text.size), ("text", 32));
        let json = kept(&mut vault, r#"{"items":[1,2,3],"name":"long enough"}"#);
        assert_eq!((json.r#type.as_str(), json.size), ("json", 38));
        let part = ReadPart::Json { path: "items[1]".to_owned() };
        let read = vault.read(&Read { token: json.token, part }).unwrap();
        assert!(matches!(read, Told::Value(value) if &*value == "2"));
        let unknown = Read { token: "x".to_owned(), part: ReadPart::Slice { from: 0, to: 1 } };
        assert_eq!(vault.read(&unknown).unwrap_err().code, ErrorCode::InvalidArguments);
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
        let mut vault = Vault::new(40);
        let long = format!("\"{}\"", "x\\n".repeat(20));
        let handle = kept(&mut vault, &long);
        let marker = format!("{{\"{HANDLE_KEY}\":\"{}\"}}", handle.token);
        let filled = vault.fill_arguments(raw(&format!("{{\"a\":[{marker},1],\"b\":{marker}}}"))).unwrap();
        assert_eq!(filled.get(), format!("{{\"a\":[{long},1],\"b\":{long}}}"));
        // A token that is none, or a text that looks like a handle, is left alone.
        for text in [
            format!("[{{\"{HANDLE_KEY}\":\"0000\"}}]"),
            serde_json::to_string(&marker).unwrap(),
            format!("{{\"{HANDLE_KEY}\":\"{}\",\"more\":1}}", handle.token),
        ] {
            assert_eq!(vault.fill_arguments(raw(&text)).unwrap().get(), text);
        }
        assert_eq!(vault.fill_result(raw(&marker), Media::Inline).unwrap_err().code, ErrorCode::ResultTooLarge);
    }

    #[test]
    fn an_image_comes_back_as_the_block_it_was() {
        let mut vault = Vault::new(1000);
        let block = r#"{"type":"image","data":"AAAA","mimeType":"image/png"}"#;
        let image = Kept {
            kind: "image".to_owned(),
            mime_type: Some("image/png".to_owned()),
            uri: None,
            data: raw("\"AAAA\""),
            block: raw(block),
        };
        let answer = Answer::Blocks(vec![Part::Value(raw("1")), Part::Kept(image)]);
        let Ok(Told::Handles(Handles::Blocks(blocks))) = vault.answer(answer) else { panic!("no blocks") };
        let Block::Handle(handle) = &blocks[1] else { panic!("no handle") };
        assert_eq!((handle.r#type.as_str(), handle.size), ("image", 4));
        let result = format!("[{{\"{HANDLE_KEY}\":\"{}\"}}]", handle.token);
        let (inline, none) = vault.fill_result(raw(&result), Media::Inline).unwrap();
        assert_eq!((inline.get(), none.len()), (&*format!("[{block}]"), 0));
        let twice = result.replace('[', "[0,").replace(']', &format!(",{}]", &result[1..result.len() - 1]));
        let (apart, attached) = vault.fill_result(raw(&twice), Media::Apart).unwrap();
        let note = r#"{"type":"image","mimeType":"image/png","attached":1}"#;
        assert_eq!(apart.get(), format!("[0,{note},{note}]"));
        assert_eq!(attached.iter().map(|block| block.get()).collect::<Vec<_>>(), [block]);
    }
}
