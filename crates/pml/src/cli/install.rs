//! `pml install`: pml becomes a server of a client.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use pml_wire::ErrorCode;
use serde_json::Value;

use super::{
    USAGE,
    changes::{self, Consent, Outcome, say},
    fail,
    import::{self, ClientServer, Common, Plan, Shadowed, Targets, broken, say_plan},
};
use crate::{
    clients::{self, Change, Client, Document, Edit, How, Place, Scope, Source},
    config::{self, Places},
    error::Error,
    shown::counted,
};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pml install --client claude\n  pml install --client cursor --move\n  pml install --client codex --undo"
)]
pub(super) struct Args {
    /// The client that is to use pml
    #[arg(long, value_name = "CLIENT", required_unless_present = "undo")]
    client: Option<Client>,

    /// For you in every folder, or for everybody in this one
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    scope: Scope,

    /// The folder that `--scope project` means [default: this one]
    #[arg(long, value_name = "FOLDER")]
    project: Option<PathBuf>,

    /// The address of a pml that is running, instead of a command that starts one
    #[arg(long, value_name = "URL")]
    http: Option<String>,

    /// What the client is to call it
    #[arg(long, value_name = "NAME", default_value = "pml")]
    name: String,

    /// Also move the client's other servers from its file into pml's
    #[arg(long = "move")]
    moves: bool,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    /// Only show what would change
    #[arg(long)]
    dry_run: bool,

    /// Take the last installation back
    #[arg(long, conflicts_with_all = ["project", "http", "dry_run", "moves"])]
    undo: bool,

    /// Take back also what has changed since, and keep a copy of it
    #[arg(long, requires = "undo")]
    force: bool,
}

pub(super) fn run(args: &Args, common: Common<'_>, client_files: &[PathBuf]) -> ExitCode {
    let Some(client) = args.client.filter(|_| !args.undo) else {
        return changes::undo(common.data_dir, "install", args.client.map(Client::id), args.force);
    };
    match install(client, args, common, client_files) {
        Ok(code) => code,
        Err(err) => fail(&err, USAGE),
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::ConfigInvalid, message)
}

