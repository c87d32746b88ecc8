//! What a person had configured, they still have: whatever is moved, added, edited and taken back, in any order.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use super::{
    cli::{stderr, stdout},
    clients::User,
};

/// A client, its file in a home, the key of its servers, and its file in a project.
const CLIENTS: [(&str, &str, &str, Option<&str>); 7] = [
    ("claude", ".claude.json", "mcpServers", Some(".mcp.json")),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers", None),
    ("cursor", ".cursor/mcp.json", "mcpServers", Some(".cursor/mcp.json")),
    ("vscode", ".config/Code/User/mcp.json", "servers", Some(".vscode/mcp.json")),
    ("codex", ".codex/config.toml", "mcp_servers", Some(".codex/config.toml")),
    ("windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers", None),
    ("zed", ".config/zed/settings.json", "context_servers", Some(".zed/settings.json")),
];
const OWN: &str = ".config/pml/pml.toml";
const PROJECTS: &str = "project/pml.toml";

/// Numbers that are the same in every run with the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}

/// A file of a client as the test knows it.
struct ClientFile {
    client: &'static str,
    path: String,
    key: &'static str,
    /// What it must be in the end.
    expected: Value,
    bytes: String,
    /// Servers that must be found, by what is in their arguments.
    markers: Vec<String>,
    is_project: bool,
    /// Somebody else has written it.
    is_touched: bool,
}

impl ClientFile {
    fn is_toml(&self) -> bool {
        self.path.ends_with(".toml")
    }

    fn parse(&self, text: &str) -> Value {
        match self.is_toml() {
            true => serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap(),
            false => serde_json::from_str(text).unwrap_or_else(|err| panic!("{}: {err}: {text}", self.path)),
        }
    }

    fn write(&self, value: &Value) -> String {
        if !self.is_toml() {
            return format!("{value:#}\n");
        }
        let mut text = "# mine\nmodel = \"m\"\n".to_owned();
        for (name, server) in value[self.key].as_object().unwrap() {
            let (command, args) = (&server["command"], &server["args"]);
            text.push_str(&format!("\n# {name}\n[mcp_servers.{name}]\ncommand = {command}\nargs = {args}\n"));
        }
        text
    }
}

struct World {
    user: User,
    files: Vec<ClientFile>,
    /// Servers that were added to pml by hand.
    by_hand: BTreeSet<String>,
    number: usize,
}

fn server(marker: &str) -> Value {
    json!({"command": "run", "args": [marker, "./relative"]})
}

