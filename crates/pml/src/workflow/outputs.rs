//! The values that references stand for, while a workflow runs.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use pml_wire::{
    Kind,
    line::unbroken,
    message::{Block, CallError, HANDLE_KEY, Handle, Handles},
};
use serde_json::value::RawValue;

use super::{
    graph::{Items, Task},
    reference::{Reference, Source},
    template::{Filled, ResolvedReference, Template, Unfit},
};
use crate::{
    execution::{IndexRoom, JsonText},
    room::{Charge, Room},
    work::Waiter,
};

/// Most elements of one `forEach`.
pub(super) const MAX_ITEMS: usize = 1000;

/// The result of a task, or a part of it.
#[derive(Debug)]
pub(super) struct Output {
    text: JsonText,
    form: Form,
    /// The room that it takes.
    _held: Option<Charge>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// JSON.
    Value,
    /// A text that is a JSON object or array.
    JsonText,
    /// A handle of a value that is too large to be looked into at once: its token and its size.
    Kept(String, u64),
}

impl Output {
    /// JSON text.
    pub(super) fn value(json: &str, room: &IndexRoom) -> Output {
        Output { text: JsonText::of_json(json.into(), room), form: Form::Value, _held: None }
    }

    /// What a frame says that would have answered a program.
    pub(super) fn of_frame(kind: Kind, body: &str, room: &IndexRoom) -> Output {
        match kind {
            Kind::RpcJsonText => {
                // Line breaks between tokens mean nothing, and where messages are lines they would end one.
                let text =
                    String::from_utf8(unbroken(body.as_bytes()).into_owned()).unwrap_or_else(|_| body.to_owned());
                Output { text: JsonText::of_json(text.into(), room), form: Form::JsonText, _held: None }
            }
            Kind::RpcHandles => match serde_json::from_str(body) {
                Ok(Handles::Whole(handle)) => Output {
                    text: JsonText::of_json(marker(&handle).into(), room),
                    form: Form::Kept(handle.token, handle.size),
                    _held: None,
                },
                Ok(Handles::Blocks(blocks)) => {
                    let block = |block: &Block| match block {
                        Block::Value(value) => value.get().to_owned(),
                        Block::Handle(handle) => marker(handle),
                    };
                    let blocks: Vec<_> = blocks.iter().map(block).collect();
                    Output::value(&format!("[{}]", blocks.join(",")), room)
                }
                // Its handles stand in it as they stand in what a task is given.
                Ok(Handles::Within { value, .. }) => Output::value(value.get(), room),
                Err(_) => Output::value("null", room),
            },
            _ => Output::value(body, room),
        }
    }

    /// One list of them all.
    pub(super) fn list<'a>(outputs: impl Iterator<Item = &'a Output>, room: &IndexRoom) -> Output {
        let outputs: Vec<_> = outputs.map(Output::json).collect();
        Output::value(&format!("[{}]", outputs.join(",")), room)
    }

    /// The same, with the room that it takes in memory.
    pub(super) fn held_in(self, room: &Room) -> Result<Output, CallError> {
        let charge = Some(room.try_charge(self.text.as_str().len())?);
        Ok(Output { _held: charge, ..self })
    }

    /// Its JSON text, in which a handle may stand for a large value.
    pub(super) fn json(&self) -> &str {
        self.text.as_str()
    }

    /// How large it is, with what handles stand for where that is all of it.
    pub(super) fn bytes(&self) -> usize {
        match &self.form {
            Form::Kept(_, size) => usize::try_from(*size).unwrap_or(usize::MAX),
            Form::Value | Form::JsonText => self.text.as_str().len(),
        }
    }

    /// The token to read a part of it with, if it is too large to be looked into here.
    pub(super) fn token(&self) -> Option<&str> {
        match &self.form {
            Form::Kept(token, _) => Some(token),
            Form::Value | Form::JsonText => None,
        }
    }

    fn find(&self, path: &str) -> Result<ResolvedReference<'_>, String> {
        if path.is_empty() {
            let is_json_text = self.form == Form::JsonText;
            return Ok(ResolvedReference { json: self.text.as_str().into(), is_json_text });
        }
        let part = self.text.select(path, &Waiter::default())?;
        Ok(ResolvedReference { json: part.into(), is_json_text: false })
    }
}

