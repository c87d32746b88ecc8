//! The order of events, and what is made of them.

#![expect(clippy::print_stderr, reason = "this is a program for people")]

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::ExitCode,
    sync::{Mutex, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    account::{Account, CallKey, join, of_trace},
    clients::{HttpClient, Orders, Tally, work},
    pml::{Home, PATIENCE, Pipe, Web, beside},
    process::{Usage, signal, usage},
    servers::{Deeds, Remote, torment},
};
use crate::promises::{Promise, Results, report};

const STDIO_CLIENTS: usize = 2;
const HTTP_CLIENTS_OF_EACH_ERA: usize = 2;
/// Calls that go on when pml is killed.
const CUT_OFF: usize = 20;

const PROMISES: [Promise; 14] = [
    Promise::at_least("programs", 50.0, "programs that were run"),
    Promise::at_least("kills", 2.0, "servers that were killed"),
    Promise::at_least("complete_percent", 97.0, "programs that got all answers of three servers"),
    Promise::at_most("wrong_answers", 0.0, "wrong answers"),
    Promise::at_most("unanswered", 0.0, "programs without an answer"),
    Promise::at_most("repeated_calls", 0.0, "calls that a server saw twice"),
    Promise::at_most("memory_ratio", 1.3, "memory of pml at the end, against soon after the start"),
    Promise::at_most("more_descriptors", 12.0, "descriptors of pml that were not there before"),
    Promise::at_most("more_processes", 3.0, "processes that were not there before"),
    Promise::at_most("calls_without_start", 0.0, "calls that a server saw, without a line at their start"),
    Promise::at_most("calls_with_two_lines", 0.0, "calls with two lines at their start or end"),
    Promise::at_most("calls_without_end", 0.0, "calls of a pml that lived, without a line at their end"),
    Promise::at_least("calls_cut_off", 1.0, "calls of a pml that was killed, whose end is visibly missing"),
    Promise::at_most("broken_lines", 0.0, "lines of the audit log that cannot be read"),
];

/// Runs the soak with these arguments.
pub fn main(args: &[String]) -> ExitCode {
    let number = |flag: &str| {
        let value = args.iter().position(|arg| arg == flag).and_then(|at| args.get(at + 1));
        value.map(|value| value.parse::<u64>().unwrap_or_else(|_| panic!("{flag} needs a number, not `{value}`")))
    };
    let seconds = number("--seconds").or_else(|| number("--minutes").map(|minutes| 60 * minutes)).unwrap_or(60);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let seed = number("--seed").unwrap_or(now).max(1);
    eprintln!("{seconds} s, seed {seed}");
    let results = soak(Duration::from_secs(seconds), seed);
    report(&results, &PROMISES, args)
}

fn soak(duration: Duration, seed: u64) -> Results {
    let folder = std::env::temp_dir().join(format!("pml-soak-calls-{}", std::process::id()));
    let (tally, orders, deeds) = (Tally::default(), Orders::default(), Deeds::default());
    let two = Remote::start("http", &folder);
    let three = Remote::start("sse", &folder);
    let home = Home::new(&configuration(&two, &three, &folder));
    let web = Web::start(&home);
    let pipes: Vec<_> = (0..STDIO_CLIENTS).map(|_| Pipe::start(&home)).collect();
    let mut pids: Vec<_> = pipes.iter().map(Pipe::pid).collect();
    pids.push(web.pid());
    let until = Instant::now() + duration;
    let pipes: Vec<_> = pipes.into_iter().map(Mutex::new).collect();
    let (mut first, mut last) = (Usage::default(), Usage::default());
    thread::scope(|scope| {
        for pipe in &pipes {
            let (orders, tally) = (&orders, &tally);
            scope.spawn(move || work(&mut *pipe.lock().unwrap_or_else(PoisonError::into_inner), orders, tally));
        }
        for client in (0..HTTP_CLIENTS_OF_EACH_ERA)
            .flat_map(|_| [HttpClient::modern(&web.address), HttpClient::legacy(&web.address)])
        {
            let (orders, tally) = (&orders, &tally);
            scope.spawn(move || work(&mut { client }, orders, tally));
        }
        let tormentor = scope.spawn(|| torment(&[&two, &three], &pids, seed, until, &deeds));
        // When everything has been used and something has gone wrong: what is taken from then on is too much.
        thread::sleep(duration / 4);
        first = at_rest(&orders, &pids);
        eprintln!("after a quarter: {first:?}, {} programs", tally.programs.load(Ordering::Relaxed));
        let _ = tormentor.join();
        thread::sleep(until.saturating_duration_since(Instant::now()));
        last = at_rest(&orders, &pids);
        eprintln!("at the end: {last:?}");
        orders.is_over.store(true, Ordering::SeqCst);
    });
    let before: BTreeSet<_> = seen(&folder).into_iter().collect();
    cut_off(&home, &folder, before.len());
    drop((pipes, web));
    let seen = seen(&folder);
    let killed = seen.iter().filter(|key| !before.contains(*key)).cloned().collect();
    let account = join(&home.audit(), &seen, &killed);
    let _ = fs::remove_file(&folder);
    for failure in tally.failures.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        eprintln!("  {failure}");
    }
    results(&tally, &deeds, (first, last), &account)
}

