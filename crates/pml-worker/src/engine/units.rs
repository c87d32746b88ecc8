//! Units behind numbers in texts, to tell that two of them count the same thing in steps of different size: `512 MB`, `1.2 GB`.

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Bytes,
    Time,
    Count,
    Mass,
    Length,
    Volume,
    Money,
}

use Family::{Bytes, Count, Length, Mass, Money, Time, Volume};

const KIBI: f64 = 1024.0;
/// Units in lower case, and the size of each. Currencies have no size, only a number of their own.
#[rustfmt::skip]
const UNITS: [(Family, &[&str], f64); 48] = [
    (Bytes, &["b", "byte", "bytes"], 1.0), (Bytes, &["kb"], 1e3), (Bytes, &["mb"], 1e6), (Bytes, &["gb"], 1e9), (Bytes, &["tb"], 1e12),
    (Bytes, &["kib"], KIBI), (Bytes, &["mib"], KIBI * KIBI), (Bytes, &["gib"], KIBI * KIBI * KIBI), (Bytes, &["tib"], KIBI * KIBI * KIBI * KIBI),
    (Time, &["ns"], 1e-9), (Time, &["us", "µs"], 1e-6), (Time, &["ms", "msec", "millis"], 1e-3), (Time, &["s", "sec", "secs", "second", "seconds"], 1.0),
    (Time, &["m", "min", "mins", "minute", "minutes"], 60.0), (Time, &["h", "hr", "hrs", "hour", "hours"], 3600.0), (Time, &["d", "day", "days"], 86_400.0),
    (Time, &["w", "week", "weeks"], 604_800.0), (Time, &["month", "months"], 2_629_800.0), (Time, &["y", "yr", "yrs", "year", "years"], 31_557_600.0),
    (Count, &[""], 1.0), (Count, &["k"], 1e3), (Count, &["m", "mio"], 1e6), (Count, &["b", "bn"], 1e9),
    (Mass, &["mg"], 1e-3), (Mass, &["g"], 1.0), (Mass, &["kg"], 1e3), (Mass, &["t"], 1e6), (Mass, &["oz"], 28.349_523_125), (Mass, &["lb", "lbs"], 453.592_37),
    (Length, &["mm"], 1e-3), (Length, &["cm"], 1e-2), (Length, &["m"], 1.0), (Length, &["km"], 1e3), (Length, &["in"], 0.0254), (Length, &["ft"], 0.3048),
    (Length, &["mi", "mile", "miles"], 1_609.344),
    (Volume, &["ml"], 1e-3), (Volume, &["cl"], 1e-2), (Volume, &["dl"], 0.1), (Volume, &["l", "liter", "liters", "litre", "litres"], 1.0),
    (Money, &["$", "usd"], 1.0), (Money, &["€", "eur"], 2.0), (Money, &["£", "gbp"], 3.0), (Money, &["¥", "jpy"], 4.0), (Money, &["chf"], 5.0),
    (Money, &["₹", "inr"], 6.0), (Money, &["₩", "krw"], 7.0), (Money, &["₽", "rub"], 8.0),
];

/// Do two units measure the same thing in steps of different size, or in other money?
pub(super) fn differ(left: &str, right: &str) -> bool {
    let (left, right) = (left.to_lowercase(), right.to_lowercase());
    left != right && sizes(&left, &right).is_some_and(|(_, left, right)| left != right)
}

/// How many of the right unit one of the left is. Currencies have no ratio that is known here.
pub(super) fn ratio(left: &str, right: &str) -> Option<f64> {
    let (family, left, right) = sizes(&left.to_lowercase(), &right.to_lowercase())?;
    (family != Money).then_some(left / right)
}

/// Is this a unit of time?
pub(super) fn is_time(unit: &str) -> bool {
    UNITS.iter().any(|(family, names, _)| *family == Time && names.contains(&unit.to_lowercase().as_str()))
}

/// The sizes of two units of one family.
fn sizes(left: &str, right: &str) -> Option<(Family, f64, f64)> {
    // Of rates, `MB/s` and `GB/s`, it is the first.
    let (left, right) = match (left.split_once('/'), right.split_once('/')) {
        (Some((left, of)), Some((right, of_other))) if of == of_other => (left, right),
        (None, None) => (left, right),
        _ => return None,
    };
    UNITS.iter().filter(|(_, names, _)| names.contains(&left)).find_map(|(family, _, size)| {
        let other = UNITS.iter().find(|(other, names, _)| other == family && names.contains(&right));
        other.map(|(_, _, other)| (*family, *size, *other))
    })
}

#[cfg(test)]
mod tests {
    use super::{differ, ratio};

    #[test]
    fn units_of_one_family_differ_in_size() {
        #[rustfmt::skip]
        let table = [
            ("MB", "GB", true), ("gib", "mib", true), ("ms", "s", true), ("h", "min", true), ("m", "h", true), ("k", "m", true), ("", "k", true),
            ("$", "EUR", true), ("mb/s", "gb/s", true), ("kg", "lb", true),
            ("day", "days", false), ("$", "usd", false), ("kg", "km", false), ("", "ms", false), ("%", "k", false), ("items", "item", false), ("mb/s", "gb", false),
        ];
        for (left, right, expected) in table {
            assert_eq!(differ(left, right), expected, "{left} and {right}");
        }
        assert_eq!(ratio("h", "min"), Some(60.0));
        assert_eq!(ratio("$", "€"), None);
    }
}
