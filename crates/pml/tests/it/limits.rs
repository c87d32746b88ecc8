//! Programs that want too much: each costs only itself.

use std::time::Duration;

use pml_wire::ErrorCode;
use serde_json::json;

use crate::support::{MIB, Sandbox, code};

#[tokio::test]
async fn what_a_program_overuses_ends_it_with_its_own_code() {
    let mut sandbox = Sandbox::start();
    let table = [
        // Time.
        ("while (true) {}", ErrorCode::Timeout),
        ("for (;;) { try { for (;;) {} } catch {} finally {} }", ErrorCode::Timeout),
        ("const f = (): never => { for (;;) {} }; f()", ErrorCode::Timeout),
        ("(async () => { while (true) await 0 })(); await new Promise((r) => setTimeout(r, 1)); 1", ErrorCode::Timeout),
        (
            "const spin = () => { Promise.resolve().then(spin) }; spin(); await new Promise(() => {})",
            ErrorCode::Timeout,
        ),
        ("/^(a+)+$/.test('a'.repeat(40) + 'b')", ErrorCode::Timeout),
        ("return { get x() { for (;;) {} } }", ErrorCode::Timeout),
        ("return { toJSON() { for (;;) {} } }", ErrorCode::Timeout),
        ("return new Proxy({}, { ownKeys() { for (;;) {} } })", ErrorCode::Timeout),
        ("[1, 2].sort(() => { for (;;) {} })", ErrorCode::Timeout),
        ("setInterval(() => {}, 1); await new Promise(() => {})", ErrorCode::Timeout),
        ("const o = { [Symbol.dispose]() { for (;;) {} } }; { using x = o }", ErrorCode::Timeout),
        ("throw { get message() { for (;;) {} }, toString() { for (;;) {} } }", ErrorCode::Exception),
        // Memory.
        ("const a = []; while (true) a.push(new Array(1000).fill(1))", ErrorCode::MemoryLimit),
        ("globalThis.a = []; while (true) globalThis.a.push({ x: [1] })", ErrorCode::MemoryLimit),
        (
            "globalThis.a = []; for (;;) { globalThis.a.push(new Promise((r) => globalThis.a.push(r))) }",
            ErrorCode::MemoryLimit,
        ),
        (
            "const a = []; for (;;) { try { a.push('x'.repeat(1e6) + a.length) } catch (e) { throw e } }",
            ErrorCode::MemoryLimit,
        ),
        ("new Uint8Array(2 ** 31 - 1)", ErrorCode::MemoryLimit),
        ("'x'.repeat(2 ** 29)", ErrorCode::MemoryLimit),
        ("new ArrayBuffer(1e9)", ErrorCode::MemoryLimit),
        ("/(?:(.)(.)(.))*x/.exec('abc'.repeat(3e6))", ErrorCode::MemoryLimit),
        ("'abc'.repeat(3e6).replace(/(?:(.)|(.)|(.))*x/g, '')", ErrorCode::MemoryLimit),
        // Stack.
        ("function f() { f() } f()", ErrorCode::StackOverflow),
        ("const f = () => [1].map(f); f()", ErrorCode::StackOverflow),
        ("const o: any = {}; o.toString = () => `${o}`; `${o}`", ErrorCode::StackOverflow),
        ("JSON.parse('['.repeat(200000))", ErrorCode::StackOverflow),
        // Nothing to wait for.
        ("await new Promise(() => {})", ErrorCode::Deadlock),
        ("await { then() {} }", ErrorCode::Deadlock),
    ];
    for (program, expected) in table {
        // What fills memory may take longer on a busy machine.
        let is_memory = expected == ErrorCode::MemoryLimit;
        sandbox.budget.timeout = Duration::from_millis(if is_memory { 20_000 } else { 700 });
        let outcome = sandbox.run(program).await;
        assert_eq!(code(&outcome), Some(expected), "{program}: {outcome:?}");
        assert!(is_memory || outcome.duration < Duration::from_secs(5), "{program}: {:?}", outcome.duration);
        assert_eq!(sandbox.value("return 1+1").await, json!(2), "after {program}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn a_loop_is_named_by_its_line_when_time_is_up() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.timeout = Duration::from_millis(200);
    let error = sandbox.run("let i = 0;\n\nwhile (true) {\n  i++;\n}").await.result.unwrap_err();
    assert!(error.frame.as_deref().unwrap().starts_with("agent.ts:3:1"), "{error:#?}");
    sandbox.stop().await;
}

/// A search that takes a trillion comparisons, within which the engine never looks at the clock.
const DEAF: &str = "'a'.repeat(2e6).indexOf('a'.repeat(1e6) + 'b')";

#[tokio::test]
async fn native_code_that_never_asks_the_clock_is_killed_from_outside() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.timeout = Duration::from_millis(200);
    let outcome = sandbox.run(DEAF).await;
    let error = outcome.result.unwrap_err();
    assert_eq!(error.code, ErrorCode::Timeout);
    // The host's words, not those of a worker that has heard.
    assert_eq!(error.message, "the program ran for longer than 200ms and did not stop when told to");
    assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("one long operation")), "{error:?}");
    assert!(outcome.duration < Duration::from_secs(5), "{:?}", outcome.duration);
    // With a call under way, that is said, and no guess is made.
    let program = format!("mcp.test.hang({{}}); await new Promise((go) => setTimeout(go, 30)); {DEAF}");
    let error = sandbox.run(&program).await.result.unwrap_err();
    assert_eq!(error.code, ErrorCode::Timeout);
    assert!(error.message.ends_with("while `test:hang` was under way"), "{error:?}");
    assert!(error.hint.as_deref().is_some_and(|hint| !hint.contains("arithmetic")), "{error:?}");
    sandbox.stop().await;
}

