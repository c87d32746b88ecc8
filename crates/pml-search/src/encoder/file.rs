//! The weights as `tools/embedding/encoder.py` writes them.
//!
//! Eight bytes that say what it is, eight numbers (pieces, places, layers, width, inner width, heads, bytes of the
//! vocabulary, bytes of the notice), the vocabulary (a piece per line), the notice, then the tensors one after the other,
//! all little-endian. A matrix is a scale per row (`f32`), a multiple per group of 32 (`u8`) and half a byte per value.
//!
//! Matrices are not copied: their rows are unpacked when they are needed.

use super::{
    kernels::{GROUP, OFFSET},
    matrix::Matrix,
    network::{INNER, LAYERS, Layer, Network, Norm, PLACES, WIDTH},
    pieces::Pieces,
};

const MAGIC: &[u8; 8] = b"PMLENC01";
const HEADS: usize = super::network::HEADS;

/// What the bytes hold, if they are ours.
pub(super) struct Parts {
    pub(super) pieces: Pieces,
    pub(super) network: Network,
    pub(super) notice: &'static str,
}

/// `None` if the bytes are no encoder of ours.
pub(super) fn parse(bytes: &'static [u8]) -> Option<Parts> {
    let mut rest = Rest(bytes);
    let magic = rest.take(MAGIC.len())?;
    let mut numbers = [0_usize; 8];
    for number in &mut numbers {
        *number = u32::from_le_bytes(*rest.take(4)?.as_array()?) as usize;
    }
    let [count, places, layers, width, inner, heads, vocabulary, notice] = numbers;
    if magic != MAGIC || [places, layers, width, inner, heads] != [PLACES, LAYERS, WIDTH, INNER, HEADS] {
        return None;
    }
    let pieces = Pieces::new(str::from_utf8(rest.take(vocabulary)?).ok()?)?;
    let notice = str::from_utf8(rest.take(notice)?).ok()?;
    let words = Packed::read(&mut rest, count, WIDTH)?;
    let places = rest.floats(PLACES * WIDTH)?;
    let norm = rest.norm()?;
    let layers = (0..LAYERS).map(|_| rest.layer()).collect::<Option<Vec<_>>>()?;
    let network = Network { words, places, norm, layers };
    (pieces.len() == count && rest.0.is_empty()).then_some(Parts { pieces, network, notice })
}

/// A matrix as it lies in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed {
    rows: usize,
    columns: usize,
    scales: &'static [u8],
    multiples: &'static [u8],
    values: &'static [u8],
}

impl Packed {
    fn read(rest: &mut Rest, rows: usize, columns: usize) -> Option<Packed> {
        let scales = rest.take(rows.checked_mul(4)?)?;
        let multiples = rest.take(rows.checked_mul(columns / GROUP)?)?;
        let values = rest.take(rows.checked_mul(columns / 2)?)?;
        Some(Packed { rows, columns, scales, multiples, values })
    }

    #[cfg(test)]
    pub(super) fn new(
        rows: usize,
        columns: usize,
        scales: &'static [u8],
        multiples: &'static [u8],
        values: &'static [u8],
    ) -> Packed {
        Packed { rows, columns, scales, multiples, values }
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn scales(&self) -> impl Iterator<Item = f32> {
        (0..self.rows).map(|row| self.scale(row))
    }

    /// The half bytes and the multiples of so many rows at a time.
    pub(super) fn blocks(&self, rows: usize) -> impl Iterator<Item = (&'static [u8], &'static [u8])> {
        self.values.chunks_exact(rows * self.columns / 2).zip(self.multiples.chunks_exact(rows * self.columns / GROUP))
    }

    fn scale(&self, row: usize) -> f32 {
        self.scales.as_chunks().0.get(row).map_or(0.0, |bytes| f32::from_le_bytes(*bytes))
    }

    /// A row as whole numbers, which its scale makes of it what it is. Nothing if there is no such row.
    fn integers(&self, row: usize) -> impl Iterator<Item = i16> {
        let of_row = |bytes: &'static [u8], len: usize| bytes.get(row * len..(row + 1) * len).unwrap_or_default();
        let multiples = of_row(self.multiples, self.columns / GROUP);
        let groups = of_row(self.values, self.columns / 2).chunks_exact(GROUP / 2).zip(multiples);
        groups.flat_map(|(group, multiple)| {
            let multiple = i16::from(*multiple);
            group
                .iter()
                .flat_map(move |byte| [byte & 15, byte >> 4].map(|value| (i16::from(value) - OFFSET) * multiple))
        })
    }

    /// Adds a row to a sum.
    pub(super) fn add_to(&self, row: usize, sum: &mut [f32]) {
        let scale = self.scale(row);
        for (sum, value) in sum.iter_mut().zip(self.integers(row)) {
            *sum += f32::from(value) * scale;
        }
    }
}

/// What is still to be read.
struct Rest(&'static [u8]);

impl Rest {
    fn take(&mut self, count: usize) -> Option<&'static [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn floats(&mut self, count: usize) -> Option<Vec<f32>> {
        let bytes = self.take(count.checked_mul(4)?)?;
        Some(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    fn norm(&mut self) -> Option<Norm> {
        Some(Norm { factors: self.floats(WIDTH)?, bias: self.floats(WIDTH)? })
    }

    fn matrix(&mut self, rows: usize, columns: usize) -> Option<Matrix> {
        let packed = Packed::read(self, rows, columns)?;
        Some(Matrix::new(packed, self.floats(rows)?))
    }

    fn layer(&mut self) -> Option<Layer> {
        Some(Layer {
            query: self.matrix(WIDTH, WIDTH)?,
            key: self.matrix(WIDTH, WIDTH)?,
            value: self.matrix(WIDTH, WIDTH)?,
            attended: self.matrix(WIDTH, WIDTH)?,
            inner: self.matrix(INNER, WIDTH)?,
            outer: self.matrix(WIDTH, INNER)?,
            attended_norm: self.norm()?,
            norm: self.norm()?,
        })
    }
}
