//! Finds the pattern for the fields that a program wants, as UTS #35 describes ("Matching Skeletons").
//!
//! A locale has patterns for some sets of fields. The nearest one is taken and its fields are made as wide as was wanted; what
//! it lacks is appended, and a date and a time that have no common pattern are put together.

use super::pattern::{Item, parse, write};
use crate::intl::table::{List, Locale};

/// The kinds of fields, in the order in which they count.
pub(super) const ERA: usize = 0;
pub(super) const YEAR: usize = 1;
pub(super) const MONTH: usize = 2;
pub(super) const WEEKDAY: usize = 3;
pub(super) const DAY: usize = 4;
pub(super) const PERIOD: usize = 5;
pub(super) const HOUR: usize = 6;
pub(super) const MINUTE: usize = 7;
pub(super) const SECOND: usize = 8;
pub(super) const FRACTION: usize = 9;
pub(super) const ZONE: usize = 10;
const KINDS: usize = 11;
const DATE_MASK: u16 = (1 << PERIOD) - 1;

/// How far apart two forms of a field are: numbers from names further than long from short names.
const NUMERIC: i32 = 0x100;
const NARROW: i32 = -0x101;
const SHORTER: i32 = -0x102;
const SHORT: i32 = -0x103;
const LONG: i32 = -0x104;
const STEP: i32 = 0x10;
/// What a field too many, and one too few, add to the distance.
const EXTRA: i32 = 0x1_0000;
const MISSING: i32 = 0x1000;

/// One field of a skeleton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    letter: char,
    count: usize,
    form: i32,
    /// The fewest letters that mean the same.
    least: usize,
}

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Skeleton([Option<Field>; KINDS]);

/// What a letter stands for, so often.
fn classify(letter: char, count: usize) -> Option<(usize, Field)> {
    let named = |shift: i32| match count {
        1..=3 => (SHORT - shift * STEP, 1),
        4 => (LONG - shift * STEP, 4),
        5 => (NARROW - shift * STEP, 5),
        _ => (SHORTER - shift * STEP, 6),
    };
    let either = |shift: i32| match count {
        1 | 2 => (NUMERIC + shift * STEP + count as i32, 1),
        3 => (SHORT - shift * STEP, 3),
        4 => (LONG - shift * STEP, 4),
        _ => (NARROW - shift * STEP, 5),
    };
    let numeric = |shift: i32| (NUMERIC + shift * STEP + count as i32, 1);
    let (kind, (form, least)) = match letter {
        'G' => (ERA, named(0)),
        'y' | 'u' | 'r' => (YEAR, numeric(0)),
        'U' => (YEAR, named(0)),
        'M' => (MONTH, either(0)),
        'L' => (MONTH, either(1)),
        'E' => (WEEKDAY, named(0)),
        'c' => (WEEKDAY, either(2)),
        'e' => (WEEKDAY, either(1)),
        'd' => (DAY, numeric(0)),
        'a' => (PERIOD, named(0)),
        'b' => (PERIOD, named(1)),
        'B' => (PERIOD, named(3)),
        'h' => (HOUR, numeric(0)),
        'K' => (HOUR, numeric(1)),
        'H' => (HOUR, numeric(10)),
        'k' => (HOUR, numeric(11)),
        'm' => (MINUTE, numeric(0)),
        's' => (SECOND, numeric(0)),
        'S' => (FRACTION, numeric(0)),
        'z' => (ZONE, named(0)),
        'O' | 'Z' | 'V' | 'X' | 'x' => (ZONE, named(1)),
        'v' => (ZONE, named(2)),
        _ => return None,
    };
    Some((kind, Field { letter, count, form, least }))
}

impl Skeleton {
    /// The fields of a pattern, or of a skeleton, which is a pattern without literals.
    pub(super) fn of(pattern: &str) -> Skeleton {
        let mut skeleton = Skeleton::default();
        for item in parse(pattern) {
            if let Item::Field(letter, count) = item
                && let Some((kind, field)) = classify(letter, count)
            {
                skeleton.0[kind] = Some(field);
            }
        }
        match skeleton.letter(HOUR) {
            // Twelve hours need a half of the day, and twenty-four none.
            Some('h' | 'K') if skeleton.0[PERIOD].is_none() => {
                skeleton.0[PERIOD] = classify('a', 1).map(|(_, field)| field)
            }
            Some('H' | 'k') => skeleton.0[PERIOD] = None,
            _ => {}
        }
        // Minutes and fractions have seconds between them.
        if skeleton.has(MINUTE) && skeleton.has(FRACTION) && !skeleton.has(SECOND) {
            skeleton.0[SECOND] = classify('s', 1).map(|(_, field)| field);
        }
        skeleton
    }

