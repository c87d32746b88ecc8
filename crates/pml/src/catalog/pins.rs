//! What each tool was when it was first seen, on disk, so that a tool that changes later is noticed.
//!
//! One file per server, named after what the server is: another command or address is another server. A tool is pinned
//! when it is first listed. What a server lists later is compared with the pin, also after the tool was gone for a while
//! and in other processes; the pin stays until somebody accepts the change, and what the tool has become is kept beside
//! it. Processes that share a folder see each other's pins, changes and acceptances. Without a folder, pins last as long
//! as the process.
//!
//! **Invariant:** a pin is replaced by [`Pins::accept`] and by nothing else.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{self, TryLockError},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    thread,
    time::{Duration, SystemTime},
};

use pml_wire::ToolId;
use serde::{Deserialize, Serialize};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use super::{
    files,
    listing::{Listing, Source},
    tool::Tool,
};
use crate::{
    clock::now_millis,
    digest::sha256,
    files::{Kind, append, make_folder},
};

/// Format of the files. Others are not read.
const FORMAT: u32 = 1;
/// Most tools of one server that are pinned. A list has no more.
const MAX_TOOLS: usize = 20_000;
/// Longest form that is kept whole, and all forms of a server together. Of others only the digest is kept: a change is
/// noticed, but what it was before cannot be shown.
const MAX_FORM_BYTES: usize = 64 * 1024;
const MAX_FORMS_BYTES: usize = 16 * 1024 * 1024;
/// Longest file that is read.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// What a server says about a tool that is no part of what the tool is: its name is its key, and the others are for
/// programs and eyes.
const LEFT_OUT: [&str; 3] = ["name", "_meta", "icons"];

/// How often, and how far apart, it is tried to lock a file that another process writes.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(40);

/// The pins of all servers. Clones share them.
#[derive(Clone, Debug)]
pub struct Pins {
    folder: Option<PathBuf>,
    servers: Arc<RwLock<HashMap<String, Arc<Entry>>>>,
}

/// One server.
#[derive(Debug, Default)]
struct Entry {
    /// Held while files are read and written.
    known: Mutex<Server>,
    /// The tools that differed from their pins when it was last looked: a call asks here first, and waits for nothing.
    suspects: RwLock<BTreeSet<String>>,
}

impl Entry {
    fn known(&self) -> MutexGuard<'_, Server> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_suspect(&self, tool: &str) -> bool {
        self.suspects.read().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }

    /// Makes what is now known to have changed what calls ask about.
    fn publish(&self, known: &Server) {
        let suspects = known.changed.keys().cloned().collect();
        *self.suspects.write().unwrap_or_else(PoisonError::into_inner) = suspects;
    }
}

/// A tool that is not what it was when it was first seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub tool: ToolId,
    /// What differs, such as `description` and `inputSchema`; empty if that is not known.
    pub parts: Vec<String>,
    /// When the tool was first seen, and when it was first seen to differ, in milliseconds since 1970.
    pub first_seen: u64,
    pub changed_at: u64,
    /// Digests of what the server said and says about it.
    pub before_sha256: String,
    pub after_sha256: String,
    /// What the server said about it, and what it says now; `None` if that was too much to keep.
    pub before: Option<Value>,
    pub after: Option<Value>,
}

impl Change {
    /// One line for whoever is about to use the tool.
    pub fn line(tool: &ToolId) -> String {
        format!("`{tool}` has changed since it was first seen; `pml tools --changed` shows how")
    }
}

/// What is known of one server.
#[derive(Debug, Default)]
struct Server {
    path: Option<PathBuf>,
    /// The file as it was when it was read.
    stamp: Option<Stamp>,
    pins: BTreeMap<String, Pin>,
    /// The tools that differ from their pins now.
    changed: BTreeMap<String, Change>,
}

/// What changes when a file does.
type Stamp = (SystemTime, u64, u64);

#[derive(Deserialize, Serialize)]
struct File {
    format: u32,
    server: String,
    tools: BTreeMap<String, Pin>,
}

/// A tool as it was first seen.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Pin {
    first_seen: u64,
    /// Of the text that the server sent: as long as that is the same, nothing else needs to be looked at.
    text_sha256: String,
    /// Of the form, see [`form`].
    sha256: String,
    form: Option<Box<RawValue>>,
    /// What the tool is now, if that is something else.
    changed: Option<Changed>,
}

/// What a tool has become.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Changed {
    at: u64,
    sha256: String,
    form: Option<Box<RawValue>>,
}

