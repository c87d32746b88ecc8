//! Which tools may be called at all, and which resources and prompts may be used.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pml_wire::ToolId;

use super::profile::Profile;
use crate::catalog::Pins;

/// Lists of patterns for `server:tool`, in which `*` stands for anything. A denial wins; with any
/// permission, what is not permitted is denied.
///
/// A resource is `server:resource:ADDRESS` and a prompt `server:prompt:NAME`. Clients choose addresses, so the server's
/// part of a permission must match the server alone: `*:get_*` does not permit `fs:resource:file:///a?x:get_b`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub allow: Vec<String>,
    /// A second list of permissions: with any, what is not in this one either is denied. So a project's file narrows what
    /// the user's own allows.
    pub within: Vec<String>,
    pub deny: Vec<String>,
    pub changed: OnChange,
    /// What clients of a profile may use of that, by the name of the profile.
    pub profiles: BTreeMap<String, Profile>,
    /// Of a profile: further lists, each of which must cover what is called.
    pub narrower: Vec<Vec<String>>,
    /// Of a capability: the tools that it was saved with.
    pub only: Option<Only>,
}

/// The tools that a capability may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Only {
    /// What the capability is called.
    pub capability: Arc<str>,
    /// Names of tools, and of resources and prompts as the policy writes them; no patterns.
    pub tools: Arc<BTreeSet<String>>,
    /// Of those that are capabilities, which programs they were when the list was made.
    pub identities: Arc<BTreeMap<String, String>>,
}

/// What is done about a tool that is not what it was when it was first seen, until somebody accepts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChange {
    /// It is said to whoever uses it.
    #[default]
    Tell,
    /// It may not be called, and is not shown.
    Block,
}

/// What the names of pml's own tools begin with.
const OWN: &str = "pml:";
/// The rule that denies a changed tool.
const CHANGED: &str = "changed";
/// The rule that denies what a capability was not saved with.
const NOT_SAVED_WITH: &str = "it is not among the tools of the capability";

/// What the policy says about a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) is_allowed: bool,
    /// What decided.
    pub(super) rule: String,
}

impl Verdict {
    /// What a program is told about a tool that it may not call.
    pub(super) fn explain(&self, tool: &ToolId) -> String {
        self.explain_named(tool.as_str())
    }

    pub(super) fn explain_named(&self, name: &str) -> String {
        if self.rule == CHANGED {
            return format!(
                "the policy does not allow `{name}` (changed): it is not what it was when it was first seen; \
                 `pml tools --changed` shows how, `pml tools accept {name}` allows it"
            );
        }
        if self.rule.starts_with(NOT_SAVED_WITH) {
            return format!("`{name}` may not be called here: {}", self.rule);
        }
        format!("the policy does not allow `{name}` ({})", self.rule)
    }
}

impl Policy {
    pub(super) fn judge(&self, tool: &ToolId, pins: &Pins) -> Verdict {
        let verdict = self.judge_named(tool.as_str());
        match verdict.is_allowed && self.blocks(tool, pins) {
            true => Verdict { is_allowed: false, rule: CHANGED.to_owned() },
            false => verdict,
        }
    }

    fn blocks(&self, tool: &ToolId, pins: &Pins) -> bool {
        self.changed == OnChange::Block && pins.is_changed(tool)
    }

    pub(super) fn judge_named(&self, name: &str) -> Verdict {
        let (is_allowed, list, pattern) = self.decide(name);
        let rule = match pattern {
            Some(pattern) => format!("{list} {pattern}"),
            None => list.to_owned(),
        };
        Verdict { is_allowed, rule }
    }

    /// The decision, and what made it.
    fn decide(&self, name: &str) -> (bool, &'static str, Option<&str>) {
        if let Some(pattern) = self.deny.iter().find(|pattern| matches(pattern, name)) {
            return (false, "deny", Some(pattern));
        }
        // What runs calls of others is held to nothing but `deny`: each of those calls is judged by itself.
        if name.starts_with(OWN) {
            return (true, "own", None);
        }
        let covers = |pattern: &&String| permits(pattern, name);
        if !self.within.is_empty() && !self.within.iter().any(|pattern| covers(&pattern)) {
            return (false, "not in allow", None);
        }
        if self.narrower.iter().any(|list| !list.iter().any(|pattern| covers(&pattern))) {
            return (false, "not in the profile", None);
        }
        if let Some(only) = self.only.as_ref().filter(|only| !only.tools.contains(name)) {
            return (false, NOT_SAVED_WITH, Some(&only.capability));
        }
        match self.allow.iter().find(covers) {
            Some(pattern) => (true, "allow", Some(pattern)),
            None if self.allow.is_empty() => (true, "default", None),
            None => (false, "not in allow", None),
        }
    }

