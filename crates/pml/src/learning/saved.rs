//! What was learned, on disk: one file, written whole, for its owner alone.
//!
//! A hash of the rest, what it is of, the learned types, and the model, which checks itself. A file that cannot be read, is
//! damaged or is of another version is no error: everything in it can be learned again.

use std::{
    io,
    path::{Path, PathBuf},
};

use pml_learn::{Model, Settings};
use serde::{Deserialize, Serialize};

use super::orders::FOLDER;
use crate::{
    digest::sha256,
    files::{self, Kind, Sync},
    trace::Shapes,
};

const FILE: &str = "model.bin";
/// No model gets there.
const MAX_BYTES: u64 = 256 << 20;
/// Rises with every change of the file or of what shapes mean.
const VERSION: u32 = 1;

/// What is saved beside the model.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: u32,
    epoch: u64,
    /// Up to which place of the store traces were learned.
    cursor: String,
    shapes: Shapes,
}

/// What was learned up to a place of the store.
#[derive(Debug)]
pub(super) struct Saved {
    pub(super) epoch: u64,
    pub(super) cursor: String,
    pub(super) model: Model,
    pub(super) shapes: Shapes,
}

impl Saved {
    /// Reads what was saved last. `None` if there is nothing that can be used.
    pub(super) fn read(data_dir: &Path, settings: &Settings) -> Option<Saved> {
        let path = path(data_dir);
        let bytes = files::read(&path, Kind::Private, MAX_BYTES);
        let bytes = bytes.map_err(|problem| problem.into_io(&path));
        let read = bytes.map_err(|err| err.to_string()).and_then(|bytes| match bytes {
            None => Ok(None),
            Some(bytes) => parse(&bytes, settings).map(Some),
        });
        read.unwrap_or_else(|why| {
            tracing::info!(why, "what was learned is learned again from the stored traces");
            None
        })
    }

    pub(super) fn write(
        data_dir: &Path,
        (epoch, cursor): (u64, String),
        model: &Model,
        shapes: &Shapes,
    ) -> io::Result<()> {
        let head = Head { version: VERSION, epoch, cursor, shapes: shapes.clone() };
        let mut rest = serde_json::to_vec(&head)?;
        rest.push(b'\n');
        rest.extend_from_slice(&model.to_bytes());
        let mut bytes = sha256(&rest).into_bytes();
        bytes.push(b'\n');
        bytes.extend_from_slice(&rest);
        files::write(&path(data_dir), &bytes, Sync::Now)
    }
}

fn parse(bytes: &[u8], settings: &Settings) -> Result<Saved, String> {
    let damaged = || "the file is damaged".to_owned();
    let line = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n').ok_or_else(damaged);
    let (hash, rest) = bytes.split_at(line(bytes)?);
    let rest = &rest[1..];
    if sha256(rest).as_bytes() != hash {
        return Err(damaged());
    }
    let (head, model) = rest.split_at(line(rest)?);
    let head: Head = serde_json::from_slice(head).map_err(|err| err.to_string())?;
    if head.version != VERSION {
        return Err(format!("the file has version {}", head.version));
    }
    let model = Model::from_bytes(&model[1..], settings.clone()).map_err(|err| err.to_string())?;
    Ok(Saved { epoch: head.epoch, cursor: head.cursor, model, shapes: head.shapes.bounded() })
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FOLDER).join(FILE)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_saved_is_read_and_what_is_damaged_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::default();
        assert!(Saved::read(folder.path(), &settings).is_none());
        let mut shapes = Shapes::default();
        shapes.add("a:b", "hash", r#"{"id": 1}"#);
        Saved::write(folder.path(), (3, "1-2".to_owned()), &Model::new(settings.clone()), &shapes).unwrap();
        let saved = Saved::read(folder.path(), &settings).unwrap();
        assert_eq!((saved.epoch, saved.cursor.as_str(), &saved.shapes), (3, "1-2", &shapes));
        let file = path(folder.path());
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let bytes = std::fs::read(&file).unwrap();
        for place in (0..bytes.len()).step_by(bytes.len() / 100) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x20;
            std::fs::write(&file, &damaged).unwrap();
            assert!(Saved::read(folder.path(), &settings).is_none(), "{place}");
            std::fs::write(&file, &bytes[..place]).unwrap();
            assert!(Saved::read(folder.path(), &settings).is_none(), "{place}");
        }
    }
}
