//! Tools that are known to the search, changed one at a time.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    embedder::{Embedder, dimensions},
    lexical::{self, NameWord, Word, Words},
    model::Bag,
    servers::{family, server_words},
    snapshot::Snapshot,
    standing::Standing,
    table::Table,
    tool::ToolText,
    vector::Vector,
};

/// How much a word of each place counts for the direction of a tool, where the table gives it.
const NAME: f32 = 6.0;
const FIRST_SENTENCE: f32 = 1.0;
const DESCRIPTION: f32 = 0.6;
const PARAMETER_NAMES: f32 = 0.5;
const PARAMETER_TEXTS: f32 = 0.1;
const SERVER: f32 = 0.75;

/// The tools to be searched. A clone shares what was analysed, so that a change costs one tool and not all.
#[derive(Clone, Debug)]
pub struct Index {
    embedder: Arc<dyn Embedder>,
    tools: BTreeMap<Arc<str>, Arc<Analysed>>,
}

/// What the search keeps of a tool's text.
#[derive(Debug, PartialEq)]
pub(crate) struct Text {
    pub(crate) words: Words,
    pub(crate) name: Box<[NameWord]>,
    /// Tells servers apart: a number of the name in small letters.
    pub(crate) server: u64,
    /// The server's whole name, and what else it may be called.
    pub(crate) server_words: Box<[Word]>,
    /// What the tool's name begins with, as those of others may.
    pub(crate) family: Option<Word>,
    pub(crate) standing: Standing,
}

impl Text {
    pub(crate) fn of(tool: &ToolText) -> Text {
        Text {
            words: lexical::analyse(tool),
            name: lexical::name_words(&tool.name),
            server: Word::number(&tool.server.to_lowercase()),
            server_words: server_words(&tool.server),
            family: family(&tool.name),
            standing: Standing::of(tool),
        }
    }
}

/// What the search keeps of a tool.
#[derive(Debug, PartialEq)]
pub(crate) struct Analysed {
    pub(crate) text: Arc<Text>,
    pub(crate) vector: Vector,
}

impl Index {
    /// Nothing yet; meaning is to come from the table that is compiled in.
    pub fn new() -> Index {
        Index::with(Arc::new(Table))
    }

    /// As [`new`](Self::new), with meaning from elsewhere.
    pub fn with(embedder: Arc<dyn Embedder>) -> Index {
        Index { embedder, tools: BTreeMap::new() }
    }

    /// Where meaning comes from.
    pub fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }

    /// Adds a tool, or replaces the one that has this id.
    pub fn insert(&mut self, id: &str, tool: &ToolText) {
        let vector = self.vector_of(tool);
        self.insert_with_vector(id, tool, vector);
    }

    /// As [`insert`](Self::insert), with a vector that was made from the same text by an embedder of the same
    /// [`version`](Embedder::version) and kept since. One that is not as long as ours is made anew.
    pub fn insert_with_vector(&mut self, id: &str, tool: &ToolText, vector: Vector) {
        let is_ours = vector.values().len() == dimensions(&*self.embedder);
        let vector = if is_ours { vector } else { self.vector_of(tool) };
        let analysed = Analysed { text: Arc::new(Text::of(tool)), vector };
        self.tools.insert(Arc::from(id), Arc::new(analysed));
    }

    /// As [`insert`](Self::insert) or, with a vector, as [`insert_with_vector`](Self::insert_with_vector), of a tool that
    /// another index has: its words are shared and not analysed again.
    pub fn insert_beside(&mut self, other: &Index, id: &str, tool: &ToolText, vector: Option<Vector>) {
        let Some((id, analysed)) = other.tools.get_key_value(id) else {
            return match vector {
                Some(vector) => self.insert_with_vector(id, tool, vector),
                None => self.insert(id, tool),
            };
        };
        let is_ours = |vector: &Vector| vector.values().len() == dimensions(&*self.embedder);
        let vector = vector.filter(is_ours).unwrap_or_else(|| self.vector_of(tool));
        let analysed = Analysed { text: Arc::clone(&analysed.text), vector };
        self.tools.insert(Arc::clone(id), Arc::new(analysed));
    }

    /// Forgets a tool; whether there was one.
    pub fn remove(&mut self, id: &str) -> bool {
        self.tools.remove(id).is_some()
    }

    /// The vector of a tool, to keep it.
    pub fn vector(&self, id: &str) -> Option<&Vector> {
        self.tools.get(id).map(|analysed| &analysed.vector)
    }

    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(|id| &**id)
    }

    pub fn len(&self) -> usize {
        self.tools.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// What queries are put to: the tools as they are now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::pack(Arc::clone(&self.embedder), &self.tools)
    }

    fn vector_of(&self, tool: &ToolText) -> Vector {
        Vector::new(self.embedder.tool(tool), dimensions(&*self.embedder))
    }
}

impl Default for Index {
    fn default() -> Index {
        Index::new()
    }
}

/// The words of a tool that the table's direction is made of.
pub(crate) fn bag_of(tool: &ToolText) -> Bag {
    let (first, rest) = first_sentence(&tool.description);
    let mut bag = Bag::default();
    bag.add(&tool.name, NAME);
    bag.add(first, FIRST_SENTENCE);
    bag.add(rest, DESCRIPTION);
    for parameter in &tool.parameters {
        bag.add(&parameter.name, PARAMETER_NAMES);
        bag.add(&parameter.description, PARAMETER_TEXTS);
    }
    bag.add(&tool.server, SERVER);
    bag
}

/// A text up to the first end of a sentence, and the rest.
pub(crate) fn first_sentence(text: &str) -> (&str, &str) {
    let is_end = |(i, c): &(usize, char)| {
        matches!(c, '.' | '!' | '?') && text[i + 1..].chars().next().is_none_or(char::is_whitespace)
    };
    let end = text.char_indices().find(is_end).map_or(text.len(), |(i, _)| i + 1);
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Index, ToolText, first_sentence};
    use crate::model;

    /// Vectors that users keep are of the table, the weights and the words that they were made with. Whoever changes one of
    /// these raises [`MODEL_VERSION`](crate::MODEL_VERSION), and then the numbers here.
    #[test]
    fn the_version_changes_with_the_vectors() {
        let fnv = |bytes: &[u8]| {
            bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
            })
        };
        let schema = json!({ "properties": { "pathName": { "description": "Where it is" }, "mode": {} } });
        let tools = [
            ToolText::new("files", "readTextFile", "Returns the text of a file. Not of folders!", &schema),
            ToolText::new("GitHub", "create_issue", "Opens 1 new issue", &json!({})),
            ToolText::new("größe", "搜索", "xqzzk", &json!({})),
        ];
        let mut vectors = Vec::new();
        for tool in &tools {
            let mut index = Index::new();
            index.insert("x", tool);
            vectors.extend(index.vector("x").map(|vector| vector.to_bytes()).unwrap_or_default());
        }
        let actual = (crate::MODEL_VERSION, fnv(model::bytes()), fnv(&vectors));
        assert_eq!(actual, ("pml-static-2", 0x9a5a_a154_4d3c_0a4c, 0xa139_0a19_0d24_f6a3));
    }

    #[test]
    fn the_first_sentence_ends_where_it_ends() {
        let table = [
            ("Reads a file. Then more.", "Reads a file."),
            ("Version 1.2 of it", "Version 1.2 of it"),
            ("Really? Yes", "Really?"),
            ("", ""),
            (".", "."),
        ];
        for (text, expected) in table {
            assert_eq!(first_sentence(text).0, expected);
        }
    }
}
