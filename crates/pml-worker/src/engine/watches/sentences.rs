//! What is said of the values that were looked at.

use super::{
    super::{quantities, slips::in_quotes},
    looks::{Part, Seen, Variant},
    plain::{Plain, all_written, is_equal, written},
};
use crate::transpile::{Keys, Literal, Number, Shape, Source, Treatment, Usage, Watched, last_name};

/// Properties that stand for an object, the likeliest first.
pub(super) const NAMES: [&str; 8] = ["name", "login", "id", "value", "title", "label", "key", "username"];
/// Words in names of numbers that are no point in time.
const SPANS: [&str; 22] = [
    "duration",
    "elapsed",
    "uptime",
    "milliseconds",
    "millis",
    "ms",
    "birth",
    "birthday",
    "dob",
    "offset",
    "size",
    "bytes",
    "age",
    "ttl",
    "window",
    "retention",
    "interval",
    "period",
    "timeout",
    "delay",
    "lookback",
    "range",
];
/// Milliseconds of a day.
const DAY: f64 = 86_400_000.0;

/// An object that is compared with texts or numbers, or a list of objects that is searched for one.
pub(super) fn of_object(watched: &Watched, seen: &Seen, treatment: Treatment) -> Option<String> {
    let Watched { value, usage, .. } = watched;
    let Part { tool, shape, property } = seen.object.as_ref()?;
    if seen.has_plain || treatment.is_tested {
        return None;
    }
    let what = shape.describe();
    let name = |shape: &Shape| {
        let obvious = NAMES.iter().find(|name| shape.keys().any(|key| key == **name));
        property.clone().or_else(|| obvious.map(|name| (*name).to_owned()))
    };
    match usage {
        Usage::Searched(literal) => {
            let literal = written(literal);
            let advice = name(shape).map(|name| format!(": write `{value}.some((it) => it.{name} === {literal})`"));
            Some(format!(
                "the elements of `{value}` are objects of the result of {tool}, and {literal} is never among them: the first is \
                 {what}{}",
                advice.unwrap_or_default()
            ))
        }
        // A word that stands for none, if the program knows that it is an object otherwise.
        Usage::Compared { .. } if treatment.is_entered && property.is_none() => None,
        Usage::Compared { with, .. } if with.iter().all(|it| matches!(it, Literal::Boolean(_))) => None,
        Usage::Compared { with, .. } => {
            let literals = all_written(with);
            let first = with.first().map(written).unwrap_or_default();
            let advice = match shape {
                Shape::Array(_, Some(element)) if matches!(**element, Shape::Object(_)) => {
                    name(element).map(|name| format!(": did you mean `{value}.some((it) => it.{name} === {first})`?"))
                }
                Shape::Array(..) => match with.first() {
                    Some(Literal::Number(_)) => Some(format!(": did you mean `{value}.length`?")),
                    _ => Some(format!(": did you mean `{value}.includes({first})`?")),
                },
                shape => name(shape).map(|name| {
                    let optional = if seen.has_null || seen.has_undefined { "?" } else { "" };
                    format!(": did you mean `{value}{optional}.{name}`?")
                }),
            };
            Some(format!(
                "`{value}` is {what}, a part of the result of {tool}, and never equals {literals}{}",
                advice.unwrap_or_default()
            ))
        }
        _ => None,
    }
}

/// A text in another case, or a number in place of a text.
pub(super) fn of_variant(watched: &Watched, seen: &Seen, treatment: Treatment, known: &[&Literal]) -> Option<String> {
    let Watched { value, usage, .. } = watched;
    if treatment.is_tested || treatment.is_folded {
        return None;
    }
    let (with, is) = match usage {
        Usage::Compared { with, .. } => (&with[..], "is"),
        Usage::Searched(literal) => (std::slice::from_ref(literal), "has"),
        _ => return None,
    };
    // A value that the program compares as it is, too, is meant.
    let is_known = |variant: &Variant| known.iter().any(|literal| is_equal(literal, &variant.value, true));
    let mut wrong = seen.variants.iter().filter(|(index, variant)| !seen.equal.contains(index) && !is_known(variant));
    let (index, variant) = wrong.next()?;
    let literal = with.get(*index)?;
    // `x.a === true || String(x.a) === "true"` compares the other kind, too.
    if treatment.is_converted && !matches!((&variant.value, literal), (Plain::Text(_), Literal::Text(_))) {
        return None;
    }
    let written_literal = written(literal);
    let advice = match (&variant.value, literal) {
        (Plain::Text(text), Literal::Text(literal)) if text.trim() == literal.as_str() => {
            "take its space off with `trim()` first".to_owned()
        }
        (Plain::Text(text), Literal::Text(_)) => format!("compare with {}", in_quotes(text)),
        (Plain::Text(text), _) => format!("compare with the text {}", in_quotes(text)),
        (Plain::Number(number), _) => format!("compare with the number {number}"),
        (Plain::Boolean(flag), _) => format!("compare with `{flag}`"),
    };
    Some(format!("`{value}` {is} {}, which is never equal to {written_literal}: {advice}", variant.shown))
}

