//! References to values that are known only while a workflow runs.
//!
//! A string that is wholly one reference, such as `$OUTPUT[issues].items[0].title`, stands for the value with its type. Inside
//! a longer text a reference is written `${$OUTPUT[issues].title}` and inserts text. `$$OUTPUT` is the text `$OUTPUT`. Any
//! other use of the four names in a string is a mistake, since it would be sent to a tool as it stands.

use std::fmt;

/// The names that references begin with.
const NAMES: [&str; 4] = ["$OUTPUT", "$ARGS", "$ITEM", "$INDEX"];
/// Most steps of a path.
const MAX_STEPS: usize = 100;
/// How much of a text is shown in a message.
const SHOWN_CHARS: usize = 80;
const SHOWN_MESSAGE_CHARS: usize = 300;

/// A value that is known only while the workflow runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    pub source: Source,
    /// Where in that value, such as `.items[0].title`; empty for all of it.
    pub path: String,
}

/// What a reference looks into.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The result of the task with this id.
    Output(String),
    /// The arguments of the workflow.
    Args,
    /// The current element of `forEach`.
    Item,
    /// The number of the current element, from 0.
    Index,
}

/// A text of a workflow, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// No reference is in it.
    Literal(String),
    /// It is wholly one reference, and stands for its value.
    Whole(Reference),
    /// References are inserted into it.
    Pieces(Vec<Piece>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Inserted(Reference),
}

impl Reference {
    /// Reads a text that must be one reference and nothing else.
    pub fn parse(text: &str) -> Result<Reference, String> {
        let (reference, rest) = Reference::read(text)?;
        match rest.is_empty() {
            true => Ok(reference),
            false => Err(format!("`{}` cannot be read behind the reference `{reference}`", shown(rest))),
        }
    }

    /// Reads the reference that a text begins with. What is behind it.
    fn read(text: &str) -> Result<(Reference, &str), String> {
        let (name, rest) = begins_with_name(text)
            .ok_or_else(|| format!("`{}` is no reference; write one as in $OUTPUT[task].items[0].name", shown(text)))?;
        let (source, rest) = match name {
            "$OUTPUT" => {
                let inside = rest.strip_prefix('[').ok_or("`$OUTPUT` needs the id of a task: $OUTPUT[task]")?;
                let end = inside.find(']').ok_or("`$OUTPUT[` is not closed by a `]`")?;
                (Source::Output(inside[..end].trim().to_owned()), &inside[end + 1..])
            }
            "$ARGS" => (Source::Args, rest),
            "$ITEM" => (Source::Item, rest),
            _ => return Ok((Reference { source: Source::Index, path: String::new() }, rest)),
        };
        let end = path_end(rest)?;
        Ok((Reference { source, path: rest[..end].to_owned() }, &rest[end..]))
    }

    /// The task whose result it looks into.
    pub fn task(&self) -> Option<&str> {
        match &self.source {
            Source::Output(task) => Some(task),
            Source::Args | Source::Item | Source::Index => None,
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Output(task) => write!(f, "$OUTPUT[{task}]{}", self.path),
            Source::Args => write!(f, "$ARGS{}", self.path),
            Source::Item => write!(f, "$ITEM{}", self.path),
            Source::Index => f.write_str("$INDEX"),
        }
    }
}

impl Text {
    /// Reads a string of a workflow.
    pub(super) fn parse(text: &str) -> Result<Text, String> {
        if begins_with_name(text).is_some()
            && let Ok(reference) = Reference::parse(text)
        {
            return Ok(Text::Whole(reference));
        }
        let mut pieces: Vec<Piece> = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            let (before, here) = rest.split_at(at);
            literal.push_str(before);
            if let Some(inside) = here.strip_prefix("${").filter(|inside| begins_with_name(inside).is_some()) {
                let (reference, behind) = Reference::read(inside)?;
                rest = behind.strip_prefix('}').ok_or_else(|| format!("`${{{reference}` is not closed by a `}}`"))?;
                if !literal.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut literal)));
                }
                pieces.push(Piece::Inserted(reference));
            } else if here.starts_with("$$") && begins_with_name(&here[1..]).is_some() {
                literal.push('$');
                // The name behind it holds no other `$`.
                rest = &here[2..];
            } else if let Some((name, _)) = begins_with_name(here) {
                return Err(stray(text, here, name));
            } else {
                literal.push('$');
                rest = &here[1..];
            }
        }
        literal.push_str(rest);
        if pieces.is_empty() {
            return Ok(Text::Literal(literal));
        }
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Text::Pieces(pieces))
    }
}

/// Does a text have a name of references in it?
pub(super) fn has_name(text: &str) -> bool {
    text.match_indices('$').any(|(at, _)| begins_with_name(&text[at..]).is_some())
}

/// The name that a text begins with, and what is behind it.
fn begins_with_name(text: &str) -> Option<(&'static str, &str)> {
    NAMES.into_iter().find_map(|name| {
        let rest = text.strip_prefix(name)?;
        // `$ITEMS` is another name.
        let is_longer = rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        (!is_longer).then_some((name, rest))
    })
}

/// What is wrong with a name that is no reference where it stands.
fn stray(text: &str, here: &str, name: &str) -> String {
    let why = match Reference::read(here) {
        Ok((reference, _)) => format!("`{reference}` stands in a longer text; write `${{{reference}}}` to insert it"),
        Err(why) => why,
    };
    format!("{why}; write `${name}` for the text `{name}` itself (in `{}`)", shown(text))
}

