//! Which processes descend from which, and what memory they hold, from `/proc`.

use std::{
    collections::HashMap,
    fs,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// How old a reading may be for those who look again and again.
const FRESH: Duration = Duration::from_millis(400);

/// The last reading: it costs milliseconds, and every server's watchdog wants the same one.
static LAST: Mutex<Option<(Instant, Arc<Processes>)>> = Mutex::new(None);

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    resident_pages: u64,
}

/// The processes of this machine at one moment.
#[derive(Debug, Default)]
pub(super) struct Processes {
    by_pid: HashMap<u32, Stat>,
    children: HashMap<u32, Vec<u32>>,
}

impl Processes {
    /// Reads all of them; empty where there is no `/proc`.
    pub(super) fn read() -> Processes {
        let mut processes = Processes::default();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            // One that ends meanwhile is not counted.
            let Some(stat) = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|text| parse(&text)) else {
                continue;
            };
            processes.by_pid.insert(pid, stat);
            processes.children.entry(stat.parent).or_default().push(pid);
        }
        processes
    }

    /// A reading that is not older than [`FRESH`].
    pub(super) fn recent() -> Arc<Processes> {
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((at, processes)) if at.elapsed() < FRESH => Arc::clone(processes),
            _ => {
                let processes = Arc::new(Processes::read());
                *last = Some((Instant::now(), Arc::clone(&processes)));
                processes
            }
        }
    }

    /// All descendants of a process, without itself.
    pub(super) fn descendants(&self, root: u32) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::new();
        let mut next = 0;
        let mut parent = root;
        loop {
            let children = self.children.get(&parent).into_iter().flatten();
            found.extend(children.filter(|child| **child != root));
            match found.get(next) {
                // Ids are used again, so what was read one by one may seem to go round.
                Some(pid) if next < self.by_pid.len() => parent = *pid,
                _ => return found,
            }
            next += 1;
        }
    }

    /// Resident memory of all descendants of a process.
    pub(super) fn resident_bytes(&self, root: u32) -> u64 {
        let pages: u64 =
            self.descendants(root).iter().filter_map(|pid| self.by_pid.get(pid)).map(|stat| stat.resident_pages).sum();
        pages * rustix::param::page_size() as u64
    }
}

fn parse(stat: &str) -> Option<Stat> {
    // The name, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let parent = fields.nth(1)?.parse().ok()?;
    let resident_pages = fields.nth(19)?.parse().ok()?;
    Some(Stat { parent, resident_pages })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_behind_the_name() {
        let line = "42 (a ) b) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 100 10000000 250 18446744073709551615 1";
        assert_eq!(parse(line), Some(Stat { parent: 7, resident_pages: 250 }));
        assert_eq!(parse("42 (x"), None);
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_once() {
        let mut processes = Processes::default();
        for (pid, parent) in [(2, 1), (3, 1), (4, 2), (5, 4), (6, 9), (1, 5)] {
            processes.by_pid.insert(pid, Stat { parent, resident_pages: 1 });
            processes.children.entry(parent).or_default().push(pid);
        }
        let mut found = processes.descendants(1);
        found.sort_unstable();
        assert_eq!(found, [2, 3, 4, 5]);
        assert_eq!(processes.resident_bytes(1), 4 * rustix::param::page_size() as u64);
    }
}
