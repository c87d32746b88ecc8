//! A workflow as it is written: tasks, what each needs, and when it runs.
//!
//! Read from JSON or TOML. Everything that is wrong is collected, with the task and the path; nothing is guessed.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use pml_wire::{ErrorCode, json};
use serde_json::{Value, value::RawValue};

use super::{
    condition::{Condition, kind, unknown_key},
    problem::{Problem, Problems},
    reference::{Reference, shown},
    template::Template,
};

/// Most tasks of one workflow.
pub const MAX_TASKS: usize = 1000;
/// Longest document.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Longest id of a task.
const MAX_ID_BYTES: usize = 64;
/// Longest name and intent.
const MAX_TEXT_BYTES: usize = 4096;
/// Most tasks that one may depend on.
const MAX_DEPENDENCIES: usize = 1000;
/// Longest time that one task may be given.
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
/// Most repetitions of a call, and the longest pause before one.
const MAX_RETRIES: u64 = 10;
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// The pause before the first repetition, unless the workflow says otherwise.
const BACKOFF: Duration = Duration::from_millis(250);
/// Most elements of one `forEach` that are worked on at the same time.
const MAX_CONCURRENCY: u64 = 100;

const KEYS: [&str; 3] = ["tasks", "name", "intent"];
const TASK_KEYS: [&str; 10] =
    ["id", "tool", "capability", "code", "args", "dependsOn", "when", "forEach", "timeout_ms", "retry"];

/// A workflow whose parts are well formed. Whether they fit together is not known yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workflow {
    pub name: Option<String>,
    /// What it is for.
    pub intent: Option<String>,
    pub tasks: Vec<Task>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub id: String,
    pub action: Action,
    /// An object.
    pub args: Template,
    pub depends_on: Vec<String>,
    pub when: Option<Condition>,
    pub for_each: Option<ForEach>,
    /// Longest that one call may take.
    pub timeout: Option<Duration>,
    pub retry: Retry,
    /// Nothing is wrong with it by itself. A task that is not whole has other values where something is wrong.
    pub is_whole: bool,
}

/// What a task does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Calls `server:tool`. Not yet known to be the id of a tool.
    Tool(String),
    /// Calls a capability by its name, `namespace.action`.
    Capability(String),
    /// Runs a TypeScript program.
    Code(String),
}

/// Does the task for each element of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ForEach {
    pub items: Items,
    /// Most elements at the same time; as many as the workflow may if it does not say.
    pub concurrency: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Items {
    Reference(Reference),
    /// JSON texts.
    Literal(Vec<String>),
}

/// How often a call that failed is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    pub times: u32,
    /// The pause before the first; it doubles with each.
    pub backoff: Duration,
}

/// How a workflow is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Toml,
}

impl Action {
    /// The tool that is called; none if a program is run.
    pub fn target(&self) -> Option<Cow<'_, str>> {
        match self {
            Action::Tool(tool) => Some(tool.into()),
            // Lists have it as a tool of `capabilities`.
            Action::Capability(name) => {
                let name = name.strip_prefix("capabilities:").unwrap_or(name);
                Some(format!("capabilities:{}", name.replace('.', "_")).into())
            }
            Action::Code(_) => None,
        }
    }

    /// The key that it is written under.
    pub fn key(&self) -> &'static str {
        match self {
            Action::Tool(_) => "tool",
            Action::Capability(_) => "capability",
            Action::Code(_) => "code",
        }
    }
}

impl Task {
    /// The references of all of it: its condition, its list and its arguments.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        let when = self.when.iter().flat_map(Condition::references);
        let items = self.for_each.iter().filter_map(|each| match &each.items {
            Items::Reference(reference) => Some(reference),
            Items::Literal(_) => None,
        });
        when.chain(items).chain(self.args.references().map(|(_, reference)| reference))
    }
}

impl Format {
    /// By the ending of a file's name; by what the text begins with if that says nothing.
    pub fn of(name: &str, text: &str) -> Format {
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("json") => Format::Json,
            Some("toml") => Format::Toml,
            _ if text.trim_start().starts_with('{') => Format::Json,
            _ => Format::Toml,
        }
    }
}

impl Workflow {
    /// Reads a document.
    pub fn read(text: &str, format: Format) -> Result<Workflow, Problems> {
        match Workflow::read_on(text, format)? {
            (workflow, problems) if problems.is_empty() => Ok(workflow),
            (_, problems) => Err(problems),
        }
    }

