//! Living with clients: their servers come in, pml goes into their files, and everything goes back.

#![expect(clippy::disallowed_methods, reason = "these tests start pml as a shell would")]

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

use super::cli::{json_of, stderr, stdout};

/// In no output, whatever is asked.
const SECRETS: [&str; 5] =
    ["ghp_0123456789abcdefghij", "hunter2-in-a-header", "pg-password", "sk-ant-api03-0123456789", "arg-token-42"];

const CLAUDE: &str = r#"{
  "numStartups": 12,
  "primaryApiKey": "sk-ant-api03-0123456789",
  "mcpServers": {
    "github": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-github"],
      "env": {
        "GITHUB_TOKEN": "ghp_0123456789abcdefghij"
      }
    },
    "docs": { "type": "http", "url": "https://docs.example.org/mcp", "headers": { "X-Key": "hunter2-in-a-header" } }
  },
  "projects": {
    "PROJECT": {
      "allowedTools": [],
      "mcpServers": {
        "db": { "command": "uvx", "args": ["mcp-postgres", "postgres://me:pg-password@db/x", "--token", "arg-token-42"] }
      },
      "disabledMcpjsonServers": ["noisy"]
    }
  },
  "tipsHistory": { "a": 1 }
}
"#;

const CLAUDE_PROJECT: &str = r#"{
  "mcpServers": {
    "noisy": { "command": "./tools/noisy" },
    "sock": { "type": "ws", "url": "wss://example.org" }
  }
}
"#;

const CLAUDE_DESKTOP: &str = "{\n\t\"globalShortcut\": \"Ctrl+Space\",\n\t\"mcpServers\": {\n\t\t\"files\": {\n\t\t\t\"command\": \"npx\",\n\t\t\t\"args\": [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"/srv\"]\n\t\t}\n\t}\n}";

const CURSOR: &str = r#"{
  // servers that I use every day
  "mcpServers": {
    "github": { // the work account
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-github"],
      "env": { "GITHUB_TOKEN": "${env:GH_TOKEN}" },
    },
    /* the old one:
       "old": {} */
    "far": { "url": "https://far.example.org/mcp", "headers": { "Authorization": "Bearer ${env:FAR}" } }, // remote
  },
}
"#;

const VSCODE: &str = r#"{
    "inputs": [{ "type": "promptString", "id": "token", "password": true }],
    "servers": {
        "asked": { "type": "stdio", "command": "uvx", "args": ["asked"], "env": { "ASKED_TOKEN": "${input:token}" } },
        "here": { "command": "${workspaceFolder}/server", "envFile": "${workspaceFolder}/.env" },
        "odd": { "command": "x", "args": ["${config:editor.fontSize}"] }
    }
}
"#;

const CODEX: &str = r#"# Codex
model = "gpt-5" # the good one

[mcp_servers.context]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]
env_vars = ["CONTEXT_KEY"]
startup_timeout_sec = 20
enabled_tools = ["search"]

[mcp_servers.context.env]
LEVEL = "debug"

# the remote one
[mcp_servers.figma]
url = "https://mcp.figma.example/mcp"
bearer_token_env_var = "FIGMA_TOKEN"

[tui]
theme = "dark"
"#;

const WINDSURF: &str =
    r#"{"mcpServers":{"off":{"command":"x","disabled":true},"web":{"serverUrl":"https://web.example.org/sse"}}}"#;

const ZED: &str = r#"// Zed settings
{
  "theme": "One Dark",
  "context_servers": {
    "new": { "source": "custom", "command": "uvx", "args": ["new"], "env": {} },
    "old": { "source": "custom", "command": { "path": "uvx", "args": ["old"], "env": { "A": "b" } }, "settings": {} },
    "ext": { "source": "extension", "settings": {} },
    "url": { "url": "https://zed.example.org/mcp" },
  },
  "vim_mode": true, // always
}
"#;

/// Client, its file in a home, what is in it, and the names that an import gives.
const CLIENTS: [(&str, &str, &str, &[&str]); 7] = [
    ("claude", ".claude.json", CLAUDE, &["db", "noisy", "github", "docs"]),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", CLAUDE_DESKTOP, &["files"]),
    ("cursor", ".cursor/mcp.json", CURSOR, &["github", "far"]),
    ("vscode", ".config/Code/User/mcp.json", VSCODE, &["asked"]),
    ("codex", ".codex/config.toml", CODEX, &["context", "figma"]),
    ("windsurf", ".codeium/windsurf/mcp_config.json", WINDSURF, &["off", "web"]),
    ("zed", ".config/zed/settings.json", ZED, &["new", "old", "url"]),
];

/// A user with files of all clients, who is in a project.
pub(super) struct User(pub(super) tempfile::TempDir);

