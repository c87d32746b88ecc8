//! Arguments that a schema neither names nor refuses.
//!
//! Most schemas of servers list properties and do not say whether there may be others, so that a misspelt optional argument
//! passes every check and is ignored by the server. It is worth a warning.

use serde_json::{Map, Value};

use super::{
    mistakes::path_of,
    references,
    schema::{Pace, TooSlow, nearest},
};

/// Most names that are found.
const MAX_FOUND: usize = 5;
/// Parts of schemas that are looked at in all.
const MAX_STEPS: usize = 2000;
/// Items of an array that are looked at.
const MAX_ITEMS: usize = 50;
/// Known names that are listed where none is near.
const MAX_KNOWN: usize = 12;
/// Of so many names, the nearest is found at once.
const QUICK_NAMES: usize = 50;

/// What `value`, called `name`, has that `schema` is silent about, each with what may have been meant.
pub(super) fn unknown(schema: &Value, name: &str, value: &Value, pace: Pace) -> Result<Vec<String>, TooSlow> {
    let mut search = Search { root: schema, pace, steps: MAX_STEPS, found: Vec::new() };
    search.visit(&[schema], value, &mut name.to_owned())?;
    Ok(search.found)
}

struct Search<'a> {
    root: &'a Value,
    pace: Pace,
    steps: usize,
    found: Vec<String>,
}

/// The schemas that apply to one value, all at once or one of them.
#[derive(Default)]
struct Applied<'a> {
    schemas: Vec<&'a Map<String, Value>>,
    /// One of them takes any property.
    is_open: bool,
}

