//! `pml import`: the servers of a client become pml's.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use pml_wire::{ErrorCode, id::MAX_NAME_BYTES};
use serde_json::{Value, json};
use toml_edit::{DocumentMut, Item};

use super::{
    USAGE,
    changes::{self, Consent, Outcome, say},
    fail, print, server,
};
use crate::{
    catalog::nearest,
    clients::{self, Change, Client, Document, Format, Mistake, Source, Translated},
    config::{self, File, Places, ServerFile},
    error::Error,
    shown::check_name,
};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pml import --from claude\n  pml import --from vscode --only github --dry-run\n  pml import --undo"
)]
pub(super) struct Args {
    /// The client whose servers are wanted
    #[arg(long, value_name = "CLIENT", required_unless_present = "undo")]
    from: Option<Client>,

    /// Read this file instead of those where the client keeps its own
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// The folder whose servers are wanted, besides the user's own [default: this one]
    #[arg(long, value_name = "FOLDER")]
    project: Option<PathBuf>,

    /// Only this server [may be repeated]
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    /// Only show what would change
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,

    /// Take the last import back
    #[arg(long, conflicts_with_all = ["file", "project", "only", "dry_run", "json"])]
    undo: bool,

    /// Take it back also if the file has changed since
    #[arg(long, requires = "undo")]
    force: bool,
}

/// A server in a client's file.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) entry: Value,
    pub(super) source: Source,
    /// It is switched off in another place than its entry.
    is_off: bool,
}

/// What an import would do.
#[derive(Debug)]
pub(super) struct Plan {
    /// pml's own file.
    pub(super) path: PathBuf,
    pub(super) imported: Vec<Imported>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) change: Option<Change>,
    /// The file will hold secrets as they are.
    pub(super) holds_secrets: bool,
    /// Others can read the file now.
    is_open: bool,
}

#[derive(Debug)]
pub(super) struct Imported {
    pub(super) found: Found,
    /// What it is called in pml.
    pub(super) name: String,
    notes: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Skipped {
    pub(super) found: Found,
    why: String,
    /// pml has it already.
    pub(super) is_in_pml: bool,
}

/// What all commands get.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common<'a> {
    pub(super) config: Option<&'a Path>,
    pub(super) data_dir: Option<&'a Path>,
}

pub(super) fn run(args: &Args, common: Common<'_>) -> ExitCode {
    let Some(client) = args.from.filter(|_| !args.undo) else {
        return changes::undo(common.data_dir, "import", args.from.map(Client::id), args.force);
    };
    match import(client, args, common) {
        Ok(code) => code,
        Err(err) => fail(&err, USAGE),
    }
}

fn import(client: Client, args: &Args, common: Common<'_>) -> Result<ExitCode, Error> {
    let places = Places::here();
    let project = project(args.project.as_deref())?;
    let sources = match &args.file {
        Some(file) => vec![client.other_file(file, args.project.as_ref().map(|_| project.as_path()))],
        None => client.sources(&places, &project),
    };
    if !sources.iter().any(|source| source.file.exists()) {
        return Err(no_file(client, &sources));
    }
    let found = only(find(client, &sources)?, &args.only, client)?;
    if found.is_empty() && !args.json {
        let looked: Vec<_> = sources.iter().filter(|source| source.file.exists()).collect();
        let looked = looked.iter().map(|source| format!("{} (`{}`)", source.file.display(), source.keys.join(".")));
        say(&format!("{client} has no servers here; looked in {}", looked.collect::<Vec<_>>().join(", ")));
        return Ok(ExitCode::SUCCESS);
    }
    let plan = plan(client, found, &places, common.config)?;
    if !args.json {
        if let Some(change) = &plan.change {
            let _ = changes::show(std::slice::from_ref(change));
        }
        say_plan(client, &plan);
    }
    let outcome = match &plan.change {
        None => None,
        Some(change) => {
            let consent = Consent::new(args.yes, args.dry_run);
            let changes = std::slice::from_ref(change);
            Some(changes::make(changes, consent, common.data_dir, ("import", client.id()))?)
        }
    };
    if let Some(Outcome::Made(_)) = &outcome {
        let count = counted(plan.imported.len());
        say(&format!("{count} added to {}; `pml import --undo` takes it back", plan.path.display()));
    }
    if args.json {
        let _ = print::json(&to_json(client, &plan, outcome.as_ref()));
    }
    Ok(outcome.map_or(ExitCode::SUCCESS, |outcome| outcome.exit_code()))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::ConfigInvalid, message)
}

