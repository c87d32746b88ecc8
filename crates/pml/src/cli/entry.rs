//! From the command line to the command: reads arguments and configuration, starts the log and the runtime.

use std::{
    io::{self, Write as _},
    num::NonZeroUsize,
    process::ExitCode,
};

use clap::Parser as _;

use super::{
    USAGE, audit, call, capability,
    command_line::{Args, Command},
    demo, doctor, eval, fail, graph, hub, import, install, learn, licenses,
    log::start_log,
    manual, run, sanitize, search, serve, server, suggest, survive_file_limit, token, tools, trace, trust, workflow,
};
use crate::{
    config::{Config, Loaded, Sources},
    shown::visible,
};

/// Threads of `pml serve` that do the work. The work is elsewhere: in sandboxes and servers.
const MAX_THREADS: usize = 4;

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
        Command::Completions(args) => return manual::completions(args),
        Command::Man(args) => return manual::man(args),
        Command::Licenses => return licenses::print(),
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
        survive_file_limit();
        match args.command {
            Command::Run(args) => run::run(args, config).await,
            Command::Call(args) => call::run(args, config).await,
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
            | Command::Completions(_)
            | Command::Man(_)
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
