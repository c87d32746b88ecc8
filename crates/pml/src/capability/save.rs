//! Makes a capability of a program that worked.

use std::{collections::BTreeSet, sync::Arc};

use pml_wire::{
    CapabilityId, ErrorCode, ToolId,
    message::{Analysis, ErrorReport},
    trace::{Entry, TaskKind, TaskResult, Timestamp, Trace},
};
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    file::CapabilityFile,
    model::{Capability, Notes, SavedTool, read_schema, write_schema},
    name::CapabilityName,
    registry::Registry,
};
use crate::{
    broker::{CAPABILITIES, OWN},
    catalog::{Catalog, Pace, SavedProgram, Snapshot, Tool},
    digest::sha256,
    error::Error,
    execution::analyse,
    hub::store::{Expected, NewCapability, Put, Visibility},
    learning::schema_of,
    sandbox::Pool,
    trace::{
        is_answer,
        sanitize::{Rules, Sanitizer},
    },
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

/// The tool that runs the programs of workflows.
const RUN_PROGRAM: &str = "pml:run_program";

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
    /// Who saves it: the name of the client, or `cli`.
    pub author: Option<String>,
    pub written: Written,
}

/// Where the code comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Written {
    /// From a run, which shows what the program uses.
    #[default]
    Run,
    /// By hand: every tool that the code calls must be among the tools that it may use.
    ByHand,
}

/// A capability that is ready to be stored. Only [`Saver::draft`] makes one.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What it will be. Its id and its version are known only when it is stored.
    pub capability: Capability,
    new: NewCapability,
    /// What is lost by saving, in words.
    notes: Vec<String>,
}

/// What was saved.
#[derive(Clone, Debug)]
pub struct Saved {
    pub capability: Arc<Capability>,
    pub is_new: bool,
    /// The code was there already, in this version.
    pub is_known: bool,
    /// What whoever saves should know, in words.
    pub notes: Vec<String>,
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
        if !matches!(trace.entry, Entry::ExecuteCode | Entry::Run | Entry::Capability) {
            let what = match trace.entry {
                Entry::Workflow => "is a workflow, or a task of one",
                _ => "is a single call",
            };
            let hint = "capabilities are made of programs; a workflow is kept as a file, for `pml workflow run`";
            return Err(refused(format!("execution {id} {what}, not a program")).with_hint(hint));
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
        Ok(NewProgram {
            code: code.clone(),
            args: value(&trace.args),
            result: trace.result.as_ref().filter(|_| !is_cut("/result")).map(|_| value(&trace.result)),
            intent: trace.intent.clone(),
            tools: NewProgram::tools_of(trace),
        })
    }

    /// What an execution used: only calls that were permitted, sent and answered count.
    pub fn tools_of(trace: &Trace) -> BTreeSet<String> {
        let is_answered = |task: &&TaskResult| {
            task.success || task.error.as_ref().and_then(|error| read_code(&error.code)).is_some_and(is_answer)
        };
        let is_used = |task: &&TaskResult| match task.kind {
            // Older traces do not say which server had a resource.
            TaskKind::Resource | TaskKind::Prompt => {
                !task.tool.starts_with("*:") && !task.tool.ends_with(":resource:*")
            }
            TaskKind::Tool => true,
            _ => false,
        };
        let used = trace.task_results.iter().filter(is_used).filter(is_answered);
        used.map(|task| task.tool.clone()).collect()
    }
}

fn read_code(code: &str) -> Option<ErrorCode> {
    ErrorCode::ALL.iter().copied().find(|known| known.as_str() == code)
}

/// What the sanitizer puts in the place of what it removes.
const MARKERS: [&str; 7] = ["[REDACTED:", "[EMAIL]", "[PHONE]", "[SSN]", "[CARD]", "[IBAN]", "[TRUNCATED]"];

/// The line of the first thing that was taken out of a text, and what stands there.
fn first_marker(text: &str) -> (usize, String) {
    let at = MARKERS.iter().filter_map(|start| text.find(start)).min().unwrap_or(text.len());
    let marker = text[at..].split_inclusive(']').next().unwrap_or("[TRUNCATED]");
    (text[..at].matches('\n').count() + 1, if marker.is_empty() { "[TRUNCATED]" } else { marker }.to_owned())
}

impl Saver {
    /// Saves a program under a name, as a new capability or a new version of one.
    pub async fn save(&self, program: NewProgram, name: &CapabilityName, options: SaveOptions) -> Result<Saved, Error> {
        let draft = self.draft(program, name, options).await?;
        self.keep(draft).await
    }

