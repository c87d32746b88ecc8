//! Tools by what they are for: an index of the catalogue that follows it.
//!
//! A thread of its own ([`builder`](super::builder)) builds the index, from the first search on or earlier if it is asked
//! to, and again after every change of the catalogue and of what may be found. Until it is done the last index answers, so
//! that no search waits for a change. A search waits only for what was never indexed: at first, and when a server has listed
//! its tools for the first time.

use std::{
    collections::BTreeSet,
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pml_learn::Tools;
use pml_search::{Explanation, Hit, Mode};
use pml_wire::ToolId;
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};

use super::{
    builder::{Builder, Filter, LoadModel, Orders, Published},
    snapshot::{Catalog, Snapshot},
    tool::Tool,
    vectors::Vectors,
};

/// How long a search waits for the tools of a server that has just become known.
const CATCH_UP: Duration = Duration::from_secs(5);
/// How long the end of the thread is waited for: it may be writing.
const STOP: Duration = Duration::from_secs(2);
/// Tools that are suggested in place of one that is missing, and how well they must fit.
const SUGGESTIONS: usize = 3;
const FITTING: f32 = 0.3;

/// Searches the tools of a catalogue.
#[derive(Clone, Debug)]
pub struct Finder {
    shared: Arc<Shared>,
}

struct Shared {
    catalog: Catalog,
    orders: watch::Sender<Orders>,
    published: Published,
    work: Mutex<Work>,
}

/// What there is of the thread.
#[derive(Debug)]
enum Work {
    ToDo(Box<Builder>),
    Going(oneshot::Receiver<()>),
    Over,
}

/// The tools of one moment, ready to be searched.
#[derive(Clone, Debug, Default)]
pub struct Searchable {
    pub(super) snapshot: Arc<pml_search::Snapshot>,
    /// The same with the table, which is quick.
    pub(super) table: Arc<pml_search::Snapshot>,
    /// The tools of both, in their order.
    pub(super) tools: Tools,
    pub(super) table_tools: Tools,
    /// The servers whose tools it has.
    pub(super) servers: BTreeSet<String>,
    pub(super) stage: Stage,
}

/// What an index is made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// The table, for as long as a model works.
    Meanwhile,
    /// The table, and nothing better is to come.
    #[default]
    Table,
    /// The table and the model.
    Model,
    /// It was the last one.
    Broken,
}

/// A tool that was found.
#[derive(Clone, Debug)]
pub struct Found {
    pub tool: Arc<Tool>,
    /// How well it fits, from 0 to 1 and comparable between searches.
    pub score: f32,
    /// Why it is where it is, beside its score, in words.
    pub reasons: Vec<String>,
}

/// What is looked for, and where.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    pub query: &'a str,
    pub limit: usize,
    /// Least score.
    pub threshold: f32,
    /// The one server to look at.
    pub server: Option<&'a str>,
}

impl Finder {
    /// Of a catalogue. What is worked out is kept in `data_dir`, if there is one; the table gives tools their meaning, until
    /// what is loaded has read them.
    pub fn new(catalog: Catalog, data_dir: Option<&Path>, load_model: Option<LoadModel>) -> Finder {
        let (orders, ordered) = watch::channel(Orders { filter: Arc::new(|_| true), is_over: false });
        let published = Published::new(None);
        let vectors = Vectors::new(data_dir);
        let builder = Builder::new(catalog.subscribe(), ordered, published.clone(), vectors, load_model);
        let work = Mutex::new(Work::ToDo(Box::new(builder)));
        Finder { shared: Arc::new(Shared { catalog, orders, published, work }) }
    }

    /// From now on only these tools are indexed.
    pub fn set_filter(&self, filter: Filter) {
        self.shared.orders.send_modify(|orders| orders.filter = filter);
    }

