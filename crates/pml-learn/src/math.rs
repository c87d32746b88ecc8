//! Logarithms and powers, the same on every machine.
//!
//! Those of the platform may differ in the last bit from one machine to the next, and with it a model and its rankings. These use
//! only operations that IEEE 754 defines exactly, and have no branches, so that the compiler can make many of them at once.

use std::f64::consts::{LN_2, LOG2_E};

/// The natural logarithm of a positive, normal number, to about seven digits.
#[inline]
pub(crate) fn ln_f32(x: f32) -> f32 {
    let (exponent, log) = log_parts(x);
    exponent * std::f32::consts::LN_2 + log
}

/// A number from 0 to 1 to a power of 1 or more, to about six digits. 0 stays 0.
#[inline]
pub(crate) fn power_f32(base: f32, power: f32) -> f32 {
    let (exponent, log) = log_parts(base.max(f32::MIN_POSITIVE));
    let log2 = exponent + log * std::f32::consts::LOG2_E;
    let value = exp2_f32((power * log2).max(-125.0));
    if base > 0.0 { value } else { 0.0 }
}

/// The exponent of a number, and the logarithm of what is left, which lies between the roots of 1/2 and of 2.
#[inline]
fn log_parts(x: f32) -> (f32, f32) {
    const ROOT_OF_HALF: u32 = 0x3f35_04f3;
    let above = x.to_bits().wrapping_sub(ROOT_OF_HALF);
    let exponent = (above as i32) >> 23;
    let mantissa = f32::from_bits((above & 0x007f_ffff) + ROOT_OF_HALF);
    // ln m = 2 artanh((m - 1) / (m + 1)); the argument is at most 0.172.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let square = t * t;
    let sum = 1.0 + square * (1.0 / 3.0 + square * (1.0 / 5.0 + square * (1.0 / 7.0 + square / 9.0)));
    (exponent as f32, 2.0 * t * sum)
}

/// 2 to a power between -125 and 125.
#[inline]
fn exp2_f32(power: f32) -> f32 {
    const TO_WHOLE: f32 = 12_582_912.0; // 1.5 * 2^23: what is added to it loses its fraction
    let whole = (power + TO_WHOLE) - TO_WHOLE;
    let x = (power - whole) * std::f32::consts::LN_2;
    let fraction =
        1.0 + x * (1.0 + x * (1.0 / 2.0 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0 + x * (1.0 / 720.0))))));
    fraction * f32::from_bits(((whole as i32 + 127) << 23) as u32)
}

/// The natural logarithm of a positive, normal number.
pub(crate) fn ln(x: f64) -> f64 {
    const ROOT_OF_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    let above = x.to_bits().wrapping_sub(ROOT_OF_HALF);
    let exponent = (above as i64) >> 52;
    let mantissa = f64::from_bits((above & 0x000f_ffff_ffff_ffff) + ROOT_OF_HALF);
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let square = t * t;
    let mut sum = 0.0;
    for odd in (1..=21).rev().step_by(2) {
        sum = sum * square + 1.0 / f64::from(odd);
    }
    exponent as f64 * LN_2 + 2.0 * t * sum
}

/// 2 to a power; 0 below the least normal number, and what is above the largest is the largest power of 2.
pub(crate) fn exp2(power: f64) -> f64 {
    if power < -1022.0 {
        return 0.0;
    }
    let power = power.min(1023.0);
    let whole = power.round_ties_even();
    let x = (power - whole) * LN_2;
    const TERMS: [f64; 14] = inverse_factorials();
    let fraction = 1.0 + x * TERMS.iter().rev().fold(0.0, |sum, term| sum * x + term);
    fraction * f64::from_bits(((whole as i64 + 1023) << 52) as u64)
}

/// 1 / 1!, 1 / 2!, and so on.
const fn inverse_factorials() -> [f64; 14] {
    let (mut terms, mut factorial, mut place) = ([0.0; 14], 1.0, 0);
    while place < 14 {
        factorial *= (place + 1) as f64;
        terms[place] = 1.0 / factorial;
        place += 1;
    }
    terms
}

/// e to a power.
pub(crate) fn exp(power: f64) -> f64 {
    exp2(power * LOG2_E)
}

/// A positive, normal number to a power.
pub(crate) fn power(base: f64, power: f64) -> f64 {
    exp2(ln(base) * LOG2_E * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_what_the_platform_has_but_for_the_last_digits() {
        for x in [1e-30_f64, 1e-6, 0.1, 0.5, 0.707, 0.708, 0.999, 1.0, 1.001, 1.5, 2.0, 34.33, 12_345.678, 1e12] {
            assert!((ln(x) - x.ln()).abs() < 1e-14 * x.ln().abs().max(1.0), "{x}");
            let short = x as f32;
            assert!((ln_f32(short) - short.ln()).abs() < 3e-7 * short.ln().abs().max(1.0), "{x}");
        }
        for x in [-1021.5_f64, -300.2, -1.0, -0.5, 0.0, 0.49, 0.51, 1.0, 10.7, 1000.0] {
            assert!((exp2(x) / x.exp2() - 1.0).abs() < 1e-13, "{x}");
        }
        assert_eq!((exp2(-1e9), exp2(0.0), exp2(3.0), exp2(f64::NEG_INFINITY)), (0.0, 1.0, 8.0, 0.0));
        assert!(
            (exp(1.0) - std::f64::consts::E).abs() < 1e-14 && (power(0.01, 0.6) - 0.01_f64.powf(0.6)).abs() < 1e-15
        );
        for base in [0.0_f32, 1e-30, 1e-4, 0.3, 0.5, 0.9, 1.0] {
            for power in [2.0_f32, 2.5, 4.5] {
                let expected = base.powf(power);
                assert!((power_f32(base, power) - expected).abs() <= 2e-5 * expected + 1e-37, "{base} {power}");
            }
        }
    }
}