    /// Makes a capability of a program, and stores nothing.
    pub async fn draft(
        &self,
        program: NewProgram,
        name: &CapabilityName,
        options: SaveOptions,
    ) -> Result<Draft, Error> {
        let NewProgram { code, args, result, intent, mut tools } = program;
        // How a task of a workflow is run is no tool of anybody.
        tools.remove(RUN_PROGRAM);
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
        refuse_recalls(&analysis)?;
        let tools = self.current_names(tools);
        if options.written == Written::ByHand {
            self.check_calls(&analysis, &tools)?;
        }
        let tools = self.saved_tools(&tools)?;
        self.check_cycles(name, &tools)?;
        let known = self.registry.named(&name.to_string()).filter(|known| known.name == *name);
        let intent = intent.map(|intent| short(&sanitizer.text(&intent))).filter(|intent| !intent.is_empty());
        // A program with other tools, for something else, is not what the earlier one was described as.
        let by_hand = options.written == Written::ByHand;
        let is_alike = |known: &Capability| {
            let names = |tools: &[SavedTool]| tools.iter().map(|saved| saved.tool.clone()).collect::<BTreeSet<_>>();
            by_hand
                || names(&known.notes.tools) == names(&tools)
                || intent.as_ref().is_some_and(|intent| known.notes.intents.contains(intent))
        };
        let described = known.as_ref().filter(|known| is_alike(known));
        let mut notes_to_saver = Vec::new();
        if let Some(known) = known.as_ref().filter(|known| !is_alike(known) && !known.description.is_empty()) {
            notes_to_saver.push(format!(
                "version {} of `{name}` used other tools, so its description and intents are not kept: {}",
                known.version,
                short(&known.description)
            ));
        }
        let mut intents = described.map(|known| known.notes.intents.clone()).unwrap_or_default();
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
        let given = options.description.map(|text| short(&text));
        if let Some(text) = &given {
            self.check_description(text)?;
        }
        let kept = described.map(|known| known.description.clone()).filter(|text| !text.is_empty());
        let description = given.or(kept).or(intent).unwrap_or_default();
        let parameters = parameters(&analysis, &args, &sanitizer);
        let visibility = options.visibility.or(known.is_none().then_some(Visibility::Private));
        let new = NewCapability {
            namespace: name.namespace.clone(),
            action: name.action.clone(),
            code: analysis.code.clone(),
            parameters: Some(write_schema(&parameters, &notes)),
            description: description.clone(),
            visibility,
            author: options.author.clone(),
        };
        let now = Timestamp(crate::clock::now_millis());
        let capability = Capability {
            id: known.as_ref().map_or_else(CapabilityId::mint, |known| known.id),
            name: name.clone(),
            fqdn: name.qualified().to_string().into(),
            version: known.as_ref().map_or(1, |known| known.version + 1),
            hash: String::new(),
            code: analysis.code.into(),
            parameters,
            notes,
            description,
            visibility: visibility.unwrap_or(Visibility::Private),
            author: options.author.unwrap_or_default(),
            created_at: now,
            updated_at: now,
            revision: 0,
            tag: String::new(),
            former: Vec::new(),
            stats: Default::default(),
        };
        Ok(Draft { capability, new, notes: notes_to_saver })
    }

    /// Stores a capability that was checked.
    pub async fn keep(&self, draft: Draft) -> Result<Saved, Error> {
        let Draft { capability: Capability { name, .. }, new, notes } = draft;
        // Somebody else may have saved under the name since the draft was made.
        let (stored, is_new, is_known) = match self.registry.put(new, Expected::Anything).await? {
            Put::Created(stored) => (stored, true, false),
            Put::NewVersion(stored) => (stored, false, false),
            Put::Known(stored) => (stored, false, true),
            Put::Taken | Put::Changed | Put::Forbidden => {
                return Err(refused(format!("`{name}` is the name of somebody else's capability")));
            }
        };
        let capability = Capability::of(&stored).ok_or_else(|| refused("what was stored cannot be read"))?;
        Ok(Saved { capability: Arc::new(capability), is_new, is_known, notes })
    }

    /// Refuses a description that holds what must not be kept.
    pub fn check_description(&self, text: &str) -> Result<(), Error> {
        let clean = Sanitizer::new(Arc::clone(&self.rules)).text(text).into_owned();
        match clean == text {
            true => Ok(()),
            false => {
                let (_, what) = first_marker(&clean);
                let message = format!("the description holds what looks like a secret or personal data: {what}");
                Err(refused(message).with_hint("describe the capability without it"))
            }
        }
    }

