//! Files that decide what pml does, or that hold its secrets.
//!
//! A configuration starts programs, a trust record lets one in, a token lets a client in. Such a file counts only if
//! nobody but the user and root could have written it: the owner and the mode are those of the open descriptor, so that
//! what is checked is what is read. What pml makes itself is for its owner alone, whatever the umask.
//!
//! **Invariant:** no file of another user, or that another user can change, decides anything.

use std::{
    fs::{self, DirBuilder, File, Metadata, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use pml_wire::ErrorCode;
use rustix::fs::OFlags;

use crate::error::Error;

/// Mode bits that let others write, and those that let them do anything.
const WRITABLE: u32 = 0o022;
const SHARED: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// What a file is to pml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Written by the user: others may read it, and it may be a link.
    Settings,
    /// Written by pml into its data folder: nobody else may read it, and it is no link.
    Private,
}

/// Must the file be on the disk before the call returns?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The file can be made again, so a crash may cost it.
    Later,
    Now,
}

/// Why a file is not used. To be put behind its name.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("is no regular file")]
    Irregular,
    #[error("is a symbolic link")]
    Link,
    #[error("belongs to user {0}, not to you")]
    Owner(u32),
    #[error("can be changed by others (mode {0:04o})")]
    Writable(u32),
    #[error("can be read by others (mode {0:04o})")]
    Readable(u32),
    #[error("is in `{}`, which everybody can change", .0.display())]
    OpenFolder(PathBuf),
    #[error("has more than {0} bytes")]
    Long(u64),
}

impl Problem {
    /// What to do about it.
    pub fn hint(&self, path: &Path) -> Option<String> {
        let path = quoted(path);
        match self {
            Problem::Unreadable(_) | Problem::Long(_) => None,
            Problem::Irregular | Problem::Link => Some("put a regular file of your own in its place".to_owned()),
            Problem::Owner(_) => Some(format!("read it first; if it is meant for you: chown $(id -u) {path}")),
            Problem::Writable(_) => Some(format!("read it first, since others may have changed it: chmod go-w {path}")),
            Problem::Readable(_) => Some(format!("chmod go-rwx {path}")),
            Problem::OpenFolder(folder) => Some(format!("chmod o-w {}", quoted(folder))),
        }
    }

    /// The error about a file, as users see it.
    pub fn of(self, path: &Path) -> Error {
        let error = Error::new(ErrorCode::ConfigInvalid, format!("`{}` {self}", path.display()));
        let error = match self.hint(path) {
            Some(hint) => error.with_hint(hint),
            None => error,
        };
        error.caused_by(self)
    }

    /// The same for callers that have only I/O errors.
    pub fn into_io(self, path: &Path) -> io::Error {
        match self {
            Problem::Unreadable(err) => err,
            problem => io::Error::other(format!("`{}` {problem}", path.display())),
        }
    }
}

/// The bytes of a file that may decide something; `None` if there is none.
pub fn read(path: &Path, kind: Kind, max_bytes: u64) -> Result<Option<Vec<u8>>, Problem> {
    let Some(file) = open(path, kind)? else { return Ok(None) };
    let mut bytes = Vec::with_capacity(file.metadata()?.len().min(max_bytes) as usize);
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > max_bytes {
        true => Err(Problem::Long(max_bytes)),
        false => Ok(Some(bytes)),
    }
}

/// Is there a file that would be used?
pub fn is_usable(path: &Path, kind: Kind) -> Result<bool, Problem> {
    open(path, kind).map(|file| file.is_some())
}

/// The same without opening the file, so that locks which this process holds on it stay: closing any descriptor of a file
/// gives back all locks of the process on it (POSIX), among them those of a database library.
pub fn look(path: &Path, kind: Kind) -> Result<bool, Problem> {
    let data = match (kind, fs::symlink_metadata(path)) {
        (Kind::Private, Ok(data)) if data.is_symlink() => return Err(Problem::Link),
        (Kind::Private, Ok(data)) => data,
        (Kind::Settings, Ok(_)) => fs::metadata(path)?,
        (_, Err(err)) if matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(false);
        }
        (_, Err(err)) => return Err(err.into()),
    };
    check(&data, kind)?;
    Ok(true)
}

/// Opens a file that may decide something; `None` if there is none.
pub fn open(path: &Path, kind: Kind) -> Result<Option<File>, Problem> {
    // Opening a pipe must not wait for its writer.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | link_flag(kind);
    let file = match File::options().read(true).custom_flags(flags.bits() as i32).open(path) {
        Ok(file) => file,
        Err(err) if matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(err) if is_link(kind, &err) => return Err(Problem::Link),
        Err(err) => return Err(err.into()),
    };
    check(&file.metadata()?, kind)?;
    if kind == Kind::Settings {
        check_surroundings(path)?;
    }
    Ok(Some(file))
}

