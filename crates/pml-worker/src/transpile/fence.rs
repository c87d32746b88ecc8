//! Markdown around a program: code fences, and the prose before and after them.
//!
//! What is not code becomes blanks of the same length, so that every byte of the code stays where the
//! agent sent it, and lines and columns need no correction.

use std::ops::Range;

/// Tags that mark the block to run when there are several.
const TAGS: [&str; 10] = ["ts", "typescript", "js", "javascript", "tsx", "jsx", "mjs", "cjs", "mts", "node"];

/// What the names of tags have in them that stand around code.
const CODE_TAGS: [&str; 8] = ["code", "script", "program", "tool", "execute", "answer", "output", "solution"];

/// A text without its fence.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfenced {
    /// There is no fence.
    Plain,
    /// The code, at its place, and whether there was text around the fence.
    Code { code: String, has_prose: bool },
    /// There are several blocks, and which of them is the program cannot be told; where the second begins.
    Several { second: u32 },
}

/// Where the first fence begins, if a line of the text looks like the opening of one.
pub(super) fn first(text: &str) -> Option<u32> {
    let start = openings(text).next()?.0;
    u32::try_from(start).ok()
}

/// Does the text begin with a fence?
pub(super) fn is_at_start(text: &str) -> bool {
    first(text).is_some_and(|start| text[..start as usize].trim().is_empty())
}

/// The code without tags around it, if it stands in some: `<code>…</code>`, `<execute_code><![CDATA[…]]></execute_code>`. A fence
/// in them is left out, too.
pub(super) fn without_tags(text: &str) -> Option<String> {
    let (mut start, mut end) = trimmed(text, 0, text.len());
    let mut tags = 0;
    loop {
        let inner = &text[start..end];
        let (open, close) = match inner.strip_prefix("<![CDATA[") {
            Some(_) if inner.ends_with("]]>") => ("<![CDATA[".len(), "]]>".len()),
            _ => {
                let Some((open, close)) = tag_around(inner) else { break };
                (open, close)
            }
        };
        (start, end) = trimmed(text, start + open, end - close);
        tags += 1;
    }
    if tags == 0 {
        return None;
    }
    let code = [&blank(&text[..start]), &text[start..end], &blank(&text[end..])].concat();
    match remove(&code) {
        Unfenced::Code { code, .. } => Some(code),
        _ => Some(code),
    }
}

/// The lengths of the tags that a text begins and ends with, if they are those of code.
fn tag_around(text: &str) -> Option<(usize, usize)> {
    let inner = text.strip_prefix('<')?;
    let name = &inner[..inner.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | ':'))?];
    let is_code = TAGS.contains(&name) || CODE_TAGS.iter().any(|part| name.to_ascii_lowercase().contains(part));
    let open = text.find('>')? + 1;
    let close = format!("</{name}>");
    let is_whole =
        is_code && !text[..open].contains('\n') && text.len() >= open + close.len() && text.ends_with(&close);
    is_whole.then_some((open, close.len()))
}

/// The part of `start..end` without blanks around it.
fn trimmed(text: &str, start: usize, end: usize) -> (usize, usize) {
    let part = &text[start..end];
    let start = start + part.len() - part.trim_start().len();
    (start, start + part.trim().len())
}

/// Takes the code out of its fence.
pub(super) fn remove(text: &str) -> Unfenced {
    let blocks = blocks(text);
    let chosen = match &blocks[..] {
        [] => return Unfenced::Plain,
        [only] => only,
        several => {
            let mut tagged = several.iter().filter(|block| TAGS.contains(&block.tag.to_lowercase().as_str()));
            match (tagged.next(), tagged.next()) {
                (Some(only), None) => only,
                _ => return Unfenced::Several { second: u32::try_from(several[1].fence.start).unwrap_or(u32::MAX) },
            }
        }
    };
    let Range { start, end } = chosen.code;
    let code = [&blank(&text[..start]), &text[start..end], &blank(&text[end..])].concat();
    let around = [&text[..chosen.fence.start], &text[chosen.fence.end..]];
    Unfenced::Code { code, has_prose: around.iter().any(|text| !text.trim().is_empty()) }
}

