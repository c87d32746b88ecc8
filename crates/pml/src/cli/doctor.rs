//! `pml doctor`: what works on this machine, and what does not.

use std::{
    io::{self, Write},
    num::NonZeroUsize,
    process::ExitCode,
};

use clap::Subcommand;
use pml_wire::hardening::HardeningReport;

use super::{fail, with_pool};
use crate::{config::Config, sandbox::Mode};

#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// Start a sandbox and show each layer of its jail
    Sandbox {
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
}

pub(super) async fn run(what: What, mut config: Config) -> ExitCode {
    let What::Sandbox { json } = what;
    // The report is wanted most where a worker would be refused.
    let allow_weak = std::mem::replace(&mut config.sandbox.allow_weak, true);
    config.sandbox.warm_workers = NonZeroUsize::MIN;
    let worker = with_pool(&config, config.sandbox.mode, async |pool, _| {
        pool.lease().await.map(|worker| worker.hardening().clone())
    })
    .await;
    let report = match worker {
        Ok(report) => report,
        Err(err) => return fail(&err, 1),
    };
    let printed =
        if json { print_json(&report, allow_weak) } else { print_text(&report, config.sandbox.mode, allow_weak) };
    match (printed, is_safe(&report) || allow_weak) {
        (Ok(()), true) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn is_safe(report: &HardeningReport) -> bool {
    report.missing().next().is_none()
}

fn print_json(report: &HardeningReport, allow_weak: bool) -> io::Result<()> {
    let object = serde_json::json!({ "safe": is_safe(report), "allow_weak": allow_weak, "layers": report });
    writeln!(io::stdout(), "{object}")
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
