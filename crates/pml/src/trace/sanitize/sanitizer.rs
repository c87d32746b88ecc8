//! Removes secrets and personal data from texts and JSON.
//!
//! A text is searched until a search finds nothing more, so what comes out is what would come out again: s(s(x)) = s(x).
//! Only then is it cut, and what is left is searched once more.

use std::{borrow::Cow, sync::Arc};

use pml_wire::trace::Truncated;

use super::{
    document,
    finding::{self, Counts, Kind, TRUNCATED},
    headers,
    keys::{self, Strength, Telling},
    scan,
    settings::Rules,
    value,
};

/// Strings longer than this are cut.
pub const MAX_STRING_BYTES: usize = 10 * 1024;
/// How often a text is searched before it is given up and removed as a whole.
const MAX_ROUNDS: usize = 6;
/// How deeply JSON in strings of JSON is looked into; deeper, it is text.
const MAX_NESTED: usize = 6;

/// Removes secrets and personal data.
#[derive(Clone, Debug, Default)]
pub struct Sanitizer {
    rules: Arc<Rules>,
}

/// What was done to a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many of what kind were removed.
    pub redacted: Counts,
    /// What was cut, and how large it was.
    pub truncated: Vec<Truncated>,
}

impl Report {
    pub(super) fn is_redacted(&self) -> bool {
        !self.redacted.is_empty()
    }
}

impl Sanitizer {
    pub fn new(rules: impl Into<Arc<Rules>>) -> Sanitizer {
        Sanitizer { rules: rules.into() }
    }

