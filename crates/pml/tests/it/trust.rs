//! The `pml.toml` of a folder counts only if the user has trusted it, as it is.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

use pml_testkit::fixture_path;
use serde_json::{Value, json};

use super::{
    cli::{json_of, stderr, stdout},
    peer::{Era, Home, Peer, eventually, write_config},
};

/// A server that leaves a mark when it is started.
fn marking(home: &Home, name: &str) -> String {
    let mark = mark(home, name);
    format!("[servers.{name}]\ncommand = \"sh\"\nargs = [\"-c\", \"touch {}; exec {}\"]\n", mark.display(), fixture())
}

fn mark(home: &Home, name: &str) -> PathBuf {
    home.path().join(format!("{name}-was-started"))
}

fn fixture() -> String {
    fixture_path().to_str().unwrap().to_owned()
}

fn server(name: &str) -> String {
    format!("[servers.{name}]\ncommand = {:?}\n", fixture())
}

/// The file of the working directory, which is the home.
fn project(home: &Home) -> PathBuf {
    fs::canonicalize(home.path()).unwrap().join("pml.toml")
}

fn names(home: &Home) -> Vec<String> {
    let list = json_of(&home.pml(&["server", "list", "--json"]));
    list["servers"].as_array().unwrap().iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect()
}

fn succeeds(output: Output) -> Output {
    assert!(output.status.success(), "{output:?}");
    output
}

/// The servers that a running pml has.
async fn running(peer: &mut Peer) -> Vec<String> {
    let overview = peer.call("search_tools", json!({"query": ""})).await;
    let servers = overview["structuredContent"]["servers"].as_array().unwrap().clone();
    servers.iter().map(|server| server["server"].as_str().unwrap().to_owned()).collect()
}

