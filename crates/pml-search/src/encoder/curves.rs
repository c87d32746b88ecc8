//! Functions that a transformer needs between its products, by operations that IEEE 754 defines exactly: a platform's own
//! may differ in the last bit.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// e to the power of a number that is not above zero.
pub(super) fn exp(x: f32) -> f32 {
    const LEAST: f32 = -80.0;
    if x < LEAST {
        return 0.0;
    }
    // x = whole · ln 2 + rest, with a rest of at most ln 2 / 2 to either side.
    let whole = (x * std::f32::consts::LOG2_E - 0.5) as i32;
    let rest = x - whole as f32 * std::f32::consts::LN_2;
    let mut sum = 1.0;
    for divisor in [6.0, 5.0, 4.0, 3.0, 2.0, 1.0] {
        sum = 1.0 + sum * rest / divisor;
    }
    let power = f32::from_bits(((whole + 127) as u32) << 23);
    sum * power
}

/// The gaussian error linear unit: a number times the share of a normal distribution below it.
#[derive(Debug)]
pub(super) struct Gelu(Vec<f32>);

/// Entries of the table for one, and to where it goes: beyond, the share is 0 or 1.
const STEPS: f32 = 64.0;
const REACH: f32 = 6.0;

impl Gelu {
    pub(super) fn new() -> Gelu {
        let count = (2.0 * REACH * STEPS) as i32;
        Gelu((0..=count + 1).map(|at| share(f64::from(at) / f64::from(STEPS) - f64::from(REACH)) as f32).collect())
    }

    pub(super) fn at(&self, x: f32) -> f32 {
        let place = (x.clamp(-REACH, REACH) + REACH) * STEPS;
        let below = place as usize;
        let (low, high) = (self.0[below], self.0[below + 1]);
        x * (low + (high - low) * (place - below as f32))
    }
}

/// The share of a normal distribution below `x`, by the series of the error function, which does well as far as is asked.
fn share(x: f64) -> f64 {
    let z = x * FRAC_1_SQRT_2;
    // erf z = 2/√π · Σ (-1)ⁿ z²ⁿ⁺¹ / (n! (2n + 1)), in the form without cancellation: e^(-z²) Σ 2ⁿ z²ⁿ⁺¹ / (1·3·…·(2n+1)).
    let (mut term, mut sum) = (z, z);
    for n in 1..200 {
        term *= 2.0 * z * z / f64::from(2 * n + 1);
        sum += term;
    }
    let erf = 2.0 / PI.sqrt() * sum * power_of_e(-z * z);
    0.5 * (1.0 + erf)
}

/// e to the power of a number from -18 to 0, in double precision.
fn power_of_e(x: f64) -> f64 {
    // Of a 64th, then squared six times.
    let part = x / 64.0;
    let mut sum = 1.0;
    for divisor in (1..=20).rev() {
        sum = 1.0 + sum * part / f64::from(divisor);
    }
    (0..6).fold(sum, |power, _| power * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_one() {
        for x in [0.0_f32, -1e-6, -0.1, -0.35, -0.7, -1.0, -3.3, -17.0, -60.0, -79.9] {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-5, "{x}: {} instead of {}", exp(x), x.exp());
        }
        assert_eq!((exp(-100.0), exp(f32::NEG_INFINITY)), (0.0, 0.0));
    }

    /// Values from tables of the normal distribution.
    #[test]
    fn the_unit_is_a_number_times_its_share() {
        let gelu = Gelu::new();
        for (x, share) in [(0.0, 0.5), (1.0, 0.841_345), (-1.0, 0.158_655), (1.96, 0.975_002), (-3.0, 0.001_350)] {
            assert!((gelu.at(x) - x * share).abs() < 2e-5, "{x}: {}", gelu.at(x));
        }
        for (x, expected) in [(6.0, 6.0), (100.0, 100.0), (-6.0, 0.0), (-100.0, 0.0)] {
            assert!((gelu.at(x) - expected).abs() < 1e-4, "{x}: {}", gelu.at(x));
        }
    }
}