    /// Reads a document as far as it can be read, with what is wrong: tasks with mistakes are [not whole](Task::is_whole). Fails if
    /// it has no tasks that could be read.
    pub(super) fn read_on(text: &str, format: Format) -> Result<(Workflow, Problems), Problems> {
        too_long(text)?;
        match format {
            Format::Json => Workflow::json_on(text),
            Format::Toml => Workflow::json_on(&toml_as_json(text)?),
        }
    }

    /// Reads JSON text.
    #[cfg(test)]
    pub fn from_json(text: &str) -> Result<Workflow, Problems> {
        Workflow::read(text, Format::Json)
    }

    fn json_on(text: &str) -> Result<(Workflow, Problems), Problems> {
        too_long(text)?;
        if json::depth(text) > json::MAX_DEPTH {
            let message = format!("the workflow is nested more than {} levels deep", json::MAX_DEPTH);
            return Err(Problem::new("", message).into());
        }
        let document: BTreeMap<Cow<'_, str>, &RawValue> =
            serde_json::from_str(text).map_err(|err| Problem::new("", format!("it is no JSON object: {err}")))?;
        let mut problems = Problems::default();
        for key in document.keys().filter(|key| !KEYS.contains(&&***key)) {
            problems.push(Problem::new("", unknown_key(key, KEYS)));
        }
        let mut text_of = |key: &str| {
            let value: Value = document.get(key).and_then(|value| serde_json::from_str(value.get()).ok())?;
            match value {
                Value::Null => None,
                Value::String(text) if text.len() <= MAX_TEXT_BYTES => Some(text),
                Value::String(_) => {
                    problems.push(Problem::new(key, format!("it has more than {MAX_TEXT_BYTES} bytes")));
                    None
                }
                other => {
                    problems.push(Problem::new(key, format!("it must be a text, not {}", kind(&other))));
                    None
                }
            }
        };
        let (name, intent) = (text_of("name"), text_of("intent"));
        let tasks = document.get("tasks").and_then(|tasks| serde_json::from_str::<Vec<&RawValue>>(tasks.get()).ok());
        let Some(tasks) = tasks.filter(|tasks| !tasks.is_empty()) else {
            problems.push(Problem::new(
                "tasks",
                "a workflow needs a list of tasks: [{\"id\": …, \"tool\": …, \"args\": …}]",
            ));
            return Err(problems);
        };
        if tasks.len() > MAX_TASKS {
            let message =
                format!("there are {} tasks, more than the {MAX_TASKS} that one workflow may have", tasks.len());
            problems.push(Problem::new("tasks", message));
            return Err(problems);
        }
        let read = |(index, task): (usize, &&RawValue)| Reader::new(index, task, &mut problems).read();
        let tasks: Vec<_> = tasks.iter().enumerate().map(read).collect();
        Ok((Workflow { name, intent, tasks }, problems))
    }
}

fn too_long(text: &str) -> Result<(), Problems> {
    match text.len() > MAX_BYTES {
        true => {
            let message = format!("the workflow has {} bytes, more than the limit of {MAX_BYTES}", text.len());
            Err(Problem::new("", message).into())
        }
        false => Ok(()),
    }
}

/// Reads one task.
struct Reader<'a, 'p> {
    index: usize,
    /// The id, as far as there is one, for messages.
    id: Option<String>,
    is_object: bool,
    entries: BTreeMap<Cow<'a, str>, &'a RawValue>,
    problems: &'p mut Problems,
}

impl<'a, 'p> Reader<'a, 'p> {
    fn new(index: usize, task: &'a RawValue, problems: &'p mut Problems) -> Reader<'a, 'p> {
        let entries = serde_json::from_str(task.get()).ok();
        Reader { index, id: None, is_object: entries.is_some(), entries: entries.unwrap_or_default(), problems }
    }

    fn wrong(&mut self, path: impl AsRef<str>, message: impl Into<String>) {
        let path = match path.as_ref() {
            "" => format!("tasks[{}]", self.index),
            path => format!("tasks[{}].{path}", self.index),
        };
        self.problems.push(Problem { task: self.id.clone(), ..Problem::new(path, message) });
    }

