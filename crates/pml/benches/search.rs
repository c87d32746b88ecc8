//! What a search costs, on one thread.
//!
//! Tools are made up from the words of a small vocabulary, with descriptions as long as published servers have them.
//! Budgets are in SPECIFICATION.md; `--check` fails if one is broken. Run: `scripts/bench search [--json] [--check]`.

#![expect(clippy::disallowed_types, reason = "measures real time")]

use std::{env, fs, hint::black_box, process::ExitCode, sync::Arc, time::Instant};

use pml::{
    broker::Policy,
    catalog::{Catalog, Finder, Listing, Source, Wish},
};
use pml_search::{Both, Index, Mode, Snapshot, ToolText};
use pml_testkit::promises::{Promise, Results, report};
use serde_json::{Value, json, value::to_raw_value};

const QUERIES: usize = 2000;
const SERVERS: u64 = 40;

const PROMISES: [Promise; 10] = [
    Promise::at_most("load_ms", 15.0, "the table is ready"),
    Promise::at_most("index_1000_ms", 200.0, "indexing 1 000 tools"),
    Promise::at_most("search_1000_p95_us", 5000.0, "a search among 1 000 tools, 95th percentile"),
    Promise::at_most("read_1000_ms", 10_000.0, "the encoder reads 1 000 new tools"),
    Promise::at_most("table_1000_p95_us", 1000.0, "the same with the table alone"),
    Promise::at_most("search_10000_p95_us", 2000.0, "a search among 10 000 tools with the table, 95th percentile"),
    Promise::at_most("call_1000_p95_us", 1000.0, "the same in the host, with the signatures of ten tools"),
    Promise::at_most("call_10000_p95_us", 2000.0, "the same in the host, with the signatures of ten tools"),
    Promise::at_most("memory_10000_mb", 40.0, "table, index and snapshot of 10 000 tools"),
    Promise::at_most("table_mb", 8.0, "the table in the binary"),
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let mut results = measure();
    for (key, count) in [("call_1000_p95_us", 1000), ("call_10000_p95_us", 10_000)] {
        results.insert(key, calls(count));
    }
    report(&results, &PROMISES, &args)
}

fn measure() -> Results {
    let mut results = Results::new();
    let texts: Vec<ToolText> = (0..10_000).map(text).collect();
    let before = resident_bytes();
    let started = Instant::now();
    pml_search::load();
    results.insert("load_ms", started.elapsed().as_secs_f64() * 1e3);
    results.insert("table_mb", pml_search::table_bytes() as f64 / 1e6);

    let started = Instant::now();
    let index = index(Index::new(), &texts[..1000]);
    let snapshot = index.snapshot();
    results.insert("index_1000_ms", started.elapsed().as_secs_f64() * 1e3);
    let (p50, p95) = search(&snapshot, Mode::Hybrid);
    results.insert("table_1000_p50_us", p50);
    results.insert("table_1000_p95_us", p95);
    drop((index, snapshot));

    let started = Instant::now();
    let index = self::index(Index::new(), &texts);
    results.insert("index_10000_ms", started.elapsed().as_secs_f64() * 1e3);
    let started = Instant::now();
    let snapshot = index.snapshot();
    results.insert("snapshot_10000_ms", started.elapsed().as_secs_f64() * 1e3);
    let (p50, p95) = search(&snapshot, Mode::Hybrid);
    results.insert("search_10000_p50_us", p50);
    results.insert("search_10000_p95_us", p95);
    results.insert("words_10000_p50_us", search(&snapshot, Mode::Bm25).0);
    results.insert("meaning_10000_p50_us", search(&snapshot, Mode::Embedding).0);
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        results.insert("memory_10000_mb", after.saturating_sub(before) as f64 / 1e6);
    }
    drop((index, snapshot));

    let before = resident_bytes();
    let started = Instant::now();
    let index = self::index(Index::with(Arc::new(Both::built_in())), &texts[..1000]);
    results.insert("read_1000_ms", started.elapsed().as_secs_f64() * 1e3);
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        results.insert("encoder_mb", after.saturating_sub(before) as f64 / 1e6);
    }
    let (p50, p95) = search(&index.snapshot(), Mode::Hybrid);
    results.insert("search_1000_p50_us", p50);
    results.insert("search_1000_p95_us", p95);
    results
}