/// One fenced block.
#[derive(Debug)]
struct Block<'t> {
    tag: &'t str,
    code: Range<usize>,
    /// With both fences.
    fence: Range<usize>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut from = 0;
    while let Some((start, fence)) = openings(&text[from..]).next() {
        let start = from + start;
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let info = text[start + fence.len()..line_end].trim_end();
        // Both fences on one line.
        if let Some(inner) = info.strip_suffix(fence) {
            let tag = inner.split_whitespace().next().filter(|word| TAGS.contains(word)).unwrap_or_default();
            let code = start + fence.len() + inner.find(tag).unwrap_or(0) + tag.len();
            let end = start + fence.len() + inner.len();
            blocks.push(Block { tag, code: code..end, fence: start..end + fence.len() });
            from = line_end;
            continue;
        }
        // A text that was cut off has no end, as in Markdown.
        let body = (line_end + 1).min(text.len());
        let mut code_end = text.len();
        let mut end = text.len();
        let mut at = body;
        for line in text[body..].split_inclusive('\n') {
            if is_closing(line, fence) {
                (code_end, end) = (at, at + line.trim_end().len());
                break;
            }
            at += line.len();
        }
        let tag = info.split_whitespace().next().unwrap_or_default();
        blocks.push(Block { tag, code: body..code_end, fence: start..end });
        from = end;
    }
    blocks
}

/// The lines that open a fence: where its first character stands, and the fence.
fn openings(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let indent = line.len() - line.trim_start_matches([' ', '\t', '\u{feff}']).len();
        let start = at + indent;
        at += line.len();
        let rest = &line[indent..];
        let mark = rest.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = rest.len() - rest.trim_start_matches(mark).len();
        (length >= 3).then_some((start, &rest[..length]))
    })
}

fn is_closing(line: &str, fence: &str) -> bool {
    let line = line.trim();
    line.len() >= fence.len() && line.starts_with(fence) && line.bytes().all(|byte| byte == fence.as_bytes()[0])
}

/// Blanks in place of everything but line breaks.
pub(super) fn blank(text: &str) -> String {
    text.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { char::from(byte) } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::{Unfenced, remove, without_tags};

    #[test]
    fn the_code_stays_where_it_was() {
        let table = [
            ("```ts\nreturn 1\n```", "     \nreturn 1\n   ", false),
            ("```\nreturn 1\n```\n", "   \nreturn 1\n   \n", false),
            ("\n  ~~~~ typescript x\n1\n~~~~", "\n                   \n1\n    ", false),
            ("Sure:\n\n```js\r\n1\r\n```\nDone.", "     \n\n     \r\n1\r\n   \n     ", true),
            ("```ts\nreturn 1", "     \nreturn 1", false),
            ("```ts return 1```", "      return 1   ", false),
            ("```return 1```", "   return 1   ", false),
            ("```python\n1\n```", "         \n1\n   ", false),
            ("é\n```\n1\n```", "  \n   \n1\n   ", true),
            ("```json\n{}\n```\n```ts\n1\n```", "       \n  \n   \n     \n1\n   ", true),
            ("````\n```1\n````", "    \n```1\n    ", false),
        ];
        for (text, expected, has_prose) in table {
            let Unfenced::Code { code, has_prose: actual } = remove(text) else { panic!("{text}") };
            assert_eq!(code.trim(), expected.trim(), "{text}");
            assert_eq!(code.len(), text.len(), "{text}");
            assert_eq!(code.find(expected.trim()), text.find(expected.trim()), "{text}");
            assert_eq!(actual, has_prose, "{text}");
        }
        let tagged = [
            ("<code>\nreturn 1\n</code>", "      \nreturn 1\n       "),
            (
                "<execute_code lang=\"ts\">return 1</execute_code>\n",
                "                        return 1               \n",
            ),
            ("<script><![CDATA[\n1\n]]></script>", "                 \n1\n            "),
            ("<tool_call>\n```ts\n1\n```\n</tool_call>", "           \n     \n1\n   \n            "),
        ];
        for (text, expected) in tagged {
            assert_eq!(without_tags(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["<T>(x: T) => x", "<div>hi</div>", "return '<code>'", "<code>1"] {
            assert_eq!(without_tags(text), None, "{text}");
        }
        assert_eq!(remove("return '```'"), Unfenced::Plain);
        assert_eq!(remove("```ts\n1\n```\n```ts\n2\n```"), Unfenced::Several { second: 12 });
    }
}
