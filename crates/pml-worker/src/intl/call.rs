//! The one door from the engine: an operation's name, its options as JSON, and up to two arguments.

use std::rc::Rc;

use serde::de::DeserializeOwned;
use serde_json::json;

use super::{
    Failure, Part,
    cache::Cache,
    case,
    collate::{Collation, CollationOptions},
    date::{Calendar, DateFormat, DateOptions, long_name},
    list::{ListFormat, ListOptions},
    locale::{canonical, supported},
    locale_info,
    names::{self, NameOptions},
    number::{Amount, NumberFormat, NumberOptions, currency_digits},
    part::joined,
    plural::{self, PluralOptions, Plurals},
    relative::{RelativeFormat, RelativeOptions},
    segment,
    zone::{self, Zone},
};

/// What a program passes.
#[derive(Clone, Debug)]
pub(crate) enum Argument {
    Nothing,
    Number(f64),
    /// A text, or the digits of a bigint.
    Text(String),
    Texts(Vec<String>),
}

/// What it gets.
#[derive(Debug)]
pub(crate) enum Answer {
    Number(f64),
    Text(String),
    Parts(Vec<Part>),
    /// To be parsed.
    Json(String),
}

thread_local! {
    static NUMBERS: Cache<NumberFormat> = const { Cache::new() };
    static DATES: Cache<DateFormat> = const { Cache::new() };
    static PLURALS: Cache<Plurals> = const { Cache::new() };
    static LISTS: Cache<ListFormat> = const { Cache::new() };
    static RELATIVES: Cache<RelativeFormat> = const { Cache::new() };
    static COLLATIONS: Cache<Collation> = const { Cache::new() };
}

/// Does one operation.
pub(crate) fn call(operation: &str, options: &str, first: Argument, second: Argument) -> Result<Answer, Failure> {
    let json = |value: serde_json::Value| Ok(Answer::Json(value.to_string()));
    match operation {
        "number" => Ok(Answer::Text(joined(&number(options)?.format(&amount(first)?)))),
        "numberParts" => Ok(Answer::Parts(number(options)?.format(&amount(first)?))),
        "numberRange" => Ok(Answer::Text(joined(&number(options)?.format_range(&amount(first)?, &amount(second)?)?))),
        "numberRangeParts" => Ok(Answer::Parts(number(options)?.format_range(&amount(first)?, &amount(second)?)?)),
        "timeSeparator" => Ok(Answer::Text(number(options)?.time_separator().to_owned())),
        "currencyDigits" => Ok(Answer::Number(currency_digits(&text(first)?).into())),
        "date" => Ok(Answer::Text(joined(&date(options)?.format(time(&first)?)))),
        "dateParts" => Ok(Answer::Parts(date(options)?.format(time(&first)?))),
        "dateRange" => Ok(Answer::Text(joined(&date(options)?.format_range(time(&first)?, time(&second)?)))),
        "dateRangeParts" => Ok(Answer::Parts(date(options)?.format_range(time(&first)?, time(&second)?))),
        "dateFields" => json(serde_json::Value::Object(date(options)?.fields())),
        "zone" => Ok(Answer::Text(Zone::find(&text(first)?)?.name().to_owned())),
        "zoneName" => {
            let at = (time(&first)? / 1000.0).floor() as i64;
            Ok(Answer::Text(long_name(at, &Zone::find(&text(second)?)?)))
        }
        "compare" => {
            let made =
                COLLATIONS.with(|kept| kept.get(options, || Collation::new(&parse::<CollationOptions>(options)?)))?;
            Ok(Answer::Number(made.compare(&text(first)?, &text(second)?).into()))
        }
        "plural" => Ok(Answer::Text(plural::name(plurals(options)?.select(&amount(first)?)).to_owned())),
        "pluralRange" => {
            let (from, to) = (amount(first)?, amount(second)?);
            if matches!(from, Amount::NotANumber) || matches!(to, Amount::NotANumber) {
                return Err(Failure::range("A range has two numbers"));
            }
            Ok(Answer::Text(plural::name(plurals(options)?.select_range(&from, &to)).to_owned()))
        }
        "pluralCategories" => json(json!(plurals(options)?.categories())),
        "list" => Ok(Answer::Text(joined(&list(options)?.format(texts(first)?)))),
        "listParts" => Ok(Answer::Parts(list(options)?.format(texts(first)?))),
        "relative" => Ok(Answer::Text(joined(&relative(options)?.format(finite(&first)?, &text(second)?)?))),
        "relativeParts" => Ok(Answer::Parts(relative(options)?.format(finite(&first)?, &text(second)?)?)),
        "segment" => {
            let ends = segment::ends(parse(options)?, &text(first)?);
            json(json!(ends.into_iter().map(|(end, is_word)| 2 * end + usize::from(is_word)).collect::<Vec<_>>()))
        }
        "name" => json(json!(names::name_of(&parse::<NameOptions>(options)?, &text(first)?)?)),
        "upper" => Ok(Answer::Text(case::upper(&text(first)?, &text(second)?)?)),
        "lower" => Ok(Answer::Text(case::lower(&text(first)?, &text(second)?)?)),
        "canonical" => Ok(Answer::Text(canonical(&text(first)?)?.to_string())),
        "supported" => json(json!(supported(&texts(first)?)?)),
        "resolve" => json(locale_info::resolve(&parse(options)?)?),
        "locale" => json(locale_info::describe(&text(first)?, &parse(options)?)?),
        "maximize" => Ok(Answer::Text(locale_info::likely(&text(first)?, true)?)),
        "minimize" => Ok(Answer::Text(locale_info::likely(&text(first)?, false)?)),
        "customs" => json(locale_info::customs(&text(first)?)?),
        "values" => json(json!(values(&text(first)?)?)),
        _ => Err(Failure::type_error("there is no such operation")),
    }
}

