//! Calendars that are not the Gregorian one.

use icu_calendar::{AnyCalendar, AnyCalendarKind, Date};

use super::fields::Fields;
use crate::intl::{table::Locale, zone::days};

/// A calendar that dates can be shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calendar {
    Gregory,
    Buddhist,
    Japanese,
    Persian,
    Hebrew,
    Roc,
    IslamicUmalqura,
    IslamicCivil,
    IslamicTabular,
}

/// A date of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CalendarDate {
    /// The number of the era in the calendar's list.
    pub(super) era: usize,
    /// The year of the era.
    pub(super) year: i64,
    pub(super) month: u8,
    /// The number of the month's name in the calendar's list, from 1.
    pub(super) month_name: u8,
    pub(super) day: u8,
}

impl Calendar {
    /// The calendar of this name, or an alias of it.
    pub(crate) fn find(name: &str) -> Option<Calendar> {
        Some(match name {
            "gregory" | "gregorian" | "iso8601" => Calendar::Gregory,
            "buddhist" => Calendar::Buddhist,
            "japanese" => Calendar::Japanese,
            "persian" => Calendar::Persian,
            "hebrew" => Calendar::Hebrew,
            "roc" => Calendar::Roc,
            "islamic-umalqura" => Calendar::IslamicUmalqura,
            "islamic-civil" | "islamicc" => Calendar::IslamicCivil,
            "islamic-tbla" => Calendar::IslamicTabular,
            _ => return None,
        })
    }

    /// Where the table has the calendar's months, eras and patterns.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Calendar::Gregory => "g",
            Calendar::Buddhist => "b",
            Calendar::Japanese => "j",
            Calendar::Persian => "p",
            Calendar::Hebrew => "h",
            Calendar::Roc => "r",
            Calendar::IslamicUmalqura | Calendar::IslamicCivil | Calendar::IslamicTabular => "i",
        }
    }

    /// Where the table has the names of the months.
    pub(super) fn months(self) -> &'static str {
        if self == Calendar::Roc { "g" } else { self.prefix() }
    }

    /// Where the table has the calendar's patterns for a locale.
    pub(super) fn patterns(self, locale: Locale) -> &'static str {
        match locale.get(&format!("{}.date", self.prefix())) {
            Some(_) => self.prefix(),
            None => "x",
        }
    }

    pub(super) fn date(self, fields: &Fields) -> CalendarDate {
        let plain = |era: usize, year: i64| CalendarDate {
            era,
            year,
            month: fields.month,
            month_name: fields.month,
            day: fields.day,
        };
        match self {
            Calendar::Gregory if fields.year <= 0 => plain(0, 1 - fields.year),
            Calendar::Gregory => plain(1, fields.year),
            Calendar::Buddhist => plain(0, fields.year + 543),
            Calendar::Japanese => japanese(fields, plain),
            Calendar::Roc if fields.year < 1912 => plain(0, 1912 - fields.year),
            Calendar::Roc => plain(1, fields.year - 1911),
            Calendar::Hebrew => hebrew(fields),
            Calendar::Persian => converted(fields, AnyCalendarKind::Persian),
            Calendar::IslamicUmalqura => converted(fields, AnyCalendarKind::HijriUmmAlQura),
            Calendar::IslamicCivil => converted(fields, AnyCalendarKind::HijriTabularTypeIIFriday),
            Calendar::IslamicTabular => converted(fields, AnyCalendarKind::HijriTabularTypeIIThursday),
        }
    }
}

/// The eras since 1868: their numbers in the table, and the days that they began.
const JAPANESE: [(usize, i64, i64, i64); 5] =
    [(4, 2019, 5, 1), (3, 1989, 1, 8), (2, 1926, 12, 25), (1, 1912, 7, 30), (0, 1868, 9, 8)];

fn japanese(fields: &Fields, plain: impl Fn(usize, i64) -> CalendarDate) -> CalendarDate {
    for (era, year, month, day) in JAPANESE {
        if fields.day_number >= days(year, month, day) {
            return plain(era, fields.year - year + 1);
        }
    }
    // Earlier eras are not told apart.
    plain(0, fields.year - 1868 + 1)
}

fn converted(fields: &Fields, kind: AnyCalendarKind) -> CalendarDate {
    let (month, month_name) = (fields.month, fields.month);
    let gregorian = CalendarDate { era: 0, year: fields.year, month, month_name, day: fields.day };
    let Ok(year) = i32::try_from(fields.year) else { return gregorian };
    let Ok(date) = Date::try_new_iso(year, fields.month, fields.day) else { return gregorian };
    let date = date.to_calendar(AnyCalendar::new(kind));
    let year = i64::from(date.year().era_year_or_related_iso());
    let month = date.month().ordinal;
    CalendarDate { era: 0, year, month, month_name: month, day: date.day_of_month().0 }
}

/// Months are counted through; the list of names has the sixth of leap years, and a name of its own for the seventh of those.
fn hebrew(fields: &Fields) -> CalendarDate {
    let date = converted(fields, AnyCalendarKind::Hebrew);
    let is_leap = (7 * date.year + 1).rem_euclid(19) < 7;
    let month_name = match (date.month, is_leap) {
        (7, true) => 14,
        (month, true) => month,
        (month, false) if month < 6 => month,
        (month, false) => month + 1,
    };
    CalendarDate { month_name, ..date }
}
