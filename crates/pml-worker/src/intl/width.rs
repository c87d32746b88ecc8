//! How long a text may be.

use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Width {
    Long,
    Short,
    Narrow,
}

impl Width {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Width::Long => "long",
            Width::Short => "short",
            Width::Narrow => "narrow",
        }
    }

    /// What keys of the table end with, where long is the rule.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Width::Long => "",
            Width::Short => "-short",
            Width::Narrow => "-narrow",
        }
    }
}
