//! A worker as the host sees it: the frames it sends, and what it makes of the answers.
//!
//! Without arguments this is a host that runs each program of the tables in a worker of its own;
//! with `worker` it is that worker. The host here knows four tools, and keeps one long text and one
//! object.

#![expect(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods, reason = "a test program of its own")]
#![expect(clippy::unwrap_used, reason = "a failure is the answer")]

mod support;

use std::{env, process::ExitCode};

use pml_wire::{
    ErrorCode, Frame, Kind,
    message::{Block, CallError, ExecutionComplete, Handle, Handles, Init, Log, Part, Preflight, Read, RpcCall, Slice},
};
use serde_json::{Value, json, value::to_raw_value};
use support::{LIMITS, Worker};

fn main() -> ExitCode {
    if env::args().nth(1).is_some_and(|command| command == pml_worker::COMMAND) {
        pml_worker::main(env::args_os().skip(2));
    }
    let mut failed = 0;
    let mut check = |what: &str, code: &str, actual: Value, expected: &Value| {
        if actual != *expected {
            eprintln!("{what} of {code}\n  is       {actual}\n  expected {expected}");
            failed += 1;
        }
    };
    let (results, preflights) = (results(), preflights());
    for (code, expected) in &results {
        check("the result", code, run(code).result, expected);
    }
    for (code, expected) in &preflights {
        check("the frames", code, json!(run(code).frames), expected);
    }
    // What does not fit into a small frame is left out; the rest is sent.
    let many =
        format!("return 1\n{}", "mcp.test.echo({ a: 1 }) // so that a line is as long as lines can be\n".repeat(150));
    let named = run(&many).frames[0].matches("test:echo(a)").count();
    check("that some calls are named", &many, json!((1..150).contains(&named)), &json!(true));
    println!("{} programs, {failed} failed", results.len() + preflights.len() + 1);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Programs, and their results; a failure is `[code, message, line]`.
#[rustfmt::skip]
fn results() -> Vec<(&'static str, Value)> {
    vec![
        // What a handle looks like.
        ("return Object.entries(await mcp.kept.text())", json!([["type", "text"], ["size", size()]])),
        ("return Object.entries((await mcp.kept.blocks())[1])",
            json!([["type", "image"], ["size", 4], ["mimeType", "image/png"], ["uri", "file:///a"]])),
        ("return Object.isFrozen(await mcp.kept.text())", json!(true)),
        ("const h = await mcp.kept.text(); return [Object.prototype.toString.call(h), pml.ResultHandle.name, h instanceof pml.ResultHandle]",
            json!(["[object ResultHandle]", "ResultHandle", true])),
        ("import { ResultHandle } from 'pml'; return (await mcp.kept.text()) instanceof ResultHandle", json!(true)),
        ("const { ResultHandle } = await import('pml'); return ResultHandle === pml.ResultHandle", json!(true)),
        ("console.log(await mcp.kept.json())", json!("ResultHandle { type: \"json\", size: 9 }")),
        ("return Reflect.ownKeys(await mcp.kept.text())", json!(["type", "size"])),
        ("const h = await mcp.kept.text(); return structuredClone([h])[0] === h", json!(true)),
        // It becomes its marker, whatever a program did to the realm.
        ("return mcp.kept.text()", json!({"$pml:handle": "t"})),
        ("return mcp.kept.blocks()", json!([{"type": "text", "text": "hi"}, {"$pml:handle": "i"}])),
        ("return mcp.test.echo({ a: [await mcp.kept.text()] })", json!({"a": [{"$pml:handle": "t"}]})),
        ("Object.prototype.toJSON = () => 1; return mcp.kept.text()", json!({"$pml:handle": "t"})),
        ("Object.defineProperty(Array.prototype, 0, { set() { throw 1 } }); return (await mcp.kept.blocks()).length", json!(2)),
        ("WeakMap.prototype.get = () => 'x'; Object.freeze = Object.create = Reflect.apply = null; return mcp.kept.text()",
            json!({"$pml:handle": "t"})),
        // `callTool` puts it into its envelope.
        ("const { success, result } = await pml.callTool('kept:text'); return [success, result.size]", json!([true, size()])),
        // Answers that come while names are awaited.
        ("const p = mcp.kept.text(); Object.keys(mcp); return (await p).size", json!(size())),
        // Reading the text.
        ("const h = await mcp.kept.text(); return [await h.slice(0, 3), await h.slice(1, 4), await h.slice(h.size - 2)]",
            json!(["xé", "é", "é"])),
        ("return (await (await mcp.kept.text()).slice()).length", json!(text().chars().count())),
        ("const all = []; for await (const chunk of await mcp.kept.text()) all.push(chunk); return [all.length, all.join('').length]",
            json!([3, text().chars().count()])),
        // Reading values, which may be kept too.
        ("return (await mcp.kept.json()).json('a')", json!(1)),
        ("return (await mcp.kept.json()).json()", json!({"a": 1})),
        ("return (await (await mcp.kept.json()).json('big')).slice(0, 1)", json!("x")),
        // What cannot be read.
        ("const h = await mcp.kept.json();\nawait h.json('b')",
            json!(["INVALID_ARGUMENTS", "`ResultHandle.json`: there is no `b`", 2])),
        ("const h = await mcp.kept.json(); try { await h.slice() } catch (e) { return [e.name, e.code, e.tool] }",
            json!(["ToolError", "INVALID_ARGUMENTS", "ResultHandle.slice"])),
        ("const h = await mcp.kept.json();\n\nfor await (const chunk of h) chunk",
            json!(["INVALID_ARGUMENTS", "`ResultHandle.slice`: this has no text", 3])),
        ("const h = await mcp.kept.json(); try { await h.json('x'.repeat(5000)) } catch (e) { return e.message }",
            json!("a path has at most 4096 bytes")),
        ("const h = await mcp.kept.text(); return [-1, 0.5, '0', NaN, 2 ** 60].map((x) => { try { h.slice(x) } catch (e) { return e.name } })",
            json!(["TypeError", "TypeError", "TypeError", "TypeError", "TypeError"])),
        ("const h = await mcp.kept.text(); try { h.json(1) } catch (e) { return e.name }", json!("TypeError")),
        // None can be made.
        ("try { new pml.ResultHandle() } catch (e) { return e.message }", json!("a ResultHandle is made by a tool call only")),
        ("class X extends pml.ResultHandle {}; try { new X() } catch (e) { return e.name }", json!("TypeError")),
        ("try { pml.ResultHandle.prototype.slice.call({ size: 1 }) } catch (e) { return e.message }",
            json!("this method belongs to a ResultHandle")),
        ("try { JSON.stringify(Object.create(pml.ResultHandle.prototype)) } catch (e) { return e.name }", json!("TypeError")),
    ]
}

/// Programs, and what their worker sends, in order.
#[rustfmt::skip]
fn preflights() -> Vec<(&'static str, Value)> {
    vec![
        ("return 1", json!(["Value 0", "ExecutionComplete 0"])),
        ("console.log(1); await mcp.test.echo({ a: 1 })",
            json!(["Preflight 0: test:echo(a) 1:23", "Log 0", "Line 1", "RpcCall 1", "Value 0", "ExecutionComplete 0"])),
        ("throw 1; mcp.test.echo()", json!(["Preflight 0: test:echo() 1:10", "ExecutionComplete 0"])),
        ("await mcp.test.echo(); await (await mcp.kept.text()).slice(0, 1); await mcp.test.echo()",
            json!(["Preflight 0: test:echo() 1:7, kept:text() 1:37, test:echo() 1:73",
                "Line 1", "RpcCall 1", "Answered 1", "RpcCall 2", "Answered 2", "Read 3", "Answered 3", "RpcCall 4", "Value 0", "ExecutionComplete 0"])),
        // A line is told when it is another one.
        ("for (const a of [1, 2])\n  await mcp.test.echo({ a });\nawait pml.callTool('test:echo')",
            json!(["Preflight 0: test:echo() 2:9, test:echo() 3:7", "Line 2", "RpcCall 1", "Answered 1", "RpcCall 2", "Answered 2", "Line 3", "RpcCall 3",
                "Value 0", "ExecutionComplete 0"])),
    ]
}

/// What one run came to.
struct Seen {
    frames: Vec<String>,
    /// The result, or the last line of console output if it is `null`, or the failure.
    result: Value,
}

/// Runs `code` in a new worker and answers it.
fn run(code: &str) -> Seen {
    let mut worker = Worker::start("UTC0");
    assert_eq!(worker.receive().kind, Kind::Ready);
    let args = to_raw_value(&Value::Null).unwrap();
    worker.send(
        Kind::Init,
        0,
        &json!(Init { name: "agent.ts".to_owned(), code: code.to_owned(), args, limits: LIMITS }),
    );

    let mut seen = Seen { frames: Vec::new(), result: Value::Null };
    loop {
        let Frame { kind, id, body } = worker.receive();
        seen.frames.push(format!("{kind:?} {id}"));
        match kind {
            Kind::Preflight => {
                let preflight: Preflight = serde_json::from_slice(&body).unwrap();
                let calls = preflight.calls.iter();
                let calls = calls.map(|it| format!("{}({}) {}:{}", it.target, it.keys.join(","), it.line, it.column));
                *seen.frames.last_mut().unwrap() += &format!(": {}", calls.collect::<Vec<_>>().join(", "));
            }
            Kind::RpcCall => {
                let call: RpcCall<'_> = serde_json::from_slice(&body).unwrap();
                let (kind, answer) = answer(&call);
                worker.send(kind, id, &answer);
            }
            Kind::Read => {
                let (kind, answer) = read(&serde_json::from_slice(&body).unwrap());
                worker.send(kind, id, &answer);
            }
            Kind::NamesRequest => worker.send(Kind::Names, 0, &json!({"kept": ["text"]})),
            Kind::Log => seen.result = json!(serde_json::from_slice::<Log>(&body).unwrap().text),
            Kind::Value if body != b"null" => seen.result = serde_json::from_slice(&body).unwrap(),
            Kind::ExecutionComplete => {
                let complete: ExecutionComplete = serde_json::from_slice(&body).unwrap();
                if let Some(error) = complete.error {
                    let place = error.frame.as_deref().and_then(|frame| frame.split(':').nth(1)?.parse::<u32>().ok());
                    seen.result = json!([error.code, error.message, place]);
                }
                return seen;
            }
            _ => {}
        }
    }
}

/// More than two chunks, with a character across each border.
fn text() -> String {
    format!("x{}", "é".repeat((5 << 20) / 4))
}

fn size() -> usize {
    text().len()
}

fn handle(token: &str, r#type: &str, size: usize) -> Handle {
    Handle { token: token.to_owned(), r#type: r#type.to_owned(), size: size as u64, mime_type: None, uri: None }
}

fn answer(call: &RpcCall<'_>) -> (Kind, Value) {
    let handles = match call.target.as_str() {
        "kept:text" => Handles::Whole(handle("t", "text", size())),
        "kept:json" => Handles::Whole(handle("j", "json", 9)),
        "kept:blocks" => {
            let image = Handle {
                mime_type: Some("image/png".to_owned()),
                uri: Some("file:///a".to_owned()),
                ..handle("i", "image", 4)
            };
            let text = to_raw_value(&json!({"type": "text", "text": "hi"})).unwrap();
            Handles::Blocks(vec![Block::Value(text), Block::Handle(image)])
        }
        _ => return (Kind::RpcResult, serde_json::from_str(call.args.get()).unwrap()),
    };
    (Kind::RpcHandles, json!(handles))
}

fn read(read: &Read) -> (Kind, Value) {
    let refuse = |message: String| (Kind::RpcError, json!(CallError::new(ErrorCode::InvalidArguments, message)));
    match (read.token.as_str(), &read.part) {
        ("t", Part::Slice { from, to }) => {
            let text = text();
            // Inwards, so that only who goes on at `next` reads all of it.
            let from = text.ceil_char_boundary(*from as usize);
            let to = text.floor_char_boundary(*to as usize).max(from);
            let slice = Slice { text: text[from..to].to_owned(), next: to as u64 };
            (Kind::RpcResult, json!(slice))
        }
        ("j", Part::Json { path }) => match path.as_str() {
            "" => (Kind::RpcResult, json!({"a": 1})),
            "a" => (Kind::RpcResult, json!(1)),
            "big" => (Kind::RpcHandles, json!(Handles::Whole(handle("t", "text", size())))),
            path => refuse(format!("there is no `{path}`")),
        },
        ("j", Part::Slice { .. }) => refuse("this has no text".to_owned()),
        (token, _) => panic!("a read of {token}"),
    }
}
