//! Values of `Temporal` as JSON, and back.

use std::cmp::Ordering;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use temporal_rs::{
    Calendar, Duration, Instant, PlainDate, PlainDateTime, PlainMonthDay, PlainTime, PlainYearMonth, TemporalError,
    TimeZone, ZonedDateTime, error::ErrorKind, options::DisplayCalendar,
};

use super::zones::Zones;
use crate::intl::{Failure, FailureKind};

/// What an operation gives.
pub(super) type Answer = Result<Value, Failure>;

/// A day of the ISO calendar, and the name of the calendar that it is shown in.
#[derive(Debug, Deserialize)]
pub(super) struct DateValue(pub(super) f64, pub(super) f64, pub(super) f64, pub(super) String);

/// Hour, minute, second, millisecond, microsecond, nanosecond.
pub(super) type TimeValue = [f64; 6];

/// A day, a time and a calendar.
#[derive(Debug, Deserialize)]
pub(super) struct DateTimeValue(f64, f64, f64, f64, f64, f64, f64, f64, f64, String);

/// Nanoseconds since 1970, a time zone and a calendar.
#[derive(Debug, Deserialize)]
pub(super) struct ZonedValue(pub(super) String, pub(super) String, pub(super) String);

/// Years to nanoseconds.
pub(super) type DurationValue = [f64; 10];

/// The arguments of an operation.
pub(super) fn arguments<T: DeserializeOwned>(input: &str) -> Result<T, Failure> {
    serde_json::from_str(input).map_err(|_| Failure::type_error("the arguments are not understood"))
}

pub(super) fn failure(error: TemporalError) -> Failure {
    let kind = match error.kind() {
        ErrorKind::Type => FailureKind::Type,
        ErrorKind::Generic | ErrorKind::Range | ErrorKind::Syntax | ErrorKind::Assert => FailureKind::Range,
    };
    let message = match error.into_message() {
        "" => "the date or time is out of range",
        message => message.trim_end_matches('.'),
    };
    Failure { kind, message: message.to_owned() }
}

/// The failure to parse a text.
pub(super) fn unparsable(text: &str, name: &str, error: TemporalError) -> Failure {
    let shown = &text[..text.floor_char_boundary(60)];
    let reason = failure(error).message;
    Failure::range(format!("cannot parse `{shown}` as a Temporal.{name}: {reason}"))
}

pub(super) fn calendar(name: &str) -> Result<Calendar, Failure> {
    // The name alone: other texts with a calendar in them are not for constructors.
    Calendar::try_from_utf8(name.as_bytes())
        .map_err(|_| Failure::range(format!("there is no calendar `{}`", &name[..name.floor_char_boundary(60)])))
}

pub(super) fn zone(name: &str) -> Result<TimeZone, Failure> {
    TimeZone::try_from_identifier_str_with_provider(name, &Zones).map_err(failure)
}

/// A year that is out of range stays out of range.
pub(super) fn year(value: f64) -> i32 {
    value as i32
}

/// A field that is at least 0 and has few digits.
pub(super) fn small<T: TryFrom<i64>>(value: f64) -> Result<T, Failure> {
    T::try_from(value as i64).map_err(|_| Failure::range(format!("a field of a date or time is out of range: {value}")))
}

impl DateValue {
    pub(super) fn read(&self) -> Result<PlainDate, Failure> {
        PlainDate::try_new(year(self.0), small(self.1)?, small(self.2)?, calendar(&self.3)?).map_err(failure)
    }

    pub(super) fn read_year_month(&self) -> Result<PlainYearMonth, Failure> {
        PlainYearMonth::try_new(year(self.0), small(self.1)?, Some(small(self.2)?), calendar(&self.3)?).map_err(failure)
    }

    pub(super) fn read_month_day(&self) -> Result<PlainMonthDay, Failure> {
        let reject = temporal_rs::options::Overflow::Reject;
        PlainMonthDay::new_with_overflow(small(self.1)?, small(self.2)?, calendar(&self.3)?, reject, Some(year(self.0)))
            .map_err(failure)
    }
}

pub(super) fn read_time(time: &TimeValue) -> Result<PlainTime, Failure> {
    let [hour, minute, second, millisecond, microsecond, nanosecond] = *time;
    PlainTime::try_new(
        small(hour)?,
        small(minute)?,
        small(second)?,
        small(millisecond)?,
        small(microsecond)?,
        small(nanosecond)?,
    )
    .map_err(failure)
}