    fn read(mut self) -> Task {
        let before = self.problems.len();
        if !self.is_object {
            self.wrong("", "a task is an object with an `id`");
            return Task {
                id: String::new(),
                action: Action::Code(String::new()),
                args: Template::parse("{}").unwrap_or_default(),
                depends_on: Vec::new(),
                when: None,
                for_each: None,
                timeout: None,
                retry: Retry { times: 0, backoff: BACKOFF },
                is_whole: false,
            };
        }
        let id = self.text("id");
        match &id {
            Some(id) if is_id(id) => self.id = Some(id.clone()),
            Some(id) => {
                let message =
                    format!("`{}` is no id; use up to {MAX_ID_BYTES} letters, digits, `_`, `-` and `.`", shown(id));
                self.wrong("id", message);
            }
            None => self.wrong("id", "a task needs an id, a text"),
        }
        let unknown: Vec<_> = self
            .entries
            .keys()
            .filter(|key| !TASK_KEYS.contains(&&***key))
            .map(|key| unknown_key(key, TASK_KEYS))
            .collect();
        unknown.into_iter().for_each(|message| self.wrong("", message));
        let action = self.action();
        let mut task = Task {
            id: id.filter(|id| is_id(id)).unwrap_or_default(),
            action: action.unwrap_or(Action::Code(String::new())),
            args: self.args(),
            depends_on: self.depends_on(),
            when: self.when(),
            for_each: self.for_each(),
            timeout: self.number("timeout_ms", 1, MAX_TIMEOUT.as_millis() as u64).map(Duration::from_millis),
            retry: self.retry(),
            is_whole: true,
        };
        task.is_whole = self.problems.len() == before;
        task
    }

    /// The value of a key that is there and not null.
    fn value(&self, key: &str) -> Option<Value> {
        let value = serde_json::from_str(self.entries.get(key)?.get()).unwrap_or(Value::Null);
        Some(value).filter(|value| !value.is_null())
    }

