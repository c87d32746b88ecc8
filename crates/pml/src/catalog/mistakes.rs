//! What is wrong with a value, in words that say what to change.
//!
//! A mistake reads `args.lines[1]: expected integer, got "x"`: the path, what was expected, and a short form of what came,
//! in that order. Types are written as in signatures, but for `integer`.
//!
//! **Invariant:** a mistake has a bounded length, and what came never takes the room of what was expected.

use jsonschema::{
    JsonType, ValidationError,
    error::{TypeKind, ValidationErrorKind},
};
use serde_json::{Map, Value};

use super::{
    schema::nearest,
    typescript::{self, quoted},
    unknown::meant,
};

/// Mistakes that one message names.
const MAX_MISTAKES: usize = 5;
/// Errors that are looked at.
const MAX_ERRORS: usize = 100;
/// Bytes of the values of an enum, about.
const MAX_VALUES: usize = 1000;
/// Bytes of a type, about.
const MAX_TYPE: usize = 400;
/// Bytes of what else is quoted from a schema.
const MAX_QUOTED: usize = 200;
/// Characters of a text that came, or of one name in it.
const MAX_CAME: usize = 40;
/// Names of an object that came.
const MAX_CAME_NAMES: usize = 5;
/// Bytes of a path.
const MAX_PATH: usize = 300;
/// How deep choices in choices are looked into.
const MAX_CHOICES: usize = 8;

/// What is wrong with a value called `name`, by the errors of checking it against `root`; empty if nothing is.
pub(super) fn describe<'e>(
    root: &Value,
    name: &str,
    errors: impl Iterator<Item = ValidationError<'e>>,
) -> Option<String> {
    let errors: Vec<_> = errors.filter(|error| !gave_up(error)).take(MAX_ERRORS).collect();
    let teller = Teller { root, name };
    let mut told = Vec::new();
    for error in &errors {
        for mistake in teller.tell(error, 0) {
            if !told.contains(&mistake) {
                told.push(mistake);
            }
        }
        if told.len() > MAX_MISTAKES {
            told.truncate(MAX_MISTAKES);
            told.push("and more".to_owned());
            break;
        }
    }
    (!told.is_empty()).then(|| told.join("; "))
}

/// A pattern that gave up has found nothing wrong.
fn gave_up(error: &ValidationError<'_>) -> bool {
    use ValidationErrorKind::{BacktrackLimitExceeded, RegexEngineFailure};
    matches!(error.kind(), BacktrackLimitExceeded { .. } | RegexEngineFailure { .. })
}

struct Teller<'a> {
    root: &'a Value,
    name: &'a str,
}