    pub(super) fn has(&self, kind: usize) -> bool {
        self.0[kind].is_some()
    }

    pub(super) fn letter(&self, kind: usize) -> Option<char> {
        self.0[kind].map(|field| field.letter)
    }

    fn count(&self, kind: usize) -> usize {
        self.0[kind].map_or(0, |field| field.count)
    }

    fn mask(&self) -> u16 {
        (0..KINDS).filter(|kind| self.has(*kind)).map(|kind| 1 << kind).sum()
    }

    /// The fields in as few letters as mean the same.
    fn base(&self) -> String {
        self.0.iter().flatten().flat_map(|field| std::iter::repeat_n(field.letter, field.least)).collect()
    }

    /// How far `other` is from the fields of this one in `mask`, and which of them it lacks or has too many.
    fn distance(&self, other: &Skeleton, mask: u16) -> Distance {
        let mut distance = Distance::default();
        for kind in 0..KINDS {
            let own = self.0[kind].filter(|_| mask & (1 << kind) != 0);
            match (own, other.0[kind]) {
                (None, None) => {}
                (Some(own), Some(other)) => distance.sum += (own.form - other.form).abs(),
                (None, Some(_)) => {
                    distance.sum += EXTRA;
                    distance.extra |= 1 << kind;
                }
                (Some(_), None) => {
                    distance.sum += MISSING;
                    distance.missing |= 1 << kind;
                }
            }
        }
        distance
    }
}

/// For ranges, whose patterns are chosen by simpler rules.
impl Skeleton {
    /// How well a pattern for `other` fits; not at all if it has other fields.
    pub(super) fn nearness(&self, other: &Skeleton) -> Option<usize> {
        let mut sum = 0;
        for (own, other) in self.0.iter().zip(&other.0) {
            match (own, other) {
                (None, None) => {}
                (Some(own), Some(other)) if (own.form > 0) != (other.form > 0) => sum += 0x100,
                (Some(own), Some(other)) if own.letter == other.letter => sum += own.count.abs_diff(other.count),
                (Some(own), Some(other)) if super::pattern::is_hour(own.letter) => {
                    let is_twelve = |field: &Field| matches!(field.letter, 'h' | 'K');
                    (is_twelve(own) == is_twelve(other)).then_some(())?;
                    sum += own.count.abs_diff(other.count);
                }
                (Some(own), Some(other)) => sum += 0x10 + own.count.abs_diff(other.count),
                _ => return None,
            }
        }
        Some(sum)
    }

