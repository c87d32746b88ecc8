//! Directions of intents, kept as bytes so that comparing ten thousand of them takes a fraction of a millisecond.
//!
//! What that takes is mostly reading them, so a remembered direction has 8 bits for each number, with a scale of its own. What they
//! are compared with has 16. Sums are whole numbers: they do not depend on their order.

use wide::{i16x8, i32x4};

const LANES: usize = 8;
/// Numbers in a group of a row: each lane has two.
const GROUP: usize = 2 * LANES;
/// The largest number in a row.
const LARGEST: f64 = 127.0;
/// What products are multiplied by, since the numbers of a row are multiplied in the upper half of a lane.
const UPPER: f64 = 256.0;

/// A direction of length 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Direction {
    /// What rows are multiplied with, two for each group.
    factors: Box<[i16x8]>,
    /// What 1 is among the factors.
    unit: f32,
    /// The same as a row, and what 1 is worth in it.
    row: Box<[i16x8]>,
    step: f32,
}

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
        let groups = || values.chunks(GROUP).map(|group| group.iter().map(|value| f64::from(*value) / length));
        // No row is longer than LARGEST * √dimensions, so that a product fits 32 bits.
        let unit = (8e6 / (LARGEST * (dimensions as f64).sqrt())).min(8192.0).floor();
        let factors = groups().flat_map(|group| {
            let mut lanes = [[0; LANES]; 2];
            group.enumerate().for_each(|(at, value)| lanes[at / LANES][at % LANES] = (value * unit).round() as i16);
            lanes.map(i16x8::new)
        });
        let step = groups().flatten().fold(0.0, |most: f64, value| most.max(value.abs())) / LARGEST;
        let row = groups().map(|group| {
            let mut numbers = [0; GROUP];
            numbers.iter_mut().zip(group).for_each(|(number, value)| *number = (value / step).round() as i8);
            packed(&numbers)
        });
        Some(Direction { factors: factors.collect(), unit: unit as f32, row: row.collect(), step: step as f32 })
    }
}

/// Numbers two to a lane: the first half in the lower bytes, the second in the upper ones.
fn packed(numbers: &[i8; GROUP]) -> i16x8 {
    i16x8::new(std::array::from_fn(|lane| i16::from_le_bytes([numbers[lane] as u8, numbers[LANES + lane] as u8])))
}

/// The directions of many intents, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rows {
    /// Groups in a row.
    width: usize,
    values: Vec<i16x8>,
    /// What 1 is worth in each row.
    steps: Vec<f32>,
}

impl Rows {
    pub(crate) fn new(dimensions: usize) -> Rows {
        Rows { width: dimensions.div_ceil(GROUP), values: Vec::new(), steps: Vec::new() }
    }

    /// Sets a row, or appends it if `row` is the number of rows. `None` is zero.
    pub(crate) fn set(&mut self, row: usize, direction: Option<&Direction>) {
        let start = row * self.width;
        if self.steps.len() <= row {
            self.values.resize(start + self.width, i16x8::ZERO);
            self.steps.resize(row + 1, 0.0);
        }
        let values = &mut self.values[start..start + self.width];
        match direction {
            Some(direction) => values.copy_from_slice(&direction.row),
            None => values.fill(i16x8::ZERO),
        }
        self.steps[row] = direction.map_or(0.0, |direction| direction.step);
    }

    /// Writes the cosine of every row with a direction.
    pub(crate) fn cosines(&self, direction: &Direction, cosines: &mut Vec<f32>) {
        cosines.clear();
        if self.width == 0 {
            return;
        }
        let scale = 1.0 / (UPPER as f32 * direction.unit);
        let rows = self.values.chunks_exact(self.width).zip(&self.steps);
        cosines.extend(rows.map(|(row, step)| product(&direction.factors, row) as f32 * (step * scale)));
    }

    /// A row as a direction. `None` if there is no such row, or it is zero.
    pub(crate) fn direction(&self, row: usize) -> Option<Direction> {
        if row >= self.steps.len() {
            return None;
        }
        let (numbers, step) = self.row(row);
        let values: Vec<f32> = numbers.map(|number| f32::from(number) * step).collect();
        Direction::new(&values, self.row_len())
    }

