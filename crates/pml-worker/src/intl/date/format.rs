//! Formats dates as `Intl.DateTimeFormat` does.

use super::{
    calendar::{Calendar, CalendarDate},
    fields::Fields,
    interval::Intervals,
    letters::letters,
    options::DateOptions,
    pattern::{Item, is_hour, parse, write},
    period,
    skeleton::{Patterns, Skeleton, glue, glued},
    zone_name,
};
use crate::intl::{
    Failure,
    number::digits_of,
    part::{Part, push},
    table::Locale,
    zone::Zone,
};

/// The letter of a pattern, unused by CLDR, that stands for the separator of decimals.
pub(super) const DECIMAL_LETTER: char = 'i';

/// Formats times for one locale and zone with one set of options.
#[derive(Debug)]
pub(crate) struct DateFormat {
    pub(super) locale: Locale,
    pub(super) calendar: Calendar,
    zone: Zone,
    digits: [char; 10],
    decimal: &'static str,
    /// Are years and days in Hebrew letters?
    has_letters: bool,
    items: Vec<Item>,
    hour_letter: char,
    /// The fields of the pattern, for ranges.
    skeleton: String,
}

impl DateFormat {
    pub(crate) fn new(options: &DateOptions) -> Result<DateFormat, Failure> {
        let locale = Locale::named(&options.data)?;
        let calendar = Calendar::find(&options.calendar).ok_or_else(|| Failure::range("there is no such calendar"))?;
        let pattern = pattern(options, locale, calendar);
        let symbols = locale.list(&format!("n.symbols.{}", options.numbering_system));
        let skeleton = skeleton_of(&pattern, options.hour_letter());
        Ok(DateFormat {
            locale,
            calendar,
            zone: Zone::find(&options.time_zone)?,
            digits: digits_of(&options.numbering_system)
                .ok_or_else(|| Failure::range("there is no such numbering system"))?,
            decimal: symbols.get(0).unwrap_or("."),
            has_letters: calendar == Calendar::Hebrew
                && options.date_style.is_some()
                && options.numbering_system == "latn"
                && options.data.split('-').next() == Some("he"),
            items: parse(&pattern),
            hour_letter: options.hour_letter(),
            skeleton,
        })
    }

    /// The parts of a formatted time, which is in milliseconds since 1970 in UTC.
    pub(crate) fn format(&self, milliseconds: f64) -> Vec<Part> {
        self.parts(&self.items, &Fields::new(milliseconds, &self.zone))
    }

    /// The parts of a range of times, each with the side that it belongs to.
    pub(crate) fn format_range(&self, from: f64, to: f64) -> Vec<Part> {
        let (from, to) = (Fields::new(from, &self.zone), Fields::new(to, &self.zone));
        let intervals = Intervals::new(self, &self.skeleton, self.hour_letter);
        intervals.format(&from, &to)
    }

    /// What the pattern shows, in the words of the options.
    pub(crate) fn fields(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut fields = serde_json::Map::new();
        let order = [
            "weekday",
            "era",
            "year",
            "month",
            "day",
            "dayPeriod",
            "hour",
            "minute",
            "second",
            "fractionalSecondDigits",
            "timeZoneName",
        ];
        for name in order {
            for item in &self.items {
                let Item::Field(letter, count) = *item else { continue };
                let (kind, value): (&str, serde_json::Value) = match letter {
                    'E' | 'c' | 'e' => ("weekday", named(count).into()),
                    'G' => ("era", named(count).into()),
                    'y' | 'u' | 'r' => ("year", numeric(count).into()),
                    'M' | 'L' if count <= 2 => ("month", numeric(count).into()),
                    'M' | 'L' => ("month", named(count).into()),
                    'd' => ("day", numeric(count).into()),
                    'B' | 'b' => ("dayPeriod", named(count).into()),
                    letter if is_hour(letter) => ("hour", numeric(count).into()),
                    'm' => ("minute", numeric(count).into()),
                    's' => ("second", numeric(count).into()),
                    'S' => ("fractionalSecondDigits", count.into()),
                    'z' => ("timeZoneName", if count >= 4 { "long" } else { "short" }.into()),
                    'O' => ("timeZoneName", if count >= 4 { "longOffset" } else { "shortOffset" }.into()),
                    'v' => ("timeZoneName", if count >= 4 { "longGeneric" } else { "shortGeneric" }.into()),
                    _ => continue,
                };
                if kind == name {
                    fields.insert(name.to_owned(), value);
                }
            }
        }
        fields
    }

