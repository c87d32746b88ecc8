//! The order of texts, by ICU4X.

use icu_collator::{
    CollatorBorrowed, CollatorPreferences,
    options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength},
    preferences::{CollationCaseFirst, CollationNumericOrdering, CollationType},
};
use icu_locale::extensions::unicode::Value;
use serde::Deserialize;

use super::Failure;

/// The resolved options of `Intl.Collator`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CollationOptions {
    /// The tag that was resolved, without keywords.
    locale: String,
    usage: Usage,
    sensitivity: Sensitivity,
    ignore_punctuation: bool,
    numeric: bool,
    case_first: CaseFirst,
    collation: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Usage {
    Sort,
    Search,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Sensitivity {
    Base,
    Accent,
    Case,
    Variant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum CaseFirst {
    Upper,
    Lower,
    False,
}

/// Compares texts.
#[derive(Debug)]
pub(crate) struct Collation(CollatorBorrowed<'static>);

impl Collation {
    pub(crate) fn new(options: &CollationOptions) -> Result<Collation, Failure> {
        let failed = |what: &str| Failure::range(format!("the collation {what} is not supported here"));
        let locale = icu_locale::Locale::try_from_str(&options.locale).map_err(|_| failed(&options.locale))?;
        let mut preferences = CollatorPreferences::from(&locale);
        if options.collation != "default" {
            let value = Value::try_from_str(&options.collation).map_err(|_| failed(&options.collation))?;
            preferences.collation_type = Some(CollationType::try_from(&value).map_err(|_| failed(&options.collation))?);
        } else if options.usage == Usage::Search {
            preferences.collation_type = Some(CollationType::Search);
        }
        preferences.numeric_ordering =
            Some(if options.numeric { CollationNumericOrdering::True } else { CollationNumericOrdering::False });
        preferences.case_first = match options.case_first {
            CaseFirst::Upper => Some(CollationCaseFirst::Upper),
            CaseFirst::Lower => Some(CollationCaseFirst::Lower),
            CaseFirst::False => Some(CollationCaseFirst::False),
        };
        let mut chosen = CollatorOptions::default();
        (chosen.strength, chosen.case_level) = match options.sensitivity {
            Sensitivity::Base => (Some(Strength::Primary), None),
            Sensitivity::Accent => (Some(Strength::Secondary), None),
            Sensitivity::Case => (Some(Strength::Primary), Some(CaseLevel::On)),
            Sensitivity::Variant => (Some(Strength::Tertiary), None),
        };
        if options.ignore_punctuation {
            chosen.alternate_handling = Some(AlternateHandling::Shifted);
            chosen.max_variable = Some(MaxVariable::Punctuation);
        }
        let made = CollatorBorrowed::try_new(preferences, chosen);
        made.map(Collation)
            .map_err(|err| Failure::range(format!("there is no collation for `{}`: {err}", options.locale)))
    }

    pub(crate) fn compare(&self, left: &str, right: &str) -> i8 {
        self.0.compare(left, right) as i8
    }
}
