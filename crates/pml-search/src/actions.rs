//! What a tool does to things, by the verb of its name, and what a query wants done.
//!
//! Nouns are shared by all tools of a service: "restart the pod" has one word with every tool for pods. Which of them is wanted
//! the verb says, and tools say it in few ways.

use crate::tokenize::{Run, runs};

/// Kinds of work, each with the verbs for it. What takes something away comes first: see [`Action::is_destructive`].
const ACTIONS: [&[&str]; 23] = [
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
    &["write", "put", "manage", "upsert"],
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
/// What a tool does that creates, changes or takes away, as its arguments say.
const WRITING: u8 = 22;

/// Words by which a question begins. Who asks wants to be shown something and nothing done, whatever the verb is: "which charts
/// are installed", "did anybody send it".
#[rustfmt::skip]
const QUESTIONS: [&str; 20] = [
    "any", "anything", "are", "did", "does", "has", "have", "is", "was", "were", "what", "whats", "when", "where", "which", "who",
    "whom", "whos", "whose", "why",
];
/// The same in German, French and Spanish.
#[rustfmt::skip]
const FOREIGN_QUESTIONS: [&str; 34] = [
    "wann", "warum", "welche", "welchen", "welcher", "welches", "wem", "wen", "wer", "wessen", "wie", "wieso", "wieviel", "wo",
    "combien", "où", "pourquoi", "quand", "quel", "quelle", "quelles", "quels", "qui", "cuál", "cuáles", "cuándo", "cuánto", "cuántos",
    "cuántas", "dónde", "qué", "quién", "quiénes", "cual",
];
/// The same after "how".
const MEASURES: [&str; 8] = ["big", "far", "high", "large", "long", "many", "much", "often"];

/// Words by which a wish begins that something be done, and that no tool has as its verb. In order.
#[rustfmt::skip]
const DOINGS: [&str; 56] = [
    "allow", "announce", "append", "apply", "approve", "archive", "attach", "ban", "block", "bookmark", "bring", "bump", "choose",
    "connect", "declare", "enter", "file", "fill", "fix", "grant", "hide", "hold", "increase", "invite", "jot", "label", "let", "limit",
    "link", "lock", "log", "mark", "mention", "mute", "note", "pin", "press", "promote", "push", "raise", "record", "reduce", "restrict",
    "schedule", "share", "silence", "snooze", "star", "store", "submit", "swap", "switch", "tag", "turn", "unlock", "upgrade",
];

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Action(u8);

impl Action {
    /// What a question wants: to be shown something.
    pub(crate) const SHOWING: Action = Action(2);
    /// What a query wants that asks for a change in words that name none of the kinds.
    pub(crate) const DOING: Action = Action(ACTIONS.len() as u8);

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
        let is_looking = |action: Action| LOOKING.contains(&action.0);
        match is_looking(self) {
            true => is_looking(other),
            false => {
                self == other
                    || other.0 == WRITING
                    || ([Action::DOING.0, WRITING].contains(&self.0) && !is_looking(other))
            }
        }
    }
}

/// May a query want something taken away?
pub(crate) fn takes_away(query: &str) -> bool {
    words(query).any(|word| {
        Action::of(&word).is_some_and(Action::is_destructive) || TAKING_AWAY.binary_search(&word.as_str()).is_ok()
    })
}

/// What a query wants done: to be shown something if it is a question, or else the first verb in it.
pub(crate) fn wanted(typed: &str, query: &str) -> Option<Action> {
    if words(typed).next().is_some_and(|first| FOREIGN_QUESTIONS.contains(&first.as_str())) {
        return Some(Action::SHOWING);
    }
    let words: Vec<String> = words(query).collect();
    let first = words.first().map_or("", String::as_str);
    let second = words.get(1).map_or("", String::as_str);
    if QUESTIONS.contains(&first) || (first == "how" && MEASURES.contains(&second)) {
        return Some(Action::SHOWING);
    }
    if DOINGS.binary_search(&first).is_ok() {
        return Some(Action::DOING);
    }
    words.iter().find_map(|word| Action::of(word))
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
        assert!(TAKING_AWAY.is_sorted() && DOINGS.is_sorted());
    }

    #[test]
    fn what_writes_does_whatever_is_to_be_done() {
        let of = |word: &str| Action::of(word).unwrap();
        #[rustfmt::skip]
        let table = [
            (of("create"),    of("write"),  true),
            (Action::DOING,   of("write"),  true),
            (Action::DOING,   of("create"), true),
            (Action::DOING,   of("get"),    false),
            (Action::SHOWING, of("write"),  false),
            (Action::SHOWING, of("search"), true),
            (of("put"),       of("create"), true),
            (of("create"),    of("update"), false),
        ];
        for (wanted, action, expected) in table {
            assert_eq!(wanted.is_like(action), expected, "{wanted:?} {action:?}");
        }
    }

    #[test]
    fn a_tool_does_what_its_name_says() {
        let of = |name: &str, text: &str| Action::of_tool(name, text);
        assert_eq!(of("jira_delete_issue", "Gets rid of it"), Action::of("remove"));
        assert_eq!(of("issues", "Lists issues"), Action::of("list"));
        assert_eq!(of("issues", "The issues that were deleted"), None);
        assert!(takes_away("get rid of old backups") && !takes_away("undo the last deployment"));
        let wanted = |query: &str| wanted(query, query);
        assert_eq!(wanted("please restart the pod that was deleted"), Action::of("restart"));
        for query in ["which pods were deleted", "how many pods run", "Wer hat es gelöscht", "qué hay"] {
            assert_eq!(wanted(query), Some(Action::SHOWING), "{query}");
        }
        assert_eq!(wanted("how do I delete it"), Action::of("delete"));
        assert_eq!(wanted("mute it"), Some(Action::DOING));
        assert_eq!(wanted("pods"), None);
    }
}
