//! `pml suggest`: tools for a task, by what was used for such tasks before.

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use pml_learn::Purpose;
use pml_wire::{ErrorCode, ToolId};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{USAGE, fail, print, search::ENCODED, tools::no_servers, with_servers};
use crate::{
    broker::rounded,
    catalog::tool_now,
    config::Config,
    error::Error,
    learning::{Progress, View, reason},
    serve::Services,
    shown::visible,
};

/// How long traces that were stored since the last time are learned.
const LEARNED: Duration = Duration::from_secs(10);
const MOST: usize = 50;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The task, in plain words
    #[arg(required = true, value_name = "INTENT")]
    intent: Vec<String>,

    /// Tools that were called already, the last one last; the next one is suggested
    #[arg(long, value_name = "TOOL,TOOL", value_delimiter = ',')]
    after: Vec<ToolId>,

    /// How many tools at most, 1 to 50
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    limit: usize,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

struct Suggestion {
    tool: String,
    /// Of the search.
    score: f32,
    reasons: Vec<String>,
}

pub(super) async fn run(args: Args, config: Config) -> ExitCode {
    let intent = args.intent.join(" ");
    let invalid = |message: String| fail(&Error::new(ErrorCode::InvalidArguments, message), USAGE);
    if intent.trim().is_empty() {
        return invalid("the intent is empty".to_owned());
    }
    if !(1..=MOST).contains(&args.limit) {
        return invalid(format!("`--limit` is {}, but must be between 1 and {MOST}", args.limit));
    }
    if config.servers.is_empty() {
        return fail(&no_servers(), USAGE);
    }
    let suggested = with_servers(&config, async |services: Arc<Services>, interrupt: CancellationToken| {
        let settled = async {
            let index = services.broker.settled_search(ENCODED).await;
            (index, services.broker.settled_learning(LEARNED).await)
        };
        let (index, progress) = tokio::select! {
            settled = settled => settled,
            () = interrupt.cancelled() => return Err(Error::new(ErrorCode::Cancelled, "interrupted")),
        };
        let view = services.broker.learned().unwrap_or_else(|| Arc::new(View::nothing()));
        let snapshot = services.catalog.snapshot();
        let may_name = |id: &str| tool_now(&snapshot, id).is_some_and(|tool| services.broker.allows(&tool.id));
        let (tools, scores) = index.scores(&intent);
        let after: Vec<String> = args.after.iter().map(ToString::to_string).collect();
        let asked = (Purpose::Suggestion, intent.as_str(), after.as_slice());
        let is_wanted =
            |place: usize, evidence: f32| (scores[place] > 0.0 || evidence > 0.0) && may_name(tools.name(place));
        let ranked = view.rank(asked, (tools, &scores), args.limit, is_wanted);
        let suggestion = |ranked: pml_learn::Ranked| Suggestion {
            tool: tools.name(ranked.place).to_string(),
            score: scores[ranked.place],
            reasons: ranked.reasons.iter().filter_map(|known| reason(known, may_name)).collect(),
        };
        let is_learned = view.ranks(Purpose::Suggestion, !after.is_empty());
        let mut suggestions: Vec<Suggestion> = ranked.into_iter().map(suggestion).collect();
        // A capability does the whole task; once a part of it is done, the next tool is asked for.
        let offers = if after.is_empty() { services.broker.offers(&intent) } else { Vec::new() };
        for (at, offer) in offers.iter().enumerate() {
            let known = suggestions.iter().position(|known| known.tool == offer.tool.id.as_str());
            let score = known.map_or(0.0, |known| suggestions.remove(known).score);
            let place = if offer.is_first() { at } else { known.unwrap_or(usize::MAX).min(at + 1) };
            let (tool, reasons) = (offer.tool.id.to_string(), vec![offer.reason()]);
            suggestions.insert(place.min(suggestions.len()), Suggestion { tool, score, reasons });
        }
        suggestions.truncate(args.limit);
        Ok((suggestions, is_learned, progress))
    })
    .await;
    let (suggestions, is_learned, progress) = match suggested.and_then(|inner| inner) {
        Ok(suggested) => suggested,
        Err(err) => return fail(&err, USAGE),
    };
    if !is_learned {
        let why = match progress {
            Progress::Off => "learning is off; this is the order of the search".to_owned(),
            Progress::Failed(why) => format!("what was learned cannot be used: {why}"),
            _ => "nothing is learned for this yet; this is the order of the search".to_owned(),
        };
        let _ = writeln!(io::stderr(), "{}", visible(&why));
    }
    match show(&suggestions, args.json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn show(suggestions: &[Suggestion], is_json: bool) -> io::Result<()> {
    if is_json {
        let entry = |Suggestion { tool, score, reasons }: &Suggestion| json!({ "name": tool, "score": rounded(*score), "why": reasons });
        return print::json(&json!({ "tools": suggestions.iter().map(entry).collect::<Vec<_>>() }));
    }
    let mut stdout = io::stdout().lock();
    for Suggestion { tool, reasons, .. } in suggestions {
        writeln!(stdout, "{}  {}", visible(tool), reasons.join("; "))?;
    }
    Ok(())
}
