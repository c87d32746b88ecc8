//! All tools at one moment, and how one moment follows another.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
    time::Duration,
};

use pml_wire::ToolId;
use tokio::{sync::watch, time::timeout};

use super::{
    finder::Found,
    listing::{Listing, unique_aliases},
    schema::nearest,
    tool::Tool,
};

/// Servers that a message names.
const SOME_SERVERS: usize = 10;

/// All tools at one moment. Never changes.
#[derive(Debug)]
pub struct Snapshot {
    /// Every server that is configured; without a listing if it was never reached.
    servers: BTreeMap<String, Option<Arc<Listing>>>,
    aliases: HashMap<String, String>,
    names: OnceLock<Arc<str>>,
}

/// The tools there are now.
#[derive(Clone, Debug)]
pub struct Catalog {
    current: watch::Sender<Arc<Snapshot>>,
}

impl Catalog {
    /// A catalogue of servers of which nothing is known yet.
    pub fn new(servers: impl IntoIterator<Item = String>) -> Catalog {
        let servers = servers.into_iter().map(|server| (server, None)).collect();
        Catalog { current: watch::Sender::new(Arc::new(Snapshot::new(servers))) }
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.borrow())
    }

    /// Snapshots, as they follow.
    pub(super) fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.current.subscribe()
    }

    /// The first snapshot that is as wanted, or the last one when the time is up.
    pub async fn wait_for(&self, bound: Duration, is_wanted: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let mut changes = self.current.subscribe();
        let _ = timeout(bound, changes.wait_for(|snapshot| is_wanted(snapshot))).await;
        self.snapshot()
    }

    /// Puts a listing in place of the server's last one, which is returned. A server that is not configured any
    /// more has none.
    pub fn update(&self, listing: Listing) -> Option<Arc<Listing>> {
        self.update_if(listing, || true)
    }

    /// As [`update`](Catalog::update), if the condition holds at a moment when nobody else changes the catalogue.
    pub fn update_if(&self, listing: Listing, is_wanted: impl FnOnce() -> bool) -> Option<Arc<Listing>> {
        self.change(|servers| {
            let known = servers.get_mut(&listing.server).filter(|_| is_wanted())?;
            known.replace(Arc::new(listing))
        })
    }

    /// A server of which nothing is known.
    pub fn add(&self, server: &str) {
        self.change(|servers| servers.insert(server.to_owned(), None).flatten());
    }

    pub fn remove(&self, server: &str) {
        self.change(|servers| servers.remove(server).flatten());
    }

    fn change(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Option<Arc<Listing>>>) -> Option<Arc<Listing>>,
    ) -> Option<Arc<Listing>> {
        let mut before = None;
        self.current.send_modify(|snapshot| {
            let mut servers = snapshot.servers.clone();
            before = change(&mut servers);
            *snapshot = Arc::new(Snapshot::new(servers));
        });
        before
    }
}

impl Snapshot {
    fn new(servers: BTreeMap<String, Option<Arc<Listing>>>) -> Snapshot {
        Snapshot { aliases: unique_aliases(servers.keys()), servers, names: OnceLock::new() }
    }

    /// Every tool by server, as JSON.
    pub fn names(&self) -> Arc<str> {
        Arc::clone(self.names.get_or_init(|| {
            let tools = |listing: &Option<Arc<Listing>>| {
                let names: Vec<_> = listing.iter().flat_map(|listing| listing.tools.keys()).cloned().collect();
                serde_json::Value::from(names)
            };
            let names: serde_json::Map<_, _> =
                self.servers.iter().map(|(server, listing)| (server.clone(), tools(listing))).collect();
            serde_json::Value::Object(names).to_string().into()
        }))
    }

    /// The server of that name, or of that alias, as it is called really.
    pub fn server_name(&self, name: &str) -> Option<&str> {
        let (name, _) = self.servers.get_key_value(name).or_else(|| {
            let real = self.aliases.get(name)?;
            self.servers.get_key_value(real)
        })?;
        Some(name)
    }

    /// The listing of a server by its real name, if it was ever reached.
    pub fn listing(&self, server: &str) -> Option<&Arc<Listing>> {
        self.servers.get(server)?.as_ref()
    }