/// What a comparison found.
#[derive(Default)]
struct PinComparison {
    /// Tools that have no pin.
    fresh: Vec<Arc<Tool>>,
    changed: BTreeMap<String, Change>,
    /// Those of the changed that were not known to be.
    news: Vec<Change>,
    /// Tools that are what they were again.
    restored: Vec<String>,
}

impl PinComparison {
    fn needs_writing(&self) -> bool {
        !(self.fresh.is_empty() && self.news.is_empty() && self.restored.is_empty())
    }
}

impl Pins {
    /// Pins in `folder`.
    pub fn new(folder: Option<&Path>) -> Pins {
        Pins { folder: folder.map(|folder| folder.join("pins")), servers: Arc::default() }
    }

    fn entry(&self, server: &str) -> Option<Arc<Entry>> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).get(server).cloned()
    }

    fn insert(&self, server: &str, entry: Entry) -> Arc<Entry> {
        let entry = Arc::new(entry);
        let mut servers = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        servers.insert(server.to_owned(), Arc::clone(&entry));
        entry
    }

    /// Reads what is known of a server, which `identity` tells from others of that name.
    pub fn open(&self, server: &str, identity: &str) {
        let path = self.folder.as_ref().map(|folder| folder.join(files::name(server, identity, "json")));
        let mut known = Server { path, ..Server::default() };
        known.read(server);
        self.insert(server, Entry { known: Mutex::new(known), ..Entry::default() });
    }

    /// Compares a list with the pins, and pins tools that have none. The changes that nobody has heard of yet. A list
    /// from earlier proves nothing about what the tools are now: there, what was known to be changed stays so.
    ///
    /// Takes time in proportion to the list, and writes a file.
    pub fn look(&self, listing: &Listing) -> Vec<Change> {
        let entry = self.entry(&listing.server).unwrap_or_else(|| self.insert(&listing.server, Entry::default()));
        let mut known = entry.known();
        known.refresh(&listing.server);
        let mut found = known.compare(listing);
        if found.needs_writing() {
            // Somebody else may have just pinned the same; whoever is first counts.
            let written = known.locked(&listing.server, |known| {
                found = known.compare(listing);
                known.take(&found, &listing.server);
            });
            if let Err(err) = written {
                tracing::warn!(server = listing.server, error = %err, "how its tools were first seen cannot be kept");
            }
        }
        known.changed = found.changed;
        entry.publish(&known);
        found.news
    }

    /// Has a tool changed, and nobody has accepted that, in any process?
    pub fn is_changed(&self, tool: &ToolId) -> bool {
        let Some(entry) = self.entry(tool.server()).filter(|entry| entry.is_suspect(tool.tool())) else { return false };
        // While somebody looks, what was known before counts.
        let Ok(mut known) = entry.known.try_lock() else { return true };
        known.refresh(tool.server());
        entry.publish(&known);
        known.changed.contains_key(tool.tool())
    }

    /// All tools that differ from their pins, also those that only other processes have seen.
    pub fn changes(&self) -> Vec<Change> {
        let servers = self.servers.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut changes: Vec<_> = servers
            .iter()
            .flat_map(|(server, entry)| {
                let mut known = entry.known();
                known.refresh(server);
                known.changed.values().cloned().collect::<Vec<_>>()
            })
            .collect();
        changes.sort_by(|one, other| one.tool.cmp(&other.tool));
        changes
    }

    /// Makes what a tool is now its pin. The change that was accepted; `None` if there is none.
    pub fn accept(&self, tool: &ToolId) -> io::Result<Option<Change>> {
        let Some(entry) = self.entry(tool.server()) else { return Ok(None) };
        let mut known = entry.known();
        known.refresh(tool.server());
        let Some(change) = known.changed.get(tool.tool()).cloned() else { return Ok(None) };
        known.locked(tool.server(), |known| {
            if let Some(pin) = known.pins.get_mut(tool.tool()) {
                // The text is not known to be the one that was compared, so the next comparison looks at the form.
                let form = change.after.as_ref().and_then(|form| kept(form, usize::MAX));
                let (text_sha256, sha256) = (String::new(), change.after_sha256.clone());
                *pin = Pin { first_seen: now_millis(), text_sha256, sha256, form, changed: None };
            }
            known.changed.remove(tool.tool());
        })?;
        entry.publish(&known);
        Ok(Some(change))
    }
}

impl Server {
    /// Reads the file, if it is another than before. What has been accepted is changed no more.
    fn refresh(&mut self, server: &str) {
        if self.path.is_some() && self.stamp != self.path.as_deref().and_then(stamp) {
            self.read(server);
            let pins = &self.pins;
            self.changed.retain(|tool, change| pins.get(tool).is_none_or(|pin| pin.sha256 != change.after_sha256));
        }
    }