/// Opens a private file to append to, or to lock; makes it if there is none. One of the user's own that others can
/// read is taken away from them.
pub fn append(path: &Path) -> io::Result<File> {
    open_own(path, File::options().read(true).create(true).append(true))
}

/// The same to write to any place of.
pub fn update(path: &Path) -> io::Result<File> {
    open_own(path, File::options().read(true).create(true).truncate(false).write(true))
}

fn open_own(path: &Path, options: &mut fs::OpenOptions) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let opened = options.mode(0o600).custom_flags(flags.bits() as i32).open(path);
    let file = opened.map_err(|err| match is_link(Kind::Private, &err) {
        true => Problem::Link.into_io(path),
        false => err,
    })?;
    let data = file.metadata()?;
    let is_own = data.uid() == own_id();
    match check(&data, Kind::Private) {
        Ok(()) | Err(Problem::Readable(_) | Problem::Writable(_)) if is_own && data.mode() & 0o7777 != 0o600 => {
            file.set_permissions(Permissions::from_mode(0o600))?;
            let mode = data.mode() & 0o7777;
            // Otherwise it was just made, under a umask that takes from the owner as well.
            if mode & SHARED != 0 {
                tracing::warn!("`{}` had mode {mode:04o}; now only you can read and write it", path.display());
            }
        }
        Ok(()) => {}
        Err(problem) => return Err(problem.into_io(path)),
    }
    Ok(file)
}

