//! The secret that clients over HTTP must know.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use pml_wire::ErrorCode;

use crate::{
    error::Error,
    files::{self, Kind, Problem},
};

/// Shortest token that is taken for a secret, and longest.
const MIN_TOKEN: usize = 16;
const MAX_TOKEN: u64 = 4096;

/// The token: of a file of the user's own that nobody else can read or write, made on first use. A file that others could
/// have put there would let them in.
pub fn token(folder: &Path) -> Result<String, Error> {
    let path = folder.join("token");
    let anew = "remove the file, and a new one is made; clients need the new one";
    let refused = |problem: Problem| {
        let message = format!("the token in `{}` {problem}", path.display());
        Error::new(ErrorCode::ConfigInvalid, message).with_hint(anew).caused_by(problem)
    };
    let read = || files::read(&path, Kind::Private, MAX_TOKEN).map_err(refused);
    let bytes = match read()? {
        Some(bytes) => bytes,
        None => {
            make(folder, &path).map_err(|err| {
                let message = format!("the token in `{}` cannot be made: {err}", path.display());
                Error::new(ErrorCode::ConfigInvalid, message).caused_by(err)
            })?;
            read()?.unwrap_or_default()
        }
    };
    long_enough(&String::from_utf8_lossy(&bytes), &format!("`{}`", path.display()), anew)
}

/// The token that the user has named in `$PML_TOKEN`.
pub fn named_token(text: &str) -> Result<String, Error> {
    long_enough(text, "`$PML_TOKEN`", "choose a longer one, or unset the variable: pml makes one of its own")
}

fn long_enough(text: &str, place: &str, hint: &str) -> Result<String, Error> {
    match text.trim() {
        token if token.len() >= MIN_TOKEN => Ok(token.to_owned()),
        _ => {
            let message = format!("the token in {place} is shorter than {MIN_TOKEN} characters");
            Err(Error::new(ErrorCode::ConfigInvalid, message).with_hint(hint))
        }
    }
}

/// Makes the file, unless another pml does so at this moment. It is there whole or not at all: whoever sees it
/// reads a token, and a crash leaves nothing that would be taken for one.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    let (mut token, mut number) = ([0; 32], [0; 8]);
    getrandom::fill(&mut token).map_err(io::Error::other)?;
    getrandom::fill(&mut number).map_err(io::Error::other)?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    files::make_folder(folder)?;
    let partial = folder.join(format!(".token.{}.tmp", hex(&number)));
    let mut file = files::create(&partial)?;
    let made = writeln!(file, "{}", hex(&token)).and_then(|()| file.sync_all()).and_then(|()| {
        // Unlike a rename, a link does not replace what is there.
        match fs::hard_link(&partial, path) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    });
    let _ = fs::remove_file(&partial);
    made
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{PermissionsExt as _, chown, symlink},
        thread,
    };

    use super::*;

    #[test]
    fn a_token_is_made_once_and_kept_secret() {
        let folder = tempfile::tempdir().unwrap();
        let first = token(&folder.path().join("new")).unwrap();
        assert_eq!(first.len(), 64);
        assert_eq!(token(&folder.path().join("new")).unwrap(), first);
        let path = folder.path().join("new/token");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(token(&folder.path().join("new")).unwrap_err().message.contains("read by others"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short\n").unwrap();
        assert!(token(&folder.path().join("new")).unwrap_err().message.contains("shorter than"));
    }

    #[test]
    fn a_planted_token_lets_nobody_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let (known, elsewhere) = ("0123456789abcdef0123456789abcdef", folder.path().join("elsewhere"));
        let refused = |part: &str| {
            let err = token(folder.path()).unwrap_err();
            assert!(err.message.contains(part) && !err.message.contains(known), "{err}");
            assert!(err.hint.unwrap().starts_with("remove the file"));
        };
        symlink(&elsewhere, &path).unwrap();
        refused("is a symbolic link"); // to nothing
        fs::write(&elsewhere, known).unwrap();
        fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o600)).unwrap();
        refused("is a symbolic link");
        fs::remove_file(&path).unwrap();
        fs::rename(&elsewhere, &path).unwrap();
        assert_eq!(token(folder.path()).unwrap(), known);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
        refused("can be changed by others");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        if chown(&path, Some(65534), None).is_ok() {
            refused("belongs to user 65534, not to you");
        }
    }

    #[test]
    fn many_that_begin_at_once_have_one_token() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let tokens: Vec<_> = thread::scope(|scope| {
                let runs: Vec<_> = (0..8).map(|_| scope.spawn(|| token(folder.path()))).collect();
                runs.into_iter().map(|run| run.join().unwrap().unwrap()).collect()
            });
            assert!(tokens.iter().all(|token| *token == tokens[0] && token.len() == 64), "{tokens:?}");
            let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(left, ["token"]);
        }
    }

    #[test]
    fn a_named_token_is_as_long_as_one_of_a_file() {
        let long = "0123456789abcdef";
        assert_eq!(named_token(&format!("{long}\n")).unwrap(), long);
        for short in ["", "0123456789abcde", "0123456789abcde \n"] {
            let err = named_token(short).unwrap_err();
            assert!(err.message.contains("`$PML_TOKEN` is shorter than 16"), "{}", err.message);
            assert!(short.is_empty() || !err.message.contains(short), "{}", err.message);
        }
    }
}
