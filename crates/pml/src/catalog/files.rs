//! The files about one server in the data folder.

use std::{io, path::Path};

use crate::{
    digest::sha256,
    files::{self, Kind, Sync},
};

/// The name of a file about a server, and of whatever else tells it from others. A server's name may hold anything; the
/// digest makes the file's own.
pub(super) fn name(server: &str, identity: &str, extension: &str) -> String {
    let readable: String = server.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(40).collect();
    let digest = sha256(format!("{server}\0{identity}"));
    format!("{readable}-{}.{extension}", &digest[..16])
}

/// What is in a file of at most `limit` bytes, if there is one that nobody else could have written.
pub(super) fn read(path: &Path, limit: u64) -> Option<Vec<u8>> {
    match files::read(path, Kind::Private, limit) {
        Ok(bytes) => bytes,
        Err(problem) => {
            tracing::warn!("`{}` {problem}, and is not used", path.display());
            None
        }
    }
}

/// Puts a file in place, and its folder if there is none. It can be made again, so a crash may cost it.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    files::write(path, bytes, Sync::Later)
}
