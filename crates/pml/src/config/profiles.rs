//! The `[profiles.NAME]` tables: what some clients may use of what everybody may.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use serde::Deserialize;

use super::{MIB, within};
use crate::{broker::Profile, execution::Ceilings};

/// Longest name of a profile.
const MAX_NAME: usize = 64;

/// A `[profiles.NAME]` table, as written. It narrows what the rest of the file allows, and widens nothing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileFile {
    /// The only servers there are for its clients. Default: all.
    pub servers: Option<Vec<String>>,
    /// Patterns for `server:tool`; if there are any, nothing else may be called.
    pub allow: Vec<String>,
    pub deny: Vec<String>,
    /// Calls and requests of each client in a minute. Default: no limit of its own.
    pub calls_per_minute: Option<u64>,
    pub limits: ProfileLimitsFile,
}

/// The `[profiles.NAME.limits]` table, as written: the limits of one run that can be lowered.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileLimitsFile {
    pub timeout_ms: Option<u64>,
    pub total_ms: Option<u64>,
    pub memory_mb: Option<u64>,
    pub result_bytes: Option<u64>,
    pub calls: Option<u64>,
    pub calls_in_flight: Option<u64>,
    pub calls_per_minute: Option<u64>,
}

/// Profiles, checked: what their clients may use, and what their runs may take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Profiles {
    pub(super) rules: BTreeMap<String, Profile>,
    pub(super) ceilings: BTreeMap<String, Ceilings>,
}

/// Checks all profiles. Servers that a profile names need not be there: a profile may be written before its servers are.
pub(super) fn check(files: BTreeMap<String, ProfileFile>) -> Result<Profiles, String> {
    let mut profiles = Profiles::default();
    for (name, file) in files {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_plain) {
            return Err(format!("`profiles.{name}` must be named with letters, digits, `.`, `_` and `-`"));
        }
        if let Some(pattern) = file.allow.iter().chain(&file.deny).find(|it| !it.contains(':') && *it != "*") {
            return Err(format!(
                "`{pattern}` in [profiles.{name}] matches nothing; write `server:tool`, such as `{pattern}:*`"
            ));
        }
        let number = |key: &str, value: Option<u64>, most: u64| {
            value.map(|value| within(&format!("profiles.{name}.{key}"), Some(value), 1, most)).transpose()
        };
        let pace = |key: &str, value: Option<u64>| -> Result<Option<NonZeroU32>, String> {
            Ok(number(key, value, u64::from(u32::MAX))?.and_then(|value| NonZeroU32::new(value as u32)))
        };
        const HOUR_MS: u64 = 60 * 60 * 1000;
        let ProfileLimitsFile {
            timeout_ms,
            total_ms,
            memory_mb,
            result_bytes,
            calls,
            calls_in_flight,
            calls_per_minute,
        } = file.limits;
        let ceilings = Ceilings {
            timeout: number("limits.timeout_ms", timeout_ms, HOUR_MS)?.map(Duration::from_millis),
            total: number("limits.total_ms", total_ms, 24 * HOUR_MS)?.map(Duration::from_millis),
            memory_bytes: number("limits.memory_mb", memory_mb, 1024)?.map(|megabytes| megabytes as usize * MIB),
            result_bytes: number("limits.result_bytes", result_bytes, 1 << 30)?.map(|bytes| bytes as usize),
            calls: number("limits.calls", calls, u64::from(u32::MAX))?.map(|calls| calls as u32),
            calls_in_flight: number("limits.calls_in_flight", calls_in_flight, 1000)?.map(|calls| calls as usize),
            calls_per_minute: pace("limits.calls_per_minute", calls_per_minute)?,
        };
        let calls_per_minute = pace("calls_per_minute", file.calls_per_minute)?;
        let rules = Profile { servers: file.servers, allow: file.allow, deny: file.deny, calls_per_minute };
        profiles.rules.insert(name.clone(), rules);
        profiles.ceilings.insert(name, ceilings);
    }
    Ok(profiles)
}

#[cfg(test)]
mod tests {
    use super::{super::File, *};

    #[test]
    fn what_is_wrong_with_a_profile_is_said() {
        let check = |text: &str| check(File::parse(text).map_err(|err| err.to_string())?.profiles);
        let profiles = check(
            "[profiles.reader]\nservers = [\"fs\"]\nallow = [\"fs:read_*\"]\ncalls_per_minute = 60\n\
             [profiles.reader.limits]\ncalls = 5\nmemory_mb = 16",
        )
        .unwrap();
        assert_eq!(profiles.rules["reader"].servers.as_deref(), Some(&["fs".to_owned()][..]));
        assert_eq!(profiles.ceilings["reader"].memory_bytes, Some(16 * MIB));
        for (text, part) in [
            ("[profiles.\"a b\"]", "must be named with"),
            ("[profiles.a]\nserver = [\"fs\"]", "unknown field"),
            ("[profiles.a]\nallow = [\"fs\"]", "matches nothing"),
            ("[profiles.a]\ncalls_per_minute = 0", "`profiles.a.calls_per_minute` is 0"),
            ("[profiles.a.limits]\nmemory_mb = 99999", "`profiles.a.limits.memory_mb` is 99999"),
            ("[profiles.a.limits]\ncode_bytes = 1", "unknown field"),
        ] {
            let said = check(text).unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
