//! Locales as programs name them, and which locale of the table serves a request.
//!
//! Tags are parsed, canonicalized and completed by ICU4X. [`resolve`] is the `ResolveLocale` of ECMA-402, with one
//! difference: a request for languages of which none is in the table is refused, where the standard would use the default locale
//! without a word.

use std::collections::BTreeMap;

use icu_locale::{
    LanguageIdentifier, LocaleCanonicalizer, LocaleExpander,
    extensions::unicode::{Key, Value},
    subtags::Language,
};

use super::{Failure, table};

/// The locale of a program that names none.
pub(crate) const DEFAULT: &str = "en-US";
/// Longest tag. The standard knows no limit; subtags of a useful tag fit many times.
const MAX_TAG_BYTES: usize = 1000;

/// A tag that is well-formed and canonical.
pub(crate) fn canonical(tag: &str) -> Result<icu_locale::Locale, Failure> {
    let invalid = || Failure::range(format!("Incorrect locale information provided: `{}`", super::shortened(tag)));
    if tag.len() > MAX_TAG_BYTES || !tag.is_ascii() {
        return Err(invalid());
    }
    // Private use alone is no language, and the root is no locale of ECMA-402's grammar.
    let mut locale = icu_locale::Locale::try_from_str(tag).map_err(|_| invalid())?;
    if tag.len() < 2 || tag.contains('_') || has_duplicates(tag) {
        return Err(invalid());
    }
    LocaleCanonicalizer::new_extended().canonicalize(&mut locale);
    Ok(locale)
}

/// A tag must not name a variant or a singleton twice.
fn has_duplicates(tag: &str) -> bool {
    let mut singletons = [false; 128];
    for subtag in tag.split('-').skip(1) {
        if let [byte] = subtag.to_ascii_lowercase().as_bytes() {
            if *byte == b'x' {
                return false;
            }
            if std::mem::replace(&mut singletons[usize::from(*byte & 127)], true) {
                return true;
            }
        }
    }
    false
}

/// A locale that was found for a request.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The part of the tag that was served, without extensions.
    pub(crate) id: LanguageIdentifier,
    pub(crate) data: table::Locale,
}

/// The tag with script and region filled in.
pub(crate) fn maximized(id: &LanguageIdentifier) -> LanguageIdentifier {
    let mut id = id.clone();
    LocaleExpander::new_extended().maximize(&mut id);
    id
}

/// The longest prefix of a tag that the table has data for.
pub(crate) fn find(id: &LanguageIdentifier) -> Option<Found> {
    let mut id = LanguageIdentifier { variants: Default::default(), ..id.clone() };
    if id.language == Language::UNKNOWN {
        return None;
    }
    let data = data_of(&id)?;
    if let Some(region) = id.region {
        // A region that the language is not at home in has no data of its own.
        let without = LanguageIdentifier { region: None, script: maximized(&id).script, ..id.clone() };
        let is_known = maximized(&without).region == Some(region) || data.name().ends_with(&format!("-{region}"));
        if !is_known {
            id.region = None;
            return Some(Found { data: data_of(&id)?, id });
        }
    }
    Some(Found { id, data })
}

fn data_of(id: &LanguageIdentifier) -> Option<table::Locale> {
    let full = maximized(id);
    let (language, script, region) = (full.language, full.script?, full.region?);
    let has_usual_script = |id: LanguageIdentifier| maximized(&id).script == Some(script);
    let with = |script, region| LanguageIdentifier { language, script, region, variants: Default::default() };
    [
        Some(format!("{language}-{script}-{region}")),
        has_usual_script(with(None, Some(region))).then(|| format!("{language}-{region}")),
        Some(format!("{language}-{script}")),
        has_usual_script(with(None, None)).then(|| language.to_string()),
    ]
    .into_iter()
    .flatten()
    .find_map(|name| table::Locale::find(&name))
}

/// A keyword of a tag's `-u-` extension, such as `nu`. A keyword without a value is `true`.
pub(crate) fn keyword(locale: &icu_locale::Locale, key: &str) -> Option<String> {
    let value = locale.extensions.unicode.keywords.get(&Key::try_from_str(key).ok()?)?;
    Some(if value.is_empty() { "true".to_owned() } else { value.to_string() })
}

