//! Changes JSON with comments as text: what is not part of an entry keeps every byte.

use std::{fmt, ops::Range};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use super::mistake::Mistake;
use crate::config::{
    jsonc::{Plain, plain},
    toml_text::newline_at,
};

/// A text that is JSON, but for comments and commas.
#[derive(Debug)]
pub(super) struct Text {
    original: String,
    plain: Plain,
    /// `None` if there is nothing but space and comments.
    root: Option<Range<usize>>,
}

/// One `"key": value` of an object, by its bytes.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) key: String,
    /// Where the quote of the key is.
    start: usize,
    pub(super) value: Range<usize>,
}

type Edit = (Range<usize>, String);

impl Text {
    pub(super) fn parse(original: &str) -> Result<Text, Mistake> {
        let plain = plain(original);
        let root = match plain.text.trim().is_empty() {
            true => None,
            false => {
                let value: &RawValue = serde_json::from_str(&plain.text).map_err(|err| mistake(original, 0, &err))?;
                Some(range_in(&plain.text, value.get()))
            }
        };
        Ok(Text { original: original.to_owned(), plain, root })
    }

    pub(super) fn text(&self) -> &str {
        &self.original
    }

    /// The value under some keys.
    pub(super) fn get(&self, path: &[String]) -> Result<Option<Range<usize>>, Mistake> {
        let Some(mut range) = self.root.clone() else { return Ok(None) };
        for key in path {
            if &self.plain.text[range.clone()] == "null" {
                return Ok(None);
            }
            match self.members(&range)?.into_iter().rfind(|member| member.key == *key) {
                Some(member) => range = member.value,
                None => return Ok(None),
            }
        }
        Ok(Some(range).filter(|range| &self.plain.text[range.clone()] != "null"))
    }

    pub(super) fn value(&self, range: &Range<usize>) -> Result<Value, Mistake> {
        serde_json::from_str(&self.plain.text[range.clone()]).map_err(|err| mistake(&self.original, range.start, &err))
    }

    pub(super) fn members(&self, object: &Range<usize>) -> Result<Vec<Member>, Mistake> {
        let text = &self.plain.text;
        // Checked here and not by the parser, whose message would show the value.
        if !text[object.clone()].starts_with('{') {
            return Err(Mistake::at(&self.original, object.start, "this must be an object"));
        }
        let pairs: Pairs<'_> =
            serde_json::from_str(&text[object.clone()]).map_err(|err| mistake(&self.original, object.start, &err))?;
        let mut members: Vec<Member> = Vec::with_capacity(pairs.0.len());
        let mut end = object.start;
        for (key, value) in pairs.0 {
            let value = range_in(text, value.get());
            // Between two members there is nothing but space and a comma.
            let start = end + text[end..].find('"').unwrap_or(0);
            end = value.end;
            members.push(Member { key, start, value });
        }
        Ok(members)
    }

    /// Sets what is under some keys, and makes the objects around it. `raw` is the value as text, if it is to be written
    /// so.
    pub(super) fn set(&mut self, path: &[String], key: &str, value: &Value, raw: Option<&str>) -> Result<(), Mistake> {
        let nested = |keys: &[String], value: Value| {
            keys.iter().rev().fold(value, |value, key| Value::Object([(key.clone(), value)].into_iter().collect()))
        };
        let mut keys = path.to_vec();
        keys.push(key.to_owned());
        let Some(mut range) = self.root.clone() else {
            let newline = newline_at(&self.original, self.original.len());
            let gap = if self.original.is_empty() || self.original.ends_with('\n') { "" } else { newline };
            let text = self.formatted(&nested(&keys, value.clone()), "", self.original.len());
            return self.apply(vec![(self.original.len()..self.original.len(), format!("{gap}{text}{newline}"))]);
        };
        for (index, key) in keys.iter().enumerate() {
            let rest = &keys[index + 1..];
            if &self.plain.text[range.clone()] == "null" {
                let text = {
                    let indent = self.indent_at(range.start);
                    self.formatted(&nested(&keys[index..], value.clone()), &indent, range.start)
                };
                return self.apply(vec![(range, text)]);
            }
            let members = self.members(&range)?;
            match members.iter().rfind(|member| member.key == *key) {
                None => {
                    let raw = raw.filter(|_| rest.is_empty());
                    let edits = self.insertion(&range, &members, key, (&nested(rest, value.clone()), raw));
                    return self.apply(edits);
                }
                Some(member) if rest.is_empty() => {
                    let formatted = || self.formatted(value, &self.indent_at(member.start), member.start);
                    let text = raw.map_or_else(formatted, str::to_owned);
                    return self.apply(vec![(member.value.clone(), text)]);
                }
                Some(member) => range = member.value.clone(),
            }
        }
        Ok(())
    }

