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

use super::{
    USAGE,
    changes::{self, Consent, Outcome, say},
    destination::Destination,
    fail, print,
};
use crate::{
    catalog::nearest,
    clients::{self, Base, Change, Client, Document, Mistake, Place, Source, Translated},
    config::{self, Places, ServerFile},
    error::Error,
    shown::{check_name, counted},
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

    /// Take back also what has changed since, and keep a copy of it
    #[arg(long, requires = "undo")]
    force: bool,
}

/// A server in a client's file.
#[derive(Debug)]
pub(super) struct ClientServer {
    pub(super) name: String,
    pub(super) entry: Value,
    pub(super) source: Source,
    /// It is switched off in another place than its entry.
    is_off: bool,
}

/// What an import would do.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) imported: Vec<Imported>,
    pub(super) skipped: Vec<Skipped>,
    /// What becomes of pml's files.
    pub(super) changes: Vec<Change>,
    /// Which of them will hold secrets as they are, and can be read by others now.
    holds_secrets: Vec<(PathBuf, bool)>,
}

#[derive(Debug)]
pub(super) struct Imported {
    pub(super) found: ClientServer,
    /// Where it is in pml.
    pub(super) place: Place,
    notes: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Skipped {
    pub(super) found: ClientServer,
    pub(super) why: String,
    /// Where pml has it already.
    pub(super) place: Option<Place>,
}

/// pml's files that servers go into.
#[derive(Debug)]
pub(super) struct Targets {
    pub(super) own: PathBuf,
    /// That of the project, for servers of the project; `None` if all go into the own file.
    pub(super) project: Option<PathBuf>,
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
    let found = only(find(client, &sources, Shadowed::LeftOut)?, &args.only, client)?;
    if found.is_empty() && !args.json {
        let looked: Vec<_> = sources.iter().filter(|source| source.file.exists()).collect();
        let looked = looked.iter().map(|source| format!("{} (`{}`)", source.file.display(), source.keys.join(".")));
        say(&format!("{client} has no servers here; looked in {}", looked.collect::<Vec<_>>().join(", ")));
        return Ok(ExitCode::SUCCESS);
    }
    let targets = Targets { own: config::own_file(common.config)?, project: None };
    let plan = plan(client, found, &targets, common)?;
    if !args.json {
        let _ = changes::show(&plan.changes);
        say_plan(client, &plan);
    }
    let outcome = match plan.changes.is_empty() {
        true => None,
        false => {
            let consent = Consent::new(args.yes, args.dry_run);
            Some(changes::make(&plan.changes, consent, common.data_dir, ("import", client.id()))?)
        }
    };
    if let Some(Outcome::Made(_)) = &outcome {
        let count = counted(plan.imported.len(), "server", "servers");
        say(&format!("{count} added to {}; `pml import --undo` takes it back", targets.own.display()));
    }
    if args.json {
        let _ = print::json(&to_json(client, &targets.own, &plan, outcome.as_ref()));
    }
    Ok(outcome.map_or(ExitCode::SUCCESS, |outcome| outcome.exit_code()))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::ConfigInvalid, message)
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

/// What is to be done with servers that the client does not use, since a nearer one has their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shadowed {
    LeftOut,
    Found,
}

