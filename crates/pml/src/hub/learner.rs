//! What a hub has learned from the traces of one project, for its gateways.
//!
//! The model of a scope is made of the traces of that scope alone, when it is first asked for, and brought up to date when it is
//! asked for again. A hub knows no descriptions of tools, so it learns what was used for what, and no weights: those, and the
//! shapes of results, are what its gateways [contribute](super::contributions).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pml_learn::{Model, Observation, Settings, Step, Tools};
use pml_search::{Embedder as _, Table, word_hashes};
use tokio::{
    sync::Mutex as AsyncMutex,
    time::{Instant, timeout},
};

use super::{
    contributions::{Contributions, Together},
    document,
    store::Models,
};
use crate::{
    clock::now_millis,
    digest::sha256,
    trace::{
        Lesson, SanitizedTrace,
        store::{Cursor, Filter, Reading, Scope, Store, StoreError},
    },
};

/// The name under which a model is stored.
const NAME: &str = "learned";
/// Traces that are read at a time.
const PAGE: usize = 200;
/// How long one request goes on learning; the next one goes on from there.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a document is served before traces that came since are learned.
const FRESH: Duration = Duration::from_secs(20);
/// Scopes whose models are in memory.
const SCOPES: usize = 32;

/// What all scopes have learned.
#[derive(Debug, Default)]
pub(super) struct Learner(Mutex<HashMap<Scope, Arc<AsyncMutex<OfScope>>>>);

/// What was learned from the traces of one scope.
#[derive(Debug, Default)]
struct OfScope {
    /// Absent before the first request, and after one that was cut off.
    class: Option<Class>,
    document: Option<Document>,
    /// What gateways have contributed, and the tag of that.
    contributed: Together,
    contributed_tag: Option<String>,
    /// When everything that was stored was learned.
    made_at: Option<Instant>,
}

/// A model, and up to which place of the store it has learned.
#[derive(Debug)]
struct Class {
    model: Box<Model>,
    cursor: Cursor,
}

/// What gateways get.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) etag: String,
    pub(super) bytes: Arc<[u8]>,
}

impl Learner {
    /// The document of a scope; `None` if nothing was learned.
    pub(super) async fn document(
        &self,
        scope: &Scope,
        store: Arc<dyn Store>,
        models: Arc<dyn Models>,
    ) -> Result<Option<Document>, StoreError> {
        let of_scope = self.of(scope);
        let mut of_scope = of_scope.lock().await;
        if of_scope.made_at.is_none_or(|made| made.elapsed() > FRESH) {
            of_scope.refresh(&*store, &*models).await?;
        }
        Ok(of_scope.document.clone())
    }

    /// The next document of a scope is made anew: a gateway has contributed to it.
    pub(super) async fn renew(&self, scope: &Scope) {
        let of_scope = self.of(scope);
        // If it is being made for long, it is looked at again soon enough.
        if let Ok(mut of_scope) = timeout(Duration::from_secs(1), of_scope.lock()).await {
            of_scope.made_at = None;
        }
    }

    fn of(&self, scope: &Scope) -> Arc<AsyncMutex<OfScope>> {
        let mut scopes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !scopes.contains_key(scope) && scopes.len() >= SCOPES {
            scopes.clear(); // they are stored
        }
        Arc::clone(scopes.entry(scope.clone()).or_default())
    }
}

impl OfScope {
    /// Learns what was stored since, for a while, and makes the document anew if that was anything.
    async fn refresh(&mut self, store: &dyn Store, models: &dyn Models) -> Result<(), StoreError> {
        let until = Instant::now() + PATIENCE;
        let mut class = match self.class.take() {
            Some(class) => class,
            None => models.get(NAME).await?.and_then(|stored| Class::read(&stored.bytes)).unwrap_or_default(),
        };
        let before = class.traces();
        let mut is_done = false;
        while !is_done && Instant::now() < until {
            let page = store.list(Filter::default(), Reading::StoredAfter(class.cursor), PAGE).await?;
            let mut traces = Vec::new();
            for summary in page.traces.iter().filter(|summary| summary.tasks > 0) {
                match store.by_id(summary.id).await {
                    Ok(trace) => traces.extend(trace),
                    // Others are not.
                    Err(StoreError::Damaged { .. }) => {}
                    Err(err) => return Err(err),
                }
            }
            // Up to a millisecond for each.
            let taught = tokio::task::spawn_blocking(move || {
                traces.iter().for_each(|trace| class.teach(trace));
                class
            });
            class = taught.await.map_err(|err| StoreError::Failed { doing: "learned", source: err.into() })?;
            class.cursor = page.end;
            is_done = page.next.is_none();
        }
        let has_news = self.take_contributions(models).await?;
        if class.traces() != before || has_news || self.document.is_none() {
            let has_any = class.traces() > 0 || !self.contributed.shapes.is_empty();
            self.document = has_any.then(|| class.document(&self.contributed));
            if class.traces() != before {
                models.put(NAME, class.write(), None).await?;
            }
        }
        self.class = Some(class);
        self.made_at = (is_done && self.document.is_some()).then(Instant::now);
        Ok(())
    }

    /// Reads what gateways have contributed, if that has changed; whether it has.
    async fn take_contributions(&mut self, models: &dyn Models) -> Result<bool, StoreError> {
        if Contributions::tag(models).await? == self.contributed_tag {
            return Ok(false);
        }
        let (contributions, tag) = Contributions::stored(models).await?;
        (self.contributed, self.contributed_tag) = (contributions.together(), tag);
        Ok(true)
    }
}

impl Default for Class {
    fn default() -> Class {
        Class { model: Box::new(Model::new(settings())), cursor: Cursor::default() }
    }
}

impl Class {
    fn traces(&self) -> u64 {
        self.model.learned().status().traces
    }

    fn teach(&mut self, trace: &SanitizedTrace) {
        let Some(lesson) = Lesson::of(trace.trace(), now_millis()) else { return };
        let steps: Vec<Step<'_>> =
            lesson.steps.iter().map(|(tool, outcome)| Step { tool, outcome: *outcome }).collect();
        self.model.update(&Observation {
            trace: lesson.trace,
            time_ms: lesson.time_ms,
            caller: &lesson.caller,
            intent: &Table.query(&lesson.intent),
            words: &word_hashes(&lesson.intent),
            tools: &Tools::default(),
            scores: &[],
            steps: &steps,
            forecasts: &[],
            capability: lesson.capability.as_deref(),
            success: lesson.success,
        });
    }

    fn document(&self, contributed: &Together) -> Document {
        let model = self.model.learned().to_shared(contributed.weights.as_ref());
        let bytes = document::write(&model, &contributed.shapes);
        Document { etag: sha256(&bytes), bytes: bytes.into() }
    }

    /// The place in the store, a line break, and the model, which checks itself.
    fn write(&self) -> Vec<u8> {
        let mut bytes = self.cursor.to_string().into_bytes();
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.model.to_bytes());
        bytes
    }

    /// `None` if it is not what this program writes; then it is learned again.
    fn read(bytes: &[u8]) -> Option<Class> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let cursor = str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
        let model = Model::from_bytes(&bytes[end + 1..], settings()).ok()?;
        Some(Class { model: Box::new(model), cursor })
    }
}

/// How models of this program learn.
pub(super) fn settings() -> Settings {
    Settings { dimensions: Table.dimensions(), ..Settings::default() }
}
