//! Ranges of numbers, such as `3–5 km`.
//!
//! What both numbers have around them is said once if it is longer than a letter, as ICU does: `3,00–5,00 €`, but `$3.00 – $5.00`.

use super::{
    digits::Amount,
    format::{Closeness, NumberFormat, without_marks},
    options::Notation,
};
use crate::intl::{
    Failure,
    part::{Part, push},
    plural,
};

/// A number and what stands before and behind it.
#[derive(PartialEq)]
struct Pieces {
    before: Vec<Part>,
    digits: Vec<Part>,
    behind: Vec<Part>,
}

impl Pieces {
    fn new((mut parts, digits): (Vec<Part>, std::ops::Range<usize>)) -> Pieces {
        let behind = parts.split_off(digits.end);
        let digits = parts.split_off(digits.start);
        Pieces { before: parts, digits, behind }
    }

    fn letters_around(&self) -> usize {
        self.before.iter().chain(&self.behind).map(|part| part.text.chars().count()).sum()
    }
}

impl NumberFormat {
    /// The parts of a range, each with the side that it belongs to.
    pub(crate) fn format_range(&self, from: &Amount, to: &Amount) -> Result<Vec<Part>, Failure> {
        if matches!(from, Amount::NotANumber) || matches!(to, Amount::NotANumber) {
            return Err(Failure::range("A range has two numbers"));
        }
        let (first, second) = (self.body(from), self.body(to));
        let category = plural::of_range(self.locale, first.category, second.category);
        let first = Pieces::new(self.with_affixes(first, Closeness::Exact));
        let second = Pieces::new(self.with_affixes(second, Closeness::Exact));
        if first == second {
            let (parts, _) = self.with_affixes(self.body(from), Closeness::Approximate);
            return Ok(self
                .with_name(noted(without_marks(parts), "shared"), category)
                .into_iter()
                .map(shared)
                .collect());
        }
        let is_alike = first.before == second.before && first.behind == second.behind && first.letters_around() > 1;
        let has_exponent = matches!(self.options.notation, Notation::Scientific | Notation::Engineering);
        let repeats = has_exponent || (!is_alike && first.letters_around() > 0);
        let mut parts = Vec::new();
        let (before, behind) = if is_alike { ("shared", "shared") } else { ("startRange", "endRange") };
        extend(&mut parts, noted(first.before, before));
        extend(&mut parts, noted(first.digits, "startRange"));
        if !is_alike {
            extend(&mut parts, noted(first.behind, "startRange"));
        }
        extend(&mut parts, noted(vec![Part::literal(self.between(repeats))], "shared"));
        if !is_alike {
            extend(&mut parts, noted(second.before, "endRange"));
        }
        extend(&mut parts, noted(second.digits, "endRange"));
        extend(&mut parts, noted(second.behind, behind));
        Ok(self.with_name(without_marks(parts), category).into_iter().map(shared).collect())
    }

    /// What stands between the numbers; with spaces around it if more than the numbers is said twice.
    fn between(&self, is_spaced: bool) -> String {
        let infix = self.range.trim_start_matches("{0}").trim_end_matches("{1}");
        if !is_spaced {
            return infix.to_owned();
        }
        let space = |has: bool| if has { "" } else { " " };
        let (starts, ends) = (infix.starts_with(char::is_whitespace), infix.ends_with(char::is_whitespace));
        format!("{}{infix}{}", space(starts), space(ends))
    }
}

fn noted(parts: Vec<Part>, note: &'static str) -> Vec<Part> {
    parts.into_iter().map(|part| Part { note: Some(note), ..part }).collect()
}

/// A unit that was put around a range belongs to both sides.
fn shared(part: Part) -> Part {
    Part { note: part.note.or(Some("shared")), ..part }
}

fn extend(parts: &mut Vec<Part>, more: Vec<Part>) {
    more.into_iter().for_each(|part| push(parts, part));
}
