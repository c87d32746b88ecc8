//! Lists of tools as published servers have them, and a server for each.

use std::{
    fs,
    io::{self, BufRead, Write},
    path::Path,
    process::ExitCode,
};

use serde_json::{Value, json};

/// How many tools servers have: a few have many, as it is with published ones.
const SIZES: [usize; 10] = [6, 12, 3, 24, 9, 60, 2, 18, 33, 8];

#[rustfmt::skip]
const SERVICES: [&str; 38] = [
    "issues", "mail", "calendar", "files", "wiki", "chat", "billing", "crm", "deploy", "metrics", "logs", "traces",
    "database", "warehouse", "queue", "cache", "storage", "dns", "identity", "secrets", "tickets", "surveys", "maps",
    "weather", "search", "browser", "documents", "sheets", "slides", "design", "video", "music", "images", "forms",
    "contacts", "inventory", "shipping", "payroll",
];
const VERBS: [&str; 8] = ["list", "get", "create", "update", "delete", "search", "archive", "export"];
#[rustfmt::skip]
const NOUNS: [&str; 8] = ["item", "project", "comment", "member", "label", "attachment", "report", "webhook"];

/// A server's name and its tools.
pub(crate) type Listed = (String, Vec<Value>);

/// Made up, but as long as the real ones: a sentence or three, and two to seven arguments.
pub(crate) fn made_up() -> Vec<Listed> {
    let server = |(number, service): (usize, &&str)| {
        let count = SIZES[number % SIZES.len()];
        (service.to_string(), (0..count).map(|index| tool(service, index)).collect())
    };
    SERVICES.iter().enumerate().map(server).collect()
}

/// The `tools` of all JSON files in a folder, each named after its server.
pub(crate) fn from_folder(folder: &Path) -> Vec<Listed> {
    let mut files: Vec<_> = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    let read = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).expect("a file");
        let listed: Value = serde_json::from_str(&text).expect("JSON");
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        (name, listed["tools"].as_array().expect("a list of tools").clone())
    };
    files.iter().map(read).collect()
}

fn tool(service: &str, index: usize) -> Value {
    let (verb, noun) = (VERBS[index % 8], NOUNS[(index / 8 + index) % 8]);
    let mut description = format!("{} {noun}s of {service}.", capital(verb));
    if index.is_multiple_of(2) {
        description +=
            &format!(" Use this when the user asks about a {noun} by its name or id, not for whole projects.");
    }
    if index.is_multiple_of(3) {
        description += "\n\nReturns at most 100 entries; pass the cursor of the last answer to get the next page. \
            Fails if the caller lacks the permission to read the project, or if the id is unknown.";
    }
    let text = |what: &str| json!({ "type": "string", "description": what });
    let arguments = [
        (format!("{noun}_id"), text(&format!("The id of the {noun}, as returned by list_{noun}s"))),
        ("project".to_owned(), text("The project that it belongs to, such as `acme/website`")),
        (
            "limit".to_owned(),
            json!({ "type": "integer", "minimum": 1, "maximum": 100, "default": 30, "description": "Most entries to return" }),
        ),
        ("cursor".to_owned(), text("Where to go on, from the last answer")),
        (
            "state".to_owned(),
            json!({ "type": "string", "enum": ["open", "closed", "all"], "description": "Only those in this state" }),
        ),
        (
            "labels".to_owned(),
            json!({ "type": "array", "items": { "type": "string" }, "description": "Only those that have all of these labels" }),
        ),
        (
            "since".to_owned(),
            json!({ "type": "string", "format": "date-time", "description": "Only those that were changed after this time, in ISO 8601" }),
        ),
    ];
    let count = 2 + index % 6;
    let properties: serde_json::Map<_, _> = arguments.into_iter().take(count).collect();
    json!({
        "name": format!("{verb}_{noun}_{index}"),
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": [format!("{noun}_id")],
            "additionalProperties": false,
        },
    })
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    format!("{}{rest}", first.to_ascii_uppercase())
}

/// Is a server with the tools of a file, until its input ends.
pub(crate) fn serve(file: &str) -> ExitCode {
    let text = fs::read_to_string(file).expect("a file");
    let tools: Value = serde_json::from_str(&text).expect("JSON");
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).expect("JSON");
        let Some(id) = message.get("id") else { continue };
        let mut answer = json!({ "jsonrpc": "2.0", "id": id });
        match message["method"].as_str() {
            Some("initialize") => {
                answer["result"] = json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "catalogue", "version": "1" },
                });
            }
            Some("tools/list") => answer["result"] = json!({ "tools": tools }),
            Some("ping") => answer["result"] = json!({}),
            _ => answer["error"] = json!({ "code": -32601, "message": "unknown method" }),
        }
        if writeln!(io::stdout(), "{answer}").is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}
