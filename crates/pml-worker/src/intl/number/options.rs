//! The resolved options of `Intl.NumberFormat`, and of others that format numbers.

use serde::Deserialize;

use crate::intl::width::Width;

/// How many digits are shown, and how the rest is rounded.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DigitOptions {
    pub(crate) minimum_integer_digits: i16,
    pub(crate) minimum_fraction_digits: Option<i16>,
    pub(crate) maximum_fraction_digits: Option<i16>,
    pub(crate) minimum_significant_digits: Option<i16>,
    pub(crate) maximum_significant_digits: Option<i16>,
    pub(crate) rounding_increment: u16,
    pub(crate) rounding_mode: RoundingMode,
    pub(crate) rounding_priority: RoundingPriority,
    pub(crate) trailing_zero_display: TrailingZeros,
}

impl Default for DigitOptions {
    fn default() -> DigitOptions {
        DigitOptions {
            minimum_integer_digits: 1,
            minimum_fraction_digits: Some(0),
            maximum_fraction_digits: Some(3),
            minimum_significant_digits: None,
            maximum_significant_digits: None,
            rounding_increment: 1,
            rounding_mode: RoundingMode::HalfExpand,
            rounding_priority: RoundingPriority::Auto,
            trailing_zero_display: TrailingZeros::Auto,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RoundingMode {
    Ceil,
    Floor,
    Expand,
    Trunc,
    HalfCeil,
    HalfFloor,
    HalfExpand,
    HalfTrunc,
    HalfEven,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RoundingPriority {
    Auto,
    MorePrecision,
    LessPrecision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TrailingZeros {
    Auto,
    StripIfInteger,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NumberOptions {
    /// The locale of the table.
    pub(crate) data: String,
    pub(crate) numbering_system: String,
    pub(crate) style: Style,
    pub(crate) currency: String,
    pub(crate) currency_display: CurrencyDisplay,
    pub(crate) currency_sign: CurrencySign,
    pub(crate) unit: String,
    pub(crate) unit_display: Width,
    pub(crate) notation: Notation,
    pub(crate) compact_display: CompactDisplay,
    pub(crate) sign_display: SignDisplay,
    pub(crate) use_grouping: Grouping,
    pub(crate) digits: DigitOptions,
}

impl Default for NumberOptions {
    fn default() -> NumberOptions {
        NumberOptions {
            data: "en".to_owned(),
            numbering_system: "latn".to_owned(),
            style: Style::Decimal,
            currency: String::new(),
            currency_display: CurrencyDisplay::Symbol,
            currency_sign: CurrencySign::Standard,
            unit: String::new(),
            unit_display: Width::Short,
            notation: Notation::Standard,
            compact_display: CompactDisplay::Short,
            sign_display: SignDisplay::Auto,
            use_grouping: Grouping::Auto,
            digits: DigitOptions::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Style {
    Decimal,
    Percent,
    Currency,
    Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CurrencyDisplay {
    Code,
    Symbol,
    NarrowSymbol,
    Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CurrencySign {
    Standard,
    Accounting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Notation {
    Standard,
    Scientific,
    Engineering,
    Compact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CompactDisplay {
    Short,
    Long,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SignDisplay {
    Auto,
    Never,
    Always,
    ExceptZero,
    Negative,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Grouping {
    Auto,
    Always,
    Min2,
    Never,
}
