//! What was learned at one moment, as searches use it.

use std::{borrow::Cow, sync::Arc};

use pml_learn::{EdgeKind, Learned, Purpose, Query, Ranked, Settings, Shared, Task, Tools};
use pml_search::{Embedder as _, Table, word_hashes};
use pml_wire::message::MissingProperty;

use super::missing::hint;
use crate::{
    catalog::Tool,
    hub::document,
    trace::{LearnedType, Shapes},
};

/// Tools that have to do with another, and how much they must.
const LEAST_STRENGTH: f64 = 0.15;
const LEAST_COUNT: u32 = 2;

/// What was learned at one moment. Reading it waits for nothing.
#[derive(Debug)]
pub struct View {
    pub(super) learned: Learned,
    pub(super) shapes: Shapes,
    /// What others have learned, and the shapes of results that they have seen.
    pub(super) others: Option<Arc<Shared>>,
    pub(super) shapes_of_others: Arc<Shapes>,
    pub(super) is_on: bool,
}

/// A tool that is used with another.
#[derive(Clone, Debug, PartialEq)]
pub struct Related {
    pub tool: String,
    /// How, in words.
    pub how: &'static str,
    pub count: u32,
}

impl View {
    /// Nothing was learned.
    pub fn nothing() -> View {
        View {
            learned: Learned::new(settings()),
            shapes: Shapes::default(),
            others: None,
            shapes_of_others: Arc::default(),
            is_on: false,
        }
    }

    /// What was learned, if it is used.
    pub fn learned(&self) -> Option<&Learned> {
        self.is_on.then_some(&self.learned)
    }

    /// Does it change the order of a search?
    pub fn ranks(&self, purpose: Purpose, has_prefix: bool) -> bool {
        let task = if has_prefix && purpose == Purpose::Suggestion { Task::Next } else { Task::Set };
        self.is_on && (self.learned.is_used(task) || self.others.is_some())
    }

    /// Ranks tools for a request, given what was called so far; `scores` are those of the search.
    pub fn rank(
        &self,
        (purpose, request, after): (Purpose, &str, &[String]),
        (tools, scores): (&Tools, &[f32]),
        limit: usize,
        is_wanted: impl Fn(usize, f32) -> bool,
    ) -> Vec<Ranked> {
        let prefix: Vec<&str> = after.iter().map(String::as_str).collect();
        let (intent, words) = (Table.query(request), word_hashes(request));
        let query = Query { purpose, intent: &intent, words: &words, prefix: &prefix, tools, scores };
        let others = self.others.as_deref().filter(|_| self.is_on);
        self.learned.rank_with(others, &query, limit, is_wanted)
    }

    /// Tools that are used with one, strongest first.
    pub fn related(&self, tool: &str, limit: usize) -> Vec<Related> {
        if !self.is_on {
            return Vec::new();
        }
        let related = self.learned.related(tool, limit).into_iter();
        let strong = related.filter(|other| other.strength >= LEAST_STRENGTH && other.count >= LEAST_COUNT);
        strong
            .map(|other| Related {
                tool: other.tool.to_string(),
                how: if other.kind == EdgeKind::Sequence { "often used next" } else { "often used together" },
                count: other.count,
            })
            .collect()
    }

    /// What a tool returns, for one that does not say so itself.
    pub fn result_type(&self, tool: &Tool) -> Option<LearnedType> {
        if !self.is_on || tool.output_schema.is_some() {
            return None;
        }
        self.shapes.learned(&self.shapes_of_others, tool.id.as_str(), &tool.hash)
    }

    /// What to read in place of a property that one result of a tool does not have, by the other results.
    pub fn missing_property(&self, tool: &Tool, missing: &MissingProperty) -> Option<String> {
        let LearnedType { schema, results, .. } = self.result_type(tool)?;
        hint(&schema, results, missing)
    }

    /// How programs call a tool, with a result type that was learned if the tool does not say what it returns.
    pub fn signature<'t>(view: Option<&View>, tool: &'t Tool) -> Cow<'t, str> {
        match view.and_then(|view| view.result_type(tool)) {
            Some(learned) => Cow::Owned(tool.signature_with(&learned.schema, &learned.source())),
            None => Cow::Borrowed(tool.signature()),
        }
    }

    /// How many traces of others are believed.
    pub fn others(&self) -> f64 {
        self.others.as_ref().map_or(0.0, |others| others.evidence())
    }

    /// What others may know: the document of [`Document`](document::Document).
    pub fn to_document(&self) -> Option<Vec<u8>> {
        let learned = self.learned()?;
        Some(document::write(&learned.to_shared(None), &self.shapes.to_tell()))
    }

    /// Tools whose results have a learned type.
    pub fn types(&self) -> usize {
        self.shapes.len()
    }
}

/// How models of this program learn.
pub(super) fn settings() -> Settings {
    Settings { dimensions: Table.dimensions(), ..Settings::default() }
}