    /// A text of its own, such as a log line. A text that is JSON stays JSON.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.string(text, 0, "", &mut Report::default()) {
            None => Cow::Borrowed(text),
            Some(clean) => Cow::Owned(clean),
        }
    }

    /// The same for a text that is kept whole, however long it is.
    pub fn whole_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.code(text, "", &mut Report::default()).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// A JSON text, with what was done to it; `None` if it is no JSON.
    ///
    /// The order of keys, the spelling of numbers and white space stay as they are.
    pub fn json<'a>(&self, text: &'a str) -> Option<(Cow<'a, str>, Report)> {
        let mut report = Report::default();
        let clean = self.document(text, "", &mut report)?;
        Some((clean, report))
    }

    /// A JSON text at a place of a larger one; `None` if it is no JSON.
    pub(super) fn document<'a>(&self, text: &'a str, path: &str, report: &mut Report) -> Option<Cow<'a, str>> {
        document::is_json(text).then(|| self.checked_document(text, path, report))
    }

    /// The same for a text that is known to be JSON.
    pub(super) fn checked_document<'a>(&self, text: &'a str, path: &str, report: &mut Report) -> Cow<'a, str> {
        // What was removed may change what its neighbours say about each other.
        let mut clean = Cow::Borrowed(text);
        for _ in 0..MAX_ROUNDS {
            match document::sanitize(self, &clean, path, 0, None, report) {
                None => return clean,
                Some(next) => clean = Cow::Owned(next),
            }
        }
        Cow::Owned(format!("\"{}\"", Kind::secret("text").marker()))
    }

    /// A string at a place; `None` if it may stay as it is.
    pub(super) fn string(&self, text: &str, nested: usize, path: &str, report: &mut Report) -> Option<String> {
        if text.len() < 5 {
            return None; // nothing that is found without a name is shorter
        }
        let mut clean = self.settled(text, nested, path, None, report);
        let mut rounds = 0;
        while clean.as_deref().unwrap_or(text).len() > MAX_STRING_BYTES {
            let cut = cut(clean.as_deref().unwrap_or(text));
            if rounds == 0 {
                report.truncated.push(Truncated { path: path.to_owned(), original_bytes: text.len() as u64 });
            }
            rounds += 1;
            clean = Some(match rounds < MAX_ROUNDS {
                true => self.settled(&cut, nested, path, None, report).unwrap_or(cut),
                false => TRUNCATED.to_owned(),
            });
        }
        clean
    }

    /// A program, which is kept whole: it is bounded where it is sent, and can be run again. `None` if it may stay as it is.
    pub(super) fn code(&self, text: &str, path: &str, report: &mut Report) -> Option<String> {
        self.settled(text, 0, path, None, report)
    }

    /// The text after as many searches as it takes to find nothing more; `None` if the first found nothing.
    fn settled(
        &self,
        text: &str,
        nested: usize,
        path: &str,
        telling: Option<&Telling>,
        report: &mut Report,
    ) -> Option<String> {
        let mut clean: Option<String> = None;
        for _ in 0..MAX_ROUNDS {
            let Some(next) = self.round(clean.as_deref().unwrap_or(text), nested, path, telling, report) else {
                return clean;
            };
            clean = Some(next);
        }
        Some(Kind::secret("text").marker().into_owned())
    }

    fn round(
        &self,
        text: &str,
        nested: usize,
        path: &str,
        telling: Option<&Telling>,
        report: &mut Report,
    ) -> Option<String> {
        if nested < MAX_NESTED && document::may_be_json(text) && document::is_json(text) {
            return document::sanitize(self, text, path, nested + 1, telling, report);
        }
        let findings = scan::findings(text, &self.rules, 0);
        if findings.is_empty() {
            return None;
        }
        findings.iter().for_each(|found| finding::count(&mut report.redacted, &found.kind));
        Some(finding::apply(text, &findings)).filter(|clean| clean != text)
    }

    /// What a text says as a name. Nothing in it that is removed, or was, says anything.
    pub(super) fn telling(&self, name: &str) -> Option<Telling> {
        let clean = self.settled(name, MAX_NESTED, "", None, &mut Report::default());
        let name = finding::without_markers(clean.as_deref().unwrap_or(name));
        keys::classify(name.trim_start_matches('-').trim_end_matches(':'))
    }

    /// A string whose name tells something; `None` if it may stay as it is.
    pub(super) fn telling_string(
        &self,
        text: &str,
        telling: &Telling,
        nested: usize,
        path: &str,
        report: &mut Report,
    ) -> Option<String> {
        let mut clean: Option<String> = None;
        for _ in 0..MAX_ROUNDS {
            let now = clean.as_deref().unwrap_or(text);
            match self.telling_round(now, telling, nested, path, report) {
                Some(next) if next != now => clean = Some(next),
                _ => return clean,
            }
        }
        Some(telling.kind.marker().into_owned())
    }

    fn telling_round(
        &self,
        text: &str,
        telling: &Telling,
        nested: usize,
        path: &str,
        report: &mut Report,
    ) -> Option<String> {
        let is_json = nested < MAX_NESTED && document::may_be_json(text) && document::is_json(text);
        if is_json {
            return match self.settled(text, nested, path, Some(telling), report) {
                Some(clean) => self.string(&clean, nested, path, report).or(Some(clean)),
                None => self.string(text, nested, path, report),
            };
        }
        let rest = finding::without_markers(text);
        let is_done = rest.len() < text.len() && (rest.trim().is_empty() || headers::is_scheme(rest.trim()));
        if is_done || self.rules.allows_text(text) {
            return None;
        }
        let kind = match &telling.kind {
            Kind::Secret(name) if name == "authorization" => {
                if let Some(span) = headers::credentials(text, 0) {
                    finding::count(&mut report.redacted, &telling.kind);
                    let mut clean = text.to_owned();
                    clean.replace_range(span, &telling.kind.marker());
                    return self.string(&clean, nested, path, report).or(Some(clean));
                }
                value::is_secret(telling, text).then_some(&telling.kind)
            }
            Kind::Secret(name) if name == "cookie" => (telling.strength == Strength::Certain
                && headers::holds_session(text)
                || value::is_secret(telling, text) && !value::is_short_word(text) && !text.contains('='))
            .then_some(&telling.kind),
            Kind::Secret(_) => value::is_secret(telling, text).then_some(&telling.kind),
            kind => is_number_of(kind, text).then_some(kind),
        };
        match kind {
            Some(kind) => {
                finding::count(&mut report.redacted, kind);
                Some(kind.marker().into_owned())
            }
            None => self.string(text, nested, path, report),
        }
    }

    pub(super) fn telling_number(&self, text: &str, telling: Option<&Telling>, report: &mut Report) -> Option<String> {
        let is_integer = text.bytes().all(|byte| byte.is_ascii_digit());
        let digits: Vec<u8> = text.bytes().map(|byte| byte.wrapping_sub(b'0')).collect();
        if !is_integer || self.rules.allows_text(text) {
            return None;
        }
        let kind = match telling.map(|telling| (&telling.kind, telling.strength)) {
            Some((kind @ Kind::Secret(name), Strength::Certain))
                if matches!(name.as_ref(), "password" | "code") && text.len() >= 3 || text.len() >= 12 =>
            {
                Some(kind.clone())
            }
            Some((Kind::Secret(_), _)) | None => super::numbers::is_card_number(&digits).then_some(Kind::Card),
            Some((kind, _)) => is_number_of(kind, text).then(|| kind.clone()),
        }?;
        finding::count(&mut report.redacted, &kind);
        Some(kind.marker().into_owned())
    }
}

/// Has the text the form of what its name says it is? With the name next to it, form is enough.
fn is_number_of(kind: &Kind, text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    match kind {
        Kind::Phone => (6..=16).contains(&digits) && letters <= 3 && text.len() <= 32,
        Kind::Ssn => digits == 9 && letters == 0 && text.len() <= 12,
        Kind::Card => (12..=19).contains(&digits) && letters == 0 && text.len() <= 28,
        Kind::Iban => {
            digits >= 10
                && text.len() >= 15
                && text.len() <= 42
                && text.bytes().take(2).all(|byte| byte.is_ascii_alphabetic())
        }
        _ => false,
    }
}

/// The head of a text, with the marker of what is missing, no longer than a string may be.
fn cut(text: &str) -> String {
    let mut end = text.floor_char_boundary(MAX_STRING_BYTES - TRUNCATED.len());
    if let Some(marker) = finding::markers(text).iter().find(|marker| marker.start < end && end < marker.end) {
        end = marker.start;
    }
    format!("{}{TRUNCATED}", &text[..end])
}
