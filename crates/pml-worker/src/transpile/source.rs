//! The agent's text, and the way back to it from what the engine says.

use std::{cell::OnceCell, fmt::Write as _};

use oxc_sourcemap::{SourceMap, Token};
use pml_wire::{ErrorCode, message::ErrorReport};

use super::{
    Blame, ENGINE_FILE, Given, Probes, Read, Treatment,
    blame::{self, Failed, plain},
    function_text, lists, source_map,
};

/// Lines shown above and below the one that failed.
const CONTEXT_LINES: usize = 2;
/// Longest part of a line that is shown.
const LINE_CHARS: usize = 120;
/// Longest name of a function in a stack.
const FUNCTION_CHARS: usize = 80;
/// Most stack frames that are shown.
const STACK_FRAMES: usize = 20;

/// A place in the agent's text, counted from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// The agent's text, what to call it, and how the engine's lines map back to it.
#[derive(Debug)]
pub(crate) struct Source {
    text: String,
    /// The code in the text, at its place, if there is more in it.
    code: Option<String>,
    name: String,
    probes: Probes,
    /// Made with the program if it may make calls, each of which asks for its line; otherwise when it is first needed.
    map: OnceCell<Option<Mapped>>,
}

/// What the engine runs, and the way from there to the agent's text.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) javascript: String,
    pub(super) map: SourceMap<'static>,
}

impl Source {
    pub(super) fn new(text: &str, name: &str, probes: Probes) -> Source {
        Source { text: text.to_owned(), code: None, name: name.to_owned(), probes, map: OnceCell::new() }
    }

    /// What was sent.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What of it is code. Each byte of it stands where it stands in the text.
    pub(super) fn code(&self) -> &str {
        self.code.as_deref().unwrap_or(&self.text)
    }

    pub(super) fn set_code(&mut self, code: String) {
        self.code = Some(code);
    }

    /// An error at a byte offset of the text.
    pub(super) fn report(&self, code: ErrorCode, message: impl Into<String>, offset: u32) -> ErrorReport {
        let position = self.position(offset);
        ErrorReport { frame: Some(self.frame(position)), ..ErrorReport::new(code, message) }
    }

    /// The text of one of the program's functions without probes, if it has any.
    pub(crate) fn function_text(&self, text: &str) -> Option<String> {
        let plain = match self.probes {
            Probes::Insert => function_text::without_probes(self, text),
            Probes::Omit => None,
        };
        function_text::with_imports(plain.as_deref().unwrap_or(text)).or(plain)
    }

