//! Dates and times without a zone.

use serde_json::json;
use temporal_rs::{
    PlainDate, PlainDateTime, PlainTime,
    fields::DateTimeFields,
    partial::{PartialDate, PartialDateTime},
};

use super::{
    call::unknown,
    fields::{self, Bag},
    options::Options,
    values::{
        Answer, DateTimeValue, DateValue, DurationValue, TimeValue, arguments, calendar, failure, read_duration,
        read_time, unparsable, write_date, write_date_time, write_duration, write_month_day, write_time,
        write_year_month, write_zoned, zone,
    },
    zones::Zones,
};

pub(super) fn date(method: &str, input: &str) -> Answer {
    match method {
        "new" => Ok(write_date(&arguments::<(DateValue,)>(input)?.0.read()?)),
        "parse" => {
            let (text,): (String,) = arguments(input)?;
            let date = PlainDate::from_utf8(text.as_bytes()).map_err(|err| unparsable(&text, "PlainDate", err))?;
            Ok(write_date(&date))
        }
        "from" => {
            let (name, bag, options): (String, Bag, Options) = arguments(input)?;
            let partial = PartialDate { calendar_fields: bag.date()?, calendar: calendar(&name)? };
            Ok(write_date(&PlainDate::from_partial(partial, options.overflow()?).map_err(failure)?))
        }
        "with" => {
            let (date, bag, options): (DateValue, Bag, Options) = arguments(input)?;
            Ok(write_date(&date.read()?.with(bag.date()?, options.overflow()?).map_err(failure)?))
        }
        "add" | "subtract" => {
            let (date, duration, options): (DateValue, DurationValue, Options) = arguments(input)?;
            let (date, duration, overflow) = (date.read()?, read_duration(&duration)?, options.overflow()?);
            let sum = if method == "add" { date.add(&duration, overflow) } else { date.subtract(&duration, overflow) };
            Ok(write_date(&sum.map_err(failure)?))
        }
        "until" | "since" => {
            let (one, other, options): (DateValue, DateValue, Options) = arguments(input)?;
            let (one, other, settings) = (one.read()?, other.read()?, options.difference()?);
            let gap = if method == "until" { one.until(&other, settings) } else { one.since(&other, settings) };
            Ok(write_duration(&gap.map_err(failure)?))
        }
        "fields" => Ok(fields::of_date(&arguments::<(DateValue,)>(input)?.0.read()?)),
        "yearMonth" => {
            let (date,): (DateValue,) = arguments(input)?;
            write_year_month(&date.read()?.to_plain_year_month().map_err(failure)?)
        }
        "monthDay" => {
            let (date,): (DateValue,) = arguments(input)?;
            write_month_day(&date.read()?.to_plain_month_day().map_err(failure)?)
        }
        "zoned" => {
            let (date, name, time): (DateValue, String, Option<TimeValue>) = arguments(input)?;
            let time = time.as_ref().map(read_time).transpose()?;
            let zoned = date.read()?.to_zoned_date_time_with_provider(zone(&name)?, time, &Zones);
            write_zoned(&zoned.map_err(failure)?)
        }
        "text" => {
            let (date, options): (DateValue, Options) = arguments(input)?;
            Ok(json!(date.read()?.to_ixdtf_string(options.display_calendar()?)))
        }
        _ => Err(unknown()),
    }
}

