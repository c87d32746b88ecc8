//! `pml trace sync`.

use std::{
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use pml_wire::ErrorCode;
use serde_json::json;

use super::{
    super::print,
    command::{Stop, open},
    moment,
};
use crate::{config::Config, error::Error, hub::syncer::SyncTrouble, serve, shown::visible, trace::store::Outbox};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Say what waits, what was refused, and why; sends nothing
    #[arg(long, conflicts_with_all = ["now", "retry_dead", "again_since"])]
    status: bool,

    /// Deliver what waits; the default
    #[arg(long)]
    now: bool,

    /// Also deliver again what the hub has refused
    #[arg(long)]
    retry_dead: bool,

    /// Also deliver again what the hub has taken, of executions that began since then: for a hub whose database was lost or
    /// restored from a backup. What it still has stays as it is
    #[arg(long, value_name = "TIME")]
    again_since: Option<String>,

    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &Args, config: &Config, data_dir: &Path) -> Result<(), Stop> {
    let since = args.again_since.as_deref().map(|text| moment::parse("--again-since", text)).transpose()?;
    let store = open(config, data_dir).await;
    if args.status {
        let outbox = match &store {
            Some(store) => store.outbox().await?,
            None => Outbox::default(),
        };
        return status(args, config, &outbox);
    }
    let Some(hub) = config.hub.sync.clone() else {
        let hint = "name one in pml.toml: [hub] url = \"https://…\", key = \"${PML_HUB_KEY}\"";
        return Err(Stop::Usage(Error::new(ErrorCode::ConfigInvalid, "no hub is configured").with_hint(hint)));
    };
    let Some(store) = store else { return say(args, 0, 0, 0) };
    let mut again = if args.retry_dead { store.requeue().await? } else { 0 };
    if let Some(since) = since {
        again += store.resend(since).await?;
    }
    let syncer = serve::syncer(hub, Arc::clone(&store), &config.network).map_err(Stop::Usage)?;
    let report = syncer.send_all().await;
    let failed = |code, message: String, hint: &str| Err(Stop::Failed(Error::new(code, message).with_hint(hint)));
    let kept = "nothing is lost: what was not delivered is kept, and sent again";
    match report.trouble {
        None => say(args, report.sent, report.dead, again),
        Some(SyncTrouble::NotOurTurn) => {
            let message = "another pml with this data folder is delivering traces".to_owned();
            failed(ErrorCode::HubUnavailable, message, "`pml trace sync --status` says what is left")
        }
        Some(SyncTrouble::Later(_, why)) => {
            failed(ErrorCode::HubUnavailable, format!("the hub does not take traces now: {why}"), kept)
        }
        Some(SyncTrouble::Stopped(why)) => {
            let hint = "set `hub.key` to a key that is valid there; until then everything is kept";
            failed(ErrorCode::HubRefused, format!("the hub does not let this pml in: {why}"), hint)
        }
        Some(SyncTrouble::Store(why)) => failed(ErrorCode::TraceStoreFailed, why, kept),
    }
}

fn say(args: &Args, sent: u64, dead: u64, again: u64) -> Result<(), Stop> {
    match args.json {
        true => print::json(&json!({"sent": sent, "refused": dead, "retried": again}))?,
        false => writeln!(io::stdout(), "{sent} traces delivered, {dead} refused")?,
    }
    Ok(())
}

fn status(args: &Args, config: &Config, outbox: &Outbox) -> Result<(), Stop> {
    let hub = config.hub.sync.as_ref().map(|hub| hub.url.as_str());
    let Outbox { unsent, unsent_bytes, oldest, dead, dropped, failures, graves } = outbox;
    if args.json {
        let reasons = |reasons: &[(String, u64)]| -> Vec<_> {
            reasons.iter().map(|(reason, traces)| json!({"reason": reason, "traces": traces})).collect()
        };
        return Ok(print::json(&json!({
            "hub": hub, "unsent": unsent, "unsentBytes": unsent_bytes, "oldest": oldest, "dead": dead, "dropped": dropped,
            "failures": reasons(failures), "refusals": reasons(graves),
        }))?);
    }
    let mut out = io::stdout().lock();
    match hub {
        Some(hub) => writeln!(out, "hub: {}", visible(hub))?,
        None => writeln!(out, "hub: none; traces stay on this machine")?,
    }
    let since = oldest.map(|oldest| format!(", the oldest of {}", moment::local(oldest))).unwrap_or_default();
    writeln!(out, "{unsent} traces wait to be delivered ({} KB{since})", unsent_bytes / 1000)?;
    for (reason, traces) in failures {
        writeln!(out, "  {traces}: {}", visible(reason))?;
    }
    writeln!(out, "{dead} traces were refused by the hub")?;
    for (reason, traces) in graves {
        writeln!(out, "  {traces}: {}", visible(reason))?;
    }
    if *dropped > 0 {
        writeln!(out, "{dropped} traces were given up before they were delivered, since too much waited")?;
    }
    Ok(())
}
