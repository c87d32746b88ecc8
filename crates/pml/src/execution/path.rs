//! Paths into JSON text, such as `items[3].name`.

use std::fmt;

use pml_wire::json::MAX_DEPTH;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// The value at `path` in `text`; everything else is passed over.
pub fn select<'a>(text: &'a str, path: &str) -> Result<&'a RawValue, String> {
    let steps = parse(path)?;
    if steps.len() > MAX_DEPTH {
        return Err(format!("the path has {} steps, more than {MAX_DEPTH}", steps.len()));
    }
    let mut value: &RawValue = serde_json::from_str(text).map_err(|err| format!("the text is not JSON: {err}"))?;
    for (index, step) in steps.iter().enumerate() {
        let mut deserializer = serde_json::Deserializer::from_str(value.get());
        let found = step.deserialize(&mut deserializer).map_err(|err| err.to_string())?;
        value = found.ok_or_else(|| {
            let so_far: String = steps[..=index].iter().map(Step::to_string).collect();
            format!("there is nothing at `{}`", so_far.trim_start_matches('.'))
        })?;
    }
    Ok(value)
}

/// Reads `a.b[3]["x-y"]`, with or without a `$` in front.
fn parse(path: &str) -> Result<Vec<Step>, String> {
    let wrong = |rest: &str| format!("the path cannot be read at `{rest}`; write it as in `items[3].name`");
    let mut steps = Vec::new();
    let mut rest = path.trim().trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (step, after) = match inside.starts_with('"') {
                true => {
                    let mut keys = serde_json::Deserializer::from_str(inside).into_iter::<String>();
                    let key = keys.next().and_then(Result::ok).ok_or_else(|| wrong(rest))?;
                    (Step::Key(key), &inside[keys.byte_offset()..])
                }
                false => {
                    let end = inside.find(']').ok_or_else(|| wrong(rest))?;
                    let index = inside[..end].trim().parse().map_err(|_| wrong(rest))?;
                    (Step::Index(index), &inside[end..])
                }
            };
            steps.push(step);
            rest = after.strip_prefix(']').ok_or_else(|| wrong(after))?;
            continue;
        }
        let key = rest.strip_prefix('.').unwrap_or(rest);
        let end = key.find(['.', '[']).unwrap_or(key.len());
        if end == 0 {
            return Err(wrong(rest));
        }
        steps.push(Step::Key(key[..end].to_owned()));
        rest = &key[end..];
    }
    Ok(steps)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Key(key) => write!(f, ".{key}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl<'de> DeserializeSeed<'de> for &Step {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &Step {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match self {
                // Of two equal keys the last counts, as in JavaScript.
                Step::Key(wanted) if *wanted == *key => found = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let Step::Index(wanted) = self else {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(None);
        };
        for _ in 0..*wanted {
            if list.next_element::<IgnoredAny>()?.is_none() {
                return Ok(None);
            }
        }
        let found = list.next_element()?;
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let text = r#"{"items":[{"name":"a"},{"name":"b","x-y":[1,[2,3]]}],"n":null,"t":"text","a":1,"a":2}"#;
        let table = [
            ("", Ok(text)),
            ("$", Ok(text)),
            ("items[1].name", Ok(r#""b""#)),
            ("$.items[1][\"x-y\"][1][0]", Ok("2")),
            (".n", Ok("null")),
            ("a", Ok("2")),
            ("items[2]", Err("there is nothing at `items[2]`")),
            ("items.name", Err("there is nothing at `items.name`")),
            ("t.x", Err("there is nothing at `t.x`")),
            ("n[0]", Err("there is nothing at `n[0]`")),
            ("items[x]", Err("cannot be read at `[x]`")),
            ("items[1", Err("cannot be read")),
            ("a..b", Err("cannot be read")),
            ("items[\"x", Err("cannot be read")),
        ];
        for (path, expected) in table {
            match (select(text, path).map(RawValue::get), expected) {
                (Ok(actual), Ok(expected)) => assert_eq!(actual, expected, "{path}"),
                (Err(actual), Err(expected)) => assert!(actual.contains(expected), "{path}: {actual}"),
                (actual, _) => panic!("{path}: {actual:?}"),
            }
        }
        assert!(select("hello", "a").unwrap_err().contains("not JSON"));
    }
}
