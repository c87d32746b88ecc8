//! What is known of a locale: `Intl.Locale`, and the defaults that formatters have.

use std::collections::BTreeMap;

use icu_locale::{
    LanguageIdentifier, LocaleDirectionality, LocaleExpander,
    extensions::unicode::{Key, Value},
};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{
    Failure,
    date::Calendar,
    locale::{self, canonical, keyword, maximized},
    number::digits_of,
    shortened,
    table::Locale,
};

/// A request for a locale, for one of the services.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    service: Service,
    locales: Vec<String>,
    /// Options that stand for keywords, such as `nu`.
    #[serde(default)]
    keywords: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Service {
    Number,
    Date,
    Collator,
    Plain,
}

/// Calendars of the standard that dates cannot be shown in here.
const OTHER_CALENDARS: [&str; 8] =
    ["chinese", "coptic", "dangi", "ethioaa", "ethiopic", "indian", "islamic", "islamic-rgsa"];

/// Resolves a request: the tag, the locale of the table, and what each keyword is.
pub(crate) fn resolve(request: &Request) -> Result<Json, Failure> {
    let keys: &[&'static str] = match request.service {
        Service::Number => &["nu"],
        Service::Date => &["ca", "hc", "nu"],
        Service::Collator => &["co", "kf", "kn"],
        Service::Plain => &[],
    };
    if let Some(calendar) = request.keywords.get("ca") {
        check_calendar(calendar)?;
    }
    let resolved = locale::resolve(&request.locales, keys, &request.keywords, is_supported)?;
    if let Some(calendar) = request.locales.first().and_then(|tag| keyword(&canonical(tag).ok()?, "ca"))
        && request.service == Service::Date
    {
        check_calendar(&calendar)?;
    }
    let (found, data) = (&resolved.found, resolved.found.data);
    let region = maximized(&found.id).region.map_or_else(|| "001".to_owned(), |region| region.to_string());
    let everywhere = Locale::everywhere();
    let mut answer = json!({
        "locale": resolved.tag,
        "base": found.id.to_string(),
        "data": data.name(),
    });
    let has = |key: &str| resolved.keywords.get(key).cloned();
    match request.service {
        Service::Number => answer["nu"] = has("nu").unwrap_or_else(|| system_of(data)).into(),
        Service::Date => {
            let usual = everywhere.list(&format!("calendars.{region}")).get(0).unwrap_or("gregorian");
            let usual = if usual == "gregorian" { "gregory" } else { usual };
            check_calendar(has("ca").as_deref().unwrap_or(usual))?;
            answer["nu"] = has("nu").unwrap_or_else(|| system_of(data)).into();
            answer["ca"] = has("ca").unwrap_or_else(|| usual.to_owned()).into();
            answer["hc"] = has("hc").map_or(Json::Null, Json::from);
            answer["hours"] = preferred_hours(&found.id, &region).0.into();
            answer["region"] = region.into();
        }
        Service::Collator => {
            answer["co"] = has("co").unwrap_or_else(|| "default".to_owned()).into();
            answer["kf"] =
                has("kf").unwrap_or_else(|| if data.name() == "da" { "upper" } else { "false" }.to_owned()).into();
            answer["kn"] = (has("kn").as_deref() == Some("true")).into();
            answer["ignorePunctuation"] = (found.id.language.as_str() == "th").into();
        }
        Service::Plain => {}
    }
    Ok(answer)
}

fn check_calendar(name: &str) -> Result<(), Failure> {
    if !OTHER_CALENDARS.contains(&name) {
        return Ok(());
    }
    let temporal = if temporal_rs::Calendar::try_from_utf8(name.as_bytes()).is_ok() {
        ", or read the fields of a Temporal.PlainDate in it"
    } else {
        ""
    };
    Err(Failure::range(format!(
        "the calendar `{name}` is not supported here: use one of gregory, buddhist, hebrew, japanese, persian, roc, \
         islamic-umalqura, islamic-civil, islamic-tbla{temporal}"
    )))
}

fn is_supported(locale: Locale, key: &str, value: &str) -> bool {
    match key {
        "nu" => digits_of(value).is_some(),
        "ca" => value != "gregorian" && Calendar::find(value).is_some(),
        "hc" => matches!(value, "h11" | "h12" | "h23" | "h24"),
        "kn" => matches!(value, "true" | "false"),
        "kf" => matches!(value, "upper" | "lower" | "false"),
        "co" => collations(locale).contains(&value),
        _ => false,
    }
}

/// The collations of a language besides its usual one.
fn collations(locale: Locale) -> Vec<&'static str> {
    let own: &[&str] = match locale.name().split('-').next().unwrap_or_default() {
        "de" => &["phonebk"],
        "es" | "bn" | "kn" | "vi" | "fi" | "sv" => &["trad"],
        "zh" => &["pinyin", "stroke", "zhuyin"],
        "si" => &["dict"],
        "ar" => &["compat"],
        _ => &[],
    };
    own.iter().copied().chain(["emoji", "eor"]).collect()
}

/// The numbering system that numbers have unless something else is said.
fn system_of(data: Locale) -> String {
    data.get("n.system").filter(|system| digits_of(system).is_some()).unwrap_or("latn").to_owned()
}

