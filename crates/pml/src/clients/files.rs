//! Reads files of other programs, and writes them whole or not at all.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
};

use pml_wire::ErrorCode;

use crate::error::Error;

/// No configuration is that long.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The text of a file; `None` if there is none.
pub fn read(path: &Path) -> Result<Option<String>, Error> {
    let shown = path.display();
    let unreadable = |why: String| Error::new(ErrorCode::ConfigInvalid, format!("`{shown}` cannot be read: {why}"));
    let file = match fs::metadata(path) {
        // Before it is opened: that alone may wait for ever at a pipe.
        Ok(data) if !data.is_file() => return Err(unreadable("it is no file".to_owned())),
        _ => fs::File::open(path),
    };
    let file = match file {
        Ok(file) => file,
        // A file where a folder should be: the file that is meant is not there either.
        Err(err) if matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(err) => return Err(unreadable(err.to_string()).caused_by(err)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|err| unreadable(err.to_string()).caused_by(err))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unreadable(format!("it is larger than {} MiB", MAX_BYTES / 1024 / 1024)));
    }
    String::from_utf8(bytes).map(Some).map_err(|err| {
        let valid = String::from_utf8_lossy(&err.as_bytes()[..err.utf8_error().valid_up_to()]).into_owned();
        unreadable(super::Mistake::at(&valid, valid.len(), "this is not UTF-8").to_string())
    })
}

/// Writes a file whole or not at all, through a link to what it points at, with the mode and owner
/// that it has. A new one gets `mode`, and the folders around it that are missing; those are returned.
///
/// `is_private` takes the file away from others, whatever its mode was.
pub fn write(path: &Path, text: &str, mode: u32, is_private: bool) -> Result<Vec<PathBuf>, Error> {
    let unwritable = |err: io::Error| {
        let message = format!("`{}` cannot be written: {err}", path.display());
        Error::new(ErrorCode::ConfigInvalid, message).caused_by(err)
    };
    let real = real_path(path).map_err(unwritable)?;
    let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let missing = folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    // Others may look into it, but not put anything there, whatever the umask.
    fs::DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(unwritable)?;
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let partial = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let written = replace(&real, &partial, text, mode, is_private);
    if written.is_err() {
        let _ = fs::remove_file(&partial);
        for folder in &missing {
            let _ = fs::remove_dir(folder);
        }
    }
    written.map_err(unwritable)?;
    // The rename itself must be on the disk too; where folders cannot be opened, nobody can do it.
    if let Ok(folder) = fs::File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(missing)
}

fn replace(real: &Path, partial: &Path, text: &str, mode: u32, is_private: bool) -> io::Result<()> {
    // There may be a token in it, so nobody else may read it before it has its mode.
    let mut file = fs::File::options().create_new(true).write(true).mode(0o600).open(partial)?;
    file.write_all(text.as_bytes())?;
    let mode = match fs::metadata(real) {
        Ok(data) => {
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (data.uid(), data.gid()) {
                fchown(&file, Some(data.uid()), Some(data.gid()))?;
            }
            data.permissions().mode() & 0o7777
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound => mode,
        Err(err) => return Err(err),
    };
    let mode = if is_private { mode & 0o700 } else { mode };
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()?;
    fs::rename(partial, real)
}

/// Where a path leads, also if there is nothing yet.
pub(super) fn real_path(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Ok(real) => Ok(real),
        Err(err) if err.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
            Ok(target) => Ok(path.parent().unwrap_or(Path::new("")).join(target)),
            Err(_) => Ok(path.to_owned()),
        },
        Err(err) => Err(err),
    }
}
