//! The resolved options of `Intl.DateTimeFormat`.

use serde::Deserialize;

/// Texts that the standard names are kept as they are: [`super::skeleton`] makes letters of them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DateOptions {
    /// The locale of the table.
    pub(crate) data: String,
    /// The tag that was resolved, whose region decides.
    pub(crate) locale: String,
    pub(crate) calendar: String,
    pub(crate) numbering_system: String,
    pub(crate) time_zone: String,
    /// `h11`, `h12`, `h23` or `h24`.
    pub(crate) hour_cycle: Option<String>,
    pub(crate) date_style: Option<Style>,
    pub(crate) time_style: Option<Style>,
    pub(crate) weekday: Option<String>,
    pub(crate) era: Option<String>,
    pub(crate) year: Option<String>,
    pub(crate) month: Option<String>,
    pub(crate) day: Option<String>,
    pub(crate) day_period: Option<String>,
    pub(crate) hour: Option<String>,
    pub(crate) minute: Option<String>,
    pub(crate) second: Option<String>,
    pub(crate) fractional_second_digits: Option<u8>,
    pub(crate) time_zone_name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Style {
    Full,
    Long,
    Medium,
    Short,
}

impl DateOptions {
    /// The letter that stands for the hour.
    pub(super) fn hour_letter(&self) -> char {
        match self.hour_cycle.as_deref() {
            Some("h11") => 'K',
            Some("h12") => 'h',
            Some("h24") => 'k',
            _ => 'H',
        }
    }

    /// The fields that are wanted, as a skeleton.
    pub(super) fn skeleton(&self) -> String {
        let mut skeleton = String::new();
        let mut add = |option: &Option<String>, table: &[(&str, &str)]| {
            let letters = option.as_ref().and_then(|value| table.iter().find(|(name, _)| name == value));
            skeleton.push_str(letters.map_or("", |(_, letters)| letters));
        };
        let fraction = "S".repeat(usize::from(self.fractional_second_digits.unwrap_or(0).min(3)));
        add(&self.weekday, &[("narrow", "EEEEE"), ("long", "EEEE"), ("short", "EEE")]);
        add(&self.era, &[("narrow", "GGGGG"), ("long", "GGGG"), ("short", "GGG")]);
        add(&self.year, &[("2-digit", "yy"), ("numeric", "y")]);
        add(
            &self.month,
            &[("narrow", "MMMMM"), ("long", "MMMM"), ("short", "MMM"), ("2-digit", "MM"), ("numeric", "M")],
        );
        add(&self.day, &[("2-digit", "dd"), ("numeric", "d")]);
        add(&self.day_period, &[("narrow", "BBBBB"), ("long", "BBBB"), ("short", "B")]);
        let (one, two) = (self.hour_letter().to_string(), self.hour_letter().to_string().repeat(2));
        add(&self.hour, &[("2-digit", &two), ("numeric", &one)]);
        add(&self.minute, &[("2-digit", "mm"), ("numeric", "m")]);
        add(&self.second, &[("2-digit", "ss"), ("numeric", "s")]);
        add(&Some(String::new()), &[("", &fraction)]);
        add(
            &self.time_zone_name,
            &[
                ("long", "zzzz"),
                ("short", "z"),
                ("longOffset", "OOOO"),
                ("shortOffset", "O"),
                ("longGeneric", "vvvv"),
                ("shortGeneric", "v"),
            ],
        );
        skeleton
    }
}
