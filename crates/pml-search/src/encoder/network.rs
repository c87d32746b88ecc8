//! The transformer: what pieces of a text mean beside each other.
//!
//! **Invariant:** sums of floats are taken in one order, whatever the machine and whatever instructions it has.

use super::{
    curves::{Gelu, exp},
    file::Packed,
    matrix::{Matrix, Rounded},
};

pub(super) const WIDTH: usize = 384;
pub(super) const INNER: usize = 1536;
pub(super) const LAYERS: usize = 3;
pub(super) const HEADS: usize = 12;
/// Pieces of the longest text.
pub(super) const PLACES: usize = 64;
/// Values that a head looks at.
const HEAD: usize = WIDTH / HEADS;
const LANES: usize = 8;
const EPSILON: f32 = 1e-12;

#[derive(Debug)]
pub(super) struct Network {
    pub(super) words: Packed,
    /// What each place adds.
    pub(super) places: Vec<f32>,
    pub(super) norm: Norm,
    pub(super) layers: Vec<Layer>,
}

#[derive(Debug)]
pub(super) struct Layer {
    pub(super) query: Matrix,
    pub(super) key: Matrix,
    pub(super) value: Matrix,
    pub(super) attended: Matrix,
    pub(super) inner: Matrix,
    pub(super) outer: Matrix,
    pub(super) attended_norm: Norm,
    pub(super) norm: Norm,
}

#[derive(Debug)]
pub(super) struct Norm {
    pub(super) factors: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

impl Network {
    /// The direction of a text of these pieces, of which the first [`PLACES`] are read.
    pub(super) fn direction(&self, pieces: &[u32], gelu: &Gelu) -> Vec<f32> {
        let pieces = &pieces[..pieces.len().min(PLACES)];
        let mut states = self.places[..pieces.len() * WIDTH].to_vec();
        for (state, piece) in states.chunks_exact_mut(WIDTH).zip(pieces) {
            self.words.add_to(*piece as usize, state);
        }
        self.norm.apply(&mut states);
        for layer in &self.layers {
            layer.apply(&mut states, gelu);
        }
        let mut mean = vec![0.0; WIDTH];
        for state in states.chunks_exact(WIDTH) {
            mean.iter_mut().zip(state).for_each(|(mean, value)| *mean += value);
        }
        let length = dot(&mean, &mean).sqrt();
        match length.is_normal() {
            true => mean.into_iter().map(|value| value / length).collect(),
            false => vec![0.0; WIDTH],
        }
    }
}

impl Layer {
    fn apply(&self, states: &mut [f32], gelu: &Gelu) {
        let rounded = Rounded::new(states, WIDTH);
        let [queries, keys, values] = [&self.query, &self.key, &self.value].map(|matrix| matrix.times(&rounded));
        let attended = attend(&queries, &keys, &values);
        add(states, &self.attended.times(&Rounded::new(&attended, WIDTH)));
        self.attended_norm.apply(states);
        let mut inner = self.inner.times(&Rounded::new(states, WIDTH));
        inner.iter_mut().for_each(|value| *value = gelu.at(*value));
        add(states, &self.outer.times(&Rounded::new(&inner, INNER)));
        self.norm.apply(states);
    }
}

impl Norm {
    fn apply(&self, states: &mut [f32]) {
        for state in states.chunks_exact_mut(WIDTH) {
            let mean = sum(state) / WIDTH as f32;
            state.iter_mut().for_each(|value| *value -= mean);
            let deviation = (dot(state, state) / WIDTH as f32 + EPSILON).sqrt();
            for ((value, factor), bias) in state.iter_mut().zip(&self.factors).zip(&self.bias) {
                *value = *value / deviation * factor + bias;
            }
        }
    }
}

/// What each place takes from all, by how well its query fits their keys; each head by itself.
fn attend(queries: &[f32], keys: &[f32], values: &[f32]) -> Vec<f32> {
    let root = (HEAD as f32).sqrt();
    let mut attended = vec![0.0; queries.len()];
    let mut weights = Vec::with_capacity(PLACES);
    for (query, out) in queries.chunks_exact(WIDTH).zip(attended.chunks_exact_mut(WIDTH)) {
        for start in (0..WIDTH).step_by(HEAD) {
            let head = start..start + HEAD;
            weights.clear();
            weights.extend(keys.chunks_exact(WIDTH).map(|key| dot(&query[head.clone()], &key[head.clone()]) / root));
            let largest = weights.iter().copied().fold(f32::MIN, f32::max);
            weights.iter_mut().for_each(|weight| *weight = exp(*weight - largest));
            let total: f32 = weights.iter().sum();
            for (weight, value) in weights.iter().zip(values.chunks_exact(WIDTH)) {
                let share = weight / total;
                out[head.clone()].iter_mut().zip(&value[head.clone()]).for_each(|(out, value)| *out += share * value);
            }
        }
    }
    attended
}

fn add(states: &mut [f32], more: &[f32]) {
    states.iter_mut().zip(more).for_each(|(state, more)| *state += more);
}

/// Eight sums side by side, then those in their order: which the compiler can do by eights without changing it.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}

fn sum(values: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    for values in values.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            sums[lane] += values[lane];
        }
    }
    sums.iter().sum()
}