/// What `Intl.supportedValuesOf` gives.
fn values(key: &str) -> Result<Vec<&'static str>, Failure> {
    let calendars = [
        "buddhist",
        "gregory",
        "hebrew",
        "islamic-civil",
        "islamic-tbla",
        "islamic-umalqura",
        "iso8601",
        "japanese",
        "persian",
        "roc",
    ];
    Ok(match key {
        "calendar" => calendars.into_iter().filter(|name| Calendar::find(name).is_some()).collect(),
        "collation" => vec!["compat", "dict", "emoji", "eor", "phonebk", "pinyin", "stroke", "trad", "zhuyin"],
        "currency" => names::currencies(),
        "numberingSystem" => names::numbering_systems(),
        "timeZone" => zone::names(),
        _ => return Err(Failure::range(format!("Invalid key: `{}`", super::shortened(key)))),
    })
}

fn parse<T: DeserializeOwned>(options: &str) -> Result<T, Failure> {
    serde_json::from_str(options).map_err(|_| Failure::type_error("the options are not understood"))
}

fn number(options: &str) -> Result<Rc<NumberFormat>, Failure> {
    NUMBERS.with(|kept| kept.get(options, || NumberFormat::new(parse::<NumberOptions>(options)?)))
}

fn date(options: &str) -> Result<Rc<DateFormat>, Failure> {
    DATES.with(|kept| kept.get(options, || DateFormat::new(&parse::<DateOptions>(options)?)))
}

fn plurals(options: &str) -> Result<Rc<Plurals>, Failure> {
    PLURALS.with(|kept| kept.get(options, || Plurals::new(parse::<PluralOptions>(options)?)))
}

fn list(options: &str) -> Result<Rc<ListFormat>, Failure> {
    LISTS.with(|kept| kept.get(options, || ListFormat::new(&parse::<ListOptions>(options)?)))
}

fn relative(options: &str) -> Result<Rc<RelativeFormat>, Failure> {
    RELATIVES.with(|kept| kept.get(options, || RelativeFormat::new(parse::<RelativeOptions>(options)?)))
}

fn amount(argument: Argument) -> Result<Amount, Failure> {
    match argument {
        Argument::Number(value) => Ok(Amount::from_f64(value)),
        Argument::Text(text) => Amount::from_text(&text),
        Argument::Nothing | Argument::Texts(_) => Err(Failure::type_error("a number is missing")),
    }
}

fn text(argument: Argument) -> Result<String, Failure> {
    match argument {
        Argument::Text(text) => Ok(text),
        _ => Err(Failure::type_error("a text is missing")),
    }
}

fn texts(argument: Argument) -> Result<Vec<String>, Failure> {
    match argument {
        Argument::Texts(texts) => Ok(texts),
        _ => Err(Failure::type_error("a list of texts is missing")),
    }
}

fn finite(argument: &Argument) -> Result<f64, Failure> {
    match argument {
        Argument::Number(value) => Ok(*value),
        _ => Err(Failure::type_error("a number is missing")),
    }
}

/// A time that a `Date` can have.
fn time(argument: &Argument) -> Result<f64, Failure> {
    match argument {
        Argument::Number(value) if value.abs() <= 8.64e15 => Ok(value.trunc()),
        _ => Err(Failure::range("Invalid time value")),
    }
}
