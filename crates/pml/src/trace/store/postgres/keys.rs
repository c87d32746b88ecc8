//! Advisory locks: numbers that processes agree on. The first 16 bits say what a lock is for.
//!
//! The numbers are also in statements, as text: the test below holds them together.

/// Held by whoever migrates.
pub(super) const MIGRATION: i64 = (0x706c << 48) | 1;
/// Shared by whoever stores traces; held alone by whoever deletes programs that no trace has any more, or gives traces the
/// capability that they name.
pub(crate) const CONTENTS: i64 = (0x706c << 48) | 2;
/// Held by whoever deletes what is too old or too much: one process is enough.
pub(super) const RETENTION: i64 = (0x706c << 48) | 3;
/// With the last number that was given to a trace: shared by whoever is about to take higher ones, until they are committed.
#[cfg(test)]
pub(super) const NUMBERS: i64 = 0x706d << 48;
/// With the number of a process: held for as long as the process is connected.
pub(super) const OWNER: i64 = 0x706e << 48;
/// With the number of a tenant: held by the process that sends what is unsent.
pub(super) const TURN: i64 = 0x706f << 48;

/// With the number of a tenant: held by whoever stores traces with parents, so that no two close a cycle together.
pub(super) const PARENTS: i64 = 0x7070 << 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_the_same_numbers() {
        assert_eq!((CONTENTS, NUMBERS), (8_100_849_829_732_679_682, 8_101_131_304_709_390_336));
        assert_eq!((OWNER, NUMBERS >> 48, OWNER >> 48), (8_101_412_779_686_100_992, 28_781, 28_782));
    }
}
