//! `pml call`: one tool call from a shell.
//!
//! The call runs as a program of one line, so that it passes the same checks as the calls of agents and leaves the same
//! records: policy, rate limits, audit log and trace.

use std::process::ExitCode;

use pml_wire::{ErrorCode, ToolId, json as wire_json};
use serde_json::{Map, Value, json, value::to_raw_value};

use super::{
    USAGE, fail,
    run::{Presentation, execute},
};
use crate::{config::Config, error::Error, execution::Request};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pml call files:read_text_file path=notes.md\n  pml call github:list_issues owner=me repo=app per_page:=5\n  pml call time:get_current_time '{\"timezone\": \"UTC\"}' --json"
)]
pub(super) struct Args {
    /// The tool, server:tool
    tool: String,

    /// Its arguments: one JSON object, or name=text and name:=JSON
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,

    /// What the call is for, in its trace
    #[arg(long, value_name = "TEXT")]
    intent: Option<String>,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, config: Config) -> ExitCode {
    let request = match request(&args.tool, &args.arguments) {
        Ok(request) => request,
        Err(err) => return fail(&err, USAGE),
    };
    match execute(request, args.intent, &config, args.json, Presentation::Call).await {
        Ok(code) => code,
        Err(err) => fail(&err, USAGE),
    }
}

/// The program that makes the call. The comment names the server, which is started before the program runs; a name in the
/// code itself would be checked twice, and the first message would be about a line that nobody wrote.
fn request(tool: &str, arguments: &[String]) -> Result<Request, Error> {
    let wrong = |message: String| Error::new(ErrorCode::ConfigInvalid, message);
    let id: ToolId = tool.parse().map_err(|_| {
        let hint = "write server:tool; `pml tools` lists them, and `pml search` finds them by what they do";
        wrong(format!("`{tool}` is no name of a tool")).with_hint(hint)
    })?;
    let arguments = Value::Object(read_arguments(arguments).map_err(|message| {
        let hint = "write name=text, name:=JSON, or one object such as '{\"path\": \"notes.md\"}'";
        wrong(message).with_hint(hint)
    })?);
    let args = json!({ "server": id.server(), "tool": id.tool(), "arguments": arguments });
    let args = to_raw_value(&args).expect("a JSON value serializes");
    if wire_json::depth(args.get()) > wire_json::MAX_DEPTH {
        return Err(wrong("the arguments are nested too deep".to_owned()));
    }
    let is_plain = id.server().chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let named = if is_plain { format!("/* mcp.{} */ ", id.server()) } else { String::new() };
    let code = format!("{named}return await mcp[args.server][args.tool](args.arguments)");
    Ok(Request { name: "call.ts".to_owned(), args, follows_calls: true, ..Request::new(code) })
}

/// Reads one JSON object, or pairs.
fn read_arguments(words: &[String]) -> Result<Map<String, Value>, String> {
    if let [word] = words
        && word.trim_start().starts_with('{')
    {
        return serde_json::from_str(word).map_err(|err| format!("the arguments are not a JSON object: {err}"));
    }
    let mut arguments = Map::new();
    for word in words {
        let (name, text) = word.split_once('=').ok_or_else(|| format!("`{word}` is no argument"))?;
        let (name, value) = match name.strip_suffix(':') {
            Some(name) => {
                let value = serde_json::from_str(text).map_err(|err| format!("`{name}` is not JSON: {err}"))?;
                (name, value)
            }
            None => (name, Value::from(text)),
        };
        if name.is_empty() {
            return Err(format!("`{word}` has no name"));
        }
        if arguments.insert(name.to_owned(), value).is_some() {
            return Err(format!("`{name}` is given twice"));
        }
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object_or_pairs() {
        let table: [(&[&str], Result<Value, &str>); 13] = [
            (&[], Ok(json!({}))),
            (&[r#"{"a": 1}"#], Ok(json!({ "a": 1 }))),
            (&["a=1", "b:=1", "c:=[true]"], Ok(json!({ "a": "1", "b": 1, "c": [true] }))),
            (&["a="], Ok(json!({ "a": "" }))),
            (&["a=x=y"], Ok(json!({ "a": "x=y" }))),
            (&["a={}"], Ok(json!({ "a": "{}" }))),
            (&["a-b=1"], Ok(json!({ "a-b": "1" }))),
            (&["a"], Err("`a` is no argument")),
            (&["=x"], Err("`=x` has no name")),
            (&["a=1", "a=2"], Err("`a` is given twice")),
            (&["a:=x"], Err("`a` is not JSON")),
            (&["{"], Err("not a JSON object")),
            (&["[1]"], Err("`[1]` is no argument")),
        ];
        for (words, expected) in table {
            let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
            match (read_arguments(&words), expected) {
                (Ok(actual), Ok(expected)) => assert_eq!(Value::Object(actual), expected, "{words:?}"),
                (Err(actual), Err(expected)) => assert!(actual.contains(expected), "{words:?}: {actual}"),
                (actual, _) => panic!("{words:?}: {actual:?}"),
            }
        }
    }
}
