//! `pml tools --changed` and `pml tools accept`: tools that are not what they were when they were first seen.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use pml_wire::{ErrorCode, ToolId};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    USAGE, fail, print,
    tools::{choose, complain, learn, no_servers},
    with_servers,
};
use crate::{
    catalog::{Change, nearest},
    clients,
    clock::now_millis,
    config::Config,
    error::Error,
    serve::Services,
    shown::visible,
    upstream::Failure,
};

#[derive(Debug, clap::Args)]
pub(super) struct AcceptArgs {
    /// A tool, or a server for all of its tools
    #[arg(value_name = "SERVER|SERVER:TOOL", required_unless_present = "all")]
    what: Vec<String>,

    /// Every tool of every server
    #[arg(long, conflicts_with = "what")]
    all: bool,

    /// Ask every server first, also those whose tools are known from earlier
    #[arg(long)]
    refresh: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Shows what has changed.
pub(super) async fn show(config: &Config, refresh: bool, as_json: bool) -> ExitCode {
    if config.servers.is_empty() {
        return fail(&no_servers(), USAGE);
    }
    let known = with_known(config, refresh, |services| Ok(services.changes())).await;
    let (changes, failures) = match known {
        Ok(known) => known,
        Err(err) => return fail(&err, USAGE),
    };
    let printed = match as_json {
        true => print::json(&json!({ "changed": changes.iter().map(to_json).collect::<Vec<_>>() })),
        false => print_text(&changes),
    };
    if changes.is_empty() && !as_json {
        let _ = writeln!(io::stderr(), "no tool has changed since it was first seen");
    }
    complain(&failures);
    match (printed, failures.is_empty()) {
        (Ok(()), true) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Takes tools that have changed for what they are now.
pub(super) async fn accept(args: AcceptArgs, mut config: Config) -> ExitCode {
    if config.servers.is_empty() {
        return fail(&no_servers(), USAGE);
    }
    if let [only] = args.what.as_slice() {
        // One server need not wait for the others.
        let server = only.split(':').next().unwrap_or_default();
        if let Err(err) = choose(&mut config, server) {
            return fail(&err, USAGE);
        }
    }
    let known = with_known(&config, args.refresh, |services| {
        let chosen = chosen(services, &args)?;
        let mut accepted = Vec::new();
        for tool in chosen {
            let unwritten = |err: io::Error| {
                Error::new(ErrorCode::ConfigInvalid, format!("that `{tool}` is accepted cannot be kept: {err}"))
            };
            accepted.extend(services.accept(&tool).map_err(unwritten)?);
        }
        Ok(accepted)
    });
    let (accepted, failures) = match known.await {
        Ok(known) => known,
        Err(err) => return fail(&err, USAGE),
    };
    let printed = match args.json {
        true => print::json(&json!({ "accepted": accepted.iter().map(to_json).collect::<Vec<_>>() })),
        false => print_text(&accepted),
    };
    let count = accepted.len();
    let _ = match count {
        0 => writeln!(io::stderr(), "none of them has changed since it was first seen"),
        1 => writeln!(io::stderr(), "1 tool is accepted as it is now"),
        _ => writeln!(io::stderr(), "{count} tools are accepted as they are now"),
    };
    complain(&failures);
    match (printed, failures.is_empty()) {
        (Ok(()), true) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Does `work` once the tools of all servers are known, and says which servers did not answer.
async fn with_known<T>(
    config: &Config,
    refresh: bool,
    work: impl FnOnce(&Services) -> Result<T, Error>,
) -> Result<(T, Vec<Failure>), Error> {
    with_servers(config, async |services: Arc<Services>, interrupt: CancellationToken| {
        let failures = learn(&services, refresh, &interrupt).await?;
        Ok((work(&services)?, failures))
    })
    .await?
}

/// The tools that are meant, changed or not.
fn chosen(services: &Services, args: &AcceptArgs) -> Result<Vec<ToolId>, Error> {
    let snapshot = services.catalog.snapshot();
    let changed = services.changes().into_iter().map(|change| change.tool);
    let all: BTreeSet<_> = snapshot.tools().map(|tool| tool.id.clone()).chain(changed).collect();
    if args.all {
        return Ok(all.into_iter().collect());
    }
    let mut chosen = Vec::new();
    for what in &args.what {
        let is_meant = |id: &&ToolId| if what.contains(':') { id.as_str() == what } else { id.server() == what };
        let meant: Vec<_> = all.iter().filter(is_meant).cloned().collect();
        let is_server = snapshot.servers().any(|server| server == what);
        if meant.is_empty() && !is_server {
            let near = nearest(what, all.iter().map(ToolId::as_str).chain(snapshot.servers()));
            let err = Error::new(ErrorCode::ConfigInvalid, format!("there is no server and no tool `{what}`"));
            return Err(match near.first() {
                Some(near) => err.with_hint(format!("did you mean `{near}`?")),
                None => err.with_hint("`pml tools --changed` lists what has changed"),
            });
        }
        chosen.extend(meant);
    }
    Ok(chosen)
}

fn to_json(change: &Change) -> Value {
    json!({
        "tool": change.tool,
        "parts": change.parts,
        "first_seen": change.first_seen,
        "changed_at": change.changed_at,
        "before_sha256": change.before_sha256,
        "after_sha256": change.after_sha256,
        "before": change.before,
        "after": change.after,
    })
}

fn print_text(changes: &[Change]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let ago = |millis: u64| print::rough(Duration::from_millis(now_millis().saturating_sub(millis)));
    for change in changes {
        let parts = if change.parts.is_empty() { "something".to_owned() } else { change.parts.join(", ") };
        let (seen, changed) = (ago(change.first_seen), ago(change.changed_at));
        writeln!(stdout, "{}: {} (first seen {seen} ago, changed {changed} ago)", change.tool, visible(&parts))?;
        let (Some(before), Some(after)) = (&change.before, &change.after) else {
            writeln!(stdout, "  it is too long to be kept, so how it differs cannot be shown")?;
            continue;
        };
        for part in &change.parts {
            writeln!(stdout, "  {}", visible(part))?;
            let lines =
                clients::diff(&text(before.get(part)), &text(after.get(part)), &|line| visible(line).into_owned());
            for line in lines.lines() {
                writeln!(stdout, "    {line}")?;
            }
        }
    }
    stdout.flush()
}

/// A text as it is, everything else as JSON in lines.
fn text(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}
