//! A client's entry for a server, in pml's words.
//!
//! What pml has no word for is either said ([`Translated::notes`]) or, where the server could not
//! work without it, the reason why there is no translation. Neither ever shows a value.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{
    client::{Client, Source},
    env_file, files,
};
use crate::config::{
    self, CLIENTS_OWN_KEYS, Kind, OAuthFile, ServerFile,
    expand::{escape, inside, name_and_default},
};

/// Which file of pml a server goes into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// One that counts everywhere: the server is started wherever pml is.
    Everywhere,
    /// That of the folder that the client's entry is about, so that both start the server there.
    Project,
}

/// A server in pml's words.
#[derive(Clone, Debug)]
pub struct Translated {
    pub server: ServerFile,
    /// What is different from before, or has to be done, by key.
    pub notes: Vec<String>,
}

/// Translates an entry. The error is the reason why it cannot be.
pub fn translate(client: Client, entry: &Value, source: &Source, base: Base) -> Result<Translated, String> {
    let Value::Object(entry) = entry else { return Err("it is no object".to_owned()) };
    let mut translation = Translation {
        client,
        project: source.project.as_deref(),
        base,
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
    base: Base,
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
                    // Only if it is set: without it the client starts the server all the same.
                    if !self.server.pass_env.iter().any(|other| other == name) {
                        self.server.pass_env.push(name.to_owned());
                    }
                }
            }
            "bearer_token_env_var" => {
                let name = value.as_str().ok_or_else(|| wrong("the name of a variable"))?;
                self.note_unset("`Authorization`", name);
                self.server.headers.insert("Authorization".to_owned(), format!("Bearer ${{{name}}}"));
            }
            "env_http_headers" => {
                for (header, name) in value.as_object().ok_or_else(|| wrong("an object of names"))? {
                    let name = name.as_str().ok_or_else(|| wrong("an object of names"))?;
                    // Of a variable that is not set the client makes no header, and neither does pml of an empty one.
                    self.server.headers.insert(header.clone(), format!("${{{name}:-}}"));
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
        if let (Some(project), Base::Everywhere, Some(_)) = (self.project, self.base, &server.command) {
            let cwd = server.cwd.as_deref().unwrap_or_default();
            if !cwd.starts_with(['/', '$', '~']) {
                let folder = project.join(cwd).to_string_lossy().trim_end_matches('/').to_owned();
                self.notes.push(format!("`cwd` is now `{folder}`, since it was of that folder"));
                server.cwd = Some(escape(&folder));
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
        if !matches!(self.client, Client::Claude | Client::Cursor | Client::Vscode | Client::Windsurf) {
            return Ok(escape(&text));
        }
        self.variables(&place, name.filter(|_| key == "env"), &text)
    }

    fn variables(&mut self, place: &str, only_of: Option<&str>, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let Some(range) = inside(rest, start) else { break };
            out.push_str(&rest[..start]);
            if out.ends_with('$') {
                // Two of them would be an escape.
                out.pop();
                out.push_str("${:-$}");
            }
            let is_whole = range == (2..text.len() - 1);
            out.push_str(&self.variable(place, only_of.filter(|_| is_whole), &rest[range.clone()])?);
            rest = &rest[range.end + 1..];
        }
        out.push_str(&escape(rest));
        Ok(out)
    }

    /// What stands between `${` and `}`, in pml's words.
    fn variable(&mut self, place: &str, only_of: Option<&str>, variable: &str) -> Result<String, String> {
        let shown = variable.escape_debug();
        let unknown = || format!("{place} uses `${{{shown}}}`, which only {} knows", self.client);
        if self.client == Client::Claude {
            return self.with_default(place, variable, None);
        }
        match variable.split_once(':') {
            // One that is not set is empty there.
            Some(("env", _)) => return self.with_default(place, variable, Some("")),
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
        let folder = |path: &Path| escape(&path.to_string_lossy());
        match (variable, self.project) {
            ("userHome", _) => Ok("${HOME}".to_owned()),
            ("pathSeparator" | "/", _) => Ok("/".to_owned()),
            ("workspaceFolder" | "workspaceRoot", Some(project)) => Ok(folder(project)),
            ("workspaceFolderBasename", Some(project)) => {
                Ok(folder(Path::new(project.file_name().unwrap_or_default())))
            }
            _ if variable.contains(':') && !variable.contains(":-") => Err(unknown()),
            ("workspaceFolder" | "workspaceRoot" | "workspaceFolderBasename", None) => {
                Err(format!("{}: another folder each time (with --file, --project names it)", unknown()))
            }
            _ => self.with_default(place, variable, None),
        }
    }

    /// A variable of the environment, with the default that it has or that the client gives it.
    fn with_default(&mut self, place: &str, variable: &str, otherwise: Option<&str>) -> Result<String, String> {
        let (name, default) = name_and_default(variable);
        let default = match default {
            Some(default) => Some(self.variables(place, None, default)?),
            None => {
                self.note_unset(place, name);
                otherwise.map(str::to_owned)
            }
        };
        Ok(match default {
            Some(default) => format!("${{{name}:-{default}}}"),
            None => format!("${{{name}}}"),
        })
    }

    fn note_unset(&mut self, place: &str, name: &str) {
        if config::named_variable(name).is_none() {
            self.notes.push(format!("{place} needs the variable `{}`, which is not set here", name.escape_debug()));
        }
    }

    fn read_env_file(&mut self, path: &str) -> Result<(), String> {
        let path = config::expanded(path).map_err(|name| format!("its `envFile` needs the variable `{name}`"))?;
        let path = self.project.map_or_else(|| PathBuf::from(&path), |project| project.join(&path));
        let shown = path.display();
        let text = files::read(&path).map_err(|err| format!("its `envFile`: {err}"))?;
        let text = text.ok_or_else(|| format!("its `envFile` is not there: `{shown}`"))?;
        let variables = env_file::parse(&text);
        let count = variables.len();
        for (name, value) in variables {
            if value.contains('\0') || name.contains('\0') {
                return Err("its `envFile` has a NUL character in it".to_owned());
            }
            // Nothing in it is a variable, whatever it looks like.
            self.server.env.entry(name).or_insert_with(|| escape(&value));
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
pub fn entry(server: &ServerFile) -> Value {
    let mut fields = Map::new();
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(key.to_owned(), value);
        }
    };
    let list = |texts: &[String]| (!texts.is_empty()).then(|| json!(texts));
    let pairs = |pairs: &BTreeMap<String, String>| (!pairs.is_empty()).then(|| json!(pairs));
    set("command", server.command.as_ref().map(|text| json!(text)));
    set("args", list(&server.args));
    set("env", pairs(&server.env));
    set("pass_env", list(&server.pass_env));
    set("cwd", server.cwd.as_ref().map(|text| json!(text)));
    set("url", server.url.as_ref().map(|text| json!(text)));
    set("headers", pairs(&server.headers));
    set("type", server.kind.map(|kind| json!(kind.as_str())));
    set("enabled", server.enabled.map(Value::from));
    set("start_timeout_ms", server.start_timeout_ms.map(Value::from));
    set("call_timeout_ms", server.call_timeout_ms.map(Value::from));
    set("max_call_ms", server.max_call_ms.map(Value::from));
    set("disabled_tools", list(&server.disabled_tools));
    set("oauth", server.oauth.as_ref().map(oauth_entry));
    Value::Object(fields)
}

/// As much of it as clients have.
fn oauth_entry(oauth: &OAuthFile) -> Value {
    let mut fields = Map::new();
    if let Some(id) = &oauth.client_id {
        fields.insert("client_id".to_owned(), json!(id));
    }
    if !oauth.scopes.is_empty() {
        fields.insert("scopes".to_owned(), json!(oauth.scopes));
    }
    if let Some(port) = oauth.callback_port {
        fields.insert("callback_port".to_owned(), json!(port));
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{Document, Format};

    fn translated(client: Client, entry: &Value) -> Result<(String, String), String> {
        let source = client.other_file(Path::new("/f"), Some(Path::new("/project")));
        let Translated { server, notes } = translate(client, entry, &source, Base::Project)?;
        let mut document = Document::parse(Format::Toml, "").unwrap();
        document.set(&[], "x", &super::entry(&server)).unwrap();
        Ok((document.text().strip_prefix("[x]\n").unwrap().to_owned(), notes.join("; ")))
    }

    #[test]
    fn every_clients_words_become_pmls() {
        #[rustfmt::skip]
        let table = [
            (Client::Claude, json!({"type": "stdio", "command": "x", "args": ["${A:-b}", 8], "timeout": 700000}),
                "command = \"x\"\nargs = [\"${A:-b}\", \"8\"]\ncall_timeout_ms = 700000\nmax_call_ms = 700000\n", ""),
            (Client::Claude, json!({"type": "http", "url": "https://x", "headers": {"A": "Bearer ${T}"}, "oauth": {}}),
                "url = \"https://x\"\nheaders = { A = \"Bearer ${T}\" }\ntype = \"http\"\n", "`headers.A` needs the variable `T`, which is not set here"),
            (Client::Claude, json!({"type": "http", "url": "https://x", "oauth": {"clientId": "me", "callbackPort": 8080, "xaa": 1}}),
                "url = \"https://x\"\ntype = \"http\"\noauth = { client_id = \"me\", callback_port = 8080 }\n", "`oauth.xaa` is unknown"),
            (Client::Claude, json!({"url": "https://x", "headers": {"authorization": "${T}"}, "oauth": {"callbackPort": 80}}),
                "url = \"https://x\"\nheaders = { authorization = \"${T}\" }\n", "`T`, which is not set here"),
            (Client::Codex, json!({"url": "https://x", "scopes": ["a", "b"]}), "url = \"https://x\"\noauth = { scopes = [\"a\", \"b\"] }\n", ""),
            (Client::Cursor, json!({"url": "https://x", "auth": {"CLIENT_ID": "me"}}), "url = \"https://x\"\n", "`auth` is left out"),
            (Client::Cursor, json!({"command": "x", "env": {"A": "${env:B}"}, "args": ["${workspaceFolder}/a", "${userHome}"]}),
                "command = \"x\"\nargs = [\"/project/a\", \"${HOME}\"]\nenv = { A = \"${B:-}\" }\n", "`B`, which is not set here"),
            (Client::Vscode, json!({"command": "x", "env": {"TOKEN": "${input:my-token}"}, "args": ["--k=${input:my-key}"]}),
                "command = \"x\"\nargs = [\"--k=${MY_KEY}\"]\nenv = { TOKEN = \"${TOKEN}\" }\n", "set the variable `TOKEN`"),
            (Client::Codex, json!({"command": "x", "env_vars": ["A", {"name": "B"}], "startup_timeout_sec": 1.5, "tool_timeout_sec": 20, "enabled_tools": ["t"]}),
                "command = \"x\"\npass_env = [\"A\", \"B\"]\nstart_timeout_ms = 1500\ncall_timeout_ms = 20000\n", "ALL tools"),
            (Client::Codex, json!({"url": "https://x", "bearer_token_env_var": "T", "env_http_headers": {"X": "Y"}, "http_headers": {"Z": "z"}}),
                "url = \"https://x\"\nheaders = { Authorization = \"Bearer ${T}\", X = \"${Y:-}\", Z = \"z\" }\n", "`Authorization` needs the variable `T`"),
            (Client::Windsurf, json!({"serverUrl": "https://x", "disabled": true, "disabledTools": ["t"]}),
                "url = \"https://x\"\nenabled = false\ndisabled_tools = [\"t\"]\n", "switched off"),
            (Client::Zed, json!({"source": "custom", "command": {"path": "x", "args": ["a"], "env": {"A": "b"}}, "settings": {}}),
                "command = \"x\"\nargs = [\"a\"]\nenv = { A = \"b\" }\n", ""),
            (Client::Zed, json!({"command": "x", "enabled": true, "new_key": 1}), "command = \"x\"\n", "`new_key` is unknown"),
            // Only some know variables; for the others it is text.
            (Client::ClaudeDesktop, json!({"command": "sh", "args": ["-c", "echo ${A} $${B} ${"]}), "command = \"sh\"\nargs = [\"-c\", \"echo $${A} $$${B} $${\"]\n", ""),
            (Client::Claude, json!({"command": "x", "args": ["${A:-${B:-c}}", "${A:-}$${HOME}", "${A:-b", "$$"]}), "command = \"x\"\nargs = [\"${A:-${B:-c}}\", \"${A:-}${:-$}${HOME}\", \"$${A:-b\", \"$$\"]\n", ""),
            (Client::Cursor, json!({"command": "x", "args": ["${env:A:-${env:HOME}}", "${env:HOME}"]}), "command = \"x\"\nargs = [\"${A:-${HOME:-}}\", \"${HOME:-}\"]\n", ""),
            (Client::Claude, json!({"command": "./run", "args": ["./data"], "cwd": "sub"}), "command = \"./run\"\nargs = [\"./data\"]\ncwd = \"sub\"\n", ""),
        ];
        for (client, entry, expected, note) in table {
            let (text, notes) = translated(client, &entry).unwrap_or_else(|err| panic!("{entry}: {err}"));
            assert_eq!(text, expected, "{entry}");
            assert!(notes.contains(note) && notes.is_empty() == note.is_empty(), "{entry}: {notes}");
        }
    }

    #[test]
    fn a_projects_server_starts_in_its_folder_wherever_pml_does() {
        let source = Client::Claude.other_file(Path::new("/f"), Some(Path::new("/project")));
        let cwd = |entry: Value, source: &Source| {
            translate(Client::Claude, &entry, source, Base::Everywhere).unwrap().server.cwd
        };
        let table = [
            (json!({"command": "./run", "args": ["./data"]}), Some("/project")),
            (json!({"command": "x", "cwd": "sub"}), Some("/project/sub")),
            (json!({"command": "x", "cwd": "/else"}), Some("/else")),
            (json!({"command": "x", "cwd": "${HOME}/y"}), Some("${HOME}/y")),
            (json!({"url": "https://x"}), None),
        ];
        for (entry, expected) in table {
            assert_eq!(cwd(entry.clone(), &source).as_deref(), expected, "{entry}");
            let users = Source { project: None, ..source.clone() };
            assert_eq!(cwd(entry.clone(), &users).as_deref(), entry["cwd"].as_str(), "{entry}");
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
