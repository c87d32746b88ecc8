//! What the system knows of processes.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal. A process that is gone is nobody's loss.
pub(super) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = kill_process(pid, signal);
    }
}

fn status_field(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned())
}

/// All processes that a process has started, and those that they have started, without the dead.
pub(super) fn descendants(root: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all: Vec<(u32, u32)> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| status_field(*pid, "State:").is_some_and(|state| !state.starts_with(['Z', 'X'])))
        .filter_map(|pid| Some((pid, status_field(pid, "PPid:")?.parse().ok()?)))
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(all.iter().filter(|(_, its)| *its == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

/// The program and arguments of a process.
pub(super) fn command_line(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

/// What processes take at one moment, together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) memory_mb: f64,
    pub(super) descriptors: usize,
    pub(super) processes: usize,
}

/// What these processes take; of what they have started, only the number counts.
pub(super) fn usage(pids: &[u32]) -> Usage {
    let mut usage = Usage::default();
    for pid in pids {
        let resident = status_field(*pid, "VmRSS:").unwrap_or_default();
        let kilobytes: f64 = resident.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0.0);
        usage.memory_mb += kilobytes / 1024.0;
        usage.descriptors += fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        usage.processes += descendants(*pid).len();
    }
    usage
}
