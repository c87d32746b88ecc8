//! Directions of tools and of queries, and the angle between them, in integers.

use std::fmt;

use wide::{i16x8, i32x4};

/// The length of a query's vector, in the integers that it is kept in.
const UNIT: f32 = 8192.0;
/// The largest value in a tool's vector. A product of the two, summed, then fits 32 bits.
const LARGEST: f32 = 127.0;
/// How long vectors are where they are compared, filled up with zeros: few lengths, each of which the compiler knows. A
/// loop over a length that it does not know takes a tenth longer.
const WIDTHS: [usize; 4] = [256, 384, 640, MAX_DIMENSIONS];
/// Values that are compared by one instruction.
const LANES: usize = 8;
/// The longest vectors that can be compared. What is longer is cut off.
pub(crate) const MAX_DIMENSIONS: usize = 1024;

/// The direction in which a tool's text points, in bytes and their scale. Zero if nothing is known of it.
#[derive(Clone, PartialEq)]
pub struct Vector {
    scale: f32,
    values: Box<[i8]>,
}

/// Bytes that are no vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes are no vector of {dimensions} values, or its scale is no number from 0 to 1")]
pub struct VectorError {
    pub bytes: usize,
    pub dimensions: usize,
}

impl Vector {
    /// Of a direction of length 1, or zero.
    pub(crate) fn new(mut unit: Vec<f32>, dimensions: usize) -> Vector {
        unit.resize(dimensions, 0.0);
        let largest = unit.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        if largest == 0.0 {
            return Vector { scale: 0.0, values: vec![0; dimensions].into() };
        }
        let scale = largest / LARGEST;
        Vector { scale, values: unit.into_iter().map(|value| (value / scale).round() as i8).collect() }
    }

    /// The form to keep on disk, together with the [`version`](crate::Embedder::version) of what has made it.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.scale.to_le_bytes().into_iter().chain(self.values.iter().map(|value| value.to_le_bytes()[0])).collect()
    }

    /// How many bytes [`to_bytes`](Self::to_bytes) gives.
    pub fn bytes_of(dimensions: usize) -> usize {
        size_of::<f32>() + dimensions
    }

    /// Reads what [`to_bytes`](Self::to_bytes) has written, if it has as many values as the embedder
    /// [gives](crate::Embedder::dimensions).
    pub fn from_bytes(bytes: &[u8], dimensions: usize) -> Result<Vector, VectorError> {
        let error = VectorError { bytes: bytes.len(), dimensions };
        let (scale, values) = bytes.split_first_chunk().ok_or(error)?;
        let scale = f32::from_le_bytes(*scale);
        match values.len() == dimensions && (0.0..=1.0).contains(&scale) {
            true => Ok(Vector { scale, values: values.iter().map(|value| i8::from_le_bytes([*value])).collect() }),
            false => Err(error),
        }
    }

    /// The first values of it, where it was joined of several.
    pub(crate) fn beginning(&self, dimensions: usize) -> Vector {
        Vector { scale: self.scale, values: self.values.iter().copied().take(dimensions).collect() }
    }

    /// What [`values`](Self::values) are multiples of.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    pub fn values(&self) -> &[i8] {
        &self.values
    }
}

impl fmt::Debug for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vector({} × {:?}…)", self.scale, &self.values[..self.values.len().min(2)])
    }
}

/// The direction in which a query points. There is one of it for thousands of tools, so it is kept more exactly.
#[derive(Debug)]
pub(crate) struct Direction(Box<[i16x8]>);

impl Direction {
    /// Of a direction of length 1, or zero.
    pub(crate) fn new(mut unit: Vec<f32>, dimensions: usize) -> Direction {
        unit.resize(dimensions, 0.0);
        unit.resize(width(dimensions), 0.0);
        let lanes = |chunk: &[f32; LANES]| i16x8::new(chunk.map(|value| (value * UNIT).round() as i16));
        Direction(unit.as_chunks().0.iter().map(lanes).collect())
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.iter().all(|lanes| *lanes == i16x8::ZERO)
    }
}

/// The vectors of many tools, packed for comparing.
#[derive(Debug)]
pub(crate) struct Rows {
    dimensions: usize,
    /// One after the other, each as long as [`width`] says.
    values: Vec<i8>,
    scales: Vec<f32>,
}

impl Rows {
    pub(crate) fn new(dimensions: usize, capacity: usize) -> Rows {
        let values = Vec::with_capacity(width(dimensions) * capacity);
        Rows { dimensions, values, scales: Vec::with_capacity(capacity) }
    }

    pub(crate) fn push(&mut self, vector: &Vector) {
        self.scales.push(vector.scale);
        self.values.extend(vector.values.iter().take(self.dimensions));
        self.values.resize(self.scales.len() * width(self.dimensions), 0);
    }