impl Teller<'_> {
    /// The mistakes that one error stands for.
    fn tell(&self, error: &ValidationError<'_>, depth: usize) -> Vec<String> {
        use ValidationErrorKind::*;
        let value = error.instance();
        match error.kind() {
            Required { property } => {
                let missing = property.as_str().unwrap_or_default();
                let path = self.path(error) + &path_of(missing);
                let schema = self.around(error).and_then(|schema| schema.get("properties")?.get(missing));
                let expected = schema.map_or_else(|| "a value".to_owned(), |schema| self.type_of(schema));
                vec![format!("{path}: expected {expected}, got nothing{}", self.misspelt(error, missing))]
            }
            AdditionalProperties { unexpected } | UnevaluatedProperties { unexpected } => {
                unexpected.iter().take(MAX_MISTAKES).map(|name| self.unexpected(error, name)).collect()
            }
            AnyOf { context } | OneOfNotValid { context } if depth < MAX_CHOICES => self.choice(error, context, depth),
            PropertyNames { error: inner } if depth < MAX_CHOICES => {
                let name = format!("`{}`", shortened(inner.instance().as_str().unwrap_or_default(), MAX_CAME));
                let inner = self.expected(inner, depth + 1);
                vec![format!("{}: expected names that are {inner}, got {name}", self.path(error))]
            }
            _ => {
                let expected = self.expected(error, depth);
                vec![format!("{}: expected {expected}, got {}{}", self.path(error), came(value), hint(error))]
            }
        }
    }

    /// What one error would have had.
    fn expected(&self, error: &ValidationError<'_>, depth: usize) -> String {
        use ValidationErrorKind::*;
        let limited = |least: &str, limit: &u64, noun: &str| {
            format!("{least} {limit} {noun}{}", if *limit == 1 { "" } else { "s" })
        };
        match error.kind() {
            Type { kind } => self.types(error, kind),
            Enum { options } => values(options.as_array().map_or(&[], Vec::as_slice)),
            Constant { expected_value } => literal(expected_value),
            AnyOf { context } | OneOfNotValid { context } if depth < MAX_CHOICES => self.any(context, depth),
            OneOfMultipleValid { .. } => {
                let schema = self.around(error).map(|schema| self.type_of(schema)).unwrap_or_default();
                format!("exactly one of {schema} to fit")
            }
            Minimum { limit } => format!("a number of at least {limit}"),
            Maximum { limit } => format!("a number of at most {limit}"),
            ExclusiveMinimum { limit } => format!("a number over {limit}"),
            ExclusiveMaximum { limit } => format!("a number under {limit}"),
            MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
            MinLength { limit } => limited("at least", limit, "character"),
            MaxLength { limit } => limited("at most", limit, "character"),
            MinItems { limit } => limited("at least", limit, "item"),
            MaxItems { limit } => limited("at most", limit, "item"),
            AdditionalItems { limit } => limited("at most", &(*limit as u64), "item"),
            UnevaluatedItems { .. } => "no further items".to_owned(),
            MinProperties { limit } => format!("an object with at least {}", limited("", limit, "key").trim()),
            MaxProperties { limit } => format!("an object with at most {}", limited("", limit, "key").trim()),
            UniqueItems => "items that are all different".to_owned(),
            Contains => match self.around(error).and_then(|schema| schema.get("contains")) {
                Some(item) => format!("an item that is {}", self.type_of(item)),
                None => "a certain item".to_owned(),
            },
            Pattern { pattern } => format!("text that matches /{}/", shortened(pattern, MAX_QUOTED)),
            FalseSchema => "nothing here".to_owned(),
            Not { schema } => format!("something other than {}", self.type_of(schema)),
            // Without the value, which may be long.
            _ => shortened(&error.masked().to_string(), MAX_QUOTED),
        }
    }

    fn types(&self, error: &ValidationError<'_>, kind: &TypeKind) -> String {
        let mut names: Vec<JsonType> = match kind {
            TypeKind::Single(name) => vec![*name],
            TypeKind::Multiple(names) => names.iter().collect(),
        };
        // As in a signature.
        names.sort_by_key(|name| matches!(name, JsonType::Null));
        // Of these, the type has more to say.
        if names.iter().any(|name| matches!(name, JsonType::Object | JsonType::Array))
            && let Some(schema) = self.around(error)
        {
            return self.type_of(schema);
        }
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
    }

    /// The mistakes of a value that fits none of several schemas.
    fn choice(
        &self,
        error: &ValidationError<'_>,
        context: &[Vec<ValidationError<'static>>],
        depth: usize,
    ) -> Vec<String> {
        let near: Vec<_> = context.iter().filter(|branch| !is_of_other_kind(error, branch)).collect();
        let tell = |branch: &[ValidationError<'static>]| -> Vec<String> {
            let errors = branch.iter().filter(|error| !gave_up(error)).take(MAX_MISTAKES);
            errors.flat_map(|error| self.tell(error, depth + 1)).collect()
        };
        match &near[..] {
            [] => {
                let expected = self.any(context, depth);
                let options = context.iter().flatten().filter_map(|error| match error.kind() {
                    ValidationErrorKind::Enum { options } => options.as_array(),
                    _ => None,
                });
                let near = near_value(error.instance(), options.flatten());
                vec![format!("{}: expected {expected}, got {}{near}", self.path(error), came(error.instance()))]
            }
            [one] => tell(one),
            several => {
                // A property that says which of the forms is meant.
                let is_meant = |branch: &&&Vec<ValidationError<'static>>| !branch.iter().any(is_fixed_otherwise);
                let mut meant: Vec<_> = several.iter().filter(is_meant).collect();
                if let [one] = meant[..] {
                    return tell(one);
                }
                meant.sort_by_key(|branch| branch.len());
                let expected = self.around(error).map(|schema| self.type_of(schema)).unwrap_or_default();
                let nearest = meant.first().and_then(|branch| tell(branch).into_iter().next());
                let nearest = nearest.map(|mistake| format!(" (nearest: {mistake})")).unwrap_or_default();
                vec![format!("{}: expected {expected}, got {}{nearest}", self.path(error), came(error.instance()))]
            }
        }
    }

    /// What each of several schemas would have had.
    fn any(&self, context: &[Vec<ValidationError<'static>>], depth: usize) -> String {
        let mut parts: Vec<String> = Vec::new();
        for error in context.iter().filter_map(|branch| branch.first()).take(MAX_ERRORS) {
            let part = self.expected(error, depth + 1);
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        parts.join(" | ")
    }

    fn unexpected(&self, error: &ValidationError<'_>, name: &str) -> String {
        let known = self.around(error).and_then(|schema| schema.get("properties")?.as_object());
        let names = || known.into_iter().flat_map(Map::keys).map(String::as_str);
        let meant = match names().next() {
            Some(_) => meant(name, names()),
            None => "; it takes none".to_owned(),
        };
        let value = error.instance().get(name).map_or_else(|| "a value".to_owned(), came);
        format!("{}{}: expected no such key, got {value}{meant}", self.path(error), path_of(name))
    }

    /// The key that may have been written in place of a missing one.
    fn misspelt(&self, error: &ValidationError<'_>, missing: &str) -> String {
        let known = self.around(error).and_then(|schema| schema.get("properties")?.as_object());
        let given = error.instance();
        let others = given.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
        let unknown = others.filter(|key| known.is_none_or(|known| !known.contains_key(*key)));
        match nearest(missing, unknown).first() {
            Some(written) => format!("; `{}` is not known, did you mean `{missing}`?", shortened(written, MAX_CAME)),
            None => String::new(),
        }
    }

    fn path(&self, error: &ValidationError<'_>) -> String {
        shortened(&path(self.name, error.instance_path().as_str()), MAX_PATH)
    }

    /// The schema that has the keyword which the error is about.
    fn around(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let (around, _) = error.schema_path().as_str().rsplit_once('/')?;
        self.root.pointer(around)
    }

    fn type_of(&self, schema: &Value) -> String {
        typescript::type_line(self.root, schema, MAX_TYPE)
    }
}

/// Does a schema want a value of another kind altogether?
fn is_of_other_kind(whole: &ValidationError<'_>, branch: &[ValidationError<'static>]) -> bool {
    use ValidationErrorKind::*;
    branch.iter().any(|error| {
        error.instance_path() == whole.instance_path()
            && match error.kind() {
                Type { .. } | Enum { .. } | Constant { .. } | FalseSchema => true,
                AnyOf { context } | OneOfNotValid { context } => {
                    context.iter().all(|branch| is_of_other_kind(whole, branch))
                }
                _ => false,
            }
    })
}

/// Is a property something other than the one value that it must be?
fn is_fixed_otherwise(error: &ValidationError<'static>) -> bool {
    use ValidationErrorKind::{Constant, Enum};
    matches!(error.kind(), Constant { .. } | Enum { .. })
}

/// What else helps.
fn hint(error: &ValidationError<'_>) -> String {
    let value = error.instance();
    match (error.kind(), &**value) {
        (ValidationErrorKind::Enum { options }, value) => near_value(value, options.as_array().into_iter().flatten()),
        (ValidationErrorKind::Type { .. }, Value::String(text)) if text.trim_start().starts_with(['{', '[']) => {
            "; pass the value itself, not its JSON text".to_owned()
        }
        (ValidationErrorKind::Type { kind }, Value::Object(_) | Value::Array(_)) if takes(kind, JsonType::String) => {
            "; pass a text, such as `JSON.stringify(value)` where the server reads JSON".to_owned()
        }
        (ValidationErrorKind::Type { kind }, value)
            if takes(kind, JsonType::Array) && !matches!(value, Value::Null) =>
        {
            "; put it into an array: `[value]`".to_owned()
        }
        _ => String::new(),
    }
}

/// Is this one of the types that a value may have?
fn takes(kind: &TypeKind, wanted: JsonType) -> bool {
    match kind {
        TypeKind::Single(name) => *name == wanted,
        TypeKind::Multiple(names) => names.iter().any(|name| name == wanted),
    }
}

/// The value of an enum that may have been meant.
fn near_value<'a>(value: &Value, options: impl Iterator<Item = &'a Value>) -> String {
    let Value::String(text) = value else { return String::new() };
    match nearest(text, options.filter_map(Value::as_str)).first() {
        Some(near) => format!("; did you mean {}?", literal(&Value::from(*near))),
        None => String::new(),
    }
}

