//! Numbers: rounding, patterns and everything around the digits.

mod compact;
mod digits;
mod format;
mod options;
mod pattern;
mod range;

pub(crate) use self::{
    digits::Amount,
    format::{NumberFormat, currency_digits, digits_of, numbering_systems},
    options::NumberOptions,
};
