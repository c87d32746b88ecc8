//! JSON text with references in it: the arguments of a task.
//!
//! Literals are kept as they were written, so a number of twenty digits arrives with its twenty digits.

use std::borrow::Cow;

use pml_wire::{
    ErrorCode, json,
    message::HANDLE_KEY,
    walk::{Step, Walk},
};
use serde_json::Value;

use super::reference::{Piece, Reference, Text, has_name};

/// Longest arguments of one task, with the values of references in them.
const MAX_FILLED_BYTES: usize = 8 * 1024 * 1024;

/// JSON text with places for values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
    /// Where values are put in, in order.
    pub holes: Vec<Hole>,
}

/// A place for a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    /// As a JSON Pointer.
    pub pointer: String,
    /// As messages show it: `.items[0]`.
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// JSON text.
    Text(String),
    /// The value of a reference.
    Value(Reference),
    /// A JSON string, put together.
    String(Vec<Piece>),
}

/// What is wrong with a string in the text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// As in `.items[0]`.
    pub path: String,
    pub message: String,
}

/// The value of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedReference<'a> {
    /// JSON text; of a text that is JSON, that text.
    pub json: Cow<'a, str>,
    /// A tool returned this as a text, which is a JSON object or array. It is the text where a text is wanted.
    pub is_json_text: bool,
}

/// Why values cannot be put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    pub code: ErrorCode,
    pub message: String,
}

impl From<String> for Unfit {
    fn from(message: String) -> Unfit {
        Unfit { code: ErrorCode::InvalidArguments, message }
    }
}

/// JSON text with values in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    pub json: String,
    /// Where the JSON strings begin that are the texts of JSON values.
    pub texts: Vec<u32>,
}

impl Template {
    /// Reads JSON text, which must be valid.
    pub fn parse(json: &str) -> Result<Template, Vec<Mistake>> {
        // A `$` may be written as an escape.
        if !json.contains('$') && !json.contains("\\u0024") {
            return Ok(Template { parts: vec![Part::Text(json.to_owned())], holes: Vec::new() });
        }
        let (mut template, mut mistakes) = (Template::default(), Vec::new());
        let mut written = 0;
        let mut walk = Walk::new(json);
        let mut wrong_keys = Vec::new();
        while let Some(place) = walk.next() {
            if let Some(Step::Key(key)) = place.depth.checked_sub(1).and_then(|depth| walk.step(depth))
                && has_name(&key)
            {
                wrong_keys.push(dotted(&walk.path(&place)));
            }
            let token = &json[place.span.clone()];
            if !token.starts_with('"') {
                continue;
            }
            let text: String = serde_json::from_str(token).unwrap_or_default();
            let part = match Text::parse(&text) {
                Ok(Text::Literal(literal)) if literal == text => continue,
                Ok(Text::Literal(literal)) => Part::Text(Value::String(literal).to_string()),
                Ok(Text::Whole(reference)) => Part::Value(reference),
                Ok(Text::Pieces(pieces)) => Part::String(pieces),
                Err(message) => {
                    mistakes.push(Mistake { path: dotted(&walk.path(&place)), message });
                    continue;
                }
            };
            if !matches!(part, Part::Text(_)) {
                let path = walk.path(&place);
                template.holes.push(Hole { pointer: pointer(&path), path: dotted(&path) });
            }
            template.parts.push(Part::Text(json[written..place.span.start].to_owned()));
            template.parts.push(part);
            written = place.span.end;
        }
        template.parts.push(Part::Text(json[written..].to_owned()));
        mistakes.extend(wrong_keys.into_iter().map(|path| {
            let message = "the key has a reference in it; references are values, not keys".to_owned();
            Mistake { path, message }
        }));
        if mistakes.is_empty() { Ok(template) } else { Err(mistakes) }
    }

    /// The references in it, each with its place.
    pub fn references(&self) -> impl Iterator<Item = (&Hole, &Reference)> {
        let parts = self.parts.iter().filter(|part| !matches!(part, Part::Text(_)));
        self.holes.iter().zip(parts).flat_map(|(hole, part)| {
            let (whole, pieces) = match part {
                Part::Text(_) => (None, &[][..]),
                Part::Value(reference) => (Some(reference), &[][..]),
                Part::String(pieces) => (None, pieces.as_slice()),
            };
            let inserted = pieces.iter().filter_map(|piece| match piece {
                Piece::Text(_) => None,
                Piece::Inserted(reference) => Some(reference),
            });
            whole.into_iter().chain(inserted).map(move |reference| (hole, reference))
        })
    }

