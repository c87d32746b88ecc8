//! The `[trace]` table: what is kept of executions.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;

use super::within;
use crate::{
    hub::syncer::SyncSettings,
    serve::TraceSettings,
    trace::{
        export::exporter,
        sanitize::{Rules, SanitizeFile},
        store,
    },
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The `[trace]` table, as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TraceFile {
    /// Keep a trace of every execution? Default: true.
    pub enabled: Option<bool>,
    /// Days after which a trace is deleted. Default: 30. At most 3650.
    pub keep_days: Option<u64>,
    /// Size of the database from which on the oldest traces are deleted. Default: 1024. At most 1 048 576.
    pub max_mb: Option<u64>,
    /// Also keep traces as they were, with all secrets, on this machine alone. For debugging. Default: false.
    pub raw: Option<bool>,
    /// Rules of your own for what is removed from traces, and what stays.
    pub sanitize: SanitizeFile,
}

impl TraceFile {
    pub(super) fn check(
        self,
        telemetry: Option<exporter::Settings>,
        hub: Option<SyncSettings>,
    ) -> Result<TraceSettings, String> {
        let TraceFile { enabled, keep_days, max_mb, raw, sanitize } = self;
        let days = within("trace.keep_days", keep_days, 30, 3650)?;
        let megabytes = within("trace.max_mb", max_mb, 1024, 1024 * 1024)?;
        let options = store::Options {
            keep: DAY * u32::try_from(days).unwrap_or(u32::MAX),
            max_bytes: megabytes * 1024 * 1024,
            ..store::Options::default()
        };
        let rules = Arc::new(Rules::new(sanitize)?);
        let (enabled, raw) = (enabled.unwrap_or(true), raw.unwrap_or(false));
        Ok(TraceSettings { enabled, raw, options, rules, telemetry, hub })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn traces_are_kept_unless_that_is_unwanted() {
        let config = Config::parse("").unwrap().traces;
        assert!(config.enabled && !config.raw);
        assert_eq!(config.options, crate::trace::store::Options::default());
        let config = Config::parse("[trace]\nenabled = false\nkeep_days = 7\nmax_mb = 10\nraw = true").unwrap().traces;
        assert!(!config.enabled && config.raw);
        assert_eq!((config.options.keep.as_secs(), config.options.max_bytes), (7 * 86_400, 10 << 20));
        for (text, part) in [("keep_days = 0", "`trace.keep_days` is 0"), ("max_mb = 99999999", "`trace.max_mb`")] {
            let message = Config::parse(&format!("[trace]\n{text}")).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }
}
