//! A moment in a zone, as the fields of the Gregorian calendar.

use crate::intl::zone::{Zone, civil, weekday_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    /// Days since 1970-01-01, local.
    pub(super) day_number: i64,
    /// 0 is the year before 1.
    pub(super) year: i64,
    pub(super) month: u8,
    pub(super) day: u8,
    /// Sunday is 0.
    pub(super) weekday: u8,
    pub(super) hour: u8,
    pub(super) minute: u8,
    pub(super) second: u8,
    pub(super) millisecond: u16,
    /// The time in seconds since 1970 in UTC.
    pub(super) at: i64,
}

impl Fields {
    /// The fields of a time in milliseconds.
    pub(super) fn new(milliseconds: f64, zone: &Zone) -> Fields {
        let milliseconds = milliseconds as i64;
        let at = milliseconds.div_euclid(1000);
        let local = at + i64::from(zone.offset(at).seconds);
        let (year, month, day) = civil(local);
        let second = local.rem_euclid(86_400);
        let day_number = local.div_euclid(86_400);
        Fields {
            day_number,
            year,
            month,
            day,
            weekday: weekday_of(day_number) as u8,
            hour: (second / 3600) as u8,
            minute: (second / 60 % 60) as u8,
            second: (second % 60) as u8,
            millisecond: milliseconds.rem_euclid(1000) as u16,
            at,
        }
    }

    /// Minutes since midnight.
    pub(super) fn minutes(&self) -> u16 {
        60 * u16::from(self.hour) + u16::from(self.minute)
    }
}
