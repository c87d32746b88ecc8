//! Fields that a program gives in an object, and those that it reads.

use serde::Deserialize;
use serde_json::{Value, json};
use temporal_rs::{
    MonthCode, PlainDate, PlainMonthDay, PlainYearMonth, TinyAsciiStr, UtcOffset, fields::CalendarFields,
    options::Overflow, partial::PartialTime,
};

use super::values::{failure, year};
use crate::intl::Failure;

/// The fields of an object, as numbers and texts that JavaScript has read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Bag {
    era: Option<String>,
    era_year: Option<f64>,
    year: Option<f64>,
    month: Option<f64>,
    month_code: Option<String>,
    day: Option<f64>,
    hour: Option<f64>,
    minute: Option<f64>,
    second: Option<f64>,
    millisecond: Option<f64>,
    microsecond: Option<f64>,
    nanosecond: Option<f64>,
    offset: Option<String>,
}

impl Bag {
    pub(super) fn date(&self) -> Result<CalendarFields, Failure> {
        let code = |code: &String| MonthCode::try_from_utf8(code.as_bytes()).map_err(failure);
        let era = |era: &String| {
            TinyAsciiStr::try_from_str(era)
                .map_err(|_| Failure::range(format!("there is no era `{}`", &era[..era.floor_char_boundary(60)])))
        };
        Ok(CalendarFields {
            year: self.year.map(year),
            // Too large a number saturates: it is refused or constrained all the same.
            month: self.month.map(|month| month as u8),
            month_code: self.month_code.as_ref().map(code).transpose()?,
            day: self.day.map(|day| day as u8),
            era: self.era.as_ref().map(era).transpose()?,
            era_year: self.era_year.map(year),
        })
    }

    pub(super) fn time(&self, overflow: Option<Overflow>) -> Result<PartialTime, Failure> {
        let given = [self.hour, self.minute, self.second, self.millisecond, self.microsecond, self.nanosecond];
        let is_negative = given.into_iter().flatten().any(|value| value < 0.0);
        if is_negative && overflow == Some(Overflow::Reject) {
            return Err(Failure::range("a field of the time is negative"));
        }
        Ok(PartialTime {
            hour: self.hour.map(|value| value as u8),
            minute: self.minute.map(|value| value as u8),
            second: self.second.map(|value| value as u8),
            millisecond: self.millisecond.map(|value| value as u16),
            microsecond: self.microsecond.map(|value| value as u16),
            nanosecond: self.nanosecond.map(|value| value as u16),
        })
    }

    pub(super) fn offset(&self) -> Result<Option<UtcOffset>, Failure> {
        self.offset.as_ref().map(|offset| offset.parse().map_err(failure)).transpose()
    }
}

/// What the getters of a date show.
pub(super) fn of_date(date: &PlainDate) -> Value {
    json!({
        "era": date.era().map(|era| era.to_string()),
        "eraYear": date.era_year(),
        "year": date.year(),
        "month": date.month(),
        "monthCode": date.month_code().as_str(),
        "day": date.day(),
        "dayOfWeek": date.day_of_week(),
        "dayOfYear": date.day_of_year(),
        "weekOfYear": date.week_of_year(),
        "yearOfWeek": date.year_of_week(),
        "daysInWeek": date.days_in_week(),
        "daysInMonth": date.days_in_month(),
        "daysInYear": date.days_in_year(),
        "monthsInYear": date.months_in_year(),
        "inLeapYear": date.in_leap_year(),
    })
}

pub(super) fn of_year_month(month: &PlainYearMonth) -> Value {
    json!({
        "era": month.era().map(|era| era.to_string()),
        "eraYear": month.era_year(),
        "year": month.year(),
        "month": month.month(),
        "monthCode": month.month_code().as_str(),
        "daysInMonth": month.days_in_month(),
        "daysInYear": month.days_in_year(),
        "monthsInYear": month.months_in_year(),
        "inLeapYear": month.in_leap_year(),
    })
}

pub(super) fn of_month_day(day: &PlainMonthDay) -> Value {
    json!({ "monthCode": day.month_code().as_str(), "day": day.day() })
}