pub(super) fn counted(count: usize) -> String {
    if count == 1 { "1 server".to_owned() } else { format!("{count} servers") }
}

/// The folder that is meant, as clients write it.
pub(super) fn project(folder: Option<&Path>) -> Result<PathBuf, Error> {
    let folder = folder.unwrap_or(Path::new("."));
    let real = fs::canonicalize(folder).and_then(|real| match real.is_dir() {
        true => Ok(real),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    real.map_err(|err| invalid(format!("`{}` is no folder: {err}", folder.display())).caused_by(err))
}

fn no_file(client: Client, sources: &[Source]) -> Error {
    let mut files: Vec<_> = sources.iter().map(|source| source.file.display().to_string()).collect();
    files.dedup();
    let hint = match files.as_slice() {
        [] => "`HOME` is not set".to_owned(),
        files => format!("looked for {}; --file names another", files.join(", ")),
    };
    invalid(format!("{client} has no configuration here")).with_hint(hint)
}

pub(super) fn broken(file: &Path, mistake: &Mistake) -> Error {
    invalid(format!("in `{}`: {mistake}", file.display())).with_hint("nothing is changed; correct the file first")
}

/// The servers that a client has. Of those with one name, the one that the client would use.
pub(super) fn find(client: Client, sources: &[Source]) -> Result<Vec<Found>, Error> {
    let mut found: Vec<Found> = Vec::new();
    // The same file may be read for two scopes; it may be large.
    let mut documents: BTreeMap<&Path, Option<Document>> = BTreeMap::new();
    for source in sources {
        if !documents.contains_key(source.file.as_path()) {
            let text = clients::read(&source.file)?;
            let document = text.map(|text| Document::parse(client.format(), &text)).transpose();
            documents.insert(&source.file, document.map_err(|mistake| broken(&source.file, &mistake))?);
        }
    }
    let off = switched_off(client, sources, &documents);
    for source in sources {
        let Some(Some(document)) = documents.get(source.file.as_path()) else { continue };
        let servers = document.servers(&source.keys).map_err(|mistake| broken(&source.file, &mistake))?;
        for (name, entry) in servers {
            if !found.iter().any(|other| other.name == name) {
                let is_off = source.project.is_some() && off.contains(&name);
                found.push(Found { name, entry, source: source.clone(), is_off });
            }
        }
    }
    Ok(found)
}

/// What Claude Code has switched off in a folder, which it writes elsewhere than the servers.
fn switched_off(client: Client, sources: &[Source], documents: &BTreeMap<&Path, Option<Document>>) -> Vec<String> {
    let local = sources.iter().find(|source| client == Client::Claude && source.keys.len() == 3);
    let Some(source) = local else { return Vec::new() };
    let Some(Some(document)) = documents.get(source.file.as_path()) else { return Vec::new() };
    let names = |key: &str| {
        let keys = [&source.keys[..2], &[key.to_owned()]].concat();
        let names = document.value(&keys).and_then(|value| serde_json::from_value::<Vec<String>>(value).ok());
        names.unwrap_or_default()
    };
    [names("disabledMcpServers"), names("disabledMcpjsonServers")].concat()
}

fn only(found: Vec<Found>, names: &[String], client: Client) -> Result<Vec<Found>, Error> {
    for name in names {
        if !found.iter().any(|found| found.name == *name) {
            let err = invalid(format!("{client} has no server `{}`", name.escape_debug()));
            let near = nearest(name, found.iter().map(|found| found.name.as_str()));
            return Err(match near.first() {
                Some(near) => err.with_hint(format!("did you mean `{near}`?")),
                None => err,
            });
        }
    }
    let is_wanted = |found: &Found| names.is_empty() || names.contains(&found.name);
    Ok(found.into_iter().filter(is_wanted).collect())
}

/// What adding these servers to pml's own file would mean.
pub(super) fn plan(client: Client, found: Vec<Found>, places: &Places, config: Option<&Path>) -> Result<Plan, Error> {
    let path = config::own_file(config)?;
    let before = clients::read(&path)?;
    let text = before.clone().unwrap_or_default();
    let wrong = |message: String| invalid(format!("in `{}`: {message}", path.display()));
    let mut servers = File::parse(&text).map_err(wrong)?.servers;
    let mut document = clients::parse_toml(&text).map_err(|mistake| wrong(mistake.to_string()))?;
    let (mut imported, mut skipped) = (Vec::new(), Vec::new());
    for found in found {
        let mut skip = |found, why: String, is_in_pml| skipped.push(Skipped { found, why, is_in_pml });
        if clients::is_pml(&found.name, &found.entry).is_some() {
            skip(found, "it is pml itself".to_owned(), false);
            continue;
        }
        let Translated { mut server, mut notes } = match clients::translate(client, &found.entry, &found.source, places)
        {
            Ok(translated) => translated,
            Err(why) => {
                skip(found, why, false);
                continue;
            }
        };
        if found.is_off && server.enabled.is_none() {
            server.enabled = Some(false);
            notes.push("it is switched off there, and so it is here (`enabled = false`)".to_owned());
        }
        let wanted = fitting(&found.name);
        if let Some(same) = named(&servers, &wanted).find(|(_, other)| is_same(other, &server)) {
            let why = match *same.0 == found.name {
                true => "pml has the same already".to_owned(),
                false => format!("pml has the same already, as `{}`", same.0),
            };
            skip(found, why, true);
            continue;
        }
        let name = free_name(&servers, &wanted);
        let alone = clients::table(&server);
        let mut checked = DocumentMut::new();
        server::servers(&mut checked)?.insert(&name, Item::Table(alone.clone()));
        if let Err(why) = config::check_text(&checked.to_string()) {
            skip(found, why, false);
            continue;
        }
        if servers.contains_key(&wanted) {
            notes.push(format!("pml has another `{wanted}`, which stays; this one is called `{name}`"));
        } else if name != found.name {
            notes.push(format!("`{}` cannot be a name in pml", found.name.escape_debug()));
        }
        server::servers(&mut document)?.insert(&name, Item::Table(alone));
        servers.insert(name.clone(), server);
        imported.push(Imported { found, name, notes });
    }
    let after = clients::toml_text(&text, &document);
    if !imported.is_empty() {
        config::check_text(&after).map_err(wrong)?;
    }
    let holds_secrets = clients::holds_secrets(Format::Toml, &after);
    let is_open = fs::metadata(&path).is_ok_and(|data| data.permissions().mode() & 0o077 != 0);
    let change = (!imported.is_empty()).then(|| Change {
        path: path.clone(),
        format: Format::Toml,
        before,
        after,
        mode: 0o600,
        is_private: holds_secrets,
        edits: Vec::new(),
    });
    Ok(Plan { path, imported, skipped, change, holds_secrets, is_open })
}

/// Do two entries reach the same server in the same way?
pub(super) fn is_same(one: &ServerFile, other: &ServerFile) -> bool {
    (&one.command, &one.args, &one.env, &one.cwd, &one.url, &one.headers)
        == (&other.command, &other.args, &other.env, &other.cwd, &other.url, &other.headers)
}

/// The servers called `name`, or so with a number.
fn named<'a>(
    servers: &'a BTreeMap<String, ServerFile>,
    name: &'a str,
) -> impl Iterator<Item = (&'a String, &'a ServerFile)> {
    servers.iter().filter(move |(other, _)| {
        let rest = other.strip_prefix(name).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
        rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()))
    })
}

