//! What others have learned: a document that was taken over, kept beside the own model; and what this gateway tells its hub.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use pml_learn::{Learned, Shared};
use pml_wire::{ExecutionId, hub::Contribution};

use super::orders::FOLDER;
use crate::{
    digest::sha256,
    files::{self, Kind, Sync},
    hub::{
        client::HubClient,
        document::{Document, MAX_BYTES},
    },
    trace::Shapes,
};

const FILE: &str = "others.bin";
/// Tells this data folder apart from other gateways with the same key.
const GATEWAY: &str = "gateway";
const MAX_GATEWAY_BYTES: u64 = 64;

/// The document of a data folder, read again when it has changed.
#[derive(Debug, Default)]
pub(super) struct Others {
    stamp: Option<(u64, i64, u64)>,
    pub(super) shared: Option<Arc<Shared>>,
    pub(super) shapes: Arc<Shapes>,
    /// The hash of what the hub was told last.
    pub(super) told: Option<String>,
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
        let read = bytes.and_then(|bytes| bytes.map(|bytes| Document::read(&bytes)).transpose());
        let document = read.unwrap_or_else(|why| {
            tracing::warn!(why, "what others have learned is not used");
            None
        });
        let (shared, shapes) = document.map(|Document { shared, shapes }| (Arc::new(shared), Arc::new(shapes))).unzip();
        (self.shared, self.shapes) = (shared, shapes.unwrap_or_default());
        true
    }

    /// The shapes of results and the weights that were learned here, if the hub was not told them.
    pub(super) fn news(&self, data_dir: &Path, learned: &Learned, shapes: &Shapes) -> Option<News> {
        let gateway =
            gateway(data_dir).map_err(|err| tracing::debug!(error = %err, "the hub is not told what was learned"));
        let status = learned.status();
        let weights = status.weights.map(|weights| weights.to_vec());
        let contribution =
            Contribution { gateway: gateway.ok()?, evidence: status.evidence, weights, types: shapes.to_tell() };
        let body = serde_json::to_vec(&contribution).ok()?;
        let hash = sha256(&body);
        (self.told.as_ref() != Some(&hash)).then_some(News { body, hash })
    }
}

/// What a hub is told of what was learned here.
#[derive(Debug)]
pub(super) struct News {
    body: Vec<u8>,
    hash: String,
}

/// Tells a hub the news, and asks it for what it has learned. The hash of what it was told; a hub that does not answer is told
/// the next time.
pub(super) async fn exchange(data_dir: &Path, hub: &HubClient, news: Option<News>) -> Option<String> {
    let mut told = None;
    if let Some(News { body, hash }) = news {
        match hub.contribute(body).await {
            Ok(()) => told = Some(hash),
            Err(err) => tracing::debug!(error = %err, "the hub does not take what was learned"),
        }
    }
    pull(data_dir, hub).await;
    told
}

/// The id of this data folder, which is made when there is none.
fn gateway(data_dir: &Path) -> io::Result<String> {
    let path = data_dir.join(FOLDER).join(GATEWAY);
    let known = files::read(&path, Kind::Private, MAX_GATEWAY_BYTES).map_err(|problem| problem.into_io(&path))?;
    let known = known.and_then(|bytes| String::from_utf8(bytes).ok()?.parse::<ExecutionId>().ok());
    if let Some(known) = known {
        return Ok(known.to_string());
    }
    let new = ExecutionId::mint().to_string();
    files::write(&path, new.as_bytes(), Sync::Now)?;
    Ok(new)
}

/// Asks a hub for a newer document, and takes it over. A hub that does not answer changes nothing.
async fn pull(data_dir: &Path, hub: &HubClient) {
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
    let document = Document::read(bytes).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
    files::write(&path(data_dir), bytes, Sync::Now)?;
    Ok(document.shared.evidence())
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FOLDER).join(FILE)
}
