//! Where a program takes a text for the list that it holds, or for a list of lines.
//!
//! Iterating over a text gives its characters, and its length counts them: a program that means elements goes on with a
//! wrong value. It is looked for when the run is over, and only if a tool returned a text.

use oxc::{
    ast::AstKind,
    semantic::Semantic,
    span::{GetSpan, Span},
};

use super::{
    opened::{Opened, open},
    operations::Kind,
    shape::{Given, Shape, Text},
    teller::Teller,
};
use crate::transpile::{Probes, Source};

/// Places of one program that are named.
const MAX_TEXT_USES: usize = 3;
/// How a loop uses what it takes for characters: it looks them up, or compares them.
const CHARACTER_USES: [&str; 8] =
    ["[{}]", "{} ===", "{} !==", "{} <", "{} >", "{}.charCodeAt", "{}.codePointAt", "test({})"];

/// Places where the program iterates over a text, indexes it or asks for its length, and means a list. One sentence for each.
pub(in crate::transpile) fn text_uses(source: &Source, probes: Probes, results: &[Given]) -> Vec<String> {
    let is_listed = |given: &Given| matches!(given.shape, Some(Shape::Text(Text::Prefixed(_) | Text::Python)));
    let iterates = || source.code().contains(" of ") || source.code().contains("...");
    if !results.iter().any(is_listed) && !iterates() {
        return Vec::new();
    }
    open(source, probes, |opened| opened.tell(results, |teller| sentences(opened, teller))).unwrap_or_default()
}

fn sentences(opened: &Opened<'_, '_>, teller: &Teller<'_, '_>) -> Vec<String> {
    let Opened { javascript, semantic, .. } = *opened;
    let sentences = opened.found.operations.iter().filter_map(|operation| {
        let (subject, does) = match (operation.kind, operation.property) {
            (Kind::Iterate, _) => (operation.subject?, "iterating over it gives its characters"),
            // Whether there is a text at all is a good question.
            (Kind::Read, Some("length")) if is_compared(javascript, operation.subject?.span().end) => return None,
            (Kind::Read, Some("length")) => (operation.subject?, "its `length` counts characters"),
            (Kind::Read, Some(index)) if index.parse::<usize>().is_ok() => {
                (operation.subject?, "an index of it gives a character")
            }
            _ => return None,
        };
        let known = teller.knowledge.of(subject).filter(|known| !known.is_promise && !known.is_part)?;
        let text = teller.text(subject);
        let means_lines = || operation.kind == Kind::Iterate && means_lines(semantic, subject.span(), javascript);
        let advice = match known.shape {
            Shape::Text(Text::Prefixed(bracket)) => format!(
                "the JSON in it begins after some text: `JSON.parse({text}.slice({text}.indexOf(\"{bracket}\")))`"
            ),
            Shape::Text(Text::Python) => format!(
                "it is written as Python writes it, not as JSON: if its texts have no quotes, \
                 `JSON.parse({text}.replaceAll(\"'\", '\"').replace(/\\bNone\\b/g, \"null\")\
                 .replace(/\\bTrue\\b/g, \"true\").replace(/\\bFalse\\b/g, \"false\"))`"
            ),
            Shape::Text(Text::Json) if means_lines() => format!("it is a JSON text: `JSON.parse({text})`"),
            Shape::Text(Text::Plain) if means_lines() => {
                format!("take it apart first, as in `{text}.split(\"\\n\")`")
            }
            _ => return None,
        };
        let line = teller.position(operation.start).map(|position| format!("line {}: ", position.line));
        Some(format!("{}{text} is {}: {does}; {advice}", line.unwrap_or_default(), teller.describe(&known)))
    });
    sentences.take(MAX_TEXT_USES).collect()
}

/// Is the `.length` that begins here compared or tested?
fn is_compared(javascript: &str, at: u32) -> bool {
    let rest = javascript[at as usize..].trim_start_matches(['?', '.']).trim_start_matches("length");
    rest.trim_start().starts_with(['<', '>', '=', '!', '?', '&', '|'])
}

/// Does the program iterate over a text here, and not treat what it gets as characters?
fn means_lines(semantic: &Semantic<'_>, iterated: Span, javascript: &str) -> bool {
    let nodes = semantic.nodes();
    nodes.iter().any(|node| match node.kind() {
        AstKind::ForOfStatement(it) if it.right.span() == iterated => {
            let name = it.left.span().source_text(javascript).split_whitespace().last().unwrap_or_default();
            let body = it.body.span().source_text(javascript);
            let is_character = |pattern: &&str| body.contains(&pattern.replace("{}", name));
            !has_character(body) && !CHARACTER_USES.iter().any(is_character)
        }
        // `list.push(...text)`
        AstKind::SpreadElement(it) if it.argument.span() == iterated => {
            matches!(nodes.parent_kind(node.id()), AstKind::CallExpression(_))
        }
        _ => false,
    })
}

/// Is there a text of one character in this JavaScript?
fn has_character(javascript: &str) -> bool {
    let bytes = javascript.as_bytes();
    let is_quote = |at: usize| bytes.get(at) == Some(&b'"');
    let is_one = |at: usize| is_quote(at + 2) && !is_quote(at + 1);
    let is_escape = |at: usize| is_quote(at + 3) && bytes.get(at + 1) == Some(&b'\\');
    (0..bytes.len()).any(|at| is_quote(at) && (is_one(at) || is_escape(at)))
}
