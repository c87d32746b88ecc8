//! What learning costs: 2 000 tools, 10 000 remembered traces, scores and vectors of the real search.
//!
//! Budgets are in SPECIFICATION.md; `--check` fails if one is broken or was not measured. Run:
//! `scripts/bench learn [--json] [--check]`.

#![expect(clippy::disallowed_types, reason = "measures real time")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program for people")]

use std::{collections::BTreeMap, env, fs, hint::black_box, process::ExitCode, sync::mpsc, thread, time::Instant};

use pml_learn::{Model, Observation, Purpose, Query, Settings, Step, StepOutcome, Tools, TraceId, needs_scores};
use pml_search::{Index, Mode, Snapshot, ToolText, word_hashes};
use serde_json::{Value, json};

const TOOLS: u64 = 2000;
const TRACES: u64 = 10_000;
/// Learned after the memory is full, to see what each further one costs.
const FURTHER: u64 = 2000;
const RANKINGS: u64 = 1000;
/// Kinds of tasks, each with words and tools of its own.
const TOPICS: u64 = 300;
/// What the search promises to be quick among.
const MANY_TOOLS: u64 = 10_000;
/// What a rebuild is promised for.
const REBUILT: f64 = 100_000.0;

/// A promise: key, most, what it says.
const PROMISES: [(&str, f64, &str); 8] = [
    ("update_p50_us", 1000.0, "learning a trace, median"),
    ("update_p95_us", 1000.0, "learning a trace, 95th percentile"),
    ("rank_p95_us", 1500.0, "a ranking, 95th percentile"),
    ("rank_next_p95_us", 1500.0, "a ranking of what comes next, 95th percentile"),
    ("search_10000_p95_us", 2000.0, "a search among 10 000 tools with what was learned, 95th percentile"),
    ("memory_mb", 60.0, "memory of the model"),
    ("restore_ms", 500.0, "reading a snapshot"),
    ("rebuild_100000_s", 60.0, "learning 100 000 traces anew, with their searches on another thread"),
];

struct World {
    tools: Tools,
    index: Index,
    snapshot: Snapshot,
}

/// What the search says about an intent.
struct Found {
    intent: Vec<f32>,
    words: Vec<u32>,
    scores: Vec<f32>,
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let results = measure();
    if has("--json") {
        println!("{}", json!(results));
    } else {
        for (key, value) in &results {
            println!("{key:<24} {value:>12.3}");
        }
    }
    let mut is_kept = true;
    for (key, most, what) in PROMISES {
        let value = results.get(key).copied().unwrap_or(f64::INFINITY);
        is_kept &= value <= most;
        let verdict = if value <= most { "kept" } else { "BROKEN" };
        eprintln!("{verdict}: {what}: {value:.2} of {most}");
    }
    match is_kept || !has("--check") {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn measure() -> BTreeMap<&'static str, f64> {
    let mut results = BTreeMap::new();
    pml_search::load();
    let world = World::new(TOOLS);
    let settings = Settings { dimensions: world.index.embedder().dimensions(), ..Settings::default() };
    black_box(world.find(1));
    let before = resident_bytes();
    let mut model = Model::new(settings.clone());
    let mut updates_us = Vec::new();
    for number in 0..TRACES + FURTHER {
        let found = world.find(number);
        let started = Instant::now();
        world.learn(&mut model, &found, number);
        if number >= TRACES {
            updates_us.push(started.elapsed().as_secs_f64() * 1e6);
        }
    }
    assert_eq!(model.learned().status().is_open, [true; 2], "rankings would be those of the search");
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        results.insert("memory_mb", after.saturating_sub(before) as f64 / 1e6);
    }
    results.insert("update_p50_us", percentile(&mut updates_us, 0.5));
    results.insert("update_p95_us", percentile(&mut updates_us, 0.95));
    results.insert("update_p99_us", percentile(&mut updates_us, 0.99));

    results.insert("rebuild_100000_s", rebuild_seconds(&world, model.clone()) / FURTHER as f64 * REBUILT);

    let started = Instant::now();
    let learned = model.learned().clone();
    results.insert("copy_ms", started.elapsed().as_secs_f64() * 1e3);
    for (key, prefix) in [("rank", &[][..]), ("rank_next", &[7_usize, 11, 13])] {
        let prefix: Vec<&str> = prefix.iter().map(|number| &**world.tools.name(*number)).collect();
        let mut samples = Vec::new();
        for number in 0..RANKINGS {
            let found = world.find(number * 7 + 3);
            let query = Query {
                purpose: Purpose::Suggestion,
                intent: &found.intent,
                words: &found.words,
                prefix: &prefix,
                tools: &world.tools,
                scores: &found.scores,
            };
            let started = Instant::now();
            black_box(learned.rank(black_box(&query), 10, |_, _| true));
            samples.push(started.elapsed().as_secs_f64() * 1e6);
        }
        let [p50, p95] =
            if key == "rank" { ["rank_p50_us", "rank_p95_us"] } else { ["rank_next_p50_us", "rank_next_p95_us"] };
        results.insert(p50, percentile(&mut samples, 0.5));
        results.insert(p95, percentile(&mut samples, 0.95));
    }