/// Puts a private file in place, whole or not at all, and its folder if there is none.
pub fn write(path: &Path, bytes: &[u8], sync: Sync) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{}.tmp", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    let partial = path.with_file_name(name);
    // What an earlier process of this number left behind.
    let _ = fs::remove_file(&partial);
    let written = create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        if sync == Sync::Now {
            file.sync_all()?;
        }
        fs::rename(&partial, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Makes a private file that was not there.
pub fn create(path: &Path) -> io::Result<File> {
    let file = File::options().create_new(true).write(true).mode(0o600).open(path)?;
    // A umask may take from the owner as well.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Makes a folder for its owner alone, and those around it that are missing.
pub fn make_folder(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_folder(parent)?;
    }
    match create_folder(path) {
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// Makes a folder for its owner alone that was not there.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    // A umask may take from the owner as well.
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Checks a data folder, if it is there. One of the user's own that others can change is taken away from them.
pub fn secure_folder(path: &Path) -> Result<(), Problem> {
    let Ok(data) = fs::metadata(path) else { return Ok(()) };
    let mode = data.mode() & 0o7777;
    match (is_owned(&data), mode & WRITABLE) {
        (false, _) => Err(Problem::Owner(data.uid())),
        (true, 0) => Ok(()),
        // Such as /tmp: others need it as it is.
        (true, _) if data.uid() != own_id() || mode & STICKY != 0 => Err(Problem::Writable(mode)),
        (true, _) => {
            fs::set_permissions(path, Permissions::from_mode(mode & !WRITABLE))?;
            tracing::warn!("`{}` had mode {mode:04o}; now only you can change what is in it", path.display());
            Ok(())
        }
    }
}

fn check(data: &Metadata, kind: Kind) -> Result<(), Problem> {
    let mode = data.mode() & 0o7777;
    match () {
        () if !data.is_file() => Err(Problem::Irregular),
        () if !is_owned(data) => Err(Problem::Owner(data.uid())),
        () if mode & WRITABLE != 0 => Err(Problem::Writable(mode)),
        () if kind == Kind::Private && mode & SHARED != 0 => Err(Problem::Readable(mode)),
        () => Ok(()),
    }
}

/// Others must not be able to put another file in the place of this one. In a folder such as /tmp they cannot.
fn check_surroundings(path: &Path) -> Result<(), Problem> {
    let real = fs::canonicalize(path)?;
    let Some(folder) = real.parent() else { return Ok(()) };
    let mode = fs::metadata(folder)?.mode();
    match mode & 0o002 != 0 && mode & STICKY == 0 {
        true => Err(Problem::OpenFolder(folder.to_owned())),
        false => Ok(()),
    }
}

/// Does it belong to the user, or to root, who can do everything anyway?
fn is_owned(data: &Metadata) -> bool {
    data.uid() == own_id() || data.uid() == 0
}

/// A path for a command line: whoever copies a hint into a shell must not execute a folder's name.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@:,".contains(c);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn own_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn link_flag(kind: Kind) -> OFlags {
    if kind == Kind::Private { OFlags::NOFOLLOW } else { OFlags::empty() }
}

/// What the system says to `O_NOFOLLOW` where there is a link.
fn is_link(kind: Kind, err: &io::Error) -> bool {
    kind == Kind::Private && err.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_file_counts_only_if_nobody_else_can_change_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        #[rustfmt::skip]
        let table = [
            // mode   settings                      private
            (0o600, Ok(()),                       Ok(())),
            (0o400, Ok(()),                       Ok(())),
            (0o644, Ok(()),                       Err("can be read by others (mode 0644)")),
            (0o604, Ok(()),                       Err("can be read by others (mode 0604)")),
            (0o664, Err("can be changed by others (mode 0664)"), Err("can be changed by others (mode 0664)")),
            (0o602, Err("can be changed by others (mode 0602)"), Err("can be changed by others (mode 0602)")),
        ];
        for (mode, settings, private) in table {
            set_mode(&path, mode);
            for (kind, expected) in [(Kind::Settings, settings), (Kind::Private, private)] {
                let actual = read(&path, kind, 100).map(|bytes| assert_eq!(bytes.unwrap(), b"text"));
                let actual = actual.map_err(|problem| problem.to_string());
                assert_eq!(actual, expected.map_err(str::to_owned), "{mode:o} {kind:?}");
                let looked = look(&path, kind).map(|is_there| assert!(is_there)).map_err(|problem| problem.to_string());
                assert_eq!(looked, actual, "{mode:o} {kind:?}");
            }
        }
        assert!(matches!(read(&path.join("below"), Kind::Private, 1), Ok(None)));
        assert!(matches!(read(&folder.path().join("none"), Kind::Settings, 1), Ok(None)));
        set_mode(&path, 0o600);
        assert!(matches!(read(&path, Kind::Private, 3), Err(Problem::Long(3))));
    }

    #[test]
    fn what_is_no_file_is_neither_waited_for_nor_used() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for path in [&pipe, folder.path(), Path::new("/dev/zero")] {
            let problem = read(path, Kind::Settings, 100).unwrap_err();
            assert!(matches!(problem, Problem::Irregular), "{}: {problem}", path.display());
        }
    }

    #[test]
    fn links_lead_to_settings_but_not_to_what_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        write(&file, b"text", Sync::Now).unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(read(&link, Kind::Settings, 100).unwrap().unwrap(), b"text");
        assert!(matches!(read(&link, Kind::Private, 100), Err(Problem::Link)));
        assert!(matches!(look(&link, Kind::Private), Err(Problem::Link)));
        assert!(matches!(look(&link, Kind::Settings), Ok(true)));
        assert!(matches!(look(&folder.path().join("none"), Kind::Private), Ok(false)));
        assert!(append(&link).unwrap_err().to_string().ends_with("link` is a symbolic link"));
        // Where the link leads, not the link, has the mode that counts.
        set_mode(&file, 0o666);
        assert!(matches!(read(&link, Kind::Settings, 100), Err(Problem::Writable(0o666))));
    }

    #[test]
    fn a_file_in_a_folder_of_everybody_does_not_count_unless_nobody_else_can_replace_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        set_mode(&path, 0o644);
        set_mode(folder.path(), 0o1777);
        assert!(read(&path, Kind::Settings, 1).is_ok());
        set_mode(folder.path(), 0o777);
        let err = read(&path, Kind::Settings, 1).unwrap_err().of(&path);
        assert!(err.message.contains("which everybody can change"), "{err}");
        assert!(err.hint.unwrap().starts_with("chmod o-w "));
        let hint = Problem::Writable(0o666).hint(Path::new("/a;rm -r 'b'/c")).unwrap();
        assert!(hint.ends_with(r"chmod go-w '/a;rm -r '\''b'\''/c'"), "{hint}");
    }

    #[test]
    fn what_is_made_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/file");
        write(&path, b"one", Sync::Later).unwrap();
        write(&path, b"two", Sync::Now).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let log = folder.path().join("log");
        append(&log).unwrap();
        set_mode(&log, 0o644);
        append(&log).unwrap();
        assert_eq!(mode(&log), 0o600);
    }

    #[test]
    fn a_data_folder_is_taken_away_from_others() {
        let folder = tempfile::tempdir().unwrap();
        for (before, after) in [(0o700, 0o700), (0o755, 0o755), (0o777, 0o755), (0o770, 0o750)] {
            set_mode(folder.path(), before);
            secure_folder(folder.path()).unwrap();
            assert_eq!(mode(folder.path()), after, "{before:o}");
        }
        set_mode(folder.path(), 0o1777);
        assert!(matches!(secure_folder(folder.path()), Err(Problem::Writable(0o1777))));
        assert_eq!(mode(folder.path()), 0o1777, "a folder that others need stays as it is");
        assert!(secure_folder(&folder.path().join("none")).is_ok());
    }
}
