//! The entry for pml in a client's file.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::client::Client;

/// How a client reaches pml.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// It starts it.
    Command { command: String, args: Vec<String> },
    /// It is running somewhere.
    Http(String),
}

/// The entry, as the client writes it. `None` if it cannot be written so.
pub fn pml_entry(client: Client, how: &How) -> Option<Value> {
    Some(match (how, client) {
        (How::Command { command, args }, Client::Vscode | Client::Claude) => {
            json!({ "type": "stdio", "command": command, "args": args })
        }
        (How::Command { command, args }, Client::Zed) => {
            // Older versions want to know that it is not one of their extensions.
            json!({ "source": "custom", "command": command, "args": args })
        }
        (How::Command { command, args }, _) => json!({ "command": command, "args": args }),
        (How::Http(url), Client::Claude) => json!({ "type": "http", "url": url, "headers": bearer("${PML_TOKEN}") }),
        (How::Http(url), Client::Vscode) => {
            json!({ "type": "http", "url": url, "headers": bearer("${env:PML_TOKEN}") })
        }
        (How::Http(url), Client::Windsurf) => json!({ "serverUrl": url, "headers": bearer("${env:PML_TOKEN}") }),
        (How::Http(url), Client::Cursor) => json!({ "url": url, "headers": bearer("${env:PML_TOKEN}") }),
        (How::Http(url), Client::Codex) => json!({ "url": url, "bearer_token_env_var": "PML_TOKEN" }),
        // It knows no variables, and a token is not written where it was not asked for.
        (How::Http(url), Client::Zed) => json!({ "url": url }),
        // Its file knows commands only.
        (How::Http(_), Client::ClaudeDesktop) => return None,
    })
}

fn bearer(variable: &str) -> Value {
    json!({ "Authorization": format!("Bearer {variable}") })
}

/// Does an entry name a token, whatever it is?
pub fn names_token(entry: &Value) -> bool {
    let in_headers = |key: &str| {
        let headers = entry.get(key).and_then(Value::as_object);
        headers.is_some_and(|headers| headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")))
    };
    ["headers", "http_headers", "env_http_headers"].into_iter().any(in_headers)
        || entry.get("bearer_token_env_var").is_some()
}

/// A new entry with what the user has added to the old one.
pub fn with_rest(mut entry: Value, old: &Value) -> Value {
    let mut own = vec!["args", "command", "httpUrl", "serverUrl", "source", "transport", "type", "url"];
    let token = ["bearer_token_env_var", "env_http_headers", "headers", "http_headers"];
    let keeps_token = names_token(old);
    let (Some(fields), Some(old)) = (entry.as_object_mut(), old.as_object()) else { return entry };
    if fields.contains_key("command") {
        // What is started is not asked for a token.
        own.extend(token);
    } else if keeps_token {
        token.iter().for_each(|key| drop(fields.remove(*key)));
    }
    for (key, value) in old.iter().filter(|(key, _)| !own.contains(&key.as_str())) {
        match (fields.get_mut(key).and_then(Value::as_object_mut), value.as_object()) {
            (Some(new), Some(old)) => new.extend(old.clone()),
            _ => drop(fields.insert(key.clone(), value.clone())),
        }
    }
    entry
}

/// Is an entry pml itself? What it starts, or where it is.
pub fn is_pml(name: &str, value: &Value) -> Option<How> {
    let object = value.as_object()?;
    let (command, args) = command_of(object);
    if let Some(command) = command {
        let file = Path::new(command).file_name()?.to_str()?;
        let is_serve = args.iter().any(|arg| arg == "serve");
        return (file == "pml" && is_serve).then(|| How::Command { command: command.to_owned(), args });
    }
    let url = ["url", "serverUrl", "httpUrl"].iter().find_map(|key| object.get(*key)?.as_str())?;
    let host = url.split_once("://")?.1.split(['/', '?']).next()?.rsplit('@').next()?;
    let is_local = ["127.0.0.1", "localhost", "[::1]"].iter().any(|local| host.starts_with(local));
    // An address says nothing about what is there; by name and on this machine it is taken for pml.
    (name == "pml" && is_local).then(|| How::Http(url.to_owned()))
}

/// The command and the arguments, also in the older form in which the command is an object.
fn command_of(object: &Map<String, Value>) -> (Option<&str>, Vec<String>) {
    let command = object.get("command");
    let inner = command.and_then(Value::as_object).unwrap_or(object);
    let command = command.and_then(|command| command.as_str().or_else(|| inner.get("path")?.as_str()));
    let args = inner.get("args").and_then(Value::as_array).into_iter().flatten();
    (command, args.filter_map(|arg| arg.as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pml_knows_itself_in_every_form() {
        for client in Client::ALL {
            let how = How::Command { command: "/opt/pml".to_owned(), args: vec!["serve".to_owned()] };
            assert_eq!(is_pml("x", &pml_entry(client, &how).unwrap()), Some(how), "{client}");
            let how = How::Http("http://127.0.0.1:7/mcp".to_owned());
            if let Some(entry) = pml_entry(client, &how) {
                assert_eq!(is_pml("pml", &entry), Some(how), "{client}");
                assert_eq!(is_pml("other", &entry), None, "{client}");
            }
        }
        let table = [
            (json!({"command": "pml", "args": ["--config", "x", "serve"]}), true),
            (json!({"command": {"path": "pml", "args": ["serve"]}}), true),
            (json!({"command": "pml", "args": ["run"]}), false),
            (json!({"command": "npx", "args": ["serve"]}), false),
            (json!({"url": "https://example.org/mcp"}), false),
            (json!(5), false),
        ];
        for (entry, expected) in table {
            assert_eq!(is_pml("pml", &entry).is_some(), expected, "{entry}");
        }
    }

    #[test]
    fn what_a_user_added_stays_and_a_token_is_named_once() {
        let http = |client| pml_entry(client, &How::Http("http://localhost/mcp".to_owned())).unwrap();
        let ours = json!({"Authorization": "Bearer ${env:PML_TOKEN}"});
        #[rustfmt::skip]
        let table = [
            (http(Client::Cursor), json!({"url": "x"}), json!({"url": "http://localhost/mcp", "headers": ours})),
            (http(Client::Cursor), json!({"url": "x", "headers": {"X": "y"}, "disabled": true}),
                json!({"url": "http://localhost/mcp", "headers": {"Authorization": "Bearer ${env:PML_TOKEN}", "X": "y"}, "disabled": true})),
            (http(Client::Cursor), json!({"url": "x", "headers": {"authorization": "mine"}}),
                json!({"url": "http://localhost/mcp", "headers": {"authorization": "mine"}})),
            (http(Client::Codex), json!({"url": "x", "http_headers": {"Authorization": "mine"}}),
                json!({"url": "http://localhost/mcp", "http_headers": {"Authorization": "mine"}})),
            (json!({"command": "pml", "args": ["serve"]}), json!({"url": "x", "headers": ours, "env": {"A": "b"}}),
                json!({"command": "pml", "args": ["serve"], "env": {"A": "b"}})),
        ];
        for (entry, old, expected) in table {
            assert_eq!(with_rest(entry, &old), expected, "{old}");
        }
        for client in Client::ALL.into_iter().filter(|client| !matches!(client, Client::ClaudeDesktop | Client::Zed)) {
            assert!(names_token(&http(client)), "{client}");
        }
    }
}
