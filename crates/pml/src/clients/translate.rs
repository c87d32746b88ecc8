//! A client's entry for a server, in pml's words.
//!
//! What pml has no word for is either said ([`Translated::notes`]) or, where the server could not
//! work without it, the reason why there is no translation. Neither ever shows a value.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use toml_edit::{Array, InlineTable, Table, value};

use super::{Client, Source, files};
use crate::config::{CLIENTS_OWN_KEYS, Kind, OAuthFile, Places, ServerFile};

/// A server in pml's words.
#[derive(Clone, Debug)]
pub struct Translated {
    pub server: ServerFile,
    /// What is different from before, or has to be done, by key.
    pub notes: Vec<String>,
}

/// Translates an entry. The error is the reason why it cannot be.
pub fn translate(client: Client, entry: &Value, source: &Source, places: &Places) -> Result<Translated, String> {
    let Value::Object(entry) = entry else { return Err("it is no object".to_owned()) };
    let mut translation = Translation {
        client,
        project: source.project.as_deref(),
        home: places.home.as_deref(),
        server: ServerFile::default(),
        notes: Vec::new(),
        env_file: None,
    };
    if client == Client::Zed && entry.get("source").and_then(Value::as_str) == Some("extension") {
        return Err("it is part of a Zed extension, which only Zed can start".to_owned());
    }
    for (key, value) in entry.iter().filter(|(_, value)| !value.is_null()) {
        translation.key(key, value)?;
    }
    translation.finish()
}

struct Translation<'a> {
    client: Client,
    project: Option<&'a Path>,
    home: Option<&'a Path>,
    server: ServerFile,
    notes: Vec<String>,
    env_file: Option<String>,
}