    /// May the tool be called, as it is now?
    pub(super) fn allows_as_it_is(&self, tool: &ToolId, pins: &Pins) -> bool {
        self.allows(tool) && !self.blocks(tool, pins)
    }

    /// May a tool of that name be called?
    pub fn allows(&self, tool: &ToolId) -> bool {
        self.allows_named(tool.as_str())
    }

    pub(super) fn allows_named(&self, name: &str) -> bool {
        self.decide(name).0
    }

    /// Was the capability that this policy is for saved with a resource or a prompt of a server? It may use none of the server's
    /// tools then, and still reach the server.
    pub(super) fn names_subject_of(&self, server: &str) -> bool {
        let is_subject = |name: &String| {
            let own = name.strip_prefix(server).and_then(|rest| rest.strip_prefix(':'));
            own.is_some_and(|own| own.starts_with("resource:") || own.starts_with("prompt:"))
        };
        self.only.as_ref().is_some_and(|only| only.tools.iter().any(is_subject))
    }

    /// Is nothing denied?
    pub(super) fn is_trivial(&self) -> bool {
        let is_open =
            self.allow.is_empty() && self.within.is_empty() && self.narrower.is_empty() && self.only.is_none();
        is_open && self.deny.is_empty() && self.changed == OnChange::Tell
    }

    /// The policy for clients of a profile. One that is not defined allows nothing.
    pub(super) fn narrowed(&self, profile: &str) -> Policy {
        let profile = self.profiles.get(profile).cloned().unwrap_or_else(Profile::undefined);
        let mut policy = Policy { narrower: profile.lists(), profiles: BTreeMap::new(), ..self.clone() };
        policy.deny.extend(profile.deny);
        policy
    }

    /// Is there anything of a server that a client of this profile may use, as far as the names of servers tell?
    pub(super) fn shows_server(&self, server: &str) -> bool {
        let names = |pattern: &String| {
            let own = pattern.split_once(':').map_or(pattern.as_str(), |(own, _)| own);
            matches(own, server)
        };
        // No tool is called so: a denial that matches it denies everything.
        let any = format!("{server}:\u{0}");
        let is_denied = !self.narrower.is_empty() && self.deny.iter().any(|pattern| matches(pattern, &any));
        self.narrower.iter().all(|list| list.iter().any(names)) && !is_denied
    }
}

/// Does a permission cover a name? Both parts must match by themselves.
fn permits(pattern: &str, name: &str) -> bool {
    match (pattern.split_once(':'), name.split_once(':')) {
        (Some((server, rest)), Some((own_server, own_rest))) => matches(server, own_server) && matches(rest, own_rest),
        _ => matches(pattern, name),
    }
}

/// Does a text match a pattern, in which a star stands for anything?
pub fn matches(pattern: &str, text: &str) -> bool {
    consists_of(pattern.split('*'), text)
}

