//! What keeps the index of the search like the catalogue, on a thread of its own.
//!
//! Only tools that may be called are in it, and only those that are new or described anew are worked on. Beside the table
//! a model reads tools, the small encoder that is compiled in or a stronger one. Then there are two indexes, which share the
//! words of tools: the table's, which is there at once, and that of both, which takes its time and then answers in its place.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fmt, io, panic,
    sync::Arc,
    thread,
};

use pml_learn::Tools;
use pml_search::{Embedder, Index, Table, ToolText, Vector};
use pml_wire::{ErrorCode, ToolId};
use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
};

use super::{
    finder::{Searchable, Stage},
    snapshot::Snapshot,
    tool::Tool,
    vectors::Vectors,
};
use crate::error::Error;

/// New tools that a stronger model is waited for before they can be searched: a second or two of work.
const SOON: usize = 50;

/// Loads what gives tools their meaning in the end.
pub type LoadModel = Box<dyn FnOnce() -> Result<Arc<dyn Embedder>, Error> + Send>;

/// Says which tools may be found.
pub type Filter = Arc<dyn Fn(&ToolId) -> bool + Send + Sync>;

/// What the thread is told.
#[derive(Clone)]
pub(super) struct Orders {
    pub(super) filter: Filter,
    pub(super) is_over: bool,
}

/// Where the thread tells what can be searched; nothing before the first index.
pub(super) type Published = watch::Sender<Option<Searchable>>;

pub(super) struct Builder {
    changes: watch::Receiver<Arc<Snapshot>>,
    orders: watch::Receiver<Orders>,
    published: Published,
    vectors: Vectors,
    table: Indexer,
    /// A model that is still to be loaded.
    load_model: Option<LoadModel>,
    model: Option<Indexer>,
    was_interrupted: bool,
}

impl Builder {
    pub(super) fn new(
        changes: watch::Receiver<Arc<Snapshot>>,
        orders: watch::Receiver<Orders>,
        published: Published,
        vectors: Vectors,
        load_model: Option<LoadModel>,
    ) -> Builder {
        let table = Indexer::new(Arc::new(Table), vectors.clone());
        Builder { changes, orders, published, vectors, table, load_model, model: None, was_interrupted: false }
    }

    /// Runs, on a thread of its own, until it is told that it is over or nobody is left to tell. Then the receiver hears.
    pub(super) fn start(self) -> io::Result<oneshot::Receiver<()>> {
        let (ends, ended) = oneshot::channel();
        let runtime = Handle::current();
        let work = move || {
            self.run(&runtime);
            drop(ends);
        };
        thread::Builder::new().name("search".to_owned()).spawn(work)?;
        Ok(ended)
    }

    fn run(mut self, runtime: &Handle) {
        while !self.orders.borrow().is_over {
            let built = panic::catch_unwind(panic::AssertUnwindSafe(|| self.build()));
            if built.is_err() {
                tracing::error!("the tools cannot be indexed any more: this is a fault of pml");
                self.published.send_modify(|current| current.get_or_insert_default().stage = Stage::Broken);
                return;
            }
            let (changes, orders) = (&mut self.changes, &mut self.orders);
            let changed = runtime.block_on(async {
                tokio::select! {
                    changed = changes.changed() => changed,
                    changed = orders.changed() => changed,
                }
            });
            if changed.is_err() {
                return;
            }
        }
    }

    /// Brings what can be searched up to the catalogue and what may be found of it.
    fn build(&mut self) {
        let catalog = Arc::clone(&self.changes.borrow_and_update());
        let filter = Arc::clone(&self.orders.borrow_and_update().filter);
        self.table.update(&catalog, &filter, None, || false);
        let has_model = self.load_model.is_some() || self.model.is_some();
        let is_answered_soon =
            !self.was_interrupted && self.model.as_ref().is_some_and(|model| model.unknown(&catalog, &filter) <= SOON);
        if !is_answered_soon {
            self.publish(&catalog, if has_model { Stage::Meanwhile } else { Stage::Table });
        }
        // After the tools can be searched: nobody waits for the disk.
        self.table.save(&catalog);
        if has_model {
            // Code of others, on files of others.
            let built = panic::catch_unwind(panic::AssertUnwindSafe(|| self.build_with_model(&catalog, &filter)));
            let built = built.unwrap_or_else(|_| Err(Error::new(ErrorCode::ConfigInvalid, "the model fails")));
            if let Err(err) = built {
                self.model = None;
                tracing::warn!(hint = err.hint, "{err}; tools are found with the built-in table");
                self.publish(&catalog, Stage::Table);
            }
        }
    }

    fn build_with_model(&mut self, catalog: &Snapshot, filter: &Filter) -> Result<(), Error> {
        if let Some(load) = self.load_model.take() {
            self.model = Some(Indexer::new(load()?, self.vectors.clone()));
        }
        let Some(model) = &mut self.model else { return Ok(()) };
        let (changes, orders) = (&self.changes, &self.orders);
        let is_outdated = || [changes.has_changed(), orders.has_changed()].into_iter().any(|news| news.unwrap_or(true));
        let is_whole = model.update(catalog, filter, Some(&self.table.index), is_outdated);
        model.save(catalog);
        self.was_interrupted = !is_whole;
        if is_whole {
            self.publish(catalog, Stage::Model);
        }
        Ok(())
    }