    fn text(&mut self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::String(text) => Some(text),
            other => {
                self.wrong(key, format!("it must be a text, not {}", kind(&other)));
                None
            }
        }
    }

    fn number(&mut self, key: &str, least: u64, most: u64) -> Option<u64> {
        let value = self.value(key)?;
        match whole_within(&value, least, most) {
            Ok(number) => Some(number),
            Err(message) => {
                self.wrong(key, message);
                None
            }
        }
    }

    fn action(&mut self) -> Option<Action> {
        let written: Vec<_> =
            ["tool", "capability", "code"].into_iter().filter(|key| self.value(key).is_some()).collect();
        let [key] = written[..] else {
            let found = match written[..] {
                [] => "none".to_owned(),
                _ => format!("`{}`", written.join("`, `")),
            };
            self.wrong("", format!("a task has one of `tool`, `capability` and `code`; this one has {found}"));
            return None;
        };
        let text = self.text(key)?;
        if text.trim().is_empty() {
            self.wrong(key, "it is empty");
            return None;
        }
        Some(match key {
            "tool" => Action::Tool(text),
            "capability" => Action::Capability(text),
            _ => Action::Code(text),
        })
    }

    fn args(&mut self) -> Template {
        let empty = || Template::parse("{}").unwrap_or_default();
        let Some(written) = self.entries.get("args").map(|args| args.get()).filter(|args| *args != "null") else {
            return empty();
        };
        if !written.starts_with('{') {
            self.wrong("args", "it must be an object: { \"name\": value }");
            return empty();
        }
        Template::parse(written).unwrap_or_else(|mistakes| {
            for mistake in mistakes {
                self.wrong(format!("args{}", mistake.path), mistake.message);
            }
            empty()
        })
    }

    fn depends_on(&mut self) -> Vec<String> {
        let wanted = "it must be a list of ids of tasks";
        let ids = match self.value("dependsOn") {
            None => return Vec::new(),
            Some(Value::String(id)) => return vec![id],
            Some(Value::Array(ids)) if ids.len() <= MAX_DEPENDENCIES => ids,
            Some(_) => {
                self.wrong("dependsOn", wanted);
                return Vec::new();
            }
        };
        let mut read = Vec::new();
        for (index, id) in ids.into_iter().enumerate() {
            match id {
                Value::String(id) => read.push(id),
                _ => self.wrong(format!("dependsOn[{index}]"), wanted),
            }
        }
        read
    }

    fn when(&mut self) -> Option<Condition> {
        match Condition::parse(&self.value("when")?) {
            Ok(condition) => Some(condition),
            Err((path, message)) => {
                self.wrong(format!("when{path}"), message);
                None
            }
        }
    }

    fn for_each(&mut self) -> Option<ForEach> {
        let raw = self.entries.get("forEach").filter(|raw| raw.get() != "null")?.get();
        let (path, items, concurrency) = match raw.starts_with('{') {
            false => ("forEach", Some(raw), None),
            true => {
                let parts: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(raw).unwrap_or_default();
                let known = ["in", "concurrency"];
                let unknown: Vec<_> =
                    parts.keys().filter(|key| !known.contains(&&***key)).map(|key| unknown_key(key, known)).collect();
                unknown.into_iter().for_each(|message| self.wrong("forEach", message));
                let concurrency = parts.get("concurrency").and_then(|raw| serde_json::from_str(raw.get()).ok());
                ("forEach.in", parts.get("in").map(|raw| raw.get()), concurrency)
            }
        };
        let concurrency = match concurrency.as_ref().map(|value| whole_within(value, 1, MAX_CONCURRENCY)) {
            None => None,
            Some(Ok(number)) => usize::try_from(number).ok(),
            Some(Err(message)) => {
                self.wrong("forEach.concurrency", message);
                None
            }
        };
        let items = items.unwrap_or("null");
        if let Ok(literal) = serde_json::from_str::<Vec<&RawValue>>(items) {
            let mistakes = Template::parse(items).map(|template| template.holes.len());
            if mistakes != Ok(0) {
                self.wrong(path, "a list that is written out has no references in it; refer to a whole list instead");
            }
            let items = Items::Literal(literal.iter().map(|item| item.get().to_owned()).collect());
            return Some(ForEach { items, concurrency });
        }
        let Ok(text) = serde_json::from_str::<String>(items) else {
            self.wrong(path, "it must be a reference to a list, such as $OUTPUT[task].items, or a list");
            return None;
        };
        match Reference::parse(&text) {
            Ok(reference) => Some(ForEach { items: Items::Reference(reference), concurrency }),
            Err(message) => {
                self.wrong(path, message);
                None
            }
        }
    }

    fn retry(&mut self) -> Retry {
        let none = Retry { times: 0, backoff: BACKOFF };
        let (path, times, backoff) = match self.value("retry") {
            None => return none,
            Some(Value::Object(mut parts)) => {
                let known = ["times", "backoff_ms"];
                let unknown: Vec<_> = parts
                    .keys()
                    .filter(|key| !known.contains(&key.as_str()))
                    .map(|key| unknown_key(key, known))
                    .collect();
                unknown.into_iter().for_each(|message| self.wrong("retry", message));
                ("retry.times", parts.remove("times").unwrap_or(Value::Null), parts.remove("backoff_ms"))
            }
            Some(times) => ("retry", times, None),
        };
        let times = whole_within(&times, 0, MAX_RETRIES).unwrap_or_else(|message| {
            self.wrong(path, message);
            0
        });
        let backoff = backoff.map_or(Ok(BACKOFF.as_millis() as u64), |backoff| {
            whole_within(&backoff, 0, MAX_BACKOFF.as_millis() as u64)
        });
        match backoff {
            Ok(backoff) => Retry { times: times as u32, backoff: Duration::from_millis(backoff) },
            Err(message) => {
                self.wrong("retry.backoff_ms", message);
                none
            }
        }
    }
}

/// A whole number within bounds. Models write `10.0` as well as `10`.
fn whole_within(value: &Value, least: u64, most: u64) -> Result<u64, String> {
    let whole = value.as_f64().filter(|number| number.fract() == 0.0 && (least as f64..=most as f64).contains(number));
    whole.map(|number| number as u64).ok_or_else(|| format!("it must be a whole number between {least} and {most}"))
}

fn is_id(text: &str) -> bool {
    let is_fit = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=MAX_ID_BYTES).contains(&text.len()) && text.chars().all(is_fit)
}

