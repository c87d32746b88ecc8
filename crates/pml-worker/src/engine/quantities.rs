//! Numbers, amounts, dates and times as they stand in texts, to tell whether the order of the texts is theirs.

use std::cmp::Ordering;

use super::units;

/// Longest text that is read.
pub(super) const MAX_BYTES: usize = 64;

/// What a text says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Quantity {
    Amount(Amount),
    Moment(Moment),
}

impl Quantity {
    /// Is it a number as JavaScript writes it?
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Quantity::Amount(amount) if amount.is_plain)
    }

    /// How it is written, of a date or time.
    pub(super) fn form(&self) -> Option<Form> {
        match self {
            Quantity::Moment(moment) => Some(moment.form),
            Quantity::Amount(_) => None,
        }
    }
}

/// A number, with or without a unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Amount {
    pub(super) number: f64,
    /// `$`, `EUR`, `kg`, `%`.
    pub(super) unit: String,
    /// Is it written as JavaScript reads numbers?
    pub(super) is_plain: bool,
}

/// A date, a time of day, or both.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Moment {
    form: Form,
    /// The day, by each way to read it; of `03/04/2024` there are two. None of a time of day.
    days: [Option<i64>; 2],
    seconds: Option<i64>,
    /// The difference to UTC.
    zone: Option<i64>,
}

/// How a date is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `2024-03-14`
    Iso,
    /// `14/03/2024`
    Numeric(char),
    /// `14 Mar 2024`
    Named,
    /// `9:30`
    Clock,
}

/// Why two texts are in another order than what they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// They are numbers, all of them as JavaScript writes them or not.
    Numbers { is_plain: bool },
    /// They are dates in these forms.
    Dates(Form, Form),
    /// They are dates in zones of their own.
    Zones,
    /// They are times of day.
    Clocks,
}

/// Reads a text.
pub(super) fn read(text: &str) -> Option<Quantity> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_BYTES || !text.bytes().any(|it| it.is_ascii_digit()) {
        return None;
    }
    moment(text).map(Quantity::Moment).or_else(|| amount(text).map(Quantity::Amount))
}

/// Is this a date whose day must stand first, since there is no such month? JavaScript reads the month first.
pub(super) fn is_day_first(text: &str) -> bool {
    matches!(read(text), Some(Quantity::Moment(Moment { form: Form::Numeric('/' | '-'), days: [Some(_), None], .. })))
}

/// Why what two texts say is in the opposite of an order, if it is.
pub(super) fn disagreement(left: &str, right: &str, order: Ordering) -> Option<Reason> {
    let (left, right) = (read(left)?, read(right)?);
    let (actual, reason) = compare(&left, &right)?;
    (actual != Ordering::Equal && actual == order.reverse()).then_some(reason)
}

fn compare(left: &Quantity, right: &Quantity) -> Option<(Ordering, Reason)> {
    match (left, right) {
        (Quantity::Amount(left), Quantity::Amount(right)) => {
            let is_plain = left.is_plain && right.is_plain;
            let ratio = if left.unit == right.unit { 1.0 } else { units::ratio(&left.unit, &right.unit)? };
            let order = (left.number * ratio).partial_cmp(&right.number)?;
            Some((order, Reason::Numbers { is_plain }))
        }
        (Quantity::Moment(left), Quantity::Moment(right)) => compare_moments(left, right),
        _ => None,
    }
}

