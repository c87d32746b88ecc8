//! The resources that one client wants to hear about.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::upstream::Watch;

/// Resources that one client may watch.
pub(super) const MAX_WATCHED: usize = 1000;

/// Watched resources, by the addresses that the client knows them by.
#[derive(Debug, Default)]
pub(super) struct Watches {
    by_address: Mutex<HashMap<String, Watched>>,
}

/// A resource, at its server.
#[derive(Debug)]
struct Watched {
    server: String,
    uri: String,
    /// `None` until the server has agreed. It may report an update before its agreement is read.
    watch: Option<Watch>,
}

impl Watches {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Watched>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts updates of a resource from now on, before its server is asked to report them. False if the client watches
    /// too much already.
    pub(super) fn expect(&self, address: &str, server: &str, uri: &str) -> bool {
        let mut by_address = self.lock();
        match by_address.get(address) {
            Some(watched) if watched.server == server && watched.uri == uri => return true,
            None if by_address.len() >= MAX_WATCHED => return false,
            _ => {}
        }
        let watched = Watched { server: server.to_owned(), uri: uri.to_owned(), watch: None };
        by_address.insert(address.to_owned(), watched);
        true
    }

    /// Keeps the watch that the server has agreed to, unless the client has unsubscribed meanwhile.
    pub(super) fn keep(&self, address: &str, watch: Watch) {
        if let Some(watched) = self.lock().get_mut(address) {
            watched.watch = Some(watch);
        }
    }

    /// Forgets a resource that its server has not agreed to report.
    pub(super) fn give_up(&self, address: &str) {
        let mut by_address = self.lock();
        if by_address.get(address).is_some_and(|watched| watched.watch.is_none()) {
            by_address.remove(address);
        }
    }

    pub(super) fn remove(&self, address: &str) {
        // The watch is dropped after the lock: its server is told.
        let _removed = self.lock().remove(address);
    }

    pub(super) fn has(&self, address: &str) -> bool {
        self.lock().contains_key(address)
    }

    /// All addresses, in order.
    pub(super) fn addresses(&self) -> Vec<String> {
        let mut addresses: Vec<_> = self.lock().keys().cloned().collect();
        addresses.sort();
        addresses
    }

    /// The addresses by which the client watches a resource of a server.
    pub(super) fn addresses_of(&self, server: &str, uri: &str) -> Vec<String> {
        let by_address = self.lock();
        let same = by_address.iter().filter(|(_, watched)| watched.server == server && watched.uri == uri);
        same.map(|(address, _)| address.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_watched_from_the_moment_its_server_is_asked() {
        let watches = Watches::default();
        assert!(watches.expect("pml:a:x", "a", "x") && watches.expect("x", "a", "x"));
        let mut same = watches.addresses_of("a", "x");
        same.sort();
        assert_eq!(same, ["pml:a:x", "x"]);
        assert!(watches.addresses_of("evil", "x").is_empty());
        watches.give_up("x");
        assert!(!watches.has("x") && watches.has("pml:a:x"));
        assert!((1..MAX_WATCHED).all(|number| watches.expect(&number.to_string(), "a", "y")));
        assert!(!watches.expect("one more", "a", "y"));
        assert!(watches.expect("1", "a", "y"), "what is watched already needs no room");
        watches.remove("1");
        assert!(watches.expect("one more", "a", "y"));
        assert_eq!(watches.addresses().len(), MAX_WATCHED);
    }
}