    fn publish(&mut self, catalog: &Snapshot, stage: Stage) {
        let (table, table_tools) = self.table.packed();
        let (snapshot, tools) = match (&mut self.model, stage) {
            (Some(model), Stage::Model) => model.packed(),
            _ => (Arc::clone(&table), table_tools.clone()),
        };
        let servers = catalog.listings().map(|listing| listing.server.clone()).collect();
        self.published.send_replace(Some(Searchable { snapshot, table, tools, table_tools, servers, stage }));
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

/// An index, and what it is of.
struct Indexer {
    index: Index,
    vectors: Vectors,
    /// What each tool that is indexed was said to be.
    hashes: HashMap<ToolId, String>,
    /// Servers of whose tools more is known than is on disk.
    unsaved: BTreeSet<String>,
    /// The index as queries are put to it, until it changes: a server that lists the same tools again changes nothing.
    packed: Option<(Arc<pml_search::Snapshot>, Tools)>,
}

impl Indexer {
    fn new(embedder: Arc<dyn Embedder>, vectors: Vectors) -> Indexer {
        let (hashes, unsaved) = (HashMap::new(), BTreeSet::new());
        Indexer { index: Index::with(embedder), vectors, hashes, unsaved, packed: None }
    }

    fn packed(&mut self) -> (Arc<pml_search::Snapshot>, Tools) {
        let pack = || {
            let snapshot = self.index.snapshot();
            let tools = Tools::new(snapshot.ids().iter().cloned());
            (Arc::new(snapshot), tools)
        };
        self.packed.get_or_insert_with(pack).clone()
    }

    fn is_known(&self, tool: &Tool) -> bool {
        self.hashes.get(&tool.id) == Some(&tool.hash)
    }

    /// How many tools are not indexed.
    fn unknown(&self, catalog: &Snapshot, filter: &Filter) -> usize {
        catalog.tools().filter(|tool| filter(&tool.id) && !self.is_known(tool)).count()
    }

    /// Brings the index up to the catalogue, unless it is interrupted. Is it up to it? Words are shared with the index
    /// `beside` it, if there is one.
    fn update(
        &mut self,
        catalog: &Snapshot,
        filter: &Filter,
        beside: Option<&Index>,
        is_interrupted: impl Fn() -> bool,
    ) -> bool {
        let wanted: HashSet<&ToolId> = catalog.tools().map(|tool| &tool.id).filter(|id| filter(id)).collect();
        for id in self.hashes.extract_if(|id, _| !wanted.contains(id)) {
            self.index.remove(id.0.as_str());
            self.packed = None;
        }
        for listing in catalog.listings() {
            let is_new = |tool: &&Arc<Tool>| wanted.contains(&tool.id) && !self.is_known(tool);
            let fresh: Vec<_> = listing.tools.values().filter(is_new).collect();
            if fresh.is_empty() {
                continue;
            }
            let kept = self.vectors.load(&listing.server, &**self.index.embedder());
            // What was kept comes first: whoever is interrupted then saves it again, and loses nothing.
            let (known, unknown): (Vec<_>, Vec<_>) = fresh.into_iter().partition(|tool| kept.get(tool).is_some());
            for tool in known {
                self.insert(tool, beside, kept.get(tool).cloned());
            }
            for tool in unknown {
                if is_interrupted() {
                    return false;
                }
                self.unsaved.insert(listing.server.clone());
                self.insert(tool, beside, None);
            }
        }
        true
    }

    fn insert(&mut self, tool: &Tool, beside: Option<&Index>, vector: Option<Vector>) {
        self.packed = None;
        let id = tool.id.as_str();
        match (beside, vector) {
            (Some(beside), vector) => self.index.insert_beside(beside, id, &text(tool), vector),
            (None, Some(vector)) => self.index.insert_with_vector(id, &text(tool), vector),
            (None, None) => self.index.insert(id, &text(tool)),
        }
        self.hashes.insert(tool.id.clone(), tool.hash.clone());
    }

    /// Keeps what was worked out, in place of what was kept of these servers.
    fn save(&mut self, catalog: &Snapshot) {
        for server in std::mem::take(&mut self.unsaved) {
            let tools = catalog.listing(&server).into_iter().flat_map(|listing| listing.tools.values());
            let known = tools.filter(|tool| self.is_known(tool));
            let vectors = known.filter_map(|tool| Some((&**tool, self.index.vector(tool.id.as_str())?)));
            if let Err(err) = self.vectors.save(&server, &**self.index.embedder(), vectors) {
                tracing::debug!(server, error = %err, "what the search knows of its tools cannot be kept");
            }
        }
    }
}

fn text(tool: &Tool) -> ToolText {
    ToolText::new(tool.id.server(), tool.id.tool(), tool.description.as_deref().unwrap_or_default(), &tool.input_schema)
}
