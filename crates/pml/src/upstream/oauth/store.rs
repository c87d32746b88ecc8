//! The file of logins: `credentials.json` in the data folder, for its owner only.
//!
//! A login belongs to a server's name and address and to the issuer of its token; another address is
//! another server, and gets nothing. The file is replaced as a whole, so that whoever reads it needs no
//! lock. Who changes it holds one; who uses up a refresh token holds another, of that server alone, since
//! that takes as long as the authorization server likes.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rmcp::transport::auth::AuthorizationMetadata;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::super::settings::{Grant, Secret, Settings, Target};
use crate::{
    clock::now_millis,
    digest::sha256,
    files::{self, Kind, Sync},
};

/// Format of the file. Others are not read.
const FORMAT: u32 = 1;
/// More than any number of logins.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// How long somebody else may hold a lock. Longer than a refresh may take.
const LOCK: Duration = Duration::from_secs(40);
/// Between two looks whether a lock is free.
const LOOK: Duration = Duration::from_millis(10);
/// A token is renewed so long before its end, but not in the first part of its life.
const BEFORE_END_MS: u64 = 60_000;

/// One login, with all that is needed to renew it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Login {
    pub(super) terms: Terms,
    /// What was granted.
    pub scopes: Vec<String>,
    #[serde(with = "plain")]
    pub(super) access_token: Secret,
    #[serde(with = "plain_option", default)]
    pub(super) refresh_token: Option<Secret>,
    pub(super) obtained_at_ms: u64,
    pub(super) expires_at_ms: Option<u64>,
    /// The authorization server does not want to renew it.
    #[serde(default)]
    pub(super) is_rejected: bool,
}

/// Who is logged in where, and as what: everything but the token.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Terms {
    /// The server's name.
    pub(super) server: String,
    /// The server's address; it may hold a key of its own.
    #[serde(with = "plain")]
    pub(super) url: Secret,
    /// Who issues the token, if it says so.
    pub(super) issuer: Option<String>,
    /// What the token is for, as the server calls itself.
    pub(super) resource: String,
    #[serde(default)]
    pub(super) grant: Grant,
    pub(super) client_id: String,
    /// Where the client has one.
    #[serde(with = "plain_option", default)]
    pub(super) client_secret: Option<Secret>,
    pub(super) redirect_uri: String,
    /// Where tokens come from.
    pub(super) metadata: AuthorizationMetadata,
}

/// Secrets go into this file, and nowhere else, as they are.
mod plain {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Secret;

    pub(super) fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.reveal())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

mod plain_option {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Secret;

    pub(super) fn serialize<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Secret::reveal).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
    }
}

impl Login {
    /// The server's name.
    pub fn server(&self) -> &str {
        &self.terms.server
    }

    /// Who issued the token, if it says so.
    pub fn issuer(&self) -> Option<&str> {
        self.terms.issuer.as_deref()
    }

    /// When the token ends, in seconds since 1970, if it does.
    pub fn expires_at(&self) -> Option<u64> {
        self.expires_at_ms.map(|millis| millis / 1000)
    }

    /// How long the token is still good for, if it ends.
    pub fn remaining(&self) -> Option<Duration> {
        self.expires_at_ms.map(|end| Duration::from_millis(end.saturating_sub(now_millis())))
    }

    /// Can pml get another token without the user?
    pub fn is_renewable(&self) -> bool {
        !self.is_rejected && (self.refresh_token.is_some() || self.terms.grant == Grant::ClientCredentials)
    }

    /// Should the token be renewed by now? From 60 seconds before its end; one that lives shorter than
    /// five minutes, from four fifths of its life.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|end| {
            let life = end.saturating_sub(self.obtained_at_ms);
            let late = end.saturating_sub(BEFORE_END_MS);
            now_ms >= late.max(self.obtained_at_ms + life / 5 * 4)
        })
    }

    /// Is it of the same server, at the same address?
    fn is_at_the_place_of(&self, other: &Login) -> bool {
        self.terms.server == other.terms.server && self.terms.url == other.terms.url
    }

    pub(super) fn is_over(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|end| now_ms >= end)
    }
}

/// Works with files where that holds up nobody.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    spawn_blocking(work).await.unwrap_or_else(|err| Err(io::Error::other(err)))
}

#[derive(Default, Deserialize, Serialize)]
struct File {
    format: u32,
    logins: Vec<Login>,
}

/// Which state of the file was read: each change makes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    seconds: i64,
    nanoseconds: i64,
    size: u64,
}

/// The file of logins.
#[derive(Clone, Debug)]
pub struct Logins {
    folder: PathBuf,
}

