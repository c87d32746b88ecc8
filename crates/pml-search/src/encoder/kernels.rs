//! Dot products of packed rows and rounded vectors, with the widest instructions that the processor has.
//!
//! Sums are whole numbers and never overflow, so every kernel gives the same ones. Which kernel runs is decided at run time;
//! `fearless_simd` hands out a token only on a processor that has the instructions, and with it they are safe to use.

#[cfg(target_arch = "x86_64")]
use fearless_simd::{
    Level, i16x16, i16x32, i32x4,
    prelude::*,
    u8x16,
    x86::{Avx2, Avx512},
};
use wide::i16x8;

/// Rows that are multiplied at a time.
pub(super) const ROWS: usize = 4;
/// Vectors come in multiples of this; what is missing is filled up with zeros.
pub(super) const VECTORS: usize = 4;
/// Weights that share a multiple. Of its half bytes, the low ones are the even weights of a group, the high ones the odd.
pub(super) const GROUP: usize = 32;
const HALF: usize = GROUP / 2;
/// What is added to a weight, so that its half byte is not negative.
pub(super) const OFFSET: i16 = 8;

/// Instructions to multiply with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel {
    /// What every processor of the target has: SSE2 or NEON.
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 with VNNI, which multiplies and adds in one instruction.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512, Avx2),
}

impl Kernel {
    /// The fastest one that this processor has.
    pub(super) fn best() -> Kernel {
        #[cfg(target_arch = "x86_64")]
        {
            let level = Level::new();
            if let Some(avx2) = level.as_avx2() {
                return level.as_avx512().map_or(Kernel::Avx2(avx2), |avx512| Kernel::Avx512(avx512, avx2));
            }
        }
        Kernel::Portable
    }

    /// Unpacks weights, of each group first the even ones and then the odd ones: dot products do not depend on the order, and
    /// [`sorted`] brings vectors into the same.
    pub(super) fn unpack(self, packed: &[u8], multiples: &[u8], weights: &mut [i16]) {
        match self {
            Kernel::Portable => unpack(packed, multiples, weights),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(avx2) | Kernel::Avx512(_, avx2) => unpack_avx2(avx2, packed, multiples, weights),
        }
    }

    /// The dot products of [`ROWS`] rows with each vector. `vectors` has as many as `sums`, a multiple of [`VECTORS`], all as
    /// long as a row: a multiple of [`GROUP`].
    pub(super) fn multiply(self, rows: &[i16], vectors: &[i16], sums: &mut [[i32; ROWS]]) {
        match self {
            Kernel::Portable => multiply(rows, vectors, sums),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(avx2) => multiply_avx2(avx2, rows, vectors, sums),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(avx512, _) => multiply_avx512(avx512, rows, vectors, sums),
        }
    }
}

/// The values of a group in the order in which [`Kernel::unpack`] writes weights.
pub(super) fn sorted(group: &[i16; GROUP]) -> [i16; GROUP] {
    let mut sorted = [0; GROUP];
    for (at, [even, odd]) in group.as_chunks().0.iter().enumerate() {
        (sorted[at], sorted[HALF + at]) = (*even, *odd);
    }
    sorted
}

fn unpack(packed: &[u8], multiples: &[u8], weights: &mut [i16]) {
    let groups = packed.as_chunks::<HALF>().0.iter().zip(multiples);
    for ((bytes, multiple), weights) in groups.zip(weights.as_chunks_mut::<GROUP>().0) {
        let multiple = i16::from(*multiple);
        let (even, odd) = weights.split_at_mut(HALF);
        for (weight, byte) in even.iter_mut().zip(bytes) {
            *weight = (i16::from(byte & 15) - OFFSET) * multiple;
        }
        for (weight, byte) in odd.iter_mut().zip(bytes) {
            *weight = (i16::from(byte >> 4) - OFFSET) * multiple;
        }
    }
}

