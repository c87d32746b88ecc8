//! Commands, their output and exit codes.
//!
//! Data goes to stdout, everything else to stderr. Exit code 0 is success, 1 means that the
//! program (or what was asked about) failed, 2 a mistake in the command line or configuration.

mod audit;
mod capability;
mod changed;
mod changes;
mod clients;
mod demo;
mod demo_server;
mod destination;
mod doctor;
mod eval;
mod graph;
mod hub;
mod import;
mod install;
mod learn;
mod login;
mod own_files;
mod print;
mod run;
mod sanitize;
mod search;
mod serve;
mod server;
mod starting;
mod suggest;
mod suspicions;
mod token;
mod tools;
mod trace;
mod trust;
mod workflow;
mod workflow_graph;

use std::{
    convert::Infallible,
    future::Future,
    io::{self, Write as _},
    num::NonZeroUsize,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

pub use self::demo_server::{DEMO_SERVER, main as demo_server};
use crate::{
    broker::OWN,
    config::{self, Config, Loaded, Sources},
    error::Error,
    execution::{Budget, Nested},
    sandbox::{self, Mode, Options, Pool, WorkerLimits},
    serve::{Options as ServiceOptions, Services, Traces},
    shown::visible,
    workflow::OwnTools,
};

/// Exit code of a mistake in the command line or configuration.
const USAGE: u8 = 2;

/// On whose behalf the command line makes calls, in records.
const CLI: &str = "cli";

/// Threads of `pml serve` that do the work. The work is elsewhere: in sandboxes and servers.
const MAX_THREADS: usize = 4;

/// An MCP gateway with code mode: agents send TypeScript, pml runs it in a jail.
#[derive(Debug, Parser)]
#[command(name = "pml", version, subcommand_required = true, arg_required_else_help = true)]
struct Args {
    /// The only configuration file [default: $PML_CONFIG, or ~/.config/pml/pml.toml and a ./pml.toml that you trust]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Also use the servers of a client's own file, such as .mcp.json [may be repeated]
    #[arg(long, global = true, value_name = "FILE")]
    mcp_config: Vec<PathBuf>,

    /// Where lists of tools, logins, traces and the audit log are kept [default: $PML_DATA_DIR, ~/.local/share/pml]
    #[arg(long, global = true, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,

    /// What to log to stderr: error, warn, info, debug, trace [default: $PML_LOG, warn]
    #[arg(long, global = true, value_name = "LEVEL")]
    log: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a TypeScript program in the sandbox
    Run(run::Args),
    /// Run a program that comes with pml, on servers that come with pml
    Demo,
    /// Run, check or draw a workflow: tasks that depend on each other
    Workflow {
        #[command(subcommand)]
        what: workflow::What,
    },
    /// Be the MCP server that a client (Claude Code, Codex, Cursor, …) talks to
    Serve(serve::Args),
    /// Find tools by what they do
    Search(search::Args),
    /// Suggest tools for a task, by what was used for such tasks before
    Suggest(suggest::Args),
    /// Show which tools are used together, and which follow each other
    Graph(graph::Args),
    /// See, forget, rebuild or switch off what was learned from traces
    Learn {
        #[command(subcommand)]
        what: learn::What,
    },
    /// List the tools of all servers, or of one; see which have changed, and accept them
    Tools(tools::Args),
    /// Write TypeScript declarations of all tools, for editors
    Types(tools::TypesArgs),
    /// Add, remove, list and check MCP servers
    Server {
        #[command(subcommand)]
        what: server::What,
    },
    /// Add the servers of a client, such as Claude Code or Cursor, to pml.toml
    Import(import::Args),
    /// Make pml a server of a client, such as Claude Code or Cursor
    Install(install::Args),
    /// Give clients over HTTP names and tokens of their own
    Token {
        #[command(subcommand)]
        what: token::What,
    },
    /// Let the pml.toml of a folder count, once you have seen what it would do
    Trust(trust::Args),
    /// See what was called, by whom, and how it ended; check that nobody changed the log
    Audit(audit::Args),
    /// See what agents did: list, show, count, export and delete the traces of executions
    Trace {
        #[command(subcommand)]
        what: trace::What,
    },
    /// Keep programs that worked as tools with names: save, list, show, edit, run, share
    Capability {
        #[command(subcommand)]
        what: capability::What,
    },
    /// Be the hub that many gateways deliver their traces to; make and revoke its keys
    Hub(hub::Args),
    /// Measure pml on data of your own
    Eval {
        #[command(subcommand)]
        what: eval::What,
    },
    /// Check that pml, its servers and its clients can work on this machine
    Doctor(doctor::Args),
    /// Remove secrets and personal data from JSON lines: stdin to stdout
    Sanitize(sanitize::Args),
    /// Print the licences of pml and of the tables inside it
    Licenses,
}

/// The host's entry point.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(err) => {
            // clap prints help to stdout and mistakes to stderr; a closed pipe is no reason to panic.
            let _ = err.print();
            return if err.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    if let Err(err) = start_log(args.log.as_deref()) {
        return fail(&err, USAGE);
    }
    let sources = Sources { file: args.config, client_files: args.mcp_config, data_dir: args.data_dir };
    let common = import::Common { config: sources.file.as_deref(), data_dir: sources.data_dir.as_deref() };
    if let Command::Server { what } = &args.command
        && let Some(code) = server::edit(what, common)
    {
        return code;
    }
    match &args.command {
        Command::Import(import) => return import::run(import, common),
        Command::Install(install) => return install::run(install, common, &sources.client_files),
        Command::Trust(trust) => return trust::run(trust, common),
        Command::Eval { what } => return eval::run(what),
        Command::Licenses => return licenses(),
        Command::Audit(audit) if !audit.is_about_hub() => return audit::run(audit, common.data_dir),
        _ => {}
    }
    let Loaded { config, project } = match Config::load(&sources) {
        Ok(loaded) => loaded,
        Err(err) => return fail(&err, USAGE),
    };
    let is_shown = matches!(&args.command, Command::Doctor(args) if args.shows_files());
    if let Some((message, hint)) = project.warning().filter(|_| !is_shown) {
        let _ = writeln!(io::stderr(), "warning: {}\nhint: {}", visible(&message), visible(&hint));
    }
    if let Command::Sanitize(args) = &args.command {
        return sanitize::run(args, config.traces.rules);
    }
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).clamp(2, MAX_THREADS);
    let mut builder = match &args.command {
        command if has_many_clients(command) && may_start_threads(threads) => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(threads);
            builder
        }
        // One thread: these commands do one thing at a time, and a second thread would only have to be woken.
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(err) => {
            let _ = writeln!(io::stderr(), "error: the runtime does not start: {err}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(async {
        match args.command {
            Command::Run(args) => run::run(args, config).await,
            Command::Demo => demo::run(config).await,
            Command::Workflow { what } => Box::pin(workflow::run(what, config)).await,
            Command::Serve(args) => serve::run(args, config, project, sources).await,
            Command::Search(args) => search::run(args, config).await,
            Command::Suggest(args) => suggest::run(args, config).await,
            Command::Graph(args) => graph::run(&args, &config).await,
            Command::Learn { what } => learn::run(what, config).await,
            Command::Tools(args) => tools::list(args, config).await,
            Command::Types(args) => tools::types(args, config).await,
            Command::Server { what } => Box::pin(server::run(what, config)).await,
            Command::Trace { what } => trace::run(what, &config).await,
            Command::Capability { what } => Box::pin(capability::run(what, config)).await,
            Command::Hub(args) => hub::run(args, config).await,
            Command::Audit(args) => audit::run_hub(&args, &config).await,
            Command::Token { what } => token::run(&what, &config),
            Command::Doctor(args) => doctor::run(args, config, &project, &sources).await,
            // Done before there was a runtime.
            Command::Import(_)
            | Command::Install(_)
            | Command::Trust(_)
            | Command::Eval { .. }
            | Command::Sanitize(_)
            | Command::Licenses => ExitCode::SUCCESS,
        }
    })
}

