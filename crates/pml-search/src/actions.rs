//! What a tool does to things, by the verb of its name, and what a query wants done.
//!
//! Nouns are shared by all tools of a service: "restart the pod" has one word with every tool for pods. Which of them is wanted
//! the verb says, and tools say it in few ways.

use crate::{
    phrasing::without_opening,
    query::{is_pause, split_at_conjunctions},
    tokenize::{Run, runs},
};

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
/// The same as the verb of a wish: "bin the draft". In order.
#[rustfmt::skip]
const TAKING_AWAY_FIRST: [&str; 19] = [
    "bin", "chuck", "clean", "clear", "dispose", "ditch", "dump", "eliminate", "empty", "expunge", "flush", "forget", "nuke", "revoke",
    "rid", "scrap", "unlink", "unsubscribe", "zap",
];
/// Verbs that are undone by what has `un`, `de` or `dis` before them. In order.
#[rustfmt::skip]
const REVERSIBLE: [&str; 43] = [
    "allocate", "archive", "assign", "associate", "authorize", "ban", "block", "bookmark", "claim", "commission", "connect",
    "deploy", "favorite", "flag", "follow", "freeze", "hide", "join", "label", "like", "link", "lock", "mark", "mount",
    "mute", "pair", "pause", "pin", "protect", "provision", "publish", "register", "resolve", "save", "schedule", "select", "set",
    "share", "stage", "star", "subscribe", "tag", "watch",
];
/// Wishes to have something undone, beside those verbs.
const UNDOING: [&str; 5] = ["detach", "disconnect", "retract", "unassign", "withdraw"];
/// What a thing is no longer for: "I no longer like that song".
const NO_LONGER: [&str; 7] = ["care", "follow", "like", "love", "need", "use", "want"];
/// Kinds of work that a person does not tell apart: looking at one, at many, or for some.
const LOOKING: std::ops::RangeInclusive<u8> = 2..=4;
const DESTRUCTIVE: u8 = 0;
/// What makes something new is said in one word for all: to copy, to import and to convert are ways to "make" or to "add".
const CREATING: u8 = 1;
const MAKING: [u8; 3] = [12, 14, 21];
/// Kinds of work that undo another: to delete, to stop, to undo, to disable.
const UNDONE_BY: [u8; 4] = [DESTRUCTIVE, 8, 10, 19];
/// Words before a noun: "a merge request", "the next release of the order".
#[rustfmt::skip]
const BEFORE_NOUNS: [&str; 32] = [
    "a", "all", "an", "any", "by", "current", "each", "every", "first", "for", "from", "her", "his", "in", "its", "last", "latest", "my",
    "new", "next", "no", "of", "old", "on", "open", "our", "some", "that", "the", "their", "this", "with",
];
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
/// After "how", the beginning of a wish to have it done; "how many" and "how warm" are questions.
const WAYS: [&str; 7] = ["about", "can", "could", "do", "should", "to", "would"];

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
    /// To undo what another verb does: to unlock, to disconnect.
    pub(crate) const UNDOING: Action = Action(ACTIONS.len() as u8 + 1);

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

    /// What a verb stands for as it is in a wish: neither "changes" nor "edited" asks for anything.
    fn of_wish(word: &str) -> Option<Action> {
        let place = ACTIONS.iter().position(|verbs| verbs.contains(&word));
        place.map(|place| Action(place as u8))
    }

    /// What a tool does: by its name, or else by how its description begins.
    pub(crate) fn of_tool(name: &str, description: &str) -> Option<Action> {
        let of = |word: String| Action::of(&word).or_else(|| undone(&word).map(|_| Action::UNDOING));
        // A description may begin with "Unlock a world of …".
        let described = || Action::of(&words(description).next()?);
        words(name).find_map(of).or_else(described).or_else(|| is_doing(name).then_some(Action::DOING))
    }

    /// Does it take something away for good?
    pub(crate) fn is_destructive(self) -> bool {
        self.0 == DESTRUCTIVE
    }

    /// Is it the same work, or one that a query does not tell from it?
    pub(crate) fn is_like(self, other: Action) -> bool {
        let is_looking = |action: Action| LOOKING.contains(&action.0);
        if is_looking(self) {
            return is_looking(other);
        }
        let is_any = [Action::DOING.0, WRITING].contains(&self.0) && !is_looking(other) && other != Action::UNDOING;
        let is_undone = |one: Action, by: Action| one == Action::UNDOING && UNDONE_BY.contains(&by.0);
        // What a tool does that has no kind of its own may be what any wish is for that wants something done.
        if other == Action::DOING {
            return self != Action::UNDOING;
        }
        let is_made = self.0 == CREATING && MAKING.contains(&other.0);
        self == other || is_made || other.0 == WRITING || is_any || is_undone(self, other) || is_undone(other, self)
    }
}