/// A text that is in the case of the literal in some places, and in another case in others.
pub(super) fn of_mixed(watched: &Watched, seen: &Seen, treatment: Treatment, known: &[&Literal]) -> Option<String> {
    let Usage::Compared { with, .. } = &watched.usage else { return None };
    if treatment.is_tested || treatment.is_folded {
        return None;
    }
    let value = &watched.value;
    seen.variants.iter().filter(|(index, _)| seen.equal.contains(index)).find_map(|(index, variant)| {
        let (Some(Literal::Text(literal)), Plain::Text(text)) = (with.get(*index), &variant.value) else { return None };
        let is_known = known.iter().any(|literal| is_equal(literal, &variant.value, true));
        let is_case = literal.to_lowercase() == text.to_lowercase() && !is_known;
        is_case.then(|| {
            format!(
                "`{value}` is {} in some places and {} in others: compare `{value}.toLowerCase()`",
                in_quotes(literal),
                in_quotes(text)
            )
        })
    })
}

/// Two values that are compared and of kinds that are never equal: an object and a text, or a text and a number.
pub(super) fn of_side(
    watched: &Watched,
    seen: &Seen,
    treatment: Treatment,
    (other, other_seen): (&Watched, &Seen),
) -> Option<String> {
    let (value, other) = (&watched.value, &other.value);
    if treatment.is_tested {
        return None;
    }
    if let Some(Part { tool, shape, .. }) = &seen.object {
        if seen.has_plain || treatment.is_entered || other_seen.object.is_some() || !other_seen.has_plain {
            return None;
        }
        let what = shape.describe();
        let name = NAMES.iter().find(|name| shape.keys().any(|key| key == **name));
        let advice = name.map(|name| format!(": did you mean `{value}.{name}`?")).unwrap_or_default();
        return Some(format!(
            "`{value}` is {what}, a part of the result of {tool}, and never equals `{other}`, which is none{advice}"
        ));
    }
    let is_other_kind = seen.has_text && !seen.has_number && other_seen.has_number && !other_seen.has_text;
    let shared = seen.numbers.intersection(&other_seen.numbers).next().copied().filter(|_| is_other_kind)?;
    let number = f64::from_bits(shared);
    Some(format!(
        "`{value}` is a text and `{other}` a number, which are never equal, such as \"{number}\" and {number}: write \
         `Number({value}) === {other}`"
    ))
}

/// Two objects of the same content that are compared, and that were never the same object.
pub(super) fn of_twin(
    watched: &Watched,
    seen: &Seen,
    source: &Source,
    (other, _): (&Watched, &Seen),
) -> Option<String> {
    let (value, other) = (&watched.value, &other.value);
    let Part { tool, shape, .. } = seen.object.as_ref().filter(|_| seen.has_twin && !seen.has_same)?;
    // What they hold is compared, too: `a.owner === b.owner || a.owner.id === b.owner.id`.
    let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
    let is_compared = |rest: &&str| {
        let name = rest.trim_start_matches(['!', '?']).strip_prefix('.');
        name.is_some_and(|name| name.trim_start_matches(is_part).trim_start().starts_with(['=', '!']))
    };
    if source.treatment(value).is_tested || [value, other].iter().any(|it| source.uses(it).iter().any(is_compared)) {
        return None;
    }
    let name = NAMES.iter().find(|name| shape.keys().any(|key| key == **name));
    let advice = name.map(|name| format!(": compare `{other}.{name}` and `{value}.{name}`")).unwrap_or_default();
    Some(format!(
        "`{value}` is an object of the result of {tool}, and `{other}` is another one with the same content, which is not equal to \
         it{advice}"
    ))
}