    /// Starts to build the index, in the background. A search does so itself, and then waits.
    pub fn prepare(&self) {
        let mut work = self.shared.work.lock().unwrap_or_else(PoisonError::into_inner);
        *work = match std::mem::replace(&mut *work, Work::Over) {
            Work::ToDo(builder) => match builder.start() {
                Ok(ended) => Work::Going(ended),
                Err(err) => {
                    tracing::error!(error = %err, "no tool can be searched: there is no thread for it");
                    let broken = Searchable { stage: Stage::Broken, ..Searchable::default() };
                    self.shared.published.send_replace(Some(broken));
                    Work::Over
                }
            },
            going => going,
        };
    }

    /// Ends the thread, when what it has worked out is on disk.
    pub async fn stop(&self) {
        self.shared.orders.send_modify(|orders| orders.is_over = true);
        let work = std::mem::replace(&mut *self.shared.work.lock().unwrap_or_else(PoisonError::into_inner), Work::Over);
        if let Work::Going(ended) = work {
            let _ = timeout(STOP, ended).await;
        }
    }

    /// What can be searched: the tools as they were a moment ago, if they have changed since.
    pub async fn searchable(&self) -> Searchable {
        self.prepare();
        let has_all = |index: &Searchable| {
            let catalog = self.shared.catalog.snapshot();
            index.stage == Stage::Broken || catalog.listings().all(|listing| index.servers.contains(&listing.server))
        };
        match timeout(CATCH_UP, self.when(has_all)).await {
            Ok(index) => index,
            Err(_) => self.when(|_| true).await,
        }
    }

    /// The same when nothing better is to come, which is waited for as long: a model takes its time over many new tools.
    pub async fn settled(&self, within: Duration) -> Searchable {
        let meanwhile = self.searchable().await;
        timeout(within, self.when(|index| index.stage != Stage::Meanwhile)).await.unwrap_or(meanwhile)
    }

    /// The tools there are now, whether or not they can be searched yet.
    pub fn catalog(&self) -> Arc<Snapshot> {
        self.shared.catalog.snapshot()
    }

    /// The same as far as it is there now.
    pub fn now(&self) -> Option<Searchable> {
        self.shared.published.borrow().clone()
    }

    async fn when(&self, is_wanted: impl Fn(&Searchable) -> bool) -> Searchable {
        let mut published = self.shared.published.subscribe();
        let index = published.wait_for(|index| index.as_ref().is_some_and(&is_wanted)).await;
        // It cannot fail: we hold the sender.
        index.ok().and_then(|index| index.clone()).unwrap_or_default()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("work", &self.work).finish_non_exhaustive()
    }
}

impl Searchable {
    /// The tools of `catalog` that fit best, of those that are wanted.
    pub fn search(&self, catalog: &Snapshot, wish: Wish<'_>, is_wanted: impl Fn(&Tool) -> bool) -> Vec<Found> {
        find(catalog, wish, is_wanted, |wish, prefix, is_found| {
            self.snapshot.search_among(wish.query, wish.limit, Mode::Hybrid, prefix, is_found)
        })
    }

    /// All tools that can be found, and how well each fits a query, in the same order.
    pub fn scores(&self, query: &str) -> (&Tools, Vec<f32>) {
        (&self.tools, self.snapshot.scores(query, Mode::Hybrid))
    }

    /// The tools with the table's meaning, which takes microseconds.
    pub fn table(&self) -> &Arc<pml_search::Snapshot> {
        &self.table
    }

    /// The tools of the table, in its order.
    pub fn table_tools(&self) -> &Tools {
        &self.table_tools
    }

    /// How many tools there are, of one server or of all.
    pub fn count(&self, server: Option<&str>) -> usize {
        self.snapshot.count(&prefix(server))
    }

    /// Tools that do what a name says, of one server or of all.
    pub fn suggest(
        &self,
        catalog: &Snapshot,
        name: &str,
        server: Option<&str>,
        is_wanted: impl Fn(&Tool) -> bool,
    ) -> Vec<Found> {
        let wish = Wish { query: name, limit: SUGGESTIONS, threshold: FITTING, server };
        find(catalog, wish, is_wanted, |wish, prefix, is_found| {
            self.snapshot.search_quickly(wish.query, wish.limit, prefix, is_found)
        })
    }