    fn read(&mut self, server: &str) {
        let Some(path) = &self.path else { return };
        self.stamp = stamp(path);
        let damaged = |why: &dyn std::fmt::Display| {
            let aside = path.with_extension("damaged");
            let _ = fs::rename(path, &aside);
            tracing::warn!(
                server,
                "what its tools were when they were first seen is lost ({why}); they are taken for what they are now. \
                 The file is kept as `{}`",
                aside.display()
            );
        };
        let bytes = match crate::files::read(path, Kind::Private, MAX_FILE_BYTES) {
            Ok(Some(bytes)) => bytes,
            // Not there yet; or not there any more, and then what this process knows still counts.
            Ok(None) => return,
            Err(problem) => return damaged(&problem),
        };
        match serde_json::from_slice::<File>(&bytes) {
            Ok(file) if file.format == FORMAT && file.server == server => self.pins = file.tools,
            Ok(_) => damaged(&"it is of another server or version"),
            Err(err) => damaged(&err),
        }
    }

    /// Changes the pins while no other process does, and writes them.
    fn locked(&mut self, server: &str, change: impl FnOnce(&mut Server)) -> io::Result<()> {
        let Some(path) = self.path.clone() else {
            change(self);
            return Ok(());
        };
        let lock = lock(&path);
        self.refresh(server);
        change(self);
        // The pins count in this process also if they cannot be kept.
        let _lock = lock?;
        let file = File { format: FORMAT, server: server.to_owned(), tools: std::mem::take(&mut self.pins) };
        let written = serde_json::to_vec(&file).map_err(io::Error::from).and_then(|bytes| files::write(&path, &bytes));
        self.pins = file.tools;
        self.stamp = stamp(&path);
        written
    }

    fn compare(&self, listing: &Listing) -> PinComparison {
        let mut found = PinComparison::default();
        let is_live = listing.source == Source::Live;
        if !is_live {
            let known = self.pins.iter().filter_map(|(name, pin)| {
                let Changed { at, sha256, form } = pin.changed.as_ref()?;
                let tool = format!("{}:{name}", listing.server).parse().ok()?;
                Some((name.clone(), pin.change(tool, form.as_deref().and_then(parsed), sha256.clone(), *at)))
            });
            found.changed.extend(known);
        }
        for (name, tool) in &listing.tools {
            let Some(pin) = self.pins.get(name) else {
                found.fresh.push(Arc::clone(tool));
                continue;
            };
            if found.changed.contains_key(name) {
                continue;
            }
            let after = if pin.text_sha256 == tool.hash { None } else { Some(form(tool)) };
            let sha256 = after.as_ref().map(digest).filter(|sha256| *sha256 != pin.sha256);
            let Some(sha256) = sha256 else {
                if pin.changed.is_some() {
                    found.restored.push(name.clone());
                }
                continue;
            };
            let known = pin.changed.as_ref().filter(|changed| changed.sha256 == sha256);
            let at = known.map_or_else(now_millis, |changed| changed.at);
            let change = pin.change(tool.id.clone(), after, sha256, at);
            if known.is_none() && is_live {
                found.news.push(change.clone());
            }
            found.changed.insert(name.clone(), change);
        }
        found
    }

    fn take(&mut self, found: &PinComparison, server: &str) {
        let mut room = self.room();
        let free = MAX_TOOLS.saturating_sub(self.pins.len());
        if found.fresh.len() > free {
            let count = found.fresh.len() - free;
            tracing::warn!(server, count, "it has had too many tools: changes of some will not be noticed");
        }
        for tool in found.fresh.iter().take(free) {
            let form = form(tool);
            let (first_seen, text_sha256, sha256) = (now_millis(), tool.hash.clone(), digest(&form));
            let form = kept(&form, room);
            room = room.saturating_sub(form.as_ref().map_or(0, |form| form.get().len()));
            let pin = Pin { first_seen, text_sha256, sha256, form, changed: None };
            self.pins.insert(tool.id.tool().to_owned(), pin);
        }
        for change in &found.news {
            if let Some(pin) = self.pins.get_mut(change.tool.tool()) {
                let form = change.after.as_ref().and_then(|form| kept(form, room));
                room = room.saturating_sub(form.as_ref().map_or(0, |form| form.get().len()));
                pin.changed = Some(Changed { at: change.changed_at, sha256: change.after_sha256.clone(), form });
            }
        }
        for name in &found.restored {
            if let Some(pin) = self.pins.get_mut(name) {
                pin.changed = None;
            }
        }
    }