    /// The same between two pieces of JSON text.
    pub fn between(&self, before: &str, after: &str) -> Template {
        let text = |text: &str| Part::Text(text.to_owned());
        let parts = [vec![text(before)], self.parts.clone(), vec![text(after)]].concat();
        Template { parts, holes: self.holes.clone() }
    }

    /// The JSON text with `null` for what is not known yet.
    pub fn outline(&self) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Value(_) | Part::String(_) => "null".to_owned(),
        };
        self.parts.iter().map(part).collect()
    }

    /// Puts the values of references in. The error says what is wrong with one of them.
    pub fn fill<'a>(
        &self,
        mut find: impl FnMut(&Reference) -> Result<ResolvedReference<'a>, Unfit>,
    ) -> Result<Filled, Unfit> {
        let mut filled = Filled::default();
        for part in &self.parts {
            match part {
                Part::Text(text) => filled.json.push_str(text),
                Part::Value(reference) => {
                    let ResolvedReference { json, is_json_text } = find(reference)?;
                    if is_json_text {
                        filled.texts.push(u32::try_from(filled.json.len()).map_err(|_| too_long())?);
                        filled.json.push_str(&Value::String(json.into_owned()).to_string());
                    } else {
                        filled.json.push_str(&json);
                    }
                }
                Part::String(pieces) => {
                    let text = pieces.iter().map(|piece| match piece {
                        Piece::Text(text) => Ok(Cow::Borrowed(text.as_str())),
                        Piece::Inserted(reference) => Ok(inserted(reference, find(reference)?)?),
                    });
                    let text = text.collect::<Result<Vec<_>, Unfit>>()?.concat();
                    filled.json.push_str(&Value::String(text).to_string());
                }
            }
            if filled.json.len() > MAX_FILLED_BYTES {
                return Err(too_long());
            }
        }
        if json::depth(&filled.json) > json::MAX_DEPTH {
            let message =
                format!("with the values of references it is nested more than {} levels deep", json::MAX_DEPTH);
            return Err(message.into());
        }
        Ok(filled)
    }
}

fn too_long() -> Unfit {
    format!("with the values of references it has more than {} MB", MAX_FILLED_BYTES >> 20).into()
}

/// The text that a value is inside a longer text.
fn inserted<'a>(reference: &Reference, found: ResolvedReference<'a>) -> Result<Cow<'a, str>, String> {
    let ResolvedReference { json, is_json_text } = found;
    if is_json_text {
        return Ok(json);
    }
    // Inside a JSON string, a quote would have a backslash before it.
    if json.contains(&format!("{{\"{HANDLE_KEY}\":\"")) {
        return Err(format!("`{reference}` is too large, or no text, and cannot be inserted into one"));
    }
    match json.starts_with('"') {
        true => serde_json::from_str::<String>(&json)
            .map(Cow::Owned)
            .map_err(|err| format!("`{reference}` cannot be read: {err}")),
        false => Ok(json),
    }
}

/// A path as messages show it: `.items[0].name`.
fn dotted(path: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Key(key) => format!(".{}", super::reference::shown(key)),
        Step::Index(index) => format!("[{index}]"),
    };
    path.iter().map(step).collect()
}

