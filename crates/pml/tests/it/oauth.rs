//! Logins at servers that want one: a real pml, a real authorization server, a browser played by the test.

#![expect(clippy::disallowed_methods, reason = "these tests start pml as a shell would")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use pml::{
    broker::Policy,
    upstream::{HttpWire, oauth::Logins},
};
use pml_testkit::Fixture;
use pml_wire::ErrorCode;
use serde_json::{Value, json};

use super::{
    cli::{json_of, stderr, stdout},
    gateway::{Gateway, remote},
    peer::write_config,
};

const CALL: &str = "return await mcp.fix.add({ a: 20, b: 22 })";
/// What is in every code and token of the fixture.
const SECRET: &str = "s3cr3t";

/// A folder of a user, with a server `fix` that wants a login.
struct Home {
    folder: tempfile::TempDir,
    fixture: Fixture,
}

impl Home {
    fn new(args: &[&str]) -> Home {
        Home::with(args, "")
    }

    /// With more in the server's table.
    fn with(args: &[&str], more: &str) -> Home {
        let transport = if args.contains(&"--transport") { &[][..] } else { &["--transport", "http"] };
        let fixture = Fixture::start(&[transport, args].concat());
        let home = Home { folder: tempfile::tempdir().unwrap(), fixture };
        home.configure(&format!("[servers.fix]\nurl = {:?}\n{more}", home.fixture.url));
        home
    }

    fn configure(&self, text: &str) {
        write_config(&self.folder.path().join(".config/pml/pml.toml"), text);
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pml"));
        let removed = ["PML_CONFIG", "PML_LOG", "RUST_LOG", "XDG_CONFIG_HOME", "DISPLAY", "WAYLAND_DISPLAY"];
        for name in removed {
            command.env_remove(name);
        }
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("HOME", self.folder.path()).env("PML_DATA_DIR", self.data()).env("KNOWN", "known-secret");
        command
    }

    fn pml(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn run(&self) -> Output {
        self.pml(&["run", "-e", CALL])
    }

    /// Begins a login, up to the address that is printed.
    fn begin(&self, args: &[&str]) -> Begun {
        self.begin_with(args, &[])
    }

    fn begin_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Begun {
        let args = [&["server", "login", "fix", "--json"], args].concat();
        let mut command = self.command(&args);
        command.envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            if lines.read_line(&mut line).unwrap() == 0 {
                break None;
            }
            said += &line;
            if line.trim().starts_with("http") {
                break Some(line.trim().to_owned());
            }
        };
        Begun { child, lines, said, address }
    }

    /// A whole login.
    fn log_in(&self, args: &[&str]) -> Output {
        let begun = self.begin(args);
        if let Some(address) = &begun.address {
            browse(address);
        }
        begun.end()
    }

    fn logged_in(&self) {
        let output = self.log_in(&[]);
        assert!(output.status.success(), "{output:?}");
    }

    fn origin(&self) -> &str {
        self.fixture.url.rsplit_once('/').unwrap().0
    }

    fn counts(&self) -> Value {
        serde_json::from_str(&request("GET", &format!("{}/oauth/counts", self.origin())).body).unwrap()
    }

    fn tell(&self, what: &str) {
        assert_eq!(request("POST", &format!("{}/oauth/{what}", self.origin())).status, 200);
    }

    /// Changes what is known of the only login.
    fn change_login(&self, change: impl FnOnce(&mut Value)) {
        let path = self.data().join("credentials.json");
        let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut file["logins"][0]);
        fs::write(&path, file.to_string()).unwrap();
    }

    /// Lets pml believe that the token ends now.
    fn let_token_end(&self) {
        self.change_login(|login| {
            login["expires_at_ms"] = login["obtained_at_ms"].clone();
        });
    }

    /// Services with the same server and the same logins.
    fn gateway(&self) -> Gateway {
        let server = remote("fix", &self.fixture.url, HttpWire::Auto);
        let server = server.with(|settings| settings.backoff.max = Duration::from_secs(600));
        Gateway::with_data(vec![server], Policy::default(), tempfile::tempdir().unwrap(), &self.data())
    }
}

