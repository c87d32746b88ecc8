//! Dates and times: which pattern fits the options, and what its fields become.

mod calendar;
mod fields;
mod format;
mod interval;
mod letters;
mod options;
mod pattern;
mod period;
mod skeleton;
mod zone_name;

pub(crate) use self::{calendar::Calendar, format::DateFormat, options::DateOptions, zone_name::long_name};
