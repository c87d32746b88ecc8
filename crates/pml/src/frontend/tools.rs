//! The tools that pml itself offers: what a client is told of them, and their arguments.
//!
//! Plain schemas, since clients drop tools whose schemas they do not understand: an object, no
//! `$schema`, nothing combined at the root. Names and texts are short: every client pays for them in
//! every conversation.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::broker::whole;

pub(super) const SEARCH: &str = "search_tools";
pub(super) const EXECUTE: &str = "execute_code";
pub(super) const READ: &str = "read_result";
pub(super) const WORKFLOW: &str = "execute_workflow";
pub(super) const NAMES: [&str; 4] = [EXECUTE, WORKFLOW, READ, SEARCH];

/// Is this the name of one of them?
pub(super) fn is_own(name: &str) -> bool {
    NAMES.contains(&name)
}

/// All of them, sorted by name.
pub(super) fn all() -> Vec<Value> {
    vec![
        json!({
            "name": EXECUTE,
            "title": "Run TypeScript that calls tools",
            "description": "Runs a TypeScript program that calls the tools of the connected MCP servers. Only what it \
                returns (and prints) comes back, so filter, join and loop in the program.\n\
                - `await mcp.server.tool({...})` gives the tool's value, or throws a ToolError (code, message, tool, \
                retryable). Find names and arguments with search_tools first. Text that is a JSON object or array arrives \
                parsed; String(value) is its text.\n\
                - Top-level await; `return value`, or end with an expression. Values are JSON; a returned image is \
                shown as an image.\n\
                - `import { callTool, callToolsBatch, progress, searchTools } from \"pml\"`: callTool(\"server:tool\", {...}) \
                gives {success, result?, error?} and does not throw. Also listResources(server?), readResource(uri or link), \
                getPrompt(server, name, args).\n\
                - Independent calls: Promise.all. There is no fetch, file system or process; state does not outlive \
                the run, but `await pml.result(\"r_…\")` gives a long result of an earlier run, to filter or pass on.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "code": { "type": "string", "description": "TypeScript" },
                    "args": {
                        "type": "object",
                        "additionalProperties": true,
                        "description": "Value of the global `args`",
                    },
                    "intent": { "type": "string", "description": "What this is for, in one sentence" },
                    "save_as": { "type": "string", "description": "namespace.action: if it succeeds, keep it as mcp.capabilities.namespace_action(args)" },
                    "timeout_ms": { "type": "number", "description": "Time to compute, if not the usual; waiting for tools is not counted" },
                },
                "required": ["code"],
                "additionalProperties": false,
            },
            "annotations": { "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true },
            "_meta": hints("run code call MCP tools automate batch"),
        }),
        json!({
            "name": WORKFLOW,
            "title": "Run a graph of tool calls",
            "description": "Runs tasks that depend on each other, in parallel where they do not; all is checked before anything \
                runs, and a failing task fails only those that need it. \"$OUTPUT[id].path\" as an argument is the value of an \
                earlier task; inside a text write ${$OUTPUT[id].path}. In forEach tasks $ITEM and $INDEX. With an intent alone \
                it suggests a capability or a plan to accept.",
            "inputSchema": crate::workflow::ask_schema(),
            "annotations": { "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true },
            "_meta": hints("workflow graph plan intent parallel tasks"),
        }),
        json!({
            "name": READ,
            "title": "Read more of a long result",
            "description": "Reads on in a result that was too long to be shown whole. To work on it, run a program with \
                `await pml.result(id)` instead.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "id": { "type": "string", "description": "As named in the answer that was cut" },
                    "offset": { "type": "number", "description": "Byte to start at; default 0" },
                    "path": { "type": "string", "description": "Only this part, such as items[3].name" },
                },
                "required": ["id"],
                "additionalProperties": false,
            },
            "annotations": { "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false },
            "_meta": hints("page long output"),
        }),
        json!({
            "name": SEARCH,
            "title": "Find tools",
            "description": "Finds tools of the connected MCP servers by what they do. Gives TypeScript signatures, ready \
                to be called in execute_code. An empty query lists the servers.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "query": { "type": "string", "description": "What the tool should do, in plain words" },
                    "limit": { "type": "number", "description": "1 to 50; default 10" },
                    "threshold": { "type": "number", "description": "Least score, 0 to 1; default 0.12" },
                    "detail": {
                        "type": "string",
                        "enum": ["names", "signatures", "full"],
                        "description": "Default: signatures with short descriptions. full: with JSON schemas",
                    },
                    "server": { "type": "string", "description": "Only this server's" },
                },
                "required": ["query"],
                "additionalProperties": false,
            },
            "annotations": { "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false },
            "_meta": hints("find discover MCP tools servers"),
        }),
    ]
}

