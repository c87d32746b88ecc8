//! Lists: "a, b and c".

use serde::Deserialize;

use super::{
    Failure,
    part::{Part, push},
    table::{List, Locale},
    width::Width,
};

/// The resolved options of `Intl.ListFormat`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ListOptions {
    data: String,
    #[serde(rename = "type")]
    kind: Kind,
    style: Width,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    Conjunction,
    Disjunction,
    Unit,
}

/// Joins texts as a language does.
#[derive(Debug)]
pub(crate) struct ListFormat {
    locale: Locale,
    patterns: List,
}

impl ListFormat {
    pub(crate) fn new(options: &ListOptions) -> Result<ListFormat, Failure> {
        let locale = Locale::named(&options.data)?;
        let kind = match options.kind {
            Kind::Conjunction => "standard",
            Kind::Disjunction => "or",
            Kind::Unit => "unit",
        };
        let style = options.style.suffix();
        Ok(ListFormat { locale, patterns: locale.list(&format!("l.{kind}{style}")) })
    }

    pub(crate) fn format(&self, items: Vec<String>) -> Vec<Part> {
        let count = items.len();
        let pattern = |index: usize| self.patterns.get(index).unwrap_or("{0}, {1}");
        let mut parts: Vec<Part> = Vec::new();
        // From the last item to the first: each pattern puts one item before what is there.
        let mut items = items.into_iter().enumerate().rev();
        if let Some((_, last)) = items.next() {
            parts.push(Part::new("element", last));
        }
        // Each pattern puts an item before those behind it; collected backwards, so that a long list costs its length.
        parts.reverse();
        let mut next = parts.first().map(|part| part.text.to_string()).unwrap_or_default();
        for (index, item) in items {
            let pattern = match (count, index) {
                (2, _) => pattern(0),
                (_, 0) => pattern(1),
                (count, index) if index + 2 == count => pattern(3),
                _ => pattern(2),
            };
            let pattern = self.fitted(pattern, &next);
            let (before, rest) = pattern.split_once("{0}").unwrap_or(("", ", {1}"));
            let (between, behind) = rest.split_once("{1}").unwrap_or((rest, ""));
            push_front(&mut parts, behind, between);
            next = item.clone();
            parts.push(Part::new("element", item));
            if !before.is_empty() {
                parts.push(Part::literal(before.to_owned()));
            }
        }
        let mut joined = Vec::with_capacity(parts.len());
        parts.into_iter().rev().for_each(|part| push(&mut joined, part));
        joined
    }

    /// The pattern as it sounds before the item that follows.
    fn fitted(&self, pattern: &'static str, next: &str) -> std::borrow::Cow<'static, str> {
        let language = self.locale.name().split('-').next().unwrap_or_default();
        let next = next.to_lowercase();
        match language {
            "es" if pattern.contains(" y {1}") && starts_with_i(&next) => pattern.replace(" y {1}", " e {1}").into(),
            "es" if pattern.contains(" o {1}") && starts_with_o(&next) => pattern.replace(" o {1}", " u {1}").into(),
            "he" if pattern.contains(" ו{1}")
                && !next.starts_with(|letter| ('\u{5d0}'..='\u{5ea}').contains(&letter)) =>
            {
                pattern.replace("ו{1}", "ו-{1}").into()
            }
            _ => pattern.into(),
        }
    }
}

fn push_front(parts: &mut Vec<Part>, behind: &str, between: &str) {
    if !behind.is_empty() {
        parts.insert(0, Part::literal(behind.to_owned()));
    }
    parts.push(Part::literal(between.to_owned()));
}

fn starts_with_i(text: &str) -> bool {
    let rest = text.strip_prefix('h').unwrap_or(text);
    rest.starts_with(['i', 'í']) && !rest.starts_with("ia") && !rest.starts_with("ie") || text.starts_with('i')
}

fn starts_with_o(text: &str) -> bool {
    let is_eleven =
        text.strip_prefix("11").is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_ascii_digit()));
    text.starts_with(['o', 'ó', '8']) || text.starts_with("ho") || text.starts_with("hó") || is_eleven
}
