//! A product of a matrix and some vectors, in whole numbers: the order of additions does not matter, so it is the same on
//! every machine.
//!
//! Weights stay as they lie in the program, half a byte each. A few rows at a time are unpacked for all vectors, which takes
//! less time than reading them unpacked from memory, and no memory.

use super::{
    file::Packed,
    kernels::{GROUP, Kernel, ROWS, VECTORS, sorted},
};

/// The largest value of a vector. A test checks that no row of the weights then has a sum that 32 bits do not hold.
const LARGEST: f32 = 2047.0;

#[derive(Debug)]
pub(super) struct Matrix {
    weights: Packed,
    /// Of each row: what its whole numbers are multiples of, and what is added.
    scales: Vec<f32>,
    bias: Vec<f32>,
}

/// Vectors as whole numbers, and what those are multiples of.
#[derive(Debug)]
pub(super) struct Rounded {
    /// In the order of unpacked weights, filled up with zeros to a multiple of [`VECTORS`].
    values: Vec<i16>,
    scales: Vec<f32>,
}

impl Rounded {
    /// Of vectors of `columns` values each, a multiple of [`GROUP`].
    pub(super) fn new(vectors: &[f32], columns: usize) -> Rounded {
        let count = vectors.len() / columns;
        let padded = count.next_multiple_of(VECTORS) * columns;
        let mut rounded = Rounded { values: Vec::with_capacity(padded), scales: Vec::with_capacity(count) };
        for vector in vectors.chunks_exact(columns) {
            let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            // What is no number, which no weights of ours give, becomes zero.
            let factor = if largest > 0.0 { LARGEST / largest } else { 0.0 };
            for group in vector.as_chunks::<GROUP>().0 {
                let mut values = [0; GROUP];
                values.iter_mut().zip(group).for_each(|(rounded, value)| *rounded = nearest(value * factor));
                rounded.values.extend_from_slice(&sorted(&values));
            }
            rounded.scales.push(largest / LARGEST);
        }
        rounded.values.resize(padded, 0);
        rounded
    }
}

impl Matrix {
    /// Of a multiple of [`ROWS`] rows, each of a multiple of [`GROUP`] values.
    pub(super) fn new(weights: Packed, bias: Vec<f32>) -> Matrix {
        Matrix { scales: weights.scales().collect(), weights, bias }
    }

    /// The product with each vector, one after the other.
    pub(super) fn times(&self, vectors: &Rounded) -> Vec<f32> {
        self.times_with(Kernel::best(), vectors)
    }

    /// The largest sum that a vector can have with a row.
    #[cfg(test)]
    pub(super) fn largest_sum(&self) -> i64 {
        let mut row = vec![0; self.weights.columns()];
        let sums = self.weights.blocks(1).map(|(packed, multiples)| {
            Kernel::Portable.unpack(packed, multiples, &mut row);
            row.iter().map(|weight| i64::from(weight.unsigned_abs())).sum::<i64>() * LARGEST as i64
        });
        sums.max().unwrap_or_default()
    }

    fn times_with(&self, kernel: Kernel, vectors: &Rounded) -> Vec<f32> {
        let mut products = vec![0.0; vectors.scales.len() * self.scales.len()];
        let mut rows = vec![0; ROWS * self.weights.columns()];
        let mut sums = vec![[0; ROWS]; vectors.scales.len().next_multiple_of(VECTORS)];
        let numbers = self.scales.as_chunks::<ROWS>().0.iter().zip(self.bias.as_chunks::<ROWS>().0);
        for (block, ((packed, multiples), (scales, bias))) in self.weights.blocks(ROWS).zip(numbers).enumerate() {
            kernel.unpack(packed, multiples, &mut rows);
            kernel.multiply(&rows, &vectors.values, &mut sums);
            let products = products.chunks_exact_mut(self.scales.len());
            for ((sums, of_vector), products) in sums.iter().zip(&vectors.scales).zip(products) {
                let products = &mut products[block * ROWS..][..ROWS];
                for at in 0..ROWS {
                    products[at] = sums[at] as f32 * (scales[at] * of_vector) + bias[at];
                }
            }
        }
        products
    }
}

/// The nearest whole number of at most [`LARGEST`]; between two, the one away from zero. By 32 bits, which the compiler can do
/// for several at a time.
fn nearest(value: f32) -> i16 {
    (value + 0.5_f32.copysign(value)) as i32 as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_the_product() {
        let (rows, columns) = (8, 64);
        let bytes: &'static [u8] = (0..rows * columns / 2).map(|at| (at * 89 % 256) as u8).collect::<Vec<_>>().leak();
        let multiples: &'static [u8] =
            (0..rows * columns / GROUP).map(|at| (at * 37 % 256) as u8).collect::<Vec<_>>().leak();
        let scales: Vec<u8> = (1..=rows).flat_map(|row| (row as f32 * 1e-4).to_le_bytes()).collect();
        let weights = Packed::new(rows, columns, scales.leak(), multiples, bytes);
        let bias: Vec<f32> = (0..rows).map(|row| row as f32).collect();
        let matrix = Matrix::new(weights, bias.clone());
        for count in 0..10 {
            let vectors: Vec<f32> = (0..count * columns).map(|i| ((i * 31 % 97) as f32 - 48.0) / 16.0).collect();
            let rounded = Rounded::new(&vectors, columns);
            let products = matrix.times(&rounded);
            assert_eq!(products.len(), count * rows);
            assert_eq!(products, matrix.times_with(Kernel::Portable, &rounded));
            for (at, vector) in vectors.chunks(columns).enumerate() {
                for row in 0..rows {
                    let mut exact = vec![0.0; columns];
                    weights.add_to(row, &mut exact);
                    let exact: f32 = vector.iter().zip(&exact).map(|(a, b)| a * b).sum::<f32>() + bias[row];
                    let found = products[at * rows + row];
                    assert!((found - exact).abs() < 0.02 * (1.0 + exact.abs()), "{found} instead of {exact}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_number_is_zero() {
        let rounded = Rounded::new(&[f32::NAN; GROUP], GROUP);
        assert_eq!(rounded.values, [0; VECTORS * GROUP]);
        assert_eq!([nearest(1.5), nearest(-1.5), nearest(0.4), nearest(f32::NAN)], [2, -2, 0, 0]);
    }
}
