//! Walks over JSON text, value by value, and knows the path to each.
//!
//! **Invariant:** linear and without recursion. Text that is not valid JSON gives wrong places, never a panic.

use std::ops::Range;

/// One step of the path to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    Index(usize),
}

/// A value in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The text of a scalar; of an array or object, its opening bracket.
    pub span: Range<usize>,
    /// How many arrays and objects are around it.
    pub depth: usize,
}

/// Goes through the values of a JSON text in the order in which they begin.
#[derive(Debug)]
pub struct Walk<'a> {
    text: &'a str,
    at: usize,
    /// The arrays and objects around the current place, outermost first.
    levels: Vec<Level>,
}

#[derive(Debug)]
enum Level {
    /// The index of the current element.
    Array(usize),
    /// Where the current key is; `None` until there is one.
    Object(Option<Range<usize>>),
}

impl<'a> Walk<'a> {
    pub fn new(text: &'a str) -> Walk<'a> {
        Walk { text, at: 0, levels: Vec::new() }
    }

    /// The path to a place that was the last to be given. Text that is not valid may have empty keys in it.
    pub fn path(&self, place: &Place) -> Vec<Step> {
        (0..place.depth).filter_map(|depth| self.step(depth)).collect()
    }

    /// The step that leads from the array or object at this depth towards the current place.
    pub fn step(&self, depth: usize) -> Option<Step> {
        Some(match self.levels.get(depth)? {
            Level::Array(index) => Step::Index(*index),
            Level::Object(key) => {
                let key = key.clone().and_then(|key| self.text.get(key)).unwrap_or_default();
                Step::Key(serde_json::from_str(key).unwrap_or_default())
            }
        })
    }
}

impl Iterator for Walk<'_> {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        let bytes = self.text.as_bytes();
        loop {
            let start = self.at;
            let byte = *bytes.get(start)?;
            self.at += 1;
            match (byte, self.levels.last_mut()) {
                (b' ' | b'\t' | b'\n' | b'\r' | b':', _) => {}
                (b',', Some(Level::Array(index))) => *index += 1,
                (b',', Some(Level::Object(key))) => *key = None,
                (b',', None) => {}
                (b']' | b'}', _) => drop(self.levels.pop()),
                (b'"', Some(Level::Object(key @ None))) => {
                    self.at = string_end(bytes, start);
                    *key = Some(start..self.at);
                }
                (b'[' | b'{', _) => {
                    let depth = self.levels.len();
                    self.levels.push(if byte == b'[' { Level::Array(0) } else { Level::Object(None) });
                    return Some(Place { span: start..self.at, depth });
                }
                (b'"', _) => {
                    self.at = string_end(bytes, start);
                    return Some(Place { span: start..self.at, depth: self.levels.len() });
                }
                _ => {
                    while let Some(byte) = bytes.get(self.at)
                        && !matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r')
                    {
                        self.at += 1;
                    }
                    return Some(Place { span: start..self.at, depth: self.levels.len() });
                }
            }
        }
    }
}

/// The place behind the JSON string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        match bytes.get(at) {
            None => return bytes.len(),
            Some(b'"') => return at + 1,
            // Whatever is escaped is not the end.
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn described(text: &str) -> Vec<String> {
        let mut walk = Walk::new(text);
        let mut all = Vec::new();
        while let Some(place) = walk.next() {
            let path: String = walk
                .path(&place)
                .iter()
                .map(|step| match step {
                    Step::Key(key) => format!(".{key}"),
                    Step::Index(index) => format!("[{index}]"),
                })
                .collect();
            all.push(format!("{path}={}", &text[place.span]));
        }
        all
    }

    #[test]
    fn every_value_has_its_path() {
        let table: [(&str, &[&str]); 4] = [
            ("1", &["=1"]),
            (" [ ] ", &["=["]),
            (
                r#"{"a":[1,{"b\"":"x]"}],"c": null }"#,
                &["={", ".a=[", ".a[0]=1", ".a[1]={", ".a[1].b\"=\"x]\"", ".c=null"],
            ),
            ("[[-1.5e3,true],[]]", &["=[", "[0]=[", "[0][0]=-1.5e3", "[0][1]=true", "[1]=["]),
        ];
        for (text, expected) in table {
            assert_eq!(described(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_walked_over(text in "[\\[\\]{}\",:\\\\a1 é]{0,60}") {
            let mut walk = Walk::new(&text);
            while let Some(place) = walk.next() {
                walk.path(&place);
                prop_assert!(place.span.start < place.span.end.max(1));
            }
        }

        #[test]
        fn a_parser_finds_the_same_values(text in "\\PC{0,8}", numbers in prop::collection::vec(any::<i64>(), 0..5)) {
            let value = serde_json::json!({ &text: [numbers, { &text: text }], "": {} });
            let source = value.to_string();
            let mut walk = Walk::new(&source);
            while let Some(place) = walk.next() {
                let found = walk.path(&place).iter().fold(&value, |value, step| match step {
                    Step::Key(key) => &value[key],
                    Step::Index(index) => &value[index],
                });
                if !matches!(source.as_bytes()[place.span.start], b'[' | b'{') {
                    prop_assert_eq!(&serde_json::from_str::<Value>(&source[place.span]).unwrap(), found);
                }
            }
        }
    }
}
