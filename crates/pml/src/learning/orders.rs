//! What the user wants of learning: a small file that all processes of a data folder look at.
//!
//! Every order that makes what was learned worthless counts the epoch up. A follower that finds another epoch than its own
//! begins again.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::files::{self, Kind, Sync};

/// The folder in the data folder.
pub(super) const FOLDER: &str = "learning";
const FILE: &str = "orders.json";
const MAX_BYTES: u64 = 4096;

/// What all processes are told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Orders {
    /// Counts the times that learning began anew.
    pub epoch: u64,
    /// Nothing is learned or used.
    pub is_off: bool,
    /// Traces that were stored up to this place of the store do not count: what was forgotten stays forgotten.
    pub after: Option<String>,
}

/// An order of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Stop learning, and using what was learned. It is kept.
    Off,
    On,
    /// Forget everything; traces up to this place of the store do not count any more.
    Reset {
        end: String,
    },
    /// Learn anew from all stored traces.
    Rebuild,
}

impl Orders {
    /// Reads the orders. If they cannot be read there are none, and a warning.
    pub fn read(data_dir: &Path) -> Orders {
        let path = path(data_dir);
        let bytes = match files::read(&path, Kind::Private, MAX_BYTES) {
            Ok(None) => return Orders::default(),
            Ok(Some(bytes)) => bytes,
            Err(problem) => {
                tracing::warn!(error = %problem.into_io(&path), "what learning was told is not known");
                return Orders::default();
            }
        };
        serde_json::from_slice(&bytes).unwrap_or_else(|err| {
            tracing::warn!(error = %err, "what learning was told is not known");
            Orders::default()
        })
    }

    /// Gives an order, for all processes.
    pub fn give(data_dir: &Path, order: Order) -> io::Result<Orders> {
        let before = Orders::read(data_dir);
        let after = match order {
            Order::Off => Orders { is_off: true, ..before },
            Order::On => Orders { is_off: false, ..before },
            Order::Reset { end } => Orders { epoch: before.epoch + 1, after: Some(end), ..before },
            Order::Rebuild => Orders { epoch: before.epoch + 1, after: None, ..before },
        };
        files::write(&path(data_dir), &serde_json::to_vec(&after)?, Sync::Now)?;
        Ok(after)
    }
}

/// Was learning ever told or given anything here?
pub fn is_there(data_dir: &Path) -> bool {
    data_dir.join(FOLDER).is_dir()
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FOLDER).join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_given_and_read() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Orders::read(folder.path()), Orders::default());
        let give = |order| Orders::give(folder.path(), order).unwrap();
        assert!(give(Order::Off).is_off);
        let reset = give(Order::Reset { end: "1-2".to_owned() });
        assert_eq!(reset, Orders { epoch: 1, is_off: true, after: Some("1-2".to_owned()) });
        assert_eq!(give(Order::On).epoch, 1);
        assert_eq!(give(Order::Rebuild), Orders { epoch: 2, is_off: false, after: None });
        assert_eq!(Orders::read(folder.path()).epoch, 2);
        std::fs::write(path(folder.path()), "no json").unwrap();
        assert_eq!(Orders::read(folder.path()), Orders::default());
    }
}
