//! What changes between two texts of a configuration, setting by setting.
//!
//! The settings are compared, not the lines: TOML writes the same thing in many ways, and whoever decides whether to
//! trust a file must see what it means.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// A setting that is new, gone, or another.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The keys that lead to it, outermost first.
    pub keys: Vec<String>,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

impl Difference {
    /// The keys as TOML would write them.
    pub fn name(&self) -> String {
        let is_bare = |key: &str| !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let key = |key: &String| match is_bare(key) {
            true => key.clone(),
            false => format!("\"{}\"", key.escape_debug()),
        };
        self.keys.iter().map(key).collect::<Vec<_>>().join(".")
    }
}

/// Every setting that differs, servers first, then the policy. Without `before`, everything is new. A text that cannot
/// be read has no settings.
pub fn differences(before: Option<&str>, after: &str) -> Vec<Difference> {
    let (before, after) = (settings(before.unwrap_or_default()), settings(after));
    let mut keys: Vec<_> = before.keys().chain(after.keys()).cloned().collect();
    keys.sort_by_cached_key(|keys| (rank(keys), keys.clone()));
    keys.dedup();
    let difference = |keys: Vec<String>| {
        let (before, after) = (before.get(&keys).cloned(), after.get(&keys).cloned());
        (before != after).then_some(Difference { keys, before, after })
    };
    keys.into_iter().filter_map(difference).collect()
}

fn rank(keys: &[String]) -> usize {
    let first = keys.first().map_or("", String::as_str);
    ["servers", "policy", "sandbox"].iter().position(|table| *table == first).unwrap_or(usize::MAX)
}

fn settings(text: &str) -> BTreeMap<Vec<String>, Value> {
    let mut found = BTreeMap::new();
    if let Ok(table) = toml::from_str::<Table>(text.trim_start_matches('\u{feff}')) {
        collect(table, &mut Vec::new(), &mut found);
    }
    found
}

fn collect(table: Table, keys: &mut Vec<String>, found: &mut BTreeMap<Vec<String>, Value>) {
    for (key, value) in table {
        keys.push(key);
        match value {
            Value::Table(table) if !table.is_empty() => collect(table, keys, found),
            value => drop(found.insert(keys.clone(), value)),
        }
        keys.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(before: Option<&str>, after: &str) -> Vec<String> {
        let mark = |difference: &Difference| match (&difference.before, &difference.after) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '~',
        };
        let shown = |difference| format!("{}{}", mark(&difference), difference.name());
        differences(before, after).into_iter().map(shown).collect()
    }

    #[test]
    fn settings_are_compared_however_they_are_written() {
        let plain = "[servers.a]\ncommand = \"x\"\nargs = [\"1\"]\n[servers.a.env]\nT = \"1\"\n[limits]\ncalls = 5\n";
        let odd =
            "limits.calls = 5 # same\nservers = { \"\\u0061\" = { env = { T = '1' }, args = ['1'], command = 'x' } }";
        assert_eq!(names(Some(plain), odd), [""; 0]);
        let all = ["+servers.a.args", "+servers.a.command", "+servers.a.env.T", "+limits.calls"];
        assert_eq!(names(None, plain), all);
        assert_eq!(names(None, odd), all);
    }

    #[test]
    fn what_is_new_gone_and_other_is_told_apart() {
        let before = "[servers.a]\ncommand = \"x\"\n[limits]\ncalls = 5\n[policy]\ndeny = [\"a:*\"]";
        let after = "[servers.a]\ncommand = \"y\"\n[servers.\"b c\"]\nurl = \"u\"\n[policy]\ndeny = []";
        let expected = ["~servers.a.command", "+servers.\"b c\".url", "~policy.deny", "-limits.calls"];
        assert_eq!(names(Some(before), after), expected);
        assert_eq!(names(Some("[["), after).len(), 3, "what cannot be read has no settings");
    }
}
