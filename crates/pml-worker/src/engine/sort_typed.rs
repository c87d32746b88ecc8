//! `%TypedArray%.prototype.sort` and `toSorted` with a comparator, in the order that Node gives.
//!
//! As for arrays ([`super::sort`]), what comes of a comparator that is not consistent depends on which elements are compared in
//! which order. For typed arrays V8 has a plain merge sort: halves are sorted, and merged from the front, the left one
//! first when the comparator gives 0 or less. This one makes the same comparisons in the same order.

use std::cell::Cell;

use rquickjs::{Array, Ctx, Function, Object, Result, Value};

use super::sort;

/// Gives the prelude the function that sorts the elements of a typed array, as an array of numbers.
pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    native.set("sortTyped", Function::new(ctx.clone(), sort_elements)?)
}

/// Gives the elements of `elements` in their order.
fn sort_elements<'js>(
    ctx: Ctx<'js>,
    elements: Array<'js>,
    comparator: Function<'js>,
    to_number: Function<'js>,
) -> Result<Array<'js>> {
    let mut values = elements.iter::<Value<'js>>().collect::<Result<Vec<_>>>()?;
    let said_false = Cell::default();
    let compare = sort::comparison(&ctx, &comparator, &to_number, &said_false);
    merge_sort(&mut values, &mut |left, right| compare(left, right))?;
    let sorted = Array::new(ctx.clone())?;
    for (index, value) in values.into_iter().enumerate() {
        sorted.set(index, value)?;
    }
    Ok(sorted)
}

type Compare<'a, T, E> = &'a mut dyn FnMut(&T, &T) -> std::result::Result<f64, E>;

/// Sorts values by a comparator that may fail. A comparator's NaN counts as 0.
fn merge_sort<T: Clone, E>(values: &mut [T], compare: Compare<'_, T, E>) -> std::result::Result<(), E> {
    if values.len() < 2 {
        return Ok(());
    }
    let mut source = values.to_vec();
    let end = source.len();
    sort_into(&mut source, 0, end, values, compare)
}

/// Sorts `from..to` of `source` into the same place of `target`. Both hold the same values there.
fn sort_into<T: Clone, E>(
    source: &mut [T],
    from: usize,
    to: usize,
    target: &mut [T],
    compare: Compare<'_, T, E>,
) -> std::result::Result<(), E> {
    let middle = from + (to - from) / 2;
    // The halves are sorted into the source, which becomes the target one level up.
    if middle - from > 1 {
        sort_into(target, from, middle, source, compare)?;
    }
    if to - middle > 1 {
        sort_into(target, middle, to, source, compare)?;
    }
    let (mut left, mut right) = (from, middle);
    for place in &mut target[from..to] {
        let takes_left = match (left < middle, right < to) {
            (true, true) => {
                let order = compare(&source[left], &source[right])?;
                order <= 0.0 || order.is_nan()
            }
            (has_left, _) => has_left,
        };
        let next = if takes_left { &mut left } else { &mut right };
        *place = source[*next].clone();
        *next += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::merge_sort;

    #[test]
    fn the_order_is_that_of_node_for_any_comparator() {
        let source: Vec<u32> = (0..40).map(|place| (place * 37 + place / 4) % 50).collect();
        let sorted = |compare: fn(u32, u32) -> f64| {
            let mut values = source.clone();
            let Ok(()) = merge_sort::<_, std::convert::Infallible>(&mut values, &mut |a, b| Ok(compare(*a, *b)));
            values
        };
        // What Node 22 gives for `Uint8Array.from(source).sort(…)`.
        assert_eq!(sorted(|a, b| if a % 7 < b % 7 { -1.0 } else { 1.0 }), NODE_LESS);
        assert_eq!(sorted(|a, b| f64::from(u8::from(a % 3 > b % 3))), NODE_FLAG);
        assert_eq!(sorted(|a, b| f64::from((a * 7 + b * 13) % 5) - 2.0), NODE_ODD);
    }

    #[rustfmt::skip]
    const NODE_LESS: &[u32] = &[28, 42, 7, 21, 35, 49, 0, 15, 29, 43, 8, 22, 36, 2, 16, 30, 44, 9, 23, 37, 3, 17, 31, 45, 10, 24, 4, 18, 32, 46, 11, 5, 19, 33, 47, 41, 6, 20, 34, 48];
    #[rustfmt::skip]
    const NODE_FLAG: &[u32] = &[0, 24, 36, 48, 9, 21, 33, 45, 6, 18, 30, 42, 3, 15, 37, 49, 10, 22, 34, 46, 7, 19, 31, 43, 4, 16, 28, 11, 23, 35, 47, 8, 20, 32, 44, 5, 17, 29, 41, 2];
    #[rustfmt::skip]
    const NODE_ODD: &[u32] = &[22, 47, 17, 42, 9, 34, 4, 29, 36, 21, 46, 31, 16, 41, 23, 48, 8, 33, 18, 43, 3, 28, 0, 10, 35, 20, 45, 5, 30, 15, 37, 7, 32, 2, 24, 49, 19, 44, 11, 6];
}
