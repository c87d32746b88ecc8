//! The one door from the engine: an operation's name and its arguments as a JSON array; the answer is JSON.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};
use temporal_rs::{Calendar, TimeZone};

use super::{
    duration, exact, months, plain,
    values::{Answer, arguments, calendar, failure},
    zones::Zones,
};
use crate::{intl::Failure, last_words};

/// Longest text that is parsed. The longest that means something is a date with a few annotations.
const MAX_TEXT_BYTES: usize = 10_000;

/// Does one operation. Should the arithmetic panic, it has failed, and the run goes on.
pub(crate) fn call(operation: &str, input: &str) -> Result<String, Failure> {
    if input.len() > MAX_TEXT_BYTES {
        return Err(Failure::range("the date or time is too long to be one"));
    }
    let answer = last_words::unsaid(|| catch_unwind(AssertUnwindSafe(|| dispatch(operation, input))));
    let answer =
        answer.unwrap_or_else(|_| Err(Failure::range(format!("{operation} cannot be computed for these values"))));
    answer.map(|answer| answer.to_string())
}

fn dispatch(operation: &str, input: &str) -> Answer {
    let (kind, method) = operation.split_once('.').unwrap_or((operation, ""));
    match kind {
        "date" => plain::date(method, input),
        "time" => plain::time(method, input),
        "dateTime" => plain::date_time(method, input),
        "yearMonth" => months::year_month(method, input),
        "monthDay" => months::month_day(method, input),
        "instant" => exact::instant(method, input),
        "zoned" => exact::zoned(method, input),
        "duration" => duration::call(method, input),
        "calendar" => calendar_name(method, input),
        "zone" => zone_name(method, input),
        #[cfg(test)]
        "panic" => panic!("as asked"),
        _ => Err(unknown()),
    }
}

/// The failure of an operation that is not one.
pub(super) fn unknown() -> Failure {
    Failure::type_error("there is no such operation")
}

/// The canonical name of a calendar, which the text names or, unless the method is `id`, is written with.
fn calendar_name(method: &str, input: &str) -> Answer {
    let (text,): (String,) = arguments(input)?;
    let found: Calendar = match method {
        "id" => calendar(&text)?,
        _ => text.parse().map_err(failure)?,
    };
    Ok(json!(found.identifier()))
}

/// The name of a time zone, as the database writes it.
fn zone_name(method: &str, input: &str) -> Answer {
    let (text,): (String,) = arguments(input)?;
    let found = match method {
        "id" => TimeZone::try_from_identifier_str_with_provider(&text, &Zones),
        _ => TimeZone::try_from_str_with_provider(&text, &Zones),
    };
    let name = found.and_then(|zone| zone.identifier_with_provider(&Zones));
    name.map(Value::String)
        .map_err(|_| Failure::range(format!("Invalid time zone specified: {}", &text[..text.floor_char_boundary(60)])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intl::FailureKind;

    #[test]
    fn what_cannot_be_computed_is_a_failure() {
        #[rustfmt::skip]
        let table = [
            // operation        arguments                               failure
            ("panic",           "[]",                                   FailureKind::Range),
            ("nothing",         "[]",                                   FailureKind::Type),
            ("date.nothing",    "[]",                                   FailureKind::Type),
            ("date.new",        "not JSON",                             FailureKind::Type),
            ("date.new",        "[[1e300, 1, 1, \"iso8601\"]]",         FailureKind::Range),
            ("date.new",        "[[2026, -1, 1, \"iso8601\"]]",         FailureKind::Range),
            ("date.new",        "[[2026, 1, 1, \"\"]]",                 FailureKind::Range),
            ("time.new",        "[[-1, 0, 0, 0, 0, 0]]",                FailureKind::Range),
            ("instant.new",     "[\"1e5\"]",                            FailureKind::Range),
            ("duration.new",    "[[0, 0, 0, 0, 0, 0, 0, 0, 0, 1e308]]", FailureKind::Range),
            ("zone.id",         "[\"No/Where\"]",                       FailureKind::Range),
        ];
        for (operation, arguments, kind) in table {
            assert_eq!(call(operation, arguments).unwrap_err().kind, kind, "{operation} {arguments}");
        }
        assert_eq!(call("date.parse", &format!("[\"{}\"]", "9".repeat(20_000))).unwrap_err().kind, FailureKind::Range);
        assert_eq!(call("date.new", "[[2026, 3, 1, \"iso8601\"]]").unwrap(), "[2026,3,1,\"iso8601\"]");
    }
}