impl User {
    fn new() -> User {
        let user = User(tempfile::tempdir().unwrap());
        fs::create_dir(user.path("project")).unwrap();
        for (_, file, text, _) in CLIENTS {
            user.write(file, &text.replace("PROJECT", &user.real("project")));
        }
        user.write("project/.mcp.json", CLAUDE_PROJECT);
        user
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub(super) fn real(&self, path: &str) -> String {
        fs::canonicalize(self.path(path)).unwrap().to_str().unwrap().to_owned()
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pml"));
        command.env_clear().env("HOME", self.0.path()).env("PATH", "/usr/bin:/bin").current_dir(self.path("project"));
        command
    }

    /// Runs pml without a terminal. No secret is in what it says.
    pub(super) fn pml(&self, args: &[&str]) -> Output {
        let output = self.command().args(args).output().unwrap();
        check_secrets(args, &output);
        output
    }

    /// Runs pml and expects an exit code.
    pub(super) fn expect(&self, code: i32, args: &[&str]) -> Output {
        let output = self.pml(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        output
    }

    fn servers(&self) -> Vec<String> {
        let output = self.expect(0, &["server", "list", "--json"]);
        let list = json_of(&output);
        list["servers"].as_array().unwrap().iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect()
    }

    fn own(&self) -> toml::Table {
        self.read(".config/pml/pml.toml").parse().unwrap()
    }
}

fn check_secrets(args: &[&str], output: &Output) {
    for secret in SECRETS {
        let said = format!("{}{}", stdout(output), stderr(output));
        assert!(!said.contains(secret), "{args:?} says {secret}: {said}");
    }
}

/// JSON with comments and last commas, for looking into it.
fn jsonc(text: &str) -> Value {
    let plain: String = text
        .lines()
        .map(|line| line.split_once(" // ").map_or(line, |(line, _)| line))
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let plain = plain.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, rest)| rest)).collect::<String>();
    let mut compact: String = plain.split('\n').map(str::trim).collect();
    for (last, bracket) in [(",}", "}"), (", }", "}"), (",]", "]")] {
        compact = compact.replace(last, bracket);
    }
    serde_json::from_str(&compact).unwrap_or_else(|err| panic!("{err}: {text}"))
}

#[test]
fn servers_of_every_client_come_in_and_go_again() {
    for (client, file, ..) in CLIENTS {
        let names = CLIENTS.iter().find(|row| row.0 == client).unwrap().3;
        let user = User::new();
        let before = user.read(file);
        let output = user.expect(2, &["import", "--from", client]);
        assert!(stderr(&output).contains("hint: --yes"), "{output:?}");
        assert!(stdout(&output).contains("+ [servers."), "{output:?}");
        assert!(!stdout(&output).contains('\x1b'), "{output:?}");
        assert!(!user.path(".config/pml").exists());
        user.expect(0, &["import", "--from", client, "--dry-run"]);
        assert!(!user.path(".config/pml").exists());

        let report = json_of(&user.expect(0, &["import", "--from", client, "--yes", "--json"]));
        assert_eq!(report["changed"], true, "{report}");
        let own = user.own();
        let mut got: Vec<_> = own["servers"].as_table().unwrap().keys().map(String::as_str).collect();
        let mut expected = names.to_vec();
        got.sort_unstable();
        expected.sort_unstable();
        assert_eq!(got, expected, "{client}");
        assert_eq!(user.read(file), before, "{client}: its own file is only read");

        let again = user.expect(0, &["import", "--from", client, "--yes"]);
        assert!(stderr(&again).contains("pml has the same already"), "{again:?}");
        assert!(stderr(&again).contains("nothing to add"), "{again:?}");
        user.expect(0, &["import", "--undo"]);
        assert!(!user.path(".config/pml").exists(), "{client}");
        let none = user.expect(2, &["import", "--undo"]);
        assert!(stderr(&none).contains("no `pml import`"), "{none:?}");
    }
}

#[test]
fn what_an_import_cannot_say_is_named() {
    let user = User::new();
    #[rustfmt::skip]
    let table: [(&str, &[&str]); 5] = [
        ("claude", &["skip  `sock`", "WebSocket", "`cwd` is now `", "switched off there", "will hold secrets"]),
        ("vscode", &["set the variable `ASKED_TOKEN`", "skip  `here`", "`${workspaceFolder}`, which only VS Code knows: another folder each time", "skip  `odd`", "`${config:editor.fontSize}`"]),
        ("codex", &["`enabled_tools` is left out: in pml ALL tools"]),
        ("windsurf", &["`enabled = false`"]),
        ("zed", &["skip  `ext`", "Zed extension"]),
    ];
    for (client, parts) in table {
        let said = stderr(&user.expect(0, &["import", "--from", client, "--dry-run"]));
        for part in parts {
            assert!(said.contains(part), "{client} lacks {part}: {said}");
        }
    }
    // In a project's file, its folder is known, and so are the variables in it.
    user.write("project/.vscode/mcp.json", VSCODE);
    user.write("project/.env", "# mine\nexport A=\"b c\"\nTOKEN=ghp_0123456789abcdefghij\n");
    user.expect(0, &["import", "--from", "vscode", "--only", "here", "--yes"]);
    let own = user.own();
    assert_eq!(own["servers"]["here"]["command"].as_str().unwrap(), format!("{}/server", user.real("project")));
    assert_eq!(own["servers"]["here"]["env"]["A"].as_str(), Some("b c"));
    assert_eq!(own["servers"]["here"]["env"]["TOKEN"].as_str(), Some("ghp_0123456789abcdefghij"));
    let near = user.expect(2, &["import", "--from", "cursor", "--only", "githb"]);
    assert!(stderr(&near).contains("did you mean `github`?"), "{near:?}");
}

