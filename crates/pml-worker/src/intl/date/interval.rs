//! Ranges of times: "Jan 3 – 5, 2024".

use super::{
    fields::Fields,
    format::{DateFormat, with_hours},
    pattern::{Item, is_hour, parse},
    skeleton::{Patterns, Skeleton},
};
use crate::intl::{
    part::{Part, push},
    table::List,
};

/// Fields that a range may differ in, from the largest.
const LETTERS: [char; 8] = ['G', 'y', 'M', 'd', 'a', 'h', 'm', 's'];

/// Formats ranges like one format.
pub(super) struct Intervals<'a> {
    format: &'a DateFormat,
    skeleton: &'a str,
    hour: char,
}

impl<'a> Intervals<'a> {
    pub(super) fn new(format: &'a DateFormat, skeleton: &'a str, hour: char) -> Intervals<'a> {
        Intervals { format, skeleton, hour }
    }

    pub(super) fn format(&self, from: &Fields, to: &Fields) -> Vec<Part> {
        let Some(letter) = self.largest_difference(from, to) else {
            return noted(self.format.parts(self.format.own_items(), from), "shared");
        };
        let is_date = |letter: char| matches!(letter, 'G' | 'y' | 'M' | 'L' | 'E' | 'c' | 'd');
        let date: String = self.skeleton.chars().filter(|letter| is_date(*letter)).collect();
        let time: String = self.skeleton.chars().filter(|letter| !is_date(*letter)).collect();
        let prefix = self.format.calendar.patterns(self.format.locale);
        let patterns = || Patterns::new(self.format.locale, prefix);
        if date.is_empty() && is_date(letter) {
            // Two times of different days need their days.
            return self.both(&parse(&with_hours(&patterns().best(&format!("yMd{time}")), self.hour)), from, to);
        }
        if time.is_empty() || date.is_empty() {
            // So do two days of different years.
            let is_shown = letter == 'S' || !is_date(letter) || letter == 'G' || self.skeleton.contains(letter);
            let skeleton = if is_shown { self.skeleton.to_owned() } else { format!("{letter}{}", self.skeleton) };
            if let Some(items) = self.pattern(&skeleton, letter, prefix) {
                return self.filled(&items, from, to);
            }
            if !is_shown {
                return self.both(&parse(&patterns().best(&skeleton)), from, to);
            }
        } else if !is_date(letter)
            && let Some(items) = self.pattern(&time, letter, "g")
        {
            let date = parse(&patterns().best(&date));
            let shared = noted(self.format.parts(&date, from), "shared");
            let times = self.filled(&items, from, to);
            let glue = if prefix == "g" { "g.glue" } else { "x.glue" };
            let pattern = self.format.locale.list(glue).get(2).unwrap_or("{1}, {0}");
            return glue_parts(pattern, vec![times, shared]);
        }
        self.both(self.format.own_items(), from, to)
    }

    /// Both times in full.
    fn both(&self, items: &[Item], from: &Fields, to: &Fields) -> Vec<Part> {
        let prefix = self.format.calendar.patterns(self.format.locale);
        let pattern = self.format.locale.get(&format!("{prefix}.between")).unwrap_or("{0} – {1}");
        let (from, to) = (self.format.parts(items, from), self.format.parts(items, to));
        glue_parts(pattern, vec![noted(from, "startRange"), noted(to, "endRange")])
    }

    /// The largest field in which the times differ, of those that are shown or larger.
    fn largest_difference(&self, from: &Fields, to: &Fields) -> Option<char> {
        let (a, b) = (self.format.calendar.date(from), self.format.calendar.date(to));
        let differs = |letter: char| match letter {
            'G' => a.era != b.era,
            'y' => a.year != b.year,
            'M' => a.month != b.month,
            'd' => a.day != b.day,
            'a' => (from.hour < 12) != (to.hour < 12),
            'h' => from.hour != to.hour,
            'm' => from.minute != to.minute,
            _ => from.second != to.second,
        };
        let letter = LETTERS.into_iter().find(|letter| differs(*letter));
        let Some(letter) = letter else {
            return (from.millisecond != to.millisecond && self.skeleton.contains('S')).then_some('S');
        };
        // A difference that is smaller than what is shown is none.
        let smallest = self.skeleton.chars().filter_map(|letter| {
            let letter = match letter {
                'L' => 'M',
                'E' | 'c' => 'd',
                'B' | 'b' => 'h',
                letter if is_hour(letter) => 'h',
                letter => letter,
            };
            LETTERS.iter().position(|other| *other == letter)
        });
        let index = LETTERS.iter().position(|other| *other == letter);
        (index <= smallest.max() || self.skeleton.contains('S')).then_some(letter)
    }

    /// The range's own pattern for these fields.
    fn pattern(&self, skeleton: &str, letter: char, prefix: &str) -> Option<Vec<Item>> {
        let wanted = Skeleton::of(&skeleton.replace(['z', 'O'], "v"));
        let is_twelve = matches!(self.hour, 'h' | 'K');
        let letter = match letter {
            'a' | 'h' if !is_twelve => 'H',
            letter => letter,
        };
        let mut best: Option<(usize, &'static str, &'static str)> = None;
        for (name, patterns) in self.format.locale.with_prefix(&format!("{prefix}.interval.")) {
            if let Some(distance) = wanted.nearness(&Skeleton::of(name))
                && best.is_none_or(|(least, ..)| distance < least)
            {
                best = Some((distance, name, patterns));
            }
        }
        let (_, name, patterns) = best?;
        let patterns: Vec<&'static str> = List::of(patterns).iter().collect();
        let found = patterns.chunks_exact(2).find(|entry| entry[0].starts_with(letter))?[1];
        let widened = wanted.widened(found, &Skeleton::of(name));
        Some(parse(&with_hours(&widened, self.hour)))
    }

    /// Formats a pattern in which fields that differ stand twice.
    fn filled(&self, items: &[Item], from: &Fields, to: &Fields) -> Vec<Part> {
        let kind = |item: &Item| match item {
            Item::Field(letter, _) => Some(match letter {
                'L' => 'M',
                'c' | 'e' => 'E',
                letter if is_hour(*letter) => 'h',
                letter => *letter,
            }),
            Item::Literal(_) => None,
        };
        // The second time begins where a field comes for the second time.
        let repeats =
            |at: usize| kind(&items[at]).is_some_and(|own| items[..at].iter().any(|item| kind(item) == Some(own)));
        let second = (0..items.len()).find(|at| repeats(*at)).unwrap_or(items.len());
        let is_twice =
            |item: &Item| kind(item).is_some_and(|own| items.iter().filter(|item| kind(item) == Some(own)).count() > 1);
        let mut parts = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let (fields, side) = if at < second { (from, "startRange") } else { (to, "endRange") };
            let mut part = self.format.part(item, items, fields);
            // What stands between two fields of one side belongs to that side.
            let is_inside = kind(item).is_none()
                && at > 0
                && at + 1 < items.len()
                && at + 1 != second
                && is_twice(&items[at - 1])
                && is_twice(&items[at + 1]);
            part.note = Some(if is_twice(item) || is_inside { side } else { "shared" });
            push(&mut parts, part);
        }
        parts
    }
}

fn noted(mut parts: Vec<Part>, note: &'static str) -> Vec<Part> {
    parts.iter_mut().for_each(|part| part.note = Some(note));
    parts
}

/// Like [`crate::intl::part::fill`], with quoted literals that belong to both sides.
fn glue_parts(pattern: &str, places: Vec<Vec<Part>>) -> Vec<Part> {
    let plain = pattern.replace('\'', "");
    let mut parts = crate::intl::part::fill(&plain, places);
    parts.iter_mut().for_each(|part| part.note = part.note.or(Some("shared")));
    parts
}
