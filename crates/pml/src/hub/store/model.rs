//! Learned models, as they are stored.

use pml_wire::trace::Timestamp;

/// A stored model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The SHA-256 of its bytes, in hexadecimal.
    pub etag: String,
    pub updated_at: Timestamp,
    pub bytes: Vec<u8>,
}

/// What became of a model that was put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutModel {
    Stored {
        etag: String,
    },
    /// Another one is there than was expected.
    Changed {
        etag: Option<String>,
    },
}