/// A lock that is held until this is dropped, also against other processes.
#[derive(Debug)]
pub(super) struct Lock {
    _file: fs::File,
}

impl Logins {
    /// The logins in a data folder.
    pub fn new(folder: &Path) -> Logins {
        Logins { folder: folder.to_owned() }
    }

    /// The file itself.
    pub fn path(&self) -> PathBuf {
        self.folder.join("credentials.json")
    }

    /// The login at a server, if there is one for its address.
    pub fn find(&self, settings: &Settings) -> io::Result<Option<Login>> {
        let Ok(Target::Http { url, .. }) = &settings.target else { return Ok(None) };
        self.find_at(&settings.name, url)
    }

    pub(super) fn find_at(&self, server: &str, url: &Secret) -> io::Result<Option<Login>> {
        Ok(self.read()?.logins.into_iter().find(|login| login.terms.server == server && login.terms.url == *url))
    }

    /// As [`find_at`](Logins::find_at), but holds up nobody else while the file is read.
    pub(super) async fn look_up(&self, server: &str, url: &Secret) -> io::Result<Option<Login>> {
        let (logins, server, url) = (self.clone(), server.to_owned(), url.clone());
        aside(move || logins.find_at(&server, &url)).await
    }

    /// Keeps a login, in place of an earlier one.
    pub async fn save(&self, login: Login) -> io::Result<()> {
        let saved = self.change(move |logins| {
            logins.retain(|other| !login.is_at_the_place_of(other));
            logins.push(login);
            true
        });
        saved.await.map(drop)
    }

    /// Keeps what has become of the login with the token `old`, unless that one is not kept any more: the user may
    /// have logged out or in again meanwhile, and that counts. Was it kept?
    pub(super) async fn replace(&self, old: &Secret, login: Login) -> io::Result<bool> {
        let old = old.clone();
        let replaced = self.change(move |logins| {
            let kept = logins.iter_mut().find(|kept| login.is_at_the_place_of(kept) && kept.access_token == old);
            kept.map(|kept| *kept = login).is_some()
        });
        replaced.await
    }

    /// Forgets every login at the server of that name. Was there one?
    pub async fn remove(&self, server: &str) -> io::Result<bool> {
        let server = server.to_owned();
        let removed = self.change(move |logins| {
            let before = logins.len();
            logins.retain(|login| login.terms.server != server);
            logins.len() < before
        });
        removed.await
    }

    /// Changes the file while nobody else does, if `change` says that there is something new. Did it?
    async fn change(&self, change: impl FnOnce(&mut Vec<Login>) -> bool + Send + 'static) -> io::Result<bool> {
        let lock = self.lock("credentials.lock").await?;
        let logins = self.clone();
        let changed = aside(move || {
            // Held until it is written, also if nobody waits for that any more.
            let _lock = lock;
            let mut file = logins.read()?;
            let is_changed = change(&mut file.logins);
            if is_changed {
                logins.write(&file)?;
            }
            Ok(is_changed)
        });
        changed.await
    }

    pub(super) fn stamp(&self) -> Option<Stamp> {
        let file = fs::metadata(self.path()).ok()?;
        Some(Stamp { inode: file.ino(), seconds: file.mtime(), nanoseconds: file.mtime_nsec(), size: file.len() })
    }

    /// Held while the refresh token of one login is used: it is good for one use.
    pub(super) async fn lock_refresh(&self, server: &str, url: &Secret) -> io::Result<Lock> {
        let digest = sha256(format!("{server}\0{}", url.reveal()));
        self.lock(&format!("credentials-{}.lock", &digest[..16])).await
    }

