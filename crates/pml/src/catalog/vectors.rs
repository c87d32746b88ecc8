//! The meaning of tools on disk, so that a new process need not work it out again.
//!
//! One file per server and model. It holds the vectors of the server's tools by what the tools were said to be. A file that
//! is damaged is as good as none.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};

use pml_search::{Embedder, Vector};
use sha2::{Digest, Sha256};

use super::{files, tool::Tool};

/// Format of the files, and what they begin with. Others are not read.
const MAGIC: &[u8; 8] = b"PMLVEC01";
/// A hundred thousand tools, and more.
const MAX_BYTES: u64 = 128 * 1024 * 1024;
const DIGEST: usize = 32;

/// The folder of vectors.
#[derive(Clone, Debug)]
pub(super) struct Vectors {
    folder: Option<PathBuf>,
}

/// What a tool is said to be, in short.
type Key = [u8; DIGEST];

/// The vectors of a server's tools.
#[derive(Debug, Default)]
pub(super) struct VectorCache(HashMap<Key, Vector>);

impl VectorCache {
    /// The vector of the tool, if it was the same tool.
    pub(super) fn get(&self, tool: &Tool) -> Option<&Vector> {
        self.0.get(&key(tool))
    }
}

impl Vectors {
    /// Vectors in `folder`; none are kept without one.
    pub(super) fn new(folder: Option<&Path>) -> Vectors {
        Vectors { folder: folder.map(|folder| folder.join("search")) }
    }

    /// The vectors of a server's tools that this embedder has made.
    pub(super) fn load(&self, server: &str, embedder: &dyn Embedder) -> VectorCache {
        let bytes = self.path(server, embedder).and_then(|path| files::read(&path, MAX_BYTES));
        bytes.and_then(|bytes| parse(&bytes, embedder)).unwrap_or_default()
    }

    /// Keeps the vectors of a server's tools in place of the earlier ones.
    pub(super) fn save<'a>(
        &self,
        server: &str,
        embedder: &dyn Embedder,
        vectors: impl Iterator<Item = (&'a Tool, &'a Vector)>,
    ) -> io::Result<()> {
        let Some(path) = self.path(server, embedder) else { return Ok(()) };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(digest(embedder.version()));
        for (tool, vector) in vectors {
            bytes.extend(key(tool));
            bytes.extend(vector.to_bytes());
        }
        let sum = Sha256::digest(&bytes);
        bytes.extend(sum);
        files::write(&path, &bytes)
    }

    fn path(&self, server: &str, embedder: &dyn Embedder) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(files::name(server, embedder.version(), "vec")))
    }
}

/// `None` if the bytes are no file of ours, or of another model.
fn parse(bytes: &[u8], embedder: &dyn Embedder) -> Option<VectorCache> {
    let (whole, sum) = bytes.split_last_chunk::<DIGEST>()?;
    let (magic, rest) = whole.split_first_chunk()?;
    let (version, entries) = rest.split_first_chunk::<DIGEST>()?;
    let is_ours = magic == MAGIC && *version == digest(embedder.version()) && Sha256::digest(whole)[..] == *sum;
    if !is_ours {
        return None;
    }
    let dimensions = embedder.dimensions();
    let entry = DIGEST + Vector::bytes_of(dimensions);
    let vectors = entries.chunks(entry).map(|entry| {
        let (key, vector) = entry.split_first_chunk()?;
        Some((*key, Vector::from_bytes(vector, dimensions).ok()?))
    });
    vectors.collect::<Option<_>>().map(VectorCache)
}

fn key(tool: &Tool) -> Key {
    digest(&tool.hash)
}

fn digest(text: &str) -> Key {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use pml_search::{Index, Table, ToolText};
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug)]
    struct Other;

    impl Embedder for Other {
        fn version(&self) -> &str {
            "other"
        }

        fn dimensions(&self) -> usize {
            256
        }

        fn tool(&self, _: &ToolText) -> Vec<f32> {
            vec![1.0]
        }

        fn query(&self, _: &str) -> Vec<f32> {
            vec![1.0]
        }
    }

    fn tool(description: &str) -> Tool {
        let raw = format!(r#"{{"name":"a","description":"{description}"}}"#);
        Tool::parse("../s", RawValue::from_string(raw).unwrap()).unwrap()
    }

    fn vector(text: &str) -> Vector {
        let mut index = Index::with(Arc::new(Table));
        index.insert("x", &ToolText::new("", text, "", &serde_json::json!({})));
        index.vector("x").unwrap().clone()
    }

    #[test]
    fn vectors_come_back_for_the_same_tool_and_model_only() {
        let folder = tempfile::tempdir().unwrap();
        let vectors = Vectors::new(Some(folder.path()));
        let (reads, sends) = (tool("reads"), tool("sends"));
        assert!(vectors.load("../s", &Table).get(&reads).is_none());
        let (of_reads, of_sends) = (vector("read file"), vector("send mail"));
        vectors.save("../s", &Table, [(&reads, &of_reads), (&sends, &of_sends)].into_iter()).unwrap();
        let known = vectors.load("../s", &Table);
        assert_eq!(known.get(&reads), Some(&of_reads));
        assert_eq!(known.get(&tool("reads more")), None);
        assert_eq!(known.get(&sends), Some(&of_sends));
        assert!(vectors.load("../s", &Other).get(&reads).is_none());
        assert!(vectors.load("t", &Table).get(&reads).is_none());
        assert_eq!(fs::read_dir(folder.path().join("search")).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let vectors = Vectors::new(Some(folder.path()));
        let (reads, of_reads) = (tool("reads"), vector("read file"));
        let save = || vectors.save("s", &Table, [(&reads, &of_reads)].into_iter()).unwrap();
        save();
        let path = vectors.path("s", &Table).unwrap();
        let whole = fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        flipped[100] ^= 1;
        for damage in [&flipped[..], b"", b"PMLVEC01", &whole[..whole.len() - 1], &[0; 4096]] {
            fs::write(&path, damage).unwrap();
            assert!(vectors.load("s", &Table).get(&reads).is_none());
        }
        save();
        assert!(vectors.load("s", &Table).get(&reads).is_some());
        // Nowhere to keep them, and no place for them.
        assert!(Vectors::new(None).save("s", &Table, [(&reads, &of_reads)].into_iter()).is_ok());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(vectors.save("s", &Table, [(&reads, &of_reads)].into_iter()).is_err());
        assert!(vectors.load("s", &Table).get(&reads).is_none());
    }
}