    pub(super) fn own_items(&self) -> &[Item] {
        &self.items
    }

    pub(super) fn parts(&self, items: &[Item], fields: &Fields) -> Vec<Part> {
        let mut parts = Vec::new();
        for item in items {
            push(&mut parts, self.part(item, items, fields));
        }
        parts
    }

    pub(super) fn part(&self, item: &Item, items: &[Item], fields: &Fields) -> Part {
        let (letter, count) = match item {
            Item::Literal(text) => return Part::literal(plain_spaces(text)),
            Item::Field(letter, count) => (*letter, *count),
        };
        let date = self.calendar.date(fields);
        let hour = u64::from(fields.hour);
        match letter {
            'G' => Part::new("era", self.era(count, date.era)),
            'y' if self.has_letters => Part::new("year", letters(date.year.unsigned_abs())),
            'd' if self.has_letters => Part::new("day", letters(date.day.into())),
            'y' | 'u' | 'r' | 'U' if count == 2 => Part::new("year", self.number(date.year.unsigned_abs() % 100, 2)),
            'y' | 'u' | 'r' | 'U' => {
                let number = self.number(date.year.unsigned_abs(), count);
                Part::new("year", if date.year < 0 { format!("-{number}") } else { number })
            }
            'M' | 'L' => Part::new("month", self.month(letter, count, &date)),
            'E' | 'c' | 'e' => Part::new("weekday", self.weekday(letter, count, fields.weekday)),
            'd' => Part::new("day", self.number(date.day.into(), count)),
            'a' | 'b' | 'B' => Part::new("dayPeriod", plain_spaces(self.day_period(letter, count, fields, items))),
            'h' => Part::new("hour", self.number((hour + 11) % 12 + 1, count)),
            'H' => Part::new("hour", self.number(hour, count)),
            'K' => Part::new("hour", self.number(hour % 12, count)),
            'k' => Part::new("hour", self.number((hour + 23) % 24 + 1, count)),
            'm' => Part::new("minute", self.number(fields.minute.into(), count)),
            's' => Part::new("second", self.number(fields.second.into(), count)),
            'S' => {
                let digits = format!("{:03}", fields.millisecond);
                Part::new("fractionalSecond", self.localized(&digits[..count.min(3)]))
            }
            DECIMAL_LETTER => Part::literal(self.decimal),
            'z' | 'v' | 'O' => {
                let name = zone_name::name(letter, count, fields, &self.zone, self.locale, &self.digits);
                Part::new("timeZoneName", plain_spaces(&name))
            }
            _ => Part::literal(""),
        }
    }

    fn number(&self, value: u64, width: usize) -> String {
        self.localized(&format!("{value:0width$}"))
    }

    fn localized(&self, digits: &str) -> String {
        digits.chars().map(|digit| digit.to_digit(10).map_or(digit, |value| self.digits[value as usize])).collect()
    }

    fn names(&self, prefix: &str, kind: &str, width: &str) -> crate::intl::table::List {
        self.locale.list(&format!("{prefix}.{kind}.{width}"))
    }

