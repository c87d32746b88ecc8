//! The commands, and what they have in common.

use std::{path::Path, process::ExitCode, sync::Arc};

use pml_wire::ErrorCode;
use tokio_util::sync::CancellationToken;

use super::{
    super::{USAGE, changes::say, fail, provide_own, with_services},
    files, listing, proposals, running, saving,
};
use crate::{
    capability::{self, Capability, CapabilityName, Removed, Saver, Synced, refused},
    catalog::nearest,
    config::Config,
    error::Error,
    hub::store::{Expected, Renamed, Visibility},
    sandbox::{Mode, Pool},
    serve::Services,
};

/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 4 << 20;

#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum What {
    /// Keep the program of an execution that succeeded, under a name
    Save(saving::SaveArgs),
    /// List capabilities, with how their runs went
    List(listing::ListArgs),
    /// Show one: its code, parameters, tools and versions
    Show(listing::ShowArgs),
    /// Change the code, the description or who may see it; new code is a new version
    Edit(saving::EditArgs),
    /// Run one
    Run(running::RunArgs),
    /// Run one with the arguments that it was saved with, and check what it returns
    Test(running::TestArgs),
    /// Give one another name; the old name leads to it until another has it
    Rename {
        /// Its name, namespace.action
        name: String,
        /// Its new name
        new_name: CapabilityName,
    },
    /// Delete one, with all of its versions
    Remove {
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Say that one should not be used any more
    Deprecate {
        name: String,
        /// Why, and what to use instead
        #[arg(long, value_name = "TEXT", default_value = "it should not be used any more")]
        reason: String,
        /// It may be used again
        #[arg(long)]
        undo: bool,
    },
    /// Make one the newest version of another that does the same, and delete the first
    Merge {
        /// The capability that goes
        name: String,
        /// The capability that stays
        into: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Write capabilities to a file that can be read and reviewed
    Export(files::ExportArgs),
    /// Add the capabilities of a file, after showing them
    Import(files::ImportArgs),
    /// Make the capabilities here and at the hub alike, once: send what is not private, take what is new there
    Sync {
        /// Also take back what was removed here and is still at the hub
        #[arg(long)]
        restore: bool,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show what was done several times with success and could be kept
    Proposals(proposals::Args),
}

/// What all commands work with.
pub(super) struct Desk {
    pub(super) config: Config,
    pub(super) pool: Pool,
    pub(super) services: Arc<Services>,
    pub(super) saver: Saver,
    pub(super) interrupt: CancellationToken,
}

/// Why a command ends: exit code 1 of what failed, 2 of what was asked wrongly.
pub(super) type Outcome = Result<ExitCode, Error>;

pub(in crate::cli) async fn run(what: What, config: Config) -> ExitCode {
    let desk_config = config.clone();
    let done = with_services(&config, Mode::Subprocess, async move |pool, services, interrupt| {
        let Some(saver) = services.provide_capabilities(&pool, &desk_config.traces.rules) else {
            let message = "capabilities are kept beside traces, and traces are not kept";
            let hint = "set `traces.enabled = true`, and a data folder";
            return Err(Error::new(ErrorCode::ConfigInvalid, message).with_hint(hint));
        };
        provide_own(&services, &pool);
        saver.registry.reload().await?;
        let desk = Desk { config: desk_config, pool, services, saver, interrupt };
        desk.dispatch(what).await
    });
    match Box::pin(done).await {
        Ok(Ok(code)) => code,
        Ok(Err(err)) | Err(err) => {
            let is_usage =
                matches!(err.code, ErrorCode::ConfigInvalid | ErrorCode::CapabilityNotFound | ErrorCode::TraceNotFound);
            fail(&err, if is_usage { USAGE } else { 1 })
        }
    }
}

impl Desk {
    async fn dispatch(&self, what: What) -> Outcome {
        match what {
            What::Save(args) => self.save(args).await,
            What::List(args) => self.list(&args),
            What::Show(args) => self.show(&args).await,
            What::Edit(args) => self.edit(args).await,
            What::Run(args) => self.run(args).await,
            What::Test(args) => self.test(args).await,
            What::Rename { name, new_name } => self.rename(&name, &new_name).await,
            What::Remove { name, yes } => self.remove(&name, yes).await,
            What::Deprecate { name, reason, undo } => self.deprecate(&name, (!undo).then_some(reason)).await,
            What::Merge { name, into, yes } => self.merge(&name, &into, yes).await,
            What::Export(args) => self.export(&args),
            What::Import(args) => self.import(&args).await,
            What::Sync { restore, json } => self.sync(restore, json).await,
            What::Proposals(args) => self.proposals(&args).await,
        }
    }

    /// The capability of that name.
    pub(super) fn find(&self, name: &str) -> Result<Arc<Capability>, Error> {
        let found = self.saver.registry.named(name);
        if let Some(found) = &found
            && found.former.iter().any(|former| former.to_string() == name)
        {
            say(&format!("warning: `{name}` is now called `{}`", found.name));
        }
        found.ok_or_else(|| {
            let all: Vec<_> = self.saver.registry.all().iter().map(|known| known.name.to_string()).collect();
            let near = nearest(name, all.iter().map(String::as_str));
            let hint = match near.first() {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`pml capability list` shows all that there are".to_owned(),
            };
            let shown: String = name.chars().take(100).collect();
            Error::new(ErrorCode::CapabilityNotFound, format!("there is no capability `{shown}`")).with_hint(hint)
        })
    }

    async fn sync(&self, restore: bool, json: bool) -> Outcome {
        let Some(hub) = self.services.hub() else {
            let message = "no hub is configured";
            return Err(
                Error::new(ErrorCode::ConfigInvalid, message).with_hint("set `hub.url` and `hub.key` in pml.toml")
            );
        };
        let removed = if restore { Removed::ComeBack } else { Removed::StayRemoved };
        let synced = capability::sync(&self.saver.registry, hub, removed).await?;
        let Synced { sent, received, removed_here, removed_there, settled, conflicts, is_unchanged_there } = &synced;
        if json {
            let told = serde_json::json!({
                "sent": sent, "received": received, "removed_here": removed_here, "removed_there": removed_there,
                "settled": settled, "conflicts": conflicts, "unchanged_there": is_unchanged_there,
            });
            let _ = super::super::print::json(&told);
        } else {
            let done = [
                (sent, "sent"),
                (received, "received"),
                (removed_here, "removed here"),
                (removed_there, "removed at the hub"),
            ];
            for (names, what) in done {
                names.iter().for_each(|name| say(&format!("{what}: `{name}`")));
            }
            settled.iter().for_each(|(name, how)| say(&format!("warning: `{name}`: {how}")));
            conflicts.iter().for_each(|(name, why)| say(&format!("warning: `{name}` is left alone: {why}")));
            if done.iter().all(|(names, _)| names.is_empty()) && settled.is_empty() && conflicts.is_empty() {
                say("nothing to do: the capabilities here and at the hub are the same");
            }
        }
        Ok(if conflicts.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn rename(&self, name: &str, new_name: &CapabilityName) -> Outcome {
        let capability = self.find(name)?;
        self.saver.check_name(new_name)?;
        match self.saver.registry.rename(capability.id, new_name).await? {
            Renamed::Renamed(_) => {
                say(&format!("`{}` is now called `{new_name}`; the old name still leads to it", capability.name));
                Ok(ExitCode::SUCCESS)
            }
            Renamed::Taken => Err(refused(format!("another capability is called `{new_name}`"))),
            Renamed::Unknown | Renamed::Changed => Err(refused(format!("`{name}` is gone"))),
        }
    }

    async fn remove(&self, name: &str, yes: bool) -> Outcome {
        let capability = self.find(name)?;
        let question = match capability.version {
            1 => format!("Delete `{}`?", capability.name),
            _ => format!("Delete `{}` with all of its versions?", capability.name),
        };
        if let Some(code) = asked(yes, &question) {
            return Ok(code);
        }
        self.saver.registry.delete(capability.id, Expected::Anything).await?;
        say(&format!("`{}` is deleted", capability.name));
        if self.services.hub().is_some() && capability.visibility != Visibility::Private {
            say("at the hub it is deleted with the next sync, if the key of this gateway has put it there");
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn deprecate(&self, name: &str, reason: Option<String>) -> Outcome {
        let mut capability = (*self.find(name)?).clone();
        let text = match &reason {
            Some(_) => format!("`{}` is deprecated", capability.name),
            None => format!("`{}` is not deprecated any more", capability.name),
        };
        capability.notes.deprecated = reason;
        self.saver.registry.change(&capability, None, None).await?;
        say(&text);
        Ok(ExitCode::SUCCESS)
    }

    async fn merge(&self, name: &str, into: &str, yes: bool) -> Outcome {
        let (from, into) = (self.find(name)?, self.find(into)?);
        if from.id == into.id {
            return Err(refused("a capability cannot be merged into itself"));
        }
        let question =
            format!("Make the code of `{}` the newest version of `{}`, and delete the first?", from.name, into.name);
        if let Some(code) = asked(yes, &question) {
            return Ok(code);
        }
        let mut file = crate::capability::CapabilityFile::of(&from);
        file.name = into.name.to_string();
        file.intents = from.notes.intents.iter().chain(&into.notes.intents).cloned().collect();
        let (name, mut new) = file.to_new()?;
        self.saver.check_new(&name, &new)?;
        new.author = Some(from.author.clone());
        // Who may see it is decided by what stays.
        new.visibility = None;
        self.saver.registry.put(new, Expected::Anything).await?;
        self.saver.registry.delete(from.id, Expected::Anything).await?;
        // The old name leads to what it became: a name that a capability once had stays with it.
        if let Renamed::Renamed(_) = self.saver.registry.rename(into.id, &from.name).await? {
            self.saver.registry.rename(into.id, &into.name).await?;
        }
        say(&format!("`{}` is now the newest version of `{}`; the old name still leads to it", from.name, into.name));
        Ok(ExitCode::SUCCESS)
    }
}

/// Asks at a terminal. How the command ends if the answer is no, or there is nobody to ask.
pub(super) fn asked(yes: bool, question: &str) -> Option<ExitCode> {
    use super::super::changes::{Consent, decide};
    decide(Consent::new(yes, false), question).map(|outcome| outcome.exit_code())
}

/// Reads `private`, `project` or `org`.
pub(super) fn visibility(text: &str) -> Result<Visibility, String> {
    text.parse()
}

/// The text of a file, or of standard input.
pub(super) fn read_text(path: &Path) -> Result<String, Error> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let unreadable = |why: String| Error::new(ErrorCode::ConfigInvalid, format!("`{}` {why}", path.display()));
    // One byte more than is read, so that no part of a file is taken for all of it.
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().lock().take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes),
        false => std::fs::File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|err| unreadable(format!("cannot be read: {err}")))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(format!("has more than {} MB", MAX_FILE_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|err| {
        let at = err.utf8_error().valid_up_to();
        unreadable(format!("is not UTF-8 text: byte {at} is wrong"))
    })
}
