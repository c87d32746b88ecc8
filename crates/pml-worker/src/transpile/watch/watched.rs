//! A place where a value is looked at, and how the program treats the value elsewhere.

/// A value that is looked at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Watched {
    /// The expression as written, shortened.
    pub(crate) value: String,
    /// Where it begins in the text.
    pub(crate) offset: u32,
    pub(crate) usage: Usage,
}

/// What a value is used for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Usage {
    /// Compared with each of these: by an operator, the cases of a `switch`, or a list that it is looked for in.
    Compared { with: Vec<Literal>, is_strict: bool },
    /// A list in which this is looked for.
    Searched(Literal),
    /// One side of a comparison of two values, which begins here.
    Side { comparison: u32, is_left: bool },
    /// A condition.
    Condition,
    /// A side of `<`, `>`, `<=` or `>=`. The value is the comparison as a whole.
    Ordered(Side),
    /// A side of `+`. The value is the sum as a whole.
    Added(Side),
    /// Spread into an object, or given to `Object.assign`.
    Copied,
    /// Taken apart by `Object.entries` or `Object.keys`. What it gives is called so.
    Named(String),
    /// A list of which the program takes the indexes for names. They are called so, if at all.
    Indexed(String),
    /// Taken apart at this separator.
    Split(String),
    /// Asked whether it begins with this; or, if this is empty, for its first characters: the year, or year and month, of a date.
    Begins(String),
    /// Taken for milliseconds since 1970: by `new Date`, or beside one.
    Time { is_date: bool },
    /// The text of a date, given to `Date.parse`.
    DateText,
    /// Taken for seconds since 1970, of which it makes milliseconds.
    Seconds,
    /// A number that methods of texts cut out of a text, and in front of it the text.
    Amount,
    /// A part of a result, or the result if it has no such part, that a variable of this name holds: `x.items ?? x`.
    Alternative(String),
    /// Compared with `null` or `undefined`, and not with both.
    Nothing { is_null: bool },
    /// Made a number.
    Number(Number),
    /// Added up to a sum that is divided by the length of the list.
    Averaged,
    /// A list of which the least number is taken.
    Least,
    /// Written into a text, beside other text, or as a key.
    Written,
    /// The key of a property.
    Key,
    /// The key of a Map or an element of a Set, or the list of them.
    Identity(Keys),
    /// What a filter, or else a search, left of a list. The call ends here.
    Dropped { end: u32, is_filter: bool },
    /// Looked for in a Set, Map or list, or added to a Set, which is the other expression. Of `in` the value is the list.
    Among { way: Way, other: String },
}

/// How a value is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Has,
    Get,
    Includes,
    IndexOf,
    Add,
    In,
}

impl Way {
    /// The name of the method, or the operator.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Has => "has",
            Way::Get => "get",
            Way::Includes => "includes",
            Way::IndexOf => "indexOf",
            Way::Add => "add",
            Way::In => "in",
        }
    }
}

/// How keys are given to a Map or Set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// By a method: `seen.add(x.owner)`.
    One,
    /// As the list that a Set is made of.
    List,
    /// As the list of keys and values that a Map is made of.
    Pairs,
}

/// What a number is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// To compare it by `<` and the like.
    Ordered,
    /// To give it from a comparator.
    Sorted,
    /// By `parseFloat`, which takes what a text begins with.
    Parsed,
    /// By `parseInt`, which takes the digits that a text begins with.
    Whole,
    /// With another number in place of NaN: `Number(x.a) || 0`.
    Defaulted,
    /// The same with `parseFloat`.
    ParsedOr,
    /// The same with `parseInt`.
    WholeOr,
    /// By `*`, `/` or `-`.
    Computed,
    /// The program asks whether it is one: `isNaN(n)`.
    Checked,
    Other,
}

/// A side of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// What stands in the text of a program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Text(String),
    Number(f64),
    Boolean(bool),
    Null,
    Undefined,
}

/// How a program treats a value in other places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Treatment {
    /// It asks what kind of value it is: `typeof x.a`, `Array.isArray(x.a)`.
    pub(crate) is_tested: bool,
    /// It asks whether it is a text, or which kind of all: `typeof x.a === "string"`, `switch (typeof x.a)`.
    pub(crate) is_tested_as_text: bool,
    /// It reads a property of it: `x.a.name`.
    pub(crate) is_entered: bool,
    /// It compares it, or a property of that name, in lower or upper case, too.
    pub(crate) is_folded: bool,
    /// It passes it to a function: `JSON.parse(x.a)`, `isOn(x.a)`.
    pub(crate) is_converted: bool,
}