fn compare_moments(left: &Moment, right: &Moment) -> Option<(Ordering, Reason)> {
    if left.form == Form::Clock || right.form == Form::Clock {
        let both = left.form == right.form;
        return left
            .seconds
            .zip(right.seconds)
            .filter(|_| both)
            .map(|(left, right)| (left.cmp(&right), Reason::Clocks));
    }
    let zones = left.zone.zip(right.zone);
    let reason = match (left.form, right.form) {
        // What is written alike is in order, unless the clocks differ.
        (Form::Iso, Form::Iso) => zones.filter(|(left, right)| left != right).map(|_| Reason::Zones)?,
        (left, right) => Reason::Dates(left, right),
    };
    let (left_zone, right_zone) = zones.unwrap_or_default();
    let has_times = left.seconds.is_some() && right.seconds.is_some();
    let mut orders = left.days.iter().zip(&right.days).filter_map(|(left_day, right_day)| {
        let (left_day, right_day) = ((*left_day)?, (*right_day)?);
        Some(match has_times {
            true => {
                let at = |day: i64, seconds: Option<i64>, zone: i64| day * 86_400 + seconds.unwrap_or_default() - zone;
                at(left_day, left.seconds, left_zone).cmp(&at(right_day, right.seconds, right_zone))
            }
            false => left_day.cmp(&right_day),
        })
    });
    // Whichever way the dates are read, it is the same.
    let first = orders.next()?;
    orders.all(|order| order == first).then_some((first, reason))
}

// ── Numbers ────────────────────────────────────────────────────────────────────────────────────

/// Is this a length of time in parts, such as `1h 30m` or, if the first of the parts is not wanted, `3:45`?
fn is_compound(text: &str, is_whole: bool) -> bool {
    let mut rest = text;
    let mut parts = 0;
    while let Some((_, behind)) = number(rest, 9).filter(|(_, behind)| behind.len() < rest.len()) {
        let behind = behind.trim_start();
        let end = behind.find(|it: char| !it.is_alphabetic()).unwrap_or(behind.len());
        if !units::is_time(&behind[..end]) {
            break;
        }
        parts += 1;
        rest = behind[end..].trim_start_matches([' ', ',']);
    }
    parts > 1 && rest.is_empty() || !is_whole && matches!(clock(text), Some((_, "")))
}

/// Do `parseFloat` and `parseInt` take only a part of the number that a text begins with, and so another one?
pub(super) fn is_cut(text: &str, is_whole: bool) -> bool {
    let text = text.trim();
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let sign = usize::from(text.starts_with(['-', '+']));
    let mut end = sign + digits(&text[sign..]);
    if end == sign {
        return false;
    }
    if let Some(fraction) = text[end..].strip_prefix('.').filter(|_| !is_whole) {
        end += 1 + digits(fraction);
    }
    let Ok(taken) = text[..end].parse::<f64>() else { return false };
    is_compound(text, is_whole)
        || amount(text)
            .is_some_and(|it| if is_whole { it.number.trunc() != taken } else { !it.is_plain && it.number != taken })
}

/// Is it an amount that JavaScript does not read as a number: one with a unit or separators, or a length of time in parts?
pub(super) fn is_amount(text: &str) -> bool {
    let text = text.trim();
    text.len() <= MAX_BYTES && (amount(text).is_some_and(|it| !it.is_plain) || is_compound(text, false))
}

/// The number that a text says, unless its only separator may be either that of thousands or that of the fraction.
pub(super) fn number_of(text: &str) -> Option<f64> {
    let amount = amount(text.trim())?;
    let behind = |at: usize| text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
    let separators: Vec<(usize, char)> = text.char_indices().filter(|(_, it)| matches!(it, '.' | ',')).collect();
    let is_doubtful = matches!(separators[..], [(at, _)] if behind(at) == 3);
    (!is_doubtful).then_some(amount.number)
}

/// How to read a number with separators, in words.
pub(super) fn reading(text: &str, value: &str) -> Option<String> {
    let number = amount(text).filter(|it| !it.is_plain)?.number;
    let last = text.rfind([',', '.', '\'', '’', ' '])?;
    let is_comma = text[last..].starts_with(',');
    let has_fraction = number.fract() != 0.0 || text[last + 1..].bytes().take_while(u8::is_ascii_digit).count() != 3;
    Some(match (is_comma && has_fraction, text.contains('.')) {
        (true, true) => format!(
            "write `Number({value}.replaceAll(\".\", \"\").replace(\",\", \".\"))`, if the comma is that of the fraction"
        ),
        (true, false) => format!("write `Number({value}.replace(\",\", \".\"))`, if the comma is that of the fraction"),
        (false, _) if text.contains(',') => {
            format!("write `Number({value}.replaceAll(\",\", \"\"))`, if the comma is for thousands")
        }
        _ => return None,
    })
}