/// Seconds that are taken for milliseconds.
pub(super) fn of_seconds(watched: &Watched, seen: &Seen) -> Option<String> {
    let Usage::Time { is_date } = watched.usage else { return None };
    let seconds = seen.seconds.filter(|_| !seen.has_milliseconds)?;
    let value = &watched.value;
    if is_span(last_name(value)) {
        return None;
    }
    let month = if seconds < 31.0 * DAY { "January" } else { "February" };
    let product = format!("{} * 1000", value.strip_prefix('+').unwrap_or(value));
    Some(match is_date {
        true => format!(
            "`{value}` is {seconds}, seconds by its size, and a date counts milliseconds, which gives {month} 1970: write \
             `new Date({product})`"
        ),
        false => format!(
            "`{value}` is {seconds}, seconds by its size, and what it is compared with counts milliseconds: write `{product}`"
        ),
    })
}

/// Milliseconds, or the text of a date, that are taken for seconds.
pub(super) fn of_milliseconds(watched: &Watched, seen: &Seen) -> Option<String> {
    let value = &watched.value;
    if watched.usage != Usage::Seconds {
        return None;
    }
    let advice = format!("write `new Date({value})`");
    if let Some(text) = &seen.no_number {
        return Some(format!(
            "`{value}` is the text {}, which is no number, and 1000 times it is NaN: {advice}",
            in_quotes(text)
        ));
    }
    let number = seen.seconds?;
    Some(format!(
        "`{value}` is {number}, milliseconds by its size, and 1000 times it is a date after the year 5000: {advice}"
    ))
}

/// A number that methods of texts cut out of a text that says another one.
pub(super) fn of_amount(watched: &Watched, seen: &Seen) -> Option<String> {
    let text = seen.no_number.as_ref().filter(|_| watched.usage == Usage::Amount)?;
    let number = quantities::number_of(text)?;
    let made = if seen.made.is_nan() { "NaN".to_owned() } else { seen.made.to_string() };
    Some(format!("`{}` makes {made} of the text {}, which says {number}", watched.value, in_quotes(text)))
}

/// Amounts in different units, of which only the numbers are taken.
pub(super) fn of_units(watched: &Watched, seen: &Seen, source: &Source) -> Option<String> {
    let [Some((unit, text)), Some((other_unit, other))] = &seen.units else { return None };
    // Of parts it is told already, and who knows the units reckons with them.
    if seen.no_number.is_some() || [unit, other_unit].iter().any(|unit| source.names_unit(unit)) {
        return None;
    }
    Some(format!(
        "`{}` drops units that differ, as in {} and {}: reckon with the unit of each",
        watched.value,
        in_quotes(text),
        in_quotes(other)
    ))
}

/// An object that a number is made of.
pub(super) fn of_object_as_number(watched: &Watched, seen: &Seen, treatment: Treatment) -> Option<String> {
    let Usage::Number(_) = watched.usage else { return None };
    let Part { tool, shape, .. } = seen.object.as_ref().filter(|_| !treatment.is_tested)?;
    let value = &watched.value;
    let what = shape.describe();
    if let Shape::Array(..) = shape {
        return Some(format!("`{value}` is {what}, a part of the result of {tool}, and no number"));
    }
    let names = ["value", "amount", "number", "count", "total", "seconds", "minutes", "cents"];
    let name = names.iter().find(|name| shape.keys().any(|key| key == **name));
    let advice = name.map(|name| format!(": did you mean `{value}.{name}`?")).unwrap_or_default();
    Some(format!("`{value}` is {what}, a part of the result of {tool}, and as a number it is NaN{advice}"))
}

/// A result that is no list, and has none of the names that one is looked for under: `res.items ?? res`.
pub(super) fn of_alternative(watched: &Watched, seen: &Seen, source: &Source) -> Option<String> {
    let Usage::Alternative(name) = &watched.usage else { return None };
    if seen.has_plain || !source.is_counted(name) {
        return None;
    }
    if let Some(text) = &seen.no_number {
        let start = text.find(['[', '{']).filter(|at| *at > 0 && text[*at..].contains('"'));
        let advice = match start {
            Some(at) => {
                format!(
                    "take the JSON out of it first: `JSON.parse({name}.slice({name}.indexOf({:?})))`",
                    &text[at..=at]
                )
            }
            None => "take the text apart first, as by `.split(\"\\n\")`".to_owned(),
        };
        return Some(format!(
            "`{name}` is the text {}, of which the length and the elements are characters: {advice}",
            in_quotes(text)
        ));
    }
    let Part { tool, shape, .. } = seen.object.as_ref()?;
    let whole = watched.value.rsplit(['?', '|', ' ']).next().unwrap_or_default();
    let advice = shape.list().map(|way| format!(": did you mean `{whole}{way}`?")).unwrap_or_default();
    Some(format!("`{name}` is the result of {tool} as a whole, {}, and no list{advice}", shape.describe()))
}

