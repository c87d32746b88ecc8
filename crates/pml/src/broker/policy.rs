//! Which tools may be called at all.

use pml_wire::ToolId;

/// Lists of patterns for `server:tool`, in which `*` stands for anything. A denial wins; with any
/// permission, what is not permitted is denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub allow: Vec<String>,
    /// A second list of permissions: with any, what is not in this one either is denied. So a project's file narrows what
    /// the user's own allows.
    pub within: Vec<String>,
    pub deny: Vec<String>,
}

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
        format!("the policy does not allow `{tool}` ({})", self.rule)
    }
}

impl Policy {
    pub(super) fn judge(&self, tool: &ToolId) -> Verdict {
        let (is_allowed, list, pattern) = self.decide(tool);
        let rule = match pattern {
            Some(pattern) => format!("{list} {pattern}"),
            None => list.to_owned(),
        };
        Verdict { is_allowed, rule }
    }

    /// The decision, and what made it.
    fn decide(&self, tool: &ToolId) -> (bool, &'static str, Option<&str>) {
        let matching = |patterns: &'_ [String]| patterns.iter().position(|pattern| matches(pattern, tool.as_str()));
        if let Some(at) = matching(&self.deny) {
            return (false, "deny", Some(&self.deny[at]));
        }
        if !self.within.is_empty() && matching(&self.within).is_none() {
            return (false, "not in allow", None);
        }
        match matching(&self.allow) {
            Some(at) => (true, "allow", Some(&self.allow[at])),
            None if self.allow.is_empty() => (true, "default", None),
            None => (false, "not in allow", None),
        }
    }

    /// May the tool be called?
    pub fn allows(&self, tool: &ToolId) -> bool {
        self.decide(tool).0
    }

    /// Is nothing denied?
    pub(super) fn is_trivial(&self) -> bool {
        self.allow.is_empty() && self.within.is_empty() && self.deny.is_empty()
    }
}

/// Linear in the text for each star, so that no pattern takes long.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut rest = rest;
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
    fn a_denial_wins_and_a_permission_closes_the_rest() {
        let list = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let policy =
            |allow: &[&str], deny: &[&str]| Policy { allow: list(allow), deny: list(deny), ..Policy::default() };
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
            let verdict = policy.judge(&"fs:write".parse().unwrap());
            assert_eq!(verdict, Verdict { is_allowed, rule: rule.to_owned() }, "{policy:?}");
        }
    }
}