impl World {
    fn new() -> World {
        let user = User(tempfile::tempdir().unwrap());
        fs::create_dir(user.path("project")).unwrap();
        let folder = user.real("project");
        let mut world = World { user, files: Vec::new(), by_hand: BTreeSet::new(), number: 0 };
        for (client, path, key, project) in CLIENTS {
            let scopes = [Some((path.to_owned(), false)), project.map(|path| (format!("project/{path}"), true))];
            for (path, is_project) in scopes.into_iter().flatten() {
                let scope = if is_project { "project" } else { "user" };
                let own = format!("own-{client}-{scope}");
                // One that all have, one that all have otherwise, one that nobody else has.
                let mut value = json!({key: {
                    "everywhere": server("the-same"), "git": server(&format!("git-{own}")), &own: server(&own),
                }});
                let mut markers = vec!["the-same".to_owned(), format!("git-{own}"), own];
                match client {
                    "codex" => value["model"] = json!("m"),
                    "claude" if !is_project => {
                        value["projects"] = json!({&folder: {"mcpServers": {
                            "local": server("claude-local"), "git": server("git-claude-local"),
                        }}});
                        markers.extend(["claude-local".to_owned(), "git-claude-local".to_owned()]);
                    }
                    _ => value["theme"] = json!("dark"),
                }
                let mut file = ClientFile {
                    client,
                    path,
                    key,
                    expected: value,
                    bytes: String::new(),
                    markers,
                    is_project,
                    is_touched: false,
                };
                file.bytes = file.write(&file.expected);
                world.user.write(&file.path, &file.bytes);
                world.files.push(file);
            }
        }
        world
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.user.path(path)).unwrap_or_default()
    }

    /// One step, whatever it is.
    fn step(&mut self, random: &mut Random) -> String {
        self.number += 1;
        let number = self.number;
        let index = random.below(self.files.len());
        let (client, is_project) = (self.files[index].client, self.files[index].is_project);
        let scope = if is_project { "project" } else { "user" };
        let install = ["install", "--client", client, "--scope", scope, "--yes"];
        match random.below(12) {
            0..=3 => self.run(&[&install[..], &["--move"]].concat()),
            4 => self.run(&install),
            5 => self.run(&["import", "--from", client, "--yes"]),
            6 => {
                let (name, marker) = (format!("hand{number}"), format!("by-hand-{number}"));
                self.by_hand.insert(marker.clone());
                self.run(&["server", "add", &name, "--", "run", &marker])
            }
            7 => {
                let text = format!("{}# noted in step {number}\n", self.read(OWN));
                self.user.write(OWN, &text);
                format!("a comment in {OWN}")
            }
            8 | 9 => self.edit(index),
            10 => self.run(&["install", "--client", client, "--undo"]),
            _ => self.run(&["import", "--undo"]),
        }
    }

    /// The client gets a server, and writes its file anew.
    fn edit(&mut self, index: usize) -> String {
        let (name, marker) = (format!("new{}", self.number), format!("added-{}", self.number));
        let text = self.read(&self.files[index].path);
        let file = &mut self.files[index];
        let (mut now, key) = (file.parse(&text), file.key);
        for value in [&mut now, &mut file.expected] {
            value[key][&name] = server(&marker);
        }
        file.markers.push(marker);
        file.is_touched = true;
        let text = file.write(&now);
        self.user.write(&self.files[index].path, &text);
        format!("{name} in {}", self.files[index].path)
    }

    /// Runs pml; both success and refusal are fine.
    fn run(&self, args: &[&str]) -> String {
        let output = self.user.pml(args);
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 2)), "{args:?}: {output:?}");
        format!("{} -> {code:?}", args.join(" "))
    }

    /// Every server is in its client's file, or the client has pml and pml has it for that scope.
    fn check(&self, log: &[String]) {
        let (own, theirs) = (self.read(OWN), self.read(PROJECTS));
        let has = |text: &str, marker: &str| text.contains(&format!("\"{marker}\""));
        for file in &self.files {
            let text = self.read(&file.path);
            for marker in &file.markers {
                let is_local = marker.ends_with("claude-local");
                let in_pml = match file.is_project || is_local {
                    true => has(&theirs, marker) || (is_local && has(&own, marker)),
                    false => has(&own, marker),
                };
                let is_there = has(&text, marker) || (in_pml && has(&text, "serve"));
                assert!(is_there, "{marker} of {} is gone:\n{}\n{text}\n{own}\n{theirs}", file.path, log.join("\n"));
            }
        }
        for marker in &self.by_hand {
            assert!(has(&own, marker), "{marker} is gone:\n{}\n{own}", log.join("\n"));
        }
    }
}

#[test]
fn nothing_that_was_configured_is_ever_gone_and_everything_can_be_taken_back_in_any_order() {
    for seed in 1..=8 {
        let mut random = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        let mut world = World::new();
        let mut log = vec![format!("seed {seed}")];
        for _ in 0..14 {
            let step = world.step(&mut random);
            log.push(step);
            world.check(&log);
        }
        // All of it back, in whatever order.
        let mut undos: Vec<Vec<&str>> =
            CLIENTS.iter().map(|row| vec!["install", "--client", row.0, "--undo"]).collect();
        undos.push(vec!["import", "--undo"]);
        let mut tries = 0;
        while !undos.is_empty() {
            tries += 1;
            assert!(tries < 300, "there is no end of it:\n{}", log.join("\n"));
            let index = random.below(undos.len());
            let output = world.user.pml(&undos[index]);
            log.push(format!("{} -> {}", undos[index].join(" "), stderr(&output)));
            world.check(&log);
            if stderr(&output).contains("there is no `pml") {
                undos.remove(index);
            }
        }
        let log = log.join("\n");
        for file in &world.files {
            let text = world.read(&file.path);
            assert_eq!(file.parse(&text), file.expected, "{}\n{log}", file.path);
            assert!(file.is_touched || text == file.bytes, "{} has other bytes\n{log}\n{text}", file.path);
        }
        let own: toml::Table = world.read(OWN).parse().unwrap();
        let left = own.get("servers").and_then(|servers| servers.as_table()).map_or(0, toml::Table::len);
        assert_eq!(left, world.by_hand.len(), "{log}\n{own:?}");
        assert!(!world.user.path(PROJECTS).exists(), "{log}");
        let trusted = stdout(&world.user.expect(0, &["trust", "--list", "--json"]));
        assert!(!trusted.contains("pml.toml"), "{trusted}");
    }
}