/// For clients that show tools only when they are searched for: these are always needed.
fn hints(words: &str) -> Value {
    json!({ "anthropic/alwaysLoad": true, "anthropic/searchHint": words })
}

/// The arguments of `execute_code`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Execute {
    pub(super) code: String,
    #[serde(default)]
    pub(super) args: Value,
    #[serde(default)]
    pub(super) intent: Option<String>,
    #[serde(default)]
    pub(super) save_as: Option<String>,
    #[serde(default)]
    timeout_ms: Option<f64>,
}

/// The arguments of `read_result`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    pub(super) id: String,
    #[serde(default)]
    offset: Option<f64>,
    #[serde(default)]
    pub(super) path: Option<String>,
}

/// The arguments of `search_tools`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    pub(super) query: String,
    #[serde(default)]
    pub(super) limit: Option<f64>,
    #[serde(default)]
    pub(super) threshold: Option<f64>,
    #[serde(default)]
    pub(super) detail: Detail,
    #[serde(default)]
    pub(super) server: Option<String>,
}

/// How much is told of each tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Detail {
    Names,
    #[default]
    Signatures,
    Full,
}

impl Execute {
    /// A program with nothing in `args`.
    pub(super) fn new(code: String) -> Execute {
        Execute { code, args: Value::Null, intent: None, save_as: None, timeout_ms: None }
    }

    pub(super) fn timeout_ms(&self) -> Result<Option<u64>, String> {
        whole("timeout_ms", self.timeout_ms, 1, 86_400_000)
    }
}

impl Read {
    pub(super) fn offset(&self) -> Result<usize, String> {
        Ok(whole("offset", self.offset, 0, u64::from(u32::MAX))?.unwrap_or(0) as usize)
    }
}

/// Reads the arguments of a call, or says what is wrong with them.
pub(super) fn parse<T: DeserializeOwned>(tool: &str, arguments: Map<String, Value>) -> Result<T, String> {
    T::deserialize(Value::Object(arguments)).map_err(|err| format!("the arguments of `{tool}` are wrong: {err}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_sorted_and_plain() {
        let tools = all();
        assert!(tools.is_sorted_by_key(|tool| tool["name"].as_str().unwrap().to_owned()));
        for tool in tools {
            let schema = tool["inputSchema"].as_object().unwrap();
            assert_eq!(schema["type"], "object");
            let plain = ["type", "properties", "required", "additionalProperties"];
            assert!(schema.keys().all(|key| plain.contains(&key.as_str())), "{schema:?}");
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        let read = |json: Value| -> Result<usize, String> {
            let Value::Object(arguments) = json else { panic!("no object") };
            parse::<Read>(READ, arguments)?.offset()
        };
        assert_eq!(read(json!({ "id": "x" })), Ok(0));
        assert_eq!(read(json!({ "id": "x", "offset": 5.0 })), Ok(5));
        for (arguments, part) in [
            (json!({}), "missing field `id`"),
            (json!({ "id": 5 }), "expected a string"),
            (json!({ "id": "x", "offsets": 5 }), "unknown field `offsets`"),
            (json!({ "id": "x", "offset": -1 }), "between 0 and"),
            (json!({ "id": "x", "offset": 1.5 }), "a whole number"),
        ] {
            let message = read(arguments).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }
}
