//! Has the model learn: searches for the intent of a trace, and puts both together.

use std::{collections::HashMap, sync::Arc};

use pml_learn::{Model, Observation, Step, Tools, Update};
use pml_search::{Embedder as _, Mode, Table, word_hashes};

use crate::trace::Lesson;

/// Searches that are remembered: traces often have the same intent.
const REMEMBERED: usize = 256;

/// What the search says about an intent.
#[derive(Debug)]
struct Found {
    intent: Vec<f32>,
    words: Vec<u32>,
    scores: Vec<f32>,
}

/// The tools of one moment, as lessons need them.
#[derive(Debug, Default)]
pub(super) struct Teacher {
    index: Arc<pml_search::Snapshot>,
    tools: Tools,
    found: HashMap<String, Arc<Found>>,
}

impl Teacher {
    /// From now on these tools are searched.
    pub(super) fn set_index(&mut self, index: &Arc<pml_search::Snapshot>, tools: &Tools) {
        if !Arc::ptr_eq(&self.index, index) {
            *self = Teacher { index: Arc::clone(index), tools: tools.clone(), found: HashMap::new() };
        }
    }

    /// Learns from a trace. `None` if it was learned before.
    pub(super) fn teach(&mut self, model: &mut Model, lesson: &Lesson) -> Option<Update> {
        if model.has_seen(lesson.trace) {
            return None;
        }
        let found = self.find(&lesson.intent);
        let steps: Vec<Step<'_>> =
            lesson.steps.iter().map(|(tool, outcome)| Step { tool, outcome: *outcome }).collect();
        model.update(&Observation {
            trace: lesson.trace,
            time_ms: lesson.time_ms,
            caller: &lesson.caller,
            intent: &found.intent,
            words: &found.words,
            tools: &self.tools,
            scores: &found.scores,
            steps: &steps,
            capability: lesson.capability.as_deref(),
            success: lesson.success,
        })
    }

    fn find(&mut self, intent: &str) -> Arc<Found> {
        if let Some(found) = self.found.get(intent) {
            return Arc::clone(found);
        }
        let found = Arc::new(match intent.trim().is_empty() {
            true => Found { intent: Vec::new(), words: Vec::new(), scores: Vec::new() },
            false => Found {
                intent: Table.query(intent),
                words: word_hashes(intent),
                scores: self.index.scores(intent, Mode::Hybrid),
            },
        });
        if self.found.len() >= REMEMBERED {
            self.found.clear();
        }
        self.found.insert(intent.to_owned(), Arc::clone(&found));
        found
    }
}
