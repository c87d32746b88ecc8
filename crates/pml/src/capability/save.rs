//! Makes a capability of a program that worked.

use std::{collections::BTreeSet, sync::Arc};

use pml_wire::{
    ErrorCode, ToolId,
    message::{Analysis, ErrorReport},
    trace::{TaskKind, Trace},
};
use serde_json::{Map, Value, json};

use super::{
    model::{Capability, Notes, SavedTool, write_schema},
    name::CapabilityName,
    registry::Registry,
};
use crate::{
    broker::{CAPABILITIES, OWN},
    catalog::{Catalog, Snapshot},
    digest::sha256,
    error::Error,
    execution::analyse,
    hub::store::{Expected, NewCapability, Put, Visibility},
    learning::schema_of,
    sandbox::Pool,
    trace::sanitize::{Rules, Sanitizer},
};

/// Longest code of a capability. `limits.code_bytes` may allow less.
const MAX_CODE_BYTES: usize = 256 * 1024;
/// Longest description and intent that are kept, in bytes.
const MAX_TEXT_BYTES: usize = 4096;
/// Longest value that is shown as an example.
const MAX_EXAMPLE_BYTES: usize = 200;
/// Most tools of a capability.
const MAX_TOOLS: usize = 200;
/// Intents of a capability that are kept, the newest last.
const MAX_INTENTS: usize = 8;

/// A program that ran and succeeded.
#[derive(Clone, Debug, Default)]
pub struct NewProgram {
    pub code: String,
    /// The value of `args` in the run.
    pub args: Value,
    /// What the run returned, if it is known whole.
    pub result: Option<Value>,
    pub intent: Option<String>,
    /// What it used, as `server:tool`, `server:resource:ADDRESS` or `server:prompt:NAME`.
    pub tools: BTreeSet<String>,
}

/// How to save it.
#[derive(Clone, Debug, Default)]
pub struct SaveOptions {
    /// Without one, the intent.
    pub description: Option<String>,
    /// Without one, it stays as it is, or is private.
    pub visibility: Option<Visibility>,
}

/// What was saved.
#[derive(Clone, Debug)]
pub struct Saved {
    pub capability: Arc<Capability>,
    pub is_new: bool,
    /// The code was there already, in this version.
    pub is_known: bool,
}

/// Makes capabilities of programs.
#[derive(Clone, Debug)]
pub struct Saver {
    pub registry: Arc<Registry>,
    pub catalog: Catalog,
    pub pool: Pool,
    /// What counts as a secret.
    pub rules: Arc<Rules>,
}

/// Why something does not become a capability.
pub fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::CapabilityRefused, message)
}

impl NewProgram {
    /// The program of a stored trace, if it can be run again as it was.
    pub fn of(trace: &Trace) -> Result<NewProgram, Error> {
        let id = trace.trace_id;
        if !trace.success {
            let why = trace.error_code.as_deref().unwrap_or("it did not end");
            return Err(refused(format!("execution {id} failed ({why}), so it is not saved"))
                .with_hint("save an execution that succeeded: `pml trace list`"));
        }
        let Some(code) = &trace.code else {
            return Err(
                refused(format!("execution {id} ran no program")).with_hint("`pml trace list` shows those that did")
            );
        };
        if trace.code_hash.as_deref().is_some_and(|hash| hash != sha256(code)) {
            let (line, what) = first_marker(code);
            let what = if what == "[TRUNCATED]" { "was cut here".to_owned() } else { format!("holds {what}") };
            let hint = "run it again with `save_as`, or write the program to a file without it: `pml capability edit`";
            return Err(refused(format!("line {line}: the stored program {what}, so it is not the program that ran"))
                .with_hint(hint));
        }
        let value = |raw: &Option<Box<serde_json::value::RawValue>>| {
            raw.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null)
        };
        let is_cut = |path: &str| trace.metadata.truncated.iter().any(|cut| cut.path.starts_with(path));
        let is_used = |kind: TaskKind| matches!(kind, TaskKind::Tool | TaskKind::Resource | TaskKind::Prompt);
        let used = trace.task_results.iter().filter(|task| is_used(task.kind));
        Ok(NewProgram {
            code: code.clone(),
            args: value(&trace.args),
            result: trace.result.as_ref().filter(|_| !is_cut("/result")).map(|_| value(&trace.result)),
            intent: trace.intent.clone(),
            tools: used.map(|task| task.tool.clone()).collect(),
        })
    }
}

/// The line of the first thing that was taken out of a text, and what stands there.
fn first_marker(text: &str) -> (usize, String) {
    let starts = ["[REDACTED:", "[EMAIL]", "[PHONE]", "[SSN]", "[CARD]", "[IBAN]", "[TRUNCATED]"];
    let at = starts.iter().filter_map(|start| text.find(start)).min().unwrap_or(text.len());
    let marker = text[at..].split_inclusive(']').next().unwrap_or("[TRUNCATED]");
    (text[..at].matches('\n').count() + 1, if marker.is_empty() { "[TRUNCATED]" } else { marker }.to_owned())
}