impl DateTimeValue {
    pub(super) fn read(&self) -> Result<PlainDateTime, Failure> {
        PlainDateTime::try_new(
            year(self.0),
            small(self.1)?,
            small(self.2)?,
            small(self.3)?,
            small(self.4)?,
            small(self.5)?,
            small(self.6)?,
            small(self.7)?,
            small(self.8)?,
            calendar(&self.9)?,
        )
        .map_err(failure)
    }
}

pub(super) fn read_instant(nanoseconds: &str) -> Result<Instant, Failure> {
    let out_of_range = |_| Failure::range("the instant is out of range");
    Instant::try_new(nanoseconds.parse().map_err(out_of_range)?).map_err(failure)
}

impl ZonedValue {
    pub(super) fn read(&self) -> Result<ZonedDateTime, Failure> {
        let nanoseconds = read_instant(&self.0)?.as_i128();
        ZonedDateTime::try_new_with_provider(nanoseconds, zone(&self.1)?, calendar(&self.2)?, &Zones).map_err(failure)
    }
}

pub(super) fn read_duration(duration: &DurationValue) -> Result<Duration, Failure> {
    // Beyond the longest duration in nanoseconds, where the arithmetic of checking it would overflow.
    const LIMIT: f64 = 1e26;
    if duration.iter().any(|value| !value.is_finite() || value.abs() > LIMIT) {
        return Err(Failure::range("the duration is out of range"));
    }
    let [years, months, weeks, days, hours, minutes, seconds, milliseconds, microseconds, nanoseconds] = *duration;
    Duration::new(
        years as i64,
        months as i64,
        weeks as i64,
        days as i64,
        hours as i64,
        minutes as i64,
        seconds as i64,
        milliseconds as i64,
        microseconds as i128,
        nanoseconds as i128,
    )
    .map_err(failure)
}

pub(super) fn write_date(date: &PlainDate) -> Value {
    let iso = date.with_calendar(Calendar::ISO);
    json!([iso.year(), iso.month(), iso.day(), date.calendar().identifier()])
}

pub(super) fn write_time(time: &PlainTime) -> Value {
    json!([time.hour(), time.minute(), time.second(), time.millisecond(), time.microsecond(), time.nanosecond()])
}

pub(super) fn write_date_time(date_time: &PlainDateTime) -> Value {
    let iso = date_time.with_calendar(Calendar::ISO);
    json!([
        iso.year(),
        iso.month(),
        iso.day(),
        iso.hour(),
        iso.minute(),
        iso.second(),
        iso.millisecond(),
        iso.microsecond(),
        iso.nanosecond(),
        date_time.calendar().identifier()
    ])
}

pub(super) fn write_year_month(year_month: &PlainYearMonth) -> Answer {
    from_text(&year_month.to_ixdtf_string(DisplayCalendar::Always))
}

pub(super) fn write_month_day(month_day: &PlainMonthDay) -> Answer {
    from_text(&month_day.to_ixdtf_string(DisplayCalendar::Always))
}

/// The day and the calendar of a text such as `2024-03-01[u-ca=hebrew]`. A month and a month's day show neither otherwise.
fn from_text(text: &str) -> Answer {
    let split = || -> Option<Value> {
        let (day, calendar) = text.split_once('[')?;
        let (rest, day) = day.rsplit_once('-')?;
        let (year, month) = rest.rsplit_once('-')?;
        let (year, month, day): (i32, u8, u8) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
        Some(json!([year, month, day, calendar.strip_prefix("u-ca=")?.strip_suffix(']')?]))
    };
    split().ok_or_else(|| Failure::range("the month is out of range"))
}

pub(super) fn write_instant(instant: &Instant) -> Value {
    json!(instant.as_i128().to_string())
}

pub(super) fn write_zoned(zoned: &ZonedDateTime) -> Answer {
    let zone = zoned.time_zone().identifier_with_provider(&Zones).map_err(failure)?;
    Ok(json!([zoned.epoch_nanoseconds().as_i128().to_string(), zone, zoned.calendar().identifier()]))
}

pub(super) fn write_duration(duration: &Duration) -> Value {
    json!([
        duration.years(),
        duration.months(),
        duration.weeks(),
        duration.days(),
        duration.hours(),
        duration.minutes(),
        duration.seconds(),
        duration.milliseconds(),
        duration.microseconds() as f64,
        duration.nanoseconds() as f64
    ])
}

pub(super) fn write_order(order: Ordering) -> Value {
    json!(order as i8)
}