fn configuration(two: &Remote, three: &Remote, calls: &Path) -> String {
    let fixture = beside("fixture-server");
    format!(
        "[servers.one]\ncommand = {fixture:?}\nargs = [\"--calls\", {calls:?}]\n\
         [servers.two]\nurl = \"http://127.0.0.1:{}/mcp\"\n\
         [servers.three]\nurl = \"http://127.0.0.1:{}/sse\"\ntype = \"sse\"\n",
        two.port, three.port,
    )
}

/// What pml takes when no program runs, and all servers are connected.
fn at_rest(orders: &Orders, pids: &[u32]) -> Usage {
    orders.is_paused.store(true, Ordering::SeqCst);
    let since = Instant::now();
    while orders.busy.load(Ordering::SeqCst) > 0 && since.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    // Pools are filled again, servers come back.
    thread::sleep(Duration::from_secs(2));
    let usage = usage(pids);
    orders.is_paused.store(false, Ordering::SeqCst);
    usage
}

/// The calls that servers have seen.
fn seen(file: &Path) -> Vec<CallKey> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| of_trace(line["traceparent"].as_str()?)).collect()
}

/// Kills a pml in the middle of calls that its servers have seen.
fn cut_off(home: &Home, calls: &Path, before: usize) {
    let mut pipe = Pipe::start(home);
    for number in 0..CUT_OFF {
        let code = format!(
            "await Promise.all([mcp.one.sleep({{ ms: 60000 }}), mcp.two.sleep({{ ms: {} }})])",
            60_000 + number
        );
        pipe.send("tools/call", &json!({"name": "execute_code", "arguments": {"code": code}}));
    }
    let since = Instant::now();
    while seen(calls).len() < before + CUT_OFF && since.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(20));
    }
    signal(pipe.pid(), Signal::KILL);
    drop(pipe);
    // What the servers had read, they write down.
    thread::sleep(Duration::from_secs(1));
}

fn results(tally: &Tally, deeds: &Deeds, (first, last): (Usage, Usage), account: &Account) -> Results {
    let count = |number: usize| number as f64;
    let [programs, complete, wrong, unanswered, kills, stops] =
        [&tally.programs, &tally.complete, &tally.wrong, &tally.unanswered, &deeds.kills, &deeds.stops]
            .map(|number| number.load(Ordering::Relaxed) as f64);
    let more = |first: usize, last: usize| count(last) - count(first);
    Results::from([
        ("programs", programs),
        ("complete_percent", 100.0 * complete / programs),
        ("wrong_answers", wrong),
        ("unanswered", unanswered),
        ("kills", kills),
        ("stops", stops),
        ("memory_mb", last.memory_mb),
        ("memory_ratio", last.memory_mb / first.memory_mb),
        ("descriptors", count(last.descriptors)),
        ("more_descriptors", more(first.descriptors, last.descriptors)),
        ("processes", count(last.processes)),
        ("more_processes", more(first.processes, last.processes)),
        ("calls_seen", count(account.seen)),
        ("repeated_calls", count(account.repeated)),
        ("calls_without_start", count(account.without_start)),
        ("calls_with_two_lines", count(account.with_two_starts + account.with_two_ends)),
        ("calls_without_end", count(account.without_end)),
        ("calls_cut_off", count(account.cut_off)),
        ("broken_lines", count(account.broken_lines)),
    ])
}
