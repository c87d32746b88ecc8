//! `pml doctor`: what works on this machine, and what does not.

use std::{
    io::{self, Write},
    num::NonZeroUsize,
    process::ExitCode,
};

use clap::ValueEnum;
use pml_wire::{ErrorCode, hardening::HardeningReport};
use serde_json::{Value, json};

use super::{
    USAGE, clients, fail, login, own_files, print, starting,
    suspicions::{self, Finding},
    trace, with_pool, with_servers,
};
use crate::{
    broker::IdleRule,
    catalog::load_model,
    config::{self, Config, Project, Sources},
    error::Error,
    sandbox::Mode,
    shown::{counted, visible},
    upstream::{Failure, Settings, Target},
};

/// Names of variables that are shown.
const SHOWN_VARIABLES: usize = 12;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Check only this [default: everything]
    what: Option<What>,

    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Is it shown which files count, and which do not?
    pub(super) fn shows_files(&self) -> bool {
        self.what.is_none_or(|only| only == What::Files)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Show which configuration files count, and whether others could have written them or read pml's own
    Files,
    /// Start a sandbox and show each layer of its jail
    Sandbox,
    /// Start every server and show how far it came, and which rules match none of their tools
    Servers,
    /// Show what is hidden in the texts of servers, what reads like instructions to a model, and what has changed
    Tools,
    /// Show what tools are found with, and load it
    Search,
    /// Show whether traces of executions are stored
    Traces,
    /// Show which clients are here, and whether they use pml
    Clients,
}

