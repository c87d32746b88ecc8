//! Options of operations.

use std::str::FromStr;

use serde::Deserialize;
use temporal_rs::{
    options::{
        DifferenceSettings, Disambiguation, DisplayCalendar, DisplayOffset, DisplayTimeZone, OffsetDisambiguation,
        Overflow, RoundingIncrement, RoundingMode, RoundingOptions, ToStringRoundingOptions, Unit,
    },
    parsers::Precision,
};

use super::values::failure;
use crate::intl::Failure;

/// What JavaScript has read of a program's options. What is not given is not there.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Options {
    overflow: Option<String>,
    disambiguation: Option<String>,
    offset: Option<String>,
    largest_unit: Option<String>,
    smallest_unit: Option<String>,
    rounding_mode: Option<String>,
    rounding_increment: Option<f64>,
    fractional_second_digits: Option<u8>,
    calendar_name: Option<String>,
    time_zone_name: Option<String>,
}

fn parse<T: FromStr>(option: Option<&String>, name: &str) -> Result<Option<T>, Failure> {
    let invalid = |value: &str| {
        Failure::range(format!(
            "Value {} out of range for options property {name}",
            &value[..value.floor_char_boundary(60)]
        ))
    };
    option.map(|value| value.parse().map_err(|_| invalid(value))).transpose()
}

impl Options {
    pub(super) fn overflow(&self) -> Result<Option<Overflow>, Failure> {
        parse(self.overflow.as_ref(), "overflow")
    }

    pub(super) fn disambiguation(&self) -> Result<Option<Disambiguation>, Failure> {
        parse(self.disambiguation.as_ref(), "disambiguation")
    }

    pub(super) fn offset(&self) -> Result<Option<OffsetDisambiguation>, Failure> {
        parse(self.offset.as_ref(), "offset")
    }

    pub(super) fn display_offset(&self) -> Result<DisplayOffset, Failure> {
        Ok(parse(self.offset.as_ref(), "offset")?.unwrap_or_default())
    }

    pub(super) fn display_calendar(&self) -> Result<DisplayCalendar, Failure> {
        Ok(parse(self.calendar_name.as_ref(), "calendarName")?.unwrap_or_default())
    }

    pub(super) fn display_zone(&self) -> Result<DisplayTimeZone, Failure> {
        Ok(parse(self.time_zone_name.as_ref(), "timeZoneName")?.unwrap_or_default())
    }

    pub(super) fn smallest_unit(&self) -> Result<Option<Unit>, Failure> {
        parse(self.smallest_unit.as_ref(), "smallestUnit")
    }

    fn rounding_mode(&self) -> Result<Option<RoundingMode>, Failure> {
        parse(self.rounding_mode.as_ref(), "roundingMode")
    }

    fn increment(&self) -> Result<Option<RoundingIncrement>, Failure> {
        self.rounding_increment.map(|increment| RoundingIncrement::try_from(increment).map_err(failure)).transpose()
    }

    pub(super) fn difference(&self) -> Result<DifferenceSettings, Failure> {
        let mut settings = DifferenceSettings::default();
        settings.largest_unit = parse(self.largest_unit.as_ref(), "largestUnit")?;
        settings.smallest_unit = self.smallest_unit()?;
        settings.rounding_mode = self.rounding_mode()?;
        settings.increment = self.increment()?;
        Ok(settings)
    }

    pub(super) fn rounding(&self) -> Result<RoundingOptions, Failure> {
        let mut settings = RoundingOptions::default();
        settings.largest_unit = parse(self.largest_unit.as_ref(), "largestUnit")?;
        settings.smallest_unit = self.smallest_unit()?;
        settings.rounding_mode = self.rounding_mode()?;
        settings.increment = self.increment()?;
        Ok(settings)
    }

    pub(super) fn text(&self) -> Result<ToStringRoundingOptions, Failure> {
        Ok(ToStringRoundingOptions {
            precision: self.fractional_second_digits.map_or(Precision::Auto, Precision::Digit),
            smallest_unit: self.smallest_unit()?,
            rounding_mode: self.rounding_mode()?,
        })
    }
}