/// The values of an enum, all of them if they are not too many.
fn values(options: &[Value]) -> String {
    let mut text = String::new();
    for (index, option) in options.iter().enumerate() {
        if text.len() > MAX_VALUES {
            return format!("{text} | … ({} more)", options.len() - index);
        }
        if index > 0 {
            text.push_str(" | ");
        }
        text.push_str(&literal(option));
    }
    text
}

/// A value that a schema has.
fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(&shortened(text, MAX_QUOTED)),
        value => shortened(&value.to_string(), MAX_QUOTED),
    }
}

/// A short form of a value that came.
fn came(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => shortened(&value.to_string(), MAX_CAME),
        Value::String(text) => {
            let count = text.chars().count();
            let more = if count > MAX_CAME { format!(" ({count} characters)") } else { String::new() };
            format!("{}{more}", quoted(&shortened(text, MAX_CAME)))
        }
        Value::Array(items) if items.is_empty() => "an empty array".to_owned(),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(entries) if entries.is_empty() => "an empty object".to_owned(),
        Value::Object(entries) => {
            let names = entries.keys().take(MAX_CAME_NAMES).map(|name| format!("`{}`", shortened(name, MAX_CAME)));
            let names = names.collect::<Vec<_>>().join(", ");
            let more = entries.len().saturating_sub(MAX_CAME_NAMES);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            format!("an object with {names}{more}")
        }
    }
}