    /// How many bytes of forms may still be kept.
    fn room(&self) -> usize {
        let forms = self.pins.values().flat_map(|pin| [&pin.form, pin.changed.as_ref().map_or(&None, |it| &it.form)]);
        let used: usize = forms.flatten().map(|form| form.get().len()).sum();
        MAX_FORMS_BYTES.saturating_sub(used)
    }
}

impl Pin {
    /// How a tool differs from this.
    fn change(&self, tool: ToolId, after: Option<Value>, after_sha256: String, changed_at: u64) -> Change {
        let before = self.form.as_deref().and_then(parsed);
        let parts = match (&before, &after) {
            (Some(before), Some(after)) => differing(before, after),
            _ => Vec::new(),
        };
        let (first_seen, before_sha256) = (self.first_seen, self.sha256.clone());
        Change { tool, parts, first_seen, changed_at, before_sha256, after_sha256, before, after }
    }
}

/// What a server says about a tool, with sorted keys: the order in which they are sent says nothing.
fn form(tool: &Tool) -> Value {
    let mut said: Map<String, Value> = serde_json::from_str(tool.raw().get()).unwrap_or_default();
    said.retain(|key, _| !LEFT_OUT.contains(&key.as_str()));
    sorted(Value::Object(said))
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<_, _> = members.into_iter().map(|(key, member)| (key, sorted(member))).collect();
            Value::Object(members.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        value => value,
    }
}

fn digest(form: &Value) -> String {
    sha256(form.to_string())
}

/// A form to be kept, unless it is too long or there is no room for it.
fn kept(form: &Value, room: usize) -> Option<Box<RawValue>> {
    to_raw_value(form).ok().filter(|kept| kept.get().len() <= MAX_FORM_BYTES.min(room))
}

fn parsed(form: &RawValue) -> Option<Value> {
    serde_json::from_str(form.get()).ok()
}

/// The keys under which two forms differ.
fn differing(before: &Value, after: &Value) -> Vec<String> {
    let keys = |form: &Value| form.as_object().into_iter().flat_map(Map::keys).cloned().collect::<BTreeSet<_>>();
    let all = keys(before).into_iter().chain(keys(after)).collect::<BTreeSet<_>>();
    all.into_iter().filter(|key| before.get(key) != after.get(key)).collect()
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len(), meta.ino()))
}

