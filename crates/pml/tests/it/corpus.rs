//! Programs as models write them, against recorded answers of servers: `tests/corpus`.
//!
//! Each program gives the right value, or an error that says what to change, at the line of what was sent. The expected
//! values are those that any engine gives, never what pml happened to return.

use std::{fmt::Write as _, fs, path::PathBuf};

use futures_util::{StreamExt as _, stream};
use pml::{broker::Policy, execution::Outcome, sandbox::Mode};
use pml_testkit::fixture_path;
use serde_json::Value;

use super::{
    gateway::{Gateway, Server, stdio},
    support,
};

/// How many programs there are at least.
const PROGRAMS: usize = 250;

/// How many of them run at the same time.
const AT_ONCE: usize = 8;

/// A program, and what must come of it.
struct Entry {
    /// The file and the heading.
    name: String,
    program: String,
    /// What is required: a value, or parts of an error, and parts of warnings.
    expectation: Expectation,
}

#[derive(Default)]
struct Expectation {
    value: Option<Value>,
    /// A code, and a part of the message or of its hint. All of them must be there.
    errors: Vec<(String, String)>,
    /// The line of the error.
    line: Option<usize>,
    /// Parts of warnings. Without any, there must be no warning.
    warnings: Vec<String>,
}

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// The files of a folder that end so, in order.
fn files(folder: PathBuf, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(&folder).unwrap_or_else(|err| panic!("{}: {err}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

fn servers() -> Vec<Server> {
    let fixture = fixture_path();
    let server = |file: PathBuf| {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        stdio(&name, fixture.to_string_lossy(), &["--replay", &file.to_string_lossy()])
    };
    files(corpus().join("servers"), "json").into_iter().map(server).collect()
}

/// The entries of a file: a heading, a block with the program, a block with what is expected.
fn entries(file: &PathBuf) -> Vec<Entry> {
    let text = fs::read_to_string(file).unwrap();
    let theme = file.file_stem().unwrap().to_string_lossy().into_owned();
    let mut entries = Vec::new();
    let (mut name, mut program) = (String::new(), None);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix("## ") {
            assert!(program.is_none(), "{name}: no `expect` block");
            name = format!("{theme}: {heading}");
        }
        let ticks = line.len() - line.trim_start_matches('`').len();
        if ticks < 3 {
            continue;
        }
        let (fence, tag) = line.split_at(ticks);
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != fence).collect();
        let block = block.join("\n");
        match (tag, program.take()) {
            ("ts", None) => program = Some(block),
            ("expect", Some(program)) => {
                entries.push(Entry { expectation: expectation(&name, &block), name: name.clone(), program });
            }
            (tag, _) => panic!("{name}: a block `{tag}` is out of place"),
        }
    }
    entries
}

fn expectation(name: &str, block: &str) -> Expectation {
    let mut expectation = Expectation::default();
    let mut value = String::new();
    for line in block.lines() {
        if let Some(error) = line.strip_prefix("error ") {
            let (code, part) = error.split_once(": ").unwrap_or((error, ""));
            expectation.errors.push((code.to_owned(), part.to_owned()));
        } else if let Some(number) = line.strip_prefix("line ") {
            expectation.line = Some(number.parse().unwrap_or_else(|err| panic!("{name}: {line}: {err}")));
        } else if let Some(part) = line.strip_prefix("warning: ") {
            expectation.warnings.push(part.to_owned());
        } else {
            writeln!(value, "{line}").unwrap();
        }
    }
    if !value.is_empty() {
        expectation.value = Some(serde_json::from_str(&value).unwrap_or_else(|err| panic!("{name}: {value}: {err}")));
    }
    assert_eq!(expectation.value.is_some(), expectation.errors.is_empty(), "{name}: a value or an error is expected");
    expectation
}

impl Expectation {
    /// What is not as it should be.
    fn mistakes(&self, outcome: &Outcome) -> Vec<String> {
        let mut mistakes = Vec::new();
        match (&self.value, &outcome.result) {
            (Some(expected), Ok(value)) => {
                let actual: Value = serde_json::from_str(value.get()).unwrap();
                if !is_same(&actual, expected) {
                    mistakes.push(format!("expected {expected}\n     got {actual}"));
                }
            }
            (Some(expected), Err(error)) => mistakes.push(format!("expected {expected}\n     got {error:#?}")),
            (None, Ok(value)) => mistakes.push(format!("expected {:?}\n     got {value}", self.errors)),
            (None, Err(error)) => {
                let text = format!("{}\n{}", error.message, error.hint.as_deref().unwrap_or_default());
                let has = |(code, part): &&(String, String)| error.code.as_str() == code && text.contains(part);
                let lacks = self.errors.iter().filter(|expected| !has(expected));
                mistakes.extend(lacks.map(|lacking| format!("expected {lacking:?}\n     got {error:#?}")));
                let frame = error.frame.as_deref().unwrap_or_default();
                if let Some(line) = self.line
                    && !frame.starts_with(&format!("agent.ts:{line}:"))
                {
                    mistakes.push(format!("expected line {line}\n     got {error:#?}"));
                }
            }
        }
        let is_told = |part: &String| outcome.warnings.iter().any(|warning| warning.contains(part.as_str()));
        if self.warnings.len() != outcome.warnings.len() || !self.warnings.iter().all(is_told) {
            mistakes.push(format!("expected warnings {:?}\n     got {:?}", self.warnings, outcome.warnings));
        }
        mistakes
    }
}

/// Are these the same to JavaScript: `1` and `1.0` are, as are objects with their keys in another order?
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.is_f64() != other.is_f64() && one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| is_same(value, other)))
        }
        _ => one == other,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_as_models_write_them_give_the_right_value_or_say_what_to_change() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_owned();
    let workers = support::options(env!("CARGO_BIN_EXE_pml"), Mode::Worker);
    let gateway = Gateway::with_workers(servers(), Policy::default(), data, &path, workers);
    let entries: Vec<_> = files(corpus(), "md").iter().flat_map(entries).collect();
    let mut names: Vec<_> = entries.iter().map(|entry| &entry.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), entries.len(), "each program has a name of its own");
    assert!(entries.len() >= PROGRAMS, "{} programs", entries.len());

    let failures: Vec<_> = stream::iter(&entries)
        .map(|entry| {
            let gateway = &gateway;
            async move {
                let mistakes = entry.expectation.mistakes(&gateway.run(&entry.program).await);
                (!mistakes.is_empty())
                    .then(|| format!("## {}\n{}\n--- {}\n", entry.name, entry.program, mistakes.join("\n--- ")))
            }
        })
        .buffered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    gateway.stop().await;
    assert!(failures.is_empty(), "{} of {} programs:\n\n{}", failures.len(), entries.len(), failures.join("\n"));
}