/// `null`, of which a date is the beginning of 1970 and a number 0.
pub(super) fn of_null(watched: &Watched, seen: &Seen, source: &Source) -> Option<String> {
    let value = &watched.value;
    if !seen.has_null || source.has_default_behind(watched) {
        return None;
    }
    match watched.usage {
        Usage::Time { is_date: true } => Some(format!(
            "`{value}` is null, and `new Date(null)` is 1970-01-01: leave out what has no date first, as in `filter`"
        )),
        // Of a sum, nothing is 0.
        Usage::Number(Number::Other) if source.takes_averages() => Some(format!(
            "`{value}` is null, and `Number(null)` is 0, which counts in an average or minimum: leave it out first, as in `filter`"
        )),
        _ => None,
    }
}

/// `null` among the numbers of a mean or of a least one.
pub(super) fn of_nulls(watched: &Watched, seen: &Seen) -> Option<String> {
    let value = &watched.value;
    if !seen.has_null || !seen.has_number {
        return None;
    }
    match watched.usage {
        Usage::Averaged => Some(format!(
            "`{value}` is null among numbers, which counts as 0 in the mean: leave it out first, as in `filter((it) => it.{} != null)`, \
             also for the length",
            last_name(value)
        )),
        Usage::Least => Some(format!(
            "`{value}` has null among its numbers, which Math.min takes for 0: leave it out first, as in `.filter((it) => it != null)`"
        )),
        _ => None,
    }
}

/// An object or text that no date can be made of.
pub(super) fn of_date(watched: &Watched, seen: &Seen, treatment: Treatment, source: &Source) -> Option<String> {
    let (Usage::Time { is_date: true } | Usage::DateText) = watched.usage else { return None };
    let knows = ["isNaN(", "isFinite(", "Invalid Date"];
    if let Some(text) = seen.no_number.as_ref().filter(|_| !knows.iter().any(|it| source.has_text(it))) {
        let value = &watched.value;
        let (why, advice) = match text.trim().parse::<f64>() {
            Ok(seconds) if seconds.abs() < 1e11 => ("", format!("write `new Date(Number({value}) * 1000)`")),
            Ok(_) => ("", format!("write `new Date(Number({value}))`")),
            Err(_) if quantities::is_day_first(text) => {
                (", whose day stands first", "pass year, month and day".to_owned())
            }
            Err(_) => ("", "bring it into the form \"2024-01-31\" first".to_owned()),
        };
        return Some(format!(
            "`{value}` is the text {}{why}, and `new Date` of it is an Invalid Date, which is neither before nor after any: {advice}",
            in_quotes(text)
        ));
    }
    let Part { tool, shape, .. } = seen.object.as_ref().filter(|_| !treatment.is_tested)?;
    let value = &watched.value;
    let name = ["dateTime", "date", "time", "timestamp", "iso", "value"];
    let name = name.iter().find(|name| shape.keys().any(|key| key == **name));
    let advice = name.map(|name| format!(": did you mean `{value}.{name}`?")).unwrap_or_default();
    Some(format!(
        "`{value}` is {}, a part of the result of {tool}, and `new Date` of it is an Invalid Date{advice}",
        shape.describe()
    ))
}

/// Does a name say that the number is no point in time: `wait_ms`, `maxAge`?
fn is_span(name: &str) -> bool {
    let mut words = vec![String::new()];
    for (index, character) in name.char_indices() {
        let is_break = !character.is_alphanumeric() || character.is_uppercase() && index > 0;
        if is_break {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
            word.extend(character.to_lowercase());
        }
    }
    words.iter().any(|word| SPANS.contains(&word.as_str()))
}

/// `null` in place of `undefined`, or the other way round.
pub(super) fn of_nothing(watched: &Watched, seen: &Seen, known: &[&Literal]) -> Option<String> {
    let value = &watched.value;
    let (is_never, is, not, has_other) = match watched.usage {
        Usage::Nothing { is_null: true } => (!seen.has_null, "undefined", "null", Literal::Undefined),
        Usage::Nothing { is_null: false } => (!seen.has_undefined, "null", "undefined", Literal::Null),
        _ => return None,
    };
    let has_seen = if is == "null" { seen.has_null } else { seen.has_undefined };
    (is_never && has_seen && !known.contains(&&has_other)).then(|| {
        format!("`{value}` is {is}, which is never equal to {not}: compare with `== null`, which is true of both")
    })
}

