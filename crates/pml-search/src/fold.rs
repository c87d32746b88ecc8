//! Letters without their marks.

/// The word with `é` as `e`, `ü` as `u`, `ß` as `ss`. What is no letter of Latin script stays.
pub(crate) fn folded(word: &str) -> String {
    let mut folded = String::with_capacity(word.len());
    for c in word.chars() {
        match c {
            'à'..='å' | 'ā' | 'ă' | 'ą' => folded.push('a'),
            'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => folded.push('c'),
            'ď' | 'đ' => folded.push('d'),
            'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' => folded.push('e'),
            'ĝ' | 'ğ' | 'ġ' | 'ģ' => folded.push('g'),
            'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ı' => folded.push('i'),
            'ĺ' | 'ļ' | 'ľ' | 'ł' => folded.push('l'),
            'ñ' | 'ń' | 'ņ' | 'ň' => folded.push('n'),
            'ò'..='ö' | 'ø' | 'ō' | 'ŏ' | 'ő' => folded.push('o'),
            'ŕ' | 'ŗ' | 'ř' => folded.push('r'),
            'ś' | 'ŝ' | 'ş' | 'š' | 'ș' => folded.push('s'),
            'ţ' | 'ť' | 'ț' => folded.push('t'),
            'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' => folded.push('u'),
            'ý' | 'ÿ' => folded.push('y'),
            'ź' | 'ż' | 'ž' => folded.push('z'),
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            '\u{300}'..='\u{36f}' => {} // marks of their own
            other => folded.push(other),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn marks_are_left_out() {
        for (word, expected) in
            [("größe", "grosse"), ("élève", "eleve"), ("año", "ano"), ("file", "file"), ("搜索", "搜索"), ("", "")]
        {
            assert_eq!(folded(word), expected);
        }
        assert_eq!(folded("e\u{301}"), "e");
    }
}
