//! Parts of the day: "in the morning", "noon".

use crate::intl::table::Locale;

/// The order of `g.periods`.
const NAMES: [&str; 12] = [
    "am",
    "pm",
    "midnight",
    "noon",
    "morning1",
    "morning2",
    "afternoon1",
    "afternoon2",
    "evening1",
    "evening2",
    "night1",
    "night2",
];

/// The number of the part of the day in `g.periods`. `is_exact` says that nothing smaller than what is shown is left over, so that it may be noon.
pub(super) fn flexible(locale: Locale, minutes: u16, is_exact: bool) -> Option<usize> {
    let mut language = Some(locale.name());
    while let Some(tag) = language {
        let rules: Vec<&str> = Locale::everywhere().list(&format!("periods.{tag}")).iter().collect();
        if rules.len() >= 3 {
            return find(&rules, minutes, is_exact);
        }
        language = tag.rsplit_once('-').map(|(shorter, _)| shorter);
    }
    None
}

fn find(rules: &[&str], minutes: u16, is_exact: bool) -> Option<usize> {
    let mut found = None;
    for rule in rules.chunks_exact(3) {
        let index = NAMES.iter().position(|name| *name == rule[0]);
        let from: u16 = rule[1].parse().ok()?;
        match rule[2].parse::<u16>() {
            // At exactly that minute. Midnight could be of the day before, and is not said.
            Err(_) if is_exact && minutes == from && from != 0 => return index,
            Err(_) => {}
            Ok(before) => {
                let is_within = match from < before {
                    true => (from..before).contains(&minutes),
                    false => minutes >= from || minutes < before,
                };
                if is_within {
                    found = index;
                }
            }
        }
    }
    found
}
