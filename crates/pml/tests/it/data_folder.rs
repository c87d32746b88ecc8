//! What pml keeps is for its owner alone, and what others could have put there is not used.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use super::{
    cli::{stderr, stdout},
    peer::{Home, send_signal, write_config},
};

const CALL: [&str; 3] = ["run", "-e", "return await mcp.fix.echo({ text: 'x' })"];

fn data(home: &Home) -> PathBuf {
    home.path().join(".local/share/pml")
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// pml under a umask, as a shell has it.
fn under(home: &Home, umask: &str, args: &[&str]) -> Command {
    let mut command = home.command("sh").into_std();
    command.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_pml")]).args(args);
    command
}

fn all_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| {
        let more = if path.is_dir() { all_below(&path) } else { Vec::new() };
        [path].into_iter().chain(more)
    };
    entries.flat_map(below).collect()
}

#[test]
fn everything_is_made_for_its_owner_whatever_the_umask() {
    for umask in ["000", "002", "277"] {
        let home = Home::with_fixture("");
        let done = |args: &[&str]| {
            let output = under(&home, umask, args).output().unwrap();
            assert!(output.status.success(), "{umask} {args:?}: {output:?}");
        };
        done(&CALL);
        done(&["search", "echo a text"]);
        write_config(&home.path().join("pml.toml"), "[limits]\ncalls = 9\n");
        done(&["trust", "--yes"]);
        write_config(&home.path().join("client.json"), r#"{"mcpServers": {"added": {"command": "x"}}}"#);
        done(&["import", "--from", "claude", "--file", "client.json", "--yes"]);
        let mut serving = under(&home, umask, &["serve", "--http", "127.0.0.1:0"]);
        let mut serving = serving.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(serving.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on"), "{line}");
        send_signal(serving.id(), rustix::process::Signal::TERM);
        serving.wait().unwrap();

        let found = all_below(&data(&home));
        for name in ["audit.jsonl", "token", "trust.json", "catalog", "search", "backups"] {
            assert!(found.iter().any(|path| path.ends_with(name)), "{name} is missing: {found:?}");
        }
        for path in found.iter().chain([&data(&home)]) {
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(path), expected, "{umask}: {}", path.display());
        }
    }
}

#[test]
fn the_folder_of_the_configuration_is_not_for_others_to_write() {
    let home = Home::empty();
    let output = under(&home, "000", &["server", "add", "a", "--", "x"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!((mode(home.config().parent().unwrap()) & 0o022, mode(&home.config())), (0, 0o600));
    assert!(home.pml(&["server", "list"]).status.success());
}

#[test]
fn a_data_folder_that_others_can_change_is_closed_or_refused() {
    let home = Home::with_fixture("");
    let folder = data(&home);
    let ran = |output: &Output| stdout(output).trim() == "x";
    assert!(ran(&home.pml(&CALL)));
    set_mode(&folder, 0o777);
    let output = home.pml(&CALL);
    assert!(ran(&output) && stderr(&output).contains("had mode 0777"), "{output:?}");
    assert_eq!(mode(&folder), 0o755);
    assert!(!stderr(&home.pml(&CALL)).contains("had mode"));
    // One that others need as it is.
    set_mode(&folder, 0o1777);
    for args in [&CALL[..], &["trust", "--list"], &["import", "--undo"]] {
        let output = home.pml(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(stderr(&output).contains("can be changed by others (mode 1777)\nhint: name a folder"), "{output:?}");
    }
    assert_eq!(mode(&folder), 0o1777);
    set_mode(&folder, 0o700);
    if chown(&folder, Some(65534), None).is_ok() {
        let output = home.pml(&CALL);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("belongs to user 65534, not to you"), "{output:?}");
    }
}

#[test]
fn an_audit_log_that_is_a_link_or_somebody_elses_is_not_written() {
    let home = Home::with_fixture("");
    let audit = data(&home).join("audit.jsonl");
    let ran = |output: &Output| stdout(output).trim() == "x";
    assert!(ran(&home.pml(&CALL)));
    let lines = || fs::read_to_string(&audit).unwrap().lines().count();
    assert_eq!(lines(), 2);
    set_mode(&audit, 0o644);
    let output = home.pml(&CALL);
    assert!(ran(&output) && stderr(&output).contains("audit.jsonl` had mode 0644"), "{output:?}");
    assert_eq!((mode(&audit), lines()), (0o600, 4));

    let elsewhere = home.path().join("elsewhere");
    fs::write(&elsewhere, "precious").unwrap();
    fs::remove_file(&audit).unwrap();
    symlink(&elsewhere, &audit).unwrap();
    let output = home.pml(&CALL);
    assert!(ran(&output), "{output:?}");
    let said = stderr(&output);
    assert!(said.contains("there is no audit log") && said.contains("audit.jsonl` is a symbolic link"), "{said}");
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious");
    let doctor = home.pml(&["doctor", "files"]);
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");

    fs::remove_file(&audit).unwrap();
    fs::write(&audit, "").unwrap();
    set_mode(&audit, 0o600);
    if chown(&audit, Some(65534), None).is_ok() {
        let output = home.pml(&CALL);
        assert!(stderr(&output).contains("belongs to user 65534, not to you"), "{output:?}");
        assert_eq!(lines(), 0);
    }
    // A pipe is not waited for.
    fs::remove_file(&audit).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &audit, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(ran(&home.pml(&CALL)));
}

#[test]
fn a_planted_token_or_login_is_not_used() {
    let home = Home::with_fixture("");
    let token = data(&home).join("token");
    fs::create_dir_all(data(&home)).unwrap();
    let planted = home.path().join("planted");
    fs::write(&planted, "0123456789abcdef0123456789abcdef").unwrap();
    set_mode(&planted, 0o600);
    let serve = ["serve", "--http", "127.0.0.1:0"];
    let refused = |part: &str| {
        let output = home.pml(&serve);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains(part) && stderr(&output).contains("hint: remove the file"), "{output:?}");
    };
    symlink(&planted, &token).unwrap();
    refused("is a symbolic link");
    if chown(&planted, Some(65534), None).is_ok() {
        fs::remove_file(&token).unwrap();
        fs::copy(&planted, &token).unwrap();
        chown(&token, Some(65534), None).unwrap();
        refused("belongs to user 65534, not to you");
    }
    // Nor is a login, which would be sent to a server in the user's name.
    let logins = data(&home).join("credentials.json");
    fs::write(&logins, r#"{"format":1,"logins":[]}"#).unwrap();
    set_mode(&logins, 0o666);
    let output = home.pml(&["server", "logout", "fix"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("credentials.json` can be changed by others (mode 0666)"), "{output:?}");
}
