//! Room for all: what one client can take, others still have.

use std::{fs, time::Duration};

use pml_testkit::fixture_path;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::peer::{Client, Era, Home, PATIENCE, Server};

/// An answer that is not kept waiting by others. Generous: it only separates "now" from "when they have finished".
const SOON: Duration = Duration::from_secs(5);

async fn is_served_soon(client: &Client<'_>) {
    let started = Instant::now();
    assert_eq!(client.value("return 40 + 2").await, 42);
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
}

fn home(gateway: &str) -> Home {
    let fixture = fixture_path();
    let command = fixture.to_str().unwrap();
    // None of what these tests start ends by itself before they are over, however busy the machine is.
    let limits = "[limits]\ntimeout_ms = 150000\n";
    Home::new(&format!("{limits}[gateway]\n{gateway}\n[servers.fix]\ncommand = {command:?}\n"))
}

/// Connections on which a message has begun and does not end.
async fn begin_messages(server: &Server, client: &Client<'_>, count: usize, sent: usize, form: &str) -> Vec<TcpStream> {
    let request = client.ask(json!(1), "ping", json!({}));
    let size = format!("Content-Length: {}\r\n", request.body.len());
    let head = request.head().replace(&size, form);
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let body = vec![b' '; sent];
        // Some are refused while others are still being sent.
        let _ = timeout(Duration::from_secs(2), stream.write_all(&body)).await;
        streams.push(stream);
    }
    streams
}

#[tokio::test]
async fn messages_that_do_not_end_keep_nobody_out() {
    let home = home("");
    let server = home.http(&[]).await;
    let client = server.client(Era::Legacy).await;
    const MIB: usize = 1024 * 1024;
    let large = format!("Content-Length: {}\r\n", 16 * MIB);
    for (count, sent, form) in [
        (200, 0, "Transfer-Encoding: chunked\r\n"),
        (200, 1, large.as_str()),
        // As much as there is room for, and then nothing.
        (9, 15 * MIB, large.as_str()),
    ] {
        let _held = begin_messages(&server, &client, count, sent, form).await;
        is_served_soon(&client).await;
        let started = Instant::now();
        let arguments = json!({ "code": "return args.text.length", "args": { "text": "x".repeat(4 * MIB) } });
        let answer = client.call("execute_code", arguments).await;
        assert_eq!(answer["structuredContent"]["result"], 4 * MIB, "{count} {sent}");
        assert!(started.elapsed() < SOON, "{count} {sent}: {:?}", started.elapsed());
    }
    server.end().await;
}

#[tokio::test]
async fn followers_without_number_keep_nobody_out() {
    let home = home("");
    let server = home.http(&[]).await;
    let client = server.client(Era::Modern).await;
    // Enough open files for all that are let in, however few the process began with.
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] >= 4096.min(numbers[1]), "{line}");
    let head = server.http("GET", "/events").head();
    let mut held = Vec::new();
    for _ in 0..1100 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // Whoever is asked to make room may have gone.
        let _ = stream.write_all(head.as_bytes()).await;
        held.push(stream);
    }
    is_served_soon(&client).await;
    // Also to follow.
    let mut events = server.http("GET", "/events").send().await;
    assert_eq!(events.status, 200);
    client.value("return 1").await;
    assert!(events.event().await.is_some());
    // And connections on which nothing happens make room too.
    drop(held);
    let mut idle = Vec::new();
    for _ in 0..1100 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(server.http("GET", "/metrics").head().as_bytes()).await.unwrap();
        let mut start = [0; 15];
        timeout(PATIENCE, stream.read_exact(&mut start)).await.expect("an answer").unwrap();
        assert_eq!(&start, b"HTTP/1.1 200 OK");
        idle.push(stream);
    }
    is_served_soon(&client).await;
    server.end().await;
}

/// Programs that wait need no processor, so they take nobody's turn; and of those that compute, nobody has all.
#[tokio::test]
async fn programs_of_one_client_leave_turns_for_others() {
    let home = home("concurrent_runs = 4");
    let server = home.http(&[]).await;
    let (greedy, modest) = (server.client(Era::Legacy).await, server.client(Era::Legacy).await);
    is_served_soon(&modest).await;
    for (round, (code, count)) in [
        ("await new Promise((go) => setTimeout(go, 120_000)); return 1", 12),
        ("return await mcp.fix.sleep({ ms: 120_000 })", 12),
        ("const end = Date.now() + 120_000; while (Date.now() < end) {} return 1", 12),
    ]
    .into_iter()
    .enumerate()
    {
        // Other ids than before: those requests may not have ended yet.
        let runs: Vec<_> =
            (0..count).map(|number| greedy.run(json!(format!("{round}-{number}")), code).send()).collect();
        let runs = futures_util::future::join_all(runs);
        let others = async {
            let waiting = async {
                while server.metric("pml_runs_in_flight").await != Some(f64::from(count)) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                // Until those that can have begun.
                tokio::time::sleep(Duration::from_millis(500)).await;
            };
            if timeout(PATIENCE, waiting).await.is_err() {
                panic!("{code}: {:?} wait or run", server.metric("pml_runs_in_flight").await);
            }
            is_served_soon(&modest).await;
            is_served_soon(&modest).await;
        };
        tokio::select! {
            biased;
            () = others => {}
            _ = async { let held = runs.await; tokio::time::sleep(PATIENCE).await; drop(held) } => unreachable!(),
        }
    }
    server.end().await;
}

/// The largest amount of memory that a process has held, in megabytes.
fn peak_mb(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

#[tokio::test]
async fn large_results_of_all_runs_together_stay_within_their_room() {
    for (code, expose) in [
        ("return (await mcp.fix.big({ bytes: 20_000_000 })).size", "code"),
        (
            "const all = []; for (let i = 0; i < 3; i++) all.push(await mcp.fix.big({ bytes: 9_000_000 })); return all.length",
            "code",
        ),
        ("", "passthrough"),
    ] {
        let home = home("results_mb = 64");
        let server = home.http(&["--expose", expose]).await;
        let client = server.client(Era::Modern).await;
        assert!(client.is_up().await);
        let before = peak_mb(server.pid());
        let call = async || match expose {
            "code" => client.call("execute_code", json!({ "code": code })).await,
            _ => client.call("fix__big", json!({ "bytes": 20_000_000 })).await,
        };
        let answers = futures_util::future::join_all((0..8).map(|_| call())).await;
        let (fine, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer["isError"] == false);
        let text = |answer: &Value| answer["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert!(!fine.is_empty(), "{:?}", refused.iter().map(|answer| text(answer)).collect::<Vec<_>>());
        assert!(refused.iter().all(|answer| text(answer).contains("RESULT_TOO_LARGE")), "{refused:?}");
        // A result that is in the room is at most three times in memory: as it was read, as it is, and as it is written.
        let grown = peak_mb(server.pid()) - before;
        assert!(grown < 3.0 * 64.0 + 20.0, "{expose}: {grown} MB for {} results", fine.len());
        // What has ended takes no more room.
        assert_eq!(
            client
                .call(
                    if expose == "code" { "execute_code" } else { "fix__echo" },
                    if expose == "code" {
                        json!({ "code": "return (await mcp.fix.big({ bytes: 20_000_000 })).size" })
                    } else {
                        json!({ "text": "x" })
                    }
                )
                .await["isError"],
            false,
            "{expose}"
        );
        server.end().await;
    }
}
