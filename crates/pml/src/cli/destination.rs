//! A file of pml's that gets servers of a client.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use pml_wire::ErrorCode;

use super::import::Common;
use crate::{
    clients::{self, Change, Document, Edit, Format, Place},
    config::{self, File, ServerFile, Store},
    error::Error,
};

/// The key of pml's servers.
const SERVERS: &str = "servers";

/// A file, and what it is to become.
#[derive(Debug)]
pub(super) struct Destination {
    path: PathBuf,
    is_project: bool,
    before: Option<String>,
    document: Document,
    /// What it has, and what was added.
    pub(super) servers: BTreeMap<String, ServerFile>,
    edits: Vec<Edit>,
    /// Why nothing may be added.
    pub(super) refusal: Option<String>,
}

impl Destination {
    /// Reads a file; `project` if it is that of a project, which must be trusted or new.
    pub(super) fn open(path: &Path, project: Option<&Path>, common: Common<'_>) -> Result<Destination, Error> {
        let before = clients::read(path)?;
        let text = before.clone().unwrap_or_default();
        let wrong =
            |message: String| Error::new(ErrorCode::ConfigInvalid, format!("in `{}`: {message}", path.display()));
        let servers = File::parse(&text).map_err(wrong)?.servers;
        let document = Document::parse(Format::Toml, &text).map_err(|mistake| wrong(mistake.to_string()))?;
        let refusal = match (project, &before) {
            (Some(_), Some(text)) if !is_trusted(path, text, common) => {
                Some(format!("`{}` is not trusted (`pml trust` asks whether you trust it)", path.display()))
            }
            _ => None,
        };
        let path = path.to_owned();
        Ok(Destination { path, is_project: project.is_some(), before, document, servers, edits: Vec::new(), refusal })
    }

    /// Where the same server is, whatever it is called.
    pub(super) fn same(&self, server: &ServerFile) -> Option<Place> {
        let (name, _) = self.servers.iter().find(|(_, other)| other.is_same(server))?;
        Some(self.place(name))
    }

    fn place(&self, name: &str) -> Place {
        Place::new(&self.path, Format::Toml, &[SERVERS.to_owned()], name)
    }

    /// Adds a server that is `origin` in a client's file. The inner error is why it cannot be one of pml's.
    pub(super) fn add(
        &mut self,
        name: &str,
        server: ServerFile,
        origin: Place,
    ) -> Result<Result<Place, String>, Error> {
        let entry = clients::entry(&server);
        let wrong = |mistake: clients::Mistake| {
            Error::new(ErrorCode::ConfigInvalid, format!("in `{}`: {mistake}", self.path.display()))
        };
        let keys = [SERVERS.to_owned()];
        let mut alone = Document::parse(Format::Toml, "").map_err(wrong)?;
        alone.set(&keys, name, &entry).map_err(wrong)?;
        if let Err(why) = config::check_text(alone.text()) {
            return Ok(Err(why));
        }
        let edit = Edit::make(&mut self.document, &keys, name, Some(entry), Some(origin)).map_err(wrong)?;
        self.edits.push(edit);
        self.servers.insert(name.to_owned(), server);
        Ok(Ok(self.place(name)))
    }

    /// What becomes of the file, and whether it holds secrets then; `None` if nothing was added.
    pub(super) fn change(self) -> Result<Option<(Change, bool)>, Error> {
        if self.edits.is_empty() {
            return Ok(None);
        }
        let after = self.document.text().to_owned();
        config::check_text(&after).map_err(|message| {
            Error::new(ErrorCode::ConfigInvalid, format!("in `{}`: {message}", self.path.display()))
        })?;
        let holds_secrets = clients::holds_secrets(Format::Toml, &after);
        let change = Change {
            path: self.path,
            format: Format::Toml,
            before: self.before,
            after,
            // A project's is there for everybody who has the folder.
            mode: if self.is_project { 0o644 } else { 0o600 },
            is_private: holds_secrets,
            edits: self.edits,
            trusts: self.is_project,
        };
        Ok(Some((change, holds_secrets)))
    }
}

fn is_trusted(path: &Path, text: &str, common: Common<'_>) -> bool {
    let store = config::data_folder(common.data_dir).map(|folder| Store::new(&folder));
    let record = store.zip(config::place(path)).and_then(|(store, place)| store.find(&place).ok().flatten());
    record.is_some_and(|record| record.covers(text))
}