    /// Removes what is under some keys, as often as it is there: another one of the name would count otherwise. Was it
    /// there?
    pub(super) fn remove(&mut self, path: &[String], key: &str) -> Result<bool, Mistake> {
        let mut was_there = false;
        while let Some(object) = self.get(path)? {
            let members = self.members(&object)?;
            let Some(index) = members.iter().rposition(|member| member.key == key) else { break };
            let edits = self.removal(&object, &members, index);
            self.apply(edits)?;
            was_there = true;
        }
        Ok(was_there)
    }

    fn insertion(
        &self,
        object: &Range<usize>,
        members: &[Member],
        key: &str,
        (value, raw): (&Value, Option<&str>),
    ) -> Vec<Edit> {
        let close = object.end - 1;
        let newline = newline_at(&self.original, close);
        let entry_text = |indent: &str| raw.map_or_else(|| self.formatted(value, indent, close), str::to_owned);
        let outer = self.indent_at(object.start);
        let (Some(first), Some(last)) = (members.first(), members.last()) else {
            // Behind whatever comment there is.
            let at = self.original[..close].trim_end().len();
            let indent = format!("{outer}{}", self.unit());
            let text = entry_text(&indent);
            return vec![(at..close, format!("{newline}{indent}{}: {text}{newline}{outer}", Value::from(key)))];
        };
        let comma = self.plain.last_commas.iter().copied().find(|at| (last.value.end..close).contains(at));
        let after = comma.map_or(last.value.end, |at| at + 1);
        let (before, behind) = if comma.is_some() { ("", ",") } else { (",", "") };
        if !self.original[object.start..first.start].contains('\n') {
            let text = raw.map_or_else(|| value.to_string(), str::to_owned);
            return vec![(after..after, format!("{before} {}: {text}{behind}", Value::from(key)))];
        }
        let indent = self.indent_at(last.start);
        let text = entry_text(&indent);
        let entry = format!("{newline}{indent}{}: {text}{behind}", Value::from(key));
        let mut edits = vec![(last.value.end..last.value.end, before.to_owned())];
        // A comment behind the last member belongs to it.
        let is_code = |at: usize| !self.plain.comments.iter().any(|comment| comment.contains(&at));
        let line_end =
            self.original[after..close].match_indices('\n').map(|(at, _)| after + at).find(|at| is_code(*at));
        edits.push(match line_end {
            Some(at) => {
                let at = at - usize::from(self.original[after..at].ends_with('\r'));
                (at..at, entry)
            }
            None => {
                let at = self.original[..close].trim_end().len();
                (at..close, format!("{entry}{newline}{outer}"))
            }
        });
        edits
    }

    fn removal(&self, object: &Range<usize>, members: &[Member], index: usize) -> Vec<Edit> {
        let member = &members[index];
        let mut edits = Vec::new();
        let (mut start, mut end) = (member.start, member.value.end);
        match members.get(index + 1) {
            Some(next) => end = self.comma_in(end..next.start).map_or(end, |comma| comma + 1),
            None => {
                let comma = self.plain.last_commas.iter().find(|at| (end..object.end).contains(*at));
                match (comma, index.checked_sub(1).map(|before| &members[before])) {
                    (Some(comma), _) => end = comma + 1,
                    (None, Some(before)) => {
                        if let Some(comma) = self.comma_in(before.value.end..start) {
                            edits.push((comma..comma + 1, String::new()));
                        }
                    }
                    (None, None) => {}
                }
            }
        }
        let line = self.original[..start].rfind('\n').map_or(0, |at| at + 1);
        let is_first = self.original[line..start].trim().is_empty();
        let rest = &self.original[end..];
        let line_end = rest.find('\n').filter(|at| rest[..*at].trim().is_empty());
        match line_end {
            Some(at) if is_first => (start, end) = (line, end + at + 1),
            _ if index + 1 < members.len() => end += rest.len() - rest.trim_start_matches([' ', '\t']).len(),
            _ => start = self.original[..start].trim_end_matches([' ', '\t']).len(),
        }
        edits.push((start..end, String::new()));
        edits
    }

    fn comma_in(&self, range: Range<usize>) -> Option<usize> {
        self.plain.text[range.clone()].find(',').map(|at| range.start + at)
    }

    fn apply(&mut self, mut edits: Vec<Edit>) -> Result<(), Mistake> {
        let mut text = self.original.clone();
        edits.sort_by_key(|(range, _)| range.start);
        for (range, new) in edits.into_iter().rev() {
            text.replace_range(range, &new);
        }
        // What is written must be readable, whatever mistake was made here.
        *self = Text::parse(&text)?;
        Ok(())
    }

    /// The space in front of the line at some place.
    fn indent_at(&self, at: usize) -> String {
        let line = self.original[..at].rfind('\n').map_or(0, |at| at + 1);
        self.original[line..at].trim_start_matches('\u{feff}').chars().take_while(|c| *c == ' ' || *c == '\t').collect()
    }

