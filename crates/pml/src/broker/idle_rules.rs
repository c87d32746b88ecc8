//! Rules of the policy that no tool matches: mostly a name that is mistyped, and then a denial that denies nothing.

use std::fmt;

use super::{
    door::Broker,
    policy::{Policy, matches},
};
use crate::catalog::{Snapshot, nearest};

/// A rule that no tool matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdleRule {
    /// `allow` or `deny`.
    pub list: &'static str,
    pub pattern: String,
    /// What may have been meant.
    pub nearest: Option<String>,
}

impl fmt::Display for IdleRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the rule `{}` in {} of [policy] matches no tool", self.pattern, self.list)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

impl Broker {
    /// The rules that no tool matches, as far as tools are known.
    pub fn idle_rules(&self) -> Vec<IdleRule> {
        self.rules().policy.idle_rules(&self.snapshot())
    }
}

impl Policy {
    /// A rule that may be about a server which has not listed its tools is not judged.
    fn idle_rules(&self, snapshot: &Snapshot) -> Vec<IdleRule> {
        let lists = [("deny", &self.deny), ("allow", &self.allow), ("allow", &self.within)];
        let rules = lists.into_iter().flat_map(|(list, patterns)| patterns.iter().map(move |pattern| (list, pattern)));
        let mut idle: Vec<_> = rules
            .filter(|(_, pattern)| is_idle(pattern, snapshot))
            .map(|(list, pattern)| IdleRule { list, pattern: pattern.clone(), nearest: meant(pattern, snapshot) })
            .collect();
        idle.sort();
        idle.dedup();
        idle
    }
}

fn is_idle(pattern: &str, snapshot: &Snapshot) -> bool {
    // Whatever there is; and there may be nothing.
    let Some((server, tool)) = pattern.split_once(':') else { return false };
    let is_unknown = |name: &str| matches(server, name) && snapshot.listing(name).is_none();
    if snapshot.servers().any(is_unknown) {
        return false;
    }
    // With another colon it may be about something else that the server has than a tool.
    match tool.contains(':') {
        true => !snapshot.servers().any(|name| matches(server, name)),
        false => !snapshot.tools().any(|tool| matches(pattern, tool.id.as_str())),
    }
}

/// The rule with the name that is nearest to what stands there.
fn meant(pattern: &str, snapshot: &Snapshot) -> Option<String> {
    let (server, tool) = pattern.split_once(':')?;
    if !snapshot.servers().any(|name| matches(server, name)) {
        return nearest(server, snapshot.servers()).first().map(|near| format!("{near}:{tool}"));
    }
    let names = snapshot.tools().filter(|tool| matches(server, tool.id.server())).map(|tool| tool.id.tool());
    nearest(&tool.replace('*', ""), names).first().map(|near| format!("{server}:{near}"))
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::catalog::{Catalog, Listing, Source};

    #[test]
    fn rules_that_match_nothing_are_named_with_what_may_be_meant() {
        let catalog = Catalog::new(["github", "files", "down"].map(str::to_owned));
        for (server, tools) in [("github", &["create_issue", "delete_issue"][..]), ("files", &["read_file"])] {
            let raw =
                |name: &&str| RawValue::from_string(format!(r#"{{"name":"{name}","inputSchema":{{}}}}"#)).unwrap();
            catalog.update(Listing::parse(server, tools.iter().map(raw).collect(), Source::Live));
        }
        #[rustfmt::skip]
        let table = [
            // rule                   idle    meant
            ("github:create_issue",   false,  None),
            ("github:*",              false,  None),
            ("*",                     false,  None),
            ("github:delete_isue",    true,   Some("github:delete_issue")),
            ("githb:*",               true,   Some("github:*")),
            ("githb:resource:*",      true,   Some("github:resource:*")),
            ("github:resource:x",     false,  None),
            ("files:read_fil",        true,   Some("files:read_file")),
            ("files:zzz",             true,   None),
            // The server that is down may have it.
            ("down:anything",         false,  None),
            ("*:delete_everything",   false,  None),
        ];
        let judge = |pattern: &str| {
            let policy = Policy { deny: vec![pattern.to_owned()], ..Policy::default() };
            policy.idle_rules(&catalog.snapshot())
        };
        for (pattern, is_idle, meant) in table {
            let idle = judge(pattern);
            assert_eq!(idle.len(), usize::from(is_idle), "{pattern}");
            assert_eq!(idle.first().and_then(|rule| rule.nearest.as_deref()), meant, "{pattern}");
        }
        catalog.remove("down");
        assert_eq!(judge("*:delete_issu")[0].nearest.as_deref(), Some("*:delete_issue"));
        assert_eq!(judge("down:x").len(), 1);
        let message = judge("githb:*")[0].to_string();
        assert_eq!(message, "the rule `githb:*` in deny of [policy] matches no tool; did you mean `github:*`?");
    }
}
