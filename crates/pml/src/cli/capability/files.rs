//! `pml capability export` and `import`.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use pml_wire::ErrorCode;
use serde_json::{Value, json};

use super::{
    super::{CLI, changes::say, print},
    command::{Desk, Outcome, asked},
};
use crate::{
    capability::{CapabilityFile, read_file, write_file},
    digest::sha256,
    error::Error,
    hub::store::Expected,
    shown::{counted, visible},
};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ExportArgs {
    /// Their names [default: all]
    names: Vec<String>,

    /// The file [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ImportArgs {
    /// A file that `pml capability export` wrote
    file: PathBuf,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Desk {
    pub(super) fn export(&self, args: &ExportArgs) -> Outcome {
        let wanted = match args.names.is_empty() {
            true => self.saver.registry.all(),
            false => args.names.iter().map(|name| self.find(name)).collect::<Result<_, _>>()?,
        };
        let files: Vec<_> = wanted.iter().map(|capability| CapabilityFile::of(capability)).collect();
        let text = write_file(&files)?;
        let written = match &args.output {
            Some(path) => std::fs::write(path, &text),
            None => io::stdout().write_all(text.as_bytes()),
        };
        written.map_err(|err| Error::new(ErrorCode::ConfigInvalid, format!("it cannot be written: {err}")))?;
        if let Some(path) = &args.output {
            say(&format!("{} written to {}", capabilities(files.len()), path.display()));
        }
        Ok(ExitCode::SUCCESS)
    }

    pub(super) async fn import(&self, args: &ImportArgs) -> Outcome {
        let files = read_file(&args.file)?;
        let mut new = Vec::new();
        let mut told = Vec::new();
        for file in &files {
            let (name, checked) = file.to_new()?;
            self.saver.check_file(&name, file).await?;
            let known = self.saver.registry.named(&name.to_string()).filter(|known| known.name == name);
            let versions = match &known {
                Some(known) => self.saver.registry.versions(known.id).await?,
                None => Vec::new(),
            };
            let is_earlier = versions.iter().any(|version| sha256(&version.code) == file.sha256);
            let what = match &known {
                Some(known) if sha256(&*known.code) == file.sha256 => "is here already",
                Some(_) if is_earlier => "is here already, as an earlier version: it is left as it is",
                Some(_) => "becomes a new version",
                None => {
                    self.saver.check_name(&name)?;
                    "is new"
                }
            };
            if !args.json {
                show(file, what);
            }
            told.push(json!({
                "name": file.name, "version": file.version, "sha256": file.sha256, "tools": file.tools, "what": what,
            }));
            if !what.starts_with("is here already") {
                new.push((name, checked));
            }
        }
        let count = new.len();
        if count > 0
            && let Some(code) = asked(args.yes, &format!("Add {}?", capabilities(count)))
        {
            return Ok(code);
        }
        for (name, mut checked) in new {
            // Against those that were just added, too.
            self.saver.check_new(&name, &checked)?;
            checked.author = Some(CLI.to_owned());
            if self.saver.registry.named(&name.to_string()).is_some() {
                // Who may see it stays as it is.
                checked.visibility = None;
            }
            self.saver.registry.put(checked, Expected::Anything).await?;
        }
        match args.json {
            true => drop(print::json(&json!({ "added": count, "capabilities": told }))),
            false => say(&format!("{} added", capabilities(count))),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn capabilities(count: usize) -> String {
    counted(count, "capability", "capabilities")
}

/// Shows what would be added, whole: somebody else wrote it.
fn show(file: &CapabilityFile, what: &str) {
    let mut out = io::stderr().lock();
    let tools = if file.tools.is_empty() { "none".to_owned() } else { file.tools.join(", ") };
    let _ = writeln!(out, "{} ({}) {what}", visible(&file.name), &file.sha256[..file.sha256.len().min(12)]);
    let _ = writeln!(out, "  version {} of the file", file.version);
    if !file.description.is_empty() {
        let _ = writeln!(out, "  about: {}", visible(&file.description).replace('\n', "\n         "));
    }
    for intent in &file.intents {
        let _ = writeln!(out, "  for: {}", visible(intent));
    }
    let _ = writeln!(out, "  tools: {}", visible(&tools));
    let parameters: Value = serde_json::from_str(&file.parameters).unwrap_or_default();
    for (name, schema) in parameters["properties"].as_object().into_iter().flatten() {
        let kind = schema["type"].as_str().unwrap_or("any");
        let default = schema.get("default").map(|default| format!(" = {default}")).unwrap_or_default();
        let _ = writeln!(out, "  takes: {}: {kind}{}", visible(name), visible(&default));
    }
    for line in file.code.lines() {
        let _ = writeln!(out, "  | {}", visible(line));
    }
}
