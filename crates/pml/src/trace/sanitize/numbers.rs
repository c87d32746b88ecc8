//! Numbers of persons: phones, social security numbers, cards and bank accounts.
//!
//! Digits alone prove nothing: a phone needs its country, the grouping of some country, or a word in front; a card its
//! issuer and the checksum of Luhn; an account the checksum and the length of its country.

use std::ops::Range;

use super::{
    encoded::is_inside,
    finding::Kind,
    scan::Scan,
    shape::{ALNUM, DASH, is_random, starts_token},
};

/// Most digits of any such number.
const MAX_DIGITS: usize = 19;
/// How far in front of a number a word may stand that says what it is.
const SIGHT: usize = 28;

/// A run of digits with separators between groups.
#[derive(Debug)]
struct Number {
    span: Range<usize>,
    digits: Vec<u8>,
    /// The lengths of its groups.
    groups: Vec<usize>,
    /// What separates them.
    separators: Vec<u8>,
    has_plus: bool,
    has_parentheses: bool,
}

/// Looks at every number in the text.
pub(super) fn find(scan: &mut Scan<'_>) {
    let bytes = scan.bytes;
    let mut at = 0;
    while let Some(offset) = bytes[at..].iter().position(u8::is_ascii_digit) {
        let first = at + offset;
        if let Some(span) = iban(bytes, first) {
            at = span.end;
            scan.add(span, Kind::Iban);
            continue;
        }
        let length = bytes[first..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        at = first + length;
        if let Some((end, kind)) = token(bytes, first..at) {
            at = end;
            scan.add(first..end, kind);
            continue;
        }
        let is_alone = !bytes.get(at).is_some_and(|next| b" -.()/".contains(next));
        if length > MAX_DIGITS || length < 7 && is_alone || !is_start(bytes, first) {
            continue;
        }
        let Some(number) = number(bytes, first) else { continue };
        if is_inside(&scan.data, number.span.start) {
            continue;
        }
        if let Some((span, kind)) = classify(scan, &number) {
            at = span.end.max(at);
            scan.add(span, kind);
        }
    }
}

/// A token that begins with the number of an account: Facebook's `1234567890123456|…`, Twitter's `1234567890123456789-…`.
fn token(bytes: &[u8], number: Range<usize>) -> Option<(usize, Kind)> {
    (15..=19).contains(&number.len()).then_some(())?;
    let (start, kind) = match bytes.get(number.end..)? {
        [b'|', ..] if number.len() <= 16 => (number.end + 1, "facebook-app-token"),
        [b'%', b'7', b'C' | b'c', ..] if number.len() <= 16 => (number.end + 3, "facebook-app-token"),
        [b'-', ..] => (number.end + 1, "twitter-token"),
        _ => return None,
    };
    let end = DASH.run(bytes, start, 64);
    let length = end - start;
    let is_token = match kind {
        "twitter-token" => length == 40 && ALNUM.run(bytes, start, 40) == end,
        _ => (27..=40).contains(&length),
    };
    (is_token && is_random(&bytes[start..end]) && starts_token(bytes, number.start)).then(|| (end, Kind::secret(kind)))
}

/// May a number begin here? Not within a word, a decimal, a version or an identifier.
fn is_start(bytes: &[u8], first: usize) -> bool {
    let before = |count: usize| first.checked_sub(count).map(|index| bytes[index]);
    match before(1) {
        None => true,
        Some(b'.' | b'-' | b'/' | b',' | b':') => {
            !before(2).is_some_and(|byte| byte.is_ascii_alphanumeric())
                || before(1) == Some(b':') && !before(2).is_some_and(|byte| byte.is_ascii_digit())
        }
        Some(b'%') => false,
        Some(byte) => !byte.is_ascii_alphanumeric() && byte != b'_' && byte < 0x80,
    }
}

/// The number that begins with the digit at `first`, with its plus sign or parenthesis.
fn number(bytes: &[u8], first: usize) -> Option<Number> {
    let mut start = first;
    let mut has_parentheses = false;
    if start > 0 && bytes[start - 1] == b'(' {
        start -= 1;
        has_parentheses = true;
    }
    let has_plus = start > 0 && bytes[start - 1] == b'+';
    start -= usize::from(has_plus);
    let mut number = Number {
        span: start..first,
        digits: Vec::with_capacity(16),
        groups: vec![0],
        separators: Vec::new(),
        has_plus,
        has_parentheses,
    };
    let mut at = first;
    let mut is_closed = false;
    loop {
        match bytes.get(at) {
            Some(byte) if byte.is_ascii_digit() => {
                number.digits.push(byte - b'0');
                *number.groups.last_mut()? += 1;
                at += 1;
                number.span.end = at;
                if number.digits.len() > MAX_DIGITS {
                    return None;
                }
            }
            _ => {
                // One separator, or a closing parenthesis with a space.
                let gap = bytes[at..]
                    .iter()
                    .take(4)
                    .take_while(|byte| matches!(byte, b' ' | b'-' | b'.' | b'(' | b')' | b'/'))
                    .count();
                let separator = bytes.get(at).copied();
                let is_simple = gap == 1 && separator != Some(b'(');
                let is_closing = gap <= 3 && bytes[at..at + gap].iter().any(|byte| matches!(byte, b'(' | b')'));
                if gap == 0
                    || !(is_simple || is_closing)
                    || !bytes.get(at + gap).is_some_and(u8::is_ascii_digit)
                    || number.groups.len() >= 8
                {
                    break;
                }
                number.has_parentheses |= is_closing;
                is_closed |= is_closing;
                number.separators.push(if is_closing { b' ' } else { separator? });
                number.groups.push(0);
                at += gap;
            }
        }
    }
    let end = number.span.end;
    let next = bytes.get(end).copied().unwrap_or(b' ');
    // `(4111 …)`: the parentheses are around the number, not within.
    if number.has_parentheses && !is_closed && next == b')' {
        number.has_parentheses = false;
        number.has_plus = false;
        number.span.start = first;
    }
    let is_end = !next.is_ascii_alphanumeric()
        && next != b'_'
        && next != b'%'
        && !(matches!(next, b'-' | b'.' | b':' | b'/' | b'@')
            && bytes.get(end + 1).is_some_and(u8::is_ascii_alphanumeric));
    is_end.then_some(number)
}

fn classify(scan: &Scan<'_>, number: &Number) -> Option<(Range<usize>, Kind)> {
    let count = number.digits.len();
    let whole = number.span.clone();
    let digits_start = whole.start + usize::from(number.has_plus);
    if (12..=MAX_DIGITS).contains(&count) && !number.has_plus && !number.has_parentheses && is_card(number) {
        return Some((digits_start..whole.end, Kind::Card));
    }
    let singles = number.groups.iter().filter(|group| **group == 1).count();
    // `+33 (0)6 12 34 56 78`
    let most = if number.has_plus { (8, 3) } else { (6, 2) };
    let words = sight(scan.text, whole.start);
    if count == 13 && number.groups.len() == 1 && !number.has_plus && is_old_visa(number, &words) {
        return Some((whole, Kind::Card));
    }
    if !(7..=15).contains(&count) || number.groups.len() > most.0 || singles > most.1 {
        return None;
    }
    if count == 9 && !number.has_plus && is_ssn(number, &words) {
        return Some((whole, Kind::Ssn));
    }
    if is_phone(number, &words) {
        return Some((whole, Kind::Phone));
    }
    None
}

/// What stands in front of a number on its line, in lower case.
fn sight(text: &str, start: usize) -> String {
    let from = text.floor_char_boundary(start.saturating_sub(SIGHT));
    let before = text.get(from..start).unwrap_or_default();
    before.rsplit('\n').next().unwrap_or_default().to_lowercase()
}

fn names(words: &str, known: &[&str]) -> bool {
    known.iter().any(|word| {
        words.rfind(word).is_some_and(|at| {
            let start_is_free = !words[..at].ends_with(|c: char| c.is_alphanumeric());
            let rest = &words[at + word.len()..];
            // Nothing but a few words and signs between, and no other number.
            start_is_free
                && !rest.contains(|c: char| c.is_ascii_digit())
                && (word.len() > 3 || !rest.starts_with(|c: char| c.is_alphanumeric()))
        })
    })
}

fn is_ssn(number: &Number, words: &str) -> bool {
    let digits =
        |range: Range<usize>| number.digits[range].iter().fold(0_u32, |sum, digit| sum * 10 + u32::from(*digit));
    let (area, group, serial) = (digits(0..3), digits(3..5), digits(5..9));
    // Individual taxpayers have 9 in front, and the same form.
    let is_issued = area != 0 && area != 666 && (area < 900 || (50..=99).contains(&group)) && group != 0 && serial != 0;
    let is_named = names(words, &["ssn", "social security", "social", "itin", "taxpayer"]);
    match number.groups.as_slice() {
        [3, 2, 4] if number.separators == [b'-', b'-'] => is_issued,
        [3, 2, 4] if number.separators == [b' ', b' '] && !number.has_parentheses => is_issued && area < 900,
        [3, 2, 4] | [9] => is_issued && is_named,
        _ => false,
    }
}

/// Visa's cards of 13 digits are as long as barcodes, so a word must say that it is one.
fn is_old_visa(number: &Number, words: &str) -> bool {
    number.digits[0] == 4 && luhn(&number.digits) && names(words, &["card", "visa", "credit", "debit", "payment"])
}

/// Issuer, length and the checksum of Luhn.
fn is_card(number: &Number) -> bool {
    let forms: [&[usize]; 4] = [&[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4], &[4, 4, 4, 4, 3]];
    let grouped = number.groups.len() == 1 || forms.contains(&number.groups.as_slice());
    let same = number
        .separators
        .iter()
        .all(|separator| *separator == number.separators[0] && matches!(separator, b' ' | b'-'));
    grouped && same && is_card_number(&number.digits)
}

/// Are these the digits of a card?
pub(super) fn is_card_number(digits: &[u8]) -> bool {
    let head = |count: usize| digits.iter().take(count).fold(0_u32, |sum, digit| sum * 10 + u32::from(*digit));
    let is_issued = match digits.len() {
        14 => matches!(head(3), 300..=305) || matches!(head(2), 36 | 38 | 39),
        15 => matches!(head(2), 34 | 37),
        16 => {
            head(1) == 4
                || matches!(head(2), 51..=55 | 62 | 65)
                || matches!(head(4), 2221..=2720 | 3528..=3589 | 6011 | 5018 | 5020 | 5038 | 6304 | 6759 | 6761..=6763 | 2200..=2204)
                || matches!(head(3), 644..=649)
        }
        19 => head(1) == 4 || head(2) == 62 || head(4) == 6011,
        _ => false,
    };
    is_issued && luhn(digits) && digits.iter().any(|digit| *digit != digits[0])
}

fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| match (index % 2, u32::from(*digit) * 2) {
            (0, _) => u32::from(*digit),
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_phone(number: &Number, words: &str) -> bool {
    const NAMES: [&str; 23] = [
        "phone",
        "telephone",
        "tel",
        "mobile",
        "cell",
        "fax",
        "whatsapp",
        "sms",
        "dial",
        "msisdn",
        "ph",
        "telefon",
        "téléphone",
        "telefono",
        "teléfono",
        "handy",
        "mobil",
        "móvil",
        "portable",
        "rufnummer",
        "电话",
        "電話",
        "reach me at",
    ];
    const CALLS: [&str; 4] = ["call", "text", "contact", "ring"];
    let count = number.digits.len();
    let groups = number.groups.as_slice();
    let digits = &number.digits;
    let dots = number.separators.iter().filter(|separator| **separator == b'.').count();
    if dots > 0 && dots != number.separators.len() {
        return false;
    }
    if number.has_plus {
        return count >= 9 && digits[0] != 0;
    }
    if is_date(groups, digits) {
        return false;
    }
    if names(words, &NAMES) && count >= 7 && groups.len() <= 6 {
        return true;
    }
    if groups.len() > 1 && dots == 0 && count >= 7 && names(words, &CALLS) && !groups.contains(&1) {
        return true;
    }
    let is_chinese = count == 11 && digits[0] == 1 && (3..=9).contains(&digits[1]);
    if groups.len() == 1 && is_chinese && names(words, &CALLS) {
        return true;
    }
    // `02110-1301` is a place in the United States.
    if groups == [5, 4] {
        return false;
    }
    let has_only = |allowed: &[u8]| number.separators.iter().all(|separator| allowed.contains(separator));
    // North America: an area and an exchange that do not begin with 0 or 1.
    let american = match groups {
        [3, 3, 4] => Some(0),
        [1, 3, 3, 4] if digits[0] == 1 => Some(1),
        _ => None,
    };
    if let Some(area) = american {
        let is_spaced = has_only(b" ") && !number.has_parentheses && area == 0;
        return digits[area] >= 2 && digits[area + 3] >= 2 && !is_spaced
            || digits[0] == 0 && digits[1] != 0 && !has_only(b".");
    }
    match groups {
        // France, with points too.
        [2, 2, 2, 2, 2] => {
            digits[0] == 0
                && digits[1] != 0
                && number.separators.iter().all(|separator| *separator == number.separators[0])
        }
        // Russia.
        [1, 3, 3, 2, 2] => digits[0] == 8 || digits[0] == 7,
        // China.
        [3, 4, 4] if digits[0] == 1 => (3..=9).contains(&digits[1]) && has_only(b" -"),
        // Brazil.
        [2, 4 | 5, 4] if number.has_parentheses => true,
        // International without its plus sign.
        _ if digits[0] == 0 && digits[1] == 0 && digits[2] != 0 => {
            groups.len() >= 3 && (11..=15).contains(&count) && has_only(b" -/")
        }
        // National, with the 0 of most of the world.
        _ if digits[0] == 0 && digits[1] != 0 => {
            (9..=12).contains(&count)
                && (2..=5).contains(&groups.len())
                && groups.iter().all(|group| *group >= 2)
                && (2..=5).contains(&groups[0])
                && has_only(b" -/")
        }
        _ => false,
    }
}

/// `05-12-2024 10`, `2024-01-15 10`
fn is_date(groups: &[usize], digits: &[u8]) -> bool {
    let year = |from: usize| digits.get(from..from + 2).is_some_and(|year| matches!(year, [1, 9] | [2, 0]));
    matches!(groups, [1 | 2, 1 | 2, 4, ..]) && year(groups[0] + groups[1]) || matches!(groups, [4, 2, 2, ..]) && year(0)
}

/// Lengths of the account numbers of countries.
const IBAN_LENGTHS: &[(&str, usize)] = &[
    ("AD", 24),
    ("AE", 23),
    ("AL", 28),
    ("AT", 20),
    ("AZ", 28),
    ("BA", 20),
    ("BE", 16),
    ("BG", 22),
    ("BH", 22),
    ("BI", 27),
    ("BR", 29),
    ("BY", 28),
    ("CH", 21),
    ("CR", 22),
    ("CY", 28),
    ("CZ", 24),
    ("DE", 22),
    ("DJ", 27),
    ("DK", 18),
    ("DO", 28),
    ("EE", 20),
    ("EG", 29),
    ("ES", 24),
    ("FI", 18),
    ("FK", 18),
    ("FO", 18),
    ("FR", 27),
    ("GB", 22),
    ("GE", 22),
    ("GI", 23),
    ("GL", 18),
    ("GR", 27),
    ("GT", 28),
    ("HR", 21),
    ("HU", 28),
    ("IE", 22),
    ("IL", 23),
    ("IQ", 23),
    ("IS", 26),
    ("IT", 27),
    ("JO", 30),
    ("KW", 30),
    ("KZ", 20),
    ("LB", 28),
    ("LC", 32),
    ("LI", 21),
    ("LT", 20),
    ("LU", 20),
    ("LV", 21),
    ("LY", 25),
    ("MC", 27),
    ("MD", 24),
    ("ME", 22),
    ("MK", 19),
    ("MN", 20),
    ("MR", 27),
    ("MT", 31),
    ("MU", 30),
    ("NI", 28),
    ("NL", 18),
    ("NO", 15),
    ("OM", 23),
    ("PK", 24),
    ("PL", 28),
    ("PS", 29),
    ("PT", 25),
    ("QA", 29),
    ("RO", 24),
    ("RS", 22),
    ("RU", 33),
    ("SA", 24),
    ("SC", 31),
    ("SD", 18),
    ("SE", 24),
    ("SI", 19),
    ("SK", 24),
    ("SM", 27),
    ("SO", 23),
    ("ST", 25),
    ("SV", 28),
    ("TL", 23),
    ("TN", 24),
    ("TR", 26),
    ("UA", 29),
    ("VA", 22),
    ("VG", 24),
    ("XK", 20),
    ("YE", 30),
];

/// The account number whose check digits begin at `first`.
fn iban(bytes: &[u8], first: usize) -> Option<Range<usize>> {
    let start = first.checked_sub(2)?;
    let has_form = bytes[start].is_ascii_alphabetic() && bytes[start + 1].is_ascii_alphabetic();
    (has_form && bytes.get(first + 1).is_some_and(u8::is_ascii_digit)).then_some(())?;
    let is_free = start == 0
        || !bytes[start - 1].is_ascii_alphanumeric() && bytes[start - 1] != b'_'
        || super::shape::starts_token(bytes, start);
    let country = std::str::from_utf8(&bytes[start..first]).ok()?.to_ascii_uppercase();
    is_free.then_some(())?;
    let (_, length) = IBAN_LENGTHS.iter().find(|(code, _)| *code == country)?;
    let mut characters = Vec::with_capacity(*length);
    let mut at = start;
    while characters.len() < *length {
        match *bytes.get(at)? {
            byte if byte.is_ascii_alphanumeric() => characters.push(byte.to_ascii_uppercase()),
            b' ' | b'-' if characters.len() >= 4 && bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric) => {}
            _ => return None,
        }
        at += 1;
    }
    let is_end = bytes.get(at).is_none_or(|next| !next.is_ascii_alphanumeric());
    (is_end && is_iban(&characters)).then_some(start..at)
}

/// The remainder of ISO 13616.
fn is_iban(characters: &[u8]) -> bool {
    let rotated = characters[4..].iter().chain(&characters[..4]);
    let remainder = rotated.fold(0_u32, |remainder, byte| match byte {
        b'0'..=b'9' => (remainder * 10 + u32::from(byte - b'0')) % 97,
        _ => (remainder * 100 + u32::from(byte - b'A') + 10) % 97,
    });
    remainder == 1
}