impl Saver {
    /// Saves a program under a name, as a new capability or a new version of one.
    pub async fn save(&self, program: NewProgram, name: &CapabilityName, options: SaveOptions) -> Result<Saved, Error> {
        let NewProgram { code, args, result, intent, tools } = program;
        let size = code.len();
        if size > MAX_CODE_BYTES {
            let message =
                format!("the program has {size} bytes, more than the {MAX_CODE_BYTES} that a capability may have");
            return Err(Error::new(ErrorCode::CodeTooLarge, message));
        }
        self.registry.refresh().await?;
        self.check_name(name)?;
        let sanitizer = Sanitizer::new(Arc::clone(&self.rules));
        check_secrets(&sanitizer, &code)?;
        let file = format!("{name}.ts");
        let analysis = analyse(&self.pool, &file, &code).await.map_err(|report| of_report(*report))?;
        if let Some(line) = analysis.recalls.first() {
            let message = format!("line {line}: the program reads a kept result, which is not there in later runs");
            return Err(refused(message).with_hint("get the value by calling a tool, or take it from `args`"));
        }
        let tools = self.saved_tools(&tools)?;
        let known = self.registry.named(&name.to_string()).filter(|known| known.name == *name);
        let mut intents = known.as_ref().map(|known| known.notes.intents.clone()).unwrap_or_default();
        let intent = intent.map(|intent| short(&sanitizer.text(&intent)));
        intents.extend(intent.clone().filter(|intent| !intents.contains(intent)));
        let first = intents.len().saturating_sub(MAX_INTENTS);
        let notes = Notes {
            tools,
            result: result.as_ref().map(schema_of).filter(|schema| *schema != json!({})),
            intents: intents.split_off(first),
            // New code is no reason to use it again, nor is it somebody else's capability because of it.
            deprecated: known.as_ref().and_then(|known| known.notes.deprecated.clone()),
            origin: known.as_ref().and_then(|known| known.notes.origin.clone()),
        };
        let kept = known.as_ref().map(|known| known.description.clone());
        let description = options.description.map(|text| short(&text)).or(kept).or(intent).unwrap_or_default();
        let parameters = parameters(&analysis, &args, &sanitizer);
        let visibility = options.visibility.or(known.is_none().then_some(Visibility::Private));
        let new = NewCapability {
            namespace: name.namespace.clone(),
            action: name.action.clone(),
            code: analysis.code,
            parameters: Some(write_schema(&parameters, &notes)),
            description,
            visibility,
        };
        let (stored, is_known) = match self.registry.put(new, Expected::Anything).await? {
            Put::Created(stored) | Put::NewVersion(stored) => (stored, false),
            Put::Known(stored) => (stored, true),
            Put::Taken | Put::Changed | Put::Forbidden => {
                return Err(refused(format!("`{name}` is the name of somebody else's capability")));
            }
        };
        let capability = Capability::of(&stored).ok_or_else(|| refused("what was stored cannot be read"))?;
        Ok(Saved { capability: Arc::new(capability), is_new: known.is_none(), is_known })
    }

    /// Refuses names that would be taken for something else.
    pub fn check_name(&self, name: &CapabilityName) -> Result<(), Error> {
        let snapshot = self.catalog.snapshot();
        if let Ok(id) = format!("{}:{}", name.namespace, name.action).parse::<ToolId>()
            && let Some(tool) = snapshot.tool(&id)
        {
            let message = format!("`{name}` would be taken for the tool `{}`", tool.id);
            return Err(refused(message).with_hint("choose another action, or another namespace than that of a server"));
        }
        let in_code = name.in_code();
        let other = self.registry.all().into_iter().find(|it| it.name != *name && it.name.in_code() == in_code);
        match other {
            Some(other) => {
                Err(refused(format!("`{name}` and `{}` would both be called `{in_code}` in programs", other.name)))
            }
            None => Ok(()),
        }
    }

    /// The tools as they are now. Refuses those that are not there any more.
    pub fn saved_tools(&self, tools: &BTreeSet<String>) -> Result<Vec<SavedTool>, Error> {
        if tools.len() > MAX_TOOLS {
            return Err(refused(format!("the program used {} tools, more than {MAX_TOOLS}", tools.len())));
        }
        let snapshot = self.catalog.snapshot();
        tools.iter().map(|tool| saved_tool(&snapshot, tool)).collect()
    }
}

fn saved_tool(snapshot: &Snapshot, tool: &str) -> Result<SavedTool, Error> {
    let plain = || SavedTool { tool: tool.to_owned(), hash: String::new() };
    let Ok(id) = tool.parse::<ToolId>() else { return Ok(plain()) };
    let is_tool = !id.tool().starts_with("resource:") && !id.tool().starts_with("prompt:");
    if !is_tool || id.server() == OWN {
        return Ok(plain());
    }
    match snapshot.tool(&id) {
        Some(known) if id.server() == CAPABILITIES => Ok(SavedTool { tool: known.id.to_string(), hash: String::new() }),
        Some(known) => Ok(SavedTool { tool: known.id.to_string(), hash: known.hash.clone() }),
        None if snapshot.server_name(id.server()).is_some_and(|name| snapshot.listing(name).is_none()) => Ok(plain()),
        None => Err(refused(format!("the program calls `{id}`, which is not there any more"))
            .with_hint("`pml tools` lists the tools that there are")),
    }
}