    pub fn listings(&self) -> impl Iterator<Item = &Arc<Listing>> {
        self.servers.values().flatten()
    }

    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }

    /// The tool of that name; server and tool may be aliases.
    pub fn tool(&self, id: &ToolId) -> Option<&Arc<Tool>> {
        self.listing(self.server_name(id.server())?)?.get(id.tool())
    }

    /// Every tool, sorted by server and name.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.listings().flat_map(|listing| listing.tools.values())
    }

    /// Why a tool is not found, with the nearest names of those that may be shown. `similar` finds tools that do what
    /// the name says, of one server or of all.
    pub fn explain_missing(
        &self,
        id: &ToolId,
        is_shown: impl Fn(&Tool) -> bool,
        similar: impl Fn(Option<&str>) -> Vec<Found>,
    ) -> String {
        let quote = |names: Vec<&str>, server: &str| {
            names.iter().map(|name| format!("`{server}{name}`")).collect::<Vec<_>>().join(", ")
        };
        let alike = |server: Option<&str>| {
            similar(server).iter().map(|found| format!("`{}`", found.tool.id)).collect::<Vec<_>>().join(", ")
        };
        let Some(server) = self.server_name(id.server()) else {
            if self.servers.is_empty() {
                return format!("there is no tool `{id}`: no MCP server is configured");
            }
            // The right tool under the wrong server, or a server that is called nearly so.
            let namesakes: Vec<_> = self
                .listings()
                .filter_map(|listing| listing.get(id.tool()).filter(|tool| is_shown(tool)))
                .take(3)
                .map(|tool| tool.id.as_str())
                .collect();
            let near = match namesakes.as_slice() {
                [] => quote(nearest(id.server(), self.servers()), ""),
                _ => quote(namesakes, ""),
            };
            if !near.is_empty() {
                return format!("there is no server `{}`; did you mean {near}?", id.server());
            }
            let alike = alike(None);
            let hint = if alike.is_empty() { String::new() } else { format!("; nearest in meaning: {alike}") };
            return format!("there is no server `{}`; {}{hint}", id.server(), self.some_servers());
        };
        let Some(listing) = self.listing(server) else {
            return format!("there is no tool `{id}`: server `{server}` has not listed its tools");
        };
        let shown: Vec<_> = listing.tools.values().filter(|tool| is_shown(tool)).map(|tool| tool.id.tool()).collect();
        if LISTING.contains(&id.tool()) {
            return format!(
                "server `{server}` has no tool `{}`: the names of its tools are `Object.keys(mcp.{server})`, and `pml.searchTools(\"what the tool does\")` finds them",
                id.tool()
            );
        }
        if CALLING.contains(&id.tool()) {
            let example = shown.first().copied().unwrap_or("tool");
            return format!(
                "server `{server}` has no tool `{}`: call its tools by their names, as in `mcp.{server}.{example}({{ … }})`, or with `pml.callTool(\"{server}:{example}\", {{ … }})`",
                id.tool()
            );
        }
        let spelled = nearest(id.tool(), shown.iter().copied());
        let (mut near, others): (Vec<_>, Vec<_>) = spelled.into_iter().partition(|name| is_about(id.tool(), name));
        let alike_names = if near.is_empty() { alike(Some(server)) } else { String::new() };
        if alike_names.is_empty() {
            near.extend(others);
        }
        let near = quote(near, &format!("{server}:"));
        let hint = match near.is_empty() {
            false => format!("did you mean {near}?"),
            true if listing.tools.is_empty() => "it has none at all".to_owned(),
            true if shown.is_empty() => "it has none that may be called".to_owned(),
            true => match alike_names {
                alike if alike.is_empty() => {
                    let some: Vec<_> = shown.iter().copied().take(5).collect();
                    format!("it has {} tools, such as {}", shown.len(), quote(some, ""))
                }
                alike => format!("nearest in meaning: {alike}"),
            },
        };
        format!("server `{server}` has no tool `{}`; {hint}", id.tool())
    }

    fn some_servers(&self) -> String {
        let some: Vec<_> = self.servers().take(SOME_SERVERS).map(|server| format!("`{server}`")).collect();
        let more = if self.servers.len() > SOME_SERVERS { ", …" } else { "" };
        format!("there are {}{more}", some.join(", "))
    }
}