/// Is it a text with digits that `parseFloat` and `parseInt` make NaN of?
pub(super) fn is_passed_over(text: &str) -> bool {
    let unsigned = text.trim().trim_start_matches(['+', '-', '.']);
    text.bytes().any(|it| it.is_ascii_digit())
        && !unsigned.starts_with(|it: char| it.is_ascii_digit())
        && unsigned != "Infinity"
}

/// How to read the number in a text, also one with a unit. None if that is not plain.
pub(super) fn reading_of_any(text: &str, value: &str) -> Option<String> {
    amount(text)?;
    if !is_cut(text, false) && !is_passed_over(text) {
        return Some(format!("take the number that it begins with, by `parseFloat({value})`"));
    }
    let reading = reading(text, value)?;
    let has_unit = text.contains(|it: char| it.is_alphabetic() || it == '%' || SIGNS.contains(&it));
    Some(match (has_unit, reading.contains("comma is for thousands")) {
        (false, _) => reading,
        (true, true) => format!("write `Number({value}.replace(/[^\\d.-]/g, \"\"))`, if the comma is for thousands"),
        (true, false) => "take out first what is no digit".to_owned(),
    })
}

const SIGNS: [char; 9] = ['$', '€', '£', '¥', '₹', '₩', '₽', '฿', '₺'];

/// Reads a number with separators and a unit.
pub(super) fn amount(text: &str) -> Option<Amount> {
    let mut rest = text.trim();
    let mut is_negative = false;
    let mut unit = String::new();
    let mut take_sign = |rest: &mut &str| {
        if let Some(after) = rest.strip_prefix(['-', '−']) {
            is_negative = true;
            *rest = after.trim_start();
        } else if let Some(after) = rest.strip_prefix('+') {
            *rest = after;
        }
    };
    take_sign(&mut rest);
    if let Some(after) = rest.strip_prefix(SIGNS) {
        unit.push_str(&rest[..rest.len() - after.len()]);
        rest = after.trim_start();
    } else if rest.len() > 3
        && rest.as_bytes()[..3].iter().all(u8::is_ascii_uppercase)
        // `SKU-100` is a code.
        && rest[3..].starts_with(|it: char| it.is_ascii_digit() || it == ' ' || it == '\u{a0}')
    {
        unit.push_str(&rest[..3]);
        rest = rest[3..].trim_start();
    }
    take_sign(&mut rest);
    let is_part = |it: char| it.is_ascii_digit() || matches!(it, '.' | ',' | '\'' | '’' | ' ' | '\u{a0}' | '\u{202f}');
    let mut end = rest.find(|it| !is_part(it)).unwrap_or(rest.len());
    let exponent = rest[end..].strip_prefix(['e', 'E']).map(|it| it.trim_start_matches(['+', '-']));
    let digits = exponent.map_or(0, |it| it.bytes().take_while(u8::is_ascii_digit).count());
    let exponent_end = exponent.filter(|_| digits > 0).map(|it| rest.len() - it.len() + digits);
    let number = rest[..end].trim_end_matches([' ', '\u{a0}', '\u{202f}']);
    let number = match exponent_end {
        Some(exponent_end) => {
            end = exponent_end;
            rest[..end].parse().ok()?
        }
        None => separated(number)?,
    };
    let behind = rest[end..].trim();
    let is_unit = |it: char| it.is_alphabetic() || it == '%' || it == '°' || it == '/' || SIGNS.contains(&it);
    if behind.chars().count() > 8 || !behind.chars().all(is_unit) {
        return None;
    }
    unit.push_str(&behind.to_lowercase());
    let is_plain = text.trim().parse::<f64>().is_ok();
    Some(Amount { number: if is_negative { -number } else { number }, unit, is_plain })
}

