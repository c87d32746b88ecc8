//! Joins the audit log with what the servers have seen.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A call: the id of its execution without dashes, and its number there.
pub(super) type CallKey = (String, u64);

/// What the records say.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Account {
    /// Calls that servers have seen.
    pub(super) seen: usize,
    /// Of those: seen twice, without a line at their start, with several, or with several at their end.
    pub(super) repeated: usize,
    pub(super) without_start: usize,
    pub(super) with_two_starts: usize,
    pub(super) with_two_ends: usize,
    /// Calls of a pml that was not killed, and whose end is missing.
    pub(super) without_end: usize,
    /// Calls of a pml that was killed: their ends may be missing, and their starts may not.
    pub(super) cut_off: usize,
    /// Lines that cannot be read, and of which nothing says that they were cut off.
    pub(super) broken_lines: usize,
}

/// The call that a `traceparent` belongs to.
pub(super) fn of_trace(traceparent: &str) -> Option<CallKey> {
    let mut parts = traceparent.split('-').skip(1);
    let (trace, span) = (parts.next()?, parts.next()?);
    Some((trace.to_owned(), u64::from_str_radix(span.get(8..)?, 16).ok()?))
}

/// Joins the lines of the audit log with the calls that servers have seen. `killed` are those seen while a pml worked that
/// was then killed.
pub(super) fn join(audit: &[Value], seen: &[CallKey], killed: &BTreeSet<CallKey>) -> Account {
    let (mut starts, mut ends) = (BTreeMap::<CallKey, usize>::new(), BTreeMap::<CallKey, usize>::new());
    let mut account = Account::default();
    for (at, line) in audit.iter().enumerate() {
        // A line that was cut off is followed by one that says so.
        let is_repaired = || audit.get(at + 1).is_some_and(|next| next["event"] == "log.repaired");
        let key = || Some((line["execution_id"].as_str()?.replace('-', ""), line["call"].as_u64()?));
        match (line["event"].as_str(), key()) {
            _ if line.get("broken").is_some() => account.broken_lines += usize::from(!is_repaired()),
            (Some("call.started"), Some(key)) => *starts.entry(key).or_default() += 1,
            (Some("call.ended"), Some(key)) => *ends.entry(key).or_default() += 1,
            _ => {}
        }
    }
    let mut times = BTreeMap::<&CallKey, usize>::new();
    seen.iter().for_each(|key| *times.entry(key).or_default() += 1);
    account.seen = times.len();
    for (key, count) in times {
        account.repeated += usize::from(count > 1);
        let (start, end) = (starts.get(key).copied().unwrap_or(0), ends.get(key).copied().unwrap_or(0));
        account.without_start += usize::from(start == 0);
        account.with_two_starts += usize::from(start > 1);
        account.with_two_ends += usize::from(end > 1);
        match (end, killed.contains(key)) {
            (0, true) => account.cut_off += 1,
            (0, false) => account.without_end += 1,
            _ => {}
        }
    }
    account
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_and_what_is_twice_shows() {
        let line =
            |event: &str, call: u64| json!({ "event": event, "execution_id": "ab-cd", "call": call, "tool": "a:b" });
        let (start, end) = (|call| line("call.started", call), |call| line("call.ended", call));
        let audit = [
            start(1),
            end(1),
            start(2),
            start(3),
            start(3),
            end(3),
            end(3),
            end(4),
            start(5),
            end(5),
            start(6),
            json!({ "event": "search", "execution_id": "ab-cd" }),
            json!({ "broken": "{" }),
            json!({ "broken": "{" }),
            json!({ "event": "log.repaired" }),
        ];
        let key = |call| ("abcd".to_owned(), call);
        let seen = [1, 2, 3, 4, 5, 5, 6].map(key);
        let account = join(&audit, &seen, &BTreeSet::from([key(6)]));
        let expected = Account {
            seen: 6,
            repeated: 1,
            without_start: 1,
            with_two_starts: 1,
            with_two_ends: 1,
            without_end: 1,
            cut_off: 1,
            broken_lines: 1,
        };
        assert_eq!(account, expected);
        assert_eq!(of_trace("00-0123456789abcdef0123456789abcdef-89abcdef0000002a-01").unwrap().1, 42);
    }
}