pub(super) fn time(method: &str, input: &str) -> Answer {
    match method {
        "new" => Ok(write_time(&read_time(&arguments::<(TimeValue,)>(input)?.0)?)),
        "parse" => {
            let (text,): (String,) = arguments(input)?;
            let time = PlainTime::from_utf8(text.as_bytes()).map_err(|err| unparsable(&text, "PlainTime", err))?;
            Ok(write_time(&time))
        }
        "from" => {
            let (bag, options): (Bag, Options) = arguments(input)?;
            let overflow = options.overflow()?;
            Ok(write_time(&PlainTime::from_partial(bag.time(overflow)?, overflow).map_err(failure)?))
        }
        "with" => {
            let (time, bag, options): (TimeValue, Bag, Options) = arguments(input)?;
            let overflow = options.overflow()?;
            Ok(write_time(&read_time(&time)?.with(bag.time(overflow)?, overflow).map_err(failure)?))
        }
        "add" | "subtract" => {
            let (time, duration): (TimeValue, DurationValue) = arguments(input)?;
            let (time, duration) = (read_time(&time)?, read_duration(&duration)?);
            let sum = if method == "add" { time.add(&duration) } else { time.subtract(&duration) };
            Ok(write_time(&sum.map_err(failure)?))
        }
        "until" | "since" => {
            let (one, other, options): (TimeValue, TimeValue, Options) = arguments(input)?;
            let (one, other, settings) = (read_time(&one)?, read_time(&other)?, options.difference()?);
            let gap = if method == "until" { one.until(&other, settings) } else { one.since(&other, settings) };
            Ok(write_duration(&gap.map_err(failure)?))
        }
        "round" => {
            let (time, options): (TimeValue, Options) = arguments(input)?;
            Ok(write_time(&read_time(&time)?.round(options.rounding()?).map_err(failure)?))
        }
        "text" => {
            let (time, options): (TimeValue, Options) = arguments(input)?;
            Ok(json!(read_time(&time)?.to_ixdtf_string(options.text()?).map_err(failure)?))
        }
        _ => Err(unknown()),
    }
}

pub(super) fn date_time(method: &str, input: &str) -> Answer {
    match method {
        "new" => Ok(write_date_time(&arguments::<(DateTimeValue,)>(input)?.0.read()?)),
        "parse" => {
            let (text,): (String,) = arguments(input)?;
            let parsed = PlainDateTime::from_utf8(text.as_bytes());
            Ok(write_date_time(&parsed.map_err(|err| unparsable(&text, "PlainDateTime", err))?))
        }
        "from" => {
            let (name, bag, options): (String, Bag, Options) = arguments(input)?;
            let overflow = options.overflow()?;
            let fields = DateTimeFields { calendar_fields: bag.date()?, time: bag.time(overflow)? };
            let partial = PartialDateTime { fields, calendar: calendar(&name)? };
            Ok(write_date_time(&PlainDateTime::from_partial(partial, overflow).map_err(failure)?))
        }
        "with" => {
            let (date_time, bag, options): (DateTimeValue, Bag, Options) = arguments(input)?;
            let overflow = options.overflow()?;
            let fields = DateTimeFields { calendar_fields: bag.date()?, time: bag.time(overflow)? };
            Ok(write_date_time(&date_time.read()?.with(fields, overflow).map_err(failure)?))
        }
        "add" | "subtract" => {
            let (one, duration, options): (DateTimeValue, DurationValue, Options) = arguments(input)?;
            let (one, duration, overflow) = (one.read()?, read_duration(&duration)?, options.overflow()?);
            let sum = if method == "add" { one.add(&duration, overflow) } else { one.subtract(&duration, overflow) };
            Ok(write_date_time(&sum.map_err(failure)?))
        }
        "until" | "since" => {
            let (one, other, options): (DateTimeValue, DateTimeValue, Options) = arguments(input)?;
            let (one, other, settings) = (one.read()?, other.read()?, options.difference()?);
            let gap = if method == "until" { one.until(&other, settings) } else { one.since(&other, settings) };
            Ok(write_duration(&gap.map_err(failure)?))
        }
        "round" => {
            let (date_time, options): (DateTimeValue, Options) = arguments(input)?;
            Ok(write_date_time(&date_time.read()?.round(options.rounding()?).map_err(failure)?))
        }
        "zoned" => {
            let (date_time, name, options): (DateTimeValue, String, Options) = arguments(input)?;
            let disambiguation = options.disambiguation()?.unwrap_or_default();
            let zoned = date_time.read()?.to_zoned_date_time_with_provider(zone(&name)?, disambiguation, &Zones);
            write_zoned(&zoned.map_err(failure)?)
        }
        "text" => {
            let (date_time, options): (DateTimeValue, Options) = arguments(input)?;
            let text = date_time.read()?.to_ixdtf_string(options.text()?, options.display_calendar()?);
            Ok(json!(text.map_err(failure)?))
        }
        _ => Err(unknown()),
    }
}