/// A number with separators: `1,234.50`, `1.234,50`, `1 234,5`, `12`. Not `007`, which is a code, nor `1.2.3`.
fn separated(text: &str) -> Option<f64> {
    let separators: Vec<char> = text.chars().filter(|it| !it.is_ascii_digit()).collect();
    if !text.starts_with(|it: char| it.is_ascii_digit()) || !text.ends_with(|it: char| it.is_ascii_digit()) {
        return None;
    }
    let last = separators.last().copied();
    let parts: Vec<&str> = text.split(|it: char| !it.is_ascii_digit()).collect();
    let first = parts.first()?;
    if first.len() > 1 && first.starts_with('0') || first.len() > 15 {
        return None;
    }
    let is_grouped = |groups: &[&str]| first.len() <= 3 && groups.iter().all(|it| it.len() == 3);
    // Is the last separator that of the fraction?
    let has_fraction = match (last, separators.len()) {
        (None, _) => false,
        (Some('.'), 1) => true,
        (Some(','), 1) => parts.get(1).is_some_and(|it| it.len() != 3) || *first == "0",
        (Some(last @ ('.' | ',')), _) => !separators[..separators.len() - 1].contains(&last),
        _ => false,
    };
    let groups = if has_fraction { &parts[1..parts.len() - 1] } else { &parts[1..] };
    let is_uniform = separators.iter().take(groups.len()).all(|it| Some(it) == separators.first());
    if !is_grouped(groups) && !groups.is_empty() || !is_uniform {
        return None;
    }
    let mut plain: String = first.to_string() + &groups.concat();
    if has_fraction {
        plain.push('.');
        plain.push_str(parts.last()?);
    }
    plain.parse().ok()
}

// ── Dates ──────────────────────────────────────────────────────────────────────────────────────

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Reads a date or a time of day.
fn moment(text: &str) -> Option<Moment> {
    if let Some((seconds, "")) = clock(text) {
        return Some(Moment { form: Form::Clock, days: [None; 2], seconds: Some(seconds), zone: None });
    }
    let (form, days, rest) = numeric_date(text).or_else(|| named_date(text))?;
    let rest = rest.trim_start_matches([' ', ',', 'T', 't']);
    let rest = rest.strip_prefix("at ").unwrap_or(rest);
    if rest.is_empty() {
        return Some(Moment { form, days, seconds: None, zone: None });
    }
    let (seconds, rest) = clock(rest)?;
    let zone = match rest.trim() {
        "" => None,
        "Z" | "z" | "GMT" | "UTC" => Some(0),
        rest => Some(offset(rest)?),
    };
    Some(Moment { form, days, seconds: Some(seconds), zone })
}

/// The number of seconds since midnight, and what stands behind.
fn clock(text: &str) -> Option<(i64, &str)> {
    let (hours, rest) = number(text, 2)?;
    let (minutes, mut rest) = number(rest.strip_prefix(':')?, 2)?;
    let mut seconds = 0;
    if let Some((read, after)) = rest.strip_prefix(':').and_then(|rest| number(rest, 2)) {
        (seconds, rest) = (read, after);
        if let Some(after) = rest.strip_prefix('.') {
            rest = after.trim_start_matches(|it: char| it.is_ascii_digit());
        }
    }
    let mut hours = hours;
    let lower = rest.trim_start().to_ascii_lowercase();
    for (half, shift) in [("am", 0), ("pm", 12)] {
        if lower.starts_with(half) {
            hours = hours % 12 + shift;
            rest = &rest.trim_start()[2..];
        }
    }
    (hours < 25 && minutes < 60 && seconds < 61).then_some((hours * 3600 + minutes * 60 + seconds, rest))
}