fn multiply(rows: &[i16], vectors: &[i16], sums: &mut [[i32; ROWS]]) {
    const LANES: usize = 8;
    let columns = rows.len() / ROWS;
    let rows = parts::<ROWS, LANES>(rows, columns);
    for (vectors, sums) in vectors.chunks_exact(2 * columns).zip(sums.as_chunks_mut::<2>().0) {
        let vectors = parts::<2, LANES>(vectors, columns);
        let mut partial = [[wide::i32x4::ZERO; 2]; ROWS];
        for place in 0..columns / LANES {
            let [first, second] = [vectors[0][place], vectors[1][place]].map(i16x8::new);
            for row in 0..ROWS {
                let weights = i16x8::new(rows[row][place]);
                partial[row][0] += weights.dot(first);
                partial[row][1] += weights.dot(second);
            }
        }
        for (at, sums) in sums.iter_mut().enumerate() {
            *sums = partial.map(|partial| partial[at].reduce_add());
        }
    }
}

/// `N` rows or vectors that lie behind one another, each in parts of `LANES` values.
#[inline(always)]
fn parts<const N: usize, const LANES: usize>(values: &[i16], columns: usize) -> [&[[i16; LANES]]; N] {
    std::array::from_fn(|at| &values[at * columns..][..columns].as_chunks().0[..columns / LANES])
}

// In the loops below places are counted rather than iterated over: the closures of iterators do not always become part of the
// function that has the wide instructions, and then each part of a row costs a call.

#[cfg(target_arch = "x86_64")]
fearless_simd::kernel!(
    fn unpack_avx2(avx2: Avx2, packed: &[u8], multiples: &[u8], weights: &mut [i16]) {
        use std::arch::x86_64::*;

        let (low, offset) = (_mm_set1_epi8(15), _mm256_set1_epi16(OFFSET));
        let (groups, weights) = (packed.as_chunks::<HALF>().0, weights.as_chunks_mut::<GROUP>().0);
        for group in 0..groups.len().min(multiples.len()).min(weights.len()) {
            let multiple = _mm256_set1_epi16(i16::from(multiples[group]));
            let bytes: __m128i = u8x16::load_array_ref(avx2, &groups[group]).into();
            let halves = [_mm_and_si128(bytes, low), _mm_and_si128(_mm_srli_epi16::<4>(bytes), low)];
            let weights = weights[group].as_chunks_mut::<HALF>().0;
            for half in 0..2 {
                let signed = _mm256_sub_epi16(_mm256_cvtepu8_epi16(halves[half]), offset);
                let product: i16x16<_> = _mm256_mullo_epi16(signed, multiple).simd_into(avx2);
                product.store_array(&mut weights[half]);
            }
        }
    }
);

#[cfg(target_arch = "x86_64")]
fearless_simd::kernel!(
    fn multiply_avx2(avx2: Avx2, rows: &[i16], vectors: &[i16], sums: &mut [[i32; ROWS]]) {
        use std::arch::x86_64::*;
        const LANES: usize = 16;

        let columns = rows.len() / ROWS;
        let rows = parts::<ROWS, LANES>(rows, columns);
        for (vectors, sums) in vectors.chunks_exact(2 * columns).zip(sums.as_chunks_mut::<2>().0) {
            let vectors = parts::<2, LANES>(vectors, columns);
            let mut partial = [[_mm256_setzero_si256(); ROWS]; 2];
            for place in 0..columns / LANES {
                let mut weights = [_mm256_setzero_si256(); ROWS];
                for row in 0..ROWS {
                    weights[row] = i16x16::load_array_ref(avx2, &rows[row][place]).into();
                }
                for vector in 0..2 {
                    let values = i16x16::load_array_ref(avx2, &vectors[vector][place]).into();
                    for row in 0..ROWS {
                        let products = _mm256_madd_epi16(weights[row], values);
                        partial[vector][row] = _mm256_add_epi32(partial[vector][row], products);
                    }
                }
            }
            for vector in 0..2 {
                let [a, b, c, d] = partial[vector];
                let halves = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
                let whole = _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
                let whole: i32x4<_> = whole.simd_into(avx2);
                whole.store_array(&mut sums[vector]);
            }
        }
    }
);