/// Where the path that a text begins with ends: `.key`, `[3]` and `["any key"]`, as often as they come.
fn path_end(text: &str) -> Result<usize, String> {
    let wrong =
        |at: usize| format!("the path cannot be read at `{}`; write it as in .items[3].name", shown(&text[at..]));
    let mut at = 0;
    for _ in 0..MAX_STEPS {
        let rest = &text[at..];
        at += match rest.as_bytes() {
            [b'.', ..] => {
                let is_key = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '@');
                match rest[1..].find(|c: char| !is_key(c)).unwrap_or(rest.len() - 1) {
                    0 => return Ok(at), // the end of a sentence
                    key => 1 + key,
                }
            }
            [b'[', b'"', ..] => {
                let mut keys = serde_json::Deserializer::from_str(&rest[1..]).into_iter::<String>();
                keys.next().and_then(Result::ok).ok_or_else(|| wrong(at))?;
                let end = 1 + keys.byte_offset();
                rest[end..].starts_with(']').then_some(end + 1).ok_or_else(|| wrong(at))?
            }
            [b'[', ..] => {
                let end = rest.find(']').ok_or_else(|| wrong(at))?;
                let is_index = end > 1 && end < 12 && rest[1..end].bytes().all(|byte| byte.is_ascii_digit());
                is_index.then_some(end + 1).ok_or_else(|| wrong(at))?
            }
            _ => return Ok(at),
        };
    }
    Err(format!("the path has more than {MAX_STEPS} steps"))
}

/// The start of a text, for a message.
pub(super) fn shown(text: &str) -> String {
    start(text, SHOWN_CHARS)
}

/// The start of another message, for a message.
pub(super) fn shown_long(text: &str) -> String {
    start(text, SHOWN_MESSAGE_CHARS)
}

fn start(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(task: &str, path: &str) -> Reference {
        Reference { source: Source::Output(task.to_owned()), path: path.to_owned() }
    }

    #[test]
    fn a_string_is_a_literal_a_reference_or_has_references_inserted() {
        let literal = |text: &str| Text::Literal(text.to_owned());
        let item = Reference { source: Source::Item, path: ".name".to_owned() };
        #[rustfmt::skip]
        let table = [
            ("plain",                        literal("plain")),
            ("costs $5, ${HOME}, $ITEMS",    literal("costs $5, ${HOME}, $ITEMS")),
            ("$OUTPUT[a]",                   Text::Whole(output("a", ""))),
            ("$OUTPUT[a].b[0][\"x y\"].c-d", Text::Whole(output("a", ".b[0][\"x y\"].c-d"))),
            ("$ITEM.name",                   Text::Whole(item.clone())),
            ("$INDEX",                       Text::Whole(Reference { source: Source::Index, path: String::new() })),
            ("$ARGS.x",                      Text::Whole(Reference { source: Source::Args, path: ".x".to_owned() })),
            ("$$OUTPUT[a]",                  literal("$OUTPUT[a]")),
            ("$$$ITEM and $$ and $",         literal("$$ITEM and $$ and $")),
            ("a ${$OUTPUT[a].b}!",           Text::Pieces(vec![
                Piece::Text("a ".to_owned()), Piece::Inserted(output("a", ".b")), Piece::Text("!".to_owned())])),
            ("${$ITEM.name}",                Text::Pieces(vec![Piece::Inserted(item)])),
            ("é${$OUTPUT[ä]}$$OUTPUT",       Text::Pieces(vec![
                Piece::Text("é".to_owned()), Piece::Inserted(output("ä", "")), Piece::Text("$OUTPUT".to_owned())])),
        ];
        for (text, expected) in table {
            assert_eq!(Text::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_name_that_is_no_reference_is_a_mistake_that_says_what_to_write() {
        #[rustfmt::skip]
        let table = [
            ("see $OUTPUT[a].b",        "write `${$OUTPUT[a].b}` to insert it"),
            ("$OUTPUT[a].b is it",      "`$OUTPUT[a].b` stands in a longer text"),
            ("$OUTPUT[a]. Done",        "`$OUTPUT[a]` stands in a longer text"),
            ("$OUTPUT",                 "`$OUTPUT` needs the id of a task"),
            ("$OUTPUT.a",               "write `$$OUTPUT` for the text `$OUTPUT` itself"),
            ("$OUTPUT[a",               "not closed"),
            ("$OUTPUT[a].b[x]",         "the path cannot be read at `[x]`"),
            ("$OUTPUT[a][-1]",          "the path cannot be read at `[-1]`"),
            ("$OUTPUT[a][\"b]",         "the path cannot be read"),
            ("${$OUTPUT[a].b",          "is not closed by a `}`"),
            ("${$OUTPUT[a].b c}",       "is not closed by a `}`"),
            ("two $ITEM",               "write `${$ITEM}`"),
        ];
        for (text, part) in table {
            let message = Text::parse(text).expect_err(text);
            assert!(message.contains(part), "{text}: {message}");
        }
        let deep = format!("$ARGS{}", "[0]".repeat(200));
        assert!(Text::parse(&deep).unwrap_err().contains("more than 100 steps"));
        assert!(Text::parse(&format!("$OUTPUT[a].{}", "x".repeat(1 << 20))).is_ok());
    }

    #[test]
    fn what_was_read_is_written_as_it_was() {
        for text in ["$OUTPUT[a].b[0]", "$ARGS[\"x\"]", "$ITEM", "$INDEX"] {
            assert_eq!(Reference::parse(text).unwrap().to_string(), text);
        }
        assert!(Reference::parse("x").is_err() && Reference::parse("$INDEX.a").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic_and_texts_without_names_stay(text in "[$A-Z{}\\[\\].a\"é ]{0,40}") {
            match Text::parse(&text) {
                Ok(Text::Literal(read)) if !has_name(&text) => assert_eq!(read, text),
                Ok(Text::Literal(read)) => assert!(read.len() < text.len()),
                _ => assert!(has_name(&text)),
            }
        }
    }
}
