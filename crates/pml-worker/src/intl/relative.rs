//! Times from now: "in 3 days", "yesterday".

use serde::Deserialize;

use super::{
    Failure,
    number::{Amount, NumberFormat, NumberOptions},
    part::{Part, push},
    plural,
    table::Locale,
    width::Width,
};

/// The resolved options of `Intl.RelativeTimeFormat`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RelativeOptions {
    style: Width,
    numeric: Numeric,
    number: NumberOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Numeric {
    Always,
    Auto,
}

const UNITS: [&str; 8] = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"];

/// Says how far from now something is.
#[derive(Debug)]
pub(crate) struct RelativeFormat {
    options: RelativeOptions,
    locale: Locale,
    number: NumberFormat,
    plurals: icu_plurals::PluralRules,
}

impl RelativeFormat {
    pub(crate) fn new(options: RelativeOptions) -> Result<RelativeFormat, Failure> {
        let locale = Locale::named(&options.number.data)?;
        Ok(RelativeFormat {
            number: NumberFormat::new(options.number.clone())?,
            plurals: plural::cardinal(locale)?,
            locale,
            options,
        })
    }

    pub(crate) fn format(&self, value: f64, unit: &str) -> Result<Vec<Part>, Failure> {
        if !value.is_finite() {
            return Err(Failure::range("The number must be finite"));
        }
        let singular = unit.strip_suffix('s').unwrap_or(unit);
        let unit = UNITS.into_iter().find(|name| *name == singular);
        let unit =
            unit.ok_or_else(|| Failure::range(format!("Invalid unit argument `{}`", super::shortened(singular))))?;
        let style = self.options.style.suffix();
        let entry = self.locale.list(&format!("r.{unit}{style}"));
        if self.options.numeric == Numeric::Auto && value.fract() == 0.0 && value.abs() <= 2.0 {
            // -0 is in the past like 0, and "now" is both.
            let index = (value + 2.0) as usize;
            if let Some(name) = entry.record(0).get(index) {
                return Ok(vec![Part::literal(name)]);
            }
        }
        let is_past = value.is_sign_negative();
        let amount = Amount::from_f64(value.abs());
        let pattern = entry.record(if is_past { 2 } else { 1 }).plural(self.number.category(&amount, &self.plurals));
        let (before, behind) = pattern.split_once("{0}").unwrap_or((pattern, ""));
        let mut parts = Vec::new();
        push(&mut parts, Part::literal(before));
        if pattern.contains("{0}") {
            for mut part in self.number.format(&amount) {
                part.note = Some(unit);
                parts.push(part);
            }
        }
        push(&mut parts, Part::literal(behind));
        Ok(parts)
    }
}