/// What a request resolves to.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// The tag, with the keywords that it had and that count.
    pub(crate) tag: String,
    pub(crate) found: Found,
    /// The values of keywords that were asked for, by tag or option.
    pub(crate) keywords: BTreeMap<&'static str, String>,
}

/// Finds the first of the requested locales that is there. Of its keywords those in `keys` count, unless an option says
/// otherwise, if `is_supported` says so.
pub(crate) fn resolve(
    requested: &[String],
    keys: &[&'static str],
    options: &BTreeMap<String, String>,
    is_supported: impl Fn(table::Locale, &str, &str) -> bool,
) -> Result<Resolved, Failure> {
    let mut missing = None;
    let mut choice = None;
    for tag in requested {
        let locale = canonical(tag)?;
        if let Some(found) = find(&locale.id) {
            choice = Some((locale, found));
            break;
        }
        if locale.id.language != Language::UNKNOWN {
            missing.get_or_insert_with(|| tag.clone());
        }
    }
    let (locale, found) = match (choice, missing) {
        (Some(choice), _) => choice,
        (None, Some(tag)) => {
            return Err(Failure::range(format!(
                "the locale `{}` is not supported here: use one that Intl.NumberFormat.supportedLocalesOf() finds, or leave the \
                 locale out",
                super::shortened(&tag)
            )));
        }
        (None, None) => {
            let locale = canonical(DEFAULT)?;
            let found = find(&locale.id).expect("the table has the default locale");
            (locale, found)
        }
    };
    let mut shown = icu_locale::Locale::from(found.id.clone());
    let mut keywords = BTreeMap::new();
    for &key in keys {
        let own = keyword(&locale, key).filter(|value| is_supported(found.data, key, value));
        let option = options.get(key).filter(|value| is_supported(found.data, key, value));
        if let Some(value) = option.or(own.as_ref()) {
            keywords.insert(key, value.clone());
        }
        // The keyword stays in the tag if it is what counts.
        if let Some(value) = &own
            && option.is_none_or(|option| option == value)
            && let (Ok(key), Ok(parsed)) = (Key::try_from_str(key), Value::try_from_str(value))
        {
            let parsed = if value == "true" { Value::default() } else { parsed };
            shown.extensions.unicode.keywords.set(key, parsed);
        }
    }
    Ok(Resolved { tag: shown.to_string(), found, keywords })
}

/// Those of the requested locales that are there, as they were canonicalized.
pub(crate) fn supported(requested: &[String]) -> Result<Vec<String>, Failure> {
    let mut tags = Vec::new();
    for tag in requested {
        let locale = canonical(tag)?;
        if find(&locale.id).is_some() {
            tags.push(locale.to_string());
        }
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_finds_the_nearest_locale_of_the_table() {
        #[rustfmt::skip]
        let table = [
            // tag           data        shown
            ("en-US",        "en",       "en-US"),
            ("en-GB",        "en-GB",    "en-GB"),
            ("en-XX",        "en",       "en"),
            ("de-US",        "de",       "de"),
            ("zh-TW",        "zh-Hant",  "zh-TW"),
            ("zh-HK",        "zh-Hant-HK", "zh-HK"),
            ("zh-CN", "zh-Hans", "zh-CN"),
            ("sr-Latn-RS",   "sr-Latn",  "sr-Latn-RS"),
            ("pt-BR",        "pt",       "pt-BR"),
            ("nb-NO",        "nb",       "nb-NO"),
            ("iw",           "he",       "he"),
            ("de-DE-1996",   "de",       "de-DE"),
        ];
        for (tag, data, shown) in table {
            let found = find(&canonical(tag).unwrap().id).unwrap();
            assert_eq!((found.data.name(), found.id.to_string().as_str()), (data, shown), "{tag}");
        }
    }

    #[test]
    fn what_is_no_tag_is_refused() {
        for tag in [
            "",
            "x",
            "i",
            "en_US",
            "en-",
            "e",
            "en-US-u-nu-latn-u-ca-buddhist",
            "de-1996-1996",
            "ü",
            &"en-".repeat(500),
        ] {
            assert!(canonical(tag).is_err(), "{tag}");
        }
    }
}