/// A name that pml allows, as near as possible.
fn fitting(name: &str) -> String {
    let is_unfit = |c: char| c == ':' || check_name(c.encode_utf8(&mut [0; 4])).is_err();
    let plain: String = name.trim().chars().map(|c| if c != ' ' && is_unfit(c) { '-' } else { c }).collect();
    // Some bytes for a number.
    let plain = plain[..plain.floor_char_boundary(MAX_NAME_BYTES - 8)].trim_end();
    // Letters that only look alike cannot be mended one by one.
    let is_fit = !plain.is_empty() && check_name(plain).is_ok();
    if is_fit { plain.to_owned() } else { "server".to_owned() }
}

fn free_name(servers: &BTreeMap<String, ServerFile>, name: &str) -> String {
    let is_free = |name: &str| !servers.contains_key(name) && config::check_name(name).is_ok();
    if is_free(name) {
        return name.to_owned();
    }
    (2_u64..).map(|number| format!("{name}-{number}")).find(|name| is_free(name)).unwrap_or_default()
}

/// Says what would happen, for people.
pub(super) fn say_plan(client: Client, plan: &Plan) {
    if plan.imported.is_empty() && plan.skipped.is_empty() {
        say(&format!("{client} has no other servers here"));
        return;
    }
    let shown = |name: &str| name.escape_debug().to_string();
    for Imported { found, name, notes } in &plan.imported {
        let called = if *name == found.name { String::new() } else { format!(" as `{}`", shown(name)) };
        say(&format!("add   `{}`{called}, from {}", shown(&found.name), found.source.file.display()));
        for note in notes {
            say(&format!("      note: {note}"));
        }
    }
    for Skipped { found, why, .. } in &plan.skipped {
        say(&format!("skip  `{}`, from {}: {why}", shown(&found.name), found.source.file.display()));
    }
    if plan.imported.is_empty() {
        say("there is nothing to add");
        return;
    }
    if plan.imported.iter().any(|imported| imported.found.entry.get("command").is_some()) {
        say("note: from pml, a command gets only the variables that its `env` names, and PATH, HOME and the like");
    }
    if plan.holds_secrets {
        let mode = if plan.is_open { "; its mode becomes 0600, so that only you can read it" } else { "" };
        say(&format!("note: {} will hold secrets as they are (shown as *** above){mode}", plan.path.display()));
    }
}

