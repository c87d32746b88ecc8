//! Listings on disk, so that a new process knows the tools before any server runs.
//!
//! One file per server, named after what the server is: another command, address or set of
//! variables is another server. Nothing in a file is secret, and a file that is damaged is as good
//! as none.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{
    files,
    listing::{Listing, Source},
};

/// Format of the files. Others are not read: those of format 1 may hold secrets that a server repeated.
const FORMAT: u32 = 2;
/// More than any server lists.
const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// The folder of listings.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
}

/// What is known of a server from earlier.
#[derive(Debug)]
pub struct Cached {
    /// The protocol version it spoke.
    pub version: String,
    /// Absent in what an earlier pml wrote.
    pub declared: Option<Declared>,
    pub listing: Listing,
}

/// What a server says about itself when it is connected.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Declared {
    /// Its name, version and the like, an object or null.
    pub info: Value,
    /// What it can do, an object or null.
    pub capabilities: Value,
    /// How it wants to be used.
    pub instructions: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct File {
    format: u32,
    server: String,
    version: String,
    hash: String,
    #[serde(default)]
    declared: Option<Declared>,
    tools: Vec<Box<RawValue>>,
}

impl Cache {
    /// Listings in `folder`; none are kept without one.
    pub fn new(folder: Option<&Path>) -> Cache {
        Cache { folder: folder.map(|folder| folder.join("catalog")) }
    }

    /// What `server` listed the last time, if it is the same server: `identity` says what it is.
    pub fn load(&self, server: &str, identity: &str) -> Option<Cached> {
        let path = self.path(server, identity)?;
        let bytes = files::read(&path, MAX_BYTES)?;
        let file: File = match serde_json::from_slice(&bytes) {
            Ok(file) => file,
            Err(err) => {
                tracing::warn!(server, error = %err, "a cached list of tools is damaged, and not used");
                return None;
            }
        };
        if file.format != FORMAT || file.server != server {
            return None;
        }
        let listing = Listing::parse(server, file.tools, Source::Cached);
        if listing.hash != file.hash {
            tracing::warn!(server, "a cached list of tools is not what was written, and not used");
            return None;
        }
        Some(Cached { version: file.version, declared: file.declared, listing })
    }

    /// Keeps a listing, whole or not at all.
    pub fn save(
        &self,
        listing: &Listing,
        identity: &str,
        version: &str,
        declared: Option<&Declared>,
    ) -> io::Result<()> {
        let Some(path) = self.path(&listing.server, identity) else { return Ok(()) };
        if let Some(cached) = self.load(&listing.server, identity)
            && cached.listing.hash == listing.hash
            && cached.version == version
            && cached.declared.as_ref() == declared
        {
            return Ok(());
        }
        let file = File {
            format: FORMAT,
            server: listing.server.clone(),
            version: version.to_owned(),
            hash: listing.hash.clone(),
            declared: declared.cloned(),
            tools: listing.tools.values().map(|tool| tool.raw().to_owned()).collect(),
        };
        files::write(&path, &serde_json::to_vec(&file)?)
    }

    fn path(&self, server: &str, identity: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(files::name(server, identity, "json")))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn listing(description: &str) -> Listing {
        let tool = format!(r#"{{"name":"a","description":"{description}","vendor":{{"x":1}}}}"#);
        Listing::parse("../s", vec![RawValue::from_string(tool).unwrap()], Source::Live)
    }

    #[test]
    fn a_listing_comes_back_as_it_was_for_the_same_server_only() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path()));
        assert!(cache.load("../s", "x").is_none());
        cache.save(&listing("one"), "x", "2025-11-25", None).unwrap();
        cache.save(&listing("two"), "x", "2025-11-25", None).unwrap();
        let cached = cache.load("../s", "x").unwrap();
        assert_eq!((cached.version.as_str(), cached.listing.source), ("2025-11-25", Source::Cached));
        assert_eq!(cached.listing.hash, listing("two").hash);
        assert!(cached.listing.tools["a"].raw().get().contains("vendor"));
        assert!(cache.load("../s", "y").is_none());
        assert_eq!(fs::read_dir(folder.path().join("catalog")).unwrap().count(), 1);
    }

    #[test]
    fn what_a_server_declares_is_kept_with_its_listing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path()));
        cache.save(&listing("one"), "x", "v", None).unwrap();
        assert_eq!(cache.load("../s", "x").unwrap().declared, None);
        let capabilities = serde_json::json!({"prompts": {}});
        let declared = Declared { capabilities, instructions: Some("read me".to_owned()), ..Declared::default() };
        cache.save(&listing("one"), "x", "v", Some(&declared)).unwrap();
        assert_eq!(cache.load("../s", "x").unwrap().declared, Some(declared));
        // A file of before there was such a thing.
        let path = cache.path("../s", "x").unwrap();
        let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        file.as_object_mut().unwrap().remove("declared");
        fs::write(&path, file.to_string()).unwrap();
        assert_eq!(cache.load("../s", "x").unwrap().declared, None);
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path()));
        cache.save(&listing("one"), "x", "v", None).unwrap();
        let path = cache.path("../s", "x").unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        let changed = whole.replace("one", "two");
        for damage in [&changed, "", "{", r#"{"format":99,"server":"../s","version":"v","hash":"","tools":[]}"#] {
            fs::write(&path, damage).unwrap();
            assert!(cache.load("../s", "x").is_none(), "{damage}");
        }
        cache.save(&listing("one"), "x", "v", None).unwrap();
        assert!(cache.load("../s", "x").is_some());
        assert!(Cache::new(None).save(&listing("one"), "x", "v", None).is_ok());
    }
}