    /// Is a model still to answer in the table's place?
    pub fn is_preliminary(&self) -> bool {
        self.stage == Stage::Meanwhile
    }

    /// Does a search take milliseconds?
    pub fn is_slow(&self) -> bool {
        self.stage == Stage::Model
    }

    /// Why a tool has its score.
    pub fn explain(&self, query: &str, tool: &ToolId) -> Option<Explanation> {
        self.snapshot.explain(query, tool.as_str(), Mode::Hybrid)
    }
}

/// What the ids of a server's tools begin with.
fn prefix(server: Option<&str>) -> String {
    server.map(|server| format!("{server}:")).unwrap_or_default()
}

/// The tool of an index that a catalogue still has under this id, which may by now be an alias of another.
pub fn tool_now<'c>(catalog: &'c Snapshot, id: &str) -> Option<&'c Arc<Tool>> {
    catalog.tool(&id.parse::<ToolId>().ok()?).filter(|tool| tool.id.as_str() == id)
}

fn find(
    catalog: &Snapshot,
    wish: Wish<'_>,
    is_wanted: impl Fn(&Tool) -> bool,
    search: impl FnOnce(Wish<'_>, &str, &dyn Fn(&str) -> bool) -> Vec<Hit>,
) -> Vec<Found> {
    // What was indexed may be gone by now, and an alias of another tool.
    let now = |id: &str| tool_now(catalog, id);
    let is_found = |id: &str| now(id).is_some_and(|tool| is_wanted(tool));
    let hits = search(wish, &prefix(wish.server), &is_found);
    hits.into_iter()
        .take_while(|hit| hit.score >= wish.threshold)
        .filter_map(|hit| Some(Found { tool: Arc::clone(now(&hit.id)?), score: hit.score, reasons: Vec::new() }))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use pml_search::{Embedder, ToolText};
    use pml_wire::ErrorCode;
    use serde_json::{json, value::to_raw_value};

    use super::{
        super::{
            listing::{Listing, Source},
            vectors::Vectors,
        },
        *,
    };
    use crate::error::Error;

    /// Longer than any model of these tests takes.
    const SETTLED: Duration = Duration::from_secs(60);

    fn listing(server: &str, tools: &[(&str, &str)]) -> Listing {
        let raw = |(name, description): &(&str, &str)| {
            to_raw_value(&json!({ "name": name, "description": description })).unwrap()
        };
        Listing::parse(server, tools.iter().map(raw).collect(), Source::Live)
    }

    async fn names(finder: &Finder, query: &str) -> Vec<String> {
        let index = finder.searchable().await;
        let wish = Wish { query, limit: 10, threshold: 0.2, server: None };
        let found = index.search(&finder.shared.catalog.snapshot(), wish, |_| true);
        found.iter().map(|found| found.tool.id.to_string()).collect()
    }

    /// Waits until a search gives this.
    async fn until(finder: &Finder, query: &str, expected: &[&str]) {
        let mut last = Vec::new();
        for _ in 0..500 {
            last = names(finder, query).await;
            if last == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{query}: {last:?}, not {expected:?}");
    }

    #[tokio::test]
    async fn the_index_follows_the_catalogue() {
        let catalog = Catalog::new(["mail", "disk"].map(str::to_owned));
        let finder = Finder::new(catalog.clone(), None, None);
        assert!(names(&finder, "send a mail").await.is_empty());
        // What was never indexed is waited for.
        catalog.update(listing("mail", &[("send", "Sends a mail")]));
        assert_eq!(names(&finder, "send a mail").await, ["mail:send"]);
        catalog.update(listing("disk", &[("read_file", "Reads a file")]));
        assert_eq!(names(&finder, "read a file").await, ["disk:read_file"]);

        // A tool that is gone is not shown, even before the index knows.
        catalog.update(listing("mail", &[("archive", "Puts a mail away")]));
        assert!(!names(&finder, "send a mail").await.contains(&"mail:send".to_owned()));
        until(&finder, "put the mail away", &["mail:archive"]).await;
        // One that is told differently is found by what it is now.
        catalog.update(listing("disk", &[("read_file", "Forecasts the weather")]));
        until(&finder, "weather forecast", &["disk:read_file"]).await;
        catalog.remove("disk");
        until(&finder, "weather forecast", &[]).await;
    }

    #[tokio::test]
    async fn what_was_worked_out_is_kept_for_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let tools = [("read_file", "Reads a file"), ("send", "Sends a mail")];
        let vectors = || fs::read_dir(folder.path().join("search")).map_or(0, Iterator::count);
        for round in 0..2 {
            let catalog = Catalog::new(["s".to_owned()]);
            catalog.update(listing("s", &tools));
            let finder = Finder::new(catalog, Some(folder.path()), None);
            assert_eq!(names(&finder, "read a file").await, ["s:read_file"], "{round}");
            finder.stop().await;
            assert_eq!(vectors(), 1);
        }
        // What is on disk is used: with another tool's vector, another tool is found.
        let catalog = Catalog::new(["s".to_owned()]);
        catalog.update(listing("s", &tools));
        let snapshot = catalog.snapshot();
        let [read, send] = ["s:read_file", "s:send"].map(|id| snapshot.tool(&id.parse().unwrap()).unwrap());
        let store = Vectors::new(Some(folder.path()));
        let known = store.load("s", &pml_search::Table);
        let swapped = [(&**read, known.get(send).unwrap()), (&**send, known.get(read).unwrap())];
        store.save("s", &pml_search::Table, swapped.into_iter()).unwrap();
        let finder = Finder::new(catalog, Some(folder.path()), None);
        let index = finder.searchable().await;
        let meaning = |tool: &str| index.explain("look into a document", &tool.parse().unwrap()).unwrap().hit.meaning;
        assert!(meaning("s:send") > meaning("s:read_file"));
    }

    /// Gives every tool the same direction, after a while; or fails.
    #[derive(Debug)]
    struct Slow {
        fails_at: Option<&'static str>,
        asked: Arc<AtomicUsize>,
    }

    impl Embedder for Slow {
        fn version(&self) -> &str {
            "slow"
        }

        fn dimensions(&self) -> usize {
            8
        }

        fn tool(&self, tool: &ToolText) -> Vec<f32> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            assert!(!self.fails_at.is_some_and(|text| format!("{tool:?}").contains(text)), "as the test wants");
            std::thread::sleep(Duration::from_millis(2));
            vec![1.0]
        }

        fn query(&self, _: &str) -> Vec<f32> {
            vec![1.0]
        }
    }

    fn many(server: &str, count: usize) -> Listing {
        let names: Vec<_> = (0..count).map(|number| format!("tool_{number}")).collect();
        listing(server, &names.iter().map(|name| (name.as_str(), "Does something")).collect::<Vec<_>>())
    }

    fn slow(fails_at: Option<&'static str>) -> (LoadModel, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let model = Slow { fails_at, asked: Arc::clone(&asked) };
        (Box::new(move || Ok(Arc::new(model))), asked)
    }

    #[tokio::test]
    async fn the_table_answers_until_a_stronger_model_does() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::new(["a", "b"].map(str::to_owned));
        catalog.update(many("a", 200));
        let (load, asked) = slow(None);
        let finder = Finder::new(catalog.clone(), Some(folder.path()), Some(load));
        assert_eq!(finder.searchable().await.stage, Stage::Meanwhile);
        let settled = finder.settled(SETTLED).await;
        assert_eq!((settled.stage, asked.load(Ordering::SeqCst)), (Stage::Model, 200));
        // Many new tools can be searched at once, few when the model knows them.
        catalog.update(many("b", 300));
        let both = finder.searchable().await;
        assert!(both.stage == Stage::Meanwhile && both.servers.len() == 2, "{:?}", both.stage);
        assert_eq!(finder.settled(SETTLED).await.stage, Stage::Model);
        catalog.update(many("b", 310));
        assert_eq!(finder.searchable().await.stage, Stage::Model);
        finder.stop().await;

        // What was worked out is there for the next process, also if it was ended half-way.
        let (load, asked) = slow(None);
        let finder = Finder::new(catalog.clone(), Some(folder.path()), Some(load));
        finder.settled(SETTLED).await;
        assert!(asked.load(Ordering::SeqCst) <= 10, "{asked:?}");
        catalog.update(many("a", 1000));
        while finder.searchable().await.stage == Stage::Model {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        finder.stop().await;
        let done = asked.load(Ordering::SeqCst);
        let (load, asked) = slow(None);
        let finder = Finder::new(catalog, Some(folder.path()), Some(load));
        finder.settled(SETTLED).await;
        assert!(done < 800 && done + asked.load(Ordering::SeqCst) <= 820, "{done} and {asked:?}");
    }

    #[tokio::test]
    async fn a_model_that_cannot_be_used_leaves_the_table() {
        let missing: LoadModel = Box::new(|| Err(Error::new(ErrorCode::ConfigInvalid, "there is none")));
        let loads: [LoadModel; 3] = [missing, Box::new(|| panic!("as the test wants")), slow(Some("read_file")).0];
        for load in loads {
            let catalog = Catalog::new(["s".to_owned()]);
            catalog.update(listing("s", &[("read_file", "Reads a file")]));
            let finder = Finder::new(catalog.clone(), None, Some(load));
            assert_eq!(finder.settled(SETTLED).await.stage, Stage::Table);
            assert_eq!(names(&finder, "look into a document").await, ["s:read_file"]);
            // And goes on to.
            catalog.update(listing("s", &[("send_mail", "Sends a mail")]));
            until(&finder, "send a mail", &["s:send_mail"]).await;
        }
    }

    /// As a command that is over after one search: it waits a moment, and what was read by then is not read again.
    #[tokio::test]
    async fn what_a_model_has_read_is_kept_when_nobody_waits_for_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let (mut read, mut preliminary) = (0, 0);
        for _ in 0..300 {
            let catalog = Catalog::new(["a".to_owned()]);
            catalog.update(many("a", 300));
            let (load, asked) = slow(None);
            let finder = Finder::new(catalog, Some(folder.path()), Some(load));
            let index = finder.settled(Duration::from_millis(100)).await;
            assert_eq!(index.count(None), 300);
            finder.stop().await;
            read += asked.load(Ordering::SeqCst);
            if !index.is_preliminary() {
                break;
            }
            preliminary += 1;
        }
        assert!(preliminary > 1, "{preliminary}");
        assert_eq!(read, 300);
    }

    #[tokio::test]
    async fn only_what_may_be_found_is_indexed() {
        let catalog = Catalog::new(["s".to_owned()]);
        catalog.update(listing("s", &[("send", "Sends a mail"), ("secret", "Opens the zanzibarian vault")]));
        let finder = Finder::new(catalog.clone(), None, None);
        finder.set_filter(Arc::new(|id| id.tool() != "secret"));
        let index = finder.searchable().await;
        let explained = index.explain("zanzibarlan", &"s:send".parse().unwrap()).unwrap();
        assert!(!format!("{explained:?}").contains("zanzibarian"), "a word of a tool that may not be found");
        assert!(index.explain("vault", &"s:secret".parse().unwrap()).is_none());
        finder.set_filter(Arc::new(|_| true));
        until(&finder, "zanzibarian vault", &["s:secret"]).await;
    }

    #[tokio::test]
    async fn a_tool_that_is_gone_is_not_shown_by_its_alias() {
        let catalog = Catalog::new(["s".to_owned()]);
        catalog.update(listing("s", &[("readFile", "Reads a file")]));
        let finder = Finder::new(catalog.clone(), None, None);
        let index = finder.searchable().await;
        catalog.update(listing("s", &[("read-file", "Reads a file")]));
        let wish = Wish { query: "read a file", limit: 10, threshold: 0.0, server: Some("s") };
        assert!(index.search(&catalog.snapshot(), wish, |_| true).is_empty());
    }
}