fn index(mut index: Index, texts: &[ToolText]) -> Index {
    for (number, text) in texts.iter().enumerate() {
        index.insert(&format!("server{}:tool{number}", number as u64 % SERVERS), text);
    }
    index
}

/// Median and 95th percentile of whole searches, in microseconds.
fn search(snapshot: &Snapshot, mode: Mode) -> (f64, f64) {
    timed(|query| {
        black_box(snapshot.search(query, 10, mode));
    })
}

/// 95th percentile of what a search costs in the host, in microseconds: among the tools of 40 servers that may be called,
/// with all that is told of the ten that are found.
fn calls(count: u64) -> f64 {
    let catalog = Catalog::new((0..SERVERS).map(|server| format!("server{server}")));
    for server in 0..SERVERS {
        let tools = (0..count).filter(|number| number % SERVERS == server);
        let raw = tools.map(|number| to_raw_value(&tool(number)).expect("JSON")).collect();
        catalog.update(Listing::parse(&format!("server{server}"), raw, Source::Live));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let finder = Finder::new(catalog.clone(), None, None);
    let policy = Arc::new(Policy { deny: vec!["server7:*delete*".to_owned()], ..Policy::default() });
    let rules = Arc::clone(&policy);
    finder.set_filter(Arc::new(move |tool| rules.allows(tool)));
    runtime.block_on(finder.searchable());
    let (_, p95) = timed(|query| {
        let index = runtime.block_on(finder.searchable());
        let snapshot = catalog.snapshot();
        let wish = Wish { query, limit: 10, threshold: 0.1, server: None };
        for found in index.search(&snapshot, wish, |tool| policy.allows(&tool.id)) {
            black_box(found.tool.signature());
        }
    });
    p95
}

/// Median and 95th percentile of some work on queries, in microseconds.
fn timed(work: impl Fn(&str)) -> (f64, f64) {
    let mut random = Random(7);
    let mut samples: Vec<f64> = (0..QUERIES)
        .map(|number: usize| {
            // One in five is a task of several steps.
            let length = if number.is_multiple_of(5) { 24 } else { 8 };
            let mut query = random.words(length);
            if number.is_multiple_of(5) {
                query = format!("{query}, then {} and {}.", random.words(5), random.words(5));
            }
            // One in three is mistyped.
            if number.is_multiple_of(3) {
                query.push_str(" forcast calender");
            }
            let started = Instant::now();
            work(black_box(&query));
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    let at = |part: f64| samples[((samples.len() - 1) as f64 * part) as usize];
    (at(0.5), at(0.95))
}

fn text(number: u64) -> ToolText {
    let tool = tool(number);
    let field = |key: &str| tool[key].as_str().unwrap_or_default();
    ToolText::new(&format!("server{}", number % SERVERS), field("name"), field("description"), &tool["inputSchema"])
}

/// As a server lists it.
fn tool(number: u64) -> Value {
    let mut random = Random(number + 1);
    let name = format!("{}_{number}", random.words(3).replace(' ', "_"));
    let properties: serde_json::Map<_, _> = (0..4)
        .map(|_| (random.words(2).replace(' ', "_"), json!({ "type": "string", "description": random.words(8) })))
        .collect();
    json!({
        "name": name,
        "description": random.words(40),
        "inputSchema": { "type": "object", "properties": properties },
    })
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
            // A third are rare: names and values that few tools share.
            if self.next().is_multiple_of(3) {
                format!("word{}", self.next() % 20_000)
            } else {
                let place = (self.next() % known.len() as u64).min(self.next() % known.len() as u64);
                known[place as usize].to_owned()
            }
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