#[test]
fn what_pml_has_stays_and_another_of_the_name_gets_a_number() {
    let user = User::new();
    let own = "# mine\n[servers.github] # by hand\ncommand = \"gh\"\n";
    user.write(".config/pml/pml.toml", own);
    fs::set_permissions(user.path(".config/pml/pml.toml"), fs::Permissions::from_mode(0o644)).unwrap();
    let output = user.expect(0, &["import", "--from", "claude", "--only", "github", "--yes"]);
    assert!(stderr(&output).contains("as `github-2`"), "{output:?}");
    assert!(stderr(&output).contains("its mode becomes 0600"), "{output:?}");
    let text = user.read(".config/pml/pml.toml");
    assert!(text.starts_with(own) && text.contains("ghp_0123456789abcdefghij"), "{text}");
    assert_eq!(fs::metadata(user.path(".config/pml/pml.toml")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(user.servers(), ["github", "github-2"]);
    // The same again, and the one with a number is known.
    let again = user.expect(0, &["import", "--from", "claude", "--only", "github", "--yes"]);
    assert!(stderr(&again).contains("pml has the same already, as `github-2`"), "{again:?}");
    // What somebody has written since stays; an entry that somebody has changed is taken back only if told to.
    user.write(".config/pml/pml.toml", &format!("{text}# later\n"));
    let changed = user.read(".config/pml/pml.toml").replace("\"npx\"", "\"npx2\"");
    user.write(".config/pml/pml.toml", &changed);
    let refused = user.expect(2, &["import", "--undo"]);
    assert!(stderr(&refused).contains("has changed since") && stderr(&refused).contains("--force"), "{refused:?}");
    assert_eq!(user.read(".config/pml/pml.toml"), changed);
    let forced = user.expect(0, &["import", "--undo", "--force"]);
    assert_eq!(user.read(".config/pml/pml.toml"), format!("{own}\n# later\n"));
    assert_eq!(fs::metadata(user.path(".config/pml/pml.toml")).unwrap().mode() & 0o777, 0o644);
    let said = stderr(&forced);
    let kept = said.lines().find_map(|line| line.strip_prefix("what was in the way is kept in ")).unwrap();
    assert_eq!(fs::read_to_string(Path::new(kept).join("0-replaced")).unwrap(), changed);
}

#[test]
fn pml_goes_into_every_client_once_and_out_again() {
    let user = User::new();
    let both = CLIENTS.into_iter().flat_map(|row| [(row.0, row.1, false), (row.0, row.1, true)]);
    for (client, file, is_crlf) in both {
        if is_crlf {
            user.write(file, &user.read(file).replace('\n', "\r\n"));
        }
        let before = user.read(file);
        let shown = user.expect(2, &["install", "--client", client]);
        assert!(stderr(&shown).contains("hint: --yes") && stdout(&shown).contains("+ "), "{shown:?}");
        assert_eq!(user.read(file), before);
        user.expect(0, &["install", "--client", client, "--dry-run"]);
        assert_eq!(user.read(file), before);

        user.expect(0, &["install", "--client", client, "--yes"]);
        let after = user.read(file);
        check_only_added(client, &before, &after);
        let again = user.expect(0, &["install", "--client", client, "--yes"]);
        assert!(stderr(&again).contains("installed already"), "{again:?}");
        assert_eq!(user.read(file), after);

        let doctor = json_of(&user.expect(0, &["doctor", "clients", "--json"]));
        let row = doctor["clients"].as_array().unwrap().iter().find(|row| row["client"] == client).unwrap();
        assert_eq!((&row["found"], &row["installed"]), (&json!(true), &json!(true)), "{row}");

        // What was imported is never pml itself.
        let import = stderr(&user.pml(&["import", "--from", client, "--dry-run"]));
        assert!(import.contains("it is pml itself"), "{import}");
        user.expect(0, &["install", "--client", client, "--undo"]);
        assert_eq!(user.read(file), before, "{client}");
    }
}

/// Every byte that was there is there, in its order; an entry is new, and maybe a comma in front of it.
fn check_only_added(client: &str, before: &str, after: &str) {
    let common = |one: &str, other: &str| {
        let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
        one.floor_char_boundary(same)
    };
    let start = common(before, after);
    let (mut rest, mut new) = (&before[start..], &after[start..]);
    if !new.ends_with(rest) {
        new = new.strip_prefix(',').unwrap_or_else(|| panic!("{client} has changed:\n{after}"));
        let more = common(rest, new);
        (rest, new) = (&rest[more..], &new[more..]);
    }
    let entry = new.strip_suffix(rest).unwrap_or_else(|| panic!("{client} has changed:\n{before}\n{after}"));
    assert!(entry.contains(env!("CARGO_BIN_EXE_pml")) && entry.contains("\"serve\""), "{client}: {entry}");
    if before.contains("\r\n") {
        assert_eq!(after.matches('\n').count(), after.matches("\r\n").count(), "{client}: {after:?}");
    }
}

#[test]
fn files_that_are_not_there_are_made_and_unmade() {
    for (client, file, ..) in CLIENTS {
        let user = User(tempfile::tempdir().unwrap());
        fs::create_dir(user.path("project")).unwrap();
        let none = user.expect(2, &["import", "--from", client]);
        assert!(stderr(&none).contains("has no configuration here") && stderr(&none).contains(file), "{none:?}");
        user.expect(0, &["install", "--client", client, "--yes"]);
        assert!(user.read(file).ends_with('\n') && user.read(file).contains("serve"), "{client}");
        assert_eq!(fs::metadata(user.path(file)).unwrap().mode() & 0o777, 0o600, "{client}");
        user.expect(0, &["install", "--undo"]);
        let left: Vec<_> = fs::read_dir(user.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name == "project" || name == ".local"), "{client}: {left:?}");
    }
}

#[test]
fn the_entry_is_what_was_asked_for() {
    let user = User::new();
    user.expect(0, &["install", "--client", "claude", "--scope", "project", "--yes"]);
    let entry = &jsonc(&user.read("project/.mcp.json"))["mcpServers"]["pml"];
    assert_eq!(entry, &json!({"type": "stdio", "command": env!("CARGO_BIN_EXE_pml"), "args": ["serve"]}));
    // Another folder's data and configuration are named whole.
    user.write("project/my.toml", "");
    user.expect(0, &["install", "--client", "cursor", "--config", "my.toml", "--name", "gate", "--yes"]);
    let entry = &jsonc(&user.read(".cursor/mcp.json"))["mcpServers"]["gate"];
    assert_eq!(entry["args"], json!(["serve", "--config", format!("{}/my.toml", user.real("project"))]));
    // In another way than before: the entry is replaced, and what was added to it stays.
    user.write(
        ".codeium/windsurf/mcp_config.json",
        r#"{"mcpServers":{"pml":{"command":"/old/pml","args":["serve"],"env":{"A":"b"}}}}"#,
    );
    let installed =
        user.expect(0, &["install", "--client", "windsurf", "--http", "http://127.0.0.1:7777/mcp", "--yes"]);
    let entry = &jsonc(&user.read(".codeium/windsurf/mcp_config.json"))["mcpServers"]["pml"];
    let headers = json!({"Authorization": "Bearer ${env:PML_TOKEN}"});
    assert_eq!(entry, &json!({"serverUrl": "http://127.0.0.1:7777/mcp", "headers": headers, "env": {"A": "b"}}));
    let told = stderr(&installed);
    assert!(told.contains("export PML_TOKEN=\"$(cat '") && told.contains("pml/token')\""), "{told}");
    // Found as `pml`, it is called so.
    fs::create_dir(user.path("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_pml"), user.path("bin/pml")).unwrap();
    let install = ["install", "--client", "codex", "--yes"];
    let output = user.command().env("PATH", user.path("bin")).args(install).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let codex: toml::Table = user.read(".codex/config.toml").parse().unwrap();
    assert_eq!(codex["mcp_servers"]["pml"]["command"].as_str(), Some("pml"));

    user.write(".cursor/mcp.json", r#"{"mcpServers": {"pml": {"command": "other"}}}"#);
    #[rustfmt::skip]
    let mistakes: [(&[&str], &str); 6] = [
        (&["--client", "cursor"], "is something else than pml"),
        (&["--client", "windsurf", "--scope", "project"], "has no file for one folder"),
        (&["--client", "claude-desktop", "--http", "http://127.0.0.1:1/mcp"], "reaches no address"),
        (&["--client", "zed", "--http", "ftp://x"], "must begin with http"),
        (&["--client", "emacs"], "possible values"),
        (&[], "--client"),
    ];
    for (args, expected) in mistakes {
        let args = [&["install", "--yes"], args].concat();
        let output = user.expect(2, &args);
        assert!(stderr(&output).contains(expected), "{args:?}: {output:?}");
    }
}

#[test]
fn files_are_found_where_the_environment_or_the_user_says() {
    let user = User::new();
    user.write("elsewhere/.claude.json", r#"{"mcpServers": {"moved": {"command": "x"}}}"#);
    user.write("elsewhere/config.toml", "[mcp_servers.moved]\ncommand = \"x\"\n");
    user.write("elsewhere/zed/settings.json", r#"{"context_servers": {"moved": {"command": "x"}}}"#);
    for (client, variable) in [("claude", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME"), ("zed", "XDG_CONFIG_HOME")] {
        let import = ["import", "--from", client, "--only", "moved", "--dry-run"];
        let output = user.command().env(variable, user.path("elsewhere")).args(import).output().unwrap();
        assert!(stdout(&output).contains("+ [servers.moved]"), "{client}: {output:?}");
    }
    // Another file, and another folder than this one.
    let file = user.path("elsewhere/.claude.json");
    let output = user.expect(0, &["import", "--from", "cursor", "--file", file.to_str().unwrap(), "--dry-run"]);
    assert!(stdout(&output).contains("+ [servers.moved]") && !stdout(&output).contains("github"), "{output:?}");
    let none = user.expect(0, &["import", "--from", "vscode", "--file", file.to_str().unwrap()]);
    assert!(stderr(&none).contains("VS Code has no servers here") && stderr(&none).contains("(`servers`)"), "{none:?}");
    user.write("other/.cursor/mcp.json", r#"{"mcpServers": {"there": {"command": "${workspaceFolder}/x"}}}"#);
    let other = user.path("other");
    let output = user.expect(0, &["import", "--from", "cursor", "--project", other.to_str().unwrap(), "--dry-run"]);
    assert!(stdout(&output).contains(&format!("{}/x", user.real("other"))), "{output:?}");
    let none = user.expect(2, &["import", "--from", "cursor", "--project", "/no/such/folder"]);
    assert!(stderr(&none).contains("is no folder"), "{none:?}");
}

/// What is in pml's files after the servers of a client have moved there: in the user's and in the project's.
fn moved(client: &str) -> (Value, Value) {
    let token = json!({"GITHUB_TOKEN": "ghp_0123456789abcdefghij"});
    let github = json!(["-y", "@modelcontextprotocol/server-github"]);
    let own = match client {
        "claude" => json!({
            "github": {"command": "npx", "args": github, "env": token},
            "docs": {"url": "https://docs.example.org/mcp", "headers": {"X-Key": "hunter2-in-a-header"}, "type": "http"},
        }),
        "claude-desktop" => json!({
            "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"]},
        }),
        "cursor" => json!({
            "github": {"command": "npx", "args": github, "env": {"GITHUB_TOKEN": "${GH_TOKEN:-}"}},
            "far": {"url": "https://far.example.org/mcp", "headers": {"Authorization": "Bearer ${FAR:-}"}},
        }),
        "vscode" => json!({
            "asked": {"command": "uvx", "args": ["asked"], "env": {"ASKED_TOKEN": "${ASKED_TOKEN}"}},
        }),
        "codex" => json!({
            "context": {
                "command": "npx", "args": ["-y", "@upstash/context7-mcp"], "env": {"LEVEL": "debug"},
                "pass_env": ["CONTEXT_KEY"], "start_timeout_ms": 20_000,
            },
            "figma": {"url": "https://mcp.figma.example/mcp", "headers": {"Authorization": "Bearer ${FIGMA_TOKEN}"}},
        }),
        "windsurf" => json!({
            "off": {"command": "x", "enabled": false}, "web": {"url": "https://web.example.org/sse"},
        }),
        "zed" => json!({
            "new": {"command": "uvx", "args": ["new"]}, "old": {"command": "uvx", "args": ["old"], "env": {"A": "b"}},
            "url": {"url": "https://zed.example.org/mcp"},
        }),
        other => panic!("{other}"),
    };
    let theirs = match client {
        "claude" => json!({"db": {
            "command": "uvx", "args": ["mcp-postgres", "postgres://me:pg-password@db/x", "--token", "arg-token-42"],
        }}),
        _ => json!({}),
    };
    (own, theirs)
}

#[test]
fn servers_move_into_pml_in_one_step_and_back_in_one() {
    for (client, file, ..) in CLIENTS {
        let user = User::new();
        let before = user.read(file);
        user.expect(0, &["install", "--client", client, "--move", "--yes"]);
        let servers = |path: &str| match user.path(path).exists() {
            true => serde_json::to_value(&user.read(path).parse::<toml::Table>().unwrap()["servers"]).unwrap(),
            false => json!({}),
        };
        let (own, theirs) = moved(client);
        assert_eq!(servers(".config/pml/pml.toml"), own, "{client}");
        assert_eq!(servers("project/pml.toml"), theirs, "{client}");
        // Only pml is left, and what could not be moved; the rest of the file is as it was.
        let parse = |text: &str| match client {
            "codex" => serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap(),
            _ => jsonc(text),
        };
        let (mut expected, after) = (parse(&before), parse(&user.read(file)));
        let key = ["mcpServers", "servers", "mcp_servers", "context_servers"]
            .into_iter()
            .find(|key| after.get(key).is_some());
        let key = key.unwrap();
        let left: Vec<_> = after[key].as_object().unwrap().keys().map(String::as_str).collect();
        let stays: &[&str] = match client {
            "vscode" => &["here", "odd", "pml"],
            "zed" => &["ext", "pml"],
            _ => &["pml"],
        };
        assert_eq!(left, stays, "{client}");
        assert!(after[key]["pml"]["args"] == json!(["serve"]), "{client}: {after}");
        expected[key] = after[key].clone();
        if client == "claude" {
            expected["projects"][&user.real("project")]["mcpServers"] = json!({});
        }
        assert_eq!(after, expected, "{client}");
        assert_eq!(user.read("project/.mcp.json"), CLAUDE_PROJECT);
        user.expect(0, &["install", "--client", client, "--undo"]);
        assert_eq!(user.read(file), before, "{client}");
        assert!(!user.path(".config/pml").exists() && !user.path("project/pml.toml").exists(), "{client}");
    }
}

#[test]
fn a_client_may_go_on_writing_its_file() {
    let user = User::new();
    user.expect(0, &["install", "--client", "claude", "--move", "--yes"]);
    let text = user.read(".claude.json").replace("\"numStartups\": 12", "\"numStartups\": 13");
    user.write(".claude.json", &text);
    let undone = user.expect(0, &["install", "--undo"]);
    assert!(stderr(&undone).contains("only the entries are as they were"), "{undone:?}");
    let (expected, actual) =
        (CLAUDE.replace(": 12", ": 13").replace("PROJECT", &user.real("project")), user.read(".claude.json"));
    assert_eq!(jsonc(&actual), jsonc(&expected));
    // An entry that somebody else has changed is not ours to take away.
    user.expect(0, &["install", "--client", "cursor", "--yes"]);
    let text = user.read(".cursor/mcp.json").replace("\"serve\"", "\"serve\", \"--log\", \"debug\"");
    user.write(".cursor/mcp.json", &text);
    user.expect(2, &["install", "--client", "cursor", "--undo"]);
    assert_eq!(user.read(".cursor/mcp.json"), text);
    user.expect(0, &["install", "--client", "cursor", "--undo", "--force"]);
    assert_eq!(user.read(".cursor/mcp.json"), CURSOR);
}

#[test]
fn what_cannot_be_read_is_not_written() {
    let deep = format!("{{\"mcpServers\": {{\"a\": {}1{}}}}}", "[".repeat(100_000), "]".repeat(100_000));
    #[rustfmt::skip]
    let table = [
        ("cursor", ".cursor/mcp.json", "{\n  \"mcpServers\": {\n    \"a\": {\"command\": }\n  }\n}".into(), "line 3, column 22"),
        ("cursor", ".cursor/mcp.json", "{\n  // ö\n  \"mcpServers\": []\n}".into(), "line 3, column 17: this must be an object"),
        ("cursor", ".cursor/mcp.json", "{\"mcpServers\": {\"a\": \"\0\"}}".to_owned().into_bytes(), "line 1, column 2"),
        ("cursor", ".cursor/mcp.json", b"{\n \"a\": \"\xff\"}".to_vec(), "line 2, column 8: this is not UTF-8"),
        ("cursor", ".cursor/mcp.json", deep.into_bytes(), "line 1, column "),
        ("codex", ".codex/config.toml", "a = 1\n[mcp_servers.x]\ncommand = ghp_0123456789abcdefghij\n".into(), "line 3, column 11"),
        ("codex", ".codex/config.toml", "a = \"\0\"".into(), "line 1, column 6"),
        ("codex", ".codex/config.toml", "mcp_servers = 5\n".into(), "must be a table"),
    ]
    .map(|(client, file, text, expected): (_, _, Vec<u8>, _)| (client, file, text, expected));
    for (client, file, text, expected) in table {
        let user = User::new();
        fs::write(user.path(file), &text).unwrap();
        let shown = String::from_utf8_lossy(&text[..text.len().min(80)]).into_owned();
        for args in [&["install", "--client", client, "--yes"][..], &["import", "--from", client, "--yes"]] {
            let output = user.expect(2, args);
            assert!(stderr(&output).contains(expected), "{args:?} {shown}: {}", stderr(&output));
        }
        let doctor = user.expect(1, &["doctor", "clients"]);
        assert!(stdout(&doctor).contains("FAILED") && stdout(&doctor).contains(expected), "{doctor:?}");
        assert_eq!(fs::read(user.path(file)).unwrap(), text);
        assert!(!user.path(".local").exists() && !user.path(".config/pml").exists());
    }
}

#[test]
fn strange_files_are_borne() {
    let user = User::new();
    // Ten megabytes, most of which is none of our business, and deeper than any parser likes.
    let deep = format!("{}1{}", "[".repeat(50_000), "]".repeat(50_000));
    let long = format!("{{\"history\": [{}{{}}], \"deep\": {deep}}}", "{\"a\": \"some words\"},\n".repeat(480_000));
    assert!(long.len() > 10_000_000);
    user.write(".cursor/mcp.json", &long);
    let output = user.expect(0, &["install", "--client", "cursor", "--yes"]);
    assert!(stdout(&output).len() < 4000, "{}", stdout(&output).len());
    assert!(user.read(".cursor/mcp.json").starts_with(&long[..long.len() - 1]));
    user.expect(0, &["install", "--client", "cursor", "--undo"]);
    assert!(user.read(".cursor/mcp.json") == long);

    // Names that pml does not allow, and texts that nothing can be started with.
    let long_name = "n".repeat(1000);
    let servers = json!({"mcpServers": {
        "plugin:a": {"command": "a"}, "plugin-a": {"command": "b"}, "": {"command": "c"}, "pml": {"command": "d"},
        "\u{1b}[2Jx": {"command": "e"}, "nul": {"command": "f\u{0}"}, &long_name: {"command": "g"},
        "slow": {"command": "h", "timeout": 99_999_999_999_u64}, "list": [], "__proto__": {"command": "i"},
    }});
    user.write(".cursor/mcp.json", &servers.to_string());
    let output = user.expect(0, &["import", "--from", "cursor", "--yes"]);
    let said = stderr(&output);
    assert!(!said.contains('\x1b') && !said.contains('\0'), "{said:?}");
    #[rustfmt::skip]
    let parts = ["`plugin:a` as `plugin-a`", "`plugin-a` as `plugin-a-2`", "`pml` as `pml-2`", "`` as `server`",
        "skip  `nul`", "NUL", "skip  `slow`", "between 1 and", "skip  `list`", "it is no object"];
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(user.servers().len(), 7, "{:?}", user.servers());
}

#[test]
fn links_are_written_through_and_what_is_locked_is_left() {
    let user = User::new();
    user.write("dotfiles/cursor.json", CURSOR);
    fs::set_permissions(user.path("dotfiles/cursor.json"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::remove_file(user.path(".cursor/mcp.json")).unwrap();
    symlink("../dotfiles/cursor.json", user.path(".cursor/mcp.json")).unwrap();
    user.expect(0, &["install", "--client", "cursor", "--yes"]);
    assert!(fs::symlink_metadata(user.path(".cursor/mcp.json")).unwrap().is_symlink());
    assert!(user.read("dotfiles/cursor.json").contains("serve"));
    assert_eq!(fs::metadata(user.path("dotfiles/cursor.json")).unwrap().mode() & 0o777, 0o640);
    user.expect(0, &["install", "--undo"]);
    assert_eq!(user.read("dotfiles/cursor.json"), CURSOR);
    // A link to nothing yet.
    fs::remove_file(user.path("dotfiles/cursor.json")).unwrap();
    user.expect(0, &["install", "--client", "cursor", "--yes"]);
    assert!(user.read("dotfiles/cursor.json").contains("serve"));
    user.expect(0, &["install", "--undo"]);
    assert!(fs::symlink_metadata(user.path(".cursor/mcp.json")).unwrap().is_symlink());
    assert!(!user.path("dotfiles/cursor.json").exists());
    let left: Vec<_> = fs::read_dir(user.path("dotfiles")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");

    // Where nobody can write, not even root.
    let install = ["install", "--client", "cursor", "--yes", "--data-dir", "/proc/1/nowhere"];
    let output = user.expect(2, &install);
    assert!(stderr(&output).contains("no place for a backup"), "{output:?}");
    let data = user.path("data");
    let install = ["install", "--client", "zed", "--yes", "--data-dir", data.to_str().unwrap()];
    let output = user.command().env("XDG_CONFIG_HOME", "/proc/1").args(install).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot be written"), "{output:?}");
    assert!(fs::read_dir(data.join("backups")).unwrap().next().is_none(), "no way back to where nobody went");
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(user.path(".codex"), fs::Permissions::from_mode(0o555)).unwrap();
        let output = user.expect(2, &["install", "--client", "codex", "--yes"]);
        assert!(stderr(&output).contains("cannot be written"), "{output:?}");
        assert_eq!(user.read(".codex/config.toml"), CODEX);
        fs::set_permissions(user.path(".codex"), fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Neither a folder nor a pipe is a file; opening a pipe would wait for ever.
    fs::remove_file(user.path(".codex/config.toml")).unwrap();
    fs::create_dir(user.path(".codex/config.toml")).unwrap();
    fs::remove_file(user.path(".config/zed/settings.json")).unwrap();
    assert!(Command::new("mkfifo").arg(user.path(".config/zed/settings.json")).status().unwrap().success());
    for client in ["codex", "zed"] {
        let output = user.expect(2, &["install", "--client", client, "--yes"]);
        assert!(stderr(&output).contains("it is no file"), "{output:?}");
    }
}

#[test]
fn at_a_terminal_pml_asks() {
    // Answers at a terminal once the question is there, and changes a file in between if told to.
    let driver = r#"
import os, pty, sys
answer, touched, args = sys.argv[1], sys.argv[2], sys.argv[3:]
child, terminal = pty.fork()
if child == 0:
    os.execv(args[0], args)
said, answered = b"", False
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    said += part
    if b"[y/N]" in said and not answered:
        answered = True
        if touched:
            open(touched, "a").write("\n")
        os.write(terminal, answer.encode() + b"\n")
sys.stdout.buffer.write(said)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;
    let ask = |user: &User, answer: &str, touched: &str, args: &[&str]| {
        let mut command = Command::new("python3");
        let touched = if touched.is_empty() { PathBuf::new() } else { user.path(touched) };
        command.args(["-c", driver, answer]).arg(touched).arg(env!("CARGO_BIN_EXE_pml")).args(args);
        command.env_clear().env("HOME", user.0.path()).env("PATH", "/usr/bin:/bin").current_dir(user.path("project"));
        let output = command.output().unwrap();
        check_secrets(args, &output);
        output
    };
    let user = User::new();
    let install = ["install", "--client", "cursor"];
    let output = ask(&user, "n", "", &install);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stdout(&output).contains("\x1b[32m+ ") && stdout(&output).contains("nothing is changed"), "{output:?}");
    assert_eq!(user.read(".cursor/mcp.json"), CURSOR);
    let output = ask(&user, "y", ".cursor/mcp.json", &install);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stdout(&output).contains("has changed in the meantime; nothing is written"), "{output:?}");
    assert_eq!(user.read(".cursor/mcp.json"), format!("{CURSOR}\n"));
    let output = ask(&user, "y", "", &install);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(user.read(".cursor/mcp.json").contains("serve"));
    let output = ask(&user, "yes", "", &["import", "--from", "claude"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(user.servers(), ["db", "docs", "github"]);
    // What is written while the user reads is not what is trusted.
    user.write("project/pml.toml", "[servers.theirs]\ncommand = \"x\"\n");
    assert_eq!(ask(&user, "y", "project/pml.toml", &["trust"]).status.code(), Some(0));
    assert_eq!(user.servers(), ["db", "docs", "github"]);
    assert_eq!(ask(&user, "n", "", &["trust"]).status.code(), Some(1));
    assert_eq!(user.servers(), ["db", "docs", "github"]);
    assert_eq!(ask(&user, "y", "", &["trust"]).status.code(), Some(0));
    assert_eq!(user.servers(), ["db", "docs", "github", "theirs"]);
}

#[test]
fn doctor_knows_the_clients() {
    let user = User::new();
    user.expect(0, &["import", "--from", "claude", "--yes"]);
    user.expect(0, &["install", "--client", "claude", "--yes"]);
    let text = stdout(&user.expect(0, &["doctor", "clients"]));
    assert!(text.contains("ok       Claude Code: pml is installed as `pml`"), "{text}");
    assert!(text.contains("and in pml: github, docs"), "{text}");
    assert!(text.contains("Cursor: pml is not installed; `pml install --client cursor`"), "{text}");
    // A pml that is gone, and one that is another.
    user.write(".cursor/mcp.json", r#"{"mcpServers": {"pml": {"command": "/no/such/pml", "args": ["serve"]}}}"#);
    user.write("other/pml", "#!/bin/sh\n");
    fs::set_permissions(user.path("other/pml"), fs::Permissions::from_mode(0o755)).unwrap();
    let other = user.path("other/pml");
    user.write(
        ".codex/config.toml",
        &format!("[mcp_servers.pml]\ncommand = {:?}\nargs = [\"serve\"]\n", other.to_str().unwrap()),
    );
    let text = stdout(&user.expect(1, &["doctor", "clients"]));
    assert!(text.contains("`/no/such/pml` is not there") && text.contains("is another pml than this one"), "{text}");
    // As it says, so it is done.
    user.expect(0, &["install", "--client", "cursor", "--yes"]);
    user.expect(0, &["install", "--client", "codex", "--yes"]);
    let report = json_of(&user.expect(0, &["doctor", "clients", "--json"]));
    let rows = report["clients"].as_array().unwrap();
    assert_eq!(rows.len(), 7);
    assert_eq!(rows[2]["files"][0]["pml"]["trouble"], Value::Null, "{report}");
    assert_eq!(rows[0]["files"][2]["double"], json!(["github", "docs"]), "{report}");
    let nobody = User(tempfile::tempdir().unwrap());
    fs::create_dir(nobody.path("project")).unwrap();
    let text = stdout(&nobody.expect(0, &["doctor", "clients"]));
    assert!(text.contains("not found: Claude Code, Claude Desktop, Cursor, VS Code, Codex, Windsurf, Zed"), "{text}");
}
