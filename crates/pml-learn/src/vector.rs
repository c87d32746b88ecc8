//! Directions of intents, kept as integers so that comparing ten thousand of them takes a fraction of a millisecond.

use wide::{i16x8, i32x4};

/// The length of a vector, in the integers that it is kept in. The product of two fits 32 bits.
const UNIT: f32 = 8192.0;
const LANES: usize = 8;

/// A direction of length 1, or zero.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Direction(Box<[i16x8]>);

impl Direction {
    /// `None` if there is no direction: a vector of another length than expected, zero, or with a value that is no number.
    pub(crate) fn new(values: &[f32], dimensions: usize) -> Option<Direction> {
        if values.len() != dimensions {
            return None;
        }
        let length = values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        if !(length.is_finite() && length > 1e-12) {
            return None;
        }
        let lane = |value: f32| (f64::from(value) / length * f64::from(UNIT)).round() as i16;
        let lanes = values.chunks(LANES).map(|chunk| {
            let mut lanes = [0; LANES];
            lanes.iter_mut().zip(chunk).for_each(|(at, value)| *at = lane(*value));
            i16x8::new(lanes)
        });
        Some(Direction(lanes.collect()))
    }
}

/// The directions of many intents, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rows {
    /// Groups of [`LANES`] values in a row.
    width: usize,
    values: Vec<i16x8>,
}

impl Rows {
    pub(crate) fn new(dimensions: usize) -> Rows {
        Rows { width: dimensions.div_ceil(LANES), values: Vec::new() }
    }

    /// Sets a row, or appends it if `row` is the number of rows. `None` is zero.
    pub(crate) fn set(&mut self, row: usize, direction: Option<&Direction>) {
        let start = row * self.width;
        if self.values.len() < start + self.width {
            self.values.resize(start + self.width, i16x8::ZERO);
        }
        let values = &mut self.values[start..start + self.width];
        match direction {
            Some(direction) => values.copy_from_slice(&direction.0),
            None => values.fill(i16x8::ZERO),
        }
    }

    /// Writes the cosine of every row with a direction.
    pub(crate) fn cosines(&self, direction: &Direction, cosines: &mut Vec<f32>) {
        cosines.clear();
        if self.width == 0 {
            return;
        }
        cosines.extend(self.values.chunks_exact(self.width).map(|row| cosine(&direction.0, row)));
    }

    /// A row as numbers.
    pub(crate) fn row(&self, row: usize) -> impl Iterator<Item = i16> {
        self.values[row * self.width..(row + 1) * self.width].iter().flat_map(|lanes| lanes.to_array())
    }

    /// Numbers in a row.
    pub(crate) fn row_len(&self) -> usize {
        self.width * LANES
    }

    /// Appends a row of [`row_len`](Self::row_len) numbers.
    pub(crate) fn push(&mut self, numbers: &[i16]) {
        self.values.extend(numbers.chunks(LANES).map(|chunk| {
            let mut lanes = [0; LANES];
            lanes[..chunk.len()].copy_from_slice(chunk);
            i16x8::new(lanes)
        }));
    }
}

/// Four sums, so that an addition need not wait for the one before.
#[inline]
fn cosine(direction: &[i16x8], row: &[i16x8]) -> f32 {
    let mut sums = [i32x4::ZERO; 4];
    let (left, left_rest) = direction.as_chunks::<4>();
    let (right, right_rest) = row.as_chunks::<4>();
    for (a, b) in left.iter().zip(right) {
        for lane in 0..4 {
            sums[lane] += a[lane].dot(b[lane]);
        }
    }
    for (a, b) in left_rest.iter().zip(right_rest) {
        sums[0] += a.dot(*b);
    }
    let sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    sum.reduce_add() as f32 / (UNIT * UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cosine_is_the_cosine() {
        for dimensions in [1, 7, 8, 100, 256, 384] {
            let values = |seed: usize| (0..dimensions).map(|i| ((i * seed + 1) % 17) as f32 - 7.5).collect::<Vec<_>>();
            let (a, b) = (values(3), values(5));
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            let expected = dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt();
            let mut rows = Rows::new(dimensions);
            rows.set(0, None);
            rows.set(1, Direction::new(&b, dimensions).as_ref());
            let mut cosines = Vec::new();
            rows.cosines(&Direction::new(&a, dimensions).unwrap(), &mut cosines);
            assert_eq!((cosines.len(), cosines[0]), (2, 0.0));
            assert!((cosines[1] - expected).abs() < 0.002, "{dimensions}: {} instead of {expected}", cosines[1]);
        }
    }

    #[test]
    fn what_is_no_direction_is_none() {
        for values in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 0.0], &[1.0], &[1.0, 1.0, 1.0]] {
            assert_eq!(Direction::new(values, 2), None, "{values:?}");
        }
    }
}