fn install(client: Client, args: &Args, common: Common<'_>, client_files: &[PathBuf]) -> Result<ExitCode, Error> {
    let places = Places::here();
    let project = import::project(args.project.as_deref())?;
    let Some(target) = client.target(args.scope, &places, &project) else {
        return Err(match args.scope {
            Scope::Project => invalid(format!("{client} has no file for one folder")).with_hint("leave out --scope"),
            Scope::User => invalid(format!("nobody knows where {client} has its file: `HOME` is not set")),
        });
    };
    if args.name.is_empty() || args.name.chars().any(char::is_control) {
        return Err(invalid("`--name` is empty or has a control character in it"));
    }
    let how = match &args.http {
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => How::Http(url.clone()),
        Some(_) => return Err(invalid("`--http` is no address: it must begin with http:// or https://")),
        None => How::Command { command: command(client, &places)?, args: serve_args(common, client_files) },
    };
    let entry = clients::pml_entry(client, &how)
        .ok_or_else(|| invalid(format!("{client} reaches no address from its file")).with_hint("leave out --http"))?;

    let before = clients::read(&target.file)?;
    let parsed = Document::parse(client.format(), before.as_deref().unwrap_or_default());
    let mut document = parsed.map_err(|mistake| broken(&target.file, &mistake))?;
    let servers = document.servers(&target.keys).map_err(|mistake| broken(&target.file, &mistake))?;
    let mut edits = Vec::new();
    let present = servers.iter().find(|(name, _)| *name == args.name);
    let is_done = |name: &str, value: &Value| {
        // Older versions wrote no token.
        let has_token = clients::names_token(value) || !clients::names_token(&entry);
        clients::is_pml(name, value) == Some(how.clone()) && has_token
    };
    let elsewhere = servers.iter().find(|(name, value)| is_done(name, value));
    match (present, elsewhere) {
        (_, Some((name, _))) => {
            say(&format!("pml is installed already in {client}, as `{name}` in {}", target.file.display()));
        }
        (Some((name, value)), None) if clients::is_pml(name, value).is_none() => {
            let hint = "--name calls pml something else, or remove the other first";
            let message = format!("`{name}` in `{}` is something else than pml", target.file.display());
            return Err(invalid(message).with_hint(hint));
        }
        (present, None) => {
            let entry = match present {
                Some((_, old)) => clients::with_rest(entry.clone(), old),
                None => entry.clone(),
            };
            let edit = Edit::make(&mut document, &target.keys, &args.name, Some(entry), None);
            edits.push(edit.map_err(|mistake| broken(&target.file, &mistake))?);
        }
    }

    let mut plan = None;
    if args.moves {
        let moved = moves(client, args.scope, &target, &places, &project, common)?;
        for (found, place) in leaving(&moved) {
            let edit = Edit::make(&mut document, &found.source.keys, &found.name, None, Some(place.clone()));
            edits.push(edit.map_err(|mistake| broken(&target.file, &mistake))?);
        }
        plan = Some(moved);
    }

    let mut changes = Vec::new();
    if !edits.is_empty() {
        changes.push(Change {
            path: target.file.clone(),
            format: client.format(),
            before,
            after: document.text().to_owned(),
            // A user's file gets tokens sooner or later; a project's is there for everybody.
            mode: if args.scope == Scope::User { 0o600 } else { 0o644 },
            is_private: false,
            edits,
            trusts: false,
        });
    }
    let moved = plan.as_ref().map_or(0, |plan| leaving(plan).count());
    changes.extend(plan.as_mut().map(|plan| std::mem::take(&mut plan.changes)).unwrap_or_default());
    let _ = changes::show(&changes);
    if let Some(plan) = &plan {
        say_plan(client, plan);
    }
    if changes.is_empty() {
        say("nothing is changed");
        return Ok(ExitCode::SUCCESS);
    }
    let consent = Consent::new(args.yes, args.dry_run);
    let outcome = changes::make(&changes, consent, common.data_dir, ("install", client.id()))?;
    if let Outcome::Made(_) = outcome {
        let also = match moved {
            0 => String::new(),
            count => format!(", and {} moved into pml", counted(count, "server", "servers")),
        };
        say(&format!("pml is installed in {client}{also}; restart it to see pml"));
        if let How::Http(_) = how {
            say_token(client, &entry, common.data_dir);
        }
        say(&format!("`pml install --client {} --undo` takes it back", client.id()));
    }
    Ok(outcome.exit_code())
}