/// A path as a JSON Pointer: `/items/0/name`.
fn pointer(path: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Key(key) => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Step::Index(index) => format!("/{index}"),
    };
    path.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(json: &str, value: &str, is_json_text: bool) -> Result<Filled, String> {
        let template = Template::parse(json).unwrap();
        let filled = template.fill(|_| Ok(ResolvedReference { json: value.to_owned().into(), is_json_text }));
        filled.map_err(|unfit| unfit.message)
    }

    #[test]
    fn a_whole_reference_keeps_the_type_and_an_inserted_one_is_text() {
        #[rustfmt::skip]
        let table = [
            // arguments                               value           what is sent
            (r#"{"a":"$OUTPUT[t].x"}"#,                "[1,2]",        r#"{"a":[1,2]}"#),
            (r#"{"a":"$OUTPUT[t].x"}"#,                "\"1\"",        r#"{"a":"1"}"#),
            (r#"{"a":"$OUTPUT[t].x"}"#,                "null",         r#"{"a":null}"#),
            (r#"{"a":"n=${$OUTPUT[t]}"}"#,             "12345678901234567890123", r#"{"a":"n=12345678901234567890123"}"#),
            (r#"{"a":"n=${$OUTPUT[t]}"}"#,             r#""q\"\n""#,   r#"{"a":"n=q\"\n"}"#),
            (r#"{"a":"${$OUTPUT[t]}"}"#,               "7",            r#"{"a":"7"}"#),
            (r#"{"a":"\u0024OUTPUT[t]"}"#,             "7",            r#"{"a":7}"#),
            (r#"{"a":"$$OUTPUT[t]","b":1.50}"#,        "7",            r#"{"a":"$OUTPUT[t]","b":1.50}"#),
            (r#"{"a": 98765432109876543210, "b":"$5"}"#, "7",          r#"{"a": 98765432109876543210, "b":"$5"}"#),
            (r#"{"a":["$ITEM",{"b":"$ITEM"}]}"#,       "true",         r#"{"a":[true,{"b":true}]}"#),
        ];
        for (json, value, expected) in table {
            assert_eq!(fill(json, value, false).map(|filled| filled.json), Ok(expected.to_owned()), "{json}");
        }
    }

    #[test]
    fn a_text_that_is_json_is_noted_where_it_stands() {
        let Filled { json, texts } = fill(r#"{"é":"$OUTPUT[t]","b":"x ${$OUTPUT[t]}"}"#, r#"{"k": 1}"#, true).unwrap();
        assert_eq!(json, r#"{"é":"{\"k\": 1}","b":"x {\"k\": 1}"}"#);
        assert_eq!(texts.len(), 1);
        assert!(json[texts[0] as usize..].starts_with(r#""{\"k"#), "{texts:?}");
    }

    #[test]
    fn values_cannot_leave_their_place() {
        let hostile = Value::String("\",\"admin\":true,\"x\":\"${$ITEM}$OUTPUT[t]".to_owned()).to_string();
        for json in [r#"{"a":"$OUTPUT[t]"}"#, r#"{"a":"${$OUTPUT[t]}"}"#] {
            let filled = fill(json, &hostile, false).unwrap().json;
            let value: Value = serde_json::from_str(&filled).unwrap();
            assert_eq!(value["a"], serde_json::from_str::<Value>(&hostile).unwrap(), "{filled}");
            assert_eq!(value.as_object().unwrap().len(), 1);
        }
        let deep = format!("{}1{}", "[".repeat(99), "]".repeat(99));
        assert!(fill(r#"{"a":["$ITEM"]}"#, &deep, false).unwrap_err().contains("nested more than 100"));
        let long = Value::String("x".repeat(5 << 20)).to_string();
        assert!(fill(r#"{"a":"$ITEM","b":"$ITEM"}"#, &long, false).unwrap_err().contains("more than 8 MB"));
        let handle = format!("{{\"{HANDLE_KEY}\":\"0\"}}");
        assert!(fill(r#"{"a":"${$ITEM}"}"#, &handle, false).unwrap_err().contains("too large"));
        assert_eq!(fill(r#"{"a":"$ITEM"}"#, &handle, false).unwrap().json, format!("{{\"a\":{handle}}}"));
    }

    #[test]
    fn mistakes_have_their_path_and_holes_theirs() {
        let mistakes = Template::parse(r#"{"a":[1,{"b":"x $ITEM"}],"$ARGS":2,"c":"$OUTPUT"}"#).unwrap_err();
        let paths: Vec<_> = mistakes.iter().map(|mistake| mistake.path.as_str()).collect();
        assert_eq!(paths, [".a[1].b", ".c", ".$ARGS"]);
        let template = Template::parse(r#"{"a/b":["$ITEM"],"c":{"d":"${$INDEX}"},"e":1}"#).unwrap();
        let holes: Vec<_> = template.holes.iter().map(|hole| (hole.pointer.as_str(), hole.path.as_str())).collect();
        assert_eq!(holes, [("/a~1b/0", ".a/b[0]"), ("/c/d", ".c.d")]);
        assert_eq!(template.outline(), r#"{"a/b":[null],"c":{"d":null},"e":1}"#);
        assert_eq!(template.references().count(), 2);
    }
}
