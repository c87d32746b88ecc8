//! `pml token`: tokens for named clients over HTTP.

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use pml_wire::{ErrorCode, trace::Timestamp};
use serde_json::json;

use super::{USAGE, fail, print, print::rough};
use crate::{catalog::nearest, clock::now_millis, config::Config, error::Error, frontend::TokenBook};

#[derive(Debug, clap::Subcommand)]
pub(super) enum What {
    /// Make a token for a client; it is shown once
    Add {
        /// What the client is called in the audit log, in traces, events and metrics
        name: String,

        /// Hold the client to this profile of pml.toml
        #[arg(long, value_name = "NAME")]
        profile: Option<String>,

        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show which clients have a token
    List {
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Take a client's token away; it counts no more from the next request on
    Revoke { name: String },
}

pub(super) fn run(what: &What, config: &Config) -> ExitCode {
    let Some(data_dir) = &config.data_dir else {
        let message = "there is no folder in which tokens could be";
        return fail(&Error::new(ErrorCode::ConfigInvalid, message).with_hint("name one with --data-dir"), USAGE);
    };
    match act(what, config, data_dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => fail(&err, USAGE),
    }
}

fn act(what: &What, config: &Config, data_dir: &Path) -> Result<(), Error> {
    let book = TokenBook::new(data_dir);
    // If nobody reads the answer, there is nobody to tell.
    let _ = match what {
        What::Add { name, profile, json } => {
            if let Some(err) = profile.as_deref().and_then(|profile| unknown_profile(profile, config)) {
                return Err(err);
            }
            let token = book.add(name, profile.as_deref())?;
            match json {
                true => print::json(&json!({ "name": name, "profile": profile, "token": token })),
                false => {
                    let _ = writeln!(io::stderr(), "the token of `{name}`, which nobody can show again:");
                    writeln!(io::stdout(), "{token}")
                }
            }
        }
        What::List { json } => {
            let tokens = book.list()?;
            match json {
                true => {
                    let shown = tokens.iter().map(|token| {
                        json!({ "name": token.name, "profile": token.profile, "created": Timestamp(token.created) })
                    });
                    print::json(&json!({ "tokens": shown.collect::<Vec<_>>() }))
                }
                false if tokens.is_empty() => writeln!(io::stderr(), "no client has a token of its own"),
                false => tokens.iter().try_for_each(|token| {
                    let age = rough(Duration::from_millis(now_millis().saturating_sub(token.created)));
                    let profile = match &token.profile {
                        None => "-".to_owned(),
                        Some(profile) if config.policy.profiles.contains_key(profile) => profile.clone(),
                        Some(profile) => format!("{profile} (not in pml.toml: it allows nothing)"),
                    };
                    writeln!(io::stdout(), "{:<24}  {profile:<24}  made {age} ago", token.name)
                }),
            }
        }
        What::Revoke { name } => {
            book.revoke(name)?;
            writeln!(io::stderr(), "`{name}` has no token any more")
        }
    };
    Ok(())
}

/// Why a profile cannot be used, if it cannot.
pub(super) fn unknown_profile(profile: &str, config: &Config) -> Option<Error> {
    let profiles = &config.policy.profiles;
    if profiles.contains_key(profile) {
        return None;
    }
    let hint = match nearest(profile, profiles.keys().map(String::as_str)).first() {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("write [profiles.{profile}] into your pml.toml first"),
    };
    Some(Error::new(ErrorCode::ConfigInvalid, format!("there is no profile `{profile}`")).with_hint(hint))
}
