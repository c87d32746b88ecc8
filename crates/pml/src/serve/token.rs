//! The secret that clients over HTTP must know.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use pml_wire::ErrorCode;

use crate::{error::Error, files};

/// Shortest token that is taken for a secret.
const MIN_TOKEN: usize = 16;

/// The token: of a file that only its owner can read, made on first use.
pub fn token(folder: &Path) -> Result<String, Error> {
    let path = folder.join("token");
    let broken = |what: &str, err: io::Error| {
        let message = format!("the token in `{}` cannot be {what}: {err}", path.display());
        Error::new(ErrorCode::ConfigInvalid, message).caused_by(err)
    };
    if !path.exists() {
        make(folder, &path).map_err(|err| broken("made", err))?;
    }
    let text = fs::read_to_string(&path).map_err(|err| broken("read", err))?;
    let mode = fs::metadata(&path).map_err(|err| broken("read", err))?.permissions().mode();
    if mode & 0o077 != 0 {
        let message = format!("the token in `{}` can be read by others", path.display());
        let hint = "remove the file, and a new one is made; clients need the new one";
        return Err(Error::new(ErrorCode::ConfigInvalid, message).with_hint(hint));
    }
    long_enough(&text, &format!("`{}`", path.display()), "remove the file, and a new one is made")
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
    use std::thread;

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
