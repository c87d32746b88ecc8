//! What a tool is, beside its words and its meaning.

use crate::{actions::Action, names::folded_name, tool::ToolText};

/// What is told of a tool by rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Its name without what separates words.
    pub(crate) name: Box<str>,
    /// The same of its server.
    pub(crate) server: Box<str>,
    pub(crate) action: Option<Action>,
    /// Does it say that another is to be used?
    pub(crate) is_deprecated: bool,
}

impl Standing {
    pub(crate) fn of(tool: &ToolText) -> Standing {
        Standing {
            name: folded_name(&tool.name),
            server: folded_name(&tool.server),
            action: Action::of_tool(&tool.name, &tool.description),
            is_deprecated: is_deprecated(&tool.name, &tool.description),
        }
    }
}

/// Does a tool call itself deprecated? A tool that lists what is deprecated does not.
fn is_deprecated(name: &str, description: &str) -> bool {
    const WORD: &str = "deprecated";
    const SIGNS: [char; 7] = ['[', '(', '*', '_', '⚠', '!', '{'];
    let text = description.to_lowercase();
    let is_said = |(at, _): (usize, &str)| {
        let (before, after) = (text[..at].trim_end(), &text[at + WORD.len()..]);
        let is_heading = before.is_empty() || before.ends_with(SIGNS) || after.starts_with([':', ']', ')']);
        let is_predicate = ["is", "is now", "has been", "been", "now"].iter().any(|verb| {
            before.strip_suffix(verb).is_some_and(|rest| rest.is_empty() || rest.ends_with(char::is_whitespace))
        });
        let names_another = ["use ", "in favor of", "in favour of", "replaced by", "instead"];
        is_heading
            || (is_predicate && names_another.iter().any(|words| after.contains(words)))
            || (is_predicate
                && ["this tool", "this function", "this method", "this endpoint", "it"]
                    .iter()
                    .any(|subject| before.contains(subject)))
    };
    name.to_lowercase().split(|c: char| !c.is_alphanumeric()).any(|word| word == WORD)
        || text.match_indices(WORD).any(is_said)
}

#[cfg(test)]
mod tests {
    use super::is_deprecated;

    #[test]
    fn a_tool_calls_itself_deprecated_or_speaks_of_others() {
        #[rustfmt::skip]
        let table = [
            ("a",            "[DEPRECATED] Sends a mail",                              true),
            ("a",            "Deprecated: use `send` instead",                         true),
            ("a",            "Sends a mail. **Deprecated**, gone soon",                true),
            ("a",            "Sends a mail. This tool is deprecated.",                 true),
            ("a",            "Sends a mail. It has been deprecated in favour of b",    true),
            ("a_deprecated", "Sends a mail",                                           true),
            ("a",            "Lists deprecated interfaces of a library",               false),
            ("a",            "Tells whether a package is deprecated",                  false),
            ("a",            "",                                                       false),
        ];
        for (name, description, expected) in table {
            assert_eq!(is_deprecated(name, description), expected, "{description}");
        }
    }
}
