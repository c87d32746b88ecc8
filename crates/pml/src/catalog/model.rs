//! What gives tools their meaning: what is compiled in, or a stronger model from a directory of the user's.

use std::{path::Path, sync::Arc};

use pml_search::{Both, Embedder};
use pml_wire::ErrorCode;

use crate::error::Error;

/// The table and the small encoder that are compiled in. The encoder is unpacked when it is first asked.
pub fn built_in_model() -> Arc<dyn Embedder> {
    Arc::new(Both::built_in())
}

/// Loads the model in `folder` beside the table, which takes about a second. The error says which file is missing or wrong, and what to do.
#[cfg(feature = "minilm")]
pub fn load_model(folder: &Path) -> Result<Arc<dyn Embedder>, Error> {
    let part = |name: &str, limit: u64| {
        read(&folder.join(name), limit)
            .map_err(|err| unusable(folder, &format!("`{name}` cannot be read: {err}")).caused_by(err))
    };
    let config = part("config.json", 1 << 20)?;
    let tokenizer = part("tokenizer.json", 64 << 20)?;
    let weights = part("model.safetensors", 1 << 30)?;
    let model = pml_search::minilm::MiniLm::from_bytes(&config, &tokenizer, &weights)
        .map_err(|err| unusable(folder, &err.to_string()))?;
    Ok(Arc::new(Both::beside_table(Arc::new(model))))
}

/// What is in a file of at most `limit` bytes. What is no file, such as a pipe, is not waited for.
#[cfg(feature = "minilm")]
fn read(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    use std::{fs, io, io::Read as _, os::unix::fs::OpenOptionsExt as _};

    use rustix::fs::OFlags;

    let file = fs::File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if data.len() > limit {
        return Err(io::Error::other(format!("it has more than {limit} bytes")));
    }
    let mut bytes = Vec::with_capacity(data.len() as usize);
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
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
