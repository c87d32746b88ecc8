//! The program with the stronger model. `scripts/test-minilm` downloads the weights and runs this.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(target_os = "linux")]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

const FILES: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];

fn weights() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.test-env/minilm/model");
    folder.canonicalize().expect("the weights, which `scripts/test-minilm` downloads")
}

#[expect(clippy::disallowed_methods, reason = "tests start the program directly")]
fn eval(folder: &Path, model: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pml"))
        .args([
            "eval",
            "search",
            "--tools",
            "tools.jsonl",
            "--queries",
            "queries.jsonl",
            "--mode",
            "embedding",
            "--json",
        ])
        .args(["--run", "run.jsonl", "--model-dir"])
        .arg(model)
        .current_dir(folder)
        .env("HOME", folder)
        .output()
        .unwrap()
}

/// A folder with tools and queries that have no word in common, so that only meaning finds them.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, lines: &[Value]| {
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(folder.path().join(name), lines).unwrap();
    };
    let tool = |id: &str, description: &str| json!({ "id": id, "name": id, "description": description });
    write(
        "tools.jsonl",
        &[
            tool("forecast", "Weather at a place on a day"),
            tool("reserve_room", "Books a night in a hotel"),
            tool("restart_instance", "Reboots a virtual machine"),
            tool("convert_currency", "Exchange rates between dollars and yen"),
        ],
    );
    write(
        "queries.jsonl",
        &[
            json!({ "query": "will it be sunny tomorrow", "relevant": ["forecast"] }),
            json!({ "query": "somewhere to sleep in Rome", "relevant": ["reserve_room"] }),
            json!({ "query": "the server hangs, switch it off and on again", "relevant": ["restart_instance"] }),
            json!({ "query": "how much money is that in Japan", "relevant": ["convert_currency"] }),
        ],
    );
    folder
}

#[test]
fn the_model_finds_what_is_said_in_other_words() {
    let folder = folder();
    let output = eval(folder.path(), &weights());
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["queries"], &report["hit@1"]["mean"]), (&json!(4), &json!(1.0)), "{report}");
}

#[test]
fn a_directory_that_is_no_model_is_an_error_that_says_why() {
    let folder = folder();
    let model = folder.path().join("model");
    // Each case spoils one file of the real model.
    let spoil = |name: &str, spoil: &dyn Fn(&Path)| {
        let _ = fs::remove_dir_all(&model);
        fs::create_dir(&model).unwrap();
        for file in FILES {
            match file == name {
                true => spoil(&model.join(file)),
                false => symlink(weights().join(file), model.join(file)).unwrap(),
            }
        }
    };
    let nothing = |_: &Path| ();
    let pipe = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let device = |path: &Path| symlink("/dev/zero", path).unwrap();
    let directory = |path: &Path| fs::create_dir(path).unwrap();
    let huge = |path: &Path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    let pointer = |path: &Path| fs::write(path, "version https://git-lfs.github.com/spec/v1").unwrap();
    let cut = |path: &Path| {
        let whole = fs::read(weights().join("model.safetensors")).unwrap();
        fs::write(path, &whole[..whole.len() / 2]).unwrap();
    };
    let other = |path: &Path| fs::write(path, r#"{"model_type": "t5"}"#).unwrap();
    #[rustfmt::skip]
    let table: [(&str, &dyn Fn(&Path), &str); 12] = [
        ("config.json",       &nothing,   "`config.json` cannot be read: No such file"),
        ("tokenizer.json",    &nothing,   "`tokenizer.json` cannot be read: No such file"),
        ("model.safetensors", &nothing,   "`model.safetensors` cannot be read: No such file"),
        ("model.safetensors", &pipe,      "`model.safetensors` cannot be read: it is no file"),
        ("config.json",       &pipe,      "`config.json` cannot be read: it is no file"),
        ("model.safetensors", &device,    "`model.safetensors` cannot be read: it is no file"),
        ("tokenizer.json",    &directory, "`tokenizer.json` cannot be read: it is no file"),
        ("model.safetensors", &huge,      "`model.safetensors` cannot be read: it has more than"),
        ("config.json",       &huge,      "`config.json` cannot be read: it has more than"),
        ("model.safetensors", &pointer,   "`model.safetensors` is broken or cut off"),
        ("model.safetensors", &cut,       "`model.safetensors` is broken or cut off"),
        ("config.json",       &other,     "`config.json` is of a `t5` model"),
    ];
    for (name, how, expected) in table {
        spoil(name, how);
        let output = eval(folder.path(), &model);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains(expected) && said.contains("hint: "), "{name}: {said}");
        assert!(output.stdout.is_empty());
    }
    let output = eval(folder.path(), &folder.path().join("no-such"));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