/// Does a command serve many at once?
fn has_many_clients(command: &Command) -> bool {
    match command {
        Command::Serve(args) => args.has_many_clients(),
        Command::Hub(args) => args.is_served(),
        _ => false,
    }
}

fn licenses() -> ExitCode {
    let pml = concat!("pml ", env!("CARGO_PKG_VERSION"), ": ", env!("CARGO_PKG_LICENSE"));
    let notices = [pml_search::notice(), pml_search::encoder::notice(), pml_worker::NOTICE].map(str::trim_end);
    match writeln!(io::stdout(), "{pml}\n\n{}", notices.join("\n\n")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Can so many threads be there at the same time? A runtime that finds out only when it starts them panics.
fn may_start_threads(count: usize) -> bool {
    let gate = std::sync::Mutex::new(());
    let closed = gate.lock();
    std::thread::scope(|scope| {
        let wait = || drop(gate.lock());
        let started = (0..count).all(|_| std::thread::Builder::new().spawn_scoped(scope, wait).is_ok());
        drop(closed);
        started
    })
}

fn start_log(level: Option<&str>) -> Result<(), Error> {
    let text = level.map(str::to_owned).or_else(config::log_filter).unwrap_or_else(|| "warn".to_owned());
    // A bare word would be taken for the name of a module.
    let is_level = text.contains(['=', ',']) || text.parse::<tracing::level_filters::LevelFilter>().is_ok();
    let filter = EnvFilter::builder().parse(&text).ok().filter(|_| is_level).ok_or_else(|| {
        let message = format!("`{text}` is no log level");
        let hint = "use error, warn, info, debug or trace";
        Error::new(pml_wire::ErrorCode::ConfigInvalid, message).with_hint(hint)
    })?;
    // At `debug` rmcp shows the code of a login.
    let filter = filter.add_directive("rmcp::transport::auth=info".parse().map_err(|err| {
        Error::new(pml_wire::ErrorCode::ConfigInvalid, "the log cannot be set up").caused_by(Box::new(err))
    })?);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| print::Visible(io::stderr()))
        // Nobody may read stderr any more; complaining there about that would be a panic.
        .log_internal_errors(false)
        .with_ansi(false)
        .init();
    Ok(())
}

/// Says what is wrong with the command or its configuration.
fn fail(err: &Error, code: u8) -> ExitCode {
    let mut stderr = io::stderr().lock();
    // If stderr is closed there is nobody to tell.
    let _ = writeln!(stderr, "error[{}]: {}", err.code, visible(&err.message));
    if let Some(hint) = &err.hint {
        let _ = writeln!(stderr, "hint: {}", visible(hint));
    }
    ExitCode::from(code)
}

/// Runs `work` with a pool and the servers, and leaves no process behind.
async fn with_services<F: Future>(
    config: &Config,
    mode: Mode,
    work: impl FnOnce(Pool, Arc<Services>, CancellationToken) -> F,
) -> Result<F::Output, Error> {
    let traces = Traces::start(&config.traces, config.data_dir.as_deref(), &config.network)?;
    let work = |services| with_pool(config, mode, |pool, interrupt| work(pool, services, interrupt));
    with_started(config, traces, work).await
}

/// Lets programs and workflows use what pml offers itself.
fn provide_own(services: &Services, pool: &Pool) {
    let nested = Nested::new(pool.clone(), services.recorder.clone());
    let tools = OwnTools::new(nested, services.recorder.clone(), Arc::default());
    services.broker.provide(OWN, Arc::new(tools));
}

/// Runs `work` with the servers and the names of capabilities, which it cannot run.
async fn with_servers<F: Future>(
    config: &Config,
    work: impl FnOnce(Arc<Services>, CancellationToken) -> F,
) -> Result<F::Output, Error> {
    with_started(config, Traces::reading(&config.traces, config.data_dir.as_deref()), |services| {
        let interrupt = CancellationToken::new();
        cancel_on_signal(interrupt.clone());
        async move {
            if let Some(capabilities) = services.capabilities() {
                capabilities.read().await;
            }
            work(services, interrupt).await
        }
    })
    .await
}

async fn with_started<F: Future>(
    config: &Config,
    traces: Traces,
    work: impl FnOnce(Arc<Services>) -> F,
) -> Result<F::Output, Error> {
    let services = Arc::new(Services::start(service_options(config, traces))?);
    let output = work(Arc::clone(&services)).await;
    if let Some(services) = Arc::into_inner(services) {
        services.stop().await;
    }
    Ok(output)
}

/// Runs `work` with a pool, and leaves no process behind.
///
/// The token given to `work` is cancelled by Ctrl-C or SIGTERM; a second signal ends pml on the
/// spot, whatever it is doing.
async fn with_pool<F: Future>(
    config: &Config,
    mode: Mode,
    work: impl FnOnce(Pool, CancellationToken) -> F,
) -> F::Output {
    let shutdown = CancellationToken::new();
    let interrupt = CancellationToken::new();
    let (pool, keeper) = Pool::start(pool_options(config, mode), shutdown.clone());
    let keeper = tokio::spawn(keeper);
    cancel_on_signal(interrupt.clone());
    let output = work(pool, interrupt).await;
    shutdown.cancel();
    if let Err(err) = keeper.await {
        tracing::error!(error = %err, "the sandbox pool did not end as it should");
    }
    output
}

/// Listens for signals, for as long as the process lives, on a thread of its own: the main one may
/// be stuck writing to a pipe that nobody reads.
fn cancel_on_signal(interrupt: CancellationToken) {
    // Without a listener the signals keep their usual effect, and the workers die with us.
    let unhandled = |err: io::Error| tracing::warn!(error = %err, "signals are not handled");
    let token = interrupt.clone();
    let listener = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let Err(err) = runtime.and_then(|runtime| runtime.block_on(listen(token)));
        unhandled(err);
    });
    // At the limit of processes, which threads count as, the main one has to do.
    if listener.is_err() {
        tokio::spawn(async move {
            let Err(err) = listen(interrupt).await;
            unhandled(err);
        });
    }
}