    fn era(&self, count: usize, era: usize) -> &'static str {
        let width = match count {
            4 => "wide",
            5 => "narrow",
            _ => "abbreviated",
        };
        self.names(self.calendar.prefix(), "eras", width).get(era).unwrap_or_default()
    }

    fn month(&self, letter: char, count: usize, date: &CalendarDate) -> String {
        let width = match count {
            3 => "abbreviated",
            4 => "wide",
            5 => "narrow",
            _ => return self.number(date.month.into(), count),
        };
        let form = if letter == 'L' { "s" } else { "f" };
        let names = self.names(self.calendar.months(), "months", &format!("{form}.{width}"));
        let name = names.get(usize::from(date.month_name) - 1);
        name.map_or_else(|| self.number(date.month.into(), 1), str::to_owned)
    }

    fn weekday(&self, letter: char, count: usize, weekday: u8) -> String {
        let width = match (letter, count) {
            ('c' | 'e', 1 | 2) => return self.number(u64::from(weekday) + 1, count),
            (_, 4) => "wide",
            (_, 5) => "narrow",
            (_, 6) => "short",
            _ => "abbreviated",
        };
        let form = if letter == 'c' { "s" } else { "f" };
        self.names("g", "days", &format!("{form}.{width}")).get(usize::from(weekday)).unwrap_or_default().to_owned()
    }

    fn day_period(&self, letter: char, count: usize, fields: &Fields, items: &[Item]) -> &'static str {
        let width = match count {
            4 => "wide",
            5 => "narrow",
            _ => "abbreviated",
        };
        let names = self.names("g", "periods", &format!("f.{width}"));
        let half = if fields.hour < 12 { 0 } else { 1 };
        if letter == 'a' {
            return names.get(half).unwrap_or_default();
        }
        let shows = |letter: char| items.iter().any(|item| matches!(item, Item::Field(other, _) if *other == letter));
        let is_exact = (!shows('m') || fields.minute == 0) && (!shows('s') || fields.second == 0);
        let minutes = if shows('m') { fields.minutes() } else { 60 * u16::from(fields.hour) };
        period::flexible(self.locale, minutes, is_exact)
            .and_then(|period| names.get(period))
            .or_else(|| {
                // "at noon" has no name everywhere; the afternoon does.
                period::flexible(self.locale, fields.minutes(), false).and_then(|period| names.get(period))
            })
            .or_else(|| names.get(half))
            .unwrap_or_default()
    }
}

fn named(count: usize) -> &'static str {
    match count {
        4 => "long",
        5 => "narrow",
        _ => "short",
    }
}

fn numeric(count: usize) -> &'static str {
    if count == 2 { "2-digit" } else { "numeric" }
}

/// Narrow no-break spaces become plain ones, as in V8: too many programs compare or split at spaces.
fn plain_spaces(text: &str) -> String {
    text.replace('\u{202f}', " ")
}

fn pattern(options: &DateOptions, locale: Locale, calendar: Calendar) -> String {
    let prefix = calendar.patterns(locale);
    let hour = options.hour_letter();
    let pattern = match (options.date_style, options.time_style) {
        (None, None) => Patterns::new(locale, prefix).best(&options.skeleton()),
        (date, time) => {
            let date_pattern = date.and_then(|style| locale.list(&format!("{prefix}.date")).get(style as usize));
            let time_pattern = time.and_then(|style| locale.list("g.time").get(style as usize));
            let pattern = match (date_pattern, time_pattern) {
                (Some(date_pattern), Some(time_pattern)) => {
                    let index = date.map_or(2, |style| style as usize);
                    let pattern = glue(locale, prefix).get(index).unwrap_or("{1} {0}");
                    glued(pattern, date_pattern, time_pattern)
                }
                (Some(pattern), None) | (None, Some(pattern)) => pattern.to_owned(),
                (None, None) => String::new(),
            };
            let own = Skeleton::of(&pattern).letter(super::skeleton::HOUR);
            match own {
                Some(own) if own != hour => Patterns::new(locale, prefix).best(&skeleton_of(&pattern, hour)),
                _ => pattern,
            }
        }
    };
    with_hours(&pattern, hour)
}

/// The fields of a pattern, with hours of this kind.
fn skeleton_of(pattern: &str, hour: char) -> String {
    let mut skeleton = String::new();
    for item in parse(pattern) {
        match item {
            Item::Field('a' | 'b' | 'B', _) | Item::Literal(_) => {}
            Item::Field(letter, count) => {
                let letter = match letter {
                    letter if is_hour(letter) => hour,
                    'L' => 'M',
                    'c' | 'e' => 'E',
                    letter => letter,
                };
                skeleton.extend(std::iter::repeat_n(letter, count));
            }
        }
    }
    skeleton
}

/// The pattern with hours of this kind.
pub(super) fn with_hours(pattern: &str, hour: char) -> String {
    let mut items = parse(pattern);
    for item in &mut items {
        if let Item::Field(letter, _) = item
            && is_hour(*letter)
        {
            *letter = hour;
        }
    }
    write(&items)
}
