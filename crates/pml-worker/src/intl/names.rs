//! Names of languages, regions, scripts and currencies.

use serde::Deserialize;

use super::{Failure, locale, number, shortened, table::Locale, width::Width};

/// The resolved options of `Intl.DisplayNames`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NameOptions {
    data: String,
    style: Width,
    #[serde(rename = "type")]
    kind: Kind,
    language_display: LanguageDisplay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    Language,
    Region,
    Script,
    Currency,
    Calendar,
    DateTimeField,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum LanguageDisplay {
    Dialect,
    Standard,
}

/// The name of a code, and the code as it is written; no name if there is none.
pub(crate) fn name_of(options: &NameOptions, code: &str) -> Result<(Option<String>, String), Failure> {
    let locale = Locale::named(&options.data)?;
    let invalid =
        || Failure::range(format!("Invalid argument to Intl.DisplayNames.prototype.of: `{}`", shortened(code)));
    if code.len() > 200 {
        return Err(invalid());
    }
    let named = |prefix: &str, code: &str| {
        let short = (options.style != Width::Long).then(|| locale.get(&format!("{prefix}.{code}.short"))).flatten();
        short.or_else(|| locale.get(&format!("{prefix}.{code}"))).map(str::to_owned)
    };
    let is_all = |check: fn(&u8) -> bool| code.as_bytes().iter().all(check);
    match options.kind {
        Kind::Language => {
            let tag = locale::canonical(code).map_err(|_| invalid())?;
            if !tag.extensions.is_empty() {
                return Err(invalid());
            }
            let code = tag.to_string();
            Ok((language(locale, options, &tag.id), code))
        }
        Kind::Region => {
            let is_region =
                (code.len() == 2 && is_all(u8::is_ascii_alphabetic)) || (code.len() == 3 && is_all(u8::is_ascii_digit));
            is_region.then_some(()).ok_or_else(invalid)?;
            let code = code.to_ascii_uppercase();
            Ok((named("dn.r", &code), code))
        }
        Kind::Script => {
            (code.len() == 4 && is_all(u8::is_ascii_alphabetic)).then_some(()).ok_or_else(invalid)?;
            let code = code[..1].to_ascii_uppercase() + &code[1..].to_ascii_lowercase();
            Ok((named("dn.s", &code), code))
        }
        Kind::Currency => {
            (code.len() == 3 && is_all(u8::is_ascii_alphabetic)).then_some(()).ok_or_else(invalid)?;
            let code = code.to_ascii_uppercase();
            let names = locale.list(&format!("c.{code}"));
            Ok((names.get(0).map(str::to_owned), code))
        }
        Kind::Calendar => {
            let is_part =
                |part: &str| (3..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
            code.split('-').all(is_part).then_some(()).ok_or_else(invalid)?;
            let code = code.to_ascii_lowercase();
            let key = if code == "gregory" { "gregorian" } else { code.as_str() };
            Ok((locale.get(&format!("dn.c.{key}")).map(str::to_owned), code))
        }
        Kind::DateTimeField => {
            let field = match code {
                "era" | "year" | "quarter" | "month" | "weekday" | "day" | "hour" | "minute" | "second" => code,
                "weekOfYear" => "week",
                "dayPeriod" => "dayperiod",
                "timeZoneName" => "zone",
                _ => return Err(invalid()),
            };
            let index = match options.style {
                Width::Long => 0,
                Width::Short => 1,
                Width::Narrow => 2,
            };
            Ok((locale.list(&format!("f.{field}")).get(index).map(str::to_owned), code.to_owned()))
        }
    }
}

/// "British English", or "English (United Kingdom)".
fn language(locale: Locale, options: &NameOptions, id: &icu_locale::LanguageIdentifier) -> Option<String> {
    let named = |prefix: &str, code: &str| {
        let short = (options.style != Width::Long).then(|| locale.get(&format!("{prefix}.{code}.short"))).flatten();
        short.or_else(|| locale.get(&format!("{prefix}.{code}")))
    };
    let (mut script, mut region) = (id.script, id.region);
    let mut base = None;
    if options.language_display == LanguageDisplay::Dialect {
        let candidates = [
            script.zip(region).map(|(script, region)| (format!("{}-{script}-{region}", id.language), true, true)),
            region.map(|region| (format!("{}-{region}", id.language), false, true)),
            script.map(|script| (format!("{}-{script}", id.language), true, false)),
        ];
        for (code, has_script, has_region) in candidates.into_iter().flatten() {
            if let Some(name) = named("dn.l", &code) {
                base = Some(name);
                script = script.filter(|_| !has_script);
                region = region.filter(|_| !has_region);
                break;
            }
        }
    }
    let base = base.or_else(|| named("dn.l", id.language.as_str()))?.to_owned();
    let mut more: Vec<String> = Vec::new();
    more.extend(script.map(|script| named("dn.s", script.as_str()).map_or_else(|| script.to_string(), str::to_owned)));
    more.extend(region.map(|region| named("dn.r", region.as_str()).map_or_else(|| region.to_string(), str::to_owned)));
    if more.is_empty() {
        return Some(base);
    }
    let patterns = locale.list("dn.patterns");
    let separator = patterns.get(1).unwrap_or("{0}, {1}");
    let more = more.into_iter().reduce(|first, second| separator.replace("{0}", &first).replace("{1}", &second))?;
    Some(
        patterns
            .get(0)
            .unwrap_or("{0} ({1})")
            .replace("{0}", &base)
            .replace("{1}", &more.replace('(', "[").replace(')', "]")),
    )
}

/// The currencies that have a name.
pub(crate) fn currencies() -> Vec<&'static str> {
    let english = Locale::find("en").expect("the table has English");
    english.with_prefix("c.").map(|(code, _)| code).filter(|code| code.len() == 3).collect()
}

/// Values for `Intl.supportedValuesOf`.
pub(crate) fn numbering_systems() -> Vec<&'static str> {
    number::numbering_systems()
}
