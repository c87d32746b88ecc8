//! A client's file, as far as pml has to do with it: objects of servers under some keys.

use serde_json::Value;

use super::{client::Format, jsonc, mistake::Mistake, toml};

/// A file that was understood.
#[derive(Debug)]
pub struct Document(Inner);

#[derive(Debug)]
enum Inner {
    Json(jsonc::Text),
    Toml(toml::Text),
}

impl Document {
    pub fn parse(format: Format, text: &str) -> Result<Document, Mistake> {
        Ok(Document(match format {
            Format::Json => Inner::Json(jsonc::Text::parse(text)?),
            Format::Toml => Inner::Toml(toml::Text::parse(text)?),
        }))
    }

    pub fn text(&self) -> &str {
        match &self.0 {
            Inner::Json(text) => text.text(),
            Inner::Toml(text) => text.text(),
        }
    }

    /// Is there nothing in it but space and brackets?
    pub fn is_bare(&self) -> bool {
        self.text().trim_start_matches('\u{feff}').chars().all(|c| c.is_whitespace() || matches!(c, '{' | '}'))
    }

    /// The servers under some keys, in their order.
    pub fn servers(&self, keys: &[String]) -> Result<Vec<(String, Value)>, Mistake> {
        match &self.0 {
            Inner::Json(text) => {
                let Some(object) = text.get(keys)? else { return Ok(Vec::new()) };
                let mut servers: Vec<(String, Value)> = Vec::new();
                for member in text.members(&object)? {
                    let value = text.value(&member.value)?;
                    // Of two with one name the last counts, as it does for who wrote the file.
                    servers.retain(|(name, _)| *name != member.key);
                    servers.push((member.key, value));
                }
                Ok(servers)
            }
            Inner::Toml(text) => text.entries(keys),
        }
    }

    /// The value under some keys, if it is there.
    pub fn value(&self, keys: &[String]) -> Option<Value> {
        match &self.0 {
            Inner::Json(text) => text.get(keys).ok()?.and_then(|range| text.value(&range).ok()),
            Inner::Toml(text) => text.value(keys),
        }
    }

    /// How many of some keys, one inside of the other, are not there yet.
    pub fn missing(&self, keys: &[String]) -> usize {
        (0..=keys.len()).find(|count| self.value(&keys[..keys.len() - count]).is_some()).unwrap_or(keys.len())
    }

    /// The text of an entry, if it can be put back as text.
    pub fn raw(&self, keys: &[String], name: &str) -> Option<String> {
        let path = [keys, &[name.to_owned()]].concat();
        match &self.0 {
            Inner::Json(text) => text.get(&path).ok()?.map(|range| text.text()[range].to_owned()),
            Inner::Toml(text) => text.raw(&path),
        }
    }

    /// Writes an entry, in place of one of that name if there is one.
    pub fn set(&mut self, keys: &[String], name: &str, value: &Value) -> Result<(), Mistake> {
        match &mut self.0 {
            Inner::Json(text) => text.set(keys, name, value, None),
            Inner::Toml(text) => text.set(keys, name, value),
        }
    }

    /// Puts an entry back that was taken out: with its comments, as `raw` has them, if that still means the same.
    pub fn restore(&mut self, keys: &[String], name: &str, value: &Value, raw: Option<&str>) -> Result<(), Mistake> {
        let path = [keys, &[name.to_owned()]].concat();
        let before = self.text().to_owned();
        if let Some(raw) = raw {
            let done = match &mut self.0 {
                Inner::Json(text) => text.set(keys, name, value, Some(raw)),
                Inner::Toml(text) if text.value(&path).is_none() => text.append(raw),
                Inner::Toml(text) => text.set(keys, name, value),
            };
            if done.is_ok() && self.value(&path).as_ref() == Some(value) {
                return Ok(());
            }
            match &mut self.0 {
                Inner::Json(text) => *text = jsonc::Text::parse(&before)?,
                Inner::Toml(text) => *text = toml::Text::parse(&before)?,
            }
        }
        self.set(keys, name, value)
    }

    /// Takes one out, also where it is written several times. Was it there?
    pub fn remove(&mut self, keys: &[String], name: &str) -> Result<bool, Mistake> {
        match &mut self.0 {
            Inner::Json(text) => text.remove(keys, name),
            Inner::Toml(text) => text.remove(keys, name),
        }
    }

    /// Takes out the innermost of the objects around an entry that are empty, at most `count`.
    pub fn remove_empty(&mut self, keys: &[String], count: usize) -> Result<(), Mistake> {
        for length in (0..keys.len()).rev().take(count) {
            let is_empty = self.value(&keys[..=length]).is_some_and(|value| value == Value::Object(Default::default()));
            if !is_empty {
                break;
            }
            self.remove(&keys[..length], &keys[length])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_taken_out_goes_back_with_its_comments() {
        #[rustfmt::skip]
        let table = [
            (Format::Json, "{\n  \"s\": {\n    \"a\": 1,\n    \"p\": { // mine\n      \"x\": [1] /* one */\n    }\n  }\n}\n"),
            (Format::Toml, "m = 1\r\n\r\n[s.a]\r\nx = 1\r\n\r\n# mine\r\n[s.p] # here\r\nx = [ 1 ] # one\r\n"),
        ];
        for (format, text) in table {
            let (keys, name) = (["s".to_owned()], "p");
            let mut document = Document::parse(format, text).unwrap();
            let (value, raw) = (json!({"x": [1]}), document.raw(&keys, name));
            assert!(document.remove(&keys, name).unwrap());
            document.restore(&keys, name, &value, raw.as_deref()).unwrap();
            assert_eq!(document.text(), text);
            // A text that means something else is not taken.
            assert!(document.remove(&keys, name).unwrap());
            document.restore(&keys, name, &json!({"x": [2]}), raw.as_deref()).unwrap();
            assert_eq!(document.value(&["s".to_owned(), name.to_owned()]), Some(json!({"x": [2]})));
        }
    }
}
