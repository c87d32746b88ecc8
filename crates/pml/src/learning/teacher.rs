//! Prepares traces for the model: searches for the intent of each, with the tools of one moment.

use std::{collections::HashMap, sync::Arc};

use pml_learn::{Model, Observation, Step, Tools, Update, needs_scores};
use pml_search::{Embedder as _, Mode, Table, word_hashes};
use pml_wire::ExecutionId;

use crate::trace::{
    Lesson,
    store::{Cursor, Filter, Reading, Store, StoreError},
};

/// Searches that are remembered: traces often have the same intent.
const REMEMBERED: usize = 256;
/// Traces that are read at a time.
const PAGE: usize = 200;

/// What the search says about an intent.
#[derive(Debug)]
struct Found {
    intent: Vec<f32>,
    words: Vec<u32>,
    /// `None` if nobody has asked for them.
    scores: Option<Vec<f32>>,
}

/// The tools of one moment, as lessons need them.
#[derive(Debug, Default)]
pub(super) struct Teacher {
    index: Arc<pml_search::Snapshot>,
    tools: Tools,
    found: HashMap<String, Arc<Found>>,
}

/// A trace with what the search says about its intent.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) id: ExecutionId,
    lesson: Lesson,
    found: Arc<Found>,
    tools: Tools,
}

/// Stored traces that are ready to be learned, in the order in which they were stored.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) lessons: Vec<Prepared>,
    /// Where the page ends.
    pub(super) end: Cursor,
    pub(super) is_last: bool,
}

impl Teacher {
    /// From now on these tools are searched.
    pub(super) fn set_index(&mut self, index: &Arc<pml_search::Snapshot>, tools: &Tools) {
        if !Arc::ptr_eq(&self.index, index) {
            *self = Teacher { index: Arc::clone(index), tools: tools.clone(), found: HashMap::new() };
        }
    }

    /// Reads the traces that were stored after a place and called a tool, and searches for the intents of those from which a model
    /// learns weights that has learned so many traces.
    pub(super) async fn prepare(
        &mut self,
        store: &dyn Store,
        (after, learned): (Cursor, u64),
        now_ms: u64,
    ) -> Result<Page, StoreError> {
        let page = store.list(Filter::default(), Reading::StoredAfter(after), PAGE).await?;
        let mut lessons = Vec::new();
        for summary in page.traces.iter().filter(|summary| summary.tasks > 0) {
            let trace = match store.by_id(summary.id).await {
                Ok(Some(trace)) => trace,
                // It was deleted meanwhile, or is damaged; others are not.
                Ok(None) | Err(StoreError::Damaged { .. }) => continue,
                Err(err) => return Err(err),
            };
            if let Some(lesson) = Lesson::of(trace.trace(), now_ms) {
                let found = self.find(&lesson.intent, needs_scores(learned, lesson.trace));
                lessons.push(Prepared { id: summary.id, lesson, found, tools: self.tools.clone() });
            }
        }
        Ok(Page { lessons, end: page.end, is_last: page.next.is_none() })
    }

    fn find(&mut self, intent: &str, needs_scores: bool) -> Arc<Found> {
        if let Some(found) = self.found.get(intent).filter(|found| !needs_scores || found.scores.is_some()) {
            return Arc::clone(found);
        }
        let found = Arc::new(match intent.trim().is_empty() {
            true => Found { intent: Vec::new(), words: Vec::new(), scores: Some(Vec::new()) },
            false => Found {
                intent: Table.query(intent),
                words: word_hashes(intent),
                scores: needs_scores.then(|| self.index.scores(intent, Mode::Hybrid)),
            },
        });
        if self.found.len() >= REMEMBERED {
            self.found.clear();
        }
        self.found.insert(intent.to_owned(), Arc::clone(&found));
        found
    }
}

impl Prepared {
    /// Learns from the trace. `None` if it was learned before.
    pub(super) fn teach(&self, model: &mut Model) -> Option<Update> {
        let Prepared { lesson, found, tools, .. } = self;
        let steps: Vec<Step<'_>> =
            lesson.steps.iter().map(|(tool, outcome)| Step { tool, outcome: *outcome }).collect();
        model.update(&Observation {
            trace: lesson.trace,
            time_ms: lesson.time_ms,
            caller: &lesson.caller,
            intent: &found.intent,
            words: &found.words,
            tools,
            scores: found.scores.as_deref().unwrap_or_default(),
            steps: &steps,
            forecasts: &lesson.forecasts,
            capability: lesson.capability.as_deref(),
            success: lesson.success,
        })
    }
}