impl<'a> Search<'a> {
    fn visit(&mut self, schemas: &[&'a Value], value: &Value, path: &mut String) -> Result<(), TooSlow> {
        let mut applied = Applied::default();
        schemas.iter().for_each(|schema| self.apply(schema, false, &mut applied));
        let length = path.len();
        match value {
            Value::Object(entries) => {
                let properties = || applied.schemas.iter().filter_map(|schema| schema.get("properties")?.as_object());
                let is_silent = !applied.is_open && properties().any(|properties| !properties.is_empty());
                for (key, entry) in entries {
                    self.steps = self.steps.saturating_sub(applied.schemas.len());
                    if self.found.len() == MAX_FOUND || self.steps == 0 {
                        return Ok(());
                    }
                    let parts: Vec<_> = properties().filter_map(|properties| properties.get(key)).collect();
                    path.push_str(&path_of(key));
                    if !parts.is_empty() {
                        self.visit(&parts, entry, path)?;
                    } else if is_silent {
                        if self.pace == Pace::Quick && properties().map(Map::len).sum::<usize>() > QUICK_NAMES {
                            return Err(TooSlow);
                        }
                        let known = properties().flat_map(Map::keys).map(String::as_str);
                        self.found.push(format!("`{path}`{}", meant(key, known)));
                    }
                    path.truncate(length);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate().take(MAX_ITEMS) {
                    let parts: Vec<_> =
                        applied.schemas.iter().filter_map(|schema| item_schema(schema, index)).collect();
                    path.push_str(&format!("[{index}]"));
                    self.visit(&parts, item, path)?;
                    path.truncate(length);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(())
    }

    /// Collects a schema and those it is made of. `is_choice`: it is one of several that may hold.
    fn apply(&mut self, schema: &'a Value, is_choice: bool, applied: &mut Applied<'a>) {
        let Some(left) = self.steps.checked_sub(1) else { return applied.is_open = true };
        self.steps = left;
        let Value::Object(keywords) = schema else {
            applied.is_open |= is_choice && schema == &Value::Bool(true);
            return;
        };
        let opens = |keyword: &str| keywords.get(keyword).is_some_and(|value| value != &Value::Bool(false));
        applied.is_open |= ["additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames"]
            .into_iter()
            .any(opens);
        // As one of several, a schema that takes objects and lists no property takes any.
        let says = |known: &[&str]| known.iter().any(|keyword| keywords.contains_key(*keyword));
        let takes_objects = keywords.get("type").is_none_or(|types| match types {
            Value::Array(types) => types.contains(&"object".into()),
            name => name == "object",
        });
        let is_bare = !says(&["properties", "required", "$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not"]);
        applied.is_open |= is_choice && takes_objects && is_bare;
        // A schema that comes back to itself adds nothing.
        if applied.schemas.iter().any(|known| std::ptr::eq(*known, keywords)) {
            return;
        }
        applied.schemas.push(keywords);
        if let Some(target) = keywords.get("$ref").and_then(Value::as_str) {
            match references::target(self.root, target) {
                Some(target) => self.apply(target, is_choice, applied),
                None => applied.is_open = true,
            }
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for part in keywords.get(keyword).and_then(Value::as_array).into_iter().flatten() {
                self.apply(part, keyword != "allOf", applied);
            }
        }
        for keyword in ["if", "then", "else"] {
            keywords.get(keyword).into_iter().for_each(|part| self.apply(part, false, applied));
        }
        for keyword in ["dependentSchemas", "dependencies"] {
            let parts = keywords.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::values);
            parts.for_each(|part| self.apply(part, false, applied));
        }
    }
}

/// The schema of one item of an array.
fn item_schema(schema: &Map<String, Value>, index: usize) -> Option<&Value> {
    let listed = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
    match listed("prefixItems").or(listed("items")).and_then(|items| items.get(index)) {
        Some(item) => Some(item),
        None => schema.get("items").filter(|items| items.is_object()),
    }
}

/// What may have been meant by an unknown name: the nearest, or some of those that there are.
pub(super) fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<_> = known.into_iter().collect();
    match nearest(name, known.iter().copied()).first() {
        Some(near) => format!("; did you mean `{near}`?"),
        None => {
            known.sort_unstable();
            known.dedup();
            let (shown, more) = known.split_at(known.len().min(MAX_KNOWN));
            let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            if shown.is_empty() { String::new() } else { format!("; known are `{}`{more}", shown.join("`, `")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_silent_schema_does_not_name_is_found() {
        let path = json!({"properties": {"path": {"type": "string"}, "limit": {}}});
        let with = |keyword: &str, value: Value| {
            let mut schema = path.clone();
            schema[keyword] = value;
            schema
        };
        let nested =
            json!({"properties": {"options": {"$ref": "#/$defs/o"}}, "$defs": {"o": {"properties": {"depth": {}}}}});
        let list = json!({"properties": {"edits": {"items": {"properties": {"oldText": {}, "newText": {}}}}}});
        let choice = json!({"anyOf": [path, {"properties": {"url": {}}}]});
        #[rustfmt::skip]
        let table = [
            (path.clone(),                                      json!({"pth": 1}),      "`args.pth`; did you mean `path`?"),
            (path.clone(),                                      json!({"zzz": 1}),      "`args.zzz`; known are `limit`, `path`"),
            (path.clone(),                                      json!({"path": 1}),     ""),
            (nested,                                            json!({"options": {"dept": 1}}), "`args.options.dept`; did you mean `depth`?"),
            (list,                                              json!({"edits": [{"oldText": 1}, {"old_text": 1}]}), "`args.edits[1].old_text`; did you mean `oldText`?"),
            (choice.clone(),                                    json!({"ur": 1}),       "`args.ur`; did you mean `url`?"),
            (choice,                                            json!({"url": 1}),      ""),
            // Schemas that take others, or may.
            (with("additionalProperties", json!(true)),         json!({"pth": 1}),      ""),
            (with("patternProperties", json!({"^x": {}})),      json!({"pth": 1}),      ""),
            (with("anyOf", json!([{"type": "object"}])),        json!({"pth": 1}),      ""),
            (with("$ref", json!("https://example.org/more")),   json!({"pth": 1}),      ""),
            (with("anyOf", json!([{"required": ["path"]}])),    json!({"pth": 1}),      "`args.pth`; did you mean `path`?"),
            (json!({"type": "object", "properties": {}}),       json!({"pth": 1}),      ""),
            (json!({"type": "object"}),                         json!({"pth": 1}),      ""),
            (json!({"properties": {"a": {"type": "object", "properties": {}}}}), json!({"a": {"b": 1}}), ""),
        ];
        for (schema, value, expected) in table {
            let found = unknown(&schema, "args", &value, Pace::Quick).unwrap();
            assert_eq!(found.join(", "), expected, "{schema} {value}");
        }
        // The nearest of many names is not looked for on a thread that serves others.
        let many: Map<_, _> = (0..1000).map(|number| (format!("name{number}"), json!({}))).collect();
        let schema = json!({"properties": many});
        assert_eq!(unknown(&schema, "args", &json!({"nam": 1}), Pace::Quick), Err(TooSlow));
        assert_eq!(unknown(&schema, "args", &json!({"nam": 1}), Pace::Thorough).unwrap().len(), 1);
    }

    #[test]
    fn hostile_schemas_end() {
        let next = |level: usize| json!({"$ref": format!("#/$defs/d{level}")});
        let mut definitions: Map<_, _> = (0..60)
            .map(|level| {
                (
                    format!("d{level}"),
                    json!({"anyOf": [next(level + 1), next(level + 1)], "properties": {"a": next(0)}}),
                )
            })
            .collect();
        definitions.insert("d60".to_owned(), json!({"$ref": "#/$defs/d0"}));
        let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
        let deep = (0..60).fold(json!({"b": 1}), |inner, _| json!({"a": inner}));
        assert!(unknown(&schema, "args", &deep, Pace::Thorough).unwrap().len() <= MAX_FOUND);
    }
}
