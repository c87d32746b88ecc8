//! What a gateway or a hub has learned, as a document for others: a model, and the shapes of results.
//!
//! A line with a version and the SHA-256 of the rest, a line of JSON with the shapes, and the model, which
//! [`pml_learn::Shared`] reads. The hash finds damage; whoever writes a document on purpose gets past it, so shapes and model are
//! held to what they may say.

use pml_learn::Shared;
use serde::{Deserialize, Serialize};

use super::learner::settings;
use crate::{digest::sha256, trace::Shapes};

/// Longest document, in bytes.
pub(crate) const MAX_BYTES: u64 = 16 << 20;
/// Longest line of shapes.
const MAX_SHAPES_BYTES: usize = 8 << 20;
const START: &str = "pml-learned 1 ";
/// Documents of earlier versions are a model alone.
const MODEL_ALONE: &[u8] = b"PMLSHARE";

/// A document that was read.
#[derive(Debug)]
pub struct Document {
    pub shared: Shared,
    pub(crate) shapes: Shapes,
}

#[derive(Serialize)]
struct HeadToWrite<'s> {
    types: &'s Shapes,
}

#[derive(Deserialize)]
struct Head {
    types: Shapes,
}

/// `model` is what [`pml_learn::Learned::to_shared`] has written.
pub(crate) fn write(model: &[u8], shapes: &Shapes) -> Vec<u8> {
    // A map of texts and numbers: it can always be written.
    let mut rest = serde_json::to_vec(&HeadToWrite { types: shapes }).unwrap_or_default();
    rest.push(b'\n');
    rest.extend_from_slice(model);
    [START.as_bytes(), sha256(&rest).as_bytes(), b"\n", &rest].concat()
}

impl Document {
    /// Reads a document, which anybody may have written.
    pub fn read(bytes: &[u8]) -> Result<Document, String> {
        let shared = |model: &[u8]| Shared::from_bytes(model, &settings()).map_err(|err| err.to_string());
        if bytes.starts_with(MODEL_ALONE) {
            return Ok(Document { shared: shared(bytes)?, shapes: Shapes::default() });
        }
        let rest = bytes.strip_prefix(START.as_bytes()).ok_or("this is not what another pml has learned")?;
        let damaged = "the document is damaged";
        let (hash, rest) = cut(rest).ok_or(damaged)?;
        if bytes.len() as u64 > MAX_BYTES || sha256(rest).as_bytes() != hash {
            return Err(damaged.to_owned());
        }
        let (head, model) = cut(rest).filter(|(head, _)| head.len() <= MAX_SHAPES_BYTES).ok_or(damaged)?;
        let head: Head = serde_json::from_slice(head).map_err(|err| err.to_string())?;
        Ok(Document { shared: shared(model)?, shapes: head.types.of_others() })
    }
}

/// What is before and behind the first line break.
fn cut(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use pml_learn::Model;

    use super::*;

    #[test]
    fn a_document_is_read_or_refused() {
        let mut shapes = Shapes::default();
        (0..3).for_each(|_| shapes.add("s:t", "hash", r#"{"id": 1}"#));
        let model = Model::new(settings()).learned().to_shared(None);
        let bytes = write(&model, &shapes);
        assert_eq!(Document::read(&bytes).unwrap().shapes, shapes);
        assert!(Document::read(&model).unwrap().shapes.is_empty(), "of an earlier version");
        for place in 0..bytes.len().min(400) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x20;
            assert!(Document::read(&damaged).is_err(), "{place}");
            assert!(Document::read(&bytes[..place]).is_err(), "{place}");
        }
        assert!(Document::read(&write(b"no model", &shapes)).is_err());
        // With a hash that fits: shapes are held to their bounds, and what is none is refused.
        let forged = |head: &str| {
            let rest = [head.as_bytes(), b"\n", &model].concat();
            Document::read(&[START.as_bytes(), sha256(&rest).as_bytes(), b"\n", &rest].concat())
        };
        let hostile = r#"{"types": {"s:t": {"hash": "h", "results": 9, "shape": {"object": {"seen": 9, "named": {"do this now": {}}}}}}}"#;
        assert!(forged(hostile).unwrap().shapes.is_empty());
        assert!(forged(r#"{"types": {"s:t": 1}}"#).is_err());
        assert!(forged(&format!("{{\"types\": {}", "[".repeat(100_000))).is_err());
        assert!(forged(&format!("{{\"types\": {{}}, \"x\": \"{}\"}}", "x".repeat(MAX_SHAPES_BYTES))).is_err());
    }
}