struct Begun {
    child: Child,
    lines: BufReader<std::process::ChildStderr>,
    said: String,
    address: Option<String>,
}

impl Begun {
    fn end(mut self) -> Output {
        self.lines.read_to_string(&mut self.said).unwrap();
        let mut output = self.child.wait_with_output().unwrap();
        output.stderr = self.said.into_bytes();
        output
    }
}

struct Page {
    status: u16,
    location: Option<String>,
    body: String,
}

fn request(method: &str, url: &str) -> Page {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "{method} /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let location = head.lines().find_map(|line| line.strip_prefix("Location: ")).map(str::to_owned);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Page { status, location, body: body.to_owned() }
}

/// Opens an address as a browser would, and follows it.
fn browse(url: &str) -> Page {
    let page = request("GET", url);
    match &page.location {
        Some(location) => browse(location),
        None => page,
    }
}

fn failed(output: &Output, code: &str, parts: &[&str]) {
    let text = stderr(output);
    assert!(!output.status.success() && text.contains(&format!("error[{code}]")), "{output:?}");
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains(SECRET), "{text}");
}

#[test]
fn a_login_is_given_kept_shown_used_and_forgotten() {
    let home = Home::new(&["--oauth", "3600"]);
    failed(&home.run(), "AUTH_REQUIRED", &["wants a login", "`pml server login fix`"]);
    let begun = home.begin(&["--log", "trace", "--no-browser"]);
    let page = browse(begun.address.as_ref().unwrap());
    assert_eq!((page.status, page.body.contains("go back to the terminal")), (200, true));
    let output = begun.end();
    assert!(output.status.success(), "{output:?}");
    let login = json_of(&output);
    assert_eq!((&login["server"], &login["issuer"]), (&json!("fix"), &json!(home.origin())));
    assert_eq!(login["scopes"], json!(["list"]));
    assert!(login["expires_at"].as_u64().unwrap() > 1_700_000_000, "{login}");
    let mode = fs::metadata(home.data().join("credentials.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let mut all = vec![output];
    all.push(home.pml(&["--log", "trace", "run", "-e", CALL]));
    assert_eq!(stdout(&all[1]).trim(), "42", "{:?}", all[1]);
    for (args, expected) in
        [(&["server", "list"][..], "then renewed"), (&["server", "status"], "min more"), (&["doctor"], "logged in by")]
    {
        let output = home.pml(args);
        assert!(stdout(&output).contains("logged in") && stdout(&output).contains(expected), "{output:?}");
        all.push(output);
    }
    let list = home.pml(&["server", "list", "--json"]);
    assert_eq!(json_of(&list)["servers"][0]["login"]["expires_at"], login["expires_at"]);
    all.extend([list, home.pml(&["server", "status", "--json"]), home.pml(&["doctor", "--json"])]);
    for output in &all {
        assert!(!stdout(output).contains(SECRET) && !stderr(output).contains(SECRET), "{output:?}");
    }

    let output = home.pml(&["server", "logout", "fix"]);
    assert!(output.status.success() && stderr(&output).contains("forgotten"), "{output:?}");
    assert!(!fs::read_to_string(home.data().join("credentials.json")).unwrap().contains(SECRET));
    failed(&home.run(), "AUTH_REQUIRED", &["`pml server login fix`"]);
    let output = home.pml(&["doctor", "servers"]);
    assert!(
        stdout(&output).contains("FAILED") && stdout(&output).contains("hint: `pml server login fix`"),
        "{output:?}"
    );
    assert!(stderr(&home.pml(&["server", "logout", "fix"])).contains("nobody is logged in"));
    failed(&home.pml(&["server", "logout", "fxi"]), "CONFIG_INVALID", &["did you mean `fix`?"]);
}

#[test]
fn every_transport_carries_the_token() {
    for args in [
        ["--transport", "sse", "--era", "legacy"],
        ["--transport", "http", "--era", "legacy"],
        ["--transport", "http", "--era", "modern"],
    ] {
        let home = Home::new(&[&args[..], &["--oauth", "3600"]].concat());
        home.logged_in();
        let output = home.run();
        assert_eq!(stdout(&output).trim(), "42", "{args:?}: {output:?}");
    }
}

#[test]
fn a_login_that_is_not_right_is_refused() {
    #[rustfmt::skip]
    let table = [
        ("oauth-deny", &["the login was denied: access_denied: not today"][..]),
        ("oauth-wrong-iss", &["http://evil.invalid", "is not used"]),
        ("oauth-no-iss", &["does not say who it is"]),
        ("oauth-no-registration", &["cannot register itself", "--client-id"]),
        ("oauth-insecure", &["not safe", "http://auth.invalid/token"]),
    ];
    for (fault, parts) in table {
        let home = Home::new(&["--oauth", "3600", "--fault", fault]);
        failed(&home.log_in(&[]), "LOGIN_FAILED", parts);
        assert!(!home.data().join("credentials.json").exists(), "{fault}");
    }
    let home = Home::new(&["--oauth", "3600", "--fault", "oauth-no-metadata", "--fault", "oauth-no-registration"]);
    failed(&home.log_in(&[]), "LOGIN_FAILED", &["no OAuth metadata"]);
}

#[test]
fn a_login_that_makes_no_sense_is_refused() {
    let home = Home::new(&[]);
    failed(&home.log_in(&[]), "LOGIN_FAILED", &["server `fix` wants no login"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    failed(&home.log_in(&["--port", &port]), "CONFIG_INVALID", &["is in use"]);
    failed(
        &home.log_in(&["--client-id", "x", "--client-secret-env", "NOT_SET"]),
        "CONFIG_INVALID",
        &["`NOT_SET` is not set"],
    );
    #[rustfmt::skip]
    let table = [
        ("[servers.fixx]\nurl = \"https://x\"", &["there is no server `fix`", "did you mean `fixx`?"][..]),
        ("[servers.fix]\ncommand = \"x\"", &["runs on this machine"]),
        ("[servers.fix]\nurl = \"https://x\"\nheaders = { Authorization = \"Bearer x\" }", &["remove the header"]),
        ("[servers.fix]\nurl = \"http://example.org/mcp\"", &["no https:// address"]),
        ("[servers.fix]\nurl = \"https://x\"\n[servers.fix.oauth]\nclient_id = \"x\"\nclient_secret = \"${NOT_SET}\"", &["`NOT_SET` is not set"]),
    ];
    for (config, parts) in table {
        home.configure(config);
        failed(&home.log_in(&[]), "CONFIG_INVALID", parts);
    }
}

#[test]
fn a_strangers_answer_is_ignored_and_ctrl_c_ends_the_wait() {
    let home = Home::new(&["--oauth", "3600", "--fault", "oauth-wrong-state"]);
    let begun = home.begin(&[]);
    let address = begun.address.clone().unwrap();
    let page = browse(&address);
    assert_eq!((page.status, page.body.contains("not the answer")), (400, true));
    let redirect = request("GET", &address).location.unwrap();
    let elsewhere = redirect.replace("/callback", "/");
    assert_eq!(browse(&elsewhere).status, 404);
    assert_eq!(home.counts()["exchanges"], json!(null), "no code was used");
    let pid = rustix::process::Pid::from_raw(begun.child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    failed(&begun.end(), "CANCELLED", &["the login was cancelled"]);
}

#[test]
fn the_answer_may_be_pasted() {
    let home = Home::new(&["--oauth", "3600"]);
    let mut begun = home.begin(&["--no-browser"]);
    let redirect = request("GET", begun.address.as_ref().unwrap()).location.unwrap();
    let mut stdin = begun.child.stdin.take().unwrap();
    writeln!(stdin, "hello\n{}", redirect.split_once('?').unwrap().1).unwrap();
    let output = begun.end();
    assert!(output.status.success() && stderr(&output).contains("paste the whole address"), "{output:?}");
    assert_eq!(stdout(&home.run()).trim(), "42");
}

#[test]
fn a_browser_opens_where_there_is_one_and_is_not_needed() {
    let home = Home::new(&["--oauth", "3600"]);
    let (browser, opened) = (home.folder.path().join("xdg-open"), home.folder.path().join("opened"));
    let path = home.folder.path().to_str().unwrap();
    let variables = [("DISPLAY", ":0"), ("PATH", path)];
    for is_there in [false, true] {
        if is_there {
            let script =
                format!("#!/bin/sh\nprintf %s \"$1\" > '{0}.part'\n/bin/mv '{0}.part' '{0}'\n", opened.display());
            fs::write(&browser, script).unwrap();
            fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let begun = home.begin_with(&[], &variables);
        assert_eq!(begun.said.contains("a browser should open"), is_there, "{}", begun.said);
        let address = begun.address.clone().unwrap();
        if is_there {
            let seen = (0..500).find_map(|_| {
                let text = fs::read_to_string(&opened).ok();
                text.or_else(|| {
                    thread::sleep(Duration::from_millis(10));
                    None
                })
            });
            assert_eq!(seen.as_ref(), Some(&address));
        }
        browse(&address);
        let output = begun.end();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn a_client_that_is_known_there_need_not_register() {
    let args = ["--oauth", "3600", "--fault", "oauth-no-registration"];
    let configured =
        "[servers.fix.oauth]\nclient_id = \"known\"\nclient_secret = \"${KNOWN}\"\nscopes = [\"list\", \"call\"]\n";
    for (more, options) in [("", &["--client-id", "known", "--client-secret-env", "KNOWN"][..]), (configured, &[])] {
        let home = Home::with(&args, more);
        let output = home.log_in(options);
        assert!(output.status.success(), "{output:?}");
        // The secret is needed again.
        home.tell("expire");
        assert_eq!(stdout(&home.run()).trim(), "42");
        let counts = home.counts();
        assert_eq!((&counts["refreshes"], &counts["registrations"]), (&json!(1), &json!(null)), "{counts}");
    }
}

#[test]
fn pml_may_log_in_as_itself() {
    let with_secret = |secret: &str| {
        let more = format!(
            "[servers.fix.oauth]\ngrant = \"client_credentials\"\nclient_id = \"known\"\nclient_secret = \"{secret}\"\n"
        );
        Home::with(&["--oauth", "3600"], &more)
    };
    let home = with_secret("${KNOWN}");
    failed(&home.run(), "AUTH_REQUIRED", &["`pml server login fix`"]);
    let output = home.log_in(&[]);
    assert_eq!(json_of(&output)["renewable"], true, "{output:?}");
    assert_eq!(stdout(&home.run()).trim(), "42");
    home.tell("expire");
    assert_eq!(stdout(&home.run()).trim(), "42");
    let counts = home.counts();
    assert_eq!((&counts["exchanges"], &counts["authorizations"]), (&json!(2), &json!(null)), "{counts}");
    failed(&with_secret("wrong-secret").log_in(&[]), "LOGIN_FAILED", &["gives no token", "invalid_client"]);
}

#[test]
fn a_login_that_covers_too_little_says_what_to_ask_for() {
    let home = Home::new(&["--oauth", "3600", "--fault", "oauth-scope"]);
    home.logged_in();
    failed(&home.run(), "AUTH_REQUIRED", &["`pml server login fix --scope list --scope call`"]);
    assert_eq!(home.counts()["refreshes"], json!(null));
    assert!(home.log_in(&["--scope", "list", "--scope", "call"]).status.success());
    assert_eq!(stdout(&home.run()).trim(), "42");
}

#[test]
fn a_token_goes_to_the_address_that_it_is_for_and_nowhere_else() {
    let home = Home::new(&["--oauth", "3600"]);
    home.logged_in();
    let other = Home::new(&["--oauth", "3600"]);
    home.configure(&format!("[servers.fix]\nurl = {:?}", other.fixture.url));
    failed(&home.run(), "AUTH_REQUIRED", &["`pml server login fix`"]);
    let counts = other.counts();
    assert_eq!((&counts["refused"], &counts["without_token"]), (&json!(null), &json!(1)), "{counts}");
    let port = other.origin().rsplit_once(':').unwrap().1.to_owned();
    let away = Home::new(&["--oauth", "3600", "--fault", &format!("redirect-away={port}")]);
    away.logged_in();
    assert!(!away.run().status.success());
    assert_eq!(other.counts()["refused"], json!(null));
}

#[test]
fn processes_renew_a_login_once() {
    let home = Home::new(&["--oauth", "3600", "--fault", "oauth-slow-token=300"]);
    home.logged_in();
    home.let_token_end();
    let outputs: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| home.run())).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for output in outputs {
        assert_eq!(stdout(&output).trim(), "42", "{output:?}");
    }
    let counts = home.counts();
    assert_eq!((&counts["refreshes"], &counts["reuses"]), (&json!(1), &json!(null)), "{counts}");
    let mode = fs::metadata(home.data().join("credentials.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let left: Vec<_> = fs::read_dir(home.data()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| Path::new(name).extension().is_some_and(|end| end == "tmp")), "{left:?}");
}

/// Twenty calls at the same time.
const MANY: &str = "const sums = await Promise.all(Array.from({ length: 20 }, (_, a) => mcp.fix.add({ a, b: 0 })
    .catch((e) => e.code))); return sums";

#[tokio::test]
async fn many_calls_renew_a_login_once() {
    let home = Home::new(&["--oauth", "3600", "--fault", "oauth-slow-token=100"]);
    home.logged_in();
    let gateway = home.gateway();
    let expected = json!((0..20).collect::<Vec<_>>());
    // It ends, as far as pml knows.
    home.let_token_end();
    assert_eq!(gateway.value(MANY).await, expected);
    assert_eq!(home.counts()["refreshes"], 1);
    assert_eq!(home.counts()["refused"], json!(null), "it was renewed before it ended");
    // It ends, and pml does not know.
    home.tell("expire");
    assert_eq!(gateway.value(MANY).await, expected);
    let counts = home.counts();
    assert_eq!((&counts["refreshes"], &counts["reuses"]), (&json!(2), &json!(null)), "{counts}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_login_that_is_over_needs_the_user_and_is_not_tried_again() {
    #[rustfmt::skip]
    let table = [
        // fault                   what ends  refreshes
        (None,                     "revoke",  1),
        (Some("oauth-no-refresh"), "expire",  0),
        (Some("oauth-reject-refresh"), "expire", 1),
        (Some("oauth-dead-tokens"), "expire", 1),
    ];
    for (fault, ends, refreshes) in table {
        let mut args = vec!["--oauth", "3600"];
        args.extend(fault.iter().flat_map(|fault| ["--fault", fault]));
        let home = Home::new(&args);
        home.logged_in();
        let gateway = home.gateway();
        assert_eq!(gateway.value(CALL).await, 42);
        home.tell(ends);
        for _ in 0..3 {
            let (code, message) = gateway.error(CALL).await;
            assert_eq!(code, ErrorCode::AuthRequired, "{fault:?} {message}");
            assert!(message.contains("`pml server login fix`") && !message.contains(SECRET), "{message}");
        }
        assert_eq!(home.counts()["refreshes"].as_u64().unwrap_or(0), refreshes, "{fault:?}");
        // The server itself is well: nothing is given up, and a login is all it takes.
        assert_eq!(gateway.server("fix").health().state, pml::upstream::HealthState::Healthy);
        home.logged_in();
        assert_eq!(gateway.value(CALL).await, 42, "{fault:?}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn an_authorization_server_in_trouble_is_not_stormed() {
    let home = Home::new(&["--oauth", "3600", "--fault", "oauth-token-status=500"]);
    home.logged_in();
    let gateway = home.gateway();
    assert_eq!(gateway.value(CALL).await, 42);
    home.tell("expire");
    let codes = gateway.value(MANY).await;
    assert_eq!(codes, json!(vec!["PROVIDER_UNAVAILABLE"; 20]));
    assert_eq!(home.counts()["refreshes"], 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_login_by_another_process_is_taken_up_by_the_next_call() {
    let home = Home::new(&["--oauth", "3600"]);
    let gateway = home.gateway();
    let (code, _) = gateway.error(CALL).await;
    assert_eq!(code, ErrorCode::AuthRequired);
    let before = home.counts()["without_token"].clone();
    assert_eq!(gateway.error(CALL).await.0, ErrorCode::AuthRequired);
    assert_eq!(home.counts()["without_token"], before, "it is not asked again for nothing");
    home.logged_in();
    assert_eq!(gateway.value(CALL).await, 42);
    gateway.stop().await;
}

#[tokio::test]
async fn a_damaged_file_of_logins_harms_only_servers_that_want_a_login() {
    let home = Home::new(&["--oauth", "3600"]);
    let path = home.data().join("credentials.json");
    fs::create_dir_all(home.data()).unwrap();
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(&path, "{").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let open = Fixture::start(&["--transport", "http", "--era", "legacy"]);
    // Nothing is tried again by itself within the time of this test.
    let servers = [("open", &open.url), ("fix", &home.fixture.url)].map(|(name, url)| {
        remote(name, url, HttpWire::Auto).with(|settings| settings.backoff.max = Duration::from_secs(600))
    });
    let gateway = Gateway::with_data(servers.into(), Policy::default(), tempfile::tempdir().unwrap(), &home.data());
    assert_eq!(gateway.value("return await mcp.open.echo({ text: 'x' })").await, "x");
    let (code, message) = gateway.error(CALL).await;
    assert_eq!(code, ErrorCode::AuthRequired, "{message}");
    assert!(message.contains("`credentials.json` in the data folder cannot be used"), "{message}");
    // As soon as the file is right, so is the next call.
    fs::remove_file(&path).unwrap();
    home.logged_in();
    assert_eq!(gateway.value(CALL).await, 42);
    gateway.stop().await;
}

#[tokio::test]
async fn a_renewal_outlives_the_call_that_needed_it() {
    let home = Home::new(&["--oauth", "3600", "--fault", "oauth-slow-token=500"]);
    home.logged_in();
    let mut gateway = home.gateway();
    assert_eq!(gateway.value(CALL).await, 42);
    home.let_token_end();
    gateway.budget.total = Duration::from_millis(150);
    assert_eq!(gateway.error(CALL).await.0, ErrorCode::Timeout);
    gateway.stop().await;
    let counts = home.counts();
    assert_eq!((&counts["refreshes"], &counts["valid"]), (&json!(1), &json!(1)), "{counts}");
    assert_eq!(stdout(&home.run()).trim(), "42");
    assert_eq!(home.counts()["refreshes"], 1, "what the renewal brought is kept");
}

#[tokio::test]
async fn a_renewal_brings_no_login_back_that_is_gone() {
    let home = Home::new(&["--oauth", "3600", "--fault", "oauth-slow-token=1500"]);
    home.logged_in(); // the first token
    let gateway = home.gateway();
    assert_eq!(gateway.value(CALL).await, 42);
    home.let_token_end();
    let logout = async {
        while home.counts()["token_requests"] != 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(Logins::new(&home.data()).remove("fix").await.unwrap(), "the renewal goes on");
    };
    let ((code, message), ()) = tokio::join!(gateway.error(CALL), logout);
    assert_eq!(code, ErrorCode::AuthRequired, "{message}");
    assert_eq!(home.counts()["refreshes"], 1);
    gateway.stop().await;
    let kept = fs::read_to_string(home.data().join("credentials.json")).unwrap();
    assert!(!kept.contains("access_token"), "{kept}");
}
