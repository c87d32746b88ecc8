//! What a query is for, beside what it says.

use crate::lexical::Occurrence;

/// What a query leans towards.
#[derive(Clone, Debug)]
pub struct Leaning {
    /// How much, from 0 to 1.
    pub(crate) strength: f32,
    /// Where to, of at most that length.
    pub(crate) direction: Vec<f32>,
    /// What tools call it, and what each word counts: of each aim, all together as much as the query leans to it.
    pub(crate) words: Vec<(Occurrence, f32)>,
}

impl Leaning {
    /// The same, but for a part of it.
    pub(crate) fn weakened(mut self, factor: f32) -> Leaning {
        self.strength *= factor;
        self.direction.iter_mut().for_each(|value| *value *= factor);
        self.words.iter_mut().for_each(|(_, weight)| *weight *= factor);
        self
    }
}