/// The same document in JSON.
fn toml_as_json(text: &str) -> Result<String, Problems> {
    let table: toml::Table = text.parse().map_err(|err: toml::de::Error| Problem {
        code: ErrorCode::WorkflowInvalid,
        ..Problem::new("", format!("it is no TOML: {}", err.message()))
    })?;
    Ok(json_of(toml::Value::Table(table), "")?.to_string())
}

fn json_of(value: toml::Value, path: &str) -> Result<Value, Problems> {
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| Problem::new(path, format!("`{number}` is no number of JSON")))?,
        toml::Value::Boolean(is_true) => is_true.into(),
        toml::Value::Datetime(moment) => Value::String(moment.to_string()),
        toml::Value::Array(items) => {
            let items = items.into_iter().enumerate().map(|(index, item)| json_of(item, &format!("{path}[{index}]")));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        toml::Value::Table(entries) => {
            let entries = entries.into_iter().map(|(key, value)| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                json_of(value, &path).map(|value| (key, value))
            });
            Value::Object(entries.collect::<Result<_, _>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Workflow, Problems> {
        Workflow::from_json(&value.to_string())
    }

    /// What is wrong with one task, as `path: message`.
    fn wrong(task: Value) -> Vec<String> {
        let problems = read(json!({ "tasks": [task] })).expect_err("a mistake");
        problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
    }

    #[test]
    fn json_and_toml_say_the_same() {
        let json = json!({
            "name": "n", "intent": "do it",
            "tasks": [
                {"id": "a", "tool": "s:t", "args": {"d": "x", "n": 1}, "timeout_ms": 1000, "retry": 2},
                {"id": "b", "code": "return 1", "dependsOn": ["a"], "forEach": {"in": "$OUTPUT[a].items", "concurrency": 4},
                 "args": {"item": "$ITEM"}, "when": {"ref": "$OUTPUT[a].n", "gt": 1}, "retry": {"times": 1, "backoff_ms": 5}},
                {"id": "c", "capability": "ns.do_it", "dependsOn": "b", "forEach": [1, {"x": 2}]},
            ],
        });
        let toml = r#"
            name = "n"
            intent = "do it"
            [[tasks]]
            id = "a"
            tool = "s:t"
            args = { n = 1, d = "x" }
            timeout_ms = 1000
            retry = 2
            [[tasks]]
            id = "b"
            code = "return 1"
            dependsOn = ["a"]
            forEach = { in = "$OUTPUT[a].items", concurrency = 4 }
            when = { ref = "$OUTPUT[a].n", gt = 1 }
            retry = { times = 1, backoff_ms = 5 }
            args.item = "$ITEM"
            [[tasks]]
            id = "c"
            capability = "ns.do_it"
            dependsOn = "b"
            forEach = [1, { x = 2 }]
        "#;
        let read = Workflow::read(&json.to_string(), Format::Json).unwrap();
        assert_eq!(Workflow::read(toml, Format::Toml).unwrap(), read);
        assert_eq!(read.tasks[0].retry, Retry { times: 2, backoff: BACKOFF });
        assert_eq!(read.tasks[2].action.target().unwrap(), "capabilities:ns_do_it");
        assert_eq!(Action::Capability("capabilities:ns_do_it".to_owned()).target().unwrap(), "capabilities:ns_do_it");
        let items = Items::Literal(vec!["1".to_owned(), r#"{"x":2}"#.to_owned()]);
        assert_eq!(read.tasks[2].for_each, Some(ForEach { items, concurrency: None }));
        assert_eq!(read.tasks[1].references().count(), 3);
    }

    #[test]
    fn every_mistake_of_a_task_is_said_with_its_place() {
        #[rustfmt::skip]
        let table = [
            (json!({"tool": "a:b"}),                               "tasks[0].id: a task needs an id"),
            (json!({"id": "a b", "tool": "a:b"}),                  "tasks[0].id: `a b` is no id"),
            (json!({"id": "a]", "tool": "a:b"}),                   "is no id"),
            (json!({"id": "x".repeat(65), "tool": "a:b"}),         "is no id"),
            (json!({"id": "a"}),                                   "tasks[0]: a task has one of `tool`, `capability` and `code`; this one has none"),
            (json!({"id": "a", "tool": "a:b", "code": "1"}),       "this one has `tool`, `code`"),
            (json!({"id": "a", "tool": 3}),                        "tasks[0].tool: it must be a text, not a number"),
            (json!({"id": "a", "code": "  "}),                     "tasks[0].code: it is empty"),
            (json!({"id": "a", "tool": "a:b", "depends_on": []}),  "`depends_on` is no known key; did you mean `dependsOn`?"),
            (json!({"id": "a", "tool": "a:b", "arg": {}}),         "did you mean `args`?"),
            (json!({"id": "a", "tool": "a:b", "args": [1]}),       "tasks[0].args: it must be an object"),
            (json!({"id": "a", "tool": "a:b", "args": {"x": ["see $OUTPUT[b]"]}}), "tasks[0].args.x[0]: `$OUTPUT[b]` stands in a longer text"),
            (json!({"id": "a", "tool": "a:b", "dependsOn": [1]}),  "tasks[0].dependsOn[0]: it must be a list of ids"),
            (json!({"id": "a", "tool": "a:b", "dependsOn": {}}),   "tasks[0].dependsOn: it must be a list of ids"),
            (json!({"id": "a", "tool": "a:b", "when": {"any": [{"ref": "x", "gt": 1}]}}), "tasks[0].when.any[0].ref: `x` is no reference"),
            (json!({"id": "a", "tool": "a:b", "forEach": "items"}), "tasks[0].forEach: `items` is no reference"),
            (json!({"id": "a", "tool": "a:b", "forEach": {"of": 1}}), "`of` is no known key; known are `in`, `concurrency`"),
            (json!({"id": "a", "tool": "a:b", "forEach": ["$ARGS.x"]}), "no references in it"),
            (json!({"id": "a", "tool": "a:b", "forEach": {"in": "$ARGS", "concurrency": 0}}), "between 1 and 100"),
            (json!({"id": "a", "tool": "a:b", "timeout_ms": 0}),   "tasks[0].timeout_ms: it must be a whole number between 1"),
            (json!({"id": "a", "tool": "a:b", "timeout_ms": "1s"}), "whole number"),
            (json!({"id": "a", "tool": "a:b", "retry": 11}),       "tasks[0].retry: it must be a whole number between 0 and 10"),
            (json!({"id": "a", "tool": "a:b", "retry": {"times": 1, "backoff": 1}}), "did you mean `backoff_ms`?"),
        ];
        for (task, part) in table {
            let said = wrong(task.clone());
            assert!(said.iter().any(|said| said.contains(part)), "{task}: {said:?}");
        }
        assert_eq!(wrong(json!({"id": 1, "tool": 2, "args": 3, "retry": "x"})).len(), 5);
    }

    #[test]
    fn a_document_that_is_none_is_said_to_be() {
        let many = json!({ "tasks": vec![json!({"id": "a", "tool": "a:b"}); 10_000] }).to_string();
        let deep = format!("{{\"tasks\":{}1{}}}", "[".repeat(200_000), "]".repeat(200_000));
        let long = format!("{{\"name\":\"{}\"}}", "x".repeat(MAX_BYTES));
        #[rustfmt::skip]
        let table = [
            ("",                           "it is no JSON object"),
            ("[]",                         "it is no JSON object"),
            ("{\"tasks\":[]}",             "needs a list of tasks"),
            ("{\"tasks\":7}",              "needs a list of tasks"),
            ("{\"tasks\":[7]}",            "a task is an object"),
            ("{\"taks\":[]}",              "did you mean `tasks`?"),
            ("{\"name\":7,\"tasks\":[]}",  "it must be a text, not a number"),
            (&many,                        "there are 10000 tasks, more than the 1000"),
            (&deep,                        "nested more than 100 levels deep"),
            (&long,                        "more than the limit of"),
        ];
        for (text, part) in table {
            let problems = Workflow::from_json(text).expect_err("a mistake");
            assert!(problems.iter().any(|problem| problem.message.contains(part)), "{part}: {problems:?}");
        }
        let not = Workflow::read("x = inf", Format::Toml).unwrap_err();
        assert!(not.iter().next().unwrap().message.contains("`inf` is no number of JSON"));
        assert!(Workflow::read("x = ", Format::Toml).unwrap_err().iter().next().unwrap().message.contains("no TOML"));
        assert_eq!(
            (Format::of("a.toml", "{"), Format::of("-", " {"), Format::of("-", "[[tasks]]")),
            (Format::Toml, Format::Json, Format::Toml)
        );
    }
}
