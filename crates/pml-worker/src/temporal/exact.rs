//! Moments, alone and in a time zone.

use serde_json::{Value, json};
use temporal_rs::{
    Instant, ZonedDateTime, fields::ZonedDateTimeFields, options::OffsetDisambiguation, partial::PartialZonedDateTime,
    provider::TransitionDirection,
};

use super::{
    call::unknown,
    fields::Bag,
    options::Options,
    values::{
        Answer, DurationValue, TimeValue, ZonedValue, arguments, calendar, failure, read_duration, read_instant,
        read_time, unparsable, write_date_time, write_duration, write_instant, write_zoned, zone,
    },
    zones::Zones,
};
use crate::intl::Failure;

pub(super) fn instant(method: &str, input: &str) -> Answer {
    match method {
        "new" => Ok(write_instant(&read_instant(&arguments::<(String,)>(input)?.0)?)),
        "parse" => {
            let (text,): (String,) = arguments(input)?;
            let instant = Instant::from_utf8(text.as_bytes()).map_err(|err| unparsable(&text, "Instant", err))?;
            Ok(write_instant(&instant))
        }
        "add" | "subtract" => {
            let (instant, duration): (String, DurationValue) = arguments(input)?;
            let (instant, duration) = (read_instant(&instant)?, read_duration(&duration)?);
            let sum = if method == "add" { instant.add(&duration) } else { instant.subtract(&duration) };
            Ok(write_instant(&sum.map_err(failure)?))
        }
        "until" | "since" => {
            let (one, other, options): (String, String, Options) = arguments(input)?;
            let (one, other, settings) = (read_instant(&one)?, read_instant(&other)?, options.difference()?);
            let gap = if method == "until" { one.until(&other, settings) } else { one.since(&other, settings) };
            Ok(write_duration(&gap.map_err(failure)?))
        }
        "round" => {
            let (instant, options): (String, Options) = arguments(input)?;
            Ok(write_instant(&read_instant(&instant)?.round(options.rounding()?).map_err(failure)?))
        }
        "text" => {
            let (instant, name, options): (String, Option<String>, Options) = arguments(input)?;
            let zone = name.as_deref().map(zone).transpose()?;
            let text = read_instant(&instant)?.to_ixdtf_string_with_provider(zone, options.text()?, &Zones);
            Ok(json!(text.map_err(failure)?))
        }
        _ => Err(unknown()),
    }
}

pub(super) fn zoned(method: &str, input: &str) -> Answer {
    match method {
        "new" => write_zoned(&arguments::<(ZonedValue,)>(input)?.0.read()?),
        "parse" => parse(input),
        "from" => {
            let (name, zone_name, bag, options): (String, String, Bag, Options) = arguments(input)?;
            let partial = PartialZonedDateTime {
                fields: fields(&bag, &options)?,
                timezone: Some(zone(&zone_name)?),
                calendar: calendar(&name)?,
            };
            let (overflow, disambiguation) = (options.overflow()?, options.disambiguation()?);
            let zoned =
                ZonedDateTime::from_partial_with_provider(partial, overflow, disambiguation, options.offset()?, &Zones);
            write_zoned(&zoned.map_err(failure)?)
        }
        "with" => {
            let (zoned, bag, options): (ZonedValue, Bag, Options) = arguments(input)?;
            let (overflow, disambiguation) = (options.overflow()?, options.disambiguation()?);
            let fields = fields(&bag, &options)?;
            let changed = zoned.read()?.with_with_provider(fields, disambiguation, options.offset()?, overflow, &Zones);
            write_zoned(&changed.map_err(failure)?)
        }
        "withTime" => {
            let (zoned, time): (ZonedValue, Option<TimeValue>) = arguments(input)?;
            let time = time.as_ref().map(read_time).transpose()?;
            write_zoned(&zoned.read()?.with_plain_time_and_provider(time, &Zones).map_err(failure)?)
        }
        "add" | "subtract" => {
            let (zoned, duration, options): (ZonedValue, DurationValue, Options) = arguments(input)?;
            let (zoned, duration, overflow) = (zoned.read()?, read_duration(&duration)?, options.overflow()?);
            let sum = match method {
                "add" => zoned.add_with_provider(&duration, overflow, &Zones),
                _ => zoned.subtract_with_provider(&duration, overflow, &Zones),
            };
            write_zoned(&sum.map_err(failure)?)
        }
        "until" | "since" => {
            let (one, other, options): (ZonedValue, ZonedValue, Options) = arguments(input)?;
            let (one, other, settings) = (one.read()?, other.read()?, options.difference()?);
            let gap = match method {
                "until" => one.until_with_provider(&other, settings, &Zones),
                _ => one.since_with_provider(&other, settings, &Zones),
            };
            Ok(write_duration(&gap.map_err(failure)?))
        }
        "equals" => {
            let (one, other): (ZonedValue, ZonedValue) = arguments(input)?;
            Ok(json!(one.read()?.equals_with_provider(&other.read()?, &Zones).map_err(failure)?))
        }
        "round" => {
            let (zoned, options): (ZonedValue, Options) = arguments(input)?;
            write_zoned(&zoned.read()?.round_with_provider(options.rounding()?, &Zones).map_err(failure)?)
        }
        "startOfDay" => {
            let (zoned,): (ZonedValue,) = arguments(input)?;
            write_zoned(&zoned.read()?.start_of_day_with_provider(&Zones).map_err(failure)?)
        }
        "hoursInDay" => {
            let (zoned,): (ZonedValue,) = arguments(input)?;
            Ok(json!(zoned.read()?.hours_in_day_with_provider(&Zones).map_err(failure)?))
        }
        "transition" => transition(input),
        "local" => {
            let (zoned,): (ZonedValue,) = arguments(input)?;
            let zoned = zoned.read()?;
            let date_time = write_date_time(&zoned.to_plain_date_time());
            Ok(json!({
                "dateTime": date_time,
                "offset": zoned.offset(),
                "offsetNanoseconds": zoned.offset_nanoseconds(),
            }))
        }
        "text" => {
            let (zoned, options): (ZonedValue, Options) = arguments(input)?;
            let text = zoned.read()?.to_ixdtf_string_with_provider(
                options.display_offset()?,
                options.display_zone()?,
                options.display_calendar()?,
                options.text()?,
                &Zones,
            );
            Ok(json!(text.map_err(failure)?))
        }
        _ => Err(unknown()),
    }
}

fn parse(input: &str) -> Answer {
    let (text, options): (String, Options) = arguments(input)?;
    let disambiguation = options.disambiguation()?.unwrap_or_default();
    let offset = options.offset()?.unwrap_or(OffsetDisambiguation::Reject);
    let zoned = ZonedDateTime::from_utf8_with_provider(text.as_bytes(), disambiguation, offset, &Zones);
    write_zoned(&zoned.map_err(|err| unparsable(&text, "ZonedDateTime", err))?)
}

fn fields(bag: &Bag, options: &Options) -> Result<ZonedDateTimeFields, Failure> {
    Ok(ZonedDateTimeFields {
        calendar_fields: bag.date()?,
        time: bag.time(options.overflow()?)?,
        offset: bag.offset()?,
    })
}

fn transition(input: &str) -> Answer {
    let (zoned, direction): (ZonedValue, String) = arguments(input)?;
    let direction: TransitionDirection =
        direction.parse().map_err(|_| Failure::range("the direction is `next` or `previous`"))?;
    let found = zoned.read()?.get_time_zone_transition_with_provider(direction, &Zones).map_err(failure)?;
    found.as_ref().map_or(Ok(Value::Null), write_zoned)
}