fn marker(handle: &Handle) -> String {
    format!("{{\"{HANDLE_KEY}\":\"{}\"}}", handle.token)
}

/// What a reference of a task leads to.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    /// The value that the path of the reference leads into.
    Whole(Arc<Output>),
    /// The part that the path led to already.
    Part(Arc<Output>),
    /// There is nothing, for this reason.
    Missing(Unfit),
}

/// The values of all references of one task.
#[derive(Debug, Default)]
pub(super) struct View {
    slots: HashMap<Reference, Slot>,
}

/// What a task does, now that the values are known that decide it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Work {
    Once,
    /// Once for each of these, JSON texts.
    Each(Vec<String>),
    Skip,
}

/// The element of `forEach` that a call is about.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) index: usize,
    pub(super) json: String,
}

impl View {
    pub(super) fn insert(&mut self, reference: Reference, slot: Slot) {
        self.slots.insert(reference, slot);
    }

    /// How much there is to look into.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |slot: &Slot| match slot {
            Slot::Whole(output) | Slot::Part(output) => output.json().len(),
            Slot::Missing(_) => 0,
        };
        self.slots.values().map(bytes).sum()
    }

    fn find(&self, reference: &Reference) -> Result<ResolvedReference<'_>, Unfit> {
        let found = match self.slots.get(reference) {
            Some(Slot::Whole(output)) => output.find(&reference.path).map_err(Unfit::from),
            Some(Slot::Part(output)) => output.find("").map_err(Unfit::from),
            Some(Slot::Missing(why)) => Err(why.clone()),
            None => Err("it has no value here".to_owned().into()),
        };
        found.map_err(|Unfit { code, message }| Unfit { code, message: format!("`{reference}`: {message}") })
    }

    /// What the task does. Takes time in proportion to the values.
    pub(super) fn decide(&self, task: &Task) -> Result<Work, Unfit> {
        let mut value = |reference: &Reference| match self.find(reference) {
            Ok(found) if found.json.starts_with(&format!("{{\"{HANDLE_KEY}\":\"")) => {
                Err(format!("`{reference}` is too large to be tested"))
            }
            Ok(found) => match serde_json::from_str(&found.json) {
                Ok(value) => Ok(Some(value)),
                Err(err) => Err(format!("`{reference}` cannot be read: {err}")),
            },
            Err(_) => Ok(None),
        };
        if let Some(condition) = &task.when
            && !condition.holds(&mut value)?
        {
            return Ok(Work::Skip);
        }
        let items = match task.for_each.as_ref().map(|each| &each.items) {
            None => return Ok(Work::Once),
            Some(Items::Literal(items)) => items.clone(),
            Some(Items::Reference(reference)) => {
                let found = self.find(reference)?;
                let items: Vec<&RawValue> = serde_json::from_str(&found.json).map_err(|_| {
                    format!("`{reference}` is no list, or too large, so there is nothing to go through")
                })?;
                items.iter().map(|item| item.get().to_owned()).collect()
            }
        };
        match items.len() > MAX_ITEMS {
            true => Err(format!("the list of `forEach` has {} elements, more than {MAX_ITEMS}", items.len()).into()),
            false => Ok(Work::Each(items)),
        }
    }

    /// The arguments of one call. Takes time in proportion to the values.
    pub(super) fn fill(&self, template: &Template, element: Option<&Element>) -> Result<Filled, Unfit> {
        let room = IndexRoom::new(0);
        let item = element.map(|element| Output::value(&element.json, &room));
        template.fill(|reference| match (&reference.source, element, &item) {
            (Source::Index, Some(element), _) => {
                Ok(ResolvedReference { json: Cow::Owned(element.index.to_string()), is_json_text: false })
            }
            (Source::Item, _, Some(item)) => {
                let found = item.find(&reference.path).map_err(|why| format!("`{reference}`: {why}"))?;
                Ok(ResolvedReference { json: Cow::Owned(found.json.into_owned()), is_json_text: false })
            }
            _ => self.find(reference),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workflow::graph::Workflow;

    fn room() -> IndexRoom {
        IndexRoom::new(1 << 20)
    }

    fn task(value: Value) -> Task {
        let mut task = json!({ "id": "t", "tool": "s:t" });
        task.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        Workflow::from_json(&json!({ "tasks": [task] }).to_string()).unwrap().tasks.remove(0)
    }

    fn view(task: &Task, output: Output) -> View {
        let output = Arc::new(output);
        let mut view = View::default();
        for reference in task.references() {
            view.insert(reference.clone(), Slot::Whole(Arc::clone(&output)));
        }
        view
    }

    #[test]
    fn a_list_is_gone_through_and_what_is_none_is_an_error() {
        let each =
            task(json!({ "forEach": "$OUTPUT[a].items", "args": {"i": "$INDEX", "v": "$ITEM.x", "all": "${$ITEM}"} }));
        let known = view(&each, Output::value(r#"{"items":[{"x":12345678901234567890123},{"y":1}]}"#, &room()));
        let Work::Each(items) = known.decide(&each).unwrap() else { panic!("no list") };
        let fill = |index: usize| {
            let element = Element { index, json: items[index].clone() };
            known.fill(&each.args, Some(&element)).map(|filled| filled.json).map_err(|unfit| unfit.message)
        };
        assert_eq!(fill(0).unwrap(), r#"{"i":0,"v":12345678901234567890123,"all":"{\"x\":12345678901234567890123}"}"#);
        assert!(fill(1).unwrap_err().contains("`$ITEM.x`: there is nothing at `x`"));
        for (output, part) in [
            (r#"{"items":{"a":1}}"#.to_owned(), "is no list"),
            (r#"{"item":[]}"#.to_owned(), "there is nothing at `items`"),
            (format!("{{\"items\":[{}1]}}", "1,".repeat(1000)), "has 1001 elements"),
        ] {
            let said = view(&each, Output::value(&output, &room())).decide(&each).unwrap_err().message;
            assert!(said.contains(part), "{said}");
        }
        let empty = view(&each, Output::value(r#"{"items":[]}"#, &room()));
        assert_eq!(empty.decide(&each), Ok(Work::Each(Vec::new())));
    }

    #[test]
    fn a_condition_decides_before_anything_else() {
        let conditional = task(json!({
            "when": {"ref": "$OUTPUT[a].n", "gt": 3}, "forEach": "$OUTPUT[a].items",
        }));
        assert_eq!(view(&conditional, Output::value(r#"{"n":3}"#, &room())).decide(&conditional), Ok(Work::Skip));
        assert!(view(&conditional, Output::value(r#"{"n":4}"#, &room())).decide(&conditional).is_err());
        assert!(view(&conditional, Output::value("{}", &room())).decide(&conditional).is_err());
        let exists = task(json!({ "when": {"ref": "$OUTPUT[a]", "exists": true} }));
        let mut skipped = View::default();
        skipped.insert(exists.references().next().unwrap().clone(), Slot::Missing("it was skipped".to_owned().into()));
        assert_eq!(skipped.decide(&exists), Ok(Work::Skip));
    }

    #[test]
    fn texts_and_handles_keep_what_they_are() {
        let uses = task(json!({ "args": {"whole": "$OUTPUT[a]", "part": "$OUTPUT[a].k"} }));
        let text = Output::of_frame(Kind::RpcJsonText, "{\"k\":\n 1}", &room());
        let filled = view(&uses, text).fill(&uses.args, None).unwrap();
        assert_eq!(filled.json, r#"{"whole":"{\"k\":  1}","part":1}"#);
        assert_eq!(filled.texts.len(), 1);
        let handle = |token: &str| Handle {
            token: token.to_owned(),
            r#type: "json".to_owned(),
            size: 9_000_000,
            mime_type: None,
            uri: None,
        };
        let large =
            Output::of_frame(Kind::RpcHandles, &serde_json::to_string(&Handles::Whole(handle("ab"))).unwrap(), &room());
        assert_eq!((large.token(), large.bytes(), large.json()), (Some("ab"), 9_000_000, r#"{"$pml:handle":"ab"}"#));
        let raw = RawValue::from_string("{\"type\":\"text\"}".to_owned()).unwrap();
        let blocks = Handles::Blocks(vec![Block::Value(raw), Block::Handle(handle("cd"))]);
        let blocks = Output::of_frame(Kind::RpcHandles, &serde_json::to_string(&blocks).unwrap(), &room());
        assert_eq!(blocks.json(), r#"[{"type":"text"},{"$pml:handle":"cd"}]"#);
    }
}
