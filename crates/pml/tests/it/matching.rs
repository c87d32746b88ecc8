//! How well capabilities are matched with intents, on tasks of our own in many words, and on bad data.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};

use super::cli::{json_of, pml_in, stderr, stdout};

/// Every task in all the ways to say it, in an order without pattern.
fn traces() -> Vec<Value> {
    let tasks: Value = serde_json::from_str(include_str!("../data/matching.json")).unwrap();
    let mut traces = Vec::new();
    for task in tasks["tasks"].as_array().unwrap() {
        let steps: Vec<Value> = task["tools"].as_array().unwrap().iter().map(|tool| json!({ "tool": tool })).collect();
        for way in 0..27 {
            let part = |place: usize, which: usize| task["say"][place][which].as_str().unwrap().to_owned();
            let intent = [part(0, way % 3), part(1, way / 3 % 3), part(2, way / 9)].join(" ");
            traces.push(json!({ "intent": intent, "steps": steps }));
        }
    }
    let mut state = 7_u64;
    for left in (2..=traces.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        traces.swap(left - 1, ((state >> 33) % left as u64) as usize);
    }
    traces
}

fn write(folder: &Path, name: &str, lines: &[Value]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(folder.join(name), text).unwrap();
}

const FILES: [&str; 8] =
    ["eval", "capabilities", "--tools", "tools.jsonl", "--train", "train.jsonl", "--test", "test.jsonl"];

#[test]
fn the_probability_of_a_match_can_be_believed() {
    let folder = tempfile::tempdir().unwrap();
    let traces = traces();
    let tools: BTreeSet<String> = traces
        .iter()
        .flat_map(|trace| trace["steps"].as_array().unwrap())
        .map(|step| step["tool"].to_string())
        .collect();
    let tool = |id: &String| {
        let id: String = serde_json::from_str(id).unwrap();
        json!({ "id": id, "name": id })
    };
    write(folder.path(), "tools.jsonl", &tools.iter().map(tool).collect::<Vec<_>>());
    let (train, test) = traces.split_at(traces.len() * 4 / 5);
    write(folder.path(), "train.jsonl", train);
    write(folder.path(), "test.jsonl", test);
    let report = json_of(&pml_in(folder.path(), &[&FILES[..], &["--seeds", "5", "--json"]].concat(), b""));
    let number =
        |path: &str| report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {report}"));
    assert_eq!(number("/capabilities"), 16.0);
    assert!(number("/absent") / number("/queries") > 0.19, "one in five has no answer: {report}");
    assert!(number("/at/1/matched") >= 50.0 && number("/at/1/precision") >= 0.78, "{report}");
    assert!(number("/at/0/recall") >= 0.5 && number("/at/0/precision") >= 0.6, "{report}");
    assert!(number("/calibration_error") <= 0.05, "{report}");
    assert!(number("/at/1/precision") > number("/fixed_similarity/precision"), "{report}");
    assert_eq!(report, json_of(&pml_in(folder.path(), &[&FILES[..], &["--seeds", "5", "--json"]].concat(), b"")));
    let text = stdout(&pml_in(folder.path(), &FILES, b""));
    assert!(text.contains("16 capabilities") && text.contains("calibration error 0."), "{text}");
}

#[test]
fn bad_data_has_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let trace = |intent: &str| json!({ "intent": intent, "steps": [{ "tool": "a" }] });
    write(folder.path(), "tools.jsonl", &[json!({ "id": "a", "name": "a" })]);
    write(folder.path(), "train.jsonl", &[trace("do it"), trace(""), json!({ "intent": "x", "steps": [] })]);
    write(folder.path(), "same.jsonl", &[trace("do it")]);
    write(
        folder.path(),
        "other.jsonl",
        &[trace("something else"), json!({ "intent": "y", "steps": [{ "tool": "b" }] })],
    );
    write(folder.path(), "failed.jsonl", &[json!({ "intent": "x", "steps": [{ "tool": "a", "success": false }] })]);
    write(folder.path(), "broken.jsonl", &[json!({ "intent": "x" })]);
    #[rustfmt::skip]
    let table = [
        // test            exit  said
        ("other.jsonl",    0,    "1 steps are of no tool"),
        ("same.jsonl",     0,    "1 test traces have an intent that is also learned from"),
        ("failed.jsonl",   2,    "nothing to measure"),
        ("broken.jsonl",   2,    "line 1 of `broken.jsonl`"),
        ("missing.jsonl",  2,    "cannot be read"),
    ];
    for (test, code, said) in table {
        let output = pml_in(folder.path(), &[&FILES[..7], &[test]].concat(), b"");
        assert_eq!(output.status.code(), Some(code), "{test}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{test}: {}", stderr(&output));
    }
}