    /// Where a byte offset stands.
    pub(crate) fn position(&self, offset: u32) -> Position {
        let mut offset = (offset as usize).min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &self.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Position { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }

    /// Where a line and column of the engine, counted from 1 and columns in bytes, stand in the agent's text.
    pub(super) fn original(&self, line: u32, column: u32) -> Option<Position> {
        let Mapped { javascript, map } = self.map.get_or_init(|| source_map(self, self.probes)).as_ref()?;
        let (line, column) = (line.checked_sub(1)?, column.checked_sub(1)? as usize);
        // The engine counts bytes, the map UTF-16 units.
        let text = javascript.lines().nth(line as usize).unwrap_or_default();
        let before = &text[..text.floor_char_boundary(column)];
        let units = before.chars().map(char::len_utf16).sum::<usize>() + column.saturating_sub(text.len());
        let place = (line, u32::try_from(units).ok()?);
        let place_of = |token: &Token| (token.get_dst_line(), token.get_dst_col());
        // The last token at or before the place. The engine gives some errors the beginning of
        // their line, in front of its first token: then that one.
        let before = map.get_tokens().take_while(|token| place_of(token) <= place).last();
        let token = match before.filter(|token| token.get_dst_line() == place.0) {
            Some(token) => token,
            None => map.get_tokens().find(|token| token.get_dst_line() == place.0).or(before)?,
        };
        token.get_source_id()?;
        let line = token.get_src_line() as usize;
        // The map counts UTF-16 units, people count characters.
        let text = self.text.lines().nth(line).unwrap_or_default();
        let mut units = token.get_src_col() as usize;
        let mut column = 1;
        for character in text.chars() {
            if units < character.len_utf16() {
                break;
            }
            units -= character.len_utf16();
            column += 1;
        }
        Some(Position { line: line + 1, column })
    }

    /// The line of the agent's text that a line and column of the engine stand for.
    pub(crate) fn line(&self, line: u32, column: u32) -> Option<u32> {
        u32::try_from(self.original(line, column)?.line).ok()
    }

    /// Has a value that is looked at another one in its place: `x.a ?? 0`?
    pub(crate) fn has_default_behind(&self, watched: &super::Watched) -> bool {
        let behind = self.code().get(watched.offset as usize..).and_then(|rest| rest.strip_prefix(&watched.value));
        behind.is_none_or(|rest| {
            let rest = rest.trim_start();
            rest.starts_with("??") || rest.starts_with("||")
        })
    }

    /// Does the program divide by a length, or look for the least?
    pub(crate) fn takes_averages(&self) -> bool {
        let code = self.code();
        let divisors =
            code.match_indices('/').filter_map(|(at, _)| code[at + 1..].split([';', ',', '\n', ')', '*']).next());
        let is_count = |divisor: &str| divisor.trim_end().ends_with(".length") || divisor.trim_end().ends_with(".size");
        code.contains("Math.min(") || divisors.into_iter().any(is_count)
    }

    /// Is a list that is a condition used as one in another place, or behind an `if`: `if (x.tags) for (const tag of x.tags)`?
    pub(crate) fn uses_list(&self, watched: &super::Watched) -> bool {
        lists::is_used(self.code(), &watched.value, watched.offset as usize)
    }

    /// Does the program have a text anywhere?
    pub(crate) fn has_text(&self, text: &str) -> bool {
        self.code().contains(text)
    }

    /// Does a text or regular expression of the program have a unit as a word: `"GiB"`, `/k$/`?
    pub(crate) fn names_unit(&self, unit: &str) -> bool {
        let code = self.code().to_lowercase();
        let is_letter = |it: char| it.is_alphabetic();
        let mut places = code.match_indices(unit).map(|(at, _)| (&code[..at], &code[at + unit.len()..]));
        // One letter is a variable, too, unless something around it is of a text.
        let is_short = unit.chars().count() == 1 && unit.chars().all(is_letter);
        !unit.is_empty()
            && places.any(|(before, after)| {
                let is_word = !before.ends_with(is_letter) && !after.starts_with(is_letter);
                let is_quoted = before.ends_with(['"', '\'', '`', '/', '[', '|', '\\'])
                    || after.starts_with(['"', '\'', '`', '$', ':']);
                is_word && (!is_short || is_quoted)
            })
    }

    /// Does the program count or index what a variable holds, or go through it, and do nothing with it that is done with a text?
    pub(crate) fn is_counted(&self, name: &str) -> bool {
        let of_text = [
            "split",
            "match",
            "replace",
            "trim",
            "startsWith",
            "endsWith",
            "toLowerCase",
            "toUpperCase",
            "substring",
            "charAt",
        ];
        let uses = self.uses(name);
        let methods: Vec<&str> =
            uses.iter().filter_map(|rest| rest.trim_start_matches(['?', '!']).strip_prefix('.')).collect();
        let is_text = methods.iter().any(|method| of_text.iter().any(|it| method.starts_with(it)));
        let is_list =
            uses.iter().any(|rest| rest.starts_with('[')) || methods.iter().any(|method| method.starts_with("length"));
        let is_converted = ["JSON.parse(", "typeof ", "String("].iter().any(|it| self.has_text(&format!("{it}{name}")));
        !is_text && !is_converted && (is_list || self.has_text(&format!(" of {name})")))
    }

    /// What stands behind an expression that is looked at.
    pub(crate) fn text_behind(&self, watched: &super::Watched) -> &str {
        let behind = self.code().get(watched.offset as usize..).and_then(|rest| rest.strip_prefix(&watched.value));
        behind.unwrap_or_default()
    }

    /// The line of a call of the method `name`: `found`, if it stands there, or else the only line where it does.
    pub(crate) fn line_that_has(&self, name: &str, found: Option<u32>) -> Option<u32> {
        let call = format!(".{name}(");
        let lines = self.code().lines().zip(1..).filter(|(line, _)| line.contains(&call)).map(|(_, number)| number);
        let lines: Vec<u32> = lines.collect();
        match lines[..] {
            [only] => Some(only),
            _ => found.filter(|found| lines.contains(found)),
        }
    }

    pub(super) fn probes(&self) -> Probes {
        self.probes
    }

    /// What the engine runs, if it was kept.
    pub(super) fn compiled(&self) -> Option<&str> {
        self.map.get()?.as_ref().map(|mapped| mapped.javascript.as_str())
    }

    /// Keeps the map that was made with the program.
    pub(super) fn set_map(&mut self, mapped: Mapped) {
        self.map = OnceCell::from(Some(mapped));
    }

    /// Says which expression an engine's message is about. `stack` is where it happened, `results` what tools gave.
    pub(crate) fn blame(&self, message: &str, stack: &str, results: &[Given]) -> Option<Blame> {
        let first = stack.lines().next()?.trim();
        let native = first.strip_prefix("at ").and_then(|first| first.strip_suffix(" (native)"));
        let mut places = stack.lines().filter_map(StackFrame::parse).map(|frame| (frame.line, frame.column));
        // Ours may stand between the engine's function and the program.
        let place = match native {
            Some(_) => places.next()?,
            None => StackFrame::parse(first).and_then(|_| places.next())?,
        };
        let failed = Failed { message, place, native, caller: places.next() };
        blame::explain(self, self.probes, &failed, results)
    }

    /// Why the call that the stack begins with was given no argument of this name.
    pub(crate) fn blame_argument(&self, stack: &str, name: &str, results: &[Given]) -> Option<String> {
        blame::argument(self, self.probes, innermost(stack)?, name, results)
    }

    /// Places where the program takes a text for the list that it holds.
    pub(crate) fn text_uses(&self, results: &[Given]) -> Vec<String> {
        blame::text_uses(self, self.probes, results)
    }

    /// Is the name anywhere in the program, however it is spelt: `next_cursor` or `nextCursor`?
    pub(crate) fn mentions(&self, name: &str) -> bool {
        let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
        let name = plain(name);
        self.code().split(|it| !is_part(it)).any(|word| plain(word) == name)
    }

    /// Does the program read a property of this name, however it is spelt? A variable that is called so is none.
    pub(crate) fn reads(&self, name: &str) -> bool {
        let code = self.code();
        let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
        let name = plain(name);
        let mut at = 0;
        code.split(|it| !is_part(it)).any(|word| {
            let before = code[..at].trim_end();
            at += word.len();
            // The character that was split at.
            at += code[at..].chars().next().map_or(0, char::len_utf8);
            plain(word) == name && before.ends_with(['.', '"', '\'', '`', '{', ','])
        })
    }

    /// What stands behind a name wherever it is in the program.
    pub(crate) fn uses(&self, name: &str) -> Vec<&str> {
        let code = self.code();
        let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
        let places = code.match_indices(name).map(|(at, _)| (&code[..at], &code[at + name.len()..]));
        places
            .filter(|(before, after)| !before.ends_with(is_part) && !after.starts_with(is_part))
            .map(|it| it.1)
            .collect()
    }

    /// How the program treats a value, by its expression.
    pub(crate) fn treatment(&self, value: &str) -> Treatment {
        Treatment::of(self.code(), value)
    }

    /// Judges reads of properties that were not there, each by the engine's line and column and the name.
    pub(crate) fn judge_reads(&self, reads: &[((u32, u32), &str)]) -> Vec<Read> {
        blame::reads(self, self.probes, reads)
    }

    /// Rewrites an engine's stack in the agent's lines, and gives the innermost place.
    ///
    /// Frames that are not the agent's code (the engine's own functions, our prelude) are left
    /// out. The text may be anything: a program can set `stack` as it likes.
    pub(crate) fn remap_stack(&self, stack: &str) -> (Option<String>, Option<Position>) {
        let mut lines = String::new();
        let mut innermost = None;
        for frame in stack.lines().filter_map(StackFrame::parse).take(STACK_FRAMES) {
            let Some(position) = self.original(frame.line, frame.column) else {
                continue;
            };
            innermost.get_or_insert(position);
            if !lines.is_empty() {
                lines.push('\n');
            }
            let Position { line, column } = position;
            let place = format!("{}:{line}:{column}", self.name);
            let _ = match frame.function {
                Some(function) => {
                    let function: String = function.chars().take(FUNCTION_CHARS).collect();
                    write!(lines, "at {function} ({place})")
                }
                None => write!(lines, "at {place}"),
            };
        }
        ((!lines.is_empty()).then_some(lines), innermost)
    }

    /// The line at `position` and those around it, with a mark under the column.
    pub(crate) fn frame(&self, position: Position) -> String {
        let Position { line, column } = position;
        let mut frame = format!("{}:{line}:{column}", self.name);
        let first = line.saturating_sub(CONTEXT_LINES).max(1);
        let last = line + CONTEXT_LINES;
        let width = last.to_string().len();
        // A long line is shown from here on, so that the column is in view.
        let skip = column.saturating_sub(LINE_CHARS / 2);
        let skip = if column <= LINE_CHARS { 0 } else { skip };
        for (index, text) in self.text.lines().enumerate().take(last).skip(first - 1) {
            let number = index + 1;
            let mark = if number == line { '>' } else { ' ' };
            let mut shown: String = text.chars().skip(skip).take(LINE_CHARS).collect();
            // Tabs and control characters would move the mark or the terminal.
            shown = shown.replace(|character: char| character.is_control(), " ");
            let _ = write!(frame, "\n{mark} {number:>width$} | {}", shown.trim_end());
            if number == line {
                let indent = " ".repeat((column - 1).saturating_sub(skip));
                let _ = write!(frame, "\n  {:width$} | {indent}^", "");
            }
        }
        frame
    }
}

/// One line of an engine's stack that is about the program.
#[derive(Debug, PartialEq, Eq)]
struct StackFrame<'a> {
    function: Option<&'a str>,
    line: u32,
    column: u32,
}