/// Says how the client comes to the token, without which pml lets nobody in over HTTP.
fn say_token(client: Client, entry: &Value, data_dir: Option<&Path>) {
    let file = config::token_file(data_dir).unwrap_or_else(|| PathBuf::from("token"));
    let file = file.display();
    if clients::names_token(entry) {
        say("note: the client sends the token of the variable PML_TOKEN, which must be set where it is started:");
        say(&format!("  export PML_TOKEN=\"$(cat '{file}')\""));
    } else {
        say(&format!("note: {client} has no variables, so add the token to the entry by hand (it is in {file}):"));
        say(r#"  "headers": { "Authorization": "Bearer TOKEN" }"#);
    }
    say("`pml serve --http` makes that file when it is first started, on the machine where it runs");
}

/// The servers of the file that pml is installed in, each for where it counted: those of the project go into the project's
/// file. Those of other files belong to others too; they stay, and are named.
fn moves(
    client: Client,
    scope: Scope,
    target: &Source,
    places: &Places,
    project: &Path,
    common: Common<'_>,
) -> Result<Plan, Error> {
    let (own, others): (Vec<_>, Vec<_>) =
        client.sources(places, project).into_iter().partition(|source| source.file == target.file);
    // In a project's file, `projects` is no place for servers.
    let own: Vec<_> = own.into_iter().filter(|source| scope == Scope::User || source.keys == target.keys).collect();
    let stay = import::find(client, &others, Shadowed::Found).unwrap_or_default();
    let other_scope = match scope {
        Scope::User => "project",
        Scope::Project => "user",
    };
    let moves_them = format!("--scope {other_scope} --move moves it");
    stay.iter().for_each(|found| say_stays(&found.name, &found.entry, &found.source.file, &moves_them));
    if scope == Scope::User {
        say_other_projects(client, target, project);
    }
    // A file that is named is the configuration alone, so everything goes there.
    let is_named = config::is_file_named(common.config);
    let file = project.join(config::NAME);
    let own_file = config::own_file(common.config)?;
    // In the home folder of a user that has their file there, both are one.
    let is_one =
        std::fs::canonicalize(&file).ok().is_some_and(|file| std::fs::canonicalize(&own_file).ok() == Some(file));
    let targets = Targets { own: own_file, project: Some(file).filter(|_| !is_named && !is_one) };
    import::plan(client, import::find(client, &own, Shadowed::Found)?, &targets, common)
}

fn say_stays(name: &str, entry: &Value, file: &Path, how: &str) {
    if clients::is_pml(name, entry).is_none() {
        say(&format!("stays `{}`, in {}: {how}", name.escape_debug(), file.display()));
    }
}

/// Names the servers that Claude Code has for other folders, in the same file.
fn say_other_projects(client: Client, target: &Source, project: &Path) {
    let text = clients::read(&target.file).ok().flatten().filter(|_| client == Client::Claude);
    let document = text.and_then(|text| Document::parse(client.format(), &text).ok());
    let projects = document.and_then(|document| document.value(&["projects".to_owned()]));
    for (folder, value) in projects.as_ref().and_then(Value::as_object).into_iter().flatten() {
        if Path::new(folder) != project {
            let servers = value.get("mcpServers").and_then(Value::as_object).into_iter().flatten();
            let how = format!("it is of the folder {folder}; --move there moves it");
            servers.for_each(|(name, entry)| say_stays(name, entry, &target.file, &how));
        }
    }
}

/// What the client no longer needs, and where pml has it: what pml gets, and what it has already.
fn leaving(plan: &Plan) -> impl Iterator<Item = (&ClientServer, &Place)> {
    let imported = plan.imported.iter().map(|imported| (&imported.found, &imported.place));
    let had = plan.skipped.iter().filter_map(|skipped| Some((&skipped.found, skipped.place.as_ref()?)));
    imported.chain(had)
}

/// What starts this pml.
fn command(client: Client, places: &Places) -> Result<String, Error> {
    let own = std::env::current_exe().and_then(std::fs::canonicalize);
    let own = own.map_err(|err| invalid(format!("nobody knows where this pml is: {err}")).caused_by(err))?;
    let named = places.program("pml").and_then(|path| std::fs::canonicalize(path).ok());
    // Claude Desktop is not started from a shell, and has not its PATH.
    if client != Client::ClaudeDesktop && named.is_some_and(|named| named == own) {
        return Ok("pml".to_owned());
    }
    let text = own.to_str().map(str::to_owned);
    text.ok_or_else(|| invalid(format!("the path of this pml is not UTF-8: `{}`", own.display())))
}

fn serve_args(common: Common<'_>, client_files: &[PathBuf]) -> Vec<String> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut args = vec!["serve".to_owned()];
    let named = [("--config", common.config), ("--data-dir", common.data_dir)];
    let named = named.into_iter().filter_map(|(option, path)| Some((option, path?)));
    for (option, path) in named.chain(client_files.iter().map(|path| ("--mcp-config", path.as_path()))) {
        args.extend([option.to_owned(), absolute(path).to_string_lossy().into_owned()]);
    }
    args
}
