//! `pml search`: which tools do what is asked for.

use std::{
    io::{self, IsTerminal as _, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use pml_search::Explanation;
use pml_wire::ErrorCode;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    USAGE, fail, print,
    tools::{choose, complain, learn, no_servers, summary},
    with_servers,
};
use crate::{
    broker::{Findings, Question, rounded},
    catalog::Found,
    config::Config,
    error::Error,
    learning::View,
    serve::Services,
    shown::visible,
    upstream::Failure,
};

/// How long servers are waited for of which nothing is known, if others are.
const LEARN_MORE: Duration = Duration::from_secs(5);
/// How long the encoder is waited for, which takes milliseconds for each tool that it has not read. Until then the table answers.
pub(super) const ENCODED: Duration = Duration::from_secs(1);
/// How long traces that were stored since the last time are learned before the search.
const LEARNED: Duration = Duration::from_secs(2);
/// What is said on a terminal where the table has answered.
const PRELIMINARY: &str =
    "found with the table alone: the encoder has not read all tools yet; the next search goes on from there";
/// Words that an explanation names.
const MAX_SHARES: usize = 12;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What the tool should do, in plain words
    #[arg(required = true, value_name = "QUERY")]
    query: Vec<String>,

    /// How many tools at most, 1 to 50 [default: 10]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true)]
    limit: Option<f64>,

    /// Leave out tools that score less, 0 to 1 [default: 0.12]
    #[arg(short, long, value_name = "SCORE", allow_negative_numbers = true)]
    threshold: Option<f64>,

    /// Only this server's tools
    #[arg(long, value_name = "NAME")]
    server: Option<String>,

    /// Say why each tool has its score
    #[arg(long)]
    explain: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, mut config: Config) -> ExitCode {
    let usage =
        |message: String, hint: &str| fail(&Error::new(ErrorCode::InvalidArguments, message).with_hint(hint), USAGE);
    let query = args.query.join(" ");
    if query.trim().is_empty() {
        return usage("the query is empty".to_owned(), "`pml tools` lists all tools");
    }
    let question = match Question::new(query, args.limit, args.threshold) {
        Ok(question) => question,
        Err(message) => return usage(message, "`pml search --help` says what can be asked"),
    };
    if let Some(name) = &args.server
        && let Err(err) = choose(&mut config, name)
    {
        return fail(&err, USAGE);
    }
    if config.servers.is_empty() {
        return fail(&no_servers(), USAGE);
    }
    let answer = match ask(&config, &question, args.explain).await {
        Ok(answer) => answer,
        Err(err) => return fail(&err, USAGE),
    };
    let printed = match args.json {
        true => print_json(&question, &answer),
        false => print_text(&answer),
    };
    if let Some(note) = question.note() {
        let _ = writeln!(io::stderr(), "{note}");
    }
    if answer.is_preliminary && io::stderr().is_terminal() {
        let _ = writeln!(io::stderr(), "{PRELIMINARY}");
    }
    complain(&answer.failures);
    let failed = answer.failures.len();
    if answer.findings.not_ready.len() > failed {
        let _ = writeln!(io::stderr(), "not searched, since not ready: {}", answer.findings.not_ready.join(", "));
    }
    match printed {
        Ok(()) if !answer.findings.found.is_empty() || answer.failures.is_empty() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

struct Answer {
    findings: Findings,
    /// Has the encoder not read all tools yet?
    is_preliminary: bool,
    /// Of each tool that was found, if it was asked for.
    explanations: Vec<Option<Explanation>>,
    failures: Vec<Failure>,
    /// For result types.
    learned: Option<Arc<View>>,
}

async fn ask(config: &Config, question: &Question, explain: bool) -> Result<Answer, Error> {
    with_servers(config, async |services: Arc<Services>, interrupt: CancellationToken| {
        // One that hangs must not hold up what is known of others.
        let is_anything_known = services.catalog.snapshot().listings().next().is_some();
        let learning = learn(&services, false, &interrupt);
        let failures = match is_anything_known {
            true => timeout(LEARN_MORE, learning).await.unwrap_or_else(|_| Ok(Vec::new()))?,
            false => learning.await?,
        };
        let index = tokio::select! {
            index = services.broker.settled_search(ENCODED) => index,
            () = interrupt.cancelled() => return Err(Error::new(ErrorCode::Cancelled, "interrupted before the search")),
        };
        // One that is not ready in time is not used.
        services.broker.settled_learning(LEARNED).await;
        let findings = services.broker.search_in(index.clone(), question.clone()).await;
        let explanation = |found: &Found| match explain {
            true => index.explain(question.query(), &found.tool.id),
            false => None,
        };
        let explanations = findings.found.iter().map(explanation).collect();
        let learned = services.broker.learned();
        Ok(Answer { findings, is_preliminary: index.is_preliminary(), explanations, failures, learned })
    })
    .await?
}

fn print_json(question: &Question, answer: &Answer) -> io::Result<()> {
    let tools: Vec<_> = answer
        .findings
        .found
        .iter()
        .zip(&answer.explanations)
        .map(|(Found { tool, score, reasons }, explanation)| {
            let mut entry = json!({
                "name": tool.id,
                "server": tool.id.server(),
                "description": tool.description,
                "signature": View::signature(answer.learned.as_deref(), tool),
                "inputSchema": tool.written_input(),
                "score": rounded(*score),
            });
            if !reasons.is_empty() {
                entry["why"] = reasons.join("; ").into();
            }
            if let Some(explanation) = explanation {
                entry["explanation"] = explanation_json(explanation);
            }
            entry
        })
        .collect();
    let Findings { searched, not_ready, .. } = &answer.findings;
    let report = json!({ "query": question.query(), "tools": tools, "searched": searched, "not_ready": not_ready });
    print::json(&report)
}

fn explanation_json(explanation: &Explanation) -> Value {
    let shares: Vec<_> = explanation
        .shares
        .iter()
        .map(|share| json!({ "word": share.word, "words": rounded(share.words), "meaning": rounded(share.meaning) }))
        .collect();
    json!({ "words": rounded(explanation.hit.words), "meaning": rounded(explanation.hit.meaning), "shares": shares })
}

fn print_text(answer: &Answer) -> io::Result<()> {
    let Findings { found, searched, .. } = &answer.findings;
    if found.is_empty() {
        return match searched {
            0 => writeln!(io::stderr(), "there is no tool that may be called"),
            1 => writeln!(io::stderr(), "nothing found among 1 tool; try other words"),
            _ => writeln!(io::stderr(), "nothing found among {searched} tools; try other words"),
        };
    }
    let mut stdout = io::stdout().lock();
    let width = found.iter().map(|found| found.tool.id.as_str().chars().count()).max().unwrap_or(0).min(50);
    for (Found { tool, score, reasons }, explanation) in found.iter().zip(&answer.explanations) {
        let summary = summary(tool.description.as_deref().unwrap_or_default());
        let (id, summary) = (visible(tool.id.as_str()), visible(&summary));
        writeln!(stdout, "{}", format!("{score:.3}  {id:<width$}  {summary}").trim_end())?;
        if !reasons.is_empty() {
            writeln!(stdout, "       {}", reasons.join("; "))?;
        }
        if let Some(explanation) = explanation {
            print_explanation(&mut stdout, explanation)?;
        }
    }
    Ok(())
}

/// What both halves and each word of the query have done for a tool.
fn print_explanation(out: &mut impl Write, Explanation { hit, shares }: &Explanation) -> io::Result<()> {
    writeln!(out, "       words {:.3}, meaning {:.3}", hit.words, hit.meaning)?;
    let width = shares.iter().take(MAX_SHARES).map(|share| share.word.chars().count()).max().unwrap_or(0).min(30);
    for share in shares.iter().take(MAX_SHARES) {
        let word = visible(&share.word);
        writeln!(out, "         {word:<width$}  words {:+.3}, meaning {:+.3}", share.words, share.meaning)?;
    }
    Ok(())
}
