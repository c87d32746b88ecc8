//! Servers that start, told on a terminal.

use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::print;
use crate::{
    config,
    serve::Services,
    shown::visible,
    upstream::{Failure, Upstream},
};

/// A terminal is at least so wide.
const COLUMNS: usize = 72;
const MORE: &str = ", ...";

/// How a start went.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) server: Upstream,
    pub(super) result: Result<(), Failure>,
    pub(super) duration: Duration,
}

/// Starts the servers that a program names and of which no tools are known, and waits for them: so
/// the first start of a slow server does not use up the program's own time. Why one failed is said by
/// the call that needs it.
pub(super) async fn unknown(services: &Arc<Services>, code: &str, interrupt: &CancellationToken) {
    let snapshot = services.catalog.snapshot();
    let mut unknown = services.servers.named_in(code);
    unknown.retain(|server| snapshot.listing(&server.settings().name).is_none());
    all(unknown, interrupt).await;
}

/// Starts servers at the same time. How each went, as they come.
pub(super) async fn all(servers: Vec<Upstream>, interrupt: &CancellationToken) -> Vec<Started> {
    let is_watched = io::stderr().is_terminal() && config::moves_cursor();
    let mut waiting: Vec<String> = servers.iter().map(|server| server.settings().name.clone()).collect();
    let mut starts: FuturesUnordered<_> = servers
        .into_iter()
        .map(|server| async move {
            let begun = Instant::now();
            let result = server.warm().await;
            Started { server, result, duration: begun.elapsed() }
        })
        .collect();
    let mut done = Vec::new();
    if is_watched && !waiting.is_empty() {
        show(&waiting);
    }
    loop {
        let started = tokio::select! {
            () = interrupt.cancelled() => break,
            started = starts.next() => started,
        };
        let Some(started) = started else { break };
        waiting.retain(|name| *name != started.server.settings().name);
        if is_watched {
            let verdict = match &started.result {
                Ok(()) => format!("ready in {}", print::duration(started.duration)),
                Err(failure) => {
                    format!("failed: {}", visible(failure.message.lines().next().unwrap_or_default()))
                }
            };
            let _ = writeln!(io::stderr(), "\r\x1b[K{} {verdict}", started.server.settings().name);
            if !waiting.is_empty() {
                show(&waiting);
            }
        }
        done.push(started);
    }
    if is_watched {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    done
}

/// Who is waited for, on a line that will be written over.
fn show(waiting: &[String]) {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "\r\x1b[K{}", line(waiting));
    let _ = stderr.flush();
}

/// The names that fit on one line: one that wraps cannot be written over.
fn line(waiting: &[String]) -> String {
    let mut line = "starting ".to_owned();
    for (index, name) in waiting.iter().enumerate() {
        let name = visible(name);
        let separator = if index == 0 { "" } else { ", " };
        let more = if index + 1 < waiting.len() { MORE.len() } else { 0 };
        if line.chars().count() + separator.len() + name.chars().count() + more > COLUMNS {
            line.push_str(if index == 0 { "servers" } else { MORE });
            break;
        }
        line.push_str(separator);
        line.push_str(&name);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_is_written_over_fits_on_one() {
        let names = |count: usize, length: usize| vec!["n".repeat(length); count];
        assert_eq!(line(&names(2, 3)), "starting nnn, nnn");
        for (count, length) in [(1, 500), (25, 5), (25, 30), (2, 59), (2, 60), (2, 62)] {
            let line = line(&names(count, length));
            assert!(line.chars().count() <= COLUMNS, "{line}");
            assert!(line.len() > "starting ".len(), "{line}");
        }
        assert!(line(&names(25, 30)).ends_with(", ..."));
    }
}