/// What makes the stacks of errors is the program's own, and runs also for the error that stops the program.
#[tokio::test]
async fn nothing_leaves_the_worker_after_the_deadline() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.timeout = Duration::from_millis(200);
    let table = [
        "Error.prepareStackTrace = () => { mcp.test.echo({}); console.log('late'); return [] }; for (;;) {}",
        // The stop is swallowed, and the program goes on.
        "Error.prepareStackTrace = () => { for (;;) {} }; new Error('x'); for (;;) { mcp.test.echo({}); console.log('late') }",
        // Read for the report.
        "Object.defineProperty(Object.prototype, 'constructor', { get() { mcp.test.echo({}); console.log('late'); for (;;) {} } }); for (;;) {}",
    ];
    for program in table {
        let outcome = sandbox.run(program).await;
        assert_eq!(code(&outcome), Some(ErrorCode::Timeout), "{program}: {outcome:?}");
        assert!(sandbox.tools.seen.lock().unwrap().is_empty(), "{program}");
        assert!(outcome.calls.is_empty() && outcome.logs.is_empty(), "{program}: {outcome:?}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn a_finished_run_does_not_fail_for_what_nobody_waits_for() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.timeout = Duration::from_secs(5);
    for getter in ["throw 1", "for (;;) {}", "mcp.test.echo({}); return 'x'"] {
        for name in ["message", "name", "cause", "constructor"] {
            let program = format!(
                "Promise.reject(Object.defineProperty(new Error('late'), '{name}', {{ get() {{ {getter} }} }})); return 5"
            );
            let outcome = sandbox.run(&program).await;
            let value = outcome.result.as_ref().map(|value| value.get().to_owned());
            assert_eq!(value.ok().as_deref(), Some("5"), "{program}: {:?}", outcome.result);
            assert!(outcome.warnings.iter().any(|it| it.starts_with("unhandled rejection")), "{program}: {outcome:?}");
            assert!(outcome.calls.is_empty(), "{program}: {outcome:?}");
            assert!(outcome.duration < Duration::from_secs(3), "{program}: {:?}", outcome.duration);
        }
    }
    sandbox.stop().await;
}

/// The tool has done its work, whatever becomes of the result.
#[tokio::test]
async fn a_result_that_does_not_fit_is_no_failure_of_the_tool() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.memory_bytes = 16 * MIB;
    let text = "'[' + '[],'.repeat(600000) + '1]'";
    let outcome = sandbox.run(&format!("return await mcp.test.text({{ text: {text} }})")).await;
    let error = outcome.result.unwrap_err();
    assert_eq!(error.code, ErrorCode::MemoryLimit, "{error:?}");
    assert!(error.message.contains("`test:text`: the call succeeded, but its result does not fit"), "{error:?}");
    assert!(outcome.calls[0].error.is_none(), "{:?}", outcome.calls);
    let program =
        format!("const answer = await pml.callTool('test:text', {{ text: {text} }}); return answer.error.code");
    assert_eq!(sandbox.value(&program).await, "MEMORY_LIMIT");
    sandbox.stop().await;
}