/// `+01:00`, `-0800`.
fn offset(text: &str) -> Option<i64> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, rest) = number(text.strip_prefix(['+', '-'])?, 2)?;
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    let (minutes, rest) = if rest.is_empty() { (0, rest) } else { number(rest, 2)? };
    // `(CET)` may follow.
    let is_end = rest.is_empty() || rest.trim_start().starts_with('(');
    is_end.then_some(sign * (hours * 3600 + minutes * 60))
}

type Dated<'a> = (Form, [Option<i64>; 2], &'a str);

/// `2024-03-14`, `2024/3/14`, `14/03/2024`, `14.3.24`.
fn numeric_date(text: &str) -> Option<Dated<'_>> {
    let (first, rest) = number(text, 4)?;
    let first_digits = text.len() - rest.len();
    let separator = rest.chars().next().filter(|it| matches!(it, '-' | '/' | '.'))?;
    let (second, rest) = number(&rest[1..], 2)?;
    let rest = rest.strip_prefix(separator)?;
    let (third, behind) = number(rest, 4)?;
    let third_digits = rest.len() - behind.len();
    if behind.starts_with(|it: char| it.is_alphanumeric() && it != 'T' || it == separator) {
        return None;
    }
    match (first_digits, third_digits) {
        (4, 1 | 2) => {
            let is_iso = separator == '-' && third_digits == 2;
            let day = day(first, second, third);
            day?;
            Some((if is_iso { Form::Iso } else { Form::Numeric(separator) }, [day, day], behind))
        }
        (1 | 2, 2 | 4) => {
            let year = if third_digits == 2 { 2000 + third } else { third };
            let days = [day(year, second, first), day(year, first, second)];
            // What is written with points is in the order of Europe.
            let days = if separator == '.' { [days[0], days[0]] } else { days };
            days.iter().any(Option::is_some).then_some((Form::Numeric(separator), days, behind))
        }
        _ => None,
    }
}

/// `Thu, 14 Mar 2024`, `March 14, 2024`.
fn named_date(text: &str) -> Option<Dated<'_>> {
    let (mut month, mut month_day, mut rest) = (None, None, text);
    loop {
        rest = rest.trim_start_matches([' ', ',', '-', '.']);
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            return None;
        }
        let short = word.get(..3.min(word.len())).unwrap_or_default().to_ascii_lowercase();
        if let Some((value, behind)) = number(word, 4) {
            if !matches!(behind, "" | "st" | "nd" | "rd" | "th") {
                return None;
            }
            match (month_day, word.len()) {
                (None, 1 | 2) => month_day = Some(value),
                (None, _) if behind.len() == 2 => month_day = Some(value),
                (Some(date), 4) => {
                    let day = day(value, month?, date);
                    day?;
                    return Some((Form::Named, [day, day], after));
                }
                _ => return None,
            }
        } else if let Some(found) = MONTHS.iter().position(|it| *it == short).filter(|_| month.is_none()) {
            month = Some(found as i64 + 1);
        } else if !WEEKDAYS.contains(&short.as_str()) || month.is_some() {
            return None;
        }
        rest = after;
    }
}