/// Does a name begin with a verb that can be undone, such as `star_repository`?
fn is_doing(name: &str) -> bool {
    let mut words = words(name);
    let is_verb = words.next().is_some_and(|first| REVERSIBLE.binary_search(&first.as_str()).is_ok());
    is_verb && words.next().is_some()
}

/// The verb that a word undoes: `star` of `unstar` and `unstarred`.
pub(crate) fn undone(word: &str) -> Option<&'static str> {
    let rest = ["un", "de", "dis"].iter().find_map(|prefix| word.strip_prefix(prefix).filter(|rest| rest.len() > 2))?;
    let bases = ["", "s", "d", "ed", "ing"].iter().filter_map(|ending| rest.strip_suffix(ending));
    bases.filter_map(|base| REVERSIBLE.binary_search(&base).ok()).map(|place| REVERSIBLE[place]).next()
}

/// May a query want something taken away?
pub(crate) fn takes_away(query: &str) -> bool {
    words(query).any(|word| {
        Action::of(&word).is_some_and(Action::is_destructive) || TAKING_AWAY.binary_search(&word.as_str()).is_ok()
    })
}

/// May a query want something undone that another verb has done?
pub(crate) fn undoes(query: &str) -> bool {
    let words: Vec<String> = words(query).collect();
    let is_undoing = |word: &String| {
        undone(word).is_some()
            || UNDOING.contains(&word.as_str())
            || Action::of(word).is_some_and(|action| UNDONE_BY.contains(&action.0))
    };
    words.iter().any(is_undoing) || wants_back(&words)
}

/// What a query wants done: to be shown something if it is a question, or else its verb. Of a query of several parts (which are
/// those that begin with a verb or as a question) only if they want the same: a task of several steps wants several things.
pub(crate) fn wanted(typed: &str, query: &str, has_parts: bool) -> Option<Action> {
    if words(typed).next().is_some_and(|first| FOREIGN_QUESTIONS.contains(&first.as_str())) {
        return Some(Action::SHOWING);
    }
    let all: Vec<String> = words(query).collect();
    let of_whole = || at_the_beginning(&all).or_else(|| of_parts(query)).or_else(|| anywhere(&all));
    let found = if has_parts { of_parts(query) } else { of_whole() };
    match found {
        Some(Action::SHOWING) => found,
        _ if wants_back(&all) => Some(Action::UNDOING),
        _ => found,
    }
}

fn of_parts(query: &str) -> Option<Action> {
    let parts = query.split(|c| is_pause(c) || c == ':').flat_map(split_at_conjunctions);
    let verbs = parts.filter_map(|part| at_the_beginning(&words(without_opening(part)).collect::<Vec<_>>()));
    let verbs: Vec<Action> = verbs.collect();
    let last = *verbs.last()?;
    verbs.iter().all(|verb| verb.is_like(last)).then_some(last)
}

/// What words want that begin with a verb, or as a question.
fn at_the_beginning(words: &[String]) -> Option<Action> {
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    let (first, second) = (word(0), word(1));
    if QUESTIONS.contains(&first) || (first == "how" && !second.is_empty() && !WAYS.contains(&second)) {
        return Some(Action::SHOWING);
    }
    if TAKING_AWAY_FIRST.binary_search(&first).is_ok() || (first == "get" && second == "rid") {
        return Some(Action(DESTRUCTIVE));
    }
    if undone(first).is_some() || UNDOING.contains(&first) {
        return Some(Action::UNDOING);
    }
    if DOINGS.binary_search(&first).is_ok() {
        return Some(Action::DOING);
    }
    if words.len() > 1 && second.starts_with("request") { None } else { Action::of_wish(first) }
}

