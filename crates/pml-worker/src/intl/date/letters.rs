//! Numbers in Hebrew letters, as dates of the Hebrew calendar have them in Hebrew.

/// The letters of a number below ten thousand; of a year of this millennium, without the thousands.
pub(super) fn letters(number: u64) -> String {
    let number = if (5001..6000).contains(&number) { number - 5000 } else { number };
    let (thousands, below) = (number / 1000, number % 1000);
    let mut text = String::new();
    if thousands > 0 {
        text.push_str(&letters(thousands));
    }
    let rest = match below % 100 {
        // These would spell the name of God.
        15 => vec!['ט', 'ו'],
        16 => vec!['ט', 'ז'],
        _ => [letter("יכלמנסעפצ", below / 10 % 10), letter("אבגדהוזחט", below % 10)].into_iter().flatten().collect(),
    };
    let mut word: Vec<char> = std::iter::repeat_n('ת', (below / 400) as usize).collect();
    word.extend(letter("קרש", below % 400 / 100));
    word.extend(rest);
    match word.len() {
        0 => {}
        1 => word.push('׳'),
        length => word.insert(length - 1, '״'),
    }
    text.extend(word);
    text
}

fn letter(alphabet: &str, place: u64) -> Option<char> {
    alphabet.chars().nth(usize::try_from(place).ok()?.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::letters;

    #[test]
    fn numbers_have_their_letters() {
        #[rustfmt::skip]
        let table = [
            (1, "א׳"), (10, "י׳"), (15, "ט״ו"), (16, "ט״ז"), (27, "כ״ז"), (400, "ת׳"), (500, "ת״ק"), (999, "תתקצ״ט"),
            (5784, "תשפ״ד"), (5660, "תר״ס"), (5716, "תשט״ז"), (3761, "ג׳תשס״א"), (6000, "ו׳"),
        ];
        for (number, expected) in table {
            assert_eq!(letters(number), expected, "{number}");
        }
    }
}