    /// By how much this file goes in.
    fn unit(&self) -> String {
        let first = self.root.as_ref().and_then(|root| self.members(root).ok()?.into_iter().next());
        let indent = first.map(|member| self.indent_at(member.start)).unwrap_or_default();
        if indent.is_empty() { "  ".to_owned() } else { indent }
    }

    /// A value as this file would have it at some place.
    fn formatted(&self, value: &Value, indent: &str, at: usize) -> String {
        let unit = self.unit();
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        if serde::Serialize::serialize(value, &mut serializer).is_err() {
            return value.to_string();
        }
        String::from_utf8_lossy(&bytes).replace('\n', &format!("{}{indent}", newline_at(&self.original, at)))
    }
}

/// The members of an object in their order, also those that are there twice.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs<'a>, D::Error> {
        struct ForPairs;
        impl<'de> Visitor<'de> for ForPairs {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(ForPairs)
    }
}

/// Where a part of a text is in it.
fn range_in(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.len()
}

fn mistake(text: &str, offset: usize, err: &serde_json::Error) -> Mistake {
    let message = err.to_string();
    let message = message.rfind(" at line ").map_or(message.as_str(), |at| &message[..at]);
    let mut start = offset;
    for _ in 1..err.line() {
        start += text[start..].find('\n').map_or(0, |at| at + 1);
    }
    let at = start + err.column().saturating_sub(1);
    Mistake::at(text, at.min(text.len()), message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keys(path: &[&str]) -> Vec<String> {
        path.iter().map(|&key| key.to_owned()).collect()
    }

    #[test]
    fn an_entry_goes_in_and_nothing_else_changes() {
        #[rustfmt::skip]
        let table = [
            // Nothing, and next to nothing.
            ("", "{\n  \"s\": {\n    \"p\": 1\n  }\n}\n"),
            ("// mine", "// mine\n{\n  \"s\": {\n    \"p\": 1\n  }\n}\n"),
            ("{}", "{\n  \"s\": {\n    \"p\": 1\n  }\n}"),
            ("{ /* c */ }\n", "{ /* c */\n  \"s\": {\n    \"p\": 1\n  }\n}\n"),
            ("{\"s\":null}", "{\"s\":{\n  \"p\": 1\n}}"),
            // One line stays one line.
            (r#"{"s":{"a":1}}"#, r#"{"s":{"a":1, "p": 1}}"#),
            (r#"{"s":{"a":1,}}"#, r#"{"s":{"a":1, "p": 1,}}"#),
            // The indent of the file, and its line ends.
            ("{\n\t\"s\": {\n\t\t\"a\": 1\n\t}\n}", "{\n\t\"s\": {\n\t\t\"a\": 1,\n\t\t\"p\": 1\n\t}\n}"),
            ("{\n \"a\": \"\",\r\n \"s\": {\r\n  \"a\": 1\n }\n}", "{\n \"a\": \"\",\r\n \"s\": {\r\n  \"a\": 1,\n  \"p\": 1\n }\n}"),
            ("{\r\n    \"s\": {}\r\n}", "{\r\n    \"s\": {\r\n        \"p\": 1\r\n    }\r\n}"),
            // Comments stay where they were.
            ("{\n  \"s\": {\n    \"a\": 1 // one\n    // two\n  }\n}", "{\n  \"s\": {\n    \"a\": 1, // one\n    \"p\": 1\n    // two\n  }\n}"),
            ("{\n  \"s\": {\n    \"a\": 1, // one\n  }\n}", "{\n  \"s\": {\n    \"a\": 1, // one\n    \"p\": 1,\n  }\n}"),
            ("{\n \"s\": {\n  \"a\": 1 /* x\n y */\n }\n}", "{\n \"s\": {\n  \"a\": 1, /* x\n y */\n  \"p\": 1\n }\n}"),
            ("{\n \"s\": {\n  \"a\": 1 }\n}", "{\n \"s\": {\n  \"a\": 1,\n  \"p\": 1\n }\n}"),
            // What is there is replaced.
            ("{\"s\": {\"p\": [1, 2], /* c */ \"q\": 2}}", "{\"s\": {\"p\": 1, /* c */ \"q\": 2}}"),
        ];
        for (text, expected) in table {
            let mut edited = Text::parse(text).unwrap();
            edited.set(&keys(&["s"]), "p", &json!(1), None).unwrap();
            assert_eq!(edited.text(), expected, "{text}");
        }
    }

    #[test]
    fn an_entry_goes_out_and_nothing_else_changes() {
        #[rustfmt::skip]
        let table = [
            (r#"{"s": {"p": 1}}"#, r#"{"s": {}}"#),
            (r#"{"s": {"p": 1, "a": 2}}"#, r#"{"s": {"a": 2}}"#),
            (r#"{"s": {"a": 2, "p": 1}}"#, r#"{"s": {"a": 2}}"#),
            // Of two the last counts; without it, the first would.
            (r#"{"s": {"p": 0, "a": 2, "p": 1}}"#, r#"{"s": {"a": 2}}"#),
            (r#"{"s": {"p": 0, "\u0070": 1}}"#, r#"{"s": {}}"#),
            (r#"{"s": {"a": 2, "p": 1,}}"#, r#"{"s": {"a": 2,}}"#),
            ("{\n \"s\": {\n  // one\n  \"a\": 1, // a\n  \"p\": {\n   \"x\": 1\n  }\n  // end\n }\n}", "{\n \"s\": {\n  // one\n  \"a\": 1 // a\n  // end\n }\n}"),
            ("{\r\n \"s\": {\r\n  \"p\": 1,\r\n  \"a\": 1\r\n }\r\n}", "{\r\n \"s\": {\r\n  \"a\": 1\r\n }\r\n}"),
            ("{\n \"s\": {\n  \"p\": 1, // about p\n  \"a\": 1\n }\n}", "{\n \"s\": {\n  // about p\n  \"a\": 1\n }\n}"),
        ];
        for (text, expected) in table {
            let mut edited = Text::parse(text).unwrap();
            assert!(edited.remove(&keys(&["s"]), "p").unwrap(), "{text}");
            assert_eq!(edited.text(), expected, "{text}");
            assert!(!edited.remove(&keys(&["s"]), "p").unwrap(), "{text}");
        }
    }

    #[test]
    fn wherever_comments_and_spaces_are_the_file_stays_what_it_is() {
        let gaps = ["", "\n  ", " /* a, } */ ", " // b, ]\n", "\r\n\t", " /* c\n{ */ // d\n "];
        let pick = |index: usize, slot: u32| gaps[index / gaps.len().pow(slot) % gaps.len()];
        for index in 0..gaps.len().pow(5) {
            for comma in ["", ","] {
                let [one, two, three, four, five] = [0, 1, 2, 3, 4].map(|slot| pick(index, slot));
                let comma = if comma.is_empty() { String::new() } else { format!("{comma}{five}") };
                let text = format!("{{{one}\"s\": {{{two}\"a\": 1{three},{four}\"b\": [2]{five}{comma}}}{two}}}");
                let names = |text: &Text| {
                    let object = text.get(&keys(&["s"])).unwrap().unwrap();
                    text.members(&object).unwrap().into_iter().map(|member| member.key).collect::<Vec<_>>()
                };
                let mut edited = Text::parse(&text).unwrap_or_else(|err| panic!("{text}: {err}"));
                edited.set(&keys(&["s"]), "p", &json!({"q": [1]}), None).unwrap_or_else(|err| panic!("{text}: {err}"));
                assert_eq!(names(&edited), ["a", "b", "p"], "{text}");
                // All that was there is there, in its order; only spaces before a bracket may be others.
                let mut rest = edited.text().chars();
                for c in text.chars().filter(|c| !c.is_whitespace()) {
                    assert!(rest.any(|other| other == c), "{text}\nbecame\n{}", edited.text());
                }
                for name in ["a", "b", "p"] {
                    let mut left = Text::parse(edited.text()).unwrap();
                    assert!(left.remove(&keys(&["s"]), name).unwrap());
                    let expected: Vec<_> = ["a", "b", "p"].into_iter().filter(|other| *other != name).collect();
                    assert_eq!(names(&left), expected, "{text}\nwithout {name}");
                    for comment in ["/* a, } */", "// b, ]\n", "// d\n"] {
                        let count = |text: &str| text.matches(comment).count();
                        // One may stand between a value and its comma, and go with them.
                        let lost = usize::from(three.contains(comment) || five.contains(comment));
                        assert!(count(left.text()) + lost >= count(edited.text()), "{text}\n{}", left.text());
                    }
                }
            }
        }
    }

    #[test]
    fn mistakes_have_a_line_and_a_column() {
        #[rustfmt::skip]
        let table = [
            ("{\n  \"s\": {\n    \"a\": }\n}", "line 3, column 10"),
            ("{\n  // ä\n  \"s\": 5\n}", "line 3, column 8: this must be an object"),
            ("[]", "line 1, column 1: this must be an object"),
            ("{\"s\": {}} x", "line 1, column 11"),
            ("{\"s\": \0}", "line 1, column 7"),
            ("{", "line 1, column 1"),
        ];
        for (text, expected) in table {
            let res = Text::parse(text).and_then(|mut text| text.set(&keys(&["s"]), "p", &json!(1), None));
            let message = res.unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text}: {message}");
        }
    }
}