/// Refuses a program that holds what must not be kept.
fn check_secrets(sanitizer: &Sanitizer, code: &str) -> Result<(), Error> {
    for (index, line) in code.split('\n').enumerate() {
        let clean = sanitizer.text(line);
        if *clean != *line {
            let (_, what) = first_marker(&clean);
            let message =
                format!("line {}: the program holds what looks like a secret or personal data: {what}", index + 1);
            return Err(refused(message).with_hint("pass it in `args`, or let the server have it from its environment"));
        }
    }
    // Some are only seen across lines.
    let clean = sanitizer.text(code);
    if *clean != *code && !clean.ends_with("[TRUNCATED]") {
        let (line, what) = first_marker(&clean);
        return Err(refused(format!(
            "line {line}: the program holds what looks like a secret or personal data: {what}"
        )));
    }
    Ok(())
}

/// What is wrong with a program, as an error of a command.
fn of_report(report: ErrorReport) -> Error {
    let frame = report.frame.map(|frame| format!("\n{frame}")).unwrap_or_default();
    let error = Error::new(report.code, format!("{}{frame}", report.message));
    match report.hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

fn short(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT_BYTES)].trim().to_owned()
}

/// The JSON schema of the parameters: those that the program took before, and those that its values became.
fn parameters(analysis: &Analysis, args: &Value, sanitizer: &Sanitizer) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let given = args.as_object();
    let whole = given.filter(|_| analysis.uses_args_whole).into_iter().flat_map(Map::keys);
    for name in analysis.arguments.iter().chain(whole) {
        let value = given.and_then(|given| given.get(name));
        let mut schema = value.map_or_else(|| json!({}), schema_of);
        if let Some(value) = value {
            let text = value.to_string();
            if text.len() <= MAX_EXAMPLE_BYTES && *sanitizer.text(&text) == *text && !text.contains("[REDACTED:") {
                schema["examples"] = json!([value]);
            }
            if !required.contains(name) {
                required.push(name.clone());
            }
        }
        properties.insert(name.clone(), schema);
    }
    for parameter in &analysis.parameters {
        let mut schema = schema_of(&parameter.value);
        schema["default"] = parameter.value.clone();
        properties.insert(parameter.name.clone(), schema);
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    if !analysis.uses_args_whole {
        schema["additionalProperties"] = false.into();
    }
    schema
}

#[cfg(test)]
mod tests {
    use pml_wire::message::AnalysedParameter;

    use super::*;

    #[test]
    fn parameters_have_types_defaults_and_examples() {
        let analysis = Analysis {
            parameters: vec![AnalysedParameter {
                name: "path".to_owned(),
                property: "path".to_owned(),
                value: json!("a.txt"),
                line: 1,
            }],
            arguments: vec!["limit".to_owned(), "other".to_owned()],
            ..Analysis::default()
        };
        let sanitizer = Sanitizer::default();
        let schema = parameters(&analysis, &json!({ "limit": 5, "unused": true }), &sanitizer);
        let expected = json!({
            "type": "object",
            "properties": {
                "limit": { "type": "number", "examples": [5] },
                "other": {},
                "path": { "type": "string", "default": "a.txt" },
            },
            "required": ["limit"],
            "additionalProperties": false,
        });
        assert_eq!(schema, expected);
        let whole = Analysis { uses_args_whole: true, ..Analysis::default() };
        let schema = parameters(&whole, &json!({ "limit": 5 }), &sanitizer);
        assert_eq!((&schema["required"], schema.get("additionalProperties")), (&json!(["limit"]), None));
    }

    #[test]
    fn secrets_are_refused_with_their_line() {
        let sanitizer = Sanitizer::default();
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let err = check_secrets(&sanitizer, &format!("const x = 1;\nreturn '{token}'")).unwrap_err();
        assert!(err.code == ErrorCode::CapabilityRefused && err.message.starts_with("line 2:"), "{}", err.message);
        assert!(check_secrets(&sanitizer, "return await mcp.fs.read({ path: 'notes.txt' })").is_ok());
        // A long program is no secret.
        assert!(check_secrets(&sanitizer, &"// a comment\n".repeat(2000)).is_ok());
    }

    #[test]
    fn what_was_taken_out_of_a_text_is_found() {
        assert_eq!(first_marker("a\nb [REDACTED:github-token] c"), (2, "[REDACTED:github-token]".to_owned()));
        assert_eq!(first_marker("a\nb\n[TRUNCATED]"), (3, "[TRUNCATED]".to_owned()));
    }
}
