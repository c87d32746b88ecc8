//! What one client is still to be told about changes at servers.
//!
//! A bulletin holds at most one notice for each list and each watched resource: a client that reads slowly gets one
//! notice for many changes. It is fed by the control side of the bus, which telemetry does not pass through.
//!
//! **Invariant:** while a bulletin lives, each change that concerns its client is in a notice that was taken after the
//! change, or is still to be taken; and there is no notice without a change.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pml_wire::Line;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use super::{rpc, watches::Watches};
use crate::events::{Body, Follower};

/// The lists whose changes a client wants to hear of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ListSubscriptions {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
}

/// Something that a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    Tools,
    Prompts,
    Resources,
    /// The address by which the client watches a resource that has changed.
    Updated(String),
}

/// The notices for one client.
#[derive(Debug)]
pub(super) struct Bulletin {
    wanted: ListSubscriptions,
    watches: Arc<Watches>,
    state: Mutex<State>,
    came: Notify,
}

#[derive(Debug)]
struct State {
    /// Servers whose tools the client has not been able to see.
    unknown: HashSet<String>,
    /// Oldest first, none twice.
    open: VecDeque<Notice>,
}

impl Notice {
    fn message(self) -> (&'static str, Value) {
        match self {
            Notice::Tools => ("notifications/tools/list_changed", json!({})),
            Notice::Prompts => ("notifications/prompts/list_changed", json!({})),
            Notice::Resources => ("notifications/resources/list_changed", json!({})),
            Notice::Updated(address) => ("notifications/resources/updated", json!({ "uri": address })),
        }
    }
}

