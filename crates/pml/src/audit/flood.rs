//! Floods of lines about calls that no server hears of, collapsed into counts.
//!
//! A program can be refused, or search, thousands of times a second, and would so fill the log and drive everything else out
//! of it. The first lines of each run, rule and code are written in full, as long as all runs together have not used up what
//! the rule and code may have; the others are counted. The count is told whenever it has doubled, when the run is over,
//! and when the log is closed.

use std::{collections::HashMap, mem};

use tokio::time::Instant;

use super::line::{CallEvent, CallLine, CollapsedLine};

/// Lines in full for each run, rule and code.
const FULL_PER_RUN: u32 = 50;
/// Lines in full for each rule and code, of all runs together: so many at once, and so many a minute after that.
const FULL_AT_ONCE: f64 = 2000.0;
const FULL_PER_MINUTE: f64 = 6.0;
/// Counts that are kept at the same time. Beyond that, all are told and begin anew.
const MAX_COUNTS: usize = 1024;

/// What becomes of a line.
#[derive(Debug, PartialEq)]
pub(super) enum Fate {
    /// It is written.
    Written,
    /// It is counted. Perhaps the count is written.
    Counted(Option<CollapsedLine>),
}

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Floods {
    /// By run, or of all runs together.
    counts: HashMap<(Option<String>, Kind), Count>,
    allowances: HashMap<Kind, (f64, Instant)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    event: CallEvent,
    rule: String,
    code: Option<String>,
}

#[derive(Debug, Default)]
struct Count {
    /// Lines that were written.
    full: u32,
    /// Lines that were not, in all and since that was told.
    collapsed: u64,
    untold: u64,
    since: u64,
    last_tool: String,
}

impl Floods {
    /// Decides about a line. Lines to be written before it, if it is written, come with the answer.
    pub(super) fn admit(&mut self, line: &CallLine<'_>) -> (Fate, Vec<CollapsedLine>) {
        if !matches!(line.event, CallEvent::Refused | CallEvent::Search) {
            return (Fate::Written, Vec::new());
        }
        let told = if self.counts.len() >= MAX_COUNTS { self.take_all(line.ts) } else { Vec::new() };
        let kind = Kind { event: line.event, rule: line.rule.to_owned(), code: line.code.map(str::to_owned) };
        let run = Some(line.execution_id.to_owned());
        let is_new = self.counts.get(&(run.clone(), kind.clone())).is_none_or(|count| count.full < FULL_PER_RUN);
        let is_full = is_new && self.allow(&kind);
        // A run of which nothing was written in full is one of many; they are counted together.
        let whose = if is_new && !is_full { None } else { run };
        let count = self.counts.entry((whose.clone(), kind.clone())).or_default();
        if is_full {
            count.full += 1;
            return (Fate::Written, told);
        }
        if count.untold == 0 {
            count.since = line.ts;
        }
        count.collapsed += 1;
        count.untold += 1;
        line.tool.clone_into(&mut count.last_tool);
        let doubled = count.collapsed.is_power_of_two() && count.collapsed > 1;
        let tells = doubled.then(|| count.told(whose, kind, line.ts)).flatten();
        (Fate::Counted(tells), told)
    }

    /// Takes one line out of what a rule and code may have in all runs together.
    fn allow(&mut self, kind: &Kind) -> bool {
        let now = Instant::now();
        if self.allowances.len() >= MAX_COUNTS && !self.allowances.contains_key(kind) {
            return false; // rules are few; so many kinds are no accident
        }
        let (left, since) = self.allowances.entry(kind.clone()).or_insert((FULL_AT_ONCE, now));
        *left = (*left + now.duration_since(*since).as_secs_f64() / 60.0 * FULL_PER_MINUTE).min(FULL_AT_ONCE);
        *since = now;
        if *left < 1.0 {
            return false;
        }
        *left -= 1.0;
        true
    }

    /// Ends the counts of a run: the lines that are to be written.
    pub(super) fn end_run(&mut self, execution_id: &str, ts: u64) -> Vec<CollapsedLine> {
        let is_of_run = |run: &Option<String>| run.as_deref() == Some(execution_id);
        let ended = self.counts.extract_if(|(run, _), _| is_of_run(run));
        ended.filter_map(|((run, kind), mut count)| count.told(run, kind, ts)).collect()
    }

    /// Ends all counts.
    pub(super) fn take_all(&mut self, ts: u64) -> Vec<CollapsedLine> {
        let all = mem::take(&mut self.counts).into_iter();
        all.filter_map(|((run, kind), mut count)| count.told(run, kind, ts)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

impl Count {
    /// The line about what has not been told yet.
    fn told(&mut self, execution_id: Option<String>, kind: Kind, ts: u64) -> Option<CollapsedLine> {
        let count = mem::take(&mut self.untold);
        (count > 0).then(|| CollapsedLine {
            ts,
            event: "calls.collapsed",
            of: kind.event,
            execution_id,
            rule: kind.rule,
            code: kind.code,
            count,
            since: self.since,
            last_tool: self.last_tool.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Decision;

    fn line<'a>(event: CallEvent, execution_id: &'a str, rule: &'a str) -> CallLine<'a> {
        CallLine {
            ts: 7,
            event,
            who: "cli",
            execution_id,
            trace_id: "t",
            call: 1,
            method: None,
            tool: "a:b",
            args_sha256: "",
            decision: Decision::Deny,
            rule,
            success: Some(false),
            code: Some("POLICY_DENIED"),
            duration_ms: Some(0.0),
            speculation: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_are_written_the_others_counted_and_none_is_forgotten() {
        let mut floods = Floods::default();
        let (mut written, mut counted) = (0, 0);
        for _ in 0..1990 {
            let (fate, before) = floods.admit(&line(CallEvent::Refused, "e1", "deny a:*"));
            assert!(before.is_empty());
            match fate {
                Fate::Written => written += 1,
                Fate::Counted(Some(told)) => {
                    assert_eq!(told.execution_id.as_deref(), Some("e1"));
                    counted += told.count;
                }
                Fate::Counted(None) => {}
            }
        }
        assert_eq!((written, counted), (50, 1024));
        // What has a server, and another rule, is not affected.
        assert_eq!(floods.admit(&line(CallEvent::Ended, "e1", "deny a:*")).0, Fate::Written);
        assert_eq!(floods.admit(&line(CallEvent::Refused, "e1", "deny b:*")).0, Fate::Written);
        let rest = floods.end_run("e1", 9);
        assert_eq!(rest.iter().map(|line| line.count).sum::<u64>() + 1024 + 50, 1990);
        assert_eq!(floods.take_all(9), []);
    }

    #[tokio::test(start_paused = true)]
    async fn many_runs_together_are_bounded_too() {
        let mut floods = Floods::default();
        let (mut written, mut counted) = (0, 0);
        for run in 0..100_000 {
            let (fate, before) = floods.admit(&line(CallEvent::Refused, &format!("e{run}"), "deny a:*"));
            written += before.len();
            counted += before.iter().map(|line| line.count).sum::<u64>();
            match fate {
                Fate::Written => written += 1,
                Fate::Counted(Some(told)) => {
                    written += 1;
                    counted += told.count;
                }
                Fate::Counted(None) => {}
            }
        }
        counted += floods.take_all(9).iter().map(|line| line.count).sum::<u64>();
        assert!(written < 2100, "{written}");
        assert_eq!(counted, 98_000);
        tokio::time::advance(std::time::Duration::from_secs(60)).await;
        assert_eq!(floods.admit(&line(CallEvent::Refused, "later", "deny a:*")).0, Fate::Written);
    }
}
