//! Whether a program uses a list that it asks for as a condition: then it asks whether there is one, which may be empty.
//!
//! Told by the text of the program alone, and in doubt it does.

use super::last_name;

/// How far behind an `if` its branch is looked at.
const BRANCH_BYTES: usize = 160;

/// Is the list `value`, a condition at `offset`, or another one of its name used as a list anywhere in the code? Behind an
/// `if`, it is enough that it is there.
pub(super) fn is_used(code: &str, value: &str, offset: usize) -> bool {
    if code.match_indices(last_name(value)).any(|(at, name)| is_list(code, at, at + name.len())) {
        return true;
    }
    let Some((before, rest)) = code.split_at_checked(offset) else { return true };
    let is_negated = before.ends_with('!');
    let before = before.trim_end_matches(['!', '(']).trim_end();
    if !before.ends_with("if") && !before.ends_with("&&") {
        return false;
    }
    let branch = &rest[value.len().min(rest.len())..];
    // What is not there is a failure: no list may be empty.
    if is_negated && branch.trim_start_matches([')', ' ', '{', '\n']).starts_with("throw") {
        return true;
    }
    // A variable may be used anywhere behind.
    let most = if value.contains('.') { BRANCH_BYTES } else { branch.len() };
    let branch = &branch[..branch.floor_char_boundary(most)];
    branch.match_indices(value).any(|(at, _)| {
        let is_again =
            branch[..at].ends_with(['!', '(']) && branch[..at].trim_end_matches(['!', '(']).trim_end().ends_with("if");
        is_whole(branch, at, at + value.len()) && !is_again
    })
}

fn is_part(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

/// Is what stands here not a part of a longer name?
fn is_whole(code: &str, from: usize, to: usize) -> bool {
    !code[..from].ends_with(is_part) && !code[to..].starts_with(is_part)
}

/// Is the name that stands here that of something which is used as a list?
fn is_list(code: &str, from: usize, to: usize) -> bool {
    if !is_whole(code, from, to) {
        return false;
    }
    let after = code[to..].trim_start();
    let after = after.strip_prefix('!').filter(|rest| !rest.starts_with('=')).unwrap_or(after);
    // Of `x.tags ?? []`, it is one.
    let default = after.strip_prefix("??").or_else(|| after.strip_prefix("||")).map(str::trim_start);
    if after.starts_with('.')
        || after.starts_with("?.")
        || after.starts_with('[')
        || default.is_some_and(|rest| rest.starts_with('['))
    {
        return true;
    }
    // `x?.a[0].tags` as a whole.
    let before = code[..from].trim_end_matches(|it: char| is_part(it) || matches!(it, '.' | '?' | '!' | '[' | ']'));
    let is_spread = code[before.len()..].starts_with("...");
    let before = before.trim_end();
    is_spread || before.ends_with(" of") || is_taken(before) || is_argument(before, after)
}

/// Does a variable take the list: `const list = x.tags`?
fn is_taken(before: &str) -> bool {
    let Some(target) = before.strip_suffix('=').map(str::trim_end) else { return false };
    let declared = target.trim_end_matches(is_part).trim_end();
    declared.len() < target.len() && ["const", "let", "var"].iter().any(|it| declared.ends_with(it))
}

/// Is it given to a function that may do something with it?
fn is_argument(before: &str, after: &str) -> bool {
    let Some(function) = before.strip_suffix('(').filter(|_| after.starts_with([')', ','])) else { return false };
    let name = function.rsplit(|it: char| !is_part(it)).next().unwrap_or_default();
    !matches!(name, "" | "if" | "while" | "switch" | "return" | "Boolean" | "push" | "log" | "add")
}

#[cfg(test)]
mod tests {
    use super::is_used;

    #[test]
    fn lists_that_are_used_are_told_from_those_that_are_asked_for() {
        let table = [
            ("l.filter((x) => !x.tags).length", false),
            ("l.filter((x) => x.tags).map((x) => x.id)", false),
            ("if (x.tags) out.push(x.id)", false),
            ("if (!x.tags) n++; if (!x.tags) m++", false),
            ("out.push({ has: Boolean(x.tags) })", false),
            ("n += x.tags ? 1 : 0", false),
            ("l.filter((x) => !x.tags).map((x) => ({ tags: x.tags }))", false),
            ("if (x.tags) for (const tag of x.tags) f(tag)", true),
            ("if (x.tags) out.push(...x.tags)", true),
            ("if (x.tags) return x.tags", true),
            ("if (!x.tags) { throw new Error('none') } return { id: x.id }", true),
            ("if (x.tags) throw new Error('none')", false),
            ("if (x.tags) { const list = x.tags; f(list) }", true),
            ("if (x.tags && y) count(x.tags)", true),
            ("x.tags ? x.tags.join() : ''", true),
            ("!x.tags || !x.tags.length", true),
            ("if (!x.tags) continue; n += y.tags[0]", true),
            ("if (!x.tags) n++; m += (x.tags ?? []).length", true),
        ];
        for (code, expected) in table {
            let offset = code.find("x.tags").unwrap_or_default();
            assert_eq!(is_used(code, "x.tags", offset), expected, "{code}");
        }
    }
}
