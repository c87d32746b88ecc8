//! Checks on JSON text that is passed on unparsed.

/// Deepest nesting that pml takes or gives. serde_json and most other readers stop at 128.
pub const MAX_DEPTH: usize = 100;

/// How deeply arrays and objects nest in `text`, which must be valid JSON.
///
/// Linear and without recursion, so it is safe on text of any depth.
pub fn depth(text: &str) -> usize {
    scan(text).0
}

/// About how much memory the JSON text takes once it is parsed into a tree of values.
///
/// Linear and without recursion, so it is safe on text of any depth.
pub fn parsed_bytes(text: &str) -> usize {
    const VALUE_BYTES: usize = 48;
    text.len() + VALUE_BYTES * scan(text).1
}

/// How deeply `text` nests, and about how many values it has.
fn scan(text: &str) -> (usize, usize) {
    let (mut depth, mut deepest, mut values) = (0_usize, 0, 0);
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at = string_end(bytes, at),
            b'[' | b'{' => {
                depth += 1;
                values += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' | b':' => values += 1,
            _ => {}
        }
    }
    (deepest, values)
}

/// The place behind the string whose content begins at `at`. Most strings are short, and a long one is gone over by words.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    const NEAR: usize = 32;
    let near = at + NEAR;
    loop {
        match bytes.get(at) {
            None => return bytes.len(),
            Some(b'"') => return at + 1,
            // Whatever is escaped is not the end.
            Some(b'\\') => at += 2,
            Some(_) if at < near => at += 1,
            Some(_) => at += memchr::memchr2(b'"', b'\\', &bytes[at..]).unwrap_or(bytes.len() - at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{depth, parsed_bytes};

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

    #[test]
    fn parsed_text_takes_more_the_more_values_it_has() {
        let (text, list) = (format!("\"{}\"", "a,b:[".repeat(1000)), format!("[{}1]", "1,".repeat(2500)));
        assert!(parsed_bytes(&text) < 6000, "what is inside of a string is no value");
        assert!(parsed_bytes(&list) > 40 * 2500);
    }
}
