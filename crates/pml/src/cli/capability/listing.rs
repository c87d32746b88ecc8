//! `pml capability list` and `show`.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use serde_json::{Value, json};

use super::{
    super::print,
    command::{Desk, Outcome},
};
use crate::{
    capability::{Capability, CapabilityName, Standing},
    hub::store::CapabilityVersion,
    shown::visible,
};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ListArgs {
    /// Only those whose name or description has these words
    words: Vec<String>,

    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ShowArgs {
    /// Its name, namespace.action
    name: String,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Desk {
    fn standing(&self, capability: &Capability) -> Standing {
        capability.standing(&self.services.catalog.snapshot())
    }

    pub(super) fn list(&self, args: &ListArgs) -> Outcome {
        let mut found = self.saver.registry.all();
        let words: Vec<_> = args.words.iter().map(|word| word.to_lowercase()).collect();
        found.retain(|it| {
            let text = format!("{} {}", it.name, it.description).to_lowercase();
            words.iter().all(|word| text.contains(word))
        });
        if args.json {
            let all: Vec<_> = found.iter().map(|capability| to_json(capability, &self.standing(capability))).collect();
            let _ = print::json(&json!({ "capabilities": all }));
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = io::stdout().lock();
        if found.is_empty() {
            let _ = writeln!(
                io::stderr(),
                "there are none; `pml capability save --name namespace.action` keeps the last program"
            );
        }
        for capability in &found {
            let _ = line(&mut out, capability, &self.standing(capability));
        }
        Ok(ExitCode::SUCCESS)
    }

    pub(super) async fn show(&self, args: &ShowArgs) -> Outcome {
        let capability = self.find(&args.name)?;
        let versions = self.saver.registry.versions(capability.id).await?;
        let standing = self.standing(&capability);
        if args.json {
            let mut told = to_json(&capability, &standing);
            told["code"] = (&*capability.code).into();
            told["versions"] = versions.iter().map(version).collect();
            let _ = print::json(&told);
            return Ok(ExitCode::SUCCESS);
        }
        let taken: Vec<_> = self.saver.registry.all().iter().map(|other| other.name.clone()).collect();
        let _ = text(&mut io::stdout().lock(), &capability, &standing, (&versions, &taken));
        Ok(ExitCode::SUCCESS)
    }
}

/// What is to be known about one at a glance.
fn marks(capability: &Capability, standing: &Standing) -> Vec<String> {
    let mut marks = Vec::new();
    if capability.notes.deprecated.is_some() {
        marks.push("deprecated".to_owned());
    }
    if let Some(origin) = &capability.notes.origin {
        let new = if capability.stats.runs == 0 { ", new" } else { "" };
        marks.push(format!("from the hub as {origin}{new}"));
    }
    for (tools, what) in [(&standing.gone, "gone"), (&standing.changed, "changed")] {
        if !tools.is_empty() {
            marks.push(format!("{what}: {}", tools.join(", ")));
        }
    }
    marks
}

fn line(out: &mut impl Write, capability: &Capability, standing: &Standing) -> io::Result<()> {
    let Capability { name, version, visibility, stats, description, .. } = capability;
    let runs = match stats.runs {
        0 => "never run".to_owned(),
        runs => {
            let noun = if runs == 1 { "run" } else { "runs" };
            format!("{runs} {noun}, {} failed, {:.0} ms", stats.failed, stats.mean_ms)
        }
    };
    writeln!(out, "{name}  v{version}  {}  {runs}", visibility.as_str())?;
    if !description.is_empty() {
        let first: String = description.lines().next().unwrap_or_default().chars().take(100).collect();
        writeln!(out, "    {}", visible(&first))?;
    }
    for mark in marks(capability, standing) {
        writeln!(out, "    ({})", visible(&mark))?;
    }
    Ok(())
}

fn text(
    out: &mut impl Write,
    capability: &Capability,
    standing: &Standing,
    (versions, taken): (&[CapabilityVersion], &[CapabilityName]),
) -> io::Result<()> {
    let Capability { name, fqdn, id, description, notes, .. } = capability;
    line(out, capability, standing)?;
    writeln!(out, "called   {}(args)", name.as_called())?;
    writeln!(out, "name     {fqdn}")?;
    writeln!(out, "id       {id}")?;
    if description.lines().count() > 1 {
        writeln!(out, "about    {}", visible(description))?;
    }
    for intent in &notes.intents {
        writeln!(out, "for      {}", visible(intent))?;
    }
    if let Some(why) = &notes.deprecated {
        writeln!(out, "not any more: {}", visible(why))?;
    }
    for former in &capability.former {
        let is_taken = taken.contains(former);
        writeln!(out, "formerly {former}{}", if is_taken { " (the name of another one now)" } else { "" })?;
    }
    match notes.tools.is_empty() {
        true => writeln!(out, "tools    none")?,
        false => {
            let tools: Vec<_> = notes.tools.iter().map(|saved| saved.tool.as_str()).collect();
            writeln!(out, "tools    {}", visible(&tools.join(", ")))?;
        }
    }
    let parameters = capability.parameters["properties"].as_object();
    for (parameter, schema) in parameters.into_iter().flatten() {
        let kind = schema["type"].as_str().unwrap_or("any");
        let default = schema.get("default").map(|default| format!(" = {default}")).unwrap_or_default();
        writeln!(out, "takes    {}: {kind}{}", visible(parameter), visible(&default))?;
    }
    for CapabilityVersion { number, hash, author, .. } in versions {
        writeln!(out, "version  {number} ({hash}) by {author}")?;
    }
    writeln!(out, "\n{}", visible(&capability.code))
}

fn version(version: &CapabilityVersion) -> Value {
    let CapabilityVersion { number, hash, code, description, author, created_at, .. } = version;
    json!({ "version": number, "hash": hash, "code": code, "description": description, "author": author, "created_at": created_at })
}

pub(super) fn to_json(capability: &Capability, standing: &Standing) -> Value {
    let stats = capability.stats;
    json!({
        "name": capability.name.to_string(),
        "in_code": capability.name.in_code(),
        "fqdn": &*capability.fqdn,
        "id": capability.id,
        "version": capability.version,
        "description": capability.description,
        "intents": capability.notes.intents,
        "visibility": capability.visibility,
        "author": capability.author,
        "deprecated": capability.notes.deprecated,
        "origin": capability.notes.origin,
        "former_names": capability.former.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "parameters": capability.parameters,
        "result": capability.notes.result,
        "tools": capability.notes.tools,
        "tools_gone": standing.gone,
        "tools_changed": standing.changed,
        "created_at": capability.created_at,
        "updated_at": capability.updated_at,
        "stats": { "runs": stats.runs, "failed": stats.failed, "mean_ms": stats.mean_ms, "last_run": stats.last_run },
    })
}