fn to_json(client: Client, plan: &Plan, outcome: Option<&Outcome>) -> Value {
    let imported: Vec<_> = plan
        .imported
        .iter()
        .map(|Imported { found, name, notes }| {
            json!({ "name": name, "was": found.name, "from": found.source.file, "notes": notes })
        })
        .collect();
    let skipped: Vec<_> = plan
        .skipped
        .iter()
        .map(|Skipped { found, why, .. }| json!({ "name": found.name, "from": found.source.file, "reason": why }))
        .collect();
    let backup = match outcome {
        Some(Outcome::Made(backup)) => Some(backup),
        _ => None,
    };
    json!({
        "client": client.id(), "file": plan.path, "changed": backup.is_some(), "imported": imported,
        "skipped": skipped, "holds_secrets": plan.holds_secrets, "backup": backup,
        "diff": plan.change.as_ref().map(changes::diff),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_becomes_one_that_pml_allows() {
        let long = "ä".repeat(300);
        for (name, expected) in [("a:b", "a-b"), ("a\u{0}b", "a-b"), ("", "server"), ("pml", "pml-2"), ("ok", "ok")] {
            assert_eq!(free_name(&BTreeMap::new(), &fitting(name)), expected, "{name:?}");
        }
        let name = free_name(&BTreeMap::new(), &fitting(&long));
        assert!(config::check_name(&name).is_ok(), "{name}");
        let servers: BTreeMap<_, _> = ["a", "a-2"].map(|name| (name.to_owned(), ServerFile::default())).into();
        assert_eq!(free_name(&servers, "a"), "a-3");
    }
}
