//! A control group for a server's memory, where the system has given pml a part of the tree.
//!
//! Only a part that was given away on purpose is divided: systemd marks it, and anywhere else the
//! tree is somebody else's. Then the kernel itself holds the limit; everywhere else the watchdog of
//! [`super::process`] does.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// Where control groups (version 2) are.
const ROOT: &str = "/sys/fs/cgroup";
/// How systemd marks what it has given away.
const DELEGATED: &str = "user.delegate";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A group of its own for one server; removed when dropped.
#[derive(Debug)]
pub(super) struct Cgroup(PathBuf);

impl Cgroup {
    /// A group that may hold `memory_bytes`, if one can be made.
    pub(super) fn create(memory_bytes: u64) -> Option<Cgroup> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        Cgroup::beside(Path::new(ROOT), Path::new(own), memory_bytes, &is_delegated)
    }

    /// The same below another root: beside pml's own group `own`, in a parent that was given away.
    fn beside(root: &Path, own: &Path, memory_bytes: u64, is_delegated: &dyn Fn(&Path) -> bool) -> Option<Cgroup> {
        // A group with processes cannot be divided, so pml's own must be a leaf of what it was given.
        let parent = root.join(own.parent()?);
        if own.as_os_str().is_empty() || !is_delegated(&parent) {
            return None;
        }
        let has_memory = |file: &str| {
            let controllers = fs::read_to_string(parent.join(file)).unwrap_or_default();
            controllers.split_whitespace().any(|controller| controller == "memory")
        };
        if !has_memory("cgroup.subtree_control") {
            fs::write(parent.join("cgroup.subtree_control"), "+memory").ok()?;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("pml-server-{}-{number}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Cgroup(path);
        fs::write(group.0.join("memory.max"), memory_bytes.to_string()).ok()?;
        // Swap would only make it slow; where there is none to limit, that is fine too.
        let _ = fs::write(group.0.join("memory.swap.max"), "0");
        Some(group)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Has the kernel killed something in it for its memory?
    pub(super) fn was_exceeded(&self) -> bool {
        let events = fs::read_to_string(self.0.join("memory.events")).unwrap_or_default();
        events.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Fails while a process is in it, which is then on its way out; an empty group costs nothing.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Moves this process into a group.
pub(super) fn enter(path: &Path) -> io::Result<()> {
    fs::write(path.join("cgroup.procs"), "0")
}

#[cfg(target_os = "linux")]
fn is_delegated(path: &Path) -> bool {
    let mut value = [0; 8];
    rustix::fs::getxattr(path, DELEGATED, &mut value).is_ok_and(|length| &value[..length] == b"1")
}

#[cfg(not(target_os = "linux"))]
fn is_delegated(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a part of the tree.
    fn tree(controllers: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("user/pml.service/main")).unwrap();
        fs::write(root.path().join("user/pml.service/cgroup.subtree_control"), controllers).unwrap();
        root
    }

    #[test]
    fn a_part_that_was_given_away_is_divided() {
        let root = tree("cpu memory pids\n");
        let own = Path::new("user/pml.service/main");
        let group = Cgroup::beside(root.path(), own, 1000, &|path| path.ends_with("pml.service")).unwrap();
        assert_eq!(fs::read_to_string(group.path().join("memory.max")).unwrap(), "1000");
        assert!(!group.was_exceeded());
        fs::write(group.path().join("memory.events"), "low 0\noom 1\noom_kill 1\n").unwrap();
        assert!(group.was_exceeded());
        enter(group.path()).unwrap();
        assert_eq!(fs::read_to_string(group.path().join("cgroup.procs")).unwrap(), "0");
    }

    #[test]
    fn nothing_else_is() {
        let root = tree("memory");
        let own = Path::new("user/pml.service/main");
        assert!(Cgroup::beside(root.path(), own, 1000, &|_| false).is_none());
        assert!(Cgroup::beside(root.path(), Path::new(""), 1000, &|_| true).is_none());
        // The controller is asked for where it is missing.
        let root = tree("cpu");
        let _group = Cgroup::beside(root.path(), own, 1000, &|_| true).unwrap();
        let asked = fs::read_to_string(root.path().join("user/pml.service/cgroup.subtree_control")).unwrap();
        assert_eq!(asked, "+memory");
    }
}