impl Treatment {
    /// Of an expression in a program.
    pub(in crate::transpile) fn of(code: &str, value: &str) -> Treatment {
        let mut treatment = Treatment::default();
        if value.is_empty() {
            return treatment;
        }
        for (at, _) in code.match_indices(value) {
            let (before, after) = (code[..at].trim_end(), &code[at + value.len()..]);
            let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
            if after.starts_with(is_part) || code[..at].ends_with(|it| is_part(it) || it == '.') {
                continue;
            }
            treatment.is_converted |= is_argument(before, after);
            treatment.is_entered |= before.ends_with(" of") || before.ends_with("...");
            let before = before.trim_end_matches('(').trim_end();
            let is_typeof = before.ends_with("typeof");
            treatment.is_tested |= is_typeof || before.ends_with("Array.isArray");
            treatment.is_tested_as_text |= is_typeof && !is_compared_with_another_kind(after);
            treatment.is_entered |= after.trim_start_matches(['!', '?']).starts_with('.');
        }
        let name = last_name(value);
        let folding = ["toLowerCase", "toUpperCase", "toLocale", "localeCompare", "trim"];
        treatment.is_folded = code.match_indices(name).any(|(at, _)| {
            let method = code[at + name.len()..].trim_start_matches(['!', '?']).strip_prefix('.');
            method.is_some_and(|method| folding.iter().any(|it| method.starts_with(it)))
        });
        treatment
    }
}

/// Is this, behind `typeof x.a`, a comparison with a kind that is not that of texts: `=== "boolean"`?
fn is_compared_with_another_kind(after: &str) -> bool {
    let after = after.trim_start_matches([')', ' ']);
    let kind = after.strip_prefix("==").or_else(|| after.strip_prefix("!="));
    kind.is_some_and(|kind| !kind.trim_start_matches(['=', ' ', '"', '\'', '`']).starts_with("string"))
}

/// Is what stands between these the one argument of a function that does something with it?
fn is_argument(before: &str, after: &str) -> bool {
    let Some(function) = before.strip_suffix('(').filter(|_| after.trim_start().starts_with(')')) else { return false };
    let name = function.rsplit(|it: char| !it.is_alphanumeric() && it != '_' && it != '$').next().unwrap_or_default();
    !matches!(
        name,
        "" | "if" | "while" | "switch" | "return" | "Boolean" | "push" | "log" | "add" | "isArray" | "typeof"
    )
}

/// The last name in an expression: of `x.a?.state` it is `state`.
pub(crate) fn last_name(value: &str) -> &str {
    let value = value.trim_end_matches(|it: char| !it.is_alphanumeric() && !matches!(it, '_' | '$'));
    value.rsplit(|it: char| !it.is_alphanumeric() && !matches!(it, '_' | '$')).next().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::Treatment;

    #[test]
    fn how_a_value_is_treated_elsewhere() {
        let table = [
            ("if (x.a === 1) f(x.ab.c)", false, false, false),
            ("typeof x.a !== 'boolean'", true, false, false),
            ("if (x.a) l.push(x.a)", false, false, false),
            ("typeof x.a === 'string'", true, false, false),
            ("typeof (x.a)", true, false, false),
            ("Array.isArray(x.a)", true, false, false),
            ("typeof xx.a; typeof y.x.a", false, false, false),
            ("isOn(x.a)", false, false, false),
            ("x.a?.b", false, true, false),
            ("x.a!.toLowerCase()", false, true, true),
            ("x.a; y.a.toUpperCase()", false, false, true),
            ("for (const y of x.a) f(...z)", false, true, false),
        ];
        for (code, is_tested, is_entered, is_folded) in table {
            let is_converted = code.starts_with("isOn");
            let is_tested_as_text = code.starts_with("typeof x.a ===") || code.starts_with("typeof (x.a)");
            let expected = Treatment { is_tested, is_tested_as_text, is_entered, is_folded, is_converted };
            assert_eq!(Treatment::of(code, "x.a"), expected, "{code}");
        }
    }
}
