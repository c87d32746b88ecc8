//! What gives texts their meaning.

use std::fmt;

use crate::{
    leaning::Leaning,
    tool::ToolText,
    vector::{MAX_DIMENSIONS, Vector},
};

/// Turns the text of a tool, and of a query, into directions that can be compared.
///
/// The search is quick because directions of tools are made once and kept. Those of one embedder cannot be compared with
/// those of another; [`version`](Self::version) tells them apart.
pub trait Embedder: fmt::Debug + Send + Sync {
    /// Names what directions are made with, to keep them under. Whatever changes a direction changes this.
    fn version(&self) -> &str;

    /// How many numbers a direction has, at most 1024. Fewer are filled up with zeros, more are cut off.
    fn dimensions(&self) -> usize;

    /// The direction of a tool, of length 1; zero if nothing can be said.
    fn tool(&self, tool: &ToolText) -> Vec<f32>;

    /// The direction of a query or of a part of one, of length 1; zero if it says nothing.
    fn query(&self, text: &str) -> Vec<f32>;

    /// The same if there is little time: less exact, and not slow.
    fn quick_query(&self, text: &str) -> Vec<f32> {
        self.query(text)
    }

    /// The directions of parts of a query whose direction as a whole is known.
    fn parts(&self, _whole: &[f32], parts: &[&str]) -> Vec<Vec<f32>> {
        parts.iter().map(|part| self.query(part)).collect()
    }

    /// What a query of this direction leans towards, by wishes that are known. `None` if none is near.
    fn leaning(&self, _query: &[f32]) -> Option<Leaning> {
        None
    }

    /// What each word of a query does for its cosine with a tool. Empty if words have no meaning of their own here.
    fn shares(&self, _query: &str, _tool: &Vector) -> Vec<(String, f32)> {
        Vec::new()
    }
}

/// How many numbers of its directions are used.
pub(crate) fn dimensions(embedder: &dyn Embedder) -> usize {
    embedder.dimensions().min(MAX_DIMENSIONS)
}