/// The beginning of a text.
fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `/a/0/b-c` as `args.a[0]["b-c"]`.
fn path(name: &str, pointer: &str) -> String {
    let mut path = name.to_owned();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        match part.parse::<usize>() {
            Ok(index) => path.push_str(&format!("[{index}]")),
            Err(_) => path.push_str(&path_of(&part)),
        }
    }
    path
}

/// The access to one property: `.name` or `["na-me"]`.
pub(super) fn path_of(key: &str) -> String {
    let is_identifier = key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$')
        && !key.starts_with(|c: char| c.is_ascii_digit())
        && !key.is_empty();
    match is_identifier {
        true => format!(".{}", shortened(key, MAX_QUOTED)),
        false => format!("[{}]", quoted(&shortened(key, MAX_QUOTED))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_written_as_in_a_program() {
        assert_eq!(path("args", "/a/0/b-c/x~1y"), r#"args.a[0]["b-c"]["x/y"]"#);
        assert_eq!(path("args", ""), "args");
    }

    #[test]
    fn what_came_is_short() {
        #[rustfmt::skip]
        let table = [
            (json!(null),                       "null"),
            (json!(1.5),                        "1.5"),
            (json!("a\u{200b}\n"),              r#""a\u{200b}\n""#),
            (json!("x".repeat(1000)),           &*format!("\"{}…\" (1000 characters)", "x".repeat(40))),
            (json!([]),                         "an empty array"),
            (json!([1, 2]),                     "an array of 2"),
            (json!({}),                         "an empty object"),
            (json!({"a": 1, "b": 2}),           "an object with `a`, `b`"),
            (json!({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7}), "an object with `a`, `b`, `c`, `d`, `e` and 2 more"),
        ];
        for (value, expected) in table {
            assert_eq!(came(&value), expected);
        }
    }
}
