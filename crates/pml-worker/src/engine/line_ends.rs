//! Lines that keep a `"\r"`: `split("\n")` of a text whose lines end with `"\r\n"`.
//!
//! It stands at the end of the last field of each line, where nobody sees it. A result that has such a text tells.

use crate::transpile::Source;

/// How the end of a line stands in a program that does not reckon with `"\r"`.
const SPLITS: [&str; 3] = [r#"split("\n")"#, r"split('\n')", r"split(`\n`)"];

/// The warning of a run that is over, by the JSON text of its result.
pub(super) fn told(source: &Source, result: &[u8]) -> Option<String> {
    // Behind another backslash, it is one that is written out.
    let has_end = result.windows(4).any(|bytes| bytes[0] != b'\\' && bytes.ends_with(br#"\r""#));
    let is_split = SPLITS.iter().any(|split| source.has_text(split));
    if !has_end || !is_split {
        return None;
    }
    let line = source.line_that_has("split", None).map(|line| format!("line {line}: ")).unwrap_or_default();
    Some(format!(
        "{line}the result has a text that ends with \"\\r\", which `split(\"\\n\")` leaves of a line that ends with \"\\r\\n\": write \
         `split(/\\r?\\n/)`"
    ))
}
