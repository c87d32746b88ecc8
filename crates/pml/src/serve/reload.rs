//! A new configuration takes the place of the old one, while everything goes on.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use tokio::time::sleep;

use super::services::{Services, remote_for};
use crate::{
    audit::Retention,
    broker::Policy,
    error::Error,
    events::Body,
    execution::Budget,
    frontend::{self, Frontend},
    upstream::{self, Settings, Upstream},
};

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long a file must have been left alone: editors write in several steps.
const SETTLE: Duration = Duration::from_millis(200);

/// What a new configuration changed, by the names of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub changed: Vec<String>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

impl Services {
    /// Everything that a new configuration may change while pml serves: servers, policy, and what new runs are held to.
    pub fn take_over(
        &self,
        frontend: &Frontend,
        servers: Vec<Settings>,
        policy: Policy,
        settings: frontend::Settings,
    ) -> Result<Changes, Error> {
        let changes = self.reload(servers, policy)?;
        frontend.set_settings(settings);
        frontend.learn_unknown();
        Ok(changes)
    }

    /// From now on, so many servers start at the same time, and lines of the audit log are kept for so long.
    pub fn set_bounds(&self, max_starting: usize, retention: Retention) {
        let context = self.context();
        context.starts.set_most(max_starting);
        context.audit.set_retention(retention);
    }

    /// From now on there are these servers and this policy. Servers that are the same go on; calls to those that are
    /// not any more may finish.
    pub fn reload(&self, servers: Vec<Settings>, policy: Policy) -> Result<Changes, Error> {
        let mut context = self.context();
        if context.remote.is_none() {
            context.remote = remote_for(&servers, self.logins.as_ref(), &self.network)?;
        }
        let mut changes = Changes::default();
        let mut kept = Vec::new();
        // What goes is gone before its rules are, and what comes finds its rules there: no server is ever without
        // the rules that were written for it.
        for server in self.servers.all() {
            let name = server.settings().name.clone();
            match servers.iter().find(|wanted| wanted.name == name) {
                Some(wanted) if wanted == server.settings() => kept.push(name),
                Some(_) => changes.changed.push(name),
                None => {
                    self.servers.remove(&name);
                    let retiring = server.retire();
                    self.catalog.remove(&name);
                    self.tasks.spawn(retiring);
                    changes.removed.push(name);
                }
            }
        }
        self.broker.set_rules(policy, &servers);
        let mut fresh: Vec<_> = servers.into_iter().filter(|server| !kept.contains(&server.name)).collect();
        fresh.sort_by(|one, other| one.name.cmp(&other.name));
        for settings in fresh {
            let name = settings.name.clone();
            // Before the catalogue forgets what is known: it is of another server, and must not come back.
            let retiring = self.servers.get(&name).map(Upstream::retire);
            self.catalog.add(&name);
            let (server, actor) = upstream::start(settings, context.clone());
            self.tasks.spawn(actor);
            self.servers.put(server);
            match retiring {
                Some(retiring) => drop(self.tasks.spawn(retiring)),
                None => changes.added.push(name),
            }
        }
        if !changes.is_empty() {
            let Changes { added, removed, changed } = changes.clone();
            self.bus.publish("config", Body::ServersChanged { added, removed, changed });
        }
        Ok(changes)
    }
}

/// Keeps new limits within the `first` ones: the processes that wait for programs were made for those, and higher ones
/// need new processes.
pub fn keep_within(limits: &mut Budget, first: &Budget) {
    let wanted = *limits;
    limits.timeout = limits.timeout.min(first.max_timeout);
    limits.max_timeout = limits.max_timeout.min(first.max_timeout);
    limits.memory_bytes = limits.memory_bytes.min(first.memory_bytes);
    limits.result_bytes = limits.result_bytes.min(first.result_bytes);
    if *limits != wanted {
        tracing::warn!("limits.max_timeout_ms, memory_mb and result_bytes can be raised only by starting pml again");
    }
}

/// Files that are watched.
#[derive(Debug)]
pub struct Files {
    paths: Vec<PathBuf>,
    seen: Vec<Option<Stamp>>,
}

/// What changes when a file does.
type Stamp = (SystemTime, u64, u64);

impl Files {
    pub fn new(paths: Vec<PathBuf>) -> Files {
        let seen = paths.iter().map(stamp).collect();
        Files { paths, seen }
    }

    /// Waits until one of them is another than before, and all have been left alone for a moment.
    pub async fn changed(&mut self) {
        loop {
            sleep(LOOK).await;
            let now: Vec<_> = self.paths.iter().map(stamp).collect();
            if now == self.seen {
                continue;
            }
            let mut last = now;
            loop {
                sleep(SETTLE).await;
                let now: Vec<_> = self.paths.iter().map(stamp).collect();
                if now == last {
                    break;
                }
                last = now;
            }
            self.seen = last;
            return;
        }
    }
}

fn stamp(path: &PathBuf) -> Option<Stamp> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use super::*;
    use crate::serve::{Network, Options, Traces};

    fn server(name: &str) -> Settings {
        Settings::new(name, Err("never started".to_owned()))
    }

    fn services(servers: Vec<Settings>) -> Services {
        let program = PathBuf::from("pml");
        Services::start(Options {
            program,
            servers,
            policy: Policy::default(),
            data_dir: None,
            model_dir: None,
            encoder: false,
            results_bytes: 1 << 20,
            retention: Retention::default(),
            max_starting: 4,
            network: Network::default(),
            traces: Traces::default(),
            learns: false,
            speculates: false,
        })
        .unwrap()
    }

    #[tokio::test]
    async fn no_server_is_without_its_rules_for_a_moment() {
        let services = services(Vec::new());
        // Many, so that there is time to look between the first and the last.
        let servers: Vec<_> = (100..300).map(|number| server(&format!("s{number}"))).collect();
        let watched = ["s100", "s299"].map(|name| (name, format!("{name}:rm").parse().unwrap()));
        let denied = Policy { deny: vec!["s100:*".to_owned(), "s299:*".to_owned()], ..Policy::default() };
        let is_over = AtomicBool::new(false);
        let seen = thread::scope(|scope| {
            let observer = scope.spawn(|| {
                let mut seen = 0;
                while !is_over.load(Ordering::Relaxed) {
                    for (name, tool) in &watched {
                        // It is there before and after the question, so it was there all the time.
                        let is_there = || services.servers.get(name).is_some();
                        seen += usize::from(is_there() && services.broker.allows(tool) && is_there());
                    }
                }
                seen
            });
            for _ in 0..4 {
                services.reload(servers.clone(), denied.clone()).unwrap();
                services.reload(Vec::new(), Policy::default()).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
            observer.join().unwrap()
        });
        assert_eq!(seen, 0, "times that it could have been called");
        services.stop().await;
    }
}
