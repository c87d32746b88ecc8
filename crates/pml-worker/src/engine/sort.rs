//! `Array.prototype.sort` and `toSorted` with a comparator, in the order that Node gives.
//!
//! Any stable sort gives the same order for a consistent comparator. Many programs have another: `(a, b) => a.n < b.n ? -1 : 1`
//! never returns 0, and `(a, b) => a > b` returns no negative number. What comes of those depends on which elements are
//! compared in which order. So this is the algorithm that Node uses (TimSort, as V8 and CPython have it): runs
//! are found or made by binary insertion, and merged with galloping, with the same comparisons in the same order.

use std::cell::Cell;

use rquickjs::{Ctx, Function, Object, Result, Value, function::This, object::Property};

use super::raw::{self, Item};

/// Shorter arrays are sorted by binary insertion alone.
const MIN_MERGE: usize = 64;
/// Elements that one run gives in a row before the merge begins to gallop.
const MIN_GALLOP: usize = 7;

/// Gives the prelude the function that sorts an array in place.
pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    native.set("sort", Function::new(ctx.clone(), sort)?)
}

/// Sorts an array in place. Values that are `undefined` go to the end, and what is not there behind them. What came of it
/// is `refused` if it is a proxy, and nothing was done; `unsorted` if the comparator gave `false` of two elements.
fn sort<'js>(
    ctx: Ctx<'js>,
    array: Object<'js>,
    comparator: Function<'js>,
    to_number: Function<'js>,
) -> Result<&'static str> {
    if array.is_proxy() {
        return Ok("refused");
    }
    let length = array.as_array().map_or(0, rquickjs::Array::len);
    let (mut values, mut undefined) = (Vec::with_capacity(length), 0);
    for index in 0..length as u32 {
        match raw::element(&array, index).ok_or(rquickjs::Error::Exception)? {
            Item::Undefined => undefined += usize::from(array.contains_key(index)?),
            Item::Int(number) => values.push(Value::new_int(ctx.clone(), number)),
            Item::Float(number) => values.push(Value::new_float(ctx.clone(), number)),
            Item::Bool(flag) => values.push(Value::new_bool(ctx.clone(), flag)),
            Item::Null => values.push(Value::new_null(ctx.clone())),
            Item::Other(value) => values.push(value),
        }
    }
    let nothing = Value::new_undefined(ctx.clone());
    let said_false = Cell::new(false);
    let compare = comparison(&ctx, &comparator, &to_number, &said_false);
    sort_by(&mut values, &mut |left, right| compare(left, right))?;
    let present = values.len() + undefined;
    values.resize(present, nothing);
    for (index, value) in values.into_iter().enumerate() {
        let index = index as u32;
        // Defined where it can be, so that no setter of the program's runs; set where that throws as it should.
        match array.contains_key(index)? {
            true => array.set(index, value)?,
            false => array.prop(index, Property::from(value).writable().enumerable().configurable())?,
        }
    }
    for index in present..length {
        array.remove(index as u32)?;
    }
    Ok(if said_false.get() { "unsorted" } else { "sorted" })
}

/// How a comparator of the program orders two values, as a number. `said_false` is set by one that gives `false`.
pub(super) fn comparison<'js>(
    ctx: &Ctx<'js>,
    comparator: &Function<'js>,
    to_number: &Function<'js>,
    said_false: &Cell<bool>,
) -> impl Fn(&Value<'js>, &Value<'js>) -> Result<f64> {
    let nothing = Value::new_undefined(ctx.clone());
    move |left, right| {
        let order: Value<'js> = comparator.call((This(nothing.clone()), left.clone(), right.clone()))?;
        match (order.as_number(), order.as_bool()) {
            (Some(order), _) => Ok(order),
            (_, Some(order)) => {
                if !order {
                    said_false.set(true);
                }
                Ok(f64::from(u8::from(order)))
            }
            _ => to_number.call((order,)),
        }
    }
}

/// Sorts values by a comparator that may fail. A comparator's NaN counts as 0.
pub(super) fn sort_by<T: Clone, E>(
    values: &mut [T],
    compare: &mut dyn FnMut(&T, &T) -> std::result::Result<f64, E>,
) -> std::result::Result<(), E> {
    if values.len() < 2 {
        return Ok(());
    }
    let mut sorter = Sorter { values, compare, runs: Vec::new(), min_gallop: MIN_GALLOP };
    sorter.sort()
}

