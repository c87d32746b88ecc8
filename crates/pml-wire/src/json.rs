//! Checks on JSON text that is passed on unparsed.

/// Deepest nesting that pml takes or gives. serde_json and most other readers stop at 128.
pub const MAX_DEPTH: usize = 100;

/// How deeply arrays and objects nest in `text`, which must be valid JSON.
///
/// Linear and without recursion, so it is safe on text of any depth.
pub fn depth(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    let mut in_string = false;
    let mut escaped = false;
    for byte in text.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::depth;

    #[test]
    fn depth_counts_brackets_outside_strings() {
        let table = [
            ("1", 0),
            ("[]", 1),
            (r#"{"a":[{}]}"#, 3),
            (r#"["[[[["]"#, 1),
            (r#"["\"[[\\",[]]"#, 2),
            ("[[],[],[[]]]", 3),
        ];
        for (text, expected) in table {
            assert_eq!(depth(text), expected, "{text}");
        }
        assert_eq!(depth(&"[".repeat(1_000_000)), 1_000_000);
    }
}