    /// Checks what somebody else wrote as a program that is saved is checked: secrets, and that it is a program.
    pub async fn check_file(&self, name: &CapabilityName, file: &CapabilityFile) -> Result<(), Error> {
        let of_it = |mut err: Error| {
            err.message = format!("capability `{name}`: {}", err.message);
            err
        };
        check_secrets(&Sanitizer::new(Arc::clone(&self.rules)), &file.code).map_err(of_it)?;
        for text in file.intents.iter().chain([&file.description, &file.parameters]) {
            self.check_description(text).map_err(of_it)?;
        }
        let analysis = analyse(&self.pool, &format!("{name}.ts"), &file.code).await;
        let analysis = analysis.map_err(|report| of_it(of_report(*report)))?;
        refuse_recalls(&analysis).map_err(of_it)
    }

    /// Refuses what is about to be stored if it would call itself, or if its parameters cannot be those of a tool.
    pub fn check_new(&self, name: &CapabilityName, new: &NewCapability) -> Result<(), Error> {
        let wrong = |why: String| refused(format!("capability `{name}`: its parameters are no JSON schema: {why}"));
        let (parameters, notes) =
            read_schema(new.parameters.as_deref()).ok_or_else(|| wrong("they cannot be read".to_owned()))?;
        check_parameters(&parameters).map_err(wrong)?;
        self.check_cycles(name, &notes.tools)
    }

    /// The same tools by the names that they have now.
    fn current_names(&self, tools: BTreeSet<String>) -> BTreeSet<String> {
        let snapshot = self.catalog.snapshot();
        let now = |tool: String| match tool.parse::<ToolId>().ok().filter(|id| id.server() == CAPABILITIES) {
            Some(id) => self.tool_now(&snapshot, &id).map_or(tool, |known| known.id.to_string()),
            None => tool,
        };
        tools.into_iter().map(now).collect()
    }

    /// Refuses a program that calls tools which it may not use.
    fn check_calls(&self, analysis: &Analysis, tools: &BTreeSet<String>) -> Result<(), Error> {
        let snapshot = self.catalog.snapshot();
        let canonical = |target: &str| {
            let id = target.parse::<ToolId>().ok()?;
            (id.server() != OWN)
                .then(|| self.tool_now(&snapshot, &id).map_or(id.to_string(), |known| known.id.to_string()))
        };
        let mut missing: Vec<(u32, String)> = Vec::new();
        for call in &analysis.calls {
            if let Some(tool) = canonical(&call.target).filter(|tool| !tools.contains(tool))
                && !missing.iter().any(|(_, known)| *known == tool)
            {
                missing.push((call.line, tool));
            }
        }
        let Some((line, tool)) = missing.first() else { return Ok(()) };
        let options: Vec<_> = missing.iter().map(|(_, tool)| format!("--tool {tool}")).collect();
        let message = format!("line {line}: the program calls `{tool}`, which is not among the tools that it may use");
        Err(refused(message).with_hint(format!("allow it with {}", options.join(" "))))
    }

    /// Refuses a capability that would call itself, directly or through others.
    pub fn check_cycles(&self, name: &CapabilityName, tools: &[SavedTool]) -> Result<(), Error> {
        match self.registry.cycle(name, tools) {
            None => Ok(()),
            Some(path) => {
                let message = format!("`{name}` would call itself: {}", path.join(" calls "));
                Err(Error::new(ErrorCode::CapabilityCycle, message))
            }
        }
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
        tools.iter().map(|tool| self.saved_tool(&snapshot, tool)).collect()
    }

    /// The tool that is known by a name, for a capability also by a name that it had before.
    fn tool_now(&self, snapshot: &Snapshot, id: &ToolId) -> Option<Arc<Tool>> {
        let former = || self.registry.former_tool(id.tool()).filter(|_| id.server() == CAPABILITIES);
        snapshot.tool(id).cloned().or_else(former)
    }

    fn saved_tool(&self, snapshot: &Snapshot, tool: &str) -> Result<SavedTool, Error> {
        let plain = || SavedTool { tool: tool.to_owned(), hash: String::new() };
        let Ok(id) = tool.parse::<ToolId>() else { return Ok(plain()) };
        let is_tool = !id.tool().starts_with("resource:") && !id.tool().starts_with("prompt:");
        if !is_tool || id.server() == OWN {
            return Ok(plain());
        }
        match self.tool_now(snapshot, &id) {
            // What is called later is the capability that is reviewed now, or a later version of it.
            Some(known) if id.server() == CAPABILITIES => {
                let hash = SavedProgram::of(&known).map(|program| program.identity).unwrap_or_default();
                Ok(SavedTool { tool: known.id.to_string(), hash })
            }
            Some(known) => Ok(SavedTool { tool: known.id.to_string(), hash: known.hash.clone() }),
            None if snapshot.server_name(id.server()).is_some_and(|name| snapshot.listing(name).is_none()) => {
                Ok(plain())
            }
            None => Err(refused(format!("the program calls `{id}`, which is not there any more"))
                .with_hint("`pml tools` lists the tools that there are")),
        }
    }
}

