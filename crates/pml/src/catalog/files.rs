//! Files, read only if they are files, and those of pml's own written whole or not at all.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::OFlags;

use super::tool::hash;

/// The name of a file about a server, and of whatever else tells it from others. A server's name may hold anything; the
/// digest makes the file's own.
pub(super) fn name(server: &str, identity: &str, extension: &str) -> String {
    let readable: String = server.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(40).collect();
    let digest = hash(&format!("{server}\0{identity}"));
    format!("{readable}-{}.{extension}", &digest[..16])
}

/// What is in a file of at most `limit` bytes. What is no file, such as a pipe, is not waited for.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
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

/// Puts a file in place, and its folder if there is none.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let partial = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut out = fs::File::options().create(true).write(true).truncate(true).mode(0o600).open(&partial)?;
    let written = out.write_all(bytes).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}