async fn until_running(peer: &mut Peer, expected: &[&str]) {
    let until = tokio::time::Instant::now() + super::peer::PATIENCE;
    loop {
        let servers = running(peer).await;
        if servers == expected {
            return;
        }
        assert!(tokio::time::Instant::now() < until, "{servers:?}, not {expected:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_folder_is_not_trusted_because_pml_is_started_in_it() {
    let home = Home::new(&server("own"));
    write_config(&project(&home), &marking(&home, "planted"));
    let log = home.path().join("log");
    let mut peer = home.stdio_logged(Era::Legacy, &[], fs::File::create(&log).unwrap());
    let hello = peer.request("initialize", super::peer::initialize(super::peer::LEGACY[0])).await;
    let instructions = hello["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains("`pml trust`"), "{instructions}");
    assert_eq!(running(&mut peer).await, ["own"]);
    assert_eq!(peer.value("return await mcp.own.echo({ text: 'fine' })").await, "fine");
    peer.end().await;
    assert!(!mark(&home, "planted").exists());
    let said = fs::read_to_string(&log).unwrap();
    let warning = format!("warning: `{}` is not used: it is not trusted", project(&home).display());
    assert_eq!(said.matches(&warning).count(), 1, "{said}");
    assert!(said.contains("hint: `pml trust`"), "{said}");

    for args in [&["run", "-e", "return 1"][..], &["tools"], &["server", "list"], &["search", "echo"]] {
        let output = home.pml(args);
        assert!(stderr(&output).contains(&warning), "{args:?}: {output:?}");
    }
    assert_eq!(names(&home), ["own"]);
    assert!(!mark(&home, "planted").exists());
}

#[test]
fn a_project_that_is_trusted_counts_over_the_users_file_and_never_against_its_rules() {
    let home = Home::new(&format!(
        "{}{}disabled_tools = [\"add\"]\n[policy]\ndeny = [\"*:sleep\"]\n[limits]\ncalls = 3\nmemory_mb = 32\n",
        server("own"),
        server("both"),
    ));
    let theirs = format!(
        "{}{}[policy]\nallow = [\"*\"]\ndeny = [\"own:echo\"]\n[limits]\ncalls = 2\n",
        marking(&home, "theirs"),
        server("both")
    );
    write_config(&project(&home), &theirs);

    // Without a terminal it is shown, and nothing else.
    let shown = home.pml(&["trust"]);
    assert_eq!(shown.status.code(), Some(2), "{shown:?}");
    assert!(stderr(&shown).contains("hint: --yes"), "{shown:?}");
    for part in ["is not trusted", "+ servers.theirs.command = \"sh\"", "touch ", "+ policy.deny = [\"own:echo\"]"] {
        assert!(stdout(&shown).contains(part), "{part}: {shown:?}");
    }
    assert!(stderr(&shown).contains("`both` takes the place of your own"), "{shown:?}");
    assert_eq!(names(&home), ["both", "own"]);

    succeeds(home.pml(&["trust", "--yes"]));
    assert_eq!(names(&home), ["both", "own", "theirs"]);
    let run = |code: &str| json_of(&home.pml(&["run", "--json", "-e", code]));
    assert_eq!(run("return await mcp.theirs.echo({ text: 'x' })")["result"], "x");
    assert!(mark(&home, "theirs").exists());
    for denied in ["theirs.sleep({ ms: 1 })", "own.echo({ text: 'x' })", "both.add({ a: 1, b: 2 })"] {
        let outcome = run(&format!("try {{ return await mcp.{denied} }} catch (e) {{ return e.code }}"));
        assert_eq!(outcome["result"], "POLICY_DENIED", "{denied}: {outcome}");
    }
    // Limits count by key.
    let outcome = run("for (let i = 0; i < 3; i++) await mcp.theirs.echo({ text: 'x' })");
    assert_eq!(outcome["error"]["code"], "CALL_BUDGET_SPENT", "{outcome}");
    let again = succeeds(home.pml(&["trust"]));
    assert!(stdout(&again).contains("is trusted"), "{again:?}");
}

#[test]
fn a_change_is_shown_as_a_difference_and_does_not_count_before() {
    let home = Home::new("");
    write_config(&project(&home), &format!("{}env = {{ TOKEN = \"hunter2\" }}\n", server("a")));
    succeeds(home.pml(&["trust", "--yes"]));
    assert_eq!(names(&home), ["a"]);
    write_config(
        &project(&home),
        &format!("{}env = {{ TOKEN = \"hunter3\", LD_PRELOAD = \"/tmp/x\" }}\n{}", server("a"), marking(&home, "b")),
    );
    let listed = home.pml(&["server", "list", "--json"]);
    assert_eq!(json_of(&listed)["servers"], json!([]), "{listed:?}");
    assert!(stderr(&listed).contains("has changed since you trusted it (servers.a.env.LD_PRELOAD, "), "{listed:?}");
    let shown = home.pml(&["trust"]);
    let text = stdout(&shown);
    for part in [
        "- servers.a.env.TOKEN = \"***\"",
        "+ servers.a.env.TOKEN = \"***\" (another value)",
        "+ servers.a.env.LD_PRELOAD = \"/tmp/x\"",
        "+ servers.b.command = \"sh\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("servers.a.command") && !text.contains("hunter"), "{text}");
    let report = json_of(&home.pml(&["trust", "--json"]));
    assert_eq!((&report["trusted"], &report["changes"][0]["key"]), (&json!(false), &json!("servers.a.env.LD_PRELOAD")));
    let report = json_of(&succeeds(home.pml(&["trust", "--yes", "--json"])));
    assert_eq!(report["trusted"], true, "{report}");
    assert_eq!(names(&home), ["a", "b"]);
}

#[test]
fn what_is_trusted_is_listed_and_taken_back() {
    let home = Home::new("");
    assert!(stderr(&succeeds(home.pml(&["trust", "--list"]))).contains("no project's pml.toml is trusted"));
    write_config(&project(&home), &server("a"));
    let sub = home.path().join("sub/pml.toml");
    write_config(&sub, &server("b"));
    succeeds(home.pml(&["trust", "--yes"]));
    succeeds(home.pml(&["trust", "--yes", "sub"]));
    let list = json_of(&home.pml(&["trust", "--list", "--json"]));
    let states: Vec<_> = list["files"].as_array().unwrap().iter().map(|file| &file["state"]).collect();
    assert_eq!(states, ["trusted", "trusted"], "{list}");
    assert_eq!(list["files"][0]["path"], project(&home).to_str().unwrap());
    assert_eq!(list["files"][0]["sha256"].as_str().unwrap().len(), 64);
    write_config(&sub, &server("c"));
    assert!(stdout(&home.pml(&["trust", "--list"])).contains("changed   "));
    fs::remove_dir_all(sub.parent().unwrap()).unwrap();
    assert!(stdout(&home.pml(&["trust", "--list"])).contains("gone      "));
    // Also a file that is gone with its folder.
    succeeds(home.pml(&["trust", "--revoke", "sub"]));
    succeeds(home.pml(&["trust", "--revoke"]));
    assert_eq!(names(&home), [""; 0]);
    let none = home.pml(&["trust", "--revoke"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("is not trusted\nhint: `pml trust --list`"), "{none:?}");
    let records = home.path().join(".local/share/pml/trust.json");
    assert_eq!(fs::metadata(&records).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn what_cannot_be_trusted_is_refused() {
    let home = Home::new("");
    let check = |args: &[&str], part: &str| {
        let output = home.pml(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(stderr(&output).contains("error[CONFIG_INVALID]"), "{output:?}");
        assert!(stderr(&output).contains(part), "{args:?}: {part}: {output:?}");
    };
    check(&["trust"], "there is no file");
    check(&["trust", "nowhere/pml.toml"], "there is no file");
    check(&["trust", ".config/pml"], "is your own file");
    write_config(&home.path().join("other.toml"), "");
    check(&["trust", "other.toml"], "only a file called pml.toml");
    write_config(&project(&home), "[servers.a]\ncomand = \"x\"\n");
    check(&["trust", "--yes"], "line 2, column 1");
    write_config(&project(&home), "[sandbox]\nallow_weak = true\n");
    check(&["trust", "--yes"], "`sandbox.allow_weak` cannot be set by a project's file");
    write_config(&project(&home), &server("a"));
    fs::set_permissions(project(&home), fs::Permissions::from_mode(0o666)).unwrap();
    check(&["trust", "--yes"], "can be changed by others (mode 0666)\nhint: ");
    assert_eq!(names(&home), [""; 0]);
    // Deep nesting is a mistake, not the end of pml.
    write_config(&project(&home), &format!("a = {}", "[".repeat(100_000)));
    check(&["trust", "--yes"], "line 1");
}

#[test]
fn a_trusted_file_that_others_can_change_does_not_count() {
    let home = Home::new("");
    let file = project(&home);
    write_config(&file, &server("a"));
    succeeds(home.pml(&["trust", "--yes"]));
    for mode in [0o664, 0o646] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let output = home.pml(&["server", "list"]);
        let expected = format!("is not used: it can be changed by others (mode {mode:04o})");
        assert!(stderr(&output).contains(&expected) && stderr(&output).contains("chmod go-w"), "{output:?}");
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(names(&home), ["a"]);
    if chown(&file, Some(65534), None).is_ok() {
        let output = home.pml(&["server", "list"]);
        assert!(stderr(&output).contains("is not used: it belongs to user 65534, not to you"), "{output:?}");
    }
    // A planted record of trust is none.
    let (home, data) = (Home::new(""), "other-data");
    write_config(&project(&home), &server("a"));
    succeeds(home.pml(&["--data-dir", data, "trust", "--yes"]));
    let planted = home.path().join(".local/share/pml/trust.json");
    fs::create_dir_all(planted.parent().unwrap()).unwrap();
    symlink(home.path().join(data).join("trust.json"), &planted).unwrap();
    let output = home.pml(&["server", "list"]);
    assert!(stderr(&output).contains("trust.json` is a symbolic link"), "{output:?}");
    fs::remove_file(&planted).unwrap();
    fs::copy(home.path().join(data).join("trust.json"), &planted).unwrap();
    assert_eq!(names(&home), ["a"]);
    if chown(&planted, Some(65534), None).is_ok() {
        assert_eq!(names(&home), [""; 0]);
    }
}

#[test]
fn files_that_are_named_need_no_trust_but_must_be_the_users() {
    let home = Home::new(&server("own"));
    let file = home.path().join("named.toml");
    write_config(&file, &server("named"));
    let clients = home.path().join("clients.json");
    write_config(&clients, &format!("{{\"mcpServers\": {{\"client\": {{\"command\": {:?}}}}}}}", fixture()));
    let list = |args: &[&str]| home.pml(&[args, &["server", "list", "--json"]].concat());
    assert_eq!(json_of(&list(&["--config", "named.toml"]))["servers"][0]["name"], "named");
    assert_eq!(json_of(&list(&["--mcp-config", "clients.json"]))["servers"][0]["name"], "client");
    for (path, option) in [(&file, "--config"), (&clients, "--mcp-config"), (&home.config(), "")] {
        let args = [option, path.to_str().unwrap()];
        let args = if option.is_empty() { &[][..] } else { &args[..] };
        let refused = |part: &str| {
            let output = list(args);
            assert_eq!(output.status.code(), Some(2), "{output:?}");
            let said = stderr(&output);
            assert!(said.contains("error[CONFIG_INVALID]") && said.contains(part), "{part}: {said}");
        };
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
        refused("can be changed by others (mode 0666)\nhint: ");
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        succeeds(list(args));
        if chown(path, Some(65534), None).is_ok() {
            refused("belongs to user 65534, not to you\nhint: ");
            chown(path, Some(0), None).unwrap();
        }
        let folder = path.parent().unwrap();
        let mode = fs::metadata(folder).unwrap().permissions();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        refused("which everybody can change\nhint: chmod o-w ");
        fs::set_permissions(folder, fs::Permissions::from_mode(0o1777)).unwrap();
        succeeds(list(args));
        fs::set_permissions(folder, mode).unwrap();
    }
}

#[test]
fn a_link_counts_where_it_was_trusted_and_nowhere_else() {
    let home = Home::new("");
    let real = home.path().join("shared/team.toml");
    write_config(&real, &server("team"));
    symlink(&real, project(&home)).unwrap();
    succeeds(home.pml(&["trust", "--yes"]));
    assert_eq!(names(&home), ["team"]);
    // The same file by a link in another folder, where `./server` would be another program.
    let other = home.path().join("other");
    fs::create_dir(&other).unwrap();
    symlink(&real, other.join("pml.toml")).unwrap();
    let mut command = home.command(env!("CARGO_BIN_EXE_pml")).into_std();
    let output = command.current_dir(&other).args(["server", "list", "--json"]).output().unwrap();
    assert_eq!(json_of(&output)["servers"], json!([]), "{output:?}");
    // Another target.
    let evil = home.path().join("shared/evil.toml");
    write_config(&evil, &server("evil"));
    fs::remove_file(project(&home)).unwrap();
    symlink(&evil, project(&home)).unwrap();
    assert_eq!(names(&home), [""; 0]);
}

/// What a program could do that writes files through a server.
fn plant(path: &Path, text: &str) {
    write_config(path, text);
}

#[tokio::test]
async fn a_running_pml_takes_over_only_what_is_trusted() {
    let home = Home::new(&server("own"));
    write_config(&project(&home), &server("theirs"));
    succeeds(home.pml(&["trust", "--yes"]));
    let log = home.path().join("log");
    let mut peer = home.stdio_logged(Era::Modern, &[], fs::File::create(&log).unwrap());
    until_running(&mut peer, &["own", "theirs"]).await;
    let said = || fs::read_to_string(&log).unwrap();

    plant(&project(&home), &format!("{}{}", server("theirs"), marking(&home, "planted")));
    eventually(|| said().contains("has changed since you trusted it (servers.planted.args, servers.planted.command)"))
        .await;
    assert!(said().contains("the text that you trusted stays in use"), "{}", said());
    // The user's own file counts meanwhile, and the project's goes on as it was.
    home.configure(&server("mine"));
    until_running(&mut peer, &["mine", "theirs"]).await;
    assert_eq!(peer.value("return await mcp.theirs.echo({ text: 'x' })").await, "x");
    assert!(!mark(&home, "planted").exists());
    assert_eq!(said().matches("has changed since you trusted it").count(), 1, "{}", said());

    succeeds(home.pml(&["trust", "--yes"]));
    until_running(&mut peer, &["mine", "planted", "theirs"]).await;
    eventually(|| mark(&home, "planted").exists()).await;

    // What is revoked goes, also if the file is still there; and what is removed needs no trust.
    succeeds(home.pml(&["trust", "--revoke"]));
    until_running(&mut peer, &["mine"]).await;
    succeeds(home.pml(&["trust", "--yes"]));
    until_running(&mut peer, &["mine", "planted", "theirs"]).await;
    fs::remove_file(project(&home)).unwrap();
    until_running(&mut peer, &["mine"]).await;
    peer.end().await;
}

#[tokio::test]
async fn a_file_that_appears_while_pml_runs_is_not_taken_over() {
    let home = Home::new(&server("own"));
    let log = home.path().join("log");
    let mut peer = home.stdio_logged(Era::Modern, &[], fs::File::create(&log).unwrap());
    until_running(&mut peer, &["own"]).await;
    plant(&project(&home), &marking(&home, "planted"));
    eventually(|| fs::read_to_string(&log).unwrap().contains("is not used: it is not trusted")).await;
    assert_eq!(running(&mut peer).await, ["own"]);
    assert!(!mark(&home, "planted").exists());
    // It changes again, before anybody has looked.
    plant(&project(&home), &format!("{}{}", server("other"), marking(&home, "planted")));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(running(&mut peer).await, ["own"]);
    assert!(!mark(&home, "planted").exists());
    succeeds(home.pml(&["trust", "--yes"]));
    until_running(&mut peer, &["other", "own", "planted"]).await;
    peer.end().await;
}

#[test]
fn commands_change_the_users_file_and_a_projects_only_when_told() {
    let home = Home::new("");
    write_config(&project(&home), &server("theirs"));
    succeeds(home.pml(&["server", "add", "mine", "--", "x"]));
    assert!(fs::read_to_string(home.config()).unwrap().contains("[servers.mine]"));
    // To trust what is not looked at, because something is added to it, would be a trap.
    let refused = home.pml(&["server", "add", "new", "--project", "--", "x"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("is not trusted, and not changed\nhint: `pml trust`"), "{refused:?}");
    succeeds(home.pml(&["trust", "--yes"]));
    succeeds(home.pml(&["server", "add", "new", "--project", "--", "x"]));
    assert_eq!(names(&home), ["mine", "new", "theirs"], "what pml writes is trusted as it was");
    let missing = home.pml(&["server", "remove", "new"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("hint: `pml server remove --project new`"), "{missing:?}");
    succeeds(home.pml(&["server", "remove", "--project", "new"]));
    assert_eq!(names(&home), ["mine", "theirs"]);
    // By its name, the same file.
    let path = project(&home);
    succeeds(home.pml(&["--config", path.to_str().unwrap(), "server", "add", "more", "--", "x"]));
    assert_eq!(names(&home), ["mine", "more", "theirs"]);
    let both = home.pml(&["--config", path.to_str().unwrap(), "server", "add", "more", "--project", "--", "x"]);
    assert!(stderr(&both).contains("another file is named"), "{both:?}");
    // A file that pml makes at the user's word is trusted.
    fs::remove_file(&path).unwrap();
    succeeds(home.pml(&["server", "add", "first", "--project", "--", "x"]));
    assert_eq!(names(&home), ["first", "mine"]);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
}

#[test]
fn an_import_into_a_trusted_file_and_its_undo_keep_the_trust() {
    let home = Home::new("");
    let path = project(&home);
    write_config(&path, &server("theirs"));
    succeeds(home.pml(&["trust", "--yes"]));
    let client = home.path().join("client.json");
    write_config(&client, r#"{"mcpServers": {"added": {"command": "x"}}}"#);
    let config = ["--config", path.to_str().unwrap()];
    let import = ["import", "--from", "claude", "--file", client.to_str().unwrap(), "--yes"];
    succeeds(home.pml(&[&config[..], &import].concat()));
    assert_eq!(names(&home), ["added", "theirs"]);
    succeeds(home.pml(&["import", "--undo"]));
    assert_eq!(names(&home), ["theirs"]);
}

#[test]
fn doctor_says_which_files_count() {
    let home = Home::new(&server("own"));
    write_config(&project(&home), &server("theirs"));
    let row = |role: &str| {
        let report = json_of(&home.pml(&["doctor", "files", "--json"]));
        let rows = report["files"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["role"] == role).unwrap_or(Value::Null)
    };
    assert_eq!((&row("user")["state"], &row("project")["state"]), (&json!("used"), &json!("unused")));
    let output = succeeds(home.pml(&["doctor", "files"]));
    assert!(stdout(&output).contains("is not used: it is not trusted"), "{output:?}");
    assert!(stdout(&output).contains("hint: `pml trust`") && stderr(&output).is_empty(), "{output:?}");
    succeeds(home.pml(&["trust", "--yes"]));
    assert_eq!((&row("project")["state"], &row("trust")["state"]), (&json!("used"), &json!("used")));
    let records = home.path().join(".local/share/pml/trust.json");
    fs::set_permissions(&records, fs::Permissions::from_mode(0o644)).unwrap();
    let output = home.pml(&["doctor", "files"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("FAILED") && stdout(&output).contains("can be read by others"), "{output:?}");
}

#[test]
fn the_folder_of_the_users_own_file_is_no_project() {
    let home = Home::new(&server("own"));
    let mut command = home.command(env!("CARGO_BIN_EXE_pml")).into_std();
    let folder = home.config().parent().unwrap().to_owned();
    let output = command.current_dir(folder).args(["server", "list", "--json"]).output().unwrap();
    assert_eq!(json_of(&output)["servers"][0]["name"], "own");
    assert!(stderr(&output).is_empty(), "{output:?}");
}

#[test]
fn a_mistake_that_only_two_files_make_together_names_both() {
    let home = Home::new("[limits]\nmax_timeout_ms = 40000\n");
    write_config(&project(&home), "[limits]\ntimeout_ms = 50000\n");
    succeeds(home.pml(&["trust", "--yes"]));
    let output = home.pml(&["server", "list"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = stderr(&output);
    assert!(
        said.contains(&format!("`{}`", project(&home).display())) && said.contains(".config/pml/pml.toml` and"),
        "{said}"
    );
}