/// Does a text begin with the first of these parts and end with the last, with the others in between, in order? Linear in
/// the text for each part, so that no pattern takes long.
pub(super) fn consists_of<'a>(mut parts: impl Iterator<Item = &'a str>, text: &str) -> bool {
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_narrows_and_never_widens() {
        let list = |patterns: &[&str]| patterns.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let profile = |servers: Option<&[&str]>, allow: &[&str], deny: &[&str]| {
            let servers = servers.map(list);
            Profile { servers, allow: list(allow), deny: list(deny), calls_per_minute: None }
        };
        let base = Policy { allow: list(&["fs:*", "db:*"]), deny: list(&["fs:secret_*"]), ..Policy::default() };
        let table = [
            (profile(None, &[], &[]), "fs:read", true),
            (profile(None, &["*"], &[]), "git:log", false),
            (profile(None, &["*"], &[]), "fs:secret_read", false),
            (profile(Some(&["fs"]), &[], &[]), "fs:read", true),
            (profile(Some(&["fs"]), &[], &[]), "db:read", false),
            (profile(Some(&[]), &["*"], &[]), "fs:read", false),
            (profile(Some(&["fs"]), &["db:*"], &[]), "db:read", false),
            (profile(None, &["fs:read*"], &[]), "fs:write", false),
            (profile(None, &["fs:read*"], &["fs:read_all"]), "fs:read_all", false),
            (profile(Some(&["fs"]), &[], &[]), "fs:resource:file:///a", true),
            (profile(Some(&["db"]), &[], &[]), "fs:resource:file:///a:db:*", false),
        ];
        for (profile, name, expected) in table {
            let profiles = BTreeMap::from([("p".to_owned(), profile.clone())]);
            let narrowed = Policy { profiles, ..base.clone() }.narrowed("p");
            assert_eq!(narrowed.allows_named(name), expected, "{profile:?} {name}");
        }
        assert!(!base.narrowed("nobody").allows_named("fs:read"), "a profile that is not defined");
        let only = |servers: &[&str], deny: &[&str]| {
            let profiles = BTreeMap::from([("p".to_owned(), profile(Some(servers), &[], deny))]);
            Policy { profiles, ..Policy::default() }.narrowed("p")
        };
        assert!(only(&["fs"], &["fs:write*"]).shows_server("fs") && !only(&["fs"], &[]).shows_server("db"));
        assert!(!only(&["fs"], &["fs:*"]).shows_server("fs") && Policy::default().shows_server("fs"));
    }

    #[test]
    fn patterns_match_whole_names() {
        let table = [
            ("fs:read", "fs:read", true),
            ("fs:read", "fs:read_file", false),
            ("fs:*", "fs:read", true),
            ("fs:*", "fs2:read", false),
            ("*", "fs:read", true),
            ("*:delete_*", "fs:delete_file", true),
            ("*:delete_*", "fs:undelete", false),
            ("*a*b", "xxaxxb", true),
            ("*a*b", "xxbxxa", false),
            ("f*s:r*", "fs:read", true),
            ("", "fs:read", false),
            ("a*a", "a:a", true),
            ("ab*b", "ab", false),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_permission_for_tools_opens_no_resource() {
        let table = [
            ("*:get_*", "fs:get_x", true),
            ("*:get_*", "fs:resource:file:///a?x:get_b", false),
            ("fs:*", "fs:resource:file:///a", true),
            ("*", "fs:prompt:greet", true),
            ("*:resource:*", "fs:resource:file:///a", true),
            ("*:resource:*", "fs:prompt:x:resource:y", false),
            ("fs:resource:file:///pub/*", "fs:resource:file:///pub/a", true),
            ("fs:resource:file:///pub/*", "fs:resource:file:///etc/a", false),
            ("f*:read", "fs:read", true),
        ];
        for (pattern, name, expected) in table {
            assert_eq!(permits(pattern, name), expected, "{pattern} {name}");
        }
        let policy = Policy { deny: vec!["*:delete_*".to_owned()], ..Policy::default() };
        assert!(!policy.allows_named("fs:resource:a:delete_b"), "a denial may match too much");
    }

    #[test]
    fn a_denial_wins_and_a_permission_closes_the_rest() {
        let list = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let policy = |allow: &[&str], deny: &[&str]| Policy {
            allow: list(allow),
            deny: list(deny),
            changed: OnChange::Block,
            ..Policy::default()
        };
        let within = |own: &[&str], allow: &[&str]| Policy { within: list(own), ..policy(allow, &[]) };
        let table = [
            (policy(&[], &[]), true, "default"),
            (policy(&["fs:*"], &[]), true, "allow fs:*"),
            (policy(&["git:*"], &[]), false, "not in allow"),
            (policy(&["*"], &["fs:w*"]), false, "deny fs:w*"),
            (policy(&[], &["git:*"]), true, "default"),
            (within(&["fs:*"], &["*"]), true, "allow *"),
            (within(&["git:*"], &["*"]), false, "not in allow"),
            (within(&["*"], &["git:*"]), false, "not in allow"),
        ];
        for (policy, is_allowed, rule) in table {
            let verdict = policy.judge(&"fs:write".parse().unwrap(), &Pins::new(None));
            assert_eq!(verdict, Verdict { is_allowed, rule: rule.to_owned() }, "{policy:?}");
        }
    }
}
