//! A pool of real workers, and tools that echo, wait and fail.

use std::{
    num::NonZeroUsize,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use pml::{
    broker::{Answer, CallHandler, HandlerFuture, ToolCall},
    execution::{self, Budget, Event, Outcome, Request},
    sandbox::{Mode, Options, Pool, TimeZone, WorkerLimits},
    trace::Context,
};
use pml_wire::{
    CallId, ErrorCode,
    message::{Ask, CallError},
};
use serde_json::{Value, value::RawValue};
use tokio_util::sync::CancellationToken;

pub(crate) const MIB: usize = 1024 * 1024;

/// Limits that suit a test: as the defaults, with less time.
pub(crate) fn budget() -> Budget {
    Budget {
        timeout: Duration::from_secs(10),
        max_timeout: Duration::from_secs(60),
        total: Duration::from_secs(60),
        memory_bytes: 64 * MIB,
        code_bytes: 256 * 1024,
        result_bytes: 8 * MIB,
        log_bytes: MIB,
        calls: 1000,
        calls_in_flight: 32,
        calls_per_minute: None,
        decisions: 200,
    }
}

pub(crate) fn options(program: impl Into<PathBuf>, mode: Mode) -> Options {
    Options {
        program: program.into(),
        mode,
        warm_workers: NonZeroUsize::new(2).unwrap(),
        allow_weak: false,
        time_zone: TimeZone::default(),
        limits: WorkerLimits { memory_bytes: 64 * MIB as u64, cpu_seconds: 60 },
        max_frame_bytes: 9 * MIB as u32,
    }
}

/// A pool that is gone, with all its processes, when [`Sandbox::stop`] returns.
pub(crate) struct Sandbox {
    pub(crate) pool: Pool,
    pub(crate) tools: Tools,
    pub(crate) budget: Budget,
    shutdown: CancellationToken,
    keeper: tokio::task::JoinHandle<()>,
}

impl Sandbox {
    pub(crate) fn start() -> Sandbox {
        Sandbox::with(options(env!("CARGO_BIN_EXE_pml"), Mode::Subprocess))
    }

    pub(crate) fn with(options: Options) -> Sandbox {
        let shutdown = CancellationToken::new();
        let (pool, keeper) = Pool::start(options, shutdown.clone());
        Sandbox { pool, tools: Tools::default(), budget: budget(), shutdown, keeper: tokio::spawn(keeper) }
    }

    pub(crate) async fn run(&self, code: &str) -> Outcome {
        self.run_with(code, &CancellationToken::new(), &|_| {}).await
    }

    pub(crate) async fn run_with(
        &self,
        code: &str,
        cancel: &CancellationToken,
        listener: &(dyn Fn(Event<'_>) + Sync),
    ) -> Outcome {
        let args = RawValue::from_string(r#"{"name":"value"}"#.to_owned()).unwrap();
        let request = Request { args, ..Request::new(code) };
        execution::run(&self.pool, request, self.budget, &self.tools, listener, cancel).await
    }

    /// The result of a program that succeeds.
    pub(crate) async fn value(&self, code: &str) -> Value {
        let outcome = self.run(code).await;
        match &outcome.result {
            Ok(value) => serde_json::from_str(value.get()).unwrap(),
            Err(error) => panic!("{code}: {error:#?}"),
        }
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.keeper.await.unwrap();
    }
}

/// The code of a failed run, or `None` of one that succeeded.
pub(crate) fn code(outcome: &Outcome) -> Option<ErrorCode> {
    outcome.result.as_ref().err().map(|error| error.code)
}

/// `test:echo` answers its arguments, `test:wait` after `ms`, `test:fail` fails, `test:hang` never
/// ends, `test:text` answers what it was given as `text`, verbatim JSON.
#[derive(Default)]
pub(crate) struct Tools {
    pub(crate) seen: Mutex<Vec<ToolCall>>,
    running: AtomicUsize,
    pub(crate) most_at_once: AtomicUsize,
    pub(crate) cancelled: Arc<AtomicUsize>,
}

/// Counts a call that was dropped before it ended.
struct Guard(Arc<AtomicUsize>, bool);

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.1 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl CallHandler for Tools {
    fn call(&self, call: ToolCall) -> HandlerFuture<'_, Result<Answer, CallError>> {
        self.seen.lock().unwrap().push(call.clone());
        Box::pin(async move {
            let mut guard = Guard(Arc::clone(&self.cancelled), false);
            let at_once = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
            let written = call.args.fill(&Value::Null)?;
            let args: Value = serde_json::from_str(written.get()).unwrap();
            let result = match call.tool.as_str() {
                "test:echo" => Ok(written),
                "test:wait" => {
                    tokio::time::sleep(Duration::from_millis(args["ms"].as_u64().unwrap())).await;
                    Ok(written)
                }
                "test:hang" => std::future::pending().await,
                "test:text" => Ok(RawValue::from_string(args["text"].as_str().unwrap().to_owned()).unwrap()),
                "test:fail" => {
                    let mut error = CallError::new(ErrorCode::ToolError, "it did not work");
                    error.data = Some(args);
                    Err(error)
                }
                other => Err(CallError::new(ErrorCode::ToolNotFound, format!("there is no tool `{other}`"))),
            };
            self.running.fetch_sub(1, Ordering::SeqCst);
            guard.1 = true;
            result.map(Answer::from)
        })
    }

    /// What was asked for.
    fn ask(&self, _: Arc<Context>, _: CallId, ask: Ask) -> HandlerFuture<'_, Result<Answer, CallError>> {
        let Ask::Search(search) = ask else { panic!("only searches are tried with this") };
        let asked = serde_json::value::to_raw_value(&search).unwrap();
        Box::pin(std::future::ready(Ok(asked.into())))
    }

    fn names(&self) -> HandlerFuture<'_, Arc<str>> {
        let names = r#"{"test":["echo","wait","fail","hang","text"],"other":["then","tool"]}"#;
        Box::pin(std::future::ready(names.into()))
    }
}
