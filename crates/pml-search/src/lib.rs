//! Finds tools by what they do.
//!
//! A query is compared with every tool in two ways: by its words (BM25F, which knows names, descriptions and
//! arguments apart) and by its meaning (the sum of the vectors of its words, from a table that is compiled in).
//! Both scores are fused. There is no network, no clock, no file and no thread here; the host decides when to index and
//! what to keep.
//!
//! [`Index`] holds analysed tools and is changed one tool at a time; it shares them when it is cloned.
//! [`Index::snapshot`] packs it into a [`Snapshot`], which never changes and is what queries are put to. So a rebuild
//! blocks no query: the old snapshot answers until the new one is swapped in.
//!
//! **Invariant:** the answer depends on the tools and the query alone, not on the order in which tools came, nor on the
//! machine. Sums are taken in a fixed order, dot products are in integers, and the logarithm is our own.
//!
//! With the feature `minilm`, all-MiniLM can take the place of the table. It uses threads of its own, and may round
//! differently on another kind of processor.

mod actions;
mod both;
mod embedder;
pub mod encoder;
mod fold;
mod foreign;
#[cfg(test)]
mod golden;
mod index;
mod kinship;
mod leaning;
mod lexical;
mod math;
#[cfg(feature = "minilm")]
pub mod minilm;
mod model;
mod names;
mod phrasing;
mod prefixes;
mod query;
mod reading;
mod rules;
mod servers;
mod shapes;
mod snapshot;
mod spelling;
mod standing;
mod table;
mod tokenize;
mod tool;
mod vector;
pub mod wishes;

pub use self::{
    both::Both,
    embedder::Embedder,
    encoder::Encoder,
    index::Index,
    leaning::Leaning,
    model::{MODEL_VERSION, load, notice, table_bytes},
    query::word_hashes,
    snapshot::{Explanation, Hit, Mode, Snapshot, WordShare},
    table::Table,
    tool::ToolText,
    vector::{Vector, VectorError},
};