    /// A pattern that was made for `found`, with fields as wide as here.
    pub(super) fn widened(&self, pattern: &str, found: &Skeleton) -> String {
        let mut items = parse(pattern);
        for item in &mut items {
            let Item::Field(letter, count) = item else { continue };
            let Some((kind, _)) = classify(*letter, *count) else { continue };
            let (Some(wanted), Some(found)) = (self.0[kind], found.0[kind]) else { continue };
            if *count == found.count && wanted.count > *count {
                *count = wanted.count;
            }
        }
        write(&items)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Distance {
    sum: i32,
    missing: u16,
    extra: u16,
}

/// A pattern of the locale, and the fields that it is for.
#[derive(Debug)]
struct Entry {
    base: String,
    skeleton: Skeleton,
    pattern: String,
    /// Does CLDR name the skeleton, or is it read off the pattern?
    is_named: bool,
}

/// The patterns of a locale and calendar.
#[derive(Debug)]
pub(super) struct Patterns {
    locale: Locale,
    prefix: &'static str,
    entries: Vec<Entry>,
}

impl Patterns {
    /// `prefix` is the calendar's in the table; times are always those of `g`.
    pub(super) fn new(locale: Locale, prefix: &'static str) -> Patterns {
        let mut patterns = Patterns { locale, prefix, entries: Vec::new() };
        for letter in ["G", "y", "M", "E", "d", "a", "H", "m", "s", "S", "v"] {
            patterns.add(Skeleton::of(letter), letter, false);
        }
        let styles = [locale.list(&format!("{prefix}.date")), locale.list("g.time")];
        for pattern in styles.into_iter().flat_map(List::iter) {
            patterns.add(Skeleton::of(pattern), pattern, false);
        }
        for (skeleton, pattern) in locale.with_prefix(&format!("{prefix}.available.")) {
            patterns.add(Skeleton::of(skeleton), pattern, true);
        }
        if prefix != "g" {
            // Times are not a calendar's own.
            for (skeleton, pattern) in locale.with_prefix("g.available.") {
                if Skeleton::of(skeleton).mask() & DATE_MASK == 0 {
                    patterns.add(Skeleton::of(skeleton), pattern, true);
                }
            }
        }
        patterns.entries.sort_by_key(|entry| entry.base.chars().next());
        patterns
    }

    fn add(&mut self, skeleton: Skeleton, pattern: &str, is_named: bool) {
        let base = skeleton.base();
        // What is read off a pattern never stands in for something else.
        if !is_named && self.entries.iter().any(|entry| entry.base == base && !entry.is_named) {
            return;
        }
        match self.entries.iter_mut().find(|entry| entry.skeleton == skeleton) {
            Some(entry) if is_named && !entry.is_named => {
                entry.pattern = pattern.to_owned();
                entry.is_named = true;
            }
            Some(_) => {}
            None => self.entries.push(Entry { base, skeleton, pattern: pattern.to_owned(), is_named }),
        }
    }

    /// The pattern for a skeleton.
    pub(super) fn best(&self, skeleton: &str) -> String {
        let wanted = Skeleton::of(skeleton);
        let (entry, distance) = self.nearest(&wanted, u16::MAX);
        if distance.missing == 0 && distance.extra == 0 {
            return adjusted(entry, &wanted, false);
        }
        let mask = wanted.mask();
        let date = self.appended(&wanted, mask & DATE_MASK);
        let time = self.appended(&wanted, mask & !DATE_MASK);
        if date.is_empty() || time.is_empty() {
            return date + &time;
        }
        let style = match (wanted.0[MONTH].map_or(0, |month| month.least), wanted.has(WEEKDAY)) {
            (4, true) => 0,
            (4, false) => 1,
            (3, _) => 2,
            _ => 3,
        };
        glued(glue(self.locale, self.prefix).get(style).unwrap_or("{1} {0}"), &date, &time)
    }

    fn nearest(&self, wanted: &Skeleton, mask: u16) -> (&Entry, Distance) {
        let mut best: Option<(&Entry, Distance)> = None;
        for entry in &self.entries {
            let distance = wanted.distance(&entry.skeleton, mask);
            // Of two that are as near, the one that has the larger field.
            let is_nearer = |least: Distance| (distance.sum, least.missing) < (least.sum, distance.missing);
            if best.is_none_or(|(_, least)| is_nearer(least)) {
                best = Some((entry, distance));
            }
        }
        best.expect("there is a pattern for each single field")
    }

    /// The pattern for some of the fields, put together of as many patterns as it takes.
    fn appended(&self, wanted: &Skeleton, mask: u16) -> String {
        if mask == 0 {
            return String::new();
        }
        let (entry, mut distance) = self.nearest(wanted, mask);
        let mut pattern = adjusted(entry, wanted, false);
        let mut before = 0;
        while distance.missing != 0 && distance.missing != before {
            let seconds = (1 << SECOND) | (1 << FRACTION);
            if distance.missing & seconds == 1 << FRACTION && mask & seconds == seconds {
                pattern = with_fraction(&pattern, wanted);
                distance.missing &= !(1 << FRACTION);
                continue;
            }
            before = distance.missing;
            let (entry, next) = self.nearest(wanted, before);
            let more = adjusted(entry, wanted, false);
            let found = before & !next.missing;
            let kind = (15 - found.leading_zeros()).min(ZONE as u32) as usize;
            pattern = self.append(kind, &pattern, &more);
            distance = next;
        }
        pattern
    }

    fn append(&self, kind: usize, pattern: &str, more: &str) -> String {
        let index = match kind {
            ERA..=DAY => Some(kind),
            HOUR..=SECOND => Some(kind - 1),
            ZONE => Some(8),
            _ => None,
        };
        let names =
            ["era", "year", "month", "weekday", "day", "dayperiod", "hour", "minute", "second", "second", "zone"];
        let how = index.and_then(|index| self.locale.list(&format!("{}.append", self.prefix)).get(index));
        let how = how.unwrap_or("{0} \u{251c}{2}: {1}\u{2524}");
        let name = self.locale.list(&format!("f.{}", names[kind])).get(0).unwrap_or_default();
        let name = write(&[Item::Literal(name.to_owned())]);
        how.replace("{0}", pattern).replace("{1}", more).replace("{2}", &name)
    }
}

/// How a date and a time are put together, from full to short. Only the Gregorian calendar has a way of its own.
pub(super) fn glue(locale: Locale, prefix: &str) -> List {
    locale.list(if prefix == "g" { "g.glue-at" } else { "x.glue-at" })
}

/// A date and a time in one pattern. Literals of `glue` are quoted where they need to be.
pub(super) fn glued(glue: &str, date: &str, time: &str) -> String {
    glue.replace("{0}", time).replace("{1}", date)
}

fn with_fraction(pattern: &str, wanted: &Skeleton) -> String {
    let mut items = Vec::new();
    for item in parse(pattern) {
        let is_second = matches!(item, Item::Field('s', _));
        items.push(item);
        if is_second {
            // The separator of decimals comes in when it is formatted.
            items.push(Item::Field(super::format::DECIMAL_LETTER, 1));
            items.push(Item::Field('S', wanted.count(FRACTION)));
        }
    }
    write(&items)
}

/// The entry's pattern, with fields as wide as they are wanted.
fn adjusted(entry: &Entry, wanted: &Skeleton, keeps_hours: bool) -> String {
    let mut items = parse(&entry.pattern);
    for item in &mut items {
        let Item::Field(letter, count) = item else { continue };
        let Some((kind, found)) = classify(*letter, *count) else { continue };
        let Some(asked) = wanted.0[kind] else { continue };
        let asked_count = if asked.letter == 'E' && asked.count < 3 { 3 } else { asked.count };
        let mut width = asked_count;
        if matches!(kind, MINUTE | SECOND) || (kind == HOUR && keeps_hours) {
            width = *count;
        } else if entry.is_named && !matches!(asked.letter, 'c' | 'e') {
            let named = entry.skeleton.count(kind);
            let is_other_form = (found.form > 0) != (asked.form > 0);
            if named == asked_count || is_other_form {
                width = *count;
            }
        }
        let mut shown = match kind {
            HOUR | MONTH | WEEKDAY | YEAR => *letter,
            _ => asked.letter,
        };
        if shown == 'E' && width < 3 {
            shown = 'e';
        }
        (*letter, *count) = (shown, width);
    }
    write(&items)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What ICU 78 gives.
    #[test]
    fn the_pattern_for_some_fields() {
        #[rustfmt::skip]
        let table = [
            // locale skeleton              pattern
            ("en",    "yMMMd",              "MMM d, y"),
            ("en",    "yMMMMd",             "MMMM d, y"),
            ("en",    "yMMdd",              "MM/dd/y"),
            ("en",    "hm",                 "h:mm\u{202f}a"),
            ("en",    "hhmm",               "hh:mm\u{202f}a"),
            ("en",    "yMMMMEEEEdhm",       "EEEE, MMMM d, y 'at' h:mm\u{202f}a"),
            ("de",    "yMMMd",              "d. MMM y"),
            ("de",    "Hm",                 "HH:mm"),
            ("de",    "yMd",                "d.M.y"),
            ("ja",    "yMMMMd",             "y年M月d日"),
            ("en",    "yd",                 "y ('day': d)"),
        ];
        for (locale, skeleton, pattern) in table {
            let patterns = Patterns::new(Locale::find(locale).unwrap(), "g");
            assert_eq!(patterns.best(skeleton), pattern, "{locale} {skeleton}");
        }
    }
}