pub(super) async fn run(args: Args, config: Config, project: &Project, sources: &Sources) -> ExitCode {
    let wants = |what| args.what.is_none_or(|only| only == what);
    let mut parts = serde_json::Map::new();
    let mut is_well = true;
    if args.shows_files() {
        let (rows, all_well) = own_files::check(args.json, &config, project, sources);
        is_well &= all_well;
        parts.insert("files".to_owned(), rows.into());
    }
    if wants(What::Sandbox) {
        match sandbox(config.clone()).await {
            Ok((report, is_usable)) => {
                is_well &= is_usable;
                let (mode, allow_weak) = (config.sandbox.mode, config.sandbox.allow_weak);
                match args.json {
                    true => drop(parts.insert("sandbox".to_owned(), to_json(&report, allow_weak))),
                    false => is_well &= print_text(&report, mode, allow_weak).is_ok(),
                }
            }
            Err(err) => return fail(&err, 1),
        }
    }
    if wants(What::Servers) || wants(What::Tools) {
        match servers(&args, &config).await {
            Ok(checked) => {
                is_well &= checked.is_well;
                if wants(What::Servers) {
                    parts.insert("servers".to_owned(), checked.rows.into());
                    parts.insert("idle_rules".to_owned(), checked.idle_rules.into());
                }
                if wants(What::Tools) {
                    let findings: Vec<_> = checked.findings.iter().map(suspicions::Finding::to_json).collect();
                    parts.insert("tools".to_owned(), findings.into());
                }
            }
            Err(err) => return fail(&err, USAGE),
        }
    }
    if wants(What::Search) {
        let (row, all_well) = search(args.json, &config);
        is_well &= all_well;
        parts.insert("search".to_owned(), row);
    }
    if wants(What::Traces) {
        let (row, all_well) = trace::check(args.json, &config).await;
        is_well &= all_well;
        parts.insert("traces".to_owned(), row);
    }
    if wants(What::Clients) {
        let (rows, all_well) = clients::check(args.json, sources);
        is_well &= all_well;
        parts.insert("clients".to_owned(), rows.into());
    }
    if args.json {
        // Of one part, the part itself.
        let whole = match args.what {
            Some(What::Sandbox) => parts.remove("sandbox").unwrap_or_default(),
            _ => parts.into(),
        };
        is_well &= print::json(&whole).is_ok();
    }
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Loads what gives tools their meaning, and shows what it is. The same as JSON, and whether it is what was asked for.
fn search(as_json: bool, config: &Config) -> (Value, bool) {
    let loaded = match &config.search.model_dir {
        None if config.search.encoder => Ok("the built-in table and encoder".to_owned()),
        None => Ok("the built-in table; the encoder is switched off".to_owned()),
        Some(Ok(folder)) => {
            load_model(folder).map(|_| format!("the built-in table and the model in `{}`", folder.display()))
        }
        Some(Err(why)) => Err(Error::new(ErrorCode::ConfigInvalid, why.clone())),
    };
    if !as_json {
        let mut stdout = io::stdout();
        let _ = match &loaded {
            Ok(what) => writeln!(stdout, "search: tools are found with {what}"),
            Err(err) => writeln!(stdout, "search: tools are found with the built-in table, since {err}"),
        };
        if let Err(Error { hint: Some(hint), .. }) = &loaded {
            let _ = writeln!(stdout, "  hint: {hint}");
        }
    }
    let with = match (&config.search.model_dir, &loaded) {
        (None, _) if config.search.encoder => "encoder",
        (None, _) => "table",
        (Some(_), Ok(_)) => "model",
        (Some(_), Err(_)) => "table",
    };
    let row = json!({
        "with": with,
        "table": pml_search::MODEL_VERSION,
        "error": loaded.as_ref().err().map(ToString::to_string),
    });
    (row, loaded.is_ok())
}

/// What was found out about servers.
#[derive(Debug, Default)]
struct Checked {
    /// How far each came, as JSON.
    rows: Vec<Value>,
    /// Rules that match none of their tools, as JSON.
    idle_rules: Vec<Value>,
    /// What somebody should look at. No reason to fail.
    findings: Vec<Finding>,
    is_well: bool,
}

/// Starts every server and shows how far it came, which rules match nothing, and what is to be said about its texts.
async fn servers(args: &Args, config: &Config) -> Result<Checked, Error> {
    let as_json = args.json;
    let (is_told, looks) = (args.what != Some(What::Tools), args.what != Some(What::Servers));
    if config.servers.is_empty() {
        if !as_json {
            let _ = writeln!(io::stdout(), "servers: none is configured; `pml server add --help` shows how");
        }
        return Ok(Checked { is_well: true, ..Checked::default() });
    }
    with_servers(config, async |services, interrupt| {
        let mut started = starting::all(services.servers.all(), &interrupt).await;
        started.sort_by(|one, other| one.server.settings().name.cmp(&other.server.settings().name));
        let snapshot = services.catalog.snapshot();
        let mut stdout = io::stdout();
        let mut rows = Vec::new();
        for start in &started {
            let name = &start.server.settings().name;
            let health = start.server.health();
            let listing = snapshot.listing(name);
            let warnings = listing.map(|listing| listing.warnings.clone()).unwrap_or_default();
            let hint = start.result.as_ref().err().and_then(|failure| hint(start.server.settings(), failure));
            let not_passed = if start.result.is_err() { not_passed(start.server.settings()) } else { Vec::new() };
            let login = login::shown(config, start.server.settings());
            let tools = listing.map_or(0, |listing| listing.tools.len());
            rows.push(json!({
                "name": name, "ok": start.result.is_ok(), "tools": tools, "health": health, "warnings": warnings,
                "login": login.as_ref().map(login::to_json),
                "code": start.result.as_ref().err().map(|failure| failure.code),
                "message": start.result.as_ref().err().map(|failure| &failure.message), "hint": hint,
                "not_passed": not_passed,
                "start_ms": (start.duration.as_secs_f64() * 1e3).round(),
            }));
            if as_json || !is_told {
                continue;
            }
            let took = print::duration(start.duration);
            let _ = match &start.result {
                Ok(()) => writeln!(
                    stdout,
                    "  ok       {name}: {}, {} {}, {took}",
                    counted(tools, "tool", "tools"),
                    visible(health.server.as_deref().unwrap_or_default()).replace(['\n', '\t'], " "),
                    health.protocol_version.unwrap_or_default()
                ),
                Err(failure) => {
                    let message = visible(&failure.message).replace('\n', "\n           ");
                    writeln!(stdout, "  FAILED   {name}, after {took}: {} ({})", message, failure.code)
                }
            };
            for warning in warnings {
                let _ = writeln!(stdout, "           warning: {}", visible(&warning));
            }
            if health.noise > 0 {
                let noise = health.noise;
                let _ = writeln!(stdout, "           warning: {noise} lines on its stdout were no messages");
            }
            if let Some(login) = login {
                let _ = writeln!(stdout, "           {}", login::to_text(&login));
            }
            if let Some(hint) = hint {
                let _ = writeln!(stdout, "           hint: {hint}");
            }
            if !not_passed.is_empty() {
                let shown: Vec<_> = not_passed.iter().take(SHOWN_VARIABLES).map(|name| visible(name)).collect();
                let more = match not_passed.len() - shown.len() {
                    0 => String::new(),
                    count => format!(" and {count} more"),
                };
                let shown = shown.join(", ");
                let _ = writeln!(stdout, "           it did not get these variables of your shell: {shown}{more}");
                let _ = writeln!(
                    stdout,
                    "           hint: `pass_env = [\"NAME\"]` of the server passes one on, `[servers_env] pass` to all"
                );
            }
        }
        let idle = if is_told { services.broker.idle_rules() } else { Vec::new() };
        for rule in idle.iter().filter(|_| !as_json) {
            let _ = writeln!(stdout, "  warning: {}", visible(&rule.to_string()));
        }
        let idle_row = |rule: &IdleRule| json!({ "list": rule.list, "pattern": rule.pattern, "nearest": rule.nearest });
        let mut findings = Vec::new();
        if looks && !interrupt.is_cancelled() {
            let reached = started.iter().filter(|start| start.result.is_ok()).map(|start| start.server.clone());
            findings = suspicions::look(&services, &reached.collect::<Vec<_>>()).await;
            if !as_json {
                let _ = suspicions::print(&findings);
            }
        }
        let missing: Vec<_> = started.iter().filter(|start| start.result.is_err()).collect();
        if !is_told && !missing.is_empty() {
            let names: Vec<_> = missing.iter().map(|start| start.server.settings().name.as_str()).collect();
            let _ = writeln!(io::stderr(), "not asked, since not started: {}", names.join(", "));
        }
        let idle_rules = idle.iter().map(idle_row).collect();
        Checked { rows, idle_rules, findings, is_well: missing.is_empty() && !interrupt.is_cancelled() }
    })
    .await
}

/// The variables that are set here and that a server on this machine did not get.
fn not_passed(settings: &Settings) -> Vec<String> {
    match &settings.target {
        Ok(Target::Stdio { env, .. }) => config::missed_variables(&|name| env.contains_key(name)),
        Ok(Target::Http { .. }) | Err(_) => Vec::new(),
    }
}

/// What to do about a server that did not start.
fn hint(settings: &Settings, failure: &Failure) -> Option<String> {
    let says = |text: &str| failure.message.contains(text);
    if failure.code == ErrorCode::AuthRequired {
        let token = "Authorization = \"Bearer ${TOKEN}\"";
        let server = &settings.name;
        return Some(format!("`pml server login {server}`, or put a token into `headers`, such as {token}"));
    }
    if let Ok(Target::Stdio { command, args, .. }) = &settings.target
        && let Some((program, rest)) = command.trim().split_once(char::is_whitespace)
        && (says("is not in PATH") || says("does not exist"))
    {
        let rest = rest.split_whitespace().chain(args.iter().map(|_| "…"));
        let rest: Vec<_> = rest.map(|word| format!("\"{}\"", settings.mask(word.to_owned()))).collect();
        return Some(format!("`command` is the program alone: command = \"{program}\", args = [{}]", rest.join(", ")));
    }
    let hint = match () {
        () if says("is not in PATH") => "install it, or write its whole path into `command`",
        () if says("not executable") => "make it executable, or start it through its interpreter",
        () if says("is not set") => "set the variable where pml is started, or give it a default",
        () if says("no answer within") => "run the command by hand; if it is only slow, raise `start_timeout_ms`",
        () if says("cannot be reached") => "is the server running, and is its address right?",
        () if says("no common protocol version") => "update the server",
        () if says("process is gone") => "run the command by hand to see why it ends",
        () => return None,
    };
    Some(hint.to_owned())
}

/// Starts a sandbox. What it reports, and whether programs would run in it.
async fn sandbox(mut config: Config) -> Result<(HardeningReport, bool), Error> {
    // The report is wanted most where a worker would be refused.
    let allow_weak = std::mem::replace(&mut config.sandbox.allow_weak, true);
    config.sandbox.warm_workers = NonZeroUsize::MIN;
    let report = with_pool(&config, config.sandbox.mode, async |pool, _| {
        pool.lease().await.map(|worker| worker.hardening().clone())
    })
    .await?;
    let is_usable = is_safe(&report) || allow_weak;
    Ok((report, is_usable))
}

fn is_safe(report: &HardeningReport) -> bool {
    report.missing().next().is_none()
}

fn to_json(report: &HardeningReport, allow_weak: bool) -> Value {
    json!({ "safe": is_safe(report), "allow_weak": allow_weak, "layers": report })
}

fn print_text(report: &HardeningReport, mode: Mode, allow_weak: bool) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let mode = if mode == Mode::Worker { "worker" } else { "subprocess" };
    writeln!(stdout, "sandbox, mode {mode}:")?;
    for layer in &report.layers {
        let state = match (layer.enforced, layer.layer.is_required()) {
            (true, _) => "on",
            (false, true) => "MISSING",
            (false, false) => "off",
        };
        writeln!(stdout, "  {state:<8} {:<13} {}", layer.layer.as_str(), layer.detail)?;
    }
    if mode == "worker" {
        writeln!(stdout, "`pml run` executes its one worker: the same, but for the PID namespace")?;
    }
    match (is_safe(report), allow_weak) {
        (true, _) => writeln!(stdout, "programs run in a safe sandbox"),
        (false, true) => writeln!(stdout, "programs run in a WEAK sandbox, as sandbox.allow_weak allows"),
        (false, false) => writeln!(stdout, "no program runs: a required layer is missing (see docs/threat-model.md)"),
    }
}
