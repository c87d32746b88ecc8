//! Durations.

use serde::Deserialize;
use serde_json::json;
use temporal_rs::{Duration, options::RelativeTo};

use super::{
    call::unknown,
    options::Options,
    values::{
        Answer, DateValue, DurationValue, ZonedValue, arguments, failure, read_duration, unparsable, write_duration,
        write_order,
    },
    zones::Zones,
};
use crate::intl::Failure;

/// What the length of a month or a day depends on.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Relative {
    Zoned(ZonedValue),
    Date(DateValue),
    Text(String),
}

impl Relative {
    fn read(&self) -> Result<RelativeTo, Failure> {
        Ok(match self {
            Relative::Zoned(zoned) => zoned.read()?.into(),
            Relative::Date(date) => date.read()?.into(),
            Relative::Text(text) => RelativeTo::try_from_str_with_provider(text, &Zones)
                .map_err(|err| unparsable(text, "PlainDate or ZonedDateTime", err))?,
        })
    }
}

fn read_relative(relative: Option<&Relative>) -> Result<Option<RelativeTo>, Failure> {
    relative.map(Relative::read).transpose()
}

pub(super) fn call(method: &str, input: &str) -> Answer {
    match method {
        "new" => Ok(write_duration(&read_duration(&arguments::<(DurationValue,)>(input)?.0)?)),
        "parse" => {
            let (text,): (String,) = arguments(input)?;
            let duration = Duration::from_utf8(text.as_bytes()).map_err(|err| unparsable(&text, "Duration", err))?;
            Ok(write_duration(&duration))
        }
        "add" | "subtract" => {
            let (one, other): (DurationValue, DurationValue) = arguments(input)?;
            let (one, other) = (read_duration(&one)?, read_duration(&other)?);
            let sum = if method == "add" { one.add(&other) } else { one.subtract(&other) };
            Ok(write_duration(&sum.map_err(failure)?))
        }
        // The text of what the length depends on is read before other options are.
        "relative" => arguments::<(Relative,)>(input)?.0.read().map(|_| json!(null)),
        "compare" => {
            let (one, other, relative): (DurationValue, DurationValue, Option<Relative>) = arguments(input)?;
            let (one, other) = (read_duration(&one)?, read_duration(&other)?);
            let order = one.compare_with_provider(&other, read_relative(relative.as_ref())?, &Zones);
            Ok(write_order(order.map_err(failure)?))
        }
        "round" => {
            let (duration, options, relative): (DurationValue, Options, Option<Relative>) = arguments(input)?;
            let relative = read_relative(relative.as_ref())?;
            let rounded = read_duration(&duration)?.round_with_provider(options.rounding()?, relative, &Zones);
            Ok(write_duration(&rounded.map_err(failure)?))
        }
        "total" => {
            let (duration, options, relative): (DurationValue, Options, Option<Relative>) = arguments(input)?;
            let unit = options.smallest_unit()?.ok_or_else(|| Failure::range("a unit is missing"))?;
            let relative = read_relative(relative.as_ref())?;
            let total = read_duration(&duration)?.total_with_provider(unit, relative, &Zones).map_err(failure)?;
            Ok(json!(total.as_inner()))
        }
        "text" => {
            let (duration, options): (DurationValue, Options) = arguments(input)?;
            Ok(json!(read_duration(&duration)?.as_temporal_string(options.text()?).map_err(failure)?))
        }
        _ => Err(unknown()),
    }
}
