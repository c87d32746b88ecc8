//! What a program may have meant by a property that the result of a tool does not have.
//!
//! The worker looks at the value that the program has; an answer that is empty, or lacks what is optional, gives no hint. Here
//! the learned type of the tool's results does.

use pml_wire::message::MissingProperty;
use serde_json::Value;

use crate::{catalog::nearest, shown::visible};

/// Names that are told if none is near.
const MOST_NAMES: usize = 8;
/// Steps that are followed; learned types are not deeper.
const MAX_STEPS: usize = 8;

/// A hint, by a learned type and how many results it is from. `None` if the type says nothing about the place.
pub(super) fn hint(schema: &Value, results: u32, missing: &MissingProperty) -> Option<String> {
    let MissingProperty { tool, path, property, object } = missing;
    let mut places = vec![schema];
    for step in path.iter().take(MAX_STEPS) {
        places = places.into_iter().flat_map(|place| step_into(place, step.as_deref())).collect();
    }
    let places = places.into_iter().flat_map(kinds).filter_map(|kind| kind["properties"].as_object());
    let mut names: Vec<&str> = places.flat_map(|properties| properties.keys().map(String::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    let (tool, object) = (visible(tool.as_str()), visible(object));
    if path.len() > MAX_STEPS || names.is_empty() {
        return None;
    }
    if names.contains(&property.as_str()) {
        return Some(format!("`{}` is in some results of {tool} and not in this one: check for it", visible(property)));
    }
    if let Some(near) = nearest(property, names.iter().copied()).first() {
        return Some(format!("did you mean `{object}.{near}`? Of {results} results of {tool}, some have it"));
    }
    let more = names.len().saturating_sub(MOST_NAMES);
    let named: Vec<String> = names.iter().take(MOST_NAMES).map(|name| format!("`{name}`")).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("other results of {tool} have {}{more} there", named.join(", ")))
}

/// The alternatives of a schema.
fn kinds(schema: &Value) -> Vec<&Value> {
    match schema["anyOf"].as_array() {
        Some(kinds) => kinds.iter().collect(),
        None => vec![schema],
    }
}

fn step_into<'s>(schema: &'s Value, step: Option<&str>) -> Vec<&'s Value> {
    let into = |kind: &'s Value| match step {
        Some(name) => kind["properties"].get(name).or_else(|| kind.get("additionalProperties")),
        None => kind.get("items"),
    };
    kinds(schema).into_iter().filter_map(into).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_other_results_have_is_a_hint() {
        let issue = json!({ "type": "object", "properties": { "id": {}, "assignee": {}, "title": {} } });
        let schema = json!({ "anyOf": [
            { "type": "object", "properties": {
                "items": { "type": "array", "items": { "anyOf": [issue, { "type": "null" }] } },
                "by_id": { "type": "object", "additionalProperties": issue },
            } },
            { "type": "string" },
        ] });
        let items = [Some("items"), None];
        #[rustfmt::skip]
        let table = [
            // path                            property    hint
            (&items[..],                       "asignee",  Some("did you mean `it.assignee`? Of 7 results of a:b, some have it")),
            (&items,                           "title",    Some("`title` is in some results of a:b and not in this one: check for it")),
            (&items,                           "zzz",      Some("other results of a:b have `assignee`, `id`, `title` there")),
            (&[Some("by_id"), Some("x")],      "titel",    Some("did you mean `it.title`? Of 7 results of a:b, some have it")),
            (&[],                              "itms",     Some("did you mean `it.items`? Of 7 results of a:b, some have it")),
            (&[Some("no")],                    "x",        None),
            (&[None],                          "x",        None),
            (&[Some("items"); 50],             "x",        None),
        ];
        for (path, property, expected) in table {
            let missing = MissingProperty {
                tool: "a:b".parse().unwrap(),
                path: path.iter().map(|step| step.map(str::to_owned)).collect(),
                property: property.to_owned(),
                object: "it".to_owned(),
            };
            assert_eq!(hint(&schema, 7, &missing).as_deref(), expected, "{path:?} {property}");
        }
    }
}