/// The first verb that is one where it stands.
fn anywhere(words: &[String]) -> Option<Action> {
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    let is_verb = |place: &usize| {
        let is_noun = *place > 0 && BEFORE_NOUNS.contains(&word(*place - 1));
        let is_last = *place > 0 && *place + 1 == words.len();
        !is_noun && !is_last && !word(*place + 1).starts_with("request")
    };
    let verb = |place: usize| match (word(place), word(place + 1)) {
        ("get", "rid") => Some(Action(DESTRUCTIVE)),
        (verb, _) => Action::of_wish(verb),
    };
    (0..words.len()).filter(is_verb).find_map(verb)
}

/// Is something to be as it was before: "take my vote back", "I no longer need it"?
fn wants_back(words: &[String]) -> bool {
    let is = |place: usize, list: &[&str]| words.get(place).is_some_and(|word| list.contains(&word.as_str()));
    let is_taken_back = |start: usize| is(start, &["take", "taking"]) && (2..6).any(|more| is(start + more, &["back"]));
    let is_no_longer = |start: usize| is(start, &["no"]) && is(start + 1, &["longer"]) && is(start + 2, &NO_LONGER);
    (0..words.len()).any(|start| is_taken_back(start) || is_no_longer(start))
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
        assert!([&TAKING_AWAY[..], &TAKING_AWAY_FIRST, &REVERSIBLE, &DOINGS].iter().all(|list| list.is_sorted()));
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
        let wanted = |query: &str| wanted(query, query, false);
        assert_eq!(wanted("restart the pod that was deleted"), Action::of("restart"));
        for query in ["which pods were deleted", "how many pods run", "Wer hat es gelöscht", "qué hay"] {
            assert_eq!(wanted(query), Some(Action::SHOWING), "{query}");
        }
        assert_eq!(wanted("how do I delete it"), Action::of("delete"));
        assert_eq!(wanted("mute it"), Some(Action::DOING));
        assert_eq!(wanted("pods"), None);
        for query in [
            "open a merge request",
            "the last change of it",
            "who cares",
            "edits",
            "merge requests of mine",
            "a health check",
        ] {
            assert!(wanted(query).is_none_or(|action| action == Action::SHOWING), "{query}");
        }
        for query in ["get rid of it", "bin the draft"] {
            assert_eq!(wanted(query), Action::of("delete"), "{query}");
        }
        for query in ["unpin it", "I no longer need it", "take my vote back"] {
            assert_eq!(wanted(query), Some(Action::UNDOING), "{query}");
        }
        assert_eq!(wanted("how warm is it"), Some(Action::SHOWING));
    }

    #[test]
    fn of_several_parts_those_decide_that_begin_with_a_verb_if_they_agree() {
        #[rustfmt::skip]
        let table = [
            ("I asked for the mails of May. Please find them in my inbox.",    Action::of("find")),
            ("the tests are green, so merge the branch",                       Action::of("merge")),
            ("did the script run last night, and did it fail?",                Some(Action::SHOWING)),
            ("it is slow, can you tell me why it hangs",                       Some(Action::SHOWING)),
            ("find the invoice and send it to Paul",                           None),
            ("the invoice of May, the one for Paul",                           None),
        ];
        for (query, expected) in table {
            assert_eq!(wanted(query, query, true), expected, "{query}");
        }
    }

    #[test]
    fn what_undoes_is_no_other_work() {
        assert_eq!(undone("unstarred"), None);
        for (word, expected) in
            [("unstar", Some("star")), ("disconnect", Some("connect")), ("unlocked", Some("lock")), ("under", None)]
        {
            assert_eq!(undone(word), expected, "{word}");
        }
        let of = |name: &str| Action::of_tool(name, "").unwrap();
        #[rustfmt::skip]
        let table = [
            (Action::UNDOING, of("unstar_project"), true),
            (Action::UNDOING, of("delete_link"),    true),
            (Action::UNDOING, of("star_project"),   false),
            (Action::UNDOING, of("create_link"),    false),
            (Action::DOING,   of("unstar_project"), false),
            (Action::DOING,   of("star_project"),   true),
            (Action::SHOWING, of("star_project"),   false),
            (of("delete_it"), of("unlink_issue"),   true),
            (of("add_it"),    of("import_file"),    true),
        ];
        for (wanted, action, expected) in table {
            assert_eq!(wanted.is_like(action), expected, "{wanted:?} {action:?}");
        }
    }
}
