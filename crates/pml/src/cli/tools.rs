//! `pml tools` and `pml types`: what can be called.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use pml_wire::{ErrorCode, ToolId};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    USAGE,
    changed::{self, AcceptArgs},
    fail, print, starting, with_servers,
};
use crate::{
    broker::Policy,
    catalog::{Snapshot, Tool, nearest, typescript},
    clients,
    config::Config,
    error::Error,
    learning::{LearnedType, View},
    serve::Services,
    shown::{counted, visible},
    upstream::Failure,
};

/// How long traces that were stored since the last time are learned.
const LEARNED: Duration = Duration::from_secs(2);
/// Longest description in the table.
const SUMMARY: usize = 90;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    what: Option<What>,

    /// Only this server's, with their arguments
    server: Option<String>,

    /// Only tools that have changed since they were first seen, and how
    #[arg(long)]
    changed: bool,

    /// Ask every server, also those whose tools are known from earlier
    #[arg(long)]
    refresh: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Take tools that have changed for what they are now
    Accept(AcceptArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct TypesArgs {
    /// Where to write them; standard output if not given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Ask every server, also those whose tools are known from earlier
    #[arg(long)]
    refresh: bool,
}

pub(super) async fn list(args: Args, mut config: Config) -> ExitCode {
    if let Some(What::Accept(args)) = args.what {
        return changed::accept(args, config).await;
    }
    if let Some(name) = &args.server
        && let Err(err) = choose(&mut config, name)
    {
        return fail(&err, USAGE);
    }
    if args.changed {
        return changed::show(&config, args.refresh, args.json).await;
    }
    if config.servers.is_empty() {
        return fail(&no_servers(), USAGE);
    }
    let known = match know(&config, args.refresh).await {
        Ok(known) => known,
        Err(err) => return fail(&err, USAGE),
    };
    let printed = match args.json {
        true => print_json(&known, &config.policy),
        false => print_text(&known, &config.policy, args.server.is_some()),
    };
    complain(&known.failures);
    match (printed, known.failures.is_empty()) {
        (Ok(()), true) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

pub(super) async fn types(args: TypesArgs, config: Config) -> ExitCode {
    let known = match know(&config, args.refresh).await {
        Ok(known) => known,
        Err(err) => return fail(&err, USAGE),
    };
    let tools = known.snapshot.tools().filter(|tool| config.policy.allows(&tool.id));
    let learned = |tool: &Tool| known.learned.as_ref().and_then(|learned| learned.result_type(tool));
    let tools: Vec<_> = tools.map(|tool| (tool, learned(tool).map(|learned| told(tool, learned)))).collect();
    let declared = tools.iter().map(|(tool, learned)| match learned {
        None => tool.declared(),
        Some((description, schema)) => typescript::Declared {
            description: Some(description),
            result: typescript::Returned::Schema(schema),
            ..tool.declared()
        },
    });
    let text = typescript::declarations(declared);
    let written = match &args.output {
        // What is there may know the tools of a server that is down now.
        Some(path) if !known.failures.is_empty() && path.exists() => {
            complain(&known.failures);
            let message = format!("`{}` is left as it is: not all servers could be asked", path.display());
            let hint = "`pml doctor servers` says why; remove the file to have it written all the same";
            return fail(&Error::new(ErrorCode::ConfigInvalid, message).with_hint(hint), 1);
        }
        Some(path) => clients::write(path, &text, 0o644, false).map(drop),
        None => io::stdout()
            .write_all(text.as_bytes())
            .map_err(|err| Error::new(ErrorCode::ConfigInvalid, format!("standard output cannot be written: {err}"))),
    };
    complain(&known.failures);
    match written {
        Ok(()) if known.failures.is_empty() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(err) => fail(&err, USAGE),
    }
}

/// What a tool does with a learned result, and the schema of that.
fn told(tool: &Tool, learned: LearnedType) -> (String, Value) {
    let description = tool.description.as_deref().unwrap_or_default().trim_end();
    let source = learned.source();
    let mark = format!("The result type was learned from {source}; the server does not declare one.");
    (format!("{description}\n\n{mark}").trim_start().to_owned(), learned.schema)
}

/// Leaves one server, by its name.
pub(super) fn choose(config: &mut Config, name: &str) -> Result<(), Error> {
    if !config.servers.iter().any(|server| server.name == name) {
        let near = nearest(name, config.servers.iter().map(|server| server.name.as_str()));
        let err = Error::new(ErrorCode::ConfigInvalid, format!("there is no server `{name}`"));
        return Err(match near.first() {
            Some(near) => err.with_hint(format!("did you mean `{near}`?")),
            None => err.with_hint("`pml server list` shows all servers"),
        });
    }
    config.servers.retain(|server| server.name == name);
    Ok(())
}

pub(super) fn no_servers() -> Error {
    let hint =
        "add one, such as `pml server add time -- uvx mcp-server-time`, or name a client's file with --mcp-config";
    Error::new(ErrorCode::ConfigInvalid, "no MCP server is configured").with_hint(hint)
}

struct ToolOverview {
    snapshot: Arc<Snapshot>,
    /// Tools that are not what they were when they were first seen.
    changed: BTreeSet<ToolId>,
    learned: Option<Arc<View>>,
    failures: Vec<Failure>,
}

/// Learns the tools of all servers; from earlier where that is enough.
async fn know(config: &Config, refresh: bool) -> Result<ToolOverview, Error> {
    with_servers(config, async |services: Arc<Services>, interrupt: CancellationToken| {
        let failures = learn(&services, refresh, &interrupt).await?;
        let changed = services.changes().into_iter().map(|change| change.tool).collect();
        services.broker.settled_learning(LEARNED).await;
        Ok(ToolOverview {
            snapshot: services.catalog.snapshot(),
            changed,
            learned: services.broker.learned(),
            failures,
        })
    })
    .await?
}

/// Asks the servers of which nothing is known, or all. Why some did not answer.
pub(super) async fn learn(
    services: &Services,
    refresh: bool,
    interrupt: &CancellationToken,
) -> Result<Vec<Failure>, Error> {
    let wanted = if refresh { services.servers.all() } else { services.broker.unknown() };
    let started = starting::all(wanted, interrupt).await;
    if interrupt.is_cancelled() {
        return Err(Error::new(ErrorCode::Cancelled, "interrupted before every server was asked"));
    }
    Ok(started.into_iter().filter_map(|started| started.result.err()).collect())
}

pub(super) fn complain(failures: &[Failure]) {
    let mut stderr = io::stderr();
    for failure in failures {
        let _ = writeln!(stderr, "error[{}]: {}", failure.code, visible(&failure.message));
    }
    if !failures.is_empty() {
        let _ = writeln!(stderr, "hint: `pml doctor` says more");
    }
}

fn print_json(known: &ToolOverview, policy: &Policy) -> io::Result<()> {
    let tools: Vec<_> = known
        .snapshot
        .tools()
        .filter(|tool| policy.allows(&tool.id))
        .map(|tool| {
            json!({
                "id": tool.id,
                "server": tool.id.server(),
                "name": tool.id.tool(),
                "description": tool.description,
                "signature": View::signature(known.learned.as_deref(), tool),
                "inputSchema": tool.written_input(),
                "outputSchema": tool.written_output(),
                "hash": tool.hash,
                "changed": known.changed.contains(&tool.id),
            })
        })
        .collect();
    print::json(&json!({ "tools": tools }))
}

/// A line for each tool, and with `signatures` how to call it.
fn print_text(known: &ToolOverview, policy: &Policy, signatures: bool) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for listing in known.snapshot.listings() {
        let count = listing.tools.len();
        writeln!(stdout, "{} ({})", listing.server, counted(count, "tool", "tools"))?;
        let width = listing.tools.keys().map(|name| name.chars().count()).max().unwrap_or(0).min(40);
        let denied = listing.tools.values().filter(|tool| !policy.allows(&tool.id)).count();
        for (name, tool) in listing.tools.iter().filter(|(_, tool)| policy.allows(&tool.id)) {
            let summary = summary(tool.description.as_deref().unwrap_or_default());
            let changed = if known.changed.contains(&tool.id) { " [changed, see `pml tools --changed`]" } else { "" };
            writeln!(stdout, "  {:<width$}  {}{changed}", visible(name), visible(&summary))?;
            if signatures {
                writeln!(stdout, "      {}", visible(&View::signature(known.learned.as_deref(), tool)))?;
            }
        }
        if denied > 0 {
            writeln!(stdout, "  ({denied} more that the policy does not allow)")?;
        }
        for warning in &listing.warnings {
            writeln!(stdout, "  warning: {}", visible(warning))?;
        }
    }
    Ok(())
}

/// The first sentence or line of a description, shortened.
pub(super) fn summary(description: &str) -> String {
    let line = description.trim().lines().next().unwrap_or_default();
    // `e.g. #1001` is no end.
    let is_end = |at: usize| {
        let word = line[..at].rsplit([' ', '(']).next();
        !matches!(word, Some("e.g" | "i.e" | "etc" | "vs" | "incl" | "approx"))
    };
    let end = line.match_indices(". ").map(|(at, _)| at).find(|at| is_end(*at)).map_or(line.len(), |at| at + 1);
    let sentence = &line[..end];
    match sentence.char_indices().nth(SUMMARY) {
        Some((end, _)) => format!("{}…", sentence[..end].trim_end()),
        None => sentence.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::summary;

    #[test]
    fn a_summary_is_one_short_line() {
        let table = [
            ("", ""),
            ("Reads a file. Then more.", "Reads a file."),
            ("  First line\nsecond", "First line"),
            ("Version 1.2 of it", "Version 1.2 of it"),
            ("By its number (e.g. #1001). Then more.", "By its number (e.g. #1001)."),
            ("Lists all divs. Then more.", "Lists all divs."),
        ];
        for (text, expected) in table {
            assert_eq!(summary(text), expected);
        }
        assert_eq!(summary(&"é".repeat(200)).chars().count(), 91);
    }
}