/// Holds other processes off until it is dropped. Who writes is done soon; one that stands still is not waited for.
fn lock(path: &Path) -> io::Result<fs::File> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let file = append(&path.with_extension("lock"))?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            Err(err) => return Err(err.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "another process does not let go of it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(tools: &[&str]) -> Listing {
        listing_from(tools, Source::Live)
    }

    fn listing_from(tools: &[&str], source: Source) -> Listing {
        let raw = tools.iter().map(|text| RawValue::from_string((*text).to_owned()).unwrap()).collect();
        Listing::parse("s", raw, source)
    }

    fn opened(folder: Option<&Path>) -> Pins {
        let pins = Pins::new(folder);
        pins.open("s", "x");
        pins
    }

    fn id(name: &str) -> ToolId {
        format!("s:{name}").parse().unwrap()
    }

    const ONE: &str = r#"{"name":"a","description":"one","inputSchema":{"type":"object","required":["x"]}}"#;
    const TWO: &str =
        r#"{"name":"a","description":"two","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;

    #[test]
    fn a_change_is_told_once_and_known_until_it_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let pins = opened(Some(folder.path()));
        assert!(pins.look(&listing(&[ONE])).is_empty(), "the first time says nothing");
        let news = pins.look(&listing(&[TWO, r#"{"name":"b"}"#]));
        assert_eq!(news.len(), 1);
        assert_eq!(news[0].parts, ["annotations", "description", "inputSchema"]);
        assert_eq!(news[0].before.as_ref().unwrap()["description"], "one");
        assert_eq!(news[0].after.as_ref().unwrap()["description"], "two");
        assert!(pins.look(&listing(&[TWO])).is_empty(), "it is told once");
        assert!(pins.is_changed(&id("a")) && !pins.is_changed(&id("b")) && !pins.is_changed(&id("none")));

        // Another process knows it too, and does not tell it again; the tool may have been gone.
        let other = opened(Some(folder.path()));
        assert!(other.look(&listing(&[])).is_empty());
        assert!(!other.is_changed(&id("a")), "it is not there");
        assert!(other.look(&listing(&[TWO])).is_empty());
        assert_eq!(other.changes(), pins.changes());

        // A third has only an old list: that the tool was once what it was says nothing.
        let third = opened(Some(folder.path()));
        assert!(third.look(&listing_from(&[ONE], Source::Cached)).is_empty());
        assert_eq!(third.changes(), pins.changes());
        assert_eq!(third.changes().len(), 1);

        assert_eq!(third.accept(&id("a")).unwrap().unwrap().after.unwrap()["description"], "two");
        assert!(other.changes().is_empty(), "the second process notices");
        assert_eq!(other.accept(&id("a")).unwrap(), None);
        assert!(!pins.is_changed(&id("a")), "the first process notices");
        assert!(pins.look(&listing(&[TWO])).is_empty() && !pins.is_changed(&id("a")));
        fs::remove_dir_all(folder.path()).unwrap();
        assert_eq!(pins.look(&listing(&[ONE])).len(), 1, "back is a change as well, whatever became of the file");
        assert!(pins.look(&listing(&[TWO])).is_empty() && !pins.is_changed(&id("a")), "and away again is none");
    }

    #[test]
    fn what_says_nothing_about_the_tool_is_no_change() {
        let pins = opened(None);
        pins.look(&listing(&[
            r#"{"name":"a","description":"d","inputSchema":{"type":"object","title":"t"},"_meta":1}"#,
        ]));
        let same = r#"{"inputSchema":{"title":"t","type":"object"},"icons":[],"_meta":2,"description":"d","name":"a"}"#;
        assert!(pins.look(&listing(&[same])).is_empty());
        let title = r#"{"name":"a","title":"new","description":"d","inputSchema":{"type":"object","title":"t"}}"#;
        assert_eq!(pins.look(&listing(&[title]))[0].parts, ["title"]);
        assert!(pins.accept(&id("a")).unwrap().is_some(), "without a folder as well");
        assert!(!pins.is_changed(&id("a")));
    }

    #[test]
    fn another_server_is_not_held_to_the_pins_of_this_one() {
        let folder = tempfile::tempdir().unwrap();
        opened(Some(folder.path())).look(&listing(&[ONE]));
        let pins = Pins::new(Some(folder.path()));
        pins.open("s", "y");
        assert!(pins.look(&listing(&[TWO])).is_empty() && !pins.is_changed(&id("a")));
        // A server that takes the name forgets the changes of the one before.
        pins.look(&listing(&[ONE]));
        assert!(pins.is_changed(&id("a")));
        pins.open("s", "z");
        assert!(!pins.is_changed(&id("a")));
    }

    #[test]
    fn large_forms_are_known_by_their_digests() {
        let folder = tempfile::tempdir().unwrap();
        let large = |end: &str| format!(r#"{{"name":"a","description":"{}{end}"}}"#, "x".repeat(MAX_FORM_BYTES));
        let pins = opened(Some(folder.path()));
        pins.look(&listing(&[&large("1")]));
        let news = pins.look(&listing(&[&large("2")]));
        assert_eq!((news[0].parts.len(), &news[0].before), (0, &None));
        let path = pins.entry("s").unwrap().known().path.clone().unwrap();
        let meta = fs::metadata(path).unwrap();
        assert!(meta.len() < 2000 && meta.mode() & 0o777 == 0o600, "{meta:?}");
        let many: Vec<String> =
            (0..400).map(|n| format!(r#"{{"name":"t{n}","description":"{}"}}"#, "x".repeat(60_000))).collect();
        pins.look(&listing(&many.iter().map(String::as_str).collect::<Vec<_>>()));
        assert!(pins.entry("s").unwrap().known().room() < 61_000, "all forms together are bounded");
    }

    #[test]
    fn there_is_room_for_so_many_tools() {
        let pins = opened(None);
        let tools: Vec<String> = (0..MAX_TOOLS + 5).map(|n| format!(r#"{{"name":"t{n}"}}"#)).collect();
        pins.look(&listing(&tools.iter().map(String::as_str).collect::<Vec<_>>()));
        assert_eq!(pins.entry("s").unwrap().known().pins.len(), MAX_TOOLS);
    }

    #[test]
    fn a_damaged_file_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let pins = opened(Some(folder.path()));
        pins.look(&listing(&[ONE]));
        let path = pins.entry("s").unwrap().known().path.clone().unwrap();
        for damage in ["", "{", r#"{"format":99,"server":"s","tools":{}}"#, r#"{"format":1,"server":"t","tools":{}}"#] {
            fs::write(&path, damage).unwrap();
            let pins = opened(Some(folder.path()));
            assert!(pins.look(&listing(&[TWO])).is_empty(), "{damage}");
            assert_eq!(fs::read_to_string(path.with_extension("damaged")).unwrap(), damage);
            assert_eq!(pins.look(&listing(&[ONE])).len(), 1, "it is pinned anew");
        }
    }
}