    /// A row as numbers, and what 1 is worth in it.
    pub(crate) fn row(&self, row: usize) -> (impl Iterator<Item = i8>, f32) {
        let groups = self.values[row * self.width..(row + 1) * self.width].iter().flat_map(|group| {
            let lanes = group.to_array().map(i16::to_le_bytes);
            std::array::from_fn::<i8, GROUP, _>(|at| lanes[at % LANES][at / LANES] as i8)
        });
        (groups, self.steps[row])
    }

    /// Numbers in a row.
    pub(crate) fn row_len(&self) -> usize {
        self.width * GROUP
    }

    /// Appends a row of [`row_len`](Self::row_len) numbers.
    pub(crate) fn push(&mut self, numbers: &[i8], step: f32) {
        let (groups, _) = numbers.as_chunks::<GROUP>();
        self.values.extend(groups.iter().map(packed));
        self.steps.push(step);
    }

    /// Appends a row of others.
    pub(crate) fn push_row(&mut self, other: &Rows, row: usize) {
        self.values.extend_from_slice(&other.values[row * other.width..(row + 1) * other.width]);
        self.steps.push(other.steps[row]);
    }
}

/// Four sums, so that an addition need not wait for the one before.
#[inline]
fn product(factors: &[i16x8], row: &[i16x8]) -> i32 {
    let upper = i16x8::splat(-256);
    let mut sums = [i32x4::ZERO; 4];
    let (pairs, _) = factors.as_chunks::<2>();
    let (left, left_rest) = pairs.as_chunks::<2>();
    let (right, right_rest) = row.as_chunks::<2>();
    for (factors, groups) in left.iter().zip(right) {
        for at in 0..2 {
            sums[2 * at] += factors[at][0].dot(groups[at] << 8_u32);
            sums[2 * at + 1] += factors[at][1].dot(groups[at] & upper);
        }
    }
    for (factors, group) in left_rest.iter().zip(right_rest) {
        sums[0] += factors[0].dot(*group << 8_u32);
        sums[1] += factors[1].dot(*group & upper);
    }
    ((sums[0] + sums[1]) + (sums[2] + sums[3])).reduce_add()
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
            assert!((cosines[1] - expected).abs() < 0.006, "{dimensions}: {} instead of {expected}", cosines[1]);
        }
    }

    #[test]
    fn no_product_overflows() {
        for dimensions in [1, 16, 17, 256, 1024] {
            let mut rows = Rows::new(dimensions);
            let values = vec![-1.0; dimensions];
            let direction = Direction::new(&values, dimensions).unwrap();
            rows.set(0, Some(&direction));
            rows.push(&vec![-128; rows.row_len()], 1.0 / 128.0 / (dimensions as f32).sqrt());
            let mut cosines = Vec::new();
            rows.cosines(&direction, &mut cosines);
            assert!(cosines.iter().all(|cosine| (cosine - 1.0).abs() < 0.02), "{dimensions}: {cosines:?}");
        }
    }

    #[test]
    fn a_row_that_was_taken_out_is_the_same() {
        let values: Vec<f32> = (0..37).map(|i| (i * i % 11) as f32 - 4.0).collect();
        let mut rows = Rows::new(37);
        rows.set(0, Direction::new(&values, 37).as_ref());
        let (numbers, step) = rows.row(0);
        let numbers: Vec<i8> = numbers.collect();
        let mut others = Rows::new(37);
        others.push(&numbers, step);
        others.push_row(&rows, 0);
        assert_eq!((&others.values[..3], others.steps[0]), (&rows.values[..], step));
        assert_eq!(others.values[..3], others.values[3..]);
    }

    #[test]
    fn what_is_no_direction_is_none() {
        for values in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 0.0], &[1.0], &[1.0, 1.0, 1.0]] {
            assert_eq!(Direction::new(values, 2), None, "{values:?}");
        }
    }
}