#[tokio::test]
async fn a_caught_out_of_memory_is_the_programs_own_affair() {
    let sandbox = Sandbox::start();
    let program = "let caught = 0; try { const a = []; for (;;) a.push(new Array(1e5).fill(1)) } catch { caught++ } return caught";
    assert_eq!(sandbox.value(program).await, json!(1));
    sandbox.stop().await;
}

#[tokio::test]
async fn deep_nesting_kills_no_host() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.code_bytes = 2 * MIB;
    let n = 100_000;
    let table = [
        "[".repeat(n),
        "(".repeat(n),
        "{".repeat(n),
        format!("return {}1{}", "[".repeat(n), "]".repeat(n)),
        format!("return {}1{}", "(".repeat(n), ")".repeat(n)),
        format!("return {}1", "!".repeat(n)),
        format!("return {}", vec!["1"; n].join("+")),
        format!("return {}1", "a=>".repeat(n)),
        format!("return {}1{}", "`${".repeat(n), "}`".repeat(n)),
        format!("{}1", "if(1)".repeat(n)),
        format!("type A = {}1{}", "[".repeat(n), "]".repeat(n)),
        format!("return a{}", "?.b".repeat(n)),
    ];
    for program in table {
        let outcome = sandbox.run(&program).await;
        let start: String = program.chars().take(20).collect();
        let expected = [
            Some(ErrorCode::SyntaxError),
            Some(ErrorCode::CodeTooDeep),
            Some(ErrorCode::MemoryLimit),
            Some(ErrorCode::StackOverflow),
            Some(ErrorCode::Exception),
            Some(ErrorCode::ResultTooDeep),
            None,
        ];
        assert!(expected.contains(&code(&outcome)), "{start}: {outcome:?}");
        assert_eq!(sandbox.value("return 1+1").await, json!(2), "after {start}");
    }
    assert_eq!(code(&sandbox.run(&"[".repeat(n)).await), Some(ErrorCode::CodeTooDeep));
    // Sound code, too deep for the engine, which calls some of it a mistake.
    for n in [300, 3000, 10_000] {
        let table = [
            format!("return {}1{}", "[".repeat(n), "]".repeat(n)),
            format!("return {}1{}", "{a:".repeat(n), "}".repeat(n)),
            format!("const {}b{} = args; return 1", "{a:".repeat(n), "}".repeat(n)),
            format!("const {}b{} = args; return 1", "[".repeat(n), "]".repeat(n)),
            format!("return {}1{}", "[{a:".repeat(n), "}]".repeat(n)),
            format!("return {}1{}", "`${".repeat(n), "}`".repeat(n)),
        ];
        let sound = [None, Some(ErrorCode::CodeTooDeep), Some(ErrorCode::ResultTooDeep), Some(ErrorCode::Exception)];
        for program in table {
            let outcome = sandbox.run(&program).await;
            assert!(sound.contains(&code(&outcome)), "{n} {}: {outcome:?}", &program[..20]);
        }
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn code_over_the_limit_is_refused_before_any_worker_sees_it() {
    let sandbox = Sandbox::start();
    let error = sandbox.run(&" ".repeat(10 * MIB)).await.result.unwrap_err();
    assert_eq!(error.code, ErrorCode::CodeTooLarge);
    assert!(error.message.contains("10485760") && error.message.contains("262144"), "{error:?}");
    sandbox.stop().await;
}

#[tokio::test]
async fn a_flood_of_console_output_is_cut_and_counted() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.log_bytes = 10_000;
    let outcome = sandbox.run("for (let i = 0; i < 10000; i++) console.log('x'.repeat(84)); return 1").await;
    assert!(outcome.result.is_ok());
    assert_eq!(outcome.logs.len(), 100);
    assert_eq!(outcome.warnings, ["9900 console lines over the limit of 10000 bytes were dropped"]);
    let outcome = sandbox.run("for (let i = 0; i < 10000; i++) console.log(); return 1").await;
    assert_eq!(outcome.logs.len(), 625);
    let outcome = sandbox.run("console.log('x'.repeat(1e6)); return 1").await;
    assert_eq!(outcome.logs.len(), 0);
    sandbox.stop().await;
}

