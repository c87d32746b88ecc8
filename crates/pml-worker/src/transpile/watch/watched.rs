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
    /// A condition.
    Condition,
    /// A side of `<`, `>`, `<=` or `>=`. The value is the comparison as a whole.
    Ordered(Side),
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
    /// It reads a property of it: `x.a.name`.
    pub(crate) is_entered: bool,
    /// It compares it in lower or upper case, too.
    pub(crate) is_folded: bool,
    /// It passes it to a function: `JSON.parse(x.a)`, `isOn(x.a)`.
    pub(crate) is_converted: bool,
}

impl Treatment {
    /// Of an expression in a program.
    pub(in crate::transpile) fn of(code: &str, value: &str) -> Treatment {
        let mut treatment = Treatment::default();
        for (at, _) in code.match_indices(value) {
            let (before, after) = (code[..at].trim_end(), &code[at + value.len()..]);
            let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
            if after.starts_with(is_part) || code[..at].ends_with(|it| is_part(it) || it == '.') {
                continue;
            }
            treatment.is_converted |= is_argument(before, after);
            let before = before.trim_end_matches('(').trim_end();
            treatment.is_tested |= before.ends_with("typeof") || before.ends_with("Array.isArray");
            let after = after.trim_start_matches(['!', '?']);
            let Some(property) = after.strip_prefix('.') else { continue };
            treatment.is_entered = true;
            let folding = ["toLowerCase", "toUpperCase", "toLocale", "localeCompare", "trim"];
            treatment.is_folded |= folding.iter().any(|it| property.starts_with(it));
        }
        treatment
    }
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

#[cfg(test)]
mod tests {
    use super::Treatment;

    #[test]
    fn how_a_value_is_treated_elsewhere() {
        let table = [
            ("if (x.a === 1) f(x.ab.c)", false, false, false),
            ("if (x.a) l.push(x.a)", false, false, false),
            ("typeof x.a === 'string'", true, false, false),
            ("typeof (x.a)", true, false, false),
            ("Array.isArray(x.a)", true, false, false),
            ("typeof xx.a; typeof y.x.a", false, false, false),
            ("isOn(x.a)", false, false, false),
            ("x.a?.b", false, true, false),
            ("x.a!.toLowerCase()", false, true, true),
        ];
        for (code, is_tested, is_entered, is_folded) in table {
            let is_converted = code.starts_with("isOn");
            let expected = Treatment { is_tested, is_entered, is_folded, is_converted };
            assert_eq!(Treatment::of(code, "x.a"), expected, "{code}");
        }
    }
}
