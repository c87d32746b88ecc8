//! The tokens of named clients.
//!
//! `tokens.json` in the data folder has the name, the profile and the SHA-256 of each token. The token itself is shown once, when
//! it is made, and kept nowhere; it has 256 random bits, so that a plain hash of it tells nothing. The file is looked at with
//! each request: a token that was revoked opens nothing from the next request on.
//!
//! **Invariant:** a file that cannot be read, or that somebody else could have written, lets nobody in.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use pml_wire::ErrorCode;
use serde::{Deserialize, Serialize};

use crate::{
    clock::now_millis,
    digest::{same, sha256},
    error::Error,
    files::{self, Kind, Sync},
};

/// The file, and the lock that is held while it is changed.
const FILE: &str = "tokens.json";
const LOCK: &str = "tokens.lock";
/// Largest file that is read, and most tokens.
const MAX_BYTES: u64 = 1024 * 1024;
const MAX_TOKENS: usize = 1000;
/// Longest name of a client.
const MAX_NAME: usize = 64;
/// What tokens begin with, so that they are known for what they are where they should not be.
const PREFIX: &str = "pml_";
/// Names that mean something else in records.
const RESERVED: [&str; 5] = ["anyone", "cli", "hub", "http", "stdio"];

/// A client with a token of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedToken {
    pub name: String,
    /// What the client is held to; everything that the configuration allows without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Milliseconds since 1970.
    pub created: u64,
    sha256: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    tokens: Vec<NamedToken>,
}

/// The tokens of named clients, as they are now.
#[derive(Debug)]
pub struct TokenBook {
    folder: PathBuf,
    seen: Mutex<TokenFile>,
}

/// The file when it was last read.
#[derive(Debug, Default)]
struct TokenFile {
    stamp: Option<Stamp>,
    tokens: Arc<Vec<NamedToken>>,
}

/// What changes when the file does.
type Stamp = (SystemTime, u64, u64);

impl TokenBook {
    pub fn new(data_dir: &Path) -> TokenBook {
        TokenBook { folder: data_dir.to_owned(), seen: Mutex::default() }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// All clients that have a token, by name.
    pub fn list(&self) -> Result<Vec<NamedToken>, Error> {
        let mut tokens = self.read()?.tokens;
        tokens.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(tokens)
    }

    /// Makes a token for a new client, and returns it. Nobody can show it again.
    pub fn add(&self, name: &str, profile: Option<&str>) -> Result<String, Error> {
        check_name(name)?;
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|err| wrong(format!("this machine has no random numbers: {err}")))?;
        let token = PREFIX.to_owned() + &random.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let entry = NamedToken {
            name: name.to_owned(),
            profile: profile.map(str::to_owned),
            created: now_millis(),
            sha256: sha256(&token),
        };
        self.change(|tokens| {
            if tokens.iter().any(|other| other.name.eq_ignore_ascii_case(name)) {
                let hint = format!("`pml token revoke {name}` takes the old one away");
                return Err(wrong(format!("there is a token `{name}` already")).with_hint(hint));
            }
            if tokens.len() >= MAX_TOKENS {
                return Err(wrong(format!("there are {MAX_TOKENS} tokens already")));
            }
            tokens.push(entry);
            Ok(())
        })?;
        Ok(token)
    }

    /// Takes a client's token away.
    pub fn revoke(&self, name: &str) -> Result<(), Error> {
        self.change(|tokens| {
            let before = tokens.len();
            tokens.retain(|token| token.name != name);
            match tokens.len() < before {
                true => Ok(()),
                false => {
                    Err(wrong(format!("there is no token `{name}`")).with_hint("`pml token list` shows the names"))
                }
            }
        })
    }

    /// Whose token this is. All are compared, each in the same time, whichever it is.
    pub(super) fn holder(&self, token: &str) -> Option<NamedToken> {
        let digest = sha256(token);
        let tokens = self.current();
        let mut holder = None;
        for entry in tokens.iter() {
            if same(&entry.sha256, &digest) {
                holder = Some(entry);
            }
        }
        holder.cloned()
    }

