//! Moments, as people write and read them.

use chrono::{DateTime, Local, NaiveDate, TimeDelta, TimeZone};
use pml_wire::{ErrorCode, trace::Timestamp};

use super::command::Stop;
use crate::error::Error;

/// Reads a moment that an option names.
pub(super) fn parse(option: &str, text: &str) -> Result<Timestamp, Error> {
    parse_at(text, Local::now()).ok_or_else(|| {
        let message = format!("`{text}` is no moment for {option}");
        let hint = "write 30m, 1h, 2d, 1w, today, yesterday, 2026-01-31 or 2026-01-31T12:00:00Z";
        Error::new(ErrorCode::ConfigInvalid, message).with_hint(hint)
    })
}

impl From<Error> for Stop {
    /// A mistake in the command line.
    fn from(err: Error) -> Stop {
        Stop::Usage(err)
    }
}

fn parse_at<Z: TimeZone>(text: &str, now: DateTime<Z>) -> Option<Timestamp> {
    let text = text.trim();
    let midnight = |date: NaiveDate| {
        let start = date.and_hms_opt(0, 0, 0)?;
        // Where clocks are put forward at midnight, the day begins later.
        let start = now.timezone().from_local_datetime(&start).earliest();
        start.or_else(|| now.timezone().from_local_datetime(&date.and_hms_opt(1, 0, 0)?).earliest())
    };
    let moment = match text {
        "now" => now.clone(),
        "today" => midnight(now.date_naive())?,
        "yesterday" => midnight(now.date_naive().pred_opt()?)?,
        _ => match text.parse::<NaiveDate>() {
            Ok(date) => midnight(date)?,
            Err(_) => match text.parse::<Timestamp>() {
                Ok(moment) => return Some(moment),
                Err(_) => now.clone().checked_sub_signed(ago(text)?)?,
            },
        },
    };
    u64::try_from(moment.timestamp_millis()).ok().map(Timestamp)
}

/// A number with a unit.
fn ago(text: &str) -> Option<TimeDelta> {
    let unit = text.chars().next_back()?;
    let number: i64 = text.strip_suffix(unit)?.parse().ok().filter(|number| *number >= 0)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return None,
    };
    TimeDelta::try_seconds(number.checked_mul(seconds)?)
}

/// A moment in the time of this machine, to the second. One that no calendar has is shown as a number.
pub(super) fn local(moment: Timestamp) -> String {
    match local_time(moment) {
        Some(time) => time.format("%Y-%m-%d %H:%M:%S").to_string(),
        None => moment.to_string(),
    }
}

/// How far the time of this machine is from UTC at a moment, such as `+01:00`.
pub(super) fn offset(moment: Timestamp) -> String {
    local_time(moment).map(|time| time.format("%:z").to_string()).unwrap_or_default()
}

fn local_time(moment: Timestamp) -> Option<DateTime<Local>> {
    let time = DateTime::from_timestamp_millis(i64::try_from(moment.0).ok()?)?;
    // Far away, an offset would leave the calendar.
    let is_usual = (0..253_402_300_800_000).contains(&time.timestamp_millis());
    is_usual.then(|| time.with_timezone(&Local))
}

#[cfg(test)]
mod tests {
    use chrono::FixedOffset;

    use super::*;

    #[test]
    fn moments_are_read_as_people_write_them() {
        let now = DateTime::parse_from_rfc3339("2026-11-17T00:30:00+01:00").unwrap();
        #[rustfmt::skip]
        let table = [
            ("30m",                   Some("2026-11-17T00:00:00+01:00")),
            ("1h",                    Some("2026-11-16T23:30:00+01:00")),
            ("2d",                    Some("2026-11-15T00:30:00+01:00")),
            ("1w",                    Some("2026-11-10T00:30:00+01:00")),
            ("0s",                    Some("2026-11-17T00:30:00+01:00")),
            (" today ",               Some("2026-11-17T00:00:00+01:00")),
            ("yesterday",             Some("2026-11-16T00:00:00+01:00")),
            ("2026-01-31",            Some("2026-01-31T00:00:00+01:00")),
            ("2026-01-31T12:00:00Z",  Some("2026-01-31T12:00:00Z")),
            ("",                      None),
            ("1",                     None),
            ("h",                     None),
            ("-1h",                   None),
            ("1µ",                    None),
            ("99999999999999999w",    None),
            ("9223372036854775807s",  None),
            ("2026-02-30",            None),
            ("900000d",               None), // before 1970
        ];
        for (text, expected) in table {
            let expected = expected.map(|text| text.parse::<Timestamp>().unwrap());
            assert_eq!(parse_at::<FixedOffset>(text, now), expected, "{text}");
        }
    }

    #[test]
    fn every_moment_can_be_shown() {
        for millis in [0, 1, 1_790_000_000_000, 253_402_300_799_999, 253_402_300_800_000, i64::MAX as u64, u64::MAX] {
            assert!(!local(Timestamp(millis)).is_empty());
            let _ = offset(Timestamp(millis));
        }
    }
}