/// A number of at most so many digits, and what stands behind.
fn number(text: &str, digits: usize) -> Option<(i64, &str)> {
    let end = text.bytes().take(digits).take_while(u8::is_ascii_digit).count();
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// The number of a day since some day long ago.
fn day(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(1..=9999).contains(&year) {
        return None;
    }
    // Days in the years before, which begin in March: then the leap day is the last of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    Some(365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_separators_and_units() {
        #[rustfmt::skip]
        let table = [
            ("12", Some(12.0)), ("-9.50", Some(-9.5)), ("1e3", Some(1000.0)), ("1,250.00", Some(1250.0)), ("1.234,56", Some(1234.56)),
            ("12,5", Some(12.5)), ("12,500", Some(12500.0)), ("1.234.567", Some(1_234_567.0)), ("1 234,50", Some(1234.5)), ("$1,000", Some(1000.0)),
            ("-$5", Some(-5.0)), ("EUR 12.00", Some(12.0)), ("12,00 €", Some(12.0)), ("45%", Some(45.0)), ("150 g", Some(150.0)), ("0.5", Some(0.5)),
            ("1'000.50", Some(1000.5)),
            ("007", None), ("1.2.3", None), ("v10", None), ("12-14", None), ("10 Main Street", None), ("", None), ("1,23,4", None), ("+49 30 1234567", None),
            ("SKU-100", None), ("EUR -5", Some(-5.0)),
        ];
        for (text, expected) in table {
            assert_eq!(amount(text).map(|it| it.number), expected, "{text}");
        }
    }

    #[test]
    fn what_parse_float_cuts_off_is_found() {
        #[rustfmt::skip]
        let table = [
            ("12,500.00", true, true), ("1.234,56", true, true), ("12,5", true, false), ("1,200 items", true, true), ("-1,200", true, true),
            ("12px", false, false), ("45%", false, false), ("3 items", false, false), ("9.99", false, false), ("1e3", false, true), ("2024-03-14", false, false),
            ("1.2.3", false, false), ("$5", false, false), ("10:30", true, false), ("", false, false), ("1h 30m", true, true), ("2 days, 4 hours", true, true),
            ("3h", false, false), ("10:30 Uhr", false, false),
        ];
        for (text, is_cut_by_float, is_cut_by_int) in table {
            assert_eq!((is_cut(text, false), is_cut(text, true)), (is_cut_by_float, is_cut_by_int), "{text}");
        }
    }

    #[test]
    fn texts_in_another_order_than_what_they_say_are_found() {
        use Form::{Iso, Named, Numeric};
        #[rustfmt::skip]
        let table = [
            ("9.50", "10.00", Some(Reason::Numbers { is_plain: true })),
            ("1,250.00", "900.00", Some(Reason::Numbers { is_plain: false })),
            ("$9", "$10", Some(Reason::Numbers { is_plain: false })),
            ("14/03/2024", "02/04/2024", Some(Reason::Dates(Numeric('/'), Numeric('/')))),
            ("14/03/2024", "2024-02-01", Some(Reason::Dates(Numeric('/'), Iso))),
            ("14.03.2024", "02.04.2024", Some(Reason::Dates(Numeric('.'), Numeric('.')))),
            ("Thu, 14 Mar 2024 09:00:00 +0100", "Fri, 15 Mar 2024 09:00:00 +0100", Some(Reason::Dates(Named, Named))),
            ("March 2, 2024", "April 1, 2024", Some(Reason::Dates(Named, Named))),
            ("2024-03-14T09:00:00+01:00", "2024-03-14T08:30:00Z", Some(Reason::Zones)),
            ("2024/3/14", "2024/12/1", Some(Reason::Dates(Numeric('/'), Numeric('/')))),
            ("9:30", "10:15", Some(Reason::Clocks)),
            ("9:30 PM", "10:15 AM", None),
            ("12:15 AM", "11:15 AM", Some(Reason::Clocks)),
            // The same order, or nothing to compare.
            ("10", "20", None), ("007", "10", None), ("$9", "€10", None), ("1.9", "1.10", None), ("b", "a10", None), ("900 g", "1.2 kg", Some(Reason::Numbers { is_plain: false })), ("9 kg", "10 km", None),
            ("03/04/2024", "04/03/2024", None), ("2024-03-14", "2024-02-01", None), ("2024-03-14", "2024-03-14T00:30:00+01:00", None),
            ("2024-03-14T09:00:00", "2024-03-14T08:30:00Z", None), ("09:30", "10:15", None), ("10:15", "10:15", None),
        ];
        for (left, right, expected) in table {
            assert_eq!(disagreement(left, right, left.cmp(right)), expected, "{left} and {right}");
        }
    }
}
