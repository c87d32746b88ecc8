//! Paths into JSON text, such as `items[3].name`.

use std::fmt;

use pml_wire::json::MAX_DEPTH;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// Reads `a.b[3]["x-y"]`, with or without a `$` in front.
pub(super) fn parse(path: &str) -> Result<Vec<Step>, String> {
    let wrong = |rest: &str| {
        let rest: String = rest.chars().take(SHOWN_CHARS).collect();
        format!("the path cannot be read at `{rest}`; write it as in `items[3].name`")
    };
    let mut steps = Vec::new();
    let mut rest = path.trim().trim_start_matches('$');
    while !rest.is_empty() {
        if steps.len() == MAX_DEPTH {
            return Err(format!("the path has more than {MAX_DEPTH} steps"));
        }
        if let Some(inside) = rest.strip_prefix('[') {
            let (step, after) = match inside.starts_with('"') {
                true => {
                    let mut keys = serde_json::Deserializer::from_str(inside).into_iter::<String>();
                    let key = keys.next().and_then(Result::ok).ok_or_else(|| wrong(rest))?;
                    (Step::Key(key), &inside[keys.byte_offset()..])
                }
                false => {
                    let end = inside.find(']').ok_or_else(|| wrong(rest))?;
                    let index = inside[..end].trim().parse().map_err(|_| wrong(rest))?;
                    (Step::Index(index), &inside[end..])
                }
            };
            steps.push(step);
            rest = after.strip_prefix(']').ok_or_else(|| wrong(after))?;
            continue;
        }
        let key = rest.strip_prefix('.').unwrap_or(rest);
        let end = key.find(['.', '[']).unwrap_or(key.len());
        if end == 0 {
            return Err(wrong(rest));
        }
        steps.push(Step::Key(key[..end].to_owned()));
        rest = &key[end..];
    }
    Ok(steps)
}

/// How much of a path is shown in a message.
const SHOWN_CHARS: usize = 100;

/// What to say if the steps lead nowhere.
pub(super) fn nothing_at(steps: &[Step]) -> String {
    let path: String = steps.iter().map(Step::to_string).collect();
    let path: String = path.trim_start_matches('.').chars().take(SHOWN_CHARS).collect();
    format!("there is nothing at `{path}`")
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Key(key) => write!(f, ".{key}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}
