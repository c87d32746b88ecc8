//! The servers in a client's own configuration: `mcpServers` as Claude, Cursor and others write
//! it, or `servers` as VS Code does. Comments and trailing commas are allowed.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};
use serde_json::Value;

use super::{
    jsonc,
    servers::{Kind, OAuthFile, ServerFile},
};
use crate::catalog::nearest;

/// Keys of clients that say nothing about how to reach a server.
pub const CLIENTS_OWN_KEYS: [&str; 24] = [
    "alwaysAllow",
    "alwaysLoad",
    "autoApprove",
    "default_tools_approval_mode",
    "description",
    "dev",
    "disabled_reason",
    "environment_id",
    "gallery",
    "icon",
    "metadata",
    "name",
    "remote",
    "required",
    "sandbox",
    "sandboxEnabled",
    "scopes",
    "settings",
    "source",
    "supports_parallel_tool_calls",
    "tool_timeout",
    "tools",
    "trust",
    "version",
];
#[rustfmt::skip]
const KNOWN: [&str; 11] =
    ["args", "command", "cwd", "disabled", "enabled", "env", "headers", "oauth", "timeout", "type", "url"];

/// Reads the servers of a client's file.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, ServerFile>, String> {
    let file: ClientFile = serde_json::from_str(&jsonc::plain(text).text).map_err(|err| err.to_string())?;
    let Some(servers) = file.mcp_servers.or(file.servers) else {
        return Err("there is no `mcpServers` in it".to_owned());
    };
    servers.0.into_iter().map(|(name, value)| Ok((name.clone(), server(&name, value)?))).collect()
}

/// The rest of such a file is the client's business.
#[derive(Deserialize)]
struct ClientFile {
    #[serde(rename = "mcpServers")]
    mcp_servers: Option<Servers>,
    servers: Option<Servers>,
}

/// A map in which no name may stand twice.
struct Servers(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Servers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Servers, D::Error> {
        struct ForServers;
        impl<'de> Visitor<'de> for ForServers {
            type Value = Servers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of servers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Servers, A::Error> {
                let mut servers: Vec<(String, Value)> = Vec::new();
                while let Some((name, value)) = map.next_entry()? {
                    if servers.iter().any(|(other, _)| *other == name) {
                        return Err(de::Error::custom(format!("server `{name}` is there twice")));
                    }
                    servers.push((name, value));
                }
                Ok(Servers(servers))
            }
        }
        deserializer.deserialize_map(ForServers)
    }
}

fn server(name: &str, value: Value) -> Result<ServerFile, String> {
    let Value::Object(object) = value else { return Err(format!("server `{name}` is no object")) };
    let mut file = ServerFile::default();
    for (key, value) in object.into_iter().filter(|(_, value)| !value.is_null()) {
        let wrong = |what: &str| format!("`{key}` of server `{name}` must be {what}");
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| wrong("a text"));
        match key.as_str() {
            "command" => file.command = Some(text(&value)?),
            "url" | "serverUrl" | "httpUrl" => file.url = Some(text(&value)?),
            "excludeTools" | "disabledTools" | "disabled_tools" => {
                let tools = value.as_array().and_then(|list| list.iter().map(scalar).collect());
                let tools: Vec<String> = tools.ok_or_else(|| wrong("a list of texts"))?;
                file.disabled_tools.extend(tools);
            }
            "cwd" => file.cwd = Some(text(&value)?),
            "args" => {
                let args = value.as_array().and_then(|list| list.iter().map(scalar).collect());
                file.args = args.ok_or_else(|| wrong("a list of texts"))?;
            }
            "env" => file.env = texts(&value).ok_or_else(|| wrong("an object of texts"))?,
            "headers" => file.headers = texts(&value).ok_or_else(|| wrong("an object of texts"))?,
            "type" | "transport" => {
                let kind = Kind::parse(&text(&value)?);
                file.kind = Some(kind.ok_or_else(|| wrong("`stdio`, `http` or `sse`"))?);
            }
            "timeout" => {
                let millis = value.as_u64().filter(|millis| *millis > 0);
                file.set_call_timeout(millis.ok_or_else(|| wrong("a number of milliseconds"))?);
            }
            "oauth" => {
                file.oauth = Some(OAuthFile {
                    client_id: value["clientId"].as_str().map(str::to_owned),
                    callback_port: value["callbackPort"].as_u64(),
                    ..OAuthFile::default()
                });
            }
            // Without its headers the server would not let pml in.
            "headersHelper" => {
                return Err(format!(
                    "server `{name}` has a `headersHelper`, a command that makes headers, which pml cannot use"
                ));
            }
            "disabled" => file.enabled = Some(!value.as_bool().ok_or_else(|| wrong("true or false"))?),
            "enabled" => file.enabled = Some(value.as_bool().ok_or_else(|| wrong("true or false"))?),
            _ if CLIENTS_OWN_KEYS.contains(&key.as_str()) => {}
            // Clients have keys of their own, so a strange one is no reason to refuse the server.
            _ => match nearest(&key, KNOWN).first() {
                Some(near) => {
                    return Err(format!("server `{name}` has an unknown key `{key}`; did you mean `{near}`?"));
                }
                None => tracing::warn!(server = name, key, "a key is unknown, and ignored"),
            },
        }
    }
    // What a client writes there for its own sake is no mistake.
    let has_token = file.headers.keys().any(|header| header.eq_ignore_ascii_case("authorization"));
    file.oauth = file.oauth.filter(|_| file.url.is_some() && !has_token);
    Ok(file)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn texts(value: &Value) -> Option<BTreeMap<String, String>> {
    value.as_object()?.iter().map(|(key, value)| Some((key.clone(), scalar(value)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_servers_are_read() {
        let text = r#"{
          // where I keep my servers
          "mcpServers": {
            "files": {"command": "npx", "args": ["-y", "pkg", 8], "env": {"A": "${B}"}, "timeout": 5000, "alwaysLoad": true, "dev": {}},
            "slow": {"command": "x", "timeout": 700000},
            "far": {"type": "streamable-http", "url": "https://x/mcp", "headers": {"A": "${T}"}, "disabled": true},
          },
          "theme": "dark",
        }"#;
        let servers = parse(text).unwrap();
        assert_eq!(servers["files"].args, ["-y", "pkg", "8"]);
        assert_eq!((servers["files"].call_timeout_ms, servers["files"].max_call_ms), (Some(5000), None));
        assert_eq!((servers["slow"].call_timeout_ms, servers["slow"].max_call_ms), (Some(700_000), Some(700_000)));
        assert_eq!((servers["far"].enabled, servers["far"].kind), (Some(false), Some(Kind::Http)));
    }

    #[test]
    fn mistakes_are_named() {
        let table = [
            ("{", "line 1"),
            ("{}", "there is no `mcpServers`"),
            (r#"{"mcpServers": []}"#, "an object of servers"),
            (r#"{"mcpServers": {"a": {}, "a": {}}}"#, "server `a` is there twice at line 1"),
            (r#"{"mcpServers": {"a": 1}}"#, "server `a` is no object"),
            (r#"{"mcpServers": {"a": {"args": "x"}}}"#, "`args` of server `a` must be a list of texts"),
            (r#"{"mcpServers": {"a": {"type": "smoke"}}}"#, "`type` of server `a` must be"),
            (r#"{"mcpServers": {"a": {"env": {"A": []}}}}"#, "`env` of server `a` must be an object of texts"),
        ];
        for (text, expected) in table {
            let message = parse(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