#[test]
fn an_undo_takes_back_its_own_entries_and_no_others() {
    let world = World::new();
    let user = &world.user;
    let undo = |client: &str, more: &[&str]| user.pml(&[&["install", "--client", client, "--undo"], more].concat());
    for client in ["cursor", "zed"] {
        user.expect(0, &["install", "--client", client, "--move", "--yes"]);
    }
    user.expect(0, &["server", "add", "mine", "--", "run", "mine"]);
    // The first of them, although its file has changed twice since, and with force.
    assert_eq!(undo("cursor", &["--force"]).status.code(), Some(0));
    let own = user.read(OWN);
    assert!(!own.contains("own-cursor-user") && own.contains("own-zed-user") && own.contains("\"mine\""), "{own}");
    // It was there for both.
    assert!(own.contains("\"the-same\""), "{own}");
    // A server that somebody has changed since stays, and what can be taken back is.
    user.write(OWN, &own.replace("\"own-zed-user\", \"./relative\"]", "\"own-zed-user\", \"--more\"]"));
    let undone = undo("zed", &[]);
    assert!(
        stderr(&undone).contains("`own-zed-user` in") && stderr(&undone).contains("has changed since"),
        "{undone:?}"
    );
    let own = user.read(OWN);
    assert!(own.contains("--more") && !own.contains("\"the-same\"") && own.contains("\"mine\""), "{own}");
    assert!(!user.read(".config/zed/settings.json").contains("\"serve\""));
    let refused = undo("zed", &[]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(stderr(&refused).contains("nothing is taken back") && stderr(&refused).contains("--force"), "{refused:?}");
    let forced = undo("zed", &["--force"]);
    assert!(stderr(&forced).contains("what was in the way is kept in"), "{forced:?}");
    assert!(!user.read(OWN).contains("--more") && user.read(OWN).contains("\"mine\""), "{}", user.read(OWN));

    // Where a server cannot go back, since another has its name now, the client keeps pml.
    let path = ".config/Code/User/mcp.json";
    user.expect(0, &["install", "--client", "vscode", "--yes"]);
    user.expect(0, &["install", "--client", "vscode", "--move", "--yes"]);
    let others = ["everywhere", "git", "own-vscode-user"].map(|name| format!("\"{name}\": {{\"command\": \"other\"}}"));
    let text = user.read(path).replacen("\"pml\":", &format!("{},\n    \"pml\":", others.join(", ")), 1);
    user.write(path, &text);
    for _ in 0..2 {
        let refused = undo("vscode", &[]);
        assert!(
            stderr(&refused).contains("`git` is in") && stderr(&refused).contains("again, and stays"),
            "{refused:?}"
        );
        assert_eq!(user.read(path), text);
        assert!(user.read(OWN).contains("own-vscode-user"), "{}", user.read(OWN));
    }
    // A server that no client has any more is not removed, whatever is said.
    user.expect(0, &["import", "--from", "windsurf", "--yes"]);
    let path = ".codeium/windsurf/mcp_config.json";
    user.write(path, "{}");
    for args in [&["import", "--undo"][..], &["import", "--undo", "--force"]] {
        let refused = user.expect(2, args);
        assert!(stderr(&refused).contains("has it no longer (`pml server remove"), "{refused:?}");
        assert!(user.read(OWN).contains("own-windsurf-user"));
    }
}

#[test]
fn servers_of_a_project_stay_the_projects() {
    let world = World::new();
    let user = &world.user;
    let output = user.expect(0, &["install", "--client", "claude", "--move", "--yes"]);
    let (own, theirs) = (user.read(OWN), user.read(PROJECTS));
    assert!(own.contains("git-own-claude-user") && !own.contains("claude-local"), "{own}");
    assert!(theirs.contains("\"claude-local\", \"./relative\"") && !theirs.contains("cwd"), "{theirs}");
    assert!(!theirs.contains("own-claude"), "{theirs}");
    // What stays behind is named.
    let said = stderr(&output);
    for name in ["everywhere", "git", "own-claude-project"] {
        assert!(said.contains(&format!("stays `{name}`, in {}", user.real("project/.mcp.json"))), "{name}: {said}");
    }
    // It counts here and nowhere else, without a question.
    let names = |folder: &str| {
        let output = user.command().current_dir(user.path(folder)).args(["server", "list"]).output().unwrap();
        assert!(!stderr(&output).contains("not trusted"), "{output:?}");
        stdout(&output).lines().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(names("project"), ["everywhere", "git", "local", "own-claude-user"]);
    assert_eq!(names(""), ["everywhere", "git", "own-claude-user"]);

    // A second client brings the same server for the same folder: it is one.
    user.expect(0, &["install", "--client", "claude", "--scope", "project", "--move", "--yes"]);
    let output = user.expect(0, &["install", "--client", "cursor", "--scope", "project", "--move", "--yes"]);
    assert!(
        stderr(&output).contains("skip  `everywhere`") && stderr(&output).contains("the same already"),
        "{output:?}"
    );
    assert_eq!(user.read(PROJECTS).matches("\"the-same\"").count(), 1, "{}", user.read(PROJECTS));

    // A file that somebody else has changed does not become trusted by the way.
    user.write(PROJECTS, &format!("{}[servers.planted]\ncommand = \"x\"\n", user.read(PROJECTS)));
    let output = user.expect(0, &["install", "--client", "zed", "--scope", "project", "--move", "--yes"]);
    assert!(stderr(&output).contains("is not trusted (`pml trust`"), "{output:?}");
    assert!(user.read("project/.zed/settings.json").contains("own-zed-project"));
    let listed = stdout(&user.pml(&["server", "list"]));
    assert!(!listed.contains("planted"), "{listed}");
    // With a file that is named there is no other, and servers start where they did.
    user.write("named.toml", "");
    let named = user.path("named.toml");
    let install =
        ["--config", named.to_str().unwrap(), "install", "--client", "vscode", "--scope", "project", "--move", "--yes"];
    user.expect(0, &install);
    let named = user.read("named.toml");
    assert!(named.contains(&format!("cwd = \"{}\"", user.real("project"))), "{named}");
}

#[test]
fn a_name_that_stands_twice_is_moved_whole_and_secrets_in_command_lines_are_not_shown() {
    let world = World::new();
    let user = &world.user;
    let text = "\u{feff}{\"mcpServers\": {\"a\": {\"command\": \"shadowed\"}, \"b\": {\"command\": \"b\"},\r\n \"a\": {\"command\": \"bash\", \"args\": [\"-c\", \"export SECRET_X=hunter2hunter2; exec run --password 'hunter3'\"]}}}";
    user.write(".cursor/mcp.json", text);
    for args in
        [&["import", "--from", "cursor", "--dry-run"][..], &["install", "--client", "cursor", "--move", "--dry-run"]]
    {
        let output = user.expect(0, args);
        let said = format!("{}{}", stdout(&output), stderr(&output));
        assert!(said.contains("export SECRET_X=***; exec run") && !said.contains("hunter"), "{said}");
    }
    user.expect(0, &["install", "--client", "cursor", "--move", "--yes"]);
    assert!(user.read(OWN).contains("SECRET_X=hunter2hunter2") && !user.read(OWN).contains("shadowed"));
    let listed = stdout(&user.pml(&["server", "list"]));
    assert!(!listed.contains("hunter"), "{listed}");
    let after = user.read(".cursor/mcp.json");
    assert!(!after.contains("shadowed") && after.starts_with('\u{feff}'), "{after}");
    user.expect(0, &["install", "--client", "cursor", "--undo"]);
    assert_eq!(user.read(".cursor/mcp.json"), text);
}

#[test]
fn a_file_of_toml_keeps_every_byte_that_is_not_of_an_entry() {
    let world = World::new();
    let user = &world.user;
    let other = "# mine\r\nmodel = \"\"\"one\r\ntwo\nthree\"\"\" # kept\r\na.x = 1\r\nb.x = 1\na.y = 2\r\n\r\n";
    let codex = format!("{other}[mcp_servers.moved]\r\ncommand = 'run'\r\n\r\n[tui]\r\ntheme = 'dark'\n");
    user.write(".codex/config.toml", &codex);
    user.expect(0, &["install", "--client", "codex", "--move", "--yes"]);
    let entry = format!("\n[mcp_servers.pml]\ncommand = {:?}\nargs = [\"serve\"]\n", env!("CARGO_BIN_EXE_pml"));
    assert_eq!(user.read(".codex/config.toml"), format!("{other}[tui]\r\ntheme = 'dark'\n{entry}"));
    user.expect(0, &["install", "--undo"]);
    assert_eq!(user.read(".codex/config.toml"), codex);

    let own = format!(
        "\u{feff}{}[limits]\r\ncalls = 7 # few\r\n",
        "# mine\r\nservers.a.command = \"x\"\r\nservers.b.command = '''\r\ny\n'''\nservers.a.args = []\r\n"
    );
    user.write(OWN, &own);
    user.expect(0, &["server", "add", "new", "--", "run"]);
    assert_eq!(user.read(OWN), format!("{own}\r\n[servers.new]\r\ncommand = \"run\"\r\n"));
    user.expect(0, &["server", "remove", "new"]);
    assert_eq!(user.read(OWN), own);
    user.expect(0, &["server", "remove", "a"]);
    assert_eq!(user.read(OWN), own.replace("servers.a.command = \"x\"\r\n", "").replace("servers.a.args = []\r\n", ""));
}

#[test]
fn in_the_home_folder_a_file_counts_once() {
    let world = World::new();
    let user = &world.user;
    user.expect(0, &["import", "--from", "cursor", "--yes"]);
    let output = user.command().current_dir(user.path("")).args(["doctor", "clients"]).output().unwrap();
    let cursor = format!("in {}/.cursor/mcp.json and in pml", user.0.path().display());
    assert_eq!(stdout(&output).matches(&cursor).count(), 1, "{output:?}");
}
