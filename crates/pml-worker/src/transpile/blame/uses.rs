//! Places where a program takes a text for the list that it holds after its first line.

use oxc::span::GetSpan;

use super::{
    opened::{Opened, open},
    operations::{Kind, Operation},
    shape::{Given, Shape, Text},
    teller::Teller,
};
use crate::transpile::{Probes, Source};

/// Places of one program that are named.
const MAX_USES: usize = 3;

/// One sentence for each place where the program iterates over such a text, indexes it or asks for its length.
pub(in crate::transpile) fn text_uses(source: &Source, probes: Probes, results: &[Given]) -> Vec<String> {
    let tell = |opened: &Opened<'_, '_>| {
        opened.tell(results, |teller| {
            opened.found.operations.iter().filter_map(|it| sentence(teller, it)).take(MAX_USES).collect()
        })
    };
    open(source, probes, tell).unwrap_or_default()
}

fn sentence<'a>(teller: &Teller<'_, 'a>, operation: &Operation<'a>) -> Option<String> {
    let (subject, does) = match (operation.kind, operation.property) {
        (Kind::Iterate, _) => (operation.subject?, "iterating over it gives its characters"),
        // Whether there is a text at all is a good question.
        (Kind::Read, Some("length")) if is_compared(teller.javascript, operation.subject?.span().end) => return None,
        (Kind::Read, Some("length")) => (operation.subject?, "its `length` counts characters"),
        (Kind::Read, Some(index)) if index.parse::<usize>().is_ok() => {
            (operation.subject?, "an index of it gives a character")
        }
        _ => return None,
    };
    let known = teller.knowledge.of(subject).filter(|known| !known.is_promise && !known.is_part)?;
    let Shape::Text(Text::Prefixed(bracket)) = known.shape else { return None };
    let text = teller.text(subject);
    let line = teller.position(operation.start).map(|position| format!("line {}: ", position.line));
    Some(format!(
        "{}{text} is {}: {does}; the JSON in it begins after some text: `JSON.parse({text}.slice({text}.indexOf(\"{bracket}\")))`",
        line.unwrap_or_default(),
        teller.describe(&known)
    ))
}

/// Is the `.length` that begins here compared or tested?
fn is_compared(javascript: &str, at: u32) -> bool {
    let rest = javascript[at as usize..].trim_start_matches(['?', '.']).trim_start_matches("length");
    rest.trim_start().starts_with(['<', '>', '=', '!', '?', '&', '|'])
}
