//! What servers get of pml's environment, how pml itself reaches the network, and how many servers start at once.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use pml_testkit::{Fixture, fixture_path};
use serde_json::json;

use super::{
    cli::{json_of, stdout},
    peer::{Era, Home},
};

fn with_env(home: &Home, variables: &[(&str, &str)], args: &[&str]) -> Output {
    let mut command = home.command(env!("CARGO_BIN_EXE_pml")).into_std();
    command.args(args).envs(variables.iter().copied()).output().unwrap()
}

#[test]
fn a_server_gets_what_every_program_needs_and_what_is_named_and_nothing_else() {
    let fixture = fixture_path();
    let home = Home::new(&format!(
        "[servers_env]\npass = [\"KUBECONFIG\", \"CLOUD_*\"]\n\
        [servers.fix]\ncommand = {fixture:?}\n[servers.own]\ncommand = {fixture:?}\npass_env = [\"SSH_AUTH_SOCK\", \"NOT_SET\"]\n"
    ));
    let given = [
        ("HTTPS_PROXY", "http://me:hunter2@proxy:1"),
        ("no_proxy", "a"),
        ("SSL_CERT_FILE", "/ca.pem"),
        ("NODE_EXTRA_CA_CERTS", "/ca.pem"),
        ("REQUESTS_CA_BUNDLE", "/ca.pem"),
        ("XDG_CONFIG_HOME", "/nowhere"),
        ("UV_DEFAULT_INDEX", "https://index"),
        ("KUBECONFIG", "/kube"),
        ("CLOUD_REGION", "here"),
        ("SSH_AUTH_SOCK", "/agent"),
        ("DISPLAY", ":0"),
        ("API_TOKEN", "secret"),
        ("PML_TOKEN", "0123456789abcdef"),
    ];
    let names: Vec<_> = given.iter().map(|(name, _)| *name).chain(["NOT_SET"]).collect();
    let code = format!(
        "const got = {{}}; for (const server of ['fix', 'own']) {{ got[server] = []; for (const name of {}) {{ \
        if (await mcp[server].env({{ name }}) !== 'unset') got[server].push(name) }} }} return got",
        json!(names)
    );
    // Its own file is where the home says, whatever the rest does.
    let config = home.config();
    let args = ["--config", config.to_str().unwrap(), "run", "--json", "-e", &code];
    let outcome = json_of(&with_env(&home, &given, &args));
    let fix = &names[..9];
    assert_eq!(outcome["result"], json!({"fix": fix, "own": names[..10]}), "{outcome}");
}

#[test]
fn doctor_names_what_a_server_that_fails_did_not_get() {
    let home = Home::with_fixture(
        "[servers.bad]\ncommand = \"sh\"\nargs = [\"-c\", \"exit 3\"]\n[servers.line]\ncommand = \"npx -y @example/x\"\n",
    );
    let given = [("SSH_AUTH_SOCK", "/agent-of-mine"), ("MY_SETTING", "x"), ("HTTPS_PROXY", "http://p"), ("PWD", "/")];
    let text = stdout(&with_env(&home, &given, &["doctor", "servers"]));
    assert!(text.contains("it did not get these variables of your shell: SSH_AUTH_SOCK, MY_SETTING\n"), "{text}");
    assert!(text.contains("`pass_env = [\"NAME\"]`") && !text.contains("agent-of-mine"), "{text}");
    assert!(
        text.contains("hint: `command` is the program alone: command = \"npx\", args = [\"-y\", \"@example/x\"]"),
        "{text}"
    );
    let report = json_of(&with_env(&home, &given, &["doctor", "servers", "--json"]));
    assert_eq!(report["servers"][0]["not_passed"], json!(["SSH_AUTH_SOCK", "MY_SETTING"]), "{report}");
    assert_eq!(report["servers"][1]["not_passed"], json!([]), "{report}");
}

