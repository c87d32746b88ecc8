//! A product of a matrix and some vectors, in whole numbers: the order of additions does not matter, so it is the same on
//! every machine, and one instruction does eight of them.

use wide::{i16x8, i32x4};

/// Values that one instruction multiplies.
const LANES: usize = 8;
/// The largest value of a vector. A value of a matrix is at most 7 · 255, so that a quarter of a row's products, which is
/// what is added up in 32 bits, stays below 2³¹ for rows of up to 2 300 values.
const LARGEST: f32 = 2047.0;
/// Vectors that are multiplied at a time: each part of a row is then loaded once for all of them.
const BLOCK: usize = 4;

#[derive(Debug)]
pub(super) struct Matrix {
    /// Of each row: what its whole numbers are multiples of, and what is added.
    scales: Vec<f32>,
    bias: Vec<f32>,
    /// The rows, one after the other.
    values: Vec<i16x8>,
    /// Of a row.
    lanes: usize,
}

/// Vectors as whole numbers, and what those are multiples of.
#[derive(Debug)]
pub(super) struct Rounded {
    values: Vec<i16x8>,
    scales: Vec<f32>,
}

impl Rounded {
    /// Of vectors of `columns` values each, which must be a multiple of eight.
    pub(super) fn new(vectors: &[f32], columns: usize) -> Rounded {
        let mut rounded = Rounded {
            values: Vec::with_capacity(vectors.len() / LANES),
            scales: Vec::with_capacity(vectors.len() / columns),
        };
        for vector in vectors.chunks_exact(columns) {
            let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            // What is no number, which no weights of ours give, becomes zero.
            let factor = if largest > 0.0 { LARGEST / largest } else { 0.0 };
            let lanes = |chunk: &[f32; LANES]| i16x8::new(chunk.map(|value| nearest(value * factor)));
            rounded.values.extend(vector.as_chunks().0.iter().map(lanes));
            rounded.scales.push(largest / LARGEST);
        }
        rounded
    }
}

impl Matrix {
    /// Of an even number of rows, each of a multiple of eight values.
    pub(super) fn new(values: &[i16], columns: usize, scales: Vec<f32>, bias: Vec<f32>) -> Matrix {
        let values = values.as_chunks::<LANES>().0.iter().map(|chunk| i16x8::new(*chunk)).collect();
        Matrix { scales, bias, values, lanes: columns / LANES }
    }

    /// The product with each vector, one after the other.
    ///
    /// Rows are gone through once, two at a time, and the vectors for each two: those are few and stay near the processor.
    pub(super) fn times(&self, vectors: &Rounded) -> Vec<f32> {
        let mut products = vec![0.0; vectors.scales.len() * self.scales.len()];
        for (pair, rows) in self.values.chunks_exact(2 * self.lanes).enumerate() {
            let rows = rows.split_at(self.lanes);
            let blocks = vectors.values.chunks(self.lanes * BLOCK).zip(vectors.scales.chunks(BLOCK));
            for ((block, scales), out) in blocks.zip(products.chunks_mut(self.scales.len() * BLOCK)) {
                match scales.len() {
                    1 => self.times_block::<1>(2 * pair, rows, block, scales, out),
                    2 => self.times_block::<2>(2 * pair, rows, block, scales, out),
                    3 => self.times_block::<3>(2 * pair, rows, block, scales, out),
                    _ => self.times_block::<BLOCK>(2 * pair, rows, block, scales, out),
                }
            }
        }
        products
    }

    /// The products of two rows, which begin at `row`, and of `N` vectors: eight sums, which fit the registers.
    fn times_block<const N: usize>(
        &self,
        row: usize,
        (first, second): (&[i16x8], &[i16x8]),
        block: &[i16x8],
        scales: &[f32],
        out: &mut [f32],
    ) {
        let mut sums = [[i32x4::ZERO; N]; 2];
        let vectors: [&[i16x8]; N] = std::array::from_fn(|at| &block[at * self.lanes..][..first.len()]);
        for (place, (first, second)) in first.iter().zip(second).enumerate() {
            for (at, vector) in vectors.iter().enumerate() {
                sums[0][at] += first.dot(vector[place]);
                sums[1][at] += second.dot(vector[place]);
            }
        }
        for (row, sums) in (row..).zip(sums) {
            for (at, sum) in sums.into_iter().enumerate() {
                let [a, b, c, d] = sum.to_array().map(i64::from);
                let scale = self.scales[row] * scales[at];
                out[at * self.scales.len() + row] = (a + b + c + d) as f32 * scale + self.bias[row];
            }
        }
    }
}

/// The nearest whole number; between two, the one away from zero.
fn nearest(value: f32) -> i16 {
    (value + 0.5_f32.copysign(value)) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_the_product() {
        let (rows, columns) = (6, 64);
        let integers: Vec<i16> = (0..rows * columns).map(|i| (i * 7919 % 3571) as i16 - 1785).collect();
        let scales: Vec<f32> = (1..=rows).map(|row| row as f32 * 1e-4).collect();
        let bias: Vec<f32> = (0..rows).map(|row| row as f32).collect();
        let matrix = Matrix::new(&integers, columns, scales.clone(), bias.clone());
        for count in 0..10 {
            let vectors: Vec<f32> = (0..count * columns).map(|i| ((i * 31 % 97) as f32 - 48.0) / 16.0).collect();
            let products = matrix.times(&Rounded::new(&vectors, columns));
            assert_eq!(products.len(), count * rows);
            for (at, vector) in vectors.chunks(columns).enumerate() {
                for row in 0..rows {
                    let exact: f32 =
                        vector.iter().zip(&integers[row * columns..]).map(|(a, b)| a * f32::from(*b)).sum::<f32>()
                            * scales[row]
                            + bias[row];
                    let found = products[at * rows + row];
                    assert!((found - exact).abs() < 0.02 * (1.0 + exact.abs()), "{found} instead of {exact}");
                }
            }
        }
    }

    #[test]
    fn the_largest_sum_fits() {
        let columns = 1536;
        let matrix = Matrix::new(&vec![1785; 2 * columns], columns, vec![1.0; 2], vec![0.0; 2]);
        let product = matrix.times(&Rounded::new(&vec![1.0; columns], columns))[0];
        assert!((product / (1785.0 * columns as f32) - 1.0).abs() < 1e-3, "{product}");
        let nothing = matrix.times(&Rounded::new(&vec![0.0; columns], columns));
        assert_eq!(nothing, [0.0, 0.0]);
        assert_eq!([nearest(1.5), nearest(-1.5), nearest(0.4), nearest(f32::NAN)], [2, -2, 0, 0]);
    }
}