impl StackFrame<'_> {
    /// Reads `at f (agent.ts:1:2)` or `at agent.ts:1:2`.
    fn parse(text: &str) -> Option<StackFrame<'_>> {
        let text = text.trim().strip_prefix("at ")?;
        let (function, place) = match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
            Some((function, place)) => (Some(function), place),
            None => (None, text),
        };
        let place = place.strip_prefix(ENGINE_FILE)?.strip_prefix(':')?;
        let (line, column) = place.split_once(':')?;
        Some(StackFrame {
            // The wrapping function is ours; the agent knows no name for the top level.
            function: function.filter(|name| !matches!(*name, "<anonymous>" | "default" | "")),
            line: line.parse().ok()?,
            column: column.parse().ok()?,
        })
    }
}

/// The line and column of the innermost frame of the program in an engine's stack, as the engine counts them.
pub(crate) fn innermost(stack: &str) -> Option<(u32, u32)> {
    stack.lines().find_map(StackFrame::parse).map(|frame| (frame.line, frame.column))
}

/// The function of the program that a line of an engine's stack names.
pub(crate) fn function_of(line: &str) -> Option<&str> {
    StackFrame::parse(line)?.function
}

/// The candidate that `name` is most likely a slip of, if one is near enough.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().max(3) / 3)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_marks_the_column() {
        let source = Source::new("one\ntwo\n\tthree()\nfour\nfive\nsix", "x.ts", Probes::Omit);
        let frame = source.frame(Position { line: 3, column: 2 });
        let expected = "x.ts:3:2\n  1 | one\n  2 | two\n> 3 |  three()\n    |  ^\n  4 | four\n  5 | five";
        assert_eq!(frame, expected);
    }

    #[test]
    fn a_long_line_is_cut_around_the_column() {
        let text = format!("{}HERE{}", "a".repeat(5000), "b".repeat(5000));
        let source = Source::new(&text, "x.ts", Probes::Omit);
        let frame = source.frame(source.position(5000));
        let lines: Vec<_> = frame.lines().collect();
        let column = lines[2].find('^').unwrap();
        assert_eq!(&lines[1][column..column + 4], "HERE");
        assert!(lines[1].len() < 150);
    }

    #[test]
    fn offsets_become_positions() {
        let source = Source::new("é\nab", "x.ts", Probes::Omit);
        let table = [(0, (1, 1)), (1, (1, 1)), (2, (1, 2)), (3, (2, 1)), (99, (2, 3))];
        for (offset, (line, column)) in table {
            assert_eq!(source.position(offset), Position { line, column }, "{offset}");
        }
    }

    #[test]
    fn only_frames_of_the_program_are_read() {
        let frame = |function, line, column| Some(StackFrame { function, line, column });
        let table = [
            ("    at f (agent.ts:1:2)", frame(Some("f"), 1, 2)),
            ("    at <anonymous> (agent.ts:1:2)", frame(None, 1, 2)),
            ("at agent.ts:3:4", frame(None, 3, 4)),
            ("    at map (native)", None),
            ("    at g (prelude.js:1:2)", None),
            ("at agent.ts:99999999999:4", None),
            ("Error: agent.ts:1:2", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(StackFrame::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn nearest_is_near_or_nothing() {
        let names = ["callTool", "callToolsBatch", "progress"];
        let table = [("calTool", Some("callTool")), ("progres", Some("progress")), ("fetch", None)];
        for (name, expected) in table {
            assert_eq!(nearest(name, names.into_iter()), expected, "{name}");
        }
    }
}