/// The hour cycle that is usual, and all that are used.
fn preferred_hours(id: &LanguageIdentifier, region: &str) -> (&'static str, Vec<&'static str>) {
    let everywhere = Locale::everywhere();
    let cycle = |letter: &str| match letter.chars().next() {
        Some('h') => "h12",
        Some('K') => "h11",
        Some('k') => "h24",
        _ => "h23",
    };
    let own = everywhere.list(&format!("hours.{}-{region}", id.language));
    let entry = if own.is_empty() { everywhere.list(&format!("hours.{region}")) } else { own };
    let entry = if entry.is_empty() { everywhere.list("hours.001") } else { entry };
    let preferred = entry.get(0).map_or("h23", cycle);
    let mut all = vec![preferred];
    for letter in entry.get(1).unwrap_or_default().split(' ').filter(|letter| letter.len() == 1) {
        if !all.contains(&cycle(letter)) {
            all.push(cycle(letter));
        }
    }
    (preferred, all)
}

/// What the constructor of `Intl.Locale` is told besides the tag.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Changes {
    language: Option<String>,
    script: Option<String>,
    region: Option<String>,
    keywords: BTreeMap<String, String>,
}

/// The parts of a tag, with changes applied.
pub(crate) fn describe(tag: &str, changes: &Changes) -> Result<Json, Failure> {
    let invalid =
        |value: &str| Failure::range(format!("Incorrect locale information provided: `{}`", shortened(value)));
    let mut locale = canonical(tag)?;
    if let Some(language) = &changes.language {
        locale.id.language = language.parse().map_err(|_| invalid(language))?;
    }
    if let Some(script) = &changes.script {
        locale.id.script = Some(script.parse().map_err(|_| invalid(script))?);
    }
    if let Some(region) = &changes.region {
        locale.id.region = Some(region.parse().map_err(|_| invalid(region))?);
    }
    for (key, value) in &changes.keywords {
        let parsed = Value::try_from_str(value).map_err(|_| invalid(value))?;
        let parsed = if value == "true" { Value::default() } else { parsed };
        let key = Key::try_from_str(key).map_err(|_| invalid(key))?;
        locale.extensions.unicode.keywords.set(key, parsed);
    }
    let locale = canonical(&locale.to_string())?;
    let keywords: BTreeMap<&str, Option<String>> =
        ["ca", "co", "fw", "hc", "kf", "kn", "nu"].into_iter().map(|key| (key, keyword(&locale, key))).collect();
    Ok(json!({
        "tag": locale.to_string(),
        "base": locale.id.to_string(),
        "language": locale.id.language.as_str(),
        "script": locale.id.script.map(|script| script.to_string()),
        "region": locale.id.region.map(|region| region.to_string()),
        "keywords": keywords,
    }))
}

/// The tag with the likely script and region, or without them.
pub(crate) fn likely(tag: &str, is_longer: bool) -> Result<String, Failure> {
    let mut locale = canonical(tag)?;
    let expander = LocaleExpander::new_extended();
    if is_longer {
        expander.maximize(&mut locale.id);
    } else {
        expander.minimize(&mut locale.id);
    }
    Ok(locale.to_string())
}

/// What people of a locale use.
pub(crate) fn customs(tag: &str) -> Result<Json, Failure> {
    let locale = canonical(tag)?;
    let id = maximized(&locale.id);
    let region = id.region.map_or_else(|| "001".to_owned(), |region| region.to_string());
    let everywhere = Locale::everywhere();
    let week = |kind: &str| {
        let own = everywhere.get(&format!("week.{kind}.{region}"));
        own.or_else(|| everywhere.get(&format!("week.{kind}.001"))).unwrap_or_default()
    };
    let day = |name: &str| {
        ["mon", "tue", "wed", "thu", "fri", "sat", "sun"].iter().position(|day| *day == name).map_or(1, |day| day + 1)
    };
    let (start, end) = (day(week("weekendStart")), day(week("weekendEnd")));
    let weekend: Vec<usize> = (1..=7)
        .filter(|at| if start <= end { (start..=end).contains(at) } else { *at >= start || *at <= end })
        .collect();
    let own = keyword(&locale, "ca");
    let listed: Vec<&str> =
        everywhere.list(&format!("calendars.{region}")).iter().filter(|name| !name.is_empty()).collect();
    let listed = if listed.is_empty() { vec!["gregorian"] } else { listed };
    let calendars: Vec<&str> =
        listed.into_iter().map(|name| if name == "gregorian" { "gregory" } else { name }).collect();
    let first = keyword(&locale, "fw").map_or_else(|| day(week("firstDay")), |name| day(&name));
    let data = locale::find(&locale.id).map(|found| found.data);
    let system = keyword(&locale, "nu").or_else(|| data.map(system_of)).unwrap_or_else(|| "latn".to_owned());
    let zones: Vec<&str> = everywhere
        .with_prefix("zone.")
        .filter(|(_, info)| info.split('\u{1f}').next() == Some(&region))
        .map(|(name, _)| name)
        .collect();
    Ok(json!({
        "calendars": own.map_or_else(|| json!(calendars), |own| json!([own])),
        "collations": data.map(collations),
        "hourCycles": keyword(&locale, "hc").map_or_else(|| json!(preferred_hours(&id, &region).1), |own| json!([own])),
        "numberingSystems": [system],
        "direction": if LocaleDirectionality::new_extended().is_right_to_left(&locale.id) { "rtl" } else { "ltr" },
        "week": { "firstDay": first, "weekend": weekend, "minimalDays": week("minDays").parse::<u8>().unwrap_or(1) },
        "timeZones": locale.id.region.map(|_| zones),
    }))
}
