//! Promises of SPECIFICATION.md, held against what was measured.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "benches talk to a terminal")]

use std::{collections::BTreeMap, fmt, process::ExitCode};

use serde_json::json;

/// Everything that was measured, by key.
pub type Results = BTreeMap<&'static str, f64>;

/// A promise about what is measured under a key.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    pub key: &'static str,
    pub bound: Bound,
    pub what: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtMost(most) => write!(f, "at most {most}"),
            Bound::AtLeast(least) => write!(f, "at least {least}"),
        }
    }
}

impl Promise {
    pub const fn at_most(key: &'static str, most: f64, what: &'static str) -> Promise {
        Promise { key, bound: Bound::AtMost(most), what }
    }

    pub const fn at_least(key: &'static str, least: f64, what: &'static str) -> Promise {
        Promise { key, bound: Bound::AtLeast(least), what }
    }

    /// Is it kept? A promise that was not measured is not.
    pub fn is_kept(&self, results: &Results) -> bool {
        results.get(self.key).is_some_and(|value| match self.bound {
            Bound::AtMost(most) => *value <= most,
            Bound::AtLeast(least) => *value >= least,
        })
    }
}

/// Prints what was measured, and which promises are kept. With `--check` among the arguments, a broken one is a failure,
/// and so is one that was not measured.
pub fn report(results: &Results, promises: &[Promise], args: &[String]) -> ExitCode {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    if has("--json") {
        println!("{}", json!(results));
    } else {
        for (key, value) in results {
            println!("{key:<28} {value:>12.3}");
        }
    }
    for promise in promises {
        let verdict = if promise.is_kept(results) { "kept" } else { "BROKEN" };
        let Promise { key, bound, what } = promise;
        match results.get(key) {
            Some(value) => eprintln!("{verdict}: {what}: {value:.2}, {bound}"),
            None => eprintln!("{verdict}: {what}: not measured, {bound}"),
        }
    }
    match promises.iter().all(|promise| promise.is_kept(results)) || !has("--check") {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_that_was_not_measured_is_broken() {
        let (most, least) = (Promise::at_most("a", 2.0, "so much"), Promise::at_least("a", 2.0, "so much"));
        let table = [
            (None, false, false),
            (Some(1.0), true, false),
            (Some(2.0), true, true),
            (Some(3.0), false, true),
            (Some(f64::NAN), false, false),
        ];
        for (value, kept_most, kept_least) in table {
            let results: Results = value.map(|value| ("a", value)).into_iter().collect();
            assert_eq!((most.is_kept(&results), least.is_kept(&results)), (kept_most, kept_least), "{value:?}");
            let check = ["--check".to_owned()];
            for (promise, is_kept) in [(most, kept_most), (least, kept_least)] {
                let expected = if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE };
                let code = report(&results, &[promise], &check);
                assert_eq!(format!("{code:?}"), format!("{expected:?}"), "{value:?}");
                assert_eq!(format!("{:?}", report(&results, &[promise], &[])), format!("{:?}", ExitCode::SUCCESS));
            }
        }
    }
}