type Compare<'a, T, E> = &'a mut dyn FnMut(&T, &T) -> std::result::Result<f64, E>;

/// A part of the values that is sorted.
#[derive(Clone, Copy)]
struct Run {
    base: usize,
    length: usize,
}

struct Sorter<'a, T, E> {
    values: &'a mut [T],
    compare: Compare<'a, T, E>,
    /// Runs that are not merged yet, each beginning where the one before ends.
    runs: Vec<Run>,
    min_gallop: usize,
}

impl<T: Clone, E> Sorter<'_, T, E> {
    fn is_less(&mut self, left: &T, right: &T) -> std::result::Result<bool, E> {
        (self.compare)(left, right).map(|order| order < 0.0)
    }

    fn sort(&mut self) -> std::result::Result<(), E> {
        let (mut low, length) = (0, self.values.len());
        let min_run = min_run(length);
        while low < length {
            let remaining = length - low;
            let mut run = self.run_at(low)?;
            if run < min_run {
                let forced = min_run.min(remaining);
                self.insert(low, low + run, low + forced)?;
                run = forced;
            }
            self.runs.push(Run { base: low, length: run });
            self.collapse()?;
            low += run;
        }
        while self.runs.len() > 1 {
            let mut at = self.runs.len() - 2;
            if at > 0 && self.runs[at - 1].length < self.runs[at + 1].length {
                at -= 1;
            }
            self.merge_at(at)?;
        }
        Ok(())
    }

    /// The length of the run that begins here. One that strictly descends is reversed.
    fn run_at(&mut self, low: usize) -> std::result::Result<usize, E> {
        let high = self.values.len();
        if low + 1 == high {
            return Ok(1);
        }
        let pair = (self.values[low + 1].clone(), self.values[low].clone());
        let is_descending = self.is_less(&pair.0, &pair.1)?;
        let mut end = low + 2;
        while end < high {
            let pair = (self.values[end].clone(), self.values[end - 1].clone());
            if self.is_less(&pair.0, &pair.1)? != is_descending {
                break;
            }
            end += 1;
        }
        if is_descending {
            self.values[low..end].reverse();
        }
        Ok(end - low)
    }

    /// Sorts `low..high`, of which `low..start` is sorted.
    fn insert(&mut self, low: usize, start: usize, high: usize) -> std::result::Result<(), E> {
        for start in start.max(low + 1)..high {
            let pivot = self.values[start].clone();
            let (mut left, mut right) = (low, start);
            while left < right {
                let middle = left + (right - left) / 2;
                let other = self.values[middle].clone();
                match self.is_less(&pivot, &other)? {
                    true => right = middle,
                    false => left = middle + 1,
                }
            }
            self.values[left..=start].rotate_right(1);
        }
        Ok(())
    }

    /// Merges runs until each is longer than the two behind it together, and than the next.
    fn collapse(&mut self) -> std::result::Result<(), E> {
        while self.runs.len() > 1 {
            let mut at = self.runs.len() - 2;
            let length = |index: usize| self.runs[index].length;
            let is_kept = |index: usize| index < 2 || length(index - 2) > length(index - 1) + length(index);
            if !is_kept(at + 1) || !is_kept(at) {
                if length(at - 1) < length(at + 1) {
                    at -= 1;
                }
            } else if length(at) > length(at + 1) {
                break;
            }
            self.merge_at(at)?;
        }
        Ok(())
    }

    fn merge_at(&mut self, at: usize) -> std::result::Result<(), E> {
        let (mut a, mut b) = (self.runs[at], self.runs[at + 1]);
        self.runs[at].length = a.length + b.length;
        self.runs.remove(at + 1);

        // What of the first run stays where it is, and what of the second.
        let key = self.values[b.base].clone();
        let skipped = self.gallop_right(None, &key, a.base, a.length, 0)?;
        a = Run { base: a.base + skipped, length: a.length - skipped };
        if a.length == 0 {
            return Ok(());
        }
        let key = self.values[a.base + a.length - 1].clone();
        b.length = self.gallop_left(None, &key, b.base, b.length, b.length - 1)?;
        if b.length == 0 {
            return Ok(());
        }
        match a.length <= b.length {
            true => self.merge_low(a, b),
            false => self.merge_high(a, b),
        }
    }

    /// Where `key` goes in a sorted part, before what is equal. Looks first at `hint`, then farther and farther away.
    fn gallop_left(
        &mut self,
        part: Option<&[T]>,
        key: &T,
        base: usize,
        length: usize,
        hint: usize,
    ) -> std::result::Result<usize, E> {
        let element = |values: &[T], index: usize| part.unwrap_or(values)[base + index].clone();
        let (mut last, mut offset) = (0_usize, 1_usize);
        let other = element(self.values, hint);
        let (mut from, to);
        if self.is_less(&other, key)? {
            let most = length - hint;
            while offset < most {
                let other = element(self.values, hint + offset);
                if !self.is_less(&other, key)? {
                    break;
                }
                last = offset;
                offset = offset * 2 + 1;
            }
            (from, to) = (hint + last + 1, hint + offset.min(most));
        } else {
            let most = hint + 1;
            while offset < most {
                let other = element(self.values, hint - offset);
                if self.is_less(&other, key)? {
                    break;
                }
                last = offset;
                offset = offset * 2 + 1;
            }
            (from, to) = (hint + 1 - offset.min(most), hint - last);
        }
        let mut to = to;
        while from < to {
            let middle = from + (to - from) / 2;
            let other = element(self.values, middle);
            match self.is_less(&other, key)? {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        Ok(to)
    }

    /// Where `key` goes in a sorted part, behind what is equal.
    fn gallop_right(
        &mut self,
        part: Option<&[T]>,
        key: &T,
        base: usize,
        length: usize,
        hint: usize,
    ) -> std::result::Result<usize, E> {
        let element = |values: &[T], index: usize| part.unwrap_or(values)[base + index].clone();
        let (mut last, mut offset) = (0_usize, 1_usize);
        let other = element(self.values, hint);
        let (mut from, to);
        if self.is_less(key, &other)? {
            let most = hint + 1;
            while offset < most {
                let other = element(self.values, hint - offset);
                if !self.is_less(key, &other)? {
                    break;
                }
                last = offset;
                offset = offset * 2 + 1;
            }
            (from, to) = (hint + 1 - offset.min(most), hint - last);
        } else {
            let most = length - hint;
            while offset < most {
                let other = element(self.values, hint + offset);
                if self.is_less(key, &other)? {
                    break;
                }
                last = offset;
                offset = offset * 2 + 1;
            }
            (from, to) = (hint + last + 1, hint + offset.min(most));
        }
        let mut to = to;
        while from < to {
            let middle = from + (to - from) / 2;
            let other = element(self.values, middle);
            match self.is_less(key, &other)? {
                true => to = middle,
                false => from = middle + 1,
            }
        }
        Ok(to)
    }

    /// Merges from the front; the first run is the shorter one. Its elements wait in a copy.
    fn merge_low(&mut self, a: Run, b: Run) -> std::result::Result<(), E> {
        let copy: Vec<T> = self.values[a.base..a.base + a.length].to_vec();
        let mut state = Low { at: a.base, from: 0, rest: a.length, next: b.base, left: b.length };
        let outcome = self.merge_low_loop(&copy, &mut state);
        // Whatever of the copy is left goes to its place, also if the comparator has failed.
        let Low { at, from, rest, next, left } = state;
        if outcome.is_ok() && rest == 1 && left > 0 {
            // The last element of the copy goes behind the rest of the second run.
            self.values[at..next + left].rotate_left(next - at);
            self.values[at + left] = copy[from].clone();
        } else {
            self.values[at..at + rest].clone_from_slice(&copy[from..from + rest]);
        }
        outcome
    }

    fn merge_low_loop(&mut self, copy: &[T], it: &mut Low) -> std::result::Result<(), E> {
        self.take_low_second(it, 1);
        if it.left == 0 || it.rest == 1 {
            return Ok(());
        }
        let mut min_gallop = self.min_gallop;
        loop {
            let (mut wins_a, mut wins_b) = (0, 0);
            loop {
                let pair = (self.values[it.next].clone(), copy[it.from].clone());
                if self.is_less(&pair.0, &pair.1)? {
                    self.take_low_second(it, 1);
                    (wins_a, wins_b) = (0, wins_b + 1);
                    if it.left == 0 {
                        return Ok(());
                    }
                    if wins_b >= min_gallop {
                        break;
                    }
                } else {
                    self.take_low_first(copy, it, 1);
                    (wins_a, wins_b) = (wins_a + 1, 0);
                    if it.rest == 1 {
                        return Ok(());
                    }
                    if wins_a >= min_gallop {
                        break;
                    }
                }
            }
            min_gallop += 1;
            loop {
                min_gallop = (min_gallop - 1).max(1);
                self.min_gallop = min_gallop;
                let key = self.values[it.next].clone();
                wins_a = self.gallop_right(Some(copy), &key, it.from, it.rest, 0)?;
                self.take_low_first(copy, it, wins_a);
                // An inconsistent comparator may use up the first run here.
                if wins_a > 0 && it.rest <= 1 {
                    return Ok(());
                }
                self.take_low_second(it, 1);
                if it.left == 0 {
                    return Ok(());
                }
                let key = copy[it.from].clone();
                wins_b = self.gallop_left(None, &key, it.next, it.left, 0)?;
                self.take_low_second(it, wins_b);
                if it.left == 0 {
                    return Ok(());
                }
                self.take_low_first(copy, it, 1);
                if it.rest == 1 {
                    return Ok(());
                }
                if wins_a < MIN_GALLOP && wins_b < MIN_GALLOP {
                    break;
                }
            }
            min_gallop += 1;
            self.min_gallop = min_gallop;
        }
    }

    fn take_low_first(&mut self, copy: &[T], it: &mut Low, count: usize) {
        self.values[it.at..it.at + count].clone_from_slice(&copy[it.from..it.from + count]);
        it.at += count;
        it.from += count;
        it.rest -= count;
    }

    fn take_low_second(&mut self, it: &mut Low, count: usize) {
        for _ in 0..count {
            self.values[it.at] = self.values[it.next].clone();
            it.at += 1;
            it.next += 1;
        }
        it.left -= count;
    }

    /// Merges from the end; the second run is the shorter one. Its elements wait in a copy.
    fn merge_high(&mut self, a: Run, b: Run) -> std::result::Result<(), E> {
        let copy: Vec<T> = self.values[b.base..b.base + b.length].to_vec();
        let mut state = High { base: a.base, rest: a.length, left: b.length };
        let outcome = self.merge_high_loop(&copy, &mut state);
        let High { base, rest, left } = state;
        if outcome.is_ok() && left == 1 && rest > 0 {
            // The first element of the copy goes before the rest of the first run.
            self.values[base..=base + rest].rotate_right(1);
            self.values[base] = copy[0].clone();
        } else {
            self.values[base + rest..base + rest + left].clone_from_slice(&copy[..left]);
        }
        outcome
    }

    fn merge_high_loop(&mut self, copy: &[T], it: &mut High) -> std::result::Result<(), E> {
        self.take_high_first(it, 1);
        if it.rest == 0 || it.left == 1 {
            return Ok(());
        }
        let mut min_gallop = self.min_gallop;
        loop {
            let (mut wins_a, mut wins_b) = (0, 0);
            loop {
                let pair = (copy[it.left - 1].clone(), self.values[it.base + it.rest - 1].clone());
                if self.is_less(&pair.0, &pair.1)? {
                    self.take_high_first(it, 1);
                    (wins_a, wins_b) = (wins_a + 1, 0);
                    if it.rest == 0 {
                        return Ok(());
                    }
                    if wins_a >= min_gallop {
                        break;
                    }
                } else {
                    self.take_high_second(copy, it, 1);
                    (wins_a, wins_b) = (0, wins_b + 1);
                    if it.left == 1 {
                        return Ok(());
                    }
                    if wins_b >= min_gallop {
                        break;
                    }
                }
            }
            min_gallop += 1;
            loop {
                min_gallop = (min_gallop - 1).max(1);
                self.min_gallop = min_gallop;
                let key = copy[it.left - 1].clone();
                let kept = self.gallop_right(None, &key, it.base, it.rest, it.rest - 1)?;
                wins_a = it.rest - kept;
                self.take_high_first(it, wins_a);
                if it.rest == 0 {
                    return Ok(());
                }
                self.take_high_second(copy, it, 1);
                if it.left == 1 {
                    return Ok(());
                }
                let key = self.values[it.base + it.rest - 1].clone();
                let kept = self.gallop_left(Some(copy), &key, 0, it.left, it.left - 1)?;
                wins_b = it.left - kept;
                self.take_high_second(copy, it, wins_b);
                // An inconsistent comparator may use up the second run here.
                if wins_b > 0 && it.left <= 1 {
                    return Ok(());
                }
                self.take_high_first(it, 1);
                if it.rest == 0 {
                    return Ok(());
                }
                if wins_a < MIN_GALLOP && wins_b < MIN_GALLOP {
                    break;
                }
            }
            min_gallop += 1;
            self.min_gallop = min_gallop;
        }
    }

    /// Moves the last elements of the first run behind the gap.
    fn take_high_first(&mut self, it: &mut High, count: usize) {
        for _ in 0..count {
            self.values[it.base + it.rest + it.left - 1] = self.values[it.base + it.rest - 1].clone();
            it.rest -= 1;
        }
    }

    fn take_high_second(&mut self, copy: &[T], it: &mut High, count: usize) {
        for _ in 0..count {
            self.values[it.base + it.rest + it.left - 1] = copy[it.left - 1].clone();
            it.left -= 1;
        }
    }
}

/// How far a merge from the front is.
struct Low {
    /// Where the next element goes.
    at: usize,
    /// The next element of the copy, and how many are left of it.
    from: usize,
    rest: usize,
    /// The next element of the second run, and how many are left of it.
    next: usize,
    left: usize,
}

/// How far a merge from the end is.
struct High {
    /// Where the first run begins, and how many are left of it.
    base: usize,
    rest: usize,
    /// How many are left of the copy of the second run.
    left: usize,
}

/// The shortest run that is not lengthened: the length is a power of two of these, or a little less.
fn min_run(mut length: usize) -> usize {
    let mut odd = 0;
    while length >= MIN_MERGE {
        odd |= length & 1;
        length >>= 1;
    }
    length + odd
}

#[cfg(test)]
mod tests {
    use super::sort_by;

    type Comparator = fn(u32, u32) -> f64;

    /// Comparators as programs have them, of numbers that carry where they stood.
    const COMPARATORS: [(&str, Comparator); 6] = [
        ("less", |a, b| if a < b { -1.0 } else { 1.0 }),
        ("more", |a, b| if a > b { 1.0 } else { -1.0 }),
        ("flag", |a, b| f64::from(u8::from(a > b))),
        ("down", |a, b| f64::from(u8::from(a < b))),
        ("odd", |a, b| f64::from((a * 7 + b * 13) % 5) - 2.0),
        ("difference", |a, b| f64::from(a) - f64::from(b)),
    ];

    /// The same numbers as in `sort.mjs`.
    struct Numbers(u32);

    impl Numbers {
        fn next(&mut self) -> u32 {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            self.0 >> 16
        }
    }

    /// A number for the order in which the elements end.
    fn digest(places: impl Iterator<Item = usize>) -> u32 {
        places.fold(2_166_136_261, |digest, place| (digest ^ place as u32).wrapping_mul(16_777_619))
    }

    #[test]
    fn the_order_is_that_of_node_for_any_comparator() {
        let expected: Vec<&str> = include_str!("sort.expected.txt").lines().collect();
        let mut actual = Vec::new();
        for (name, comparator) in COMPARATORS {
            for seed in 0..200 {
                let mut numbers = Numbers(seed);
                let length = match seed % 4 {
                    0 => numbers.next() % 30,
                    1 => numbers.next() % 100,
                    2 => numbers.next() % 300,
                    _ => numbers.next() % 2000,
                };
                let kinds = [3, 10, 1000][(numbers.next() % 3) as usize];
                let mut values: Vec<(u32, usize)> = (0..length as usize)
                    .map(|place| {
                        (
                            match seed % 3 {
                                0 => place as u32 / 20 + numbers.next() % kinds,
                                _ => numbers.next() % kinds,
                            },
                            place,
                        )
                    })
                    .collect();
                let Ok(()) = sort_by::<_, std::convert::Infallible>(&mut values, &mut |a, b| Ok(comparator(a.0, b.0)));
                actual.push(format!("{name} {seed} {length} {:08x}", digest(values.iter().map(|value| value.1))));
            }
        }
        for (actual, expected) in actual.iter().zip(&expected) {
            assert_eq!(actual, expected);
        }
        assert_eq!(actual.len(), expected.len());
    }

    #[test]
    fn a_failed_comparison_loses_no_element() {
        for fails_at in 0..600 {
            let mut values: Vec<u32> = (0..300).map(|number| number * 7919 % 307).collect();
            let mut count = 0;
            let outcome = sort_by(&mut values, &mut |a, b| {
                count += 1;
                if count > fails_at { Err(()) } else { Ok(f64::from(*a) - f64::from(*b)) }
            });
            assert!(outcome.is_err());
            values.sort_unstable();
            let mut all: Vec<u32> = (0..300).map(|number| number * 7919 % 307).collect();
            all.sort_unstable();
            assert_eq!(values, all);
        }
    }
}