#[cfg(target_arch = "x86_64")]
fearless_simd::kernel!(
    fn multiply_avx512(avx512: Avx512, rows: &[i16], vectors: &[i16], sums: &mut [[i32; ROWS]]) {
        use std::arch::x86_64::*;
        const LANES: usize = 32;

        let columns = rows.len() / ROWS;
        let rows = parts::<ROWS, LANES>(rows, columns);
        for (vectors, sums) in vectors.chunks_exact(VECTORS * columns).zip(sums.as_chunks_mut::<VECTORS>().0) {
            let vectors = parts::<VECTORS, LANES>(vectors, columns);
            let mut partial = [[_mm512_setzero_si512(); ROWS]; VECTORS];
            for place in 0..columns / LANES {
                let mut weights = [_mm512_setzero_si512(); ROWS];
                for row in 0..ROWS {
                    weights[row] = i16x32::load_array_ref(avx512, &rows[row][place]).into();
                }
                for vector in 0..VECTORS {
                    let values = i16x32::load_array_ref(avx512, &vectors[vector][place]).into();
                    for row in 0..ROWS {
                        partial[vector][row] = _mm512_dpwssd_epi32(partial[vector][row], weights[row], values);
                    }
                }
            }
            for vector in 0..VECTORS {
                let mut halves = [_mm256_setzero_si256(); ROWS];
                for row in 0..ROWS {
                    let whole = partial[vector][row];
                    halves[row] =
                        _mm256_add_epi32(_mm512_castsi512_si256(whole), _mm512_extracti64x4_epi64::<1>(whole));
                }
                let [a, b, c, d] = halves;
                let quarters = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
                let whole = _mm_add_epi32(_mm256_castsi256_si128(quarters), _mm256_extracti128_si256::<1>(quarters));
                let whole: i32x4<_> = whole.simd_into(avx512);
                whole.store_array(&mut sums[vector]);
            }
        }
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that this processor has.
    fn kernels() -> Vec<Kernel> {
        let mut kernels = vec![Kernel::Portable, Kernel::best()];
        #[cfg(target_arch = "x86_64")]
        kernels.extend(Level::new().as_avx2().map(Kernel::Avx2));
        kernels
    }

    #[test]
    fn weights_are_unpacked_in_the_order_of_sorted_vectors() {
        let packed: Vec<u8> = (0..3 * HALF).map(|at| (at * 89 % 256) as u8).collect();
        let multiples = [0, 3, 255];
        let expected: Vec<i16> = (0..3 * GROUP)
            .map(|at| (i16::from(packed[at / 2] >> (at % 2 * 4) & 15) - OFFSET) * i16::from(multiples[at / GROUP]))
            .collect();
        let expected: Vec<i16> = expected.as_chunks().0.iter().flat_map(sorted).collect();
        for kernel in kernels() {
            let mut weights = vec![0; 3 * GROUP];
            kernel.unpack(&packed, &multiples, &mut weights);
            assert_eq!(weights, expected, "{kernel:?}");
        }
    }

    /// The largest sums that 32 bits hold too.
    #[test]
    fn every_kernel_gives_the_exact_sums() {
        for (columns, count, largest) in [(GROUP, 4, 2047), (96, 8, 2047), (384, 20, 2047), (1536, 24, 780), (96, 0, 1)]
        {
            let weight = |at: usize| (at * 7919 % 3571) as i16 - 1785;
            let rows: Vec<i16> = (0..ROWS * columns).map(weight).collect();
            let value = |at: usize| if at < columns { rows[at].signum() * largest } else { weight(at * 31) };
            let vectors: Vec<i16> = (0..count * columns).map(value).collect();
            let exact = |row: usize, vector: usize| -> i64 {
                let pairs = rows[row * columns..][..columns].iter().zip(&vectors[vector * columns..]);
                pairs.map(|(a, b)| i64::from(*a) * i64::from(*b)).sum()
            };
            for kernel in kernels() {
                let mut sums = vec![[0; ROWS]; count];
                kernel.multiply(&rows, &vectors, &mut sums);
                for (vector, sums) in sums.iter().enumerate() {
                    let exact: [i64; ROWS] = std::array::from_fn(|row| exact(row, vector));
                    assert_eq!(sums.map(i64::from), exact, "{kernel:?}, {columns} columns, vector {vector}");
                }
            }
        }
    }
}