/// A text that is no number, where one is made of it.
pub(super) fn of_no_number(watched: &Watched, seen: &Seen) -> Option<String> {
    let Usage::Number(made) = watched.usage else { return None };
    let text = seen.no_number.as_ref()?;
    let value = &watched.value;
    let is_passed_over = quantities::is_passed_over(text);
    let what = match made {
        Number::Ordered => "which is no number: as NaN it is neither less nor more than any",
        Number::Sorted => "which is no number: the comparator gives NaN, and the order is wrong",
        // What parseFloat and parseInt take the beginning of is not lost.
        Number::Defaulted => "which is no number, and the number behind it is taken in place of NaN",
        Number::ParsedOr | Number::WholeOr if is_passed_over => {
            "which is no number, and the number behind it is taken in place of NaN"
        }
        Number::Parsed | Number::Whole if is_passed_over => "of which parseFloat and parseInt make NaN",
        Number::Parsed | Number::Whole | Number::ParsedOr | Number::WholeOr => {
            "of which parseFloat and parseInt take only the beginning"
        }
        // Words stand for no number, and that of a code or date is in the result, if anywhere.
        Number::Other | Number::Computed if seen.is_amount => "which is no number: it becomes NaN",
        Number::Other | Number::Computed | Number::Checked => return None,
    };
    let is_cut = what.ends_with("beginning");
    let advice = match made {
        _ if is_cut || made == Number::Sorted || made == Number::Ordered => quantities::reading(text, value),
        _ => quantities::reading_of_any(text, value),
    };
    let advice = advice.map(|it| format!(": {it}")).unwrap_or_default();
    Some(format!("`{value}` is the text {}, {what}{advice}", in_quotes(text)))
}

/// An object that is used as a key, or objects that are told apart by what they are, not by what they hold.
pub(super) fn of_key(watched: &Watched, seen: &Seen, treatment: Treatment) -> Option<String> {
    let value = &watched.value;
    let Part { tool, shape, .. } = seen.object.as_ref().filter(|_| !treatment.is_tested)?;
    let what = shape.describe();
    let name = NAMES.iter().find(|name| shape.keys().any(|key| key == **name));
    match watched.usage {
        Usage::Key => {
            let advice = name.map(|name| format!(": did you mean `{value}.{name}`?")).unwrap_or_default();
            Some(format!(
                "`{value}` is {what}, a part of the result of {tool}, and as a key it is a text of all of it{advice}"
            ))
        }
        Usage::Identity(keys) if seen.has_twin => {
            let is_list = keys != Keys::One;
            let advice = match (name, is_list) {
                (Some(name), true) => format!(": use a property of them, such as `{name}`"),
                (Some(name), false) => format!(": did you mean `{value}.{name}`?"),
                (None, _) => String::new(),
            };
            let subject = if is_list { "holds objects" } else { "is an object" };
            Some(format!(
                "`{value}` {subject} of the result of {tool}, and a Set or Map tells objects with the same content apart: the first is \
                 {what}{advice}"
            ))
        }
        _ => None,
    }
}

/// An object, or a list of objects, that becomes its JSON in a text.
pub(super) fn of_text(watched: &Watched, seen: &Seen, treatment: Treatment) -> Option<String> {
    let Part { tool, shape, .. } = seen.object.as_ref().filter(|_| watched.usage == Usage::Written)?;
    if treatment.is_tested {
        return None;
    }
    let value = &watched.value;
    let (is_list, object) = match shape {
        Shape::Array(_, Some(element)) => (true, &**element),
        shape => (false, shape),
    };
    let name = NAMES.iter().find(|name| object.keys().any(|key| key == **name));
    let advice = match (name, is_list) {
        (Some(name), true) => format!(": did you mean `{value}.map((it) => it.{name}).join(\", \")`?"),
        (Some(name), false) => format!(": did you mean `{value}.{name}`?"),
        (None, _) => ": write the properties that are meant, or `JSON.stringify(…)`".to_owned(),
    };
    let elements = if is_list { format!(", each {}", object.describe()) } else { String::new() };
    Some(format!(
        "`{value}` is {}{elements}, a part of the result of {tool}, and in a text it is all of its JSON{advice}",
        shape.describe()
    ))
}

#[cfg(test)]
mod tests {
    use super::is_span;

    #[test]
    fn names_of_spans_of_time() {
        let table = [
            ("wait_ms", true),
            ("maxAge", true),
            ("duration", true),
            ("created", false),
            ("messages", false),
            ("package_at", false),
            ("items", false),
        ];
        for (name, expected) in table {
            assert_eq!(is_span(name), expected, "{name}");
        }
    }
}
