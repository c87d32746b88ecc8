//! Compact numbers: which power of ten a number is divided by, and the words that say so.

use icu_plurals::PluralCategory;

use super::pattern::Pattern;
use crate::intl::table::List;

/// The patterns of one locale for 10³ to 10¹⁴.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compact(pub(super) List);

impl Compact {
    fn forms(self, magnitude: i16) -> Option<List> {
        let index = usize::try_from(magnitude.min(14) - 3).ok()?;
        Some(self.0.record(index)).filter(|forms| !forms.is_empty())
    }

    /// The power of ten that a number of this magnitude is divided by.
    pub(super) fn exponent(self, magnitude: i16) -> i16 {
        let Some(forms) = self.forms(magnitude) else { return 0 };
        let other = forms.plural(PluralCategory::Other);
        // A pattern of nothing but the digit means that the number is not compacted.
        match other {
            "0" | "" => 0,
            other => magnitude.min(14) - Pattern::parse(other).zeros + 1,
        }
    }

    /// The pattern for a number of this magnitude, if it is compacted.
    pub(super) fn pattern(self, magnitude: i16, category: PluralCategory) -> Option<Pattern> {
        let form = self.forms(magnitude)?.plural(category);
        (!matches!(form, "0" | "")).then(|| Pattern::parse(form))
    }
}