    let large = World::new(MANY_TOOLS);
    let mut prepared = model.clone();
    large.learn(&mut prepared, &large.find(1), u64::MAX); // as the follower of the store does
    let mut samples = Vec::new();
    for number in 0..RANKINGS / 2 {
        let started = Instant::now();
        let found = large.find(number * 7 + 3);
        let query = Query {
            purpose: Purpose::Search,
            intent: &found.intent,
            words: &found.words,
            prefix: &[],
            tools: &large.tools,
            scores: &found.scores,
        };
        black_box(prepared.learned().rank(black_box(&query), 10, |_, _| true));
        samples.push(started.elapsed().as_secs_f64() * 1e6);
    }
    results.insert("search_10000_p50_us", percentile(&mut samples, 0.5));
    results.insert("search_10000_p95_us", percentile(&mut samples, 0.95));

    let started = Instant::now();
    let bytes = model.to_bytes();
    results.insert("snapshot_ms", started.elapsed().as_secs_f64() * 1e3);
    results.insert("snapshot_mb", bytes.len() as f64 / 1e6);
    let started = Instant::now();
    let restored = Model::from_bytes(&bytes, settings).expect("a snapshot that was just written");
    results.insert("restore_ms", started.elapsed().as_secs_f64() * 1e3);
    assert_eq!(restored.learned().status(), model.learned().status());
    results
}

/// Learns further traces with a full memory, which cost most, as a rebuild does: one thread searches for the intents of those from
/// which weights are learned, and another learns.
fn rebuild_seconds(world: &World, mut model: Model) -> f64 {
    let started = Instant::now();
    let numbers = TRACES + FURTHER..TRACES + 2 * FURTHER;
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(200);
        let searched = numbers.clone();
        let find = |number: u64| world.look_up(number, needs_scores(TRACES, TraceId(u128::from(number))));
        scope.spawn(move || searched.map(find).try_for_each(|found| sender.send(found)));
        for (number, found) in numbers.zip(receiver) {
            world.learn(&mut model, &found, number);
        }
    });
    started.elapsed().as_secs_f64()
}

impl World {
    fn new(tools: u64) -> World {
        let mut index = Index::new();
        for number in 0..tools {
            let mut random = Random(number + 1);
            let name = format!("{}_{number}", random.words(3).replace(' ', "_"));
            let text = ToolText::new(&format!("server{}", number % 40), &name, &random.words(40), &Value::Null);
            index.insert(&format!("server{}:{name}", number % 40), &text);
        }
        let snapshot = index.snapshot();
        World { tools: Tools::new(snapshot.ids().iter().cloned()), snapshot, index }
    }

    fn find(&self, number: u64) -> Found {
        self.look_up(number, true)
    }

    fn look_up(&self, number: u64, needs_scores: bool) -> Found {
        let topic = Random(number).next() % TOPICS;
        let intent = format!("{} {}", Random(topic ^ 0xabcd).words(8), Random(number ^ 0xdcba).words(4));
        Found {
            intent: self.index.embedder().query(&intent),
            words: word_hashes(&intent),
            scores: if needs_scores { self.snapshot.scores(&intent, Mode::Hybrid) } else { Vec::new() },
        }
    }

    /// A trace of one to eight steps, with the tools of its topic and some that everybody uses. The search finds neither, so
    /// that what is learned is used.
    fn learn(&self, model: &mut Model, found: &Found, number: u64) {
        let mut random = Random(number);
        let topic = random.next() % TOPICS;
        let steps: Vec<Step<'_>> = (0..1 + random.next() % 8)
            .map(|_| {
                let tool = match random.next() % 4 {
                    0 => random.next() % 20,
                    _ => (topic * 7 + random.next() % 7) % TOOLS,
                };
                Step { tool: self.tools.name(tool as usize), outcome: StepOutcome::Succeeded }
            })
            .collect();
        model.update(&Observation {
            trace: TraceId(u128::from(number)),
            time_ms: number.min(1 << 20) as i64 * 60_000,
            caller: ["a", "b", "c"][(number % 3) as usize],
            intent: &found.intent,
            words: &found.words,
            tools: &self.tools,
            scores: &found.scores,
            steps: &steps,
            forecasts: &[],
            capability: None,
            success: true,
        });
    }
}

fn percentile(samples: &mut [f64], part: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[((samples.len() - 1) as f64 * part) as usize]
}

/// Frequent words first, as in any language.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn words(&mut self, count: usize) -> String {
        const WORDS: &str = "list get create delete update file user project message table search data name id record order \
            event account report image page document folder server database query key value bucket instance network policy \
            role group team channel mail calendar task issue branch commit repository pull request review test build deploy \
            cluster node pod container volume snapshot backup restore alert metric log trace dashboard chart sheet cell row \
            column format price stock currency payment invoice customer product cart shipment address city country weather \
            forecast flight hotel room ticket train route map place distance time zone date range filter sort limit cursor";
        let known: Vec<&str> = WORDS.split_whitespace().collect();
        let words = (0..count).map(|_| {
            let place = (self.next() % known.len() as u64).min(self.next() % known.len() as u64);
            known[place as usize]
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Memory of this process that is there and not only promised, where the system says so.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()? * 1024)
}
