//! The servers of the demonstration: real MCP servers over stdio, in processes of their own.
//!
//! `files` reads a folder, `notes` remembers, `clock` tells the time. They are small and plain on
//! purpose, and use nothing of pml's client: what they show is what any server would.

use std::{
    ffi::OsString,
    fs,
    io::{self, BufRead, Write},
    path::{Component, Path, PathBuf},
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

/// First argument of such a server.
pub const DEMO_SERVER: &str = "demo-server";

/// Speaks MCP on standard input and output until input ends. `args`: which server, and its folder.
pub fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let which = args.next().and_then(|which| which.into_string().ok());
    let folder = args.next().map(PathBuf::from).unwrap_or_default();
    let mut server = match which.as_deref() {
        Some("files") => Server::Files(folder),
        Some("notes") => Server::Notes(Vec::new()),
        Some("clock") => Server::Clock,
        _ => return ExitCode::from(2),
    };
    match speak(&mut server) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

enum Server {
    Files(PathBuf),
    Notes(Vec<String>),
    Clock,
}

fn speak(server: &mut Server) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else { continue };
        let answer = match server.answer(method, &message["params"]) {
            Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            None => json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "unknown method" } }),
        };
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
    }
    Ok(())
}

impl Server {
    fn answer(&mut self, method: &str, params: &Value) -> Option<Value> {
        let info = json!({ "name": "pml-demo", "version": env!("CARGO_PKG_VERSION") });
        Some(match method {
            "server/discover" => json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": {} },
                "_meta": { "io.modelcontextprotocol/serverInfo": info },
            }),
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": info,
            }),
            "ping" => json!({}),
            "tools/list" => json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": self.tools(),
            }),
            "tools/call" => {
                let name = params["name"].as_str().unwrap_or_default();
                match self.call(name, &params["arguments"]) {
                    Ok(value) => {
                        let content = json!([{ "type": "text", "text": value.to_string() }]);
                        json!({ "resultType": "complete", "content": content, "structuredContent": { "result": value } })
                    }
                    Err(message) => {
                        let content = json!([{ "type": "text", "text": message }]);
                        json!({ "resultType": "complete", "content": content, "isError": true })
                    }
                }
            }
            _ => return None,
        })
    }

    fn tools(&self) -> Vec<Value> {
        let text = |description: &str| json!({ "type": "string", "description": description });
        let texts = json!({ "type": "array", "items": { "type": "string" } });
        match self {
            Server::Files(_) => vec![
                tool("list_files", "List the files of the folder.", &[], texts.clone()),
                tool(
                    "read_file",
                    "Read a file.",
                    &[("path", text("A name from list_files."))],
                    json!({ "type": "string" }),
                ),
                tool(
                    "search_files",
                    "Find the files that contain a text.",
                    &[("text", text("What to look for."))],
                    texts,
                ),
            ],
            Server::Notes(_) => vec![
                tool(
                    "add_note",
                    "Remember a note.",
                    &[("text", text("What to remember."))],
                    json!({ "type": "integer" }),
                ),
                tool("list_notes", "List all notes, in order.", &[], texts),
            ],
            Server::Clock => vec![tool("now", "The time, in seconds since 1970.", &[], json!({ "type": "integer" }))],
        }
    }

    fn call(&mut self, name: &str, args: &Value) -> Result<Value, String> {
        let text = |key: &str| args[key].as_str().map(str::to_owned).ok_or_else(|| format!("`{key}` is missing"));
        match (self, name) {
            (Server::Files(folder), "list_files") => Ok(list(folder)?.into()),
            (Server::Files(folder), "read_file") => Ok(read(folder, &text("path")?)?.into()),
            (Server::Files(folder), "search_files") => {
                let wanted = text("text")?;
                let mut found = Vec::new();
                for name in list(folder)? {
                    if read(folder, &name)?.contains(&wanted) {
                        found.push(name);
                    }
                }
                Ok(found.into())
            }
            (Server::Notes(notes), "add_note") => {
                notes.push(text("text")?);
                Ok(notes.len().into())
            }
            (Server::Notes(notes), "list_notes") => Ok(notes.clone().into()),
            (Server::Clock, "now") => {
                Ok(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().into())
            }
            (_, name) => Err(format!("there is no tool `{name}`")),
        }
    }
}

/// A tool whose arguments are all needed, and whose result is wrapped as the protocol wants.
fn tool(name: &str, description: &str, arguments: &[(&str, Value)], result: Value) -> Value {
    let properties: serde_json::Map<_, _> =
        arguments.iter().map(|(key, schema)| ((*key).to_owned(), schema.clone())).collect();
    let required: Vec<_> = arguments.iter().map(|(key, _)| *key).collect();
    json!({
        "name": name,
        "description": description,
        "inputSchema": { "type": "object", "properties": properties, "required": required, "additionalProperties": false },
        "outputSchema": { "type": "object", "properties": { "result": result }, "required": ["result"] },
    })
}

fn list(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|err| err.to_string())?;
    let mut names: Vec<_> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

fn read(folder: &Path, name: &str) -> Result<String, String> {
    let is_plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain {
        return Err(format!("`{name}` is not in the folder"));
    }
    fs::read_to_string(folder.join(name)).map_err(|err| format!("`{name}` cannot be read: {err}"))
}
