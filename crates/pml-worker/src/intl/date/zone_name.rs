//! Names of time zones: "Central European Summer Time", "CEST", "GMT+2", "Berlin Time".

use std::borrow::Cow;

use super::fields::Fields;
use crate::intl::{
    table::{List, Locale},
    zone::Zone,
};

/// The items of `z.formats`.
const GMT: usize = 0;
const HOURS: usize = 2;
const REGION: usize = 3;
const FALLBACK: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Long,
    Short,
}

/// What a letter of a pattern shows of the zone.
pub(super) fn name(
    letter: char,
    count: usize,
    fields: &Fields,
    zone: &Zone,
    locale: Locale,
    digits: &[char; 10],
) -> String {
    let width = if count >= 4 { Width::Long } else { Width::Short };
    let named = match letter {
        'z' => specific(width, fields.at, zone, locale),
        'v' => generic(width, fields.at, zone, locale),
        _ => None,
    };
    named.map_or_else(|| offset(width, fields.at, zone, locale, digits), Cow::into_owned)
}

/// The long English name at a time, as `Date.prototype.toString` shows it.
pub(crate) fn long_name(at: i64, zone: &Zone) -> String {
    let locale = Locale::find("en").expect("the table has English");
    let plain = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];
    specific(Width::Long, at.max(0), zone, locale)
        .map_or_else(|| offset(Width::Long, at, zone, locale, &plain), Cow::into_owned)
}

/// A name that tells summer time from standard time.
fn specific(width: Width, at: i64, zone: &Zone, locale: Locale) -> Option<Cow<'static, str>> {
    let kind = if zone.offset(at).is_daylight { 2 } else { 1 };
    of_zone(width, kind, zone.cldr_name()?, locale)
        .or_else(|| of_metazone(width, kind, metazone(zone.cldr_name()?, at)?, locale))
        .map(Cow::Borrowed)
}

/// A name for both summer and standard time.
fn generic(width: Width, at: i64, zone: &Zone, locale: Locale) -> Option<Cow<'static, str>> {
    let id = zone.cldr_name()?;
    if let Some(name) = of_zone(width, 0, id, locale) {
        return Some(name.into());
    }
    if let Some(metazone) = metazone(id, at) {
        let generic = of_metazone(width, 0, metazone, locale);
        if !zone.has_daylight_near(at)
            && let Some(standard) = of_zone(width, 1, id, locale).or_else(|| of_metazone(width, 1, metazone, locale))
            && Some(standard) != generic
        {
            return Some(standard.into());
        }
        if let Some(generic) = generic {
            let region = locale
                .name()
                .rsplit('-')
                .next()
                .filter(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_uppercase()));
            let golden = |region: &str| Locale::everywhere().get(&format!("golden.{metazone}.{region}"));
            let golden = region.and_then(golden).or_else(|| golden("001"));
            let differs = golden
                .filter(|golden| *golden != id)
                .is_some_and(|golden| Zone::find(golden).is_ok_and(|golden| golden.offset(at) != zone.offset(at)));
            if !differs {
                return Some(generic.into());
            }
            let pattern = locale.list("z.formats").get(FALLBACK).unwrap_or("{1} ({0})");
            return Some(pattern.replace("{0}", &place(id, locale)).replace("{1}", generic).into());
        }
    }
    let info = Locale::everywhere().list(&format!("zone.{id}"));
    info.get(0).filter(|region| region.bytes().all(|byte| byte.is_ascii_uppercase()))?;
    let pattern = locale.list("z.formats").get(REGION).unwrap_or("{0}");
    Some(pattern.replace("{0}", &place(id, locale)).into())
}

/// The country, if it has no other zone, or the city.
fn place(id: &str, locale: Locale) -> Cow<'static, str> {
    let info = Locale::everywhere().list(&format!("zone.{id}"));
    if let Some(region) = info.get(0) {
        let is_only = info.get(1).is_some() || Locale::everywhere().get(&format!("primary.{region}")) == Some(id);
        if is_only && let Some(name) = locale.get(&format!("dn.r.{region}")) {
            return name.into();
        }
    }
    match locale.get(&format!("z.city.{id}")) {
        Some(city) => city.into(),
        None => id.rsplit('/').next().unwrap_or(id).replace('_', " ").into(),
    }
}

fn pick(names: List, width: Width, kind: usize) -> Option<&'static str> {
    names.get(if width == Width::Long { kind } else { 3 + kind }).filter(|name| *name != "∅∅∅")
}

fn of_zone(width: Width, kind: usize, id: &str, locale: Locale) -> Option<&'static str> {
    pick(locale.list(&format!("z.zone.{id}")), width, kind)
}

fn of_metazone(width: Width, kind: usize, metazone: &str, locale: Locale) -> Option<&'static str> {
    pick(locale.list(&format!("z.meta.{metazone}")), width, kind)
}

/// The group of zones that this one belonged to at a time.
fn metazone(id: &str, at: i64) -> Option<&'static str> {
    // What zones were called earlier is not known.
    if at < 0 {
        return None;
    }
    let history: Vec<&'static str> = Locale::everywhere().list(&format!("meta.{id}")).iter().collect();
    let is_within = |entry: &&[&'static str]| {
        let has_begun = entry[1].parse::<i64>().map_or(true, |from| from <= at);
        let has_ended = entry[2].parse::<i64>().is_ok_and(|to| to <= at);
        has_begun && !has_ended
    };
    history.chunks_exact(3).find(is_within).map(|entry| entry[0])
}

/// The offset: "GMT+1", or "GMT+01:00".
fn offset(width: Width, at: i64, zone: &Zone, locale: Locale, digits: &[char; 10]) -> String {
    let formats = locale.list("z.formats");
    let seconds = zone.offset(at).seconds;
    let (positive, negative) =
        formats.get(HOURS).and_then(|hours| hours.split_once(';')).unwrap_or(("+HH:mm", "-HH:mm"));
    let pattern = if seconds < 0 { negative } else { positive };
    let (hours, minutes, seconds) = (seconds.abs() / 3600, seconds.abs() / 60 % 60, seconds.abs() % 60);
    let separator = pattern.trim_start_matches(|letter: char| letter != 'H').trim_start_matches('H');
    let separator = separator.split('m').next().unwrap_or(":");
    let sign = &pattern[..pattern.find('H').unwrap_or(0)];
    let wide = |value: i32| format!("{value:02}");
    let mut shown = match width {
        Width::Long => format!("{sign}{}{separator}{}", wide(hours), wide(minutes)),
        Width::Short if minutes == 0 && seconds == 0 => format!("{sign}{hours}"),
        Width::Short => format!("{sign}{hours}{separator}{}", wide(minutes)),
    };
    if seconds != 0 {
        shown = format!("{shown}{separator}{}", wide(seconds));
    }
    let shown: String =
        shown.chars().map(|letter| letter.to_digit(10).map_or(letter, |digit| digits[digit as usize])).collect();
    formats.get(GMT).unwrap_or("GMT{0}").replace("{0}", &shown)
}
