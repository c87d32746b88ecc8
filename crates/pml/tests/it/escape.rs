//! What a program may try and must not get, and what the kernel says of a waiting worker.
//!
//! That the jail's walls hold against native code is tested in `pml-worker/tests/escape.rs`.

#![cfg(target_os = "linux")]

use std::fs;

use pml::sandbox::Mode;
use pml_wire::hardening::Layer;
use serde_json::json;

use crate::support::{Sandbox, options};

const MODES: [Mode; 2] = [Mode::Worker, Mode::Subprocess];

#[tokio::test]
async fn every_layer_is_closed() {
    for mode in MODES {
        let sandbox = Sandbox::with(options(env!("CARGO_BIN_EXE_pml"), mode));
        let worker = sandbox.pool.lease().await.unwrap();
        let report = worker.hardening();
        for layer in
            [Layer::Namespaces, Layer::NoNewPrivs, Layer::Landlock, Layer::NonDumpable, Layer::Rlimits, Layer::Seccomp]
        {
            let found = report.layers.iter().find(|report| report.layer == layer);
            assert!(found.is_some_and(|report| report.enforced), "{mode:?} {layer}: {report:?}");
        }
        drop(worker);
        sandbox.stop().await;
    }
}

#[tokio::test]
async fn the_kernel_agrees_with_the_report() {
    for mode in MODES {
        let sandbox = Sandbox::with(options(env!("CARGO_BIN_EXE_pml"), mode));
        let worker = sandbox.pool.lease().await.unwrap();
        let proc = format!("/proc/{}", worker.id().unwrap());

        let status = fs::read_to_string(format!("{proc}/status")).unwrap();
        for line in
            ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "Threads:\t1"]
        {
            assert!(status.contains(line), "{mode:?}: no {line:?} in {status}");
        }
        let score = fs::read_to_string(format!("{proc}/oom_score_adj")).unwrap();
        assert_eq!(score.trim(), "1000", "{mode:?}: when memory runs out, a worker goes before the host");
        let limits = fs::read_to_string(format!("{proc}/limits")).unwrap();
        for (name, value) in
            [("Max open files", "1"), ("Max processes", "0"), ("Max file size", "0"), ("Max core file size", "0")]
        {
            let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
            assert!(line[name.len()..].split_whitespace().take(2).all(|limit| limit == value), "{mode:?}: {line}");
        }
        if !rustix::process::getuid().is_root() {
            // Not even to the user it belongs to does it show its insides.
            let refused = fs::read_dir(format!("{proc}/fd")).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "{mode:?}");
            drop(worker);
            sandbox.stop().await;
            continue;
        }
        // Only the socket and standard error are open.
        let mut open: Vec<_> =
            fs::read_dir(format!("{proc}/fd")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        open.sort();
        assert_eq!(open, ["0", "2"], "{mode:?}");
        // Nothing of the host's environment.
        assert_eq!(fs::read(format!("{proc}/environ")).unwrap(), b"TZ=UTC0\0", "{mode:?}");
        // The root is empty, and every namespace is another.
        assert_eq!(fs::read_dir(format!("{proc}/root")).unwrap().count(), 0, "{mode:?}");
        for namespace in ["user", "mnt", "net", "ipc", "uts"] {
            let link = |pid: &str| fs::read_link(format!("{pid}/ns/{namespace}")).unwrap();
            assert_ne!(link(&proc), link("/proc/self"), "{mode:?} {namespace}");
        }
        drop(worker);
        sandbox.stop().await;
    }
}

#[tokio::test]
async fn nothing_of_the_host_is_reachable_from_a_program() {
    let sandbox = Sandbox::start();
    // Every object that can be reached from the global one by properties and prototypes.
    let program = r#"
        const seen = new Set<unknown>(); const names: string[] = []; const queue: [unknown, string][] = [[globalThis, ""]];
        while (queue.length) {
          const [value, path] = queue.pop()!;
          if ((typeof value !== "object" && typeof value !== "function") || value === null || seen.has(value)) continue;
          if (value === mcp) continue;
          seen.add(value);
          for (const key of Reflect.ownKeys(value as object)) {
            const d = Reflect.getOwnPropertyDescriptor(value as object, key);
            names.push(`${path}.${String(key)}`);
            for (const next of [d?.value, d?.get, d?.set]) queue.push([next, `${path}.${String(key)}`]);
          }
          queue.push([Reflect.getPrototypeOf(value as object), path + "^"]);
        }
        return names.map((name) => name.replace(/\.__(proto|(define|lookup)(Getter|Setter))__/g, ""))
          .filter((name) => /native|__|rpc|bridge|socket|frame|probe|channel|process|require/i.test(name))
    "#;
    assert_eq!(sandbox.value(program).await, json!([]));
    let table = [
        ("(() => {}).constructor('return this')() === globalThis", json!(true)),
        ("typeof (async () => {}).constructor('return typeof process')", json!("function")),
        (
            "await (async () => {}).constructor('return [typeof require, typeof native, typeof $probe]')()",
            json!(["undefined", "undefined", "undefined"]),
        ),
        ("try { (0, eval)('native') } catch (e) { return e.name }", json!("ReferenceError")),
        ("String(mcp.test.echo)", json!("function echo() {\n    [native code]\n}")),
        ("typeof SharedArrayBuffer !== 'undefined' && typeof Worker", json!("undefined")),
        (
            "try { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10) } catch (e) { return e.name }",
            json!("TypeError"),
        ),
        ("try { mcp.test.echo.caller } catch (e) { return 'refused' } return 'none'", json!("refused")),
        (
            "let stack: any; Error.prepareStackTrace = (_, s) => s; try { null!.x } catch (e) { stack = e.stack } \
          Error.prepareStackTrace = undefined; return Array.isArray(stack) && stack.every((s) => s.getFunction === undefined || s.getFunction() === undefined || typeof s.getFunction() === 'function')",
            json!(true),
        ),
    ];
    for (program, expected) in table {
        assert_eq!(sandbox.value(program).await, expected, "{program}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn one_run_leaves_nothing_for_the_next() {
    for mode in MODES {
        let sandbox = Sandbox::with(options(env!("CARGO_BIN_EXE_pml"), mode));
        sandbox.value("globalThis.secret = 'mine'; Object.prototype.planted = 1; Math.max = () => 'evil'; 1").await;
        let value =
            sandbox.value("[typeof globalThis.secret, ({} as any).planted === undefined, Math.max(1, 2)]").await;
        assert_eq!(value, json!(["undefined", true, 2]), "{mode:?}");
        sandbox.stop().await;
    }
}
