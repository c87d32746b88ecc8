//! The arithmetic of `Temporal`, below its JavaScript classes (`engine/temporal.js`).
//!
//! A value of `Temporal` is the JSON of its fields: JavaScript keeps it, and each operation gets it and gives a new one. So the
//! memory of values is the engine's, which counts it, and there is one native function, which is harmless in anybody's hands.
//! What the operations mean is `temporal_rs`; [`zones`] answers its questions about time zones from the database of [`crate::intl`].
//!
//! **Invariant:** pure functions of their arguments. Whatever they are given, they answer or fail.

mod call;
mod duration;
mod exact;
mod fields;
mod months;
mod options;
mod plain;
mod values;
mod zones;

pub(crate) use self::call::call;
