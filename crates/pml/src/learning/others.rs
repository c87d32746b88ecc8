//! What others have learned: a document that was taken over, kept beside the own model.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use pml_learn::Shared;

use super::{orders::FOLDER, ranking::settings};
use crate::{
    digest::sha256,
    files::{self, Kind, Sync},
    hub::client::HubClient,
};

const FILE: &str = "others.bin";
/// Longest document.
const MAX_BYTES: u64 = 16 << 20;

/// The document of a data folder, read again when it has changed.
#[derive(Debug, Default)]
pub(super) struct Others {
    stamp: Option<(u64, i64, u64)>,
    pub(super) shared: Option<Arc<Shared>>,
}

impl Others {
    /// Reads the document if it is another one; whether it was.
    pub(super) fn refresh(&mut self, data_dir: &Path) -> bool {
        let path = path(data_dir);
        let stamp = fs::metadata(&path).ok().map(|data| (data.ino(), data.mtime_nsec() ^ data.mtime(), data.len()));
        if stamp == self.stamp {
            return false;
        }
        self.stamp = stamp;
        let bytes = files::read(&path, Kind::Private, MAX_BYTES).map_err(|problem| problem.into_io(&path).to_string());
        let read = bytes.and_then(|bytes| match bytes {
            None => Ok(None),
            Some(bytes) => Shared::from_bytes(&bytes, &settings()).map(Some).map_err(|err| err.to_string()),
        });
        self.shared = read
            .unwrap_or_else(|why| {
                tracing::warn!(why, "what others have learned is not used");
                None
            })
            .map(Arc::new);
        true
    }
}

/// Asks a hub for a newer document, and takes it over. A hub that does not answer changes nothing.
pub(super) async fn pull(data_dir: &Path, hub: &HubClient) {
    let path = path(data_dir);
    let known = files::read(&path, Kind::Private, MAX_BYTES).ok().flatten().map(|bytes| sha256(&bytes));
    match hub.model(known.as_deref()).await {
        Ok(None) => {}
        Ok(Some(bytes)) => {
            if let Err(err) = take_over(data_dir, &bytes) {
                tracing::warn!(error = %err, "what the hub has learned is not used");
            }
        }
        Err(err) => tracing::debug!(error = %err, "the hub does not say what it has learned"),
    }
}

/// Takes a document over, in place of an earlier one, if it is one. How many traces it is from.
pub fn take_over(data_dir: &Path, bytes: &[u8]) -> io::Result<f64> {
    let shared = Shared::from_bytes(bytes, &settings())
        .map_err(|err| io::Error::new(io::ErrorKind::InvalidData, err.to_string()))?;
    files::write(&path(data_dir), bytes, Sync::Now)?;
    Ok(shared.evidence())
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FOLDER).join(FILE)
}