    async fn lock(&self, name: &str) -> io::Result<Lock> {
        let (folder, path) = (self.folder.clone(), self.folder.join(name));
        let opened = aside(move || {
            files::make_folder(&folder)?;
            files::append(&path)
        });
        let file = opened.await?;
        let until = Instant::now() + LOCK;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if Instant::now() < until => {
                    sleep(LOOK).await;
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds the logins"));
                }
                Err(err) => return Err(err.into()),
            }
        }
    }

    fn read(&self) -> io::Result<File> {
        let path = self.path();
        let bytes = files::read(&path, Kind::Private, MAX_BYTES).map_err(|problem| problem.into_io(&path))?;
        let Some(bytes) = bytes else { return Ok(File { format: FORMAT, ..File::default() }) };
        // The parser's own message may show what it has read.
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the file is damaged; remove it and log in again");
        let file: File = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        match file.format {
            FORMAT => Ok(file),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the file is of another version of pml")),
        }
    }

    /// Whole or not at all.
    fn write(&self, file: &File) -> io::Result<()> {
        files::write(&self.path(), &serde_json::to_vec_pretty(file)?, Sync::Now)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn login(server: &str, url: &str, token: &str) -> Login {
        let terms = Terms {
            server: server.to_owned(),
            url: Secret::new(url),
            issuer: Some("https://auth".to_owned()),
            resource: "https://a".to_owned(),
            grant: Grant::AuthorizationCode,
            client_id: "pml".to_owned(),
            client_secret: None,
            redirect_uri: String::new(),
            metadata: AuthorizationMetadata::default(),
        };
        Login {
            terms,
            scopes: Vec::new(),
            access_token: Secret::new(token),
            refresh_token: Some(Secret::new("refresh")),
            obtained_at_ms: 0,
            expires_at_ms: None,
            is_rejected: false,
        }
    }

    #[tokio::test]
    async fn a_login_is_found_at_its_own_address_only() {
        let folder = tempfile::tempdir().unwrap();
        let logins = Logins::new(&folder.path().join("pml"));
        let find = |server: &str, url: &str| logins.find_at(server, &Secret::new(url)).unwrap();
        assert!(find("a", "https://a/mcp").is_none() && logins.stamp().is_none());
        logins.save(login("a", "https://a/mcp", "one")).await.unwrap();
        let stamp = logins.stamp();
        logins.save(login("b", "https://a/mcp", "two")).await.unwrap();
        logins.save(login("a", "https://a/mcp", "three")).await.unwrap();
        assert_ne!(logins.stamp(), stamp);
        assert_eq!(find("a", "https://a/mcp").unwrap().access_token, Secret::new("three"));
        assert_eq!(find("b", "https://a/mcp").unwrap().refresh_token, Some(Secret::new("refresh")));
        assert!(find("a", "https://evil/mcp").is_none() && find("c", "https://a/mcp").is_none());
        let mode = fs::metadata(logins.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(logins.remove("a").await.unwrap() && !logins.remove("a").await.unwrap());
        assert!(find("a", "https://a/mcp").is_none() && find("b", "https://a/mcp").is_some());
    }

    #[tokio::test]
    async fn a_renewal_that_comes_too_late_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let logins = Logins::new(folder.path());
        let token = || logins.find_at("a", &Secret::new("https://a")).unwrap().map(|login| login.access_token);
        let renew = |old: &str| {
            let (logins, old) = (logins.clone(), Secret::new(old));
            async move { logins.replace(&old, login("a", "https://a", "renewed")).await.unwrap() }
        };
        logins.save(login("a", "https://a", "first")).await.unwrap();
        logins.save(login("b", "https://a", "first")).await.unwrap();
        assert!(renew("first").await);
        assert_eq!(token(), Some(Secret::new("renewed")));
        logins.save(login("a", "https://a", "second")).await.unwrap();
        let stamp = logins.stamp();
        assert!(!renew("first").await, "somebody has logged in again");
        assert_eq!((token(), logins.stamp()), (Some(Secret::new("second")), stamp));
        logins.remove("a").await.unwrap();
        assert!(!renew("second").await, "somebody has logged out");
        assert_eq!(token(), None);
    }

    #[tokio::test]
    async fn a_damaged_file_is_an_error_that_shows_nothing_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let logins = Logins::new(folder.path());
        for damage in ["{", "{\"format\":1,\"logins\":\"hunter2\"}", "{\"format\":99,\"logins\":[]}"] {
            fs::write(logins.path(), damage).unwrap();
            let err = logins.save(login("a", "https://a", "one")).await.unwrap_err();
            assert!(!err.to_string().contains("hunter2"), "{err}");
            assert_eq!(fs::read_to_string(logins.path()).unwrap(), damage, "what may be of use is not overwritten");
        }
    }

    #[test]
    fn a_token_is_renewed_before_its_end() {
        #[rustfmt::skip]
        let table = [
            // life     at         due    over
            (3_600_000, 3_539_999, false, false),
            (3_600_000, 3_540_000, true,  false),
            (10_000,    7_999,     false, false),
            (10_000,    8_000,     true,  false),
            (10_000,    10_000,    true,  true),
            (0,         0,         true,  true),
        ];
        for (life, at, is_due, is_over) in table {
            let login =
                Login { obtained_at_ms: 1000, expires_at_ms: Some(1000 + life), ..login("a", "https://a", "one") };
            assert_eq!((login.is_due(1000 + at), login.is_over(1000 + at)), (is_due, is_over), "{life} {at}");
        }
        assert!(!login("a", "https://a", "one").is_due(u64::MAX), "one that does not end");
    }

    #[test]
    fn a_login_does_not_show_its_secrets() {
        let shown = format!("{:?}", login("a", "https://a/?key=hunter2", "hunter2"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
