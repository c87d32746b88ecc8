//! SHA-256, as hexadecimal digits: what identifies texts in files, records and names.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a text or of bytes.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    sha256_of(&[bytes.as_ref()])
}

/// The SHA-256 of several parts, one after the other.
pub fn sha256_of(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    let mut digits = String::with_capacity(64);
    for byte in hasher.finalize() {
        // Writing to a String cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// Are two digests the same? Takes the same time wherever they differ.
pub fn same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    // Kept from being made into a comparison that ends early.
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_are_those_of_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256("abc"), abc);
        assert_eq!(sha256_of(&[b"a", b"", b"bc"]), abc);
        assert!(same(abc, &sha256("abc")) && !same(abc, &sha256("abd")) && !same(abc, &abc[..63]) && !same("", abc));
    }
}