/// Names under which programs look for a way to call any tool of a server.
const CALLING: [&str; 8] = ["callTool", "call_tool", "call", "execute", "invoke", "run", "request", "tool"];

/// Names under which programs look for the list of a server's tools.
const LISTING: [&str; 4] = ["listTools", "list_tools", "getTools", "tools"];

/// Is a tool about what the wanted name is about: does it have one of its nouns, or nearly the same letters?
fn is_about(wanted: &str, name: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let mut words = vec![String::new()];
        for character in text.chars() {
            if (character.is_uppercase() || !character.is_alphanumeric())
                && words.last().is_some_and(|word| !word.is_empty())
            {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
                word.extend(character.to_lowercase());
            }
        }
        words.retain(|word| !word.is_empty());
        words
    };
    let (wanted, name) = (words(wanted), words(name).concat());
    // The first word is what is done.
    let nouns = if wanted.len() > 1 { &wanted[1..] } else { &wanted[..] };
    nouns.iter().any(|noun| name.contains(noun.strip_suffix('s').unwrap_or(noun)))
        || strsim::damerau_levenshtein(&wanted.concat(), &name) <= 2
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{super::listing::Source, *};

    fn catalog() -> Catalog {
        let catalog = Catalog::new(["my-files", "notes", "__proto__"].map(str::to_owned));
        let tools = |names: &[&str]| {
            names.iter().map(|name| RawValue::from_string(format!(r#"{{"name":"{name}"}}"#)).unwrap()).collect()
        };
        catalog.update(Listing::parse("my-files", tools(&["read_file", "write_file", "then"]), Source::Live));
        catalog.update(Listing::parse("__proto__", tools(&["x"]), Source::Live));
        catalog
    }

    #[test]
    fn tools_are_found_by_name_and_alias() {
        let snapshot = catalog().snapshot();
        let find = |id: &str| snapshot.tool(&id.parse().unwrap()).map(|tool| tool.id.to_string());
        assert_eq!(find("my-files:read_file").as_deref(), Some("my-files:read_file"));
        assert_eq!(find("myFiles:then").as_deref(), Some("my-files:then"));
        assert_eq!(find("__proto__:x").as_deref(), Some("__proto__:x"));
        assert_eq!(find("notes:read_file"), None);
        assert_eq!(
            &*snapshot.names(),
            r#"{"__proto__":["x"],"my-files":["read_file","then","write_file"],"notes":[]}"#
        );
    }

    #[test]
    fn what_is_missing_is_explained() {
        let table = [
            ("my-files:readFile", "server `my-files` has no tool `readFile`; did you mean `my-files:read_file`"),
            ("myfiles:zzz", "there is no server `myfiles`; did you mean `my-files`"),
            ("files:read_file", "there is no server `files`; did you mean `my-files:read_file`?"),
            ("notes:add", "server `notes` has not listed its tools"),
            ("qqq:add", "there is no server `qqq`; there are `__proto__`, `my-files`, `notes`"),
            ("__proto__:zz", "server `__proto__` has no tool `zz`; it has 1 tools, such as `x`"),
        ];
        let snapshot = catalog().snapshot();
        for (id, expected) in table {
            let actual = snapshot.explain_missing(&id.parse().unwrap(), |_| true, |_| Vec::new());
            assert!(actual.contains(expected), "{id}: {actual}");
        }
        let empty = Catalog::new([]).snapshot();
        let empty = empty.explain_missing(&"a:b".parse().unwrap(), |_| true, |_| Vec::new());
        assert_eq!(empty, "there is no tool `a:b`: no MCP server is configured");
    }

    #[test]
    fn an_update_gives_back_what_was_and_leaves_old_snapshots_alone() {
        let catalog = catalog();
        let old = catalog.snapshot();
        let before = catalog.update(Listing::parse("my-files", vec![], Source::Live)).unwrap();
        assert_eq!(before.tools.len(), 3);
        assert!(old.tool(&"my-files:read_file".parse().unwrap()).is_some());
        assert!(catalog.snapshot().tool(&"my-files:read_file".parse().unwrap()).is_none());
    }
}
