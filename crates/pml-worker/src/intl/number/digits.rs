//! A number in decimal digits, and its rounding.

use fixed_decimal::{Decimal, FloatPrecision, RoundingIncrement, Sign, SignedRoundingMode, UnsignedRoundingMode};

use super::options::{DigitOptions, RoundingMode, RoundingPriority, TrailingZeros};
use crate::intl::{Failure, shortened};

/// What a program wants formatted.
#[derive(Clone, Debug)]
pub(crate) enum Amount {
    Finite(Decimal),
    Infinite { is_negative: bool },
    NotANumber,
}

/// A number as it is shown.
#[derive(Clone, Debug)]
pub(crate) struct Rounded {
    pub(crate) decimal: Decimal,
}

impl Amount {
    /// A number of JavaScript. Its digits are those that JavaScript itself shows: `1.005` is not a little less.
    pub(crate) fn from_f64(value: f64) -> Amount {
        if value.is_nan() {
            return Amount::NotANumber;
        }
        match Decimal::try_from_f64(value, FloatPrecision::RoundTrip) {
            Ok(decimal) => Amount::Finite(decimal),
            Err(_) => Amount::Infinite { is_negative: value < 0.0 },
        }
    }

    /// A bigint's digits, or a text that JavaScript reads as a number.
    pub(crate) fn from_text(text: &str) -> Result<Amount, Failure> {
        let trimmed = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\u{feff}');
        let radix = match trimmed.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("0x") => Some(16),
            Some("0o") => Some(8),
            Some("0b") => Some(2),
            _ => None,
        };
        if let Some(radix) = radix {
            return Ok(match u128::from_str_radix(&trimmed[2..], radix) {
                Ok(value) => Amount::Finite(Decimal::from(value)),
                Err(_) => Amount::NotANumber,
            });
        }
        match trimmed {
            "" => return Ok(Amount::Finite(Decimal::from(0))),
            "Infinity" | "+Infinity" => return Ok(Amount::Infinite { is_negative: false }),
            "-Infinity" => return Ok(Amount::Infinite { is_negative: true }),
            _ => {}
        }
        let is_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
        if !trimmed.bytes().all(is_number) || trimmed.parse::<f64>().is_err() {
            return Ok(Amount::NotANumber);
        }
        // The crate wants a digit on both sides of the point.
        let (mantissa, exponent) = trimmed.split_once(['e', 'E']).unwrap_or((trimmed, ""));
        let (sign, mantissa) = match mantissa.strip_prefix(['+', '-']) {
            Some(rest) => (&mantissa[..1], rest),
            None => ("", mantissa),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut plain = format!("{sign}{}", if whole.is_empty() { "0" } else { whole });
        if !part.is_empty() {
            plain = format!("{plain}.{part}");
        }
        if !exponent.is_empty() {
            plain = format!("{plain}e{}", exponent.trim_start_matches('+'));
        }
        Decimal::try_from_str(&plain).map(Amount::Finite).map_err(|_| {
            Failure::range(format!("the number `{}` has too many digits to be formatted", shortened(text)))
        })
    }

    pub(crate) fn is_negative(&self) -> bool {
        match self {
            Amount::Finite(decimal) => decimal.sign() == Sign::Negative,
            Amount::Infinite { is_negative } => *is_negative,
            Amount::NotANumber => false,
        }
    }
}

impl DigitOptions {
    /// Rounds, and adds the zeros that are wanted behind the point.
    pub(crate) fn round(&self, mut decimal: Decimal) -> Rounded {
        decimal.absolute.trim_start();
        decimal.absolute.trim_end();
        let (by_digits, by_fraction) = (self.significant(&decimal), self.fraction());
        // The one that keeps more, or less, behind the point.
        let is_by_digits = match (by_digits, by_fraction, self.rounding_priority) {
            (Some(_), None, _) | (Some(_), Some(_), RoundingPriority::Auto) => true,
            (Some(digits), Some(fraction), RoundingPriority::MorePrecision) => digits.0 <= fraction.0,
            (Some(digits), Some(fraction), RoundingPriority::LessPrecision) => digits.0 > fraction.0,
            (None, ..) => false,
        };
        let position = if is_by_digits { by_digits } else { by_fraction }.map_or(i16::MIN, |(position, _)| position);
        let mode = signed(self.rounding_mode);
        match increment(self.rounding_increment) {
            Some((increment, shift)) => decimal.round_with_mode_and_increment(position + shift, mode, increment),
            None if position != i16::MIN => decimal.round_with_mode(position, mode),
            None => {}
        }
        decimal.absolute.trim_start();
        decimal.absolute.trim_end();
        // Asked again: rounding up may have given a digit more, so that 9.99 with three digits is 10.0.
        let least = if is_by_digits { self.significant(&decimal) } else { by_fraction }.map_or(0, |(_, least)| least);
        if least < 0 {
            decimal.absolute.pad_end(least);
        }
        if self.trailing_zero_display == TrailingZeros::StripIfInteger {
            decimal.absolute.trim_end_if_integer();
        }
        decimal.absolute.pad_start(self.minimum_integer_digits.clamp(1, 21));
        Rounded { decimal }
    }

    /// The place that significant digits round to, and the last one that is shown at least.
    fn significant(&self, decimal: &Decimal) -> Option<(i16, i16)> {
        let most = self.maximum_significant_digits?;
        let start = if decimal.absolute.is_zero() { 0 } else { decimal.absolute.nonzero_magnitude_start() };
        let place = |digits: i16| start.saturating_sub(digits.clamp(1, 21)).saturating_add(1);
        Some((place(most), place(self.minimum_significant_digits.unwrap_or(1)).min(0)))
    }

    fn fraction(&self) -> Option<(i16, i16)> {
        let most = self.maximum_fraction_digits?.clamp(0, 100);
        Some((-most, -self.minimum_fraction_digits.unwrap_or(0).clamp(0, 100)))
    }
}

fn signed(mode: RoundingMode) -> SignedRoundingMode {
    use SignedRoundingMode::{Ceil, Floor, HalfCeil, HalfFloor, Unsigned};
    match mode {
        RoundingMode::Ceil => Ceil,
        RoundingMode::Floor => Floor,
        RoundingMode::HalfCeil => HalfCeil,
        RoundingMode::HalfFloor => HalfFloor,
        RoundingMode::Expand => Unsigned(UnsignedRoundingMode::Expand),
        RoundingMode::Trunc => Unsigned(UnsignedRoundingMode::Trunc),
        RoundingMode::HalfExpand => Unsigned(UnsignedRoundingMode::HalfExpand),
        RoundingMode::HalfTrunc => Unsigned(UnsignedRoundingMode::HalfTrunc),
        RoundingMode::HalfEven => Unsigned(UnsignedRoundingMode::HalfEven),
    }
}

/// The increment's first digits, and how many zeros follow them. None rounds to any digit.
fn increment(value: u16) -> Option<(RoundingIncrement, i16)> {
    let zeros = value.checked_ilog10().unwrap_or(0) as i16;
    match value {
        2 | 20 | 200 | 2000 => Some((RoundingIncrement::MultiplesOf2, zeros)),
        5 | 50 | 500 | 5000 => Some((RoundingIncrement::MultiplesOf5, zeros)),
        25 | 250 | 2500 => Some((RoundingIncrement::MultiplesOf25, zeros - 1)),
        10 | 100 | 1000 => Some((RoundingIncrement::MultiplesOf1, zeros)),
        _ => None,
    }
}
