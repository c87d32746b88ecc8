//! The list of a server's tools: how it is read and compared with what was seen before, and how often.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    connection::Connection,
    discovery::{self, Listed},
    failure::Failure,
    settings::{Secret, Settings, Target},
};
use crate::{
    audit::{Audit, ToolLine},
    catalog::{Change, Pins},
    events::{Body, Bus},
    work::{self, Waiter},
};

/// Between the news that a list has changed and reading it: changes come in bunches.
const SHORTEST: Duration = Duration::from_millis(20);
/// The same, of a server that says so all the time.
const LONGEST: Duration = Duration::from_secs(5);

/// How soon a list is read that has changed. Twice as late each time while the changes do not stop.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Option<(Instant, Duration)>,
}

impl Pace {
    /// The pause before the list is read, now that it has changed.
    pub(super) fn pause(&mut self, now: Instant) -> Duration {
        let pause = match self.last {
            // The pause itself is part of the time since then.
            Some((since, pause)) if now < since + 2 * LONGEST => (2 * pause).min(LONGEST),
            _ => SHORTEST,
        };
        self.last = Some((now, pause));
        pause
    }
}

/// A list of tools, and those of them that are not what they were when they were first seen and that nobody has heard of
/// yet.
pub(super) struct ToolRefresh {
    pub(super) listed: Listed,
    pub(super) changes: Vec<Change>,
}

/// Asks a server for its tools and compares them with their pins, before anybody can see the list: what is not allowed any
/// more must not be called meanwhile.
pub(super) async fn list_tools(
    settings: &Arc<Settings>,
    connection: &Connection,
    pins: &Pins,
) -> Result<ToolRefresh, Failure> {
    let (listed, pins) = (discovery::list_tools(settings, connection).await?, pins.clone());
    let look = move |_: &Waiter| ToolRefresh { changes: pins.look(&listed.listing), listed };
    Ok(work::elsewhere(look).await)
}

/// Writes down and tells which tools are not what they were when they were first seen.
pub(super) fn tell_changes(audit: &Audit, bus: &Bus, correlation: &str, changes: &[Change]) {
    for change in changes {
        let Change { tool, parts, first_seen, before_sha256, after_sha256, .. } = change;
        tracing::warn!(%tool, ?parts, "a tool has changed since it was first seen; `pml tools --changed` shows how");
        audit.record_tool(&ToolLine {
            ts: change.changed_at,
            event: "tool.changed",
            tool: tool.as_str(),
            parts,
            before_sha256,
            after_sha256,
        });
        let body = Body::ToolChanged {
            tool: tool.clone(),
            parts: parts.clone(),
            first_seen: *first_seen,
            before_sha256: before_sha256.clone(),
            after_sha256: after_sha256.clone(),
        };
        bus.publish(correlation, body);
    }
}

/// What a server is, for the cache: another command, address or set of variables is another server.
pub(super) fn identity(settings: &Settings) -> String {
    // Some servers have other tools for a client that can be asked something.
    let relays = if settings.relays { "\0relays" } else { "" };
    let names: Vec<_> = match &settings.target {
        Ok(Target::Stdio { env, .. }) => env.keys().map(String::as_str).collect(),
        Ok(Target::Http { headers, .. }) => headers.keys().map(String::as_str).collect(),
        Err(_) => Vec::new(),
    };
    format!("{}\0\0{}{relays}", target_identity(settings), names.join("\0"))
}

/// What a server is, for pins: another command or address is another server. Variables and headers do not count: a change
/// must not go unnoticed because a variable was added.
pub(super) fn target_identity(settings: &Settings) -> String {
    match &settings.target {
        Ok(Target::Stdio { command, args, cwd, .. }) => {
            let args: Vec<_> = args.iter().map(Secret::reveal).collect();
            format!("stdio\0{command}\0{}\0{cwd:?}", args.join("\0"))
        }
        Ok(Target::Http { url, .. }) => format!("http\0{}", url.reveal()),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the list whenever it may be read, for a minute of changes that do not stop. How often that is.
    #[test]
    fn changes_that_do_not_stop_are_looked_at_seldom() {
        let (mut pace, begun) = (Pace::default(), Instant::now());
        let (mut now, mut count) = (begun, 0);
        while now < begun + Duration::from_secs(60) {
            now += pace.pause(now);
            count += 1;
        }
        assert!(count < 25, "{count} times in a minute");
        assert_eq!(pace.pause(now), LONGEST);
    }

    #[test]
    fn a_change_after_a_while_is_looked_at_soon() {
        let (mut pace, begun) = (Pace::default(), Instant::now());
        assert_eq!(pace.pause(begun), SHORTEST);
        assert_eq!(pace.pause(begun + Duration::from_secs(1)), 2 * SHORTEST);
        assert_eq!(pace.pause(begun + Duration::from_secs(12)), SHORTEST);
    }
}