/// Can a schema be that of parameters?
fn check_parameters(schema: &Value) -> Result<(), String> {
    if schema["type"] != "object" {
        return Err(format!("`type` is {}, not \"object\"", schema["type"]));
    }
    let names = match schema.get("properties") {
        None => return Ok(()),
        Some(names) => names.as_object().ok_or("`properties` is no object")?,
    };
    if let Some((name, _)) = names.iter().find(|(_, schema)| !schema.is_object() && !schema.is_boolean()) {
        return Err(format!("`{name}` has no schema"));
    }
    // Each of them, with the default that a call without it gets.
    let raw = RawValue::from_string(json!({ "name": "x", "inputSchema": schema }).to_string());
    let tool = Tool::parse(CAPABILITIES, raw.map_err(|err| err.to_string())?)?;
    for (name, schema) in names {
        let Some(default) = schema.get("default") else { continue };
        if let Ok(Err(why)) = tool.check_some_arguments(&json!({ name: default }), Pace::Thorough) {
            return Err(format!("the default of `{name}` does not fit: {why}"));
        }
    }
    Ok(())
}

fn refuse_recalls(analysis: &Analysis) -> Result<(), Error> {
    let Some(line) = analysis.recalls.first() else { return Ok(()) };
    let message = format!("line {line}: the program reads a kept result, which is not there in later runs");
    Err(refused(message).with_hint("get the value by calling a tool, or take it from `args`"))
}

/// Refuses a program that holds what must not be kept.
fn check_secrets(sanitizer: &Sanitizer, code: &str) -> Result<(), Error> {
    for (index, line) in code.split('\n').enumerate() {
        let clean = sanitizer.whole_text(line);
        if *clean != *line {
            let (_, what) = first_marker(&clean);
            let message =
                format!("line {}: the program holds what looks like a secret or personal data: {what}", index + 1);
            return Err(refused(message).with_hint("pass it in `args`, or let the server have it from its environment"));
        }
    }
    // Some are only seen across lines.
    let clean = sanitizer.whole_text(code);
    if *clean != *code {
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
            // With its name, which may tell what it is.
            let text = json!({ name: value }).to_string();
            let is_clean = sanitizer.json(&text).is_some_and(|(clean, _)| *clean == *text);
            if text.len() <= MAX_EXAMPLE_BYTES && is_clean && !MARKERS.iter().any(|marker| text.contains(marker)) {
                schema["examples"] = json!([value]);
            }
            if !required.contains(name) && !analysis.optional.contains(name) {
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
            optional: vec!["page".to_owned()],
            parameters: vec![AnalysedParameter {
                name: "path".to_owned(),
                property: "path".to_owned(),
                value: json!("a.txt"),
                line: 1,
            }],
            arguments: ["limit", "other", "page", "to", "password"].map(str::to_owned).to_vec(),
            ..Analysis::default()
        };
        let sanitizer = Sanitizer::default();
        let args = json!({ "limit": 5, "unused": true, "page": 2, "to": "[EMAIL]", "password": "hunter22" });
        let schema = parameters(&analysis, &args, &sanitizer);
        let expected = json!({
            "type": "object",
            "properties": {
                "limit": { "type": "number", "examples": [5] },
                "other": {},
                "page": { "type": "number", "examples": [2] },
                "to": { "type": "string" },
                "password": { "type": "string" },
                "path": { "type": "string", "default": "a.txt" },
            },
            "required": ["limit", "to", "password"],
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
        let line = format!("return await mcp.fs.write({{ text: '{}' }})", "lorem ipsum dolor ".repeat(1000));
        assert!(check_secrets(&sanitizer, &line).is_ok(), "nor is a long line");
        let line = format!("{line} // {token}");
        assert!(check_secrets(&sanitizer, &line).is_err(), "what stands behind is seen");
    }

    #[test]
    fn what_was_taken_out_of_a_text_is_found() {
        assert_eq!(first_marker("a\nb [REDACTED:github-token] c"), (2, "[REDACTED:github-token]".to_owned()));
        assert_eq!(first_marker("a\nb\n[TRUNCATED]"), (3, "[TRUNCATED]".to_owned()));
    }
}
