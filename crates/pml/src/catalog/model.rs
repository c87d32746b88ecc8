//! A stronger model for the search, from a directory of the user's.

use std::{path::Path, sync::Arc};

use pml_search::Embedder;
use pml_wire::ErrorCode;

use crate::error::Error;

/// Loads the model in `folder`, which takes about a second. The error says which file is missing or wrong, and what to do.
#[cfg(feature = "minilm")]
pub fn load_model(folder: &Path) -> Result<Arc<dyn Embedder>, Error> {
    let read = |name: &str, limit: u64| {
        super::files::read(&folder.join(name), limit)
            .map_err(|err| unusable(folder, &format!("`{name}` cannot be read: {err}")).caused_by(err))
    };
    let config = read("config.json", 1 << 20)?;
    let tokenizer = read("tokenizer.json", 64 << 20)?;
    let weights = read("model.safetensors", 1 << 30)?;
    let model = pml_search::minilm::MiniLm::from_bytes(&config, &tokenizer, &weights)
        .map_err(|err| unusable(folder, &err.to_string()))?;
    Ok(Arc::new(model))
}

#[cfg(feature = "minilm")]
fn unusable(folder: &Path, problem: &str) -> Error {
    let message = format!("the model in `{}` cannot be used: {problem}", folder.display());
    let hint = "the directory must have `config.json`, `tokenizer.json` and `model.safetensors` of all-MiniLM-L6-v2; \
        docs/search.md says where to get them";
    Error::new(ErrorCode::ConfigInvalid, message).with_hint(hint)
}

/// There is none in this build.
#[cfg(not(feature = "minilm"))]
pub fn load_model(folder: &Path) -> Result<Arc<dyn Embedder>, Error> {
    let message = format!("the model in `{}` cannot be used: this pml was built without `minilm`", folder.display());
    let hint = "build it with `cargo build --release --features minilm`, or search without the model";
    Err(Error::new(ErrorCode::ConfigInvalid, message).with_hint(hint))
}
