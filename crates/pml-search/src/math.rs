//! The logarithm, the same on every machine.

use std::f64::consts::{LN_2, SQRT_2};

/// The natural logarithm of a positive, normal number.
///
/// The platform's own may differ in the last bit from one machine to the next, and with it the order of results.
/// This one uses only operations that IEEE 754 defines exactly.
pub(crate) fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0);
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) as i64) - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)); the argument is at most 0.172, so that 11 terms reach the last bit.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let square = t * t;
    let mut sum = 0.0;
    for odd in (1..=21).rev().step_by(2) {
        sum = sum * square + 1.0 / f64::from(odd);
    }
    exponent as f64 * LN_2 + 2.0 * t * sum
}

#[cfg(test)]
mod tests {
    use super::ln;

    #[test]
    fn it_is_the_logarithm() {
        for x in [1e-9, 0.1, 0.5, 0.999, 1.0, 1.001, 1.5, 2.0, 3.0, 10.0, 12_345.678, 1e12] {
            assert!((ln(x) - x.ln()).abs() < 1e-14 * x.ln().abs().max(1.0), "{x}");
        }
    }
}
