//! Variables in settings: `${NAME}` and `${NAME:-default}`.

/// Puts the values of variables into a text. The error is the name of one that is not set.
///
/// `${env:NAME}`, as some clients write it, means the same as `${NAME}`.
pub(super) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        let inside = &rest[start + 2..start + length];
        let inside = inside.strip_prefix("env:").unwrap_or(inside);
        let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, default)| (name, Some(default)));
        expanded.push_str(&rest[..start]);
        match (lookup(name), default) {
            // An empty variable counts as none where there is a default, as in shells.
            (Some(value), Some(default)) if value.is_empty() => expanded.push_str(default),
            (Some(value), _) => expanded.push_str(&value),
            (None, Some(default)) => expanded.push_str(default),
            (None, None) => return Err(name.to_owned()),
        }
        rest = &rest[start + length + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_in_or_missed() {
        let lookup = |name: &str| match name {
            "HOME" => Some("/home/me".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let table = [
            ("plain $HOME", Ok("plain $HOME")),
            ("${HOME}/x", Ok("/home/me/x")),
            ("${env:HOME}", Ok("/home/me")),
            ("${env:HOME:-x}", Ok("/home/me")),
            ("a${NONE:-b}c", Ok("abc")),
            ("a${NONE:-}c", Ok("ac")),
            ("${EMPTY}", Ok("")),
            ("${EMPTY:-x}", Ok("x")),
            ("${HOME}${HOME:-x}", Ok("/home/me/home/me")),
            ("${NONE}", Err("NONE")),
            ("${HOME", Ok("${HOME")),
            ("$ {HOME}", Ok("$ {HOME}")),
        ];
        for (text, expected) in table {
            let actual = expand(text, &lookup);
            assert_eq!(actual.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
