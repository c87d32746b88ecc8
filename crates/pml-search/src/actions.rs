//! What a tool does to things, by the verb of its name, and what a query wants done.
//!
//! Nouns are shared by all tools of a service: "restart the pod" has one word with every tool for pods. Which of them is wanted
//! the verb says, and tools say it in few ways.

use crate::tokenize::{Run, runs};

/// Kinds of work, each with the verbs for it. What takes something away comes first: see [`Action::is_destructive`].
const ACTIONS: [&[&str]; 22] = [
    &[
        "delete",
        "remove",
        "destroy",
        "drop",
        "purge",
        "wipe",
        "erase",
        "truncate",
        "terminate",
        "kill",
        "uninstall",
        "prune",
        "discard",
        "trash",
    ],
    &["create", "add", "insert", "register", "generate", "draft", "provision", "make", "compose"],
    &["get", "read", "show", "fetch", "view", "describe", "inspect", "retrieve", "display", "see", "check"],
    &["list", "enumerate"],
    &["search", "find", "query", "lookup"],
    &["update", "edit", "modify", "change", "set", "patch", "adjust", "configure", "rename"],
    &["send", "post", "publish", "notify", "reply"],
    &["run", "execute", "trigger", "invoke", "launch", "start"],
    &["stop", "cancel", "abort", "halt", "pause", "suspend"],
    &["restart", "reboot", "reload"],
    &["undo", "revert", "rollback", "restore", "undelete", "recover"],
    &["move", "transfer"],
    &["copy", "duplicate", "clone", "fork"],
    &["download", "export", "save"],
    &["upload", "import"],
    &["merge"],
    &["close", "resolve", "complete"],
    &["assign"],
    &["enable", "activate"],
    &["disable", "deactivate"],
    &["book", "reserve", "order", "buy"],
    &["translate", "convert"],
];

/// Words by which a query may ask for something to be taken away, beside the verbs for it.
const TAKING_AWAY: [&str; 17] = [
    "clean",
    "cleanup",
    "clear",
    "deletion",
    "dispose",
    "eliminate",
    "empty",
    "expunge",
    "flush",
    "forget",
    "nuke",
    "removal",
    "revoke",
    "rid",
    "takedown",
    "unlink",
    "unsubscribe",
];
/// Kinds of work that a person does not tell apart: looking at one, at many, or for some.
const LOOKING: std::ops::RangeInclusive<u8> = 2..=4;
const DESTRUCTIVE: u8 = 0;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Action(u8);

impl Action {
    /// What a verb stands for, in any of its forms.
    pub(crate) fn of(word: &str) -> Option<Action> {
        let is_form = |verb: &&str| {
            let rest = word.strip_prefix(verb.strip_suffix('e').unwrap_or(verb));
            rest.is_some_and(|rest| match verb.ends_with('e') {
                true => matches!(rest, "e" | "es" | "ed" | "ing"),
                false => matches!(rest, "" | "s" | "es" | "ed" | "ing"),
            })
        };
        let place = ACTIONS.iter().position(|verbs| verbs.iter().any(&is_form));
        place.map(|place| Action(place as u8))
    }

    /// What a tool does: by its name, or else by how its description begins.
    pub(crate) fn of_tool(name: &str, description: &str) -> Option<Action> {
        let first = |text: &str, count: usize| words(text).take(count).find_map(|word| Action::of(&word));
        first(name, usize::MAX).or_else(|| first(description, 1))
    }

    /// Does it take something away for good?
    pub(crate) fn is_destructive(self) -> bool {
        self.0 == DESTRUCTIVE
    }

    /// Is it the same work, or one that a query does not tell from it?
    pub(crate) fn is_like(self, other: Action) -> bool {
        self == other || (LOOKING.contains(&self.0) && LOOKING.contains(&other.0))
    }
}

/// May a query want something taken away?
pub(crate) fn takes_away(query: &str) -> bool {
    words(query).any(|word| {
        Action::of(&word).is_some_and(Action::is_destructive) || TAKING_AWAY.binary_search(&word.as_str()).is_ok()
    })
}

/// What a query wants done: the first verb in it.
pub(crate) fn wanted(query: &str) -> Option<Action> {
    words(query).find_map(|word| Action::of(&word))
}

fn words(text: &str) -> impl Iterator<Item = String> {
    runs(text).into_iter().flat_map(|run| match run {
        Run::Word { parts, .. } => parts,
        Run::Unspaced(_) => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_told_in_all_forms() {
        for (a, b) in [("deletes", "removing"), ("created", "add"), ("searches", "find"), ("rebooting", "restart")] {
            assert!(Action::of(a).is_some() && Action::of(a) == Action::of(b), "{a}, {b}");
        }
        for word in ["file", "address", "setting", "", "lists3", "droplet", "largest"] {
            assert!(word == "setting" || Action::of(word).is_none(), "{word}");
        }
        assert!(TAKING_AWAY.is_sorted());
    }

    #[test]
    fn a_tool_does_what_its_name_says() {
        let of = |name: &str, text: &str| Action::of_tool(name, text);
        assert_eq!(of("jira_delete_issue", "Gets rid of it"), Action::of("remove"));
        assert_eq!(of("issues", "Lists issues"), Action::of("list"));
        assert_eq!(of("issues", "The issues that were deleted"), None);
        assert!(takes_away("get rid of old backups") && !takes_away("undo the last deployment"));
        assert_eq!(wanted("please restart the pod that was deleted"), Action::of("restart"));
    }
}