    pub(crate) fn get(&self, row: usize) -> Option<Vector> {
        let scale = *self.scales.get(row)?;
        let values = self.values.get(row * width(self.dimensions)..)?.get(..self.dimensions)?;
        Some(Vector { scale, values: values.into() })
    }

    /// How near each row is to a query, from -1 to 1 but for rounding: the cosine with the whole, and with the nearest of
    /// its parts, which counts `share`, if it has parts.
    pub(crate) fn cosines(&self, whole: &Direction, parts: &[Direction], share: f32) -> Vec<f32> {
        match width(self.dimensions) {
            256 => self.cosines_of::<256>(whole, parts, share),
            384 => self.cosines_of::<384>(whole, parts, share),
            640 => self.cosines_of::<640>(whole, parts, share),
            _ => self.cosines_of::<MAX_DIMENSIONS>(whole, parts, share),
        }
    }

    fn cosines_of<const N: usize>(&self, whole: &Direction, parts: &[Direction], share: f32) -> Vec<f32> {
        let (rows, _) = self.values.as_chunks::<N>();
        let mut wide = [0_i16; N];
        let cosines = rows.iter().zip(&self.scales).map(|(row, scale)| {
            widen(row, &mut wide);
            let near = cosine(&whole.0, *scale, &wide);
            // Computed also where there are no parts: what is not used must still be a number, or it costs more than the
            // product (a denormal one took 50 ns).
            let nearest = parts.iter().map(|part| cosine(&part.0, *scale, &wide)).fold(-1.0, f32::max);
            if parts.is_empty() { near } else { (1.0 - share) * near + share * nearest }
        });
        cosines.collect()
    }
}

/// The least of the widths that so many values fit in.
fn width(dimensions: usize) -> usize {
    WIDTHS.into_iter().find(|width| *width >= dimensions).unwrap_or(MAX_DIMENSIONS)
}

/// Integers, so that the order of additions does not matter. The instruction that multiplies and adds eight of them has to
/// be asked for: what the compiler makes of a loop takes twice as long.
#[inline(never)]
fn cosine<const N: usize>(direction: &[i16x8], scale: f32, values: &[i16; N]) -> f32 {
    let (values, _) = values.as_chunks::<LANES>();
    let mut sum = i32x4::ZERO;
    for (a, b) in direction.iter().zip(values) {
        sum += a.dot(i16x8::new(*b));
    }
    sum.reduce_add() as f32 * (scale / UNIT)
}

/// Makes a tool's vector as wide as a query's; its parts share that.
#[inline(never)]
fn widen<const N: usize>(values: &[i8; N], wide: &mut [i16; N]) {
    for (wide, value) in wide.iter_mut().zip(values) {
        *wide = i16::from(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also of lengths that have to be filled up.
    #[test]
    fn the_cosine_is_the_cosine() {
        for dimensions in [1, 255, 256, 257, 384, 385, 1024] {
            let unit = |seed: usize| {
                let values: Vec<f32> = (0..dimensions).map(|i| ((i * seed + 1) % 17) as f32 - 7.5).collect();
                let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
                values.into_iter().map(|value| value / length).collect::<Vec<_>>()
            };
            let (a, b) = (unit(3), unit(5));
            let expected: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            let vector = Vector::new(b, dimensions);
            let mut rows = Rows::new(dimensions, 2);
            rows.push(&Vector::new(Vec::new(), dimensions));
            rows.push(&vector);
            assert_eq!(rows.get(1), Some(vector));
            let part = Direction::new(a.clone(), dimensions);
            let cosines = rows.cosines(&Direction::new(a, dimensions), &[part], 0.5);
            assert_eq!((cosines.len(), cosines[0]), (2, 0.0));
            let cosine = cosines[1];
            assert!((cosine - expected).abs() < 0.01, "{dimensions}: {cosine} instead of {expected}");
        }
    }

    #[test]
    fn a_vector_survives_the_disk() {
        for unit in [vec![0.6, -0.8, 0.0], vec![0.0; 3]] {
            let vector = Vector::new(unit, 3);
            assert_eq!(Vector::from_bytes(&vector.to_bytes(), 3), Ok(vector));
        }
        let bytes = Vector::new(vec![1.0], 3).to_bytes();
        for (bytes, dimensions) in [(&bytes[..], 4), (&bytes[..6], 3), (&[1, 2, 3], 3), (&[0xff; 7], 3), (&[], 0)] {
            let expected = VectorError { bytes: bytes.len(), dimensions };
            assert_eq!(Vector::from_bytes(bytes, dimensions), Err(expected));
        }
    }

    #[test]
    fn too_many_or_too_few_values_are_cut_or_filled() {
        assert_eq!(Vector::new(vec![1.0, 2.0, 3.0], 2).values().len(), 2);
        assert_eq!(Vector::new(vec![1.0], 2).values(), [127, 0]);
        assert!(Direction::new(vec![0.0, 1.0], 1).is_zero());
    }
}