/// The servers that a client has.
pub(super) fn find(client: Client, sources: &[Source], shadowed: Shadowed) -> Result<Vec<ClientServer>, Error> {
    let mut found: Vec<ClientServer> = Vec::new();
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
            if shadowed == Shadowed::Found || !found.iter().any(|other| other.name == name) {
                let is_off = source.project.is_some() && off.contains(&name);
                found.push(ClientServer { name, entry, source: source.clone(), is_off });
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

fn only(found: Vec<ClientServer>, names: &[String], client: Client) -> Result<Vec<ClientServer>, Error> {
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
    let is_wanted = |found: &ClientServer| names.is_empty() || names.contains(&found.name);
    Ok(found.into_iter().filter(is_wanted).collect())
}

/// What adding these servers to pml's files would mean.
pub(super) fn plan(
    client: Client,
    mut found: Vec<ClientServer>,
    targets: &Targets,
    common: Common<'_>,
) -> Result<Plan, Error> {
    let mut own = Destination::open(&targets.own, None, common)?;
    let mut theirs = targets.project.as_deref().map(|path| Destination::open(path, Some(path), common)).transpose()?;
    // Of a server that is there for both, the user's own counts.
    found.sort_by_key(|found| found.source.project.is_some());
    let mut plan = Plan::default();
    for found in found {
        let mut skip = |found, why: String, place| plan.skipped.push(Skipped { found, why, place });
        if clients::is_pml(&found.name, &found.entry).is_some() {
            skip(found, "it is pml itself".to_owned(), None);
            continue;
        }
        let is_theirs = found.source.project.is_some() && theirs.is_some();
        let base = if is_theirs { Base::Project } else { Base::Everywhere };
        let Translated { mut server, mut notes } = match clients::translate(client, &found.entry, &found.source, base) {
            Ok(translated) => translated,
            Err(why) => {
                skip(found, why, None);
                continue;
            }
        };
        if found.is_off && server.enabled.is_none() {
            server.enabled = Some(false);
            notes.push("it is switched off there, and so it is here (`enabled = false`)".to_owned());
        }
        // What belongs to the user alone in a folder needs no second entry there.
        let is_private = found.source.keys.len() > 1;
        let same = match theirs.as_ref().filter(|_| is_theirs) {
            Some(theirs) => theirs.same(&server).or_else(|| own.same(&server).filter(|_| is_private)),
            None => own.same(&server),
        };
        if let Some(place) = same {
            let why = match place.name == found.name {
                true => "pml has the same already".to_owned(),
                false => format!("pml has the same already, as `{}`", place.name),
            };
            skip(found, why, Some(place));
            continue;
        }
        let destination = theirs.as_mut().filter(|_| is_theirs).unwrap_or(&mut own);
        if let Some(why) = &destination.refusal {
            skip(found, why.clone(), None);
            continue;
        }
        let wanted = fitting(&found.name);
        let name = free_name(&destination.servers, &wanted);
        if destination.servers.contains_key(&wanted) {
            notes.push(format!("pml has another `{wanted}`, which stays; this one is called `{name}`"));
        } else if name != found.name {
            notes.push(format!("`{}` cannot be a name in pml", found.name.escape_debug()));
        }
        let origin = Place::new(&found.source.file, client.format(), &found.source.keys, &found.name);
        match destination.add(&name, server, origin)? {
            Ok(place) => plan.imported.push(Imported { found, place, notes }),
            Err(why) => plan.skipped.push(Skipped { found, why, place: None }),
        }
    }
    for destination in [Some(own), theirs].into_iter().flatten() {
        let Some((change, holds_secrets)) = destination.change()? else { continue };
        if holds_secrets {
            let is_open = fs::metadata(&change.path).is_ok_and(|data| data.permissions().mode() & 0o077 != 0);
            plan.holds_secrets.push((change.path.clone(), is_open));
        }
        plan.changes.push(change);
    }
    Ok(plan)
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
    for Imported { found, place, notes } in &plan.imported {
        let called = if place.name == found.name { String::new() } else { format!(" as `{}`", shown(&place.name)) };
        let from = found.source.file.display();
        say(&format!("add   `{}`{called}, from {from} to {}", shown(&found.name), place.file.display()));
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
        say(
            "note: from pml, a command gets PATH, HOME, proxies, certificates and the like, and what `env` or `pass_env` names",
        );
    }
    for (path, is_open) in &plan.holds_secrets {
        let mode = if *is_open { "; its mode becomes 0600, so that only you can read it" } else { "" };
        say(&format!("note: {} will hold secrets as they are (shown as *** above){mode}", path.display()));
        if plan.changes.iter().any(|change| change.trusts && change.path == *path) {
            say("note: keep that file out of version control, or write `${NAME}` for the secrets");
        }
    }
}

fn to_json(client: Client, file: &Path, plan: &Plan, outcome: Option<&Outcome>) -> Value {
    let imported: Vec<_> = plan
        .imported
        .iter()
        .map(|Imported { found, place, notes }| {
            json!({ "name": place.name, "was": found.name, "from": found.source.file, "notes": notes })
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
        "client": client.id(), "file": file, "changed": backup.is_some(), "imported": imported,
        "skipped": skipped, "holds_secrets": !plan.holds_secrets.is_empty(), "backup": backup,
        "diff": plan.changes.first().map(changes::diff),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_becomes_one_that_pml_allows() {
        let long = "ä".repeat(300);
        for (name, expected) in [
            ("a:b", "a-b"),
            ("a\u{0}b", "a-b"),
            ("", "server"),
            ("pml", "pml-2"),
            ("capabilities", "capabilities-2"),
            ("ok", "ok"),
        ] {
            assert_eq!(free_name(&BTreeMap::new(), &fitting(name)), expected, "{name:?}");
        }
        let name = free_name(&BTreeMap::new(), &fitting(&long));
        assert!(config::check_name(&name).is_ok(), "{name}");
        let servers: BTreeMap<_, _> = ["a", "a-2"].map(|name| (name.to_owned(), ServerFile::default())).into();
        assert_eq!(free_name(&servers, "a"), "a-3");
    }
}
