//! What was found in a text, the markers that take its place, and how they are put in.

use std::{borrow::Cow, collections::BTreeMap, ops::Range};

/// What a finding is; decides its marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A secret; the text names which.
    Secret(Cow<'static, str>),
    Email,
    Phone,
    Ssn,
    Card,
    Iban,
    /// An encoded text, encoded again without what was in it.
    Rewritten(String),
}

impl Kind {
    pub(super) const fn secret(name: &'static str) -> Kind {
        Kind::Secret(Cow::Borrowed(name))
    }

    pub(super) fn marker(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Kind::Secret(name) => return Cow::Owned(format!("[REDACTED:{name}]")),
            Kind::Email => "[EMAIL]",
            Kind::Phone => "[PHONE]",
            Kind::Ssn => "[SSN]",
            Kind::Card => "[CARD]",
            Kind::Iban => "[IBAN]",
            Kind::Rewritten(text) => return Cow::Owned(text.clone()),
        })
    }

    fn name(&self) -> &str {
        match self {
            Kind::Secret(name) => name,
            Kind::Email => "email",
            Kind::Phone => "phone",
            Kind::Ssn => "ssn",
            Kind::Card => "card",
            Kind::Iban => "iban",
            Kind::Rewritten(_) => "encoded",
        }
    }
}

/// The marker at the end of a text that was cut, and in the place of a value that was.
pub(super) const TRUNCATED: &str = "[TRUNCATED]";

/// A place in a text that must not stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

/// How often each kind of thing was removed, by its name.
pub type Counts = BTreeMap<String, u64>;

pub(super) fn count(counts: &mut Counts, kind: &Kind) {
    *counts.entry(kind.name().to_owned()).or_default() += 1;
}

/// The places of markers in a text, in order. Nothing inside of one is looked at again.
pub(super) fn markers(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'[', bytes).filter_map(|start| Some(start..marker_end(bytes, start)?)).collect()
}

/// Most bytes of the name in a marker.
pub(super) const MAX_NAME_BYTES: usize = 64;

fn marker_end(bytes: &[u8], start: usize) -> Option<usize> {
    let rest = &bytes[start..];
    for fixed in ["[EMAIL]", "[PHONE]", "[SSN]", "[CARD]", "[IBAN]", TRUNCATED] {
        if rest.starts_with(fixed.as_bytes()) {
            return Some(start + fixed.len());
        }
    }
    let name = rest.strip_prefix(b"[REDACTED:")?;
    let length = name.iter().take(MAX_NAME_BYTES + 1).position(|byte| !is_name_byte(*byte))?;
    (length > 0 && name[length] == b']').then_some(start + "[REDACTED:".len() + length + 1)
}

/// The text without its markers.
pub(super) fn without_markers(text: &str) -> Cow<'_, str> {
    let found = markers(text);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut rest = String::new();
    let mut at = 0;
    for marker in found {
        rest.push_str(&text[at..marker.start]);
        at = marker.end;
    }
    rest.push_str(&text[at..]);
    Cow::Owned(rest)
}

/// May the byte stand in the name of a kind?
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
}

/// Findings in order, without overlaps and without markers inside: the one that starts first is kept, the longer one if
/// two start together, and what another one adds behind its end goes into the same marker.
pub(super) fn settle(mut findings: Vec<Finding>, markers: &[Range<usize>]) -> Vec<Finding> {
    findings.sort_by_key(|finding| (finding.span.start, std::cmp::Reverse(finding.span.end)));
    let mut settled: Vec<Finding> = Vec::with_capacity(findings.len());
    for finding in findings {
        match settled.last_mut() {
            Some(last) if finding.span.start < last.span.end => last.span.end = last.span.end.max(finding.span.end),
            Some(last) if finding.span.start == last.span.end && finding.kind == last.kind => {
                last.span.end = finding.span.end;
            }
            _ => settled.push(finding),
        }
    }
    if markers.is_empty() {
        return settled;
    }
    let mut without = Vec::with_capacity(settled.len());
    let mut next_marker = 0;
    for finding in settled {
        while markers.get(next_marker).is_some_and(|marker| marker.end <= finding.span.start) {
            next_marker += 1;
        }
        let mut start = finding.span.start;
        for marker in markers[next_marker..].iter().take_while(|marker| marker.start < finding.span.end) {
            if start < marker.start {
                without.push(Finding { span: start..marker.start, kind: finding.kind.clone() });
            }
            start = marker.end;
        }
        if start < finding.span.end {
            without.push(Finding { span: start..finding.span.end, kind: finding.kind });
        }
    }
    without
}

/// The text with a marker in the place of each finding. Findings must be settled.
pub(super) fn apply(text: &str, findings: &[Finding]) -> String {
    let mut output = String::with_capacity(text.len());
    let mut at = 0;
    for finding in findings {
        // Findings lie between ASCII bytes, or were made from whole strings; a wrong one must not be a panic.
        let start = text.floor_char_boundary(finding.span.start).max(at);
        let end = text.ceil_char_boundary(finding.span.end).max(start);
        output.push_str(&text[at..start]);
        output.push_str(&finding.kind.marker());
        at = end;
    }
    output.push_str(&text[at..]);
    output
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a finding is a range")]
mod tests {
    use super::*;

    fn found(spans: &[Range<usize>]) -> Vec<Finding> {
        spans.iter().map(|span| Finding { span: span.clone(), kind: Kind::secret("x") }).collect()
    }

    #[test]
    fn overlapping_findings_become_one() {
        let text = "0123456789";
        let settled = settle(found(&[4..6, 1..5, 1..3, 8..9]), &[]);
        assert_eq!(apply(text, &settled), "0[REDACTED:x]67[REDACTED:x]9");
    }

    #[test]
    fn markers_are_found_and_stay() {
        let text = "a [REDACTED:api-key] b [EMAIL] c [REDACTED:Not] [REDACTED:]";
        assert_eq!(markers(text), [2..20, 23..30]);
        let settled = settle(found(&[0..text.len()]), &markers(text));
        let kept = apply(text, &settled);
        assert_eq!(kept, "[REDACTED:x][REDACTED:api-key][REDACTED:x][EMAIL][REDACTED:x]");
        assert!(settle(found(&[0..kept.len()]), &markers(&kept)).is_empty());
    }

    #[test]
    fn a_span_inside_of_a_character_takes_the_character() {
        assert_eq!(apply("aé", &found(&[2..3])), "a[REDACTED:x]");
    }
}