async fn listen(interrupt: CancellationToken) -> io::Result<Infallible> {
    let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    loop {
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
        }
        if interrupt.is_cancelled() {
            #[expect(clippy::disallowed_methods, reason = "asked twice; the workers die with us")]
            std::process::exit(130);
        }
        interrupt.cancel();
    }
}

fn service_options(config: &Config, traces: Traces) -> ServiceOptions {
    ServiceOptions {
        program: sandbox::this_program(),
        servers: config.servers.clone(),
        policy: config.policy.clone(),
        data_dir: config.data_dir.clone(),
        model_dir: config.search.model_dir.clone(),
        encoder: config.search.encoder,
        results_bytes: config.gateway.results_bytes,
        retention: config.audit,
        max_starting: config.max_starting,
        network: config.network.clone(),
        traces,
        learns: config.learns,
    }
}

fn pool_options(config: &Config, mode: Mode) -> Options {
    let Budget { max_timeout, memory_bytes, result_bytes, .. } = config.limits;
    Options {
        program: sandbox::this_program(),
        mode,
        warm_workers: config.sandbox.warm_workers,
        allow_weak: config.sandbox.allow_weak,
        time_zone: config.sandbox.time_zone.clone(),
        limits: WorkerLimits {
            memory_bytes: memory_bytes as u64,
            // Whole seconds, and some for the start: the engine and the host stop it long before.
            cpu_seconds: max_timeout.as_secs() + 2,
        },
        // A result or arguments at their limit, and a little around them.
        max_frame_bytes: u32::try_from(result_bytes + 64 * 1024).unwrap_or(u32::MAX),
    }
}
