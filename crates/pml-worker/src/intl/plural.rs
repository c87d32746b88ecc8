//! Plural categories, by ICU4X, and the category of a range.

use icu_locale::LanguageIdentifier;
use icu_plurals::{PluralCategory, PluralRuleType, PluralRules};
use serde::Deserialize;

use super::{
    Failure,
    number::{Amount, NumberFormat, NumberOptions},
    table::Locale,
};

/// The resolved options of `Intl.PluralRules`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PluralOptions {
    #[serde(rename = "type")]
    kind: PluralKind,
    number: NumberOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum PluralKind {
    Cardinal,
    Ordinal,
}

/// Which plural form a number takes.
#[derive(Debug)]
pub(crate) struct Plurals {
    rules: PluralRules,
    number: NumberFormat,
    locale: Locale,
}

impl Plurals {
    pub(crate) fn new(options: PluralOptions) -> Result<Plurals, Failure> {
        let locale = Locale::named(&options.number.data)?;
        let kind = match options.kind {
            PluralKind::Cardinal => PluralRuleType::Cardinal,
            PluralKind::Ordinal => PluralRuleType::Ordinal,
        };
        Ok(Plurals { rules: rules(locale, kind)?, number: NumberFormat::new(options.number)?, locale })
    }

    pub(crate) fn select(&self, amount: &Amount) -> PluralCategory {
        self.number.category(amount, &self.rules)
    }

    pub(crate) fn select_range(&self, from: &Amount, to: &Amount) -> PluralCategory {
        of_range(self.locale, self.select(from), self.select(to))
    }

    /// The categories that the language has.
    pub(crate) fn categories(&self) -> Vec<&'static str> {
        self.rules.categories().map(name).collect()
    }
}

/// The category of a range, by those of its ends.
pub(super) fn of_range(locale: Locale, from: PluralCategory, to: PluralCategory) -> PluralCategory {
    let wanted = format!("{} {} ", name(from), name(to));
    let mut language = Some(locale.name());
    while let Some(tag) = language {
        let ranges = Locale::everywhere().list(&format!("ranges.{tag}"));
        if let Some(found) = ranges.iter().find_map(|range| range.strip_prefix(&wanted)) {
            return PluralCategory::get_for_cldr_string(found).unwrap_or(to);
        }
        language = tag.rsplit_once('-').map(|(shorter, _)| shorter);
    }
    to
}

pub(super) fn name(category: PluralCategory) -> &'static str {
    match category {
        PluralCategory::Zero => "zero",
        PluralCategory::One => "one",
        PluralCategory::Two => "two",
        PluralCategory::Few => "few",
        PluralCategory::Many => "many",
        PluralCategory::Other => "other",
    }
}

/// The rules for counting.
pub(super) fn cardinal(locale: Locale) -> Result<PluralRules, Failure> {
    rules(locale, PluralRuleType::Cardinal)
}

fn rules(locale: Locale, kind: PluralRuleType) -> Result<PluralRules, Failure> {
    let id: LanguageIdentifier = locale.name().parse().map_err(|_| Failure::type_error("there is no such locale"))?;
    let failed = |err| Failure::range(format!("plural rules are missing: {err}"));
    PluralRules::try_new((&icu_locale::Locale::from(id)).into(), kind.into()).map_err(failed)
}