impl Translation<'_> {
    fn key(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let wrong = |what: &str| format!("its `{key}` must be {what}");
        let flag = || value.as_bool().ok_or_else(|| wrong("true or false"));
        match key {
            "command" => match value {
                // An older form of Zed's.
                Value::Object(inner) => {
                    for (key, value) in inner.iter().filter(|(_, value)| !value.is_null()) {
                        match key.as_str() {
                            "path" => self.key("command", value)?,
                            "args" | "env" => self.key(key, value)?,
                            _ => self.notes.push(format!("`command.{key}` is unknown, and left out")),
                        }
                    }
                }
                _ => self.server.command = Some(self.text(key, None, value)?),
            },
            "url" | "serverUrl" | "httpUrl" => self.server.url = Some(self.text(key, None, value)?),
            "cwd" => self.server.cwd = Some(self.text(key, None, value)?),
            "args" => {
                let args = value.as_array().ok_or_else(|| wrong("a list of texts"))?;
                self.server.args = args.iter().map(|arg| self.text(key, None, arg)).collect::<Result<_, _>>()?;
            }
            "env" => {
                let texts = self.texts(key, value)?;
                self.server.env.extend(texts);
            }
            "headers" | "http_headers" => {
                let texts = self.texts(key, value)?;
                self.server.headers.extend(texts);
            }
            "requestInit" => {
                if let Some(headers) = value.get("headers") {
                    let texts = self.texts("headers", headers)?;
                    self.server.headers.extend(texts);
                }
            }
            "env_vars" => {
                for variable in value.as_array().ok_or_else(|| wrong("a list of names"))? {
                    let name = variable.as_str().or_else(|| variable.get("name")?.as_str());
                    let name = name.ok_or_else(|| wrong("a list of names"))?;
                    self.server.env.entry(name.to_owned()).or_insert_with(|| format!("${{{name}}}"));
                }
            }
            "bearer_token_env_var" => {
                let name = value.as_str().ok_or_else(|| wrong("the name of a variable"))?;
                self.server.headers.insert("Authorization".to_owned(), format!("Bearer ${{{name}}}"));
            }
            "env_http_headers" => {
                for (header, name) in value.as_object().ok_or_else(|| wrong("an object of names"))? {
                    let name = name.as_str().ok_or_else(|| wrong("an object of names"))?;
                    self.server.headers.insert(header.clone(), format!("${{{name}}}"));
                }
            }
            "type" | "transport" => match value.as_str().unwrap_or_default() {
                "ws" | "websocket" => return Err("it is reached by WebSocket, which pml does not speak".to_owned()),
                "sdk" => return Err("it runs inside the client".to_owned()),
                text => {
                    let kind = serde_json::from_value::<Kind>(text.into());
                    self.server.kind = Some(kind.map_err(|_| wrong("`stdio`, `http` or `sse`"))?);
                }
            },
            "envFile" => self.env_file = Some(self.text(key, None, value)?),
            "disabled" => self.enable(!flag()?),
            "enabled" => self.enable(flag()?),
            "timeout" if self.client != Client::Zed => {
                self.timeout(value.as_u64().filter(|millis| *millis > 0).ok_or_else(|| wrong("a number"))?);
            }
            "tool_timeout_sec" => self.timeout(millis(value).ok_or_else(|| wrong("a number of seconds"))?),
            "startup_timeout_sec" => {
                self.server.start_timeout_ms = Some(millis(value).ok_or_else(|| wrong("a number of seconds"))?);
            }
            "startup_timeout_ms" => self.server.start_timeout_ms = value.as_u64(),
            "excludeTools" | "disabledTools" | "disabled_tools" => {
                let tools = value.as_array().ok_or_else(|| wrong("a list of texts"))?;
                let tools: Option<Vec<_>> = tools.iter().map(|tool| tool.as_str().map(str::to_owned)).collect();
                self.server.disabled_tools.extend(tools.ok_or_else(|| wrong("a list of texts"))?);
            }
            "includeTools" | "enabledTools" | "enabled_tools" => self.notes.push(format!(
                "`{key}` is left out: in pml ALL tools of this server may be called; [policy] can forbid some"
            )),
            "headersHelper" => {
                return Err("its `headersHelper` makes headers with a command, which pml cannot do".to_owned());
            }
            "oauth" => self.oauth(value.as_object().ok_or_else(|| wrong("an object"))?)?,
            "scopes" if self.client == Client::Codex => {
                let scopes = value.as_array().and_then(|list| list.iter().map(|scope| scope.as_str().map(str::to_owned)).collect());
                self.server.oauth.get_or_insert_default().scopes = scopes.ok_or_else(|| wrong("a list of texts"))?;
            }
            "auth" | "oauth_resource" | "authProviderType" => self.notes.push(format!(
                "`{key}` is left out: pml has logins of its own (`pml server login`; what it cannot find out goes into `oauth`)"
            )),
            _ if CLIENTS_OWN_KEYS.contains(&key) => {}
            _ => self.notes.push(format!("`{}` is unknown, and left out", key.escape_debug())),
        }
        Ok(())
    }

    /// How the client logs in there, as far as its file tells.
    fn oauth(&mut self, table: &Map<String, Value>) -> Result<(), String> {
        for (key, value) in table.iter().filter(|(_, value)| !value.is_null()) {
            let wrong = |what: &str| format!("its `oauth.{key}` must be {what}");
            let oauth = &mut self.server.oauth;
            match key.as_str() {
                "clientId" => {
                    let id = value.as_str().ok_or_else(|| wrong("a text"))?;
                    oauth.get_or_insert_default().client_id = Some(id.to_owned());
                    let note = "`oauth.clientId`: log in with `pml server login`; a secret that goes with it is not in the file";
                    self.notes.push(note.to_owned());
                }
                "callbackPort" => {
                    let port = value.as_u64().ok_or_else(|| wrong("a number"))?;
                    oauth.get_or_insert_default().callback_port = Some(port);
                }
                _ => self.notes.push(format!("`oauth.{}` is unknown, and left out", key.escape_debug())),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Translated, String> {
        if let Some(path) = self.env_file.take() {
            self.read_env_file(&path)?;
        }
        let server = &mut self.server;
        match (&server.command, &server.url) {
            (None, None) => return Err("it has neither a command nor an address".to_owned()),
            (Some(_), Some(_)) => return Err("it has both a command and an address".to_owned()),
            (Some(command), None) if command.trim().is_empty() => return Err("its `command` is empty".to_owned()),
            (Some(_), None) if !matches!(server.kind, None | Some(Kind::Stdio)) => {
                return Err("it has a command, but its `type` is another".to_owned());
            }
            (None, Some(_)) if server.kind == Some(Kind::Stdio) => {
                return Err("it has an address, but its `type` is stdio".to_owned());
            }
            _ => {}
        }
        // It says nothing that the command does not say.
        if server.kind == Some(Kind::Stdio) {
            server.kind = None;
        }
        if server.command.is_some() && !server.headers.is_empty() {
            server.headers.clear();
            self.notes.push("`headers` are left out: they are for addresses".to_owned());
        }
        // A client may write it for its own sake, also where it is of no use.
        let has_token = server.headers.keys().any(|header| header.eq_ignore_ascii_case("authorization"));
        server.oauth = server.oauth.take().filter(|_| server.url.is_some() && !has_token);
        if server.url.is_some() && !(server.env.is_empty() && server.args.is_empty()) {
            server.env.clear();
            server.args.clear();
            self.notes.push("`env` and `args` are left out: they are for commands".to_owned());
        }
        // Where pml is started is not where the client would have started it.
        if let Some(project) = self.project {
            let absolute = |path: &str| project.join(path).to_string_lossy().into_owned();
            if let Some(cwd) = server.cwd.as_mut().filter(|cwd| !cwd.starts_with(['/', '$', '~'])) {
                *cwd = absolute(cwd);
            }
            if let Some(command) = server.command.as_mut()
                && (command.starts_with("./") || command.starts_with("../"))
                && server.cwd.is_none()
            {
                *command = absolute(command.trim_start_matches("./"));
                self.notes.push("`command` is now a whole path".to_owned());
            }
        }
        Ok(Translated { server: self.server, notes: self.notes })
    }

    fn enable(&mut self, is_enabled: bool) {
        if !is_enabled {
            self.server.enabled = Some(false);
            self.notes.push("it is switched off there, and so it is here (`enabled = false`)".to_owned());
        }
    }

    fn timeout(&mut self, millis: u64) {
        self.server.set_call_timeout(millis);
    }

    fn texts(&mut self, key: &str, value: &Value) -> Result<BTreeMap<String, String>, String> {
        let object = value.as_object().ok_or_else(|| format!("its `{key}` must be an object of texts"))?;
        object.iter().map(|(name, value)| Ok((name.clone(), self.text(key, Some(name), value)?))).collect()
    }

    /// A text with the variables that pml knows. `name` is what it is called inside of `key`.
    fn text(&mut self, key: &str, name: Option<&str>, value: &Value) -> Result<String, String> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return Err(format!("its `{key}` must be text")),
        };
        let place = match name {
            Some(name) => format!("`{key}.{}`", name.escape_debug()),
            None => format!("`{key}`"),
        };
        if text.contains('\0') || name.is_some_and(|name| name.contains('\0')) {
            return Err(format!("{place} has a NUL character in it"));
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(start) = rest.find("${") {
            let Some(length) = rest[start..].find('}') else { break };
            out.push_str(&rest[..start]);
            let inside = &rest[start + 2..start + length];
            let is_whole = start == 0 && length + 1 == rest.len() && out.is_empty();
            out.push_str(&self.variable(&place, name.filter(|_| is_whole && key == "env"), inside)?);
            rest = &rest[start + length + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    /// What stands between `${` and `}`, in pml's words.
    fn variable(&mut self, place: &str, only_of: Option<&str>, inside: &str) -> Result<String, String> {
        let knows_env = matches!(self.client, Client::Cursor | Client::Vscode | Client::Windsurf);
        let shown = inside.escape_debug();
        if !knows_env && self.client != Client::Claude {
            self.notes
                .push(format!("{place} has `${{{shown}}}`, which pml takes for a variable and the client does not"));
            return Ok(format!("${{{inside}}}"));
        }
        let unknown = || format!("{place} uses `${{{shown}}}`, which only {} knows", self.client);
        if !knows_env {
            return Ok(format!("${{{inside}}}"));
        }
        match inside.split_once(':') {
            Some(("env", name)) => return Ok(format!("${{{name}}}")),
            Some(("input", id)) => {
                // The variable that it goes into is the name that the user knows.
                let name = only_of.map(str::to_owned).unwrap_or_else(|| {
                    id.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
                });
                self.notes.push(format!(
                    "{place} was asked for by {}; set the variable `{name}` where pml is started",
                    self.client
                ));
                return Ok(format!("${{{name}}}"));
            }
            _ => {}
        }
        match (inside, self.project) {
            ("userHome", _) => Ok("${HOME}".to_owned()),
            ("pathSeparator" | "/", _) => Ok("/".to_owned()),
            ("workspaceFolder" | "workspaceRoot", Some(project)) => Ok(project.to_string_lossy().into_owned()),
            ("workspaceFolderBasename", Some(project)) => {
                Ok(project.file_name().unwrap_or_default().to_string_lossy().into_owned())
            }
            _ if inside.contains(':') && !inside.contains(":-") => Err(unknown()),
            ("workspaceFolder" | "workspaceRoot" | "workspaceFolderBasename", None) => {
                Err(format!("{}: another folder each time (with --file, --project names it)", unknown()))
            }
            _ => Ok(format!("${{{inside}}}")),
        }
    }

    fn read_env_file(&mut self, path: &str) -> Result<(), String> {
        let path = match path.strip_prefix("${HOME}/").zip(self.home) {
            Some((rest, home)) => home.join(rest),
            None => self.project.map_or_else(|| PathBuf::from(path), |project| project.join(path)),
        };
        let shown = path.display();
        let text = files::read(&path).map_err(|err| format!("its `envFile`: {err}"))?;
        let text = text.ok_or_else(|| format!("its `envFile` is not there: `{shown}`"))?;
        let mut count = 0;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let Some((name, value)) = line.strip_prefix("export ").unwrap_or(line).split_once('=') else { continue };
            let value = value.trim();
            let quoted = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
            let value = quoted.unwrap_or(value).to_owned();
            if value.contains('\0') || name.contains('\0') {
                return Err("its `envFile` has a NUL character in it".to_owned());
            }
            count += 1;
            self.server.env.entry(name.trim().to_owned()).or_insert(value);
        }
        self.notes.push(format!("`envFile`: its variables ({count}) are copied from `{shown}`"));
        Ok(())
    }
}

/// Seconds, maybe with a fraction.
fn millis(value: &Value) -> Option<u64> {
    let millis = value.as_f64()? * 1e3;
    (1.0..1e12).contains(&millis).then_some(millis.round() as u64)
}

/// A `[servers.NAME]` table.
pub fn table(server: &ServerFile) -> Table {
    let mut table = Table::new();
    let pairs = |pairs: &BTreeMap<String, String>| {
        pairs.iter().map(|(key, text)| (key.as_str(), toml_edit::Value::from(text))).collect::<InlineTable>()
    };
    let mut set = |key: &str, item: Option<toml_edit::Item>| {
        if let Some(item) = item {
            table.insert(key, item);
        }
    };
    let list = |texts: &[String]| (!texts.is_empty()).then(|| value(texts.iter().collect::<Array>()));
    let number = |number: Option<u64>| number.and_then(|number| i64::try_from(number).ok()).map(value);
    set("command", server.command.as_ref().map(value));
    set("args", list(&server.args));
    set("env", (!server.env.is_empty()).then(|| value(pairs(&server.env))));
    set("cwd", server.cwd.as_ref().map(value));
    set("url", server.url.as_ref().map(value));
    set("headers", (!server.headers.is_empty()).then(|| value(pairs(&server.headers))));
    set("type", server.kind.map(|kind| value(kind.as_str())));
    set("enabled", server.enabled.map(value));
    set("start_timeout_ms", number(server.start_timeout_ms));
    set("call_timeout_ms", number(server.call_timeout_ms));
    set("max_call_ms", number(server.max_call_ms));
    set("disabled_tools", list(&server.disabled_tools));
    set("oauth", server.oauth.as_ref().map(oauth_table));
    table
}

/// As much of it as clients have.
fn oauth_table(oauth: &OAuthFile) -> toml_edit::Item {
    let mut table = InlineTable::new();
    if let Some(id) = &oauth.client_id {
        table.insert("client_id", id.into());
    }
    if !oauth.scopes.is_empty() {
        table.insert("scopes", oauth.scopes.iter().collect::<Array>().into());
    }
    if let Some(port) = oauth.callback_port.and_then(|port| i64::try_from(port).ok()) {
        table.insert("callback_port", port.into());
    }
    value(table)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn translated(client: Client, entry: &Value) -> Result<(String, String), String> {
        let source = client.other_file(Path::new("/f"), Some(Path::new("/project")));
        let Translated { server, notes } = translate(client, entry, &source, &Places::here())?;
        Ok((table(&server).to_string(), notes.join("; ")))
    }

    #[test]
    fn every_clients_words_become_pmls() {
        #[rustfmt::skip]
        let table = [
            (Client::Claude, json!({"type": "stdio", "command": "x", "args": ["${A:-b}", 8], "timeout": 700000}),
                "command = \"x\"\nargs = [\"${A:-b}\", \"8\"]\ncall_timeout_ms = 700000\nmax_call_ms = 700000\n", ""),
            (Client::Claude, json!({"type": "http", "url": "https://x", "headers": {"A": "Bearer ${T}"}, "oauth": {}}),
                "url = \"https://x\"\nheaders = { A = \"Bearer ${T}\" }\ntype = \"http\"\n", ""),
            (Client::Claude, json!({"type": "http", "url": "https://x", "oauth": {"clientId": "me", "callbackPort": 8080, "xaa": 1}}),
                "url = \"https://x\"\ntype = \"http\"\noauth = { client_id = \"me\", callback_port = 8080 }\n", "`oauth.xaa` is unknown"),
            (Client::Claude, json!({"url": "https://x", "headers": {"authorization": "${T}"}, "oauth": {"callbackPort": 80}}),
                "url = \"https://x\"\nheaders = { authorization = \"${T}\" }\n", ""),
            (Client::Codex, json!({"url": "https://x", "scopes": ["a", "b"]}), "url = \"https://x\"\noauth = { scopes = [\"a\", \"b\"] }\n", ""),
            (Client::Cursor, json!({"url": "https://x", "auth": {"CLIENT_ID": "me"}}), "url = \"https://x\"\n", "`auth` is left out"),
            (Client::Cursor, json!({"command": "x", "env": {"A": "${env:B}"}, "args": ["${workspaceFolder}/a", "${userHome}"]}),
                "command = \"x\"\nargs = [\"/project/a\", \"${HOME}\"]\nenv = { A = \"${B}\" }\n", ""),
            (Client::Vscode, json!({"command": "x", "env": {"TOKEN": "${input:my-token}"}, "args": ["--k=${input:my-key}"]}),
                "command = \"x\"\nargs = [\"--k=${MY_KEY}\"]\nenv = { TOKEN = \"${TOKEN}\" }\n", "set the variable `TOKEN`"),
            (Client::Codex, json!({"command": "x", "env_vars": ["A", {"name": "B"}], "startup_timeout_sec": 1.5, "tool_timeout_sec": 20, "enabled_tools": ["t"]}),
                "command = \"x\"\nenv = { A = \"${A}\", B = \"${B}\" }\nstart_timeout_ms = 1500\ncall_timeout_ms = 20000\n", "ALL tools"),
            (Client::Codex, json!({"url": "https://x", "bearer_token_env_var": "T", "env_http_headers": {"X": "Y"}, "http_headers": {"Z": "z"}}),
                "url = \"https://x\"\nheaders = { Authorization = \"Bearer ${T}\", X = \"${Y}\", Z = \"z\" }\n", ""),
            (Client::Windsurf, json!({"serverUrl": "https://x", "disabled": true, "disabledTools": ["t"]}),
                "url = \"https://x\"\nenabled = false\ndisabled_tools = [\"t\"]\n", "switched off"),
            (Client::Zed, json!({"source": "custom", "command": {"path": "x", "args": ["a"], "env": {"A": "b"}}, "settings": {}}),
                "command = \"x\"\nargs = [\"a\"]\nenv = { A = \"b\" }\n", ""),
            (Client::Zed, json!({"command": "x", "enabled": true, "new_key": 1}), "command = \"x\"\n", "`new_key` is unknown"),
            (Client::ClaudeDesktop, json!({"command": "x", "args": ["${A}"]}), "command = \"x\"\nargs = [\"${A}\"]\n", "takes for a variable"),
            (Client::Claude, json!({"command": "./run", "cwd": null}), "command = \"/project/run\"\n", "whole path"),
        ];
        for (client, entry, expected, note) in table {
            let (text, notes) = translated(client, &entry).unwrap_or_else(|err| panic!("{entry}: {err}"));
            assert_eq!(text, expected, "{entry}");
            assert!(notes.contains(note) && notes.is_empty() == note.is_empty(), "{entry}: {notes}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused_with_its_key() {
        #[rustfmt::skip]
        let table = [
            (Client::Claude, json!(5), "no object"),
            (Client::Claude, json!({}), "neither"),
            (Client::Claude, json!({"command": "x", "url": "y"}), "both"),
            (Client::Claude, json!({"type": "ws", "url": "wss://x"}), "WebSocket"),
            (Client::Claude, json!({"command": "x", "args": "y"}), "`args` must be"),
            (Client::Claude, json!({"command": "x\u{0}"}), "`command` has a NUL"),
            (Client::Claude, json!({"command": "x", "env": {"A": "\u{0}"}}), "`env.A` has a NUL"),
            (Client::Claude, json!({"command": "x", "env": {"A": []}}), "`env` must be text"),
            (Client::Vscode, json!({"command": "x", "args": ["${config:a.b}"]}), "`args` uses `${config:a.b}`, which only VS Code knows"),
            (Client::Vscode, json!({"command": "x", "envFile": "/no/such/file"}), "`envFile` is not there"),
            (Client::Claude, json!({"url": "https://x", "oauth": {"callbackPort": "80"}}), "`oauth.callbackPort` must be a number"),
            (Client::Zed, json!({"source": "extension", "settings": {}}), "Zed extension"),
        ];
        for (client, entry, expected) in table {
            let message = translated(client, &entry).unwrap_err();
            assert!(message.contains(expected), "{entry}: {message}");
        }
    }
}