/// `tests/tls/helper.py`, killed when dropped.
struct Helper {
    child: Child,
    port: u16,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Helper {
    #[expect(clippy::disallowed_methods, reason = "a helper of the test, not a server")]
    fn start(args: &[&str]) -> Helper {
        let mut command = Command::new("python3");
        command.arg(tls("helper.py")).args(args).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap().parse().unwrap();
        Helper { child, port, lines }
    }

    /// Ends it. What it said.
    fn end(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.lines.by_ref().map_while(Result::ok).collect()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tls(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

#[test]
fn remote_servers_are_reached_through_the_proxy_and_with_the_certificates_of_the_user() {
    let remote = Fixture::start(&["--transport", "http"]);
    let address = remote.url.strip_prefix("http://127.0.0.1:").unwrap();
    let (port, path) = address.split_once('/').unwrap();
    let tls_end =
        Helper::start(&["tls", tls("server.pem").to_str().unwrap(), tls("server.key").to_str().unwrap(), port]);
    let proxy = Helper::start(&["proxy"]);
    // Nobody but the proxy knows this host.
    let url = format!("https://remote.example:{}/{path}", tls_end.port);
    let home = Home::new(&format!(
        "[servers.far]\nurl = {url:?}\nstart_timeout_ms = 20000\n[servers.near]\nurl = {:?}\n",
        remote.url
    ));
    let through = format!("http://127.0.0.1:{}", proxy.port);
    let bare = format!("127.0.0.1:{}", proxy.port);
    let (ca, folder) = (tls("ca.pem"), home.path().join("certificates"));
    let ca = ca.to_str().unwrap();
    fs::create_dir(&folder).unwrap();
    fs::copy(ca, folder.join("ca.pem")).unwrap();
    let call = |server: &str, variables: &[(&str, &str)]| {
        let code = format!("return await mcp.{server}.echo({{ text: 'hello' }})");
        json_of(&with_env(&home, variables, &["run", "--json", "-e", &code]))
    };
    #[rustfmt::skip]
    let works: [&[(&str, &str)]; 6] = [
        &[("HTTPS_PROXY", &through), ("SSL_CERT_FILE", ca)],
        &[("https_proxy", &bare), ("NODE_EXTRA_CA_CERTS", ca)],
        &[("ALL_PROXY", &through), ("REQUESTS_CA_BUNDLE", ca)],
        &[("all_proxy", &through), ("CURL_CA_BUNDLE", ca), ("NO_PROXY", "other.example")],
        &[("https_proxy", &through), ("HTTPS_PROXY", "http://127.0.0.1:9"), ("SSL_CERT_FILE", ca)],
        &[("HTTPS_PROXY", &through), ("SSL_CERT_FILE", ca), ("NODE_EXTRA_CA_CERTS", "/no/such/file")],
    ];
    for variables in works {
        assert_eq!(call("far", variables)["result"], "hello", "{variables:?}");
    }
    let fails: [&[(&str, &str)]; 3] = [
        &[("HTTPS_PROXY", &through)],
        &[("HTTP_PROXY", &through), ("SSL_CERT_FILE", ca)],
        &[("HTTPS_PROXY", &through), ("SSL_CERT_FILE", ca), ("no_proxy", ".example")],
    ];
    for variables in fails {
        assert_eq!(call("far", variables)["error"]["code"], "PROVIDER_INIT_FAILED", "{variables:?}");
    }
    // What is on this machine needs no proxy.
    assert_eq!(
        call("near", &[("HTTP_PROXY", "http://127.0.0.1:9"), ("ALL_PROXY", "http://127.0.0.1:9")])["result"],
        "hello"
    );
    // Proxies that speak SOCKS, which is told the name of the host.
    let socks = Helper::start(&["socks"]);
    let address = format!("socks5h://127.0.0.1:{}", socks.port);
    for variables in [
        [("ALL_PROXY", address.as_str()), ("SSL_CERT_FILE", ca)],
        [("https_proxy", address.as_str()), ("SSL_CERT_FILE", ca)],
    ] {
        assert_eq!(call("far", &variables)["result"], "hello", "{variables:?}");
    }
    let said = socks.end();
    assert!(said.len() >= 2, "{said:?}");
    assert!(said.iter().all(|line| *line == format!("SOCKS remote.example {}", tls_end.port)), "{said:?}");
    let said = proxy.end();
    assert!(said.len() >= works.len(), "{said:?}");
    assert!(said.iter().all(|line| *line == format!("CONNECT remote.example:{}", tls_end.port)), "{said:?}");
    assert!(!tls_end.end().is_empty());
}

#[test]
fn no_more_servers_start_at_once_than_the_machine_can_bear() {
    let most = |limit: &str| {
        let home = Home::empty();
        let log = home.path().join("starts");
        let script =
            format!("echo + >> {0}; sleep 0.4; echo - >> {0}; exec {1}", log.display(), fixture_path().display());
        let server = |number: usize| format!("[servers.s{number}]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\n");
        let servers: String = (0..7).map(server).collect();
        home.configure(&format!("[gateway]\n{limit}\n{servers}"));
        let status = json_of(&home.pml(&["server", "status", "--json"]));
        let states = status["servers"].as_array().unwrap().iter().map(|server| server["health"]["state"].clone());
        assert_eq!(states.collect::<Vec<_>>(), vec![json!("healthy"); 7], "{status}");
        let mut now = 0_i32;
        let counts = fs::read_to_string(&log).unwrap();
        let counts = counts.lines().map(|line| {
            now += if line == "+" { 1 } else { -1 };
            now
        });
        counts.max().unwrap()
    };
    assert!(most("max_starting = 2") <= 2);
    assert_eq!(most("max_starting = 1"), 1);
    assert!(most("max_starting = 7") > 2, "the test sees starts at the same time");
}

#[tokio::test]
async fn an_answer_that_is_kept_is_of_the_server_that_is_configured() {
    let home = Home::empty();
    let replay = |answer: &str| {
        let path = home.path().join(format!("{answer}.json"));
        let hints = json!({"readOnlyHint": true, "idempotentHint": true});
        let tool = json!({"name": "read", "description": "Reads.", "inputSchema": {"type": "object"}, "annotations": hints, "answers": [{"text": answer}]});
        fs::write(&path, json!({"tools": [tool]}).to_string()).unwrap();
        format!(
            "[servers.fix]\ncommand = {:?}\nargs = [\"--replay\", {path:?}]\ntrusted = true\ncache_ttl_ms = 3600000\n",
            fixture_path()
        )
    };
    home.configure(&replay("old"));
    let mut peer = home.connected(Era::Legacy).await;
    let code = "return await mcp.fix.read({})";
    assert_eq!(peer.value(code).await, "old");
    home.configure(&replay("new"));
    let until = tokio::time::Instant::now() + super::peer::PATIENCE;
    while peer.value(code).await != "new" {
        assert!(tokio::time::Instant::now() < until, "the old answer outlives its server");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    peer.end().await;
}