impl Bulletin {
    pub(super) fn new(wanted: ListSubscriptions, watches: Arc<Watches>, unknown: HashSet<String>) -> Arc<Bulletin> {
        let state = Mutex::new(State { unknown, open: VecDeque::new() });
        Arc::new(Bulletin { wanted, watches, state, came: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is a notice to take.
    pub(super) async fn ready(&self) {
        while self.lock().open.is_empty() {
            self.came.notified().await;
        }
    }

    /// Takes the oldest notice, unless it is about a resource that is not watched any more.
    fn take(&self) -> Option<Notice> {
        let notice = self.lock().open.pop_front()?;
        match &notice {
            Notice::Updated(address) if !self.watches.has(address) => None,
            _ => Some(notice),
        }
    }

    /// Sends one notice, with `meta` if there is any, as soon as the client has room for it; false if the client is
    /// gone. Dropped before it is done, it has taken nothing.
    pub(super) async fn tell(&self, outlet: &mpsc::Sender<Line>, meta: Option<&Value>) -> bool {
        self.ready().await;
        let Ok(place) = outlet.reserve().await else { return false };
        if let Some(notice) = self.take() {
            let (method, mut params) = notice.message();
            if let Some(meta) = meta {
                params["_meta"] = meta.clone();
            }
            place.send(rpc::notification(method, params));
        }
        true
    }
}

impl Follower for Bulletin {
    fn changed(&self, change: &Body) {
        let ListSubscriptions { tools, prompts, resources } = self.wanted;
        let lists = |which: [(bool, Notice); 3]| {
            let wanted = which.into_iter().filter(|(is_wanted, _)| *is_wanted);
            wanted.map(|(_, notice)| notice).collect::<Vec<_>>()
        };
        let mut state = self.lock();
        let tools_only = || lists([(tools, Notice::Tools), (false, Notice::Prompts), (false, Notice::Resources)]);
        let notices = match change {
            // The list of a server that is known from earlier was there before it was connected.
            Body::ToolsDiscovered { server, .. } if state.unknown.remove(server) => tools_only(),
            Body::ToolsRefreshed { added, removed, changed, .. }
                if !(added.is_empty() && removed.is_empty() && changed.is_empty()) =>
            {
                tools_only()
            }
            Body::ServersChanged { added, .. } => {
                state.unknown.extend(added.iter().cloned());
                lists([(tools, Notice::Tools), (prompts, Notice::Prompts), (resources, Notice::Resources)])
            }
            Body::PromptsChanged { .. } if prompts => vec![Notice::Prompts],
            Body::ResourcesChanged { .. } if resources => vec![Notice::Resources],
            Body::ResourceUpdated { server, uri } => {
                self.watches.addresses_of(server, uri).into_iter().map(Notice::Updated).collect()
            }
            _ => return,
        };
        for notice in notices {
            if !state.open.contains(&notice) {
                state.open.push_back(notice);
            }
        }
        drop(state);
        self.came.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use pml_wire::message::LogLevel;

    use super::*;
    use crate::events::Bus;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn refreshed(added: &[&str]) -> Body {
        let (server, added) = ("a".to_owned(), names(added));
        Body::ToolsRefreshed { server, added, removed: Vec::new(), changed: Vec::new(), unchanged: 1 }
    }

    fn updated(server: &str, uri: &str) -> Body {
        Body::ResourceUpdated { server: server.to_owned(), uri: uri.to_owned() }
    }

    const EVERYTHING: ListSubscriptions = ListSubscriptions { tools: true, prompts: true, resources: true };

    #[test]
    fn clients_hear_what_they_want_and_nothing_twice() {
        let discovered =
            |server: &str| Body::ToolsDiscovered { server: server.to_owned(), count: 0, names: Vec::new() };
        let server = || "a".to_owned();
        let watches = Arc::new(Watches::default());
        assert!(watches.expect("pml:a:watched", "a", "watched"));
        let unknown = HashSet::from(["new".to_owned()]);
        let wide = Bulletin::new(EVERYTHING, Arc::clone(&watches), unknown);
        let narrow = Bulletin::new(ListSubscriptions::default(), watches, HashSet::new());
        let address = || Notice::Updated("pml:a:watched".to_owned());
        let table = [
            (discovered("new"), &wide, vec![Notice::Tools]),
            (discovered("new"), &wide, vec![]),
            (discovered("old"), &wide, vec![]),
            (refreshed(&[]), &wide, vec![]),
            (refreshed(&["x"]), &wide, vec![Notice::Tools]),
            (refreshed(&["x"]), &narrow, vec![]),
            (Body::PromptsChanged { server: server() }, &wide, vec![Notice::Prompts]),
            (Body::PromptsChanged { server: server() }, &narrow, vec![]),
            (Body::ResourcesChanged { server: server() }, &wide, vec![Notice::Resources]),
            (updated("a", "watched"), &narrow, vec![address()]),
            (updated("a", "other"), &wide, vec![]),
            (updated("evil", "watched"), &wide, vec![]),
            (
                Body::ServersChanged { added: names(&["later"]), removed: Vec::new(), changed: Vec::new() },
                &wide,
                vec![Notice::Tools, Notice::Prompts, Notice::Resources],
            ),
            (discovered("later"), &wide, vec![Notice::Tools]),
        ];
        for (change, bulletin, expected) in table {
            bulletin.changed(&change);
            bulletin.changed(&change);
            let told: Vec<_> = std::iter::from_fn(|| bulletin.take()).collect();
            assert_eq!(told, expected, "{change:?}");
        }
    }

    #[tokio::test]
    async fn a_slow_client_loses_no_change_and_hears_of_none_that_was_not() {
        let bus = Bus::default();
        let watches = Arc::new(Watches::default());
        assert!(watches.expect("one", "a", "one") && watches.expect("two", "a", "two"));
        let bulletin = Bulletin::new(EVERYTHING, Arc::clone(&watches), HashSet::new());
        bus.follow(&bulletin);
        let (outlet, mut told) = mpsc::channel(1);
        outlet.send(rpc::notification("in the way", json!({}))).await.unwrap();
        let chatter = || {
            for number in 0..3000 {
                let (level, text) = (LogLevel::Log, number.to_string());
                bus.publish("a program", Body::ExecutionLog { level, text });
                bus.publish("a server", updated("a", &format!("unwatched {number}")));
            }
        };
        chatter();
        let changes = [updated("a", "one"), Body::PromptsChanged { server: "a".to_owned() }, updated("a", "two")];
        for change in changes.iter().cycle().take(3000) {
            bus.publish("a server", change.clone());
        }
        chatter();
        watches.remove("two");
        let slow = async {
            let mut heard = Vec::new();
            while let Some(line) = told.recv().await {
                let message: Value = serde_json::from_str(line.as_str()).unwrap();
                heard.push((message["method"].as_str().unwrap().to_owned(), message["params"]["uri"].clone()));
                if heard.len() == 3 {
                    break;
                }
            }
            heard
        };
        let talk = async { while bulletin.tell(&outlet, None).await {} };
        let heard = tokio::select! {
            heard = slow => heard,
            () = talk => panic!("the client is there"),
        };
        let expected = [
            ("in the way", json!(null)),
            ("notifications/resources/updated", json!("one")),
            ("notifications/prompts/list_changed", json!(null)),
        ];
        assert_eq!(heard, expected.map(|(method, uri)| (method.to_owned(), uri)));
        assert!(bulletin.take().is_none(), "each once, and nothing of what is not watched any more");
    }
}
