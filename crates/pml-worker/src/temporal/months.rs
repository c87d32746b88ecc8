//! Months of a year and days of a month.

use serde_json::json;
use temporal_rs::{
    PlainMonthDay, PlainYearMonth,
    fields::YearMonthCalendarFields,
    partial::{PartialDate, PartialYearMonth},
};

use super::{
    call::unknown,
    fields::{self, Bag},
    options::Options,
    values::{
        Answer, DateValue, DurationValue, arguments, calendar, failure, read_duration, unparsable, write_date,
        write_duration, write_month_day, write_year_month,
    },
};
use crate::intl::Failure;

fn month_fields(bag: &Bag) -> Result<YearMonthCalendarFields, Failure> {
    let fields = bag.date()?;
    Ok(YearMonthCalendarFields {
        year: fields.year,
        month: fields.month,
        month_code: fields.month_code,
        era: fields.era,
        era_year: fields.era_year,
    })
}

pub(super) fn year_month(method: &str, input: &str) -> Answer {
    match method {
        "new" => write_year_month(&arguments::<(DateValue,)>(input)?.0.read_year_month()?),
        "parse" => {
            let (text,): (String,) = arguments(input)?;
            let parsed = PlainYearMonth::from_utf8(text.as_bytes());
            write_year_month(&parsed.map_err(|err| unparsable(&text, "PlainYearMonth", err))?)
        }
        "from" => {
            let (name, bag, options): (String, Bag, Options) = arguments(input)?;
            let partial = PartialYearMonth { calendar_fields: month_fields(&bag)?, calendar: calendar(&name)? };
            write_year_month(&PlainYearMonth::from_partial(partial, options.overflow()?).map_err(failure)?)
        }
        "with" => {
            let (month, bag, options): (DateValue, Bag, Options) = arguments(input)?;
            let changed = month.read_year_month()?.with(month_fields(&bag)?, options.overflow()?);
            write_year_month(&changed.map_err(failure)?)
        }
        "add" | "subtract" => {
            let (month, duration, options): (DateValue, DurationValue, Options) = arguments(input)?;
            let (month, duration) = (month.read_year_month()?, read_duration(&duration)?);
            let overflow = options.overflow()?.unwrap_or_default();
            let sum =
                if method == "add" { month.add(&duration, overflow) } else { month.subtract(&duration, overflow) };
            write_year_month(&sum.map_err(failure)?)
        }
        "until" | "since" => {
            let (one, other, options): (DateValue, DateValue, Options) = arguments(input)?;
            let (one, other, settings) = (one.read_year_month()?, other.read_year_month()?, options.difference()?);
            let gap = if method == "until" { one.until(&other, settings) } else { one.since(&other, settings) };
            Ok(write_duration(&gap.map_err(failure)?))
        }
        "fields" => Ok(fields::of_year_month(&arguments::<(DateValue,)>(input)?.0.read_year_month()?)),
        "date" => {
            let (month, bag): (DateValue, Bag) = arguments(input)?;
            Ok(write_date(&month.read_year_month()?.to_plain_date(Some(bag.date()?)).map_err(failure)?))
        }
        "text" => {
            let (month, options): (DateValue, Options) = arguments(input)?;
            Ok(json!(month.read_year_month()?.to_ixdtf_string(options.display_calendar()?)))
        }
        _ => Err(unknown()),
    }
}

pub(super) fn month_day(method: &str, input: &str) -> Answer {
    match method {
        "new" => write_month_day(&arguments::<(DateValue,)>(input)?.0.read_month_day()?),
        "parse" => {
            let (text,): (String,) = arguments(input)?;
            let parsed = PlainMonthDay::from_utf8(text.as_bytes());
            write_month_day(&parsed.map_err(|err| unparsable(&text, "PlainMonthDay", err))?)
        }
        "from" => {
            let (name, bag, options): (String, Bag, Options) = arguments(input)?;
            let partial = PartialDate { calendar_fields: bag.date()?, calendar: calendar(&name)? };
            write_month_day(&PlainMonthDay::from_partial(partial, options.overflow()?).map_err(failure)?)
        }
        "with" => {
            let (day, bag, options): (DateValue, Bag, Options) = arguments(input)?;
            write_month_day(&day.read_month_day()?.with(bag.date()?, options.overflow()?).map_err(failure)?)
        }
        "fields" => Ok(fields::of_month_day(&arguments::<(DateValue,)>(input)?.0.read_month_day()?)),
        "date" => {
            let (day, bag): (DateValue, Bag) = arguments(input)?;
            Ok(write_date(&day.read_month_day()?.to_plain_date(Some(bag.date()?)).map_err(failure)?))
        }
        "text" => {
            let (day, options): (DateValue, Options) = arguments(input)?;
            Ok(json!(day.read_month_day()?.to_ixdtf_string(options.display_calendar()?)))
        }
        _ => Err(unknown()),
    }
}