#[tokio::test]
async fn too_many_timers_are_refused() {
    let sandbox = Sandbox::start();
    let error = sandbox.run("for (;;) setTimeout(() => {}, 1e9)").await.result.unwrap_err();
    assert_eq!(error.code, ErrorCode::Exception);
    assert!(error.message.contains("too many timers"), "{error:?}");
    sandbox.stop().await;
}

#[tokio::test]
async fn answers_that_do_not_fit_into_memory_are_no_deadlock() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.memory_bytes = 16 * MIB;
    // Each answer is kept, until there is not even room to say that there is none.
    let program = "const text = JSON.stringify(Array.from({ length: 50 }, (_, i) => ({ name: 'tool ' + i, more: 'x'.repeat(250) })));
        const calls = Array.from({ length: 900 }, () => mcp.test.text({ text }));
        return (await Promise.allSettled(calls)).length";
    let outcome = sandbox.run(program).await;
    assert_eq!(code(&outcome), Some(ErrorCode::MemoryLimit), "{:?}", outcome.result);
    sandbox.stop().await;
}

/// A few kilobytes of code that make the compiler ask for a gigabyte, in the ways that its parser tries things out.
#[test]
fn compiling_stays_near_the_memory_limit() {
    // The most that a process of this run has held, in kilobytes, behind what pml printed.
    const MEASURE: &str = "import resource, subprocess, sys\n\
        run = subprocess.run(sys.argv[1:], capture_output=True, text=True)\n\
        print(run.stdout, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let folder = tempfile::tempdir().unwrap();
    let programs = [
        format!("return {}1", "a<".repeat(8000)),
        "async(a=".repeat(8000),
        format!("return {}1", "f<a,".repeat(8000)),
        "(a:(b:".repeat(8000),
        format!("return {}1", "a?(b):".repeat(8000)),
        format!("return {}1", "x as ".repeat(20_000)),
    ];
    for program in programs {
        let path = folder.path().join("program.ts");
        std::fs::write(&path, &program).unwrap();
        #[expect(clippy::disallowed_methods, reason = "tests start programs directly")]
        let measured = std::process::Command::new("python3")
            .args(["-c", MEASURE, env!("CARGO_BIN_EXE_pml"), "run", "--json", "--memory", "64"])
            .arg(&path)
            .env("PML_DATA_DIR", folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&measured.stdout).into_owned();
        let (json, kilobytes) = text.trim().rsplit_once(' ').expect("a result and a number");
        let outcome: serde_json::Value = serde_json::from_str(json).unwrap();
        let start = &program[..20];
        let error = &outcome["error"];
        let ends = ["MEMORY_LIMIT", "CODE_TOO_DEEP", "SYNTAX_ERROR", "EXCEPTION"];
        assert!(ends.iter().any(|code| error["code"] == *code), "{start}: {error}");
        assert!(!error["message"].as_str().unwrap().contains('/'), "{start}: {error}");
        // The compiler's limit, the engine's, and the program itself.
        assert!(kilobytes.parse::<usize>().unwrap() < 200 * 1024, "{start}: {kilobytes} kB");
    }
}
