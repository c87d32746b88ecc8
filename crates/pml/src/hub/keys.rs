//! Making API keys.

use sha2::{Digest, Sha256};

use super::store::{AddedKey, HubStore, Key, NewKey};
use crate::trace::store::StoreError;

/// How a key begins, so that people and scanners know what they see.
pub const PREFIX: &str = "pmlhub_";
/// Bytes of randomness in a key.
const BYTES: usize = 32;

/// Why there is no new key.
#[derive(Debug, thiserror::Error)]
pub enum NoKey {
    #[error("the project has a key of this name, which is not revoked")]
    Taken,
    #[error("there is no randomness: {0}")]
    Randomness(getrandom::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes a key, stores its hash, and returns the key itself, which nobody can find out again.
pub async fn add(store: &dyn HubStore, key: Key) -> Result<String, NoKey> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(NoKey::Randomness)?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!("{PREFIX}{digits}");
    match store.keys().add(NewKey { key, sha256: hash(&text) }).await? {
        AddedKey::Added => Ok(text),
        AddedKey::Taken => Err(NoKey::Taken),
    }
}

/// What is stored of a key. It has so much randomness that a slow hash would add nothing.
pub(super) fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}