    /// The tokens of now. What is wrong with the file is logged when it is first seen.
    fn current(&self) -> Arc<Vec<NamedToken>> {
        let stamp = fs::symlink_metadata(self.path()).ok().and_then(|data| {
            let modified = data.modified().ok()?;
            Some((modified, data.len(), data.ino()))
        });
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.stamp != stamp {
            let tokens = self.read().unwrap_or_else(|err| {
                tracing::warn!("named clients are not let in: {err}");
                File::default()
            });
            *seen = TokenFile { stamp, tokens: Arc::new(tokens.tokens) };
        }
        Arc::clone(&seen.tokens)
    }

    fn read(&self) -> Result<File, Error> {
        let path = self.path();
        let read = files::read(&path, Kind::Private, MAX_BYTES).map_err(|problem| problem.of(&path))?;
        let Some(bytes) = read else { return Ok(File::default()) };
        serde_json::from_slice(&bytes).map_err(|err| {
            let hint = "remove the file, and give clients new tokens";
            wrong(format!("`{}` is damaged: {err}", path.display())).with_hint(hint).caused_by(err)
        })
    }

    /// Changes the file while nobody else does.
    fn change(&self, change: impl FnOnce(&mut Vec<NamedToken>) -> Result<(), Error>) -> Result<(), Error> {
        let unwritable =
            |err: std::io::Error| wrong(format!("`{}` cannot be written: {err}", self.path().display())).caused_by(err);
        files::make_folder(&self.folder).map_err(unwritable)?;
        let lock = files::append(&self.folder.join(LOCK)).map_err(unwritable)?;
        lock.lock().map_err(unwritable)?;
        let mut file = self.read()?;
        change(&mut file.tokens)?;
        let text = serde_json::to_vec_pretty(&file).expect("plain data serializes");
        files::write(&self.path(), &text, Sync::Now).map_err(unwritable)
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_plain) {
        let message = format!("`{}` is no name of a client", name.escape_debug());
        return Err(wrong(message).with_hint("use up to 64 letters, digits, `.`, `_` and `-`"));
    }
    match RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
        true => Err(wrong(format!("`{name}` means something else in records")).with_hint("choose another name")),
        false => Ok(()),
    }
}

fn wrong(message: String) -> Error {
    Error::new(ErrorCode::ConfigInvalid, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_kept_as_a_hash_and_counts_until_it_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let (book, other) = (TokenBook::new(folder.path()), TokenBook::new(folder.path()));
        assert_eq!(book.holder("pml_x"), None);
        let ann = other.add("ann", Some("reader")).unwrap();
        let bob = other.add("bob", None).unwrap();
        let text = fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert!(!text.contains(&ann) && !text.contains(&ann[4..]) && ann.len() == 68, "{text}");
        assert_eq!(fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        let holder = book.holder(&ann).unwrap();
        assert_eq!((holder.name.as_str(), holder.profile.as_deref()), ("ann", Some("reader")));
        assert_eq!(book.holder(&bob).unwrap().name, "bob");
        assert_eq!(book.holder(&ann[..67]), None);
        // Revoked by another process, at once.
        other.revoke("ann").unwrap();
        assert_eq!((book.holder(&ann), book.holder(&bob).is_some()), (None, true));
        assert!(other.revoke("ann").unwrap_err().message.contains("there is no token"));
        let names: Vec<_> = book.list().unwrap().into_iter().map(|token| token.name).collect();
        assert_eq!(names, ["bob"]);
    }

    #[test]
    fn odd_names_and_odd_files_let_nobody_in() {
        let folder = tempfile::tempdir().unwrap();
        let book = TokenBook::new(folder.path());
        for name in ["", "a b", "a:b", "é", "http", "CLI", &"x".repeat(65)] {
            assert!(book.add(name, None).is_err(), "{name}");
        }
        let token = book.add("ann", None).unwrap();
        assert!(book.add("ANN", None).unwrap_err().message.contains("already"));
        let path = folder.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        // The stamp has no mode: a file that was read when it was fine stays read.
        assert_eq!(TokenBook::new(folder.path()).holder(&token), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        files::write(&path, b"{\"tokens\":[{\"name\":", Sync::Later).unwrap();
        assert_eq!(book.holder(&token), None);
        assert!(book.list().unwrap_err().message.contains("damaged"));
        files::write(&path, text.as_bytes(), Sync::Later).unwrap();
        assert!(book.holder(&token).is_some());
    }
}
