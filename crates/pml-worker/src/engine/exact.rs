//! Numbers that JavaScript would write differently from how they came.
//!
//! JavaScript rounds integers beyond 2^53, and writes `12.0` as `12` and `1e3` as `1000`. What a program passes on or returns
//! unchanged is to be what the server sent. So each such number is noted beside the array or object that it stands in, and
//! [`to_json`] writes it as it came if it still stands there. Integers beyond 2^53 are also known by their
//! rounded value, for programs that take them out of their object; of two that are rounded to the same value neither is.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet},
    rc::Rc,
};

use pml_wire::walk::{Step, Walk};
use rquickjs::{Ctx, Function, IntoJs, Object, Result, Value};

use super::{
    Prelude, State,
    from_json::{self, Built},
    raw, to_json,
};

/// From here on, not every integer can be told from its neighbours.
const UNSAFE: f64 = 9_007_199_254_740_992.0;
/// Numbers of one result that are noted only because they are written differently.
const MAX_SPELLINGS: usize = 100_000;
/// Integers beyond 2^53 that are known by their rounded value.
const MAX_INTEGERS: usize = 100_000;

/// What is known of the numbers of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Exact(Rc<RefCell<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Is any number noted beside its array or object?
    has_notes: bool,
    /// Integers beyond 2^53 by the bits of what JavaScript makes of them; `None` if there are several.
    integers: HashMap<u64, Option<Box<str>>>,
    /// Not all of them could be kept.
    is_full: bool,
    /// Whose results were warned of.
    warned: HashSet<String>,
}

/// How an integer beyond 2^53 is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Integer {
    /// As JavaScript has it.
    Plain,
    /// As it came.
    As(Box<str>),
    /// As JavaScript has it, which may be another than the one that came.
    Unsure,
}

/// The numbers of one array or object that are written differently.
#[derive(Debug, PartialEq, Eq)]
struct Noted {
    path: Vec<Step>,
    /// As they came, by key or index.
    numbers: BTreeMap<String, String>,
}

/// What was found in a result.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    noted: Vec<Noted>,
    /// Integers beyond 2^53.
    integers: Vec<Box<str>>,
    /// The path to the first of them.
    first: Option<String>,
}

impl Exact {
    pub(super) fn has_notes(&self) -> bool {
        self.0.borrow().has_notes
    }

    /// How a number is to be written that stands by itself.
    pub(super) fn integer(&self, number: f64) -> Integer {
        if number.abs() < UNSAFE || number.fract() != 0.0 {
            return Integer::Plain;
        }
        let known = self.0.borrow();
        match known.integers.get(&number.to_bits()) {
            Some(Some(text)) => Integer::As(text.clone()),
            Some(None) => Integer::Unsure,
            None if known.is_full => Integer::Unsure,
            None => Integer::Plain,
        }
    }

    fn add(&self, text: Box<str>) {
        let Ok(bits) = text.parse::<f64>().map(f64::to_bits) else { return };
        let Known { integers, is_full, .. } = &mut *self.0.borrow_mut();
        let has_room = integers.len() < MAX_INTEGERS;
        match integers.get_mut(&bits) {
            Some(Some(other)) if **other == *text => {}
            Some(other) => *other = None,
            None if has_room => drop(integers.insert(bits, Some(text))),
            None => *is_full = true,
        }
    }
}

/// The value of JSON text that came from `origin`, with its numbers noted. Objects get `prototype`, if there is one.
pub(super) fn parse<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    prelude: &Prelude<'js>,
    text: Vec<u8>,
    origin: &str,
    prototype: Option<&Object<'js>>,
) -> Result<Value<'js>> {
    let (value, found) = match str::from_utf8(&text) {
        Ok(text) => match from_json::build(ctx, text, prototype)? {
            Some(Built { value, is_plain, kinds }) => {
                if prototype.is_some() {
                    state.misses.note_kinds(origin, kinds);
                }
                if is_plain {
                    return Ok(value);
                }
                (value, find(text))
            }
            None => (ctx.json_parse(text)?, find(text)),
        },
        Err(_) => (ctx.json_parse(text)?, Found::default()),
    };
    let Found { noted, integers, first } = found;
    if let Some((path, integer)) = first.zip(integers.first())
        && state.exact.0.borrow_mut().warned.insert(origin.to_owned())
    {
        let more = if integers.len() > 1 { format!(" and {} more", integers.len() - 1) } else { String::new() };
        let rounded = integer.parse::<f64>().unwrap_or_default();
        state.warn(format!(
            "`{origin}` returned an integer beyond 2^53 at {path}{more}: JavaScript rounds {integer} to {rounded}; passed \
             on or returned unchanged it stays exact, but do not compute with it or turn it into text"
        ));
    }
    for Noted { path, numbers } in noted {
        let object = path.into_iter().try_fold(value.clone(), |value, step| child(value.as_object()?, step));
        if let Some(object) = object.filter(Value::is_object) {
            let numbers = serde_json::to_string(&numbers).expect("plain data serializes");
            prelude.note_numbers.call::<_, ()>((object, numbers))?;
            state.exact.0.borrow_mut().has_notes = true;
        }
    }
    integers.into_iter().for_each(|integer| state.exact.add(integer));
    Ok(value)
}

/// What an array or object holds at a step.
pub(super) fn child<'js>(parent: &Object<'js>, step: Step) -> Option<Value<'js>> {
    let ctx = parent.ctx();
    let name = match step {
        Step::Key(key) => key.into_js(ctx),
        Step::Index(index) => (index as f64).into_js(ctx),
    };
    raw::own_data(parent, &name.ok()?)
}

/// Numbers as they came, of one array or object, by key or index.
#[derive(Debug, Default)]
pub(super) struct Notes(HashMap<String, String>);

impl Notes {
    /// What is noted beside an array or object.
    pub(super) fn of<'js>(object: &Object<'js>, numbers_of: &Function<'js>) -> Notes {
        let text = numbers_of.call::<_, Value<'js>>((object.clone(),)).ok().filter(Value::is_string);
        let text = text.and_then(|text| raw::text(&text)).map(|(text, _)| text).unwrap_or_default();
        Notes(serde_json::from_str(&text).unwrap_or_default())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How the number at a key came, if it is still the same.
    pub(super) fn get(&self, key: &str, number: f64) -> Option<&str> {
        let text = self.0.get(key)?;
        text.parse::<f64>().is_ok_and(|noted| noted.to_bits() == number.to_bits()).then_some(text)
    }
}

fn find(text: &str) -> Found {
    let mut found = Found::default();
    let mut walk = Walk::new(text);
    // Which of `noted` is that of the array or object at each depth.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut spellings = 0;
    while let Some(place) = walk.next() {
        open.truncate(place.depth);
        let token = &text[place.span.clone()];
        let number = match token.as_bytes()[0] {
            b'[' | b'{' => {
                open.push(None);
                continue;
            }
            b'-' | b'0'..=b'9' => token,
            _ => continue,
        };
        let (is_integer, is_respelled) = judge(number);
        if is_integer {
            found.integers.push(number.into());
            found.first.get_or_insert_with(|| to_json::path(&walk.path(&place)));
        }
        spellings += usize::from(is_respelled);
        let Some(container) = open.last_mut() else { continue };
        let key = || match walk.step(place.depth - 1) {
            Some(Step::Key(key)) => key,
            Some(Step::Index(index)) => index.to_string(),
            None => String::new(),
        };
        if is_integer || is_respelled && spellings <= MAX_SPELLINGS {
            let index = *container.get_or_insert_with(|| {
                let mut path = walk.path(&place);
                path.pop();
                found.noted.push(Noted { path, numbers: BTreeMap::new() });
                found.noted.len() - 1
            });
            found.noted[index].numbers.insert(key(), number.to_owned());
        } else if let Some(index) = container {
            // Of a key that is there twice, the last counts.
            found.noted[*index].numbers.remove(&key());
        }
    }
    found
}

/// Does JavaScript write a number as it came?
pub(super) fn is_plain(token: &str) -> bool {
    judge(token) == (false, false)
}

/// Is it an integer beyond 2^53, and would it be written differently?
fn judge(token: &str) -> (bool, bool) {
    let digits = token.strip_prefix('-').unwrap_or(token);
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_integer && digits.len() <= 15 && token != "-0" {
        return (false, false);
    }
    let Ok(number) = token.parse::<f64>() else { return (false, false) };
    let mut written = Vec::new();
    to_json::write_float(&mut written, number);
    (is_integer && number.abs() >= UNSAFE, written != token.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_change_are_found() {
        let table = [
            ("[0, -1, 123456789012345, 1.5, 0.1, true, \"12.0\"]", "", ""),
            ("[9007199254740991, -9007199254740991]", "", ""),
            ("12.0", "", ""),
            ("9007199254740993", "", "9007199254740993"),
            ("[9007199254740992]", "", "9007199254740992"),
            (r#"{"a": [1, {"b": -9007199254740993}], "c": 2}"#, r#"$.a[1] b=-9007199254740993"#, "-9007199254740993"),
            ("[1, 12.0, 3, 1e3, -0.0, -0]", "$ 1=12.0 3=1e3 4=-0.0 5=-0", ""),
            (r#"{"a": 1.0, "b": {"c": 2.0}, "d": 3.0}"#, "$ a=1.0 d=3.0; $.b c=2.0", ""),
            ("[[1.0], [2], [3.0]]", "$[0] 0=1.0; $[2] 0=3.0", ""),
            (r#"{"a": 1.0, "a": 2}"#, "$ ", ""),
            ("[1e400, 0.1000]", "$ 0=1e400 1=0.1000", ""),
        ];
        for (text, noted, integers) in table {
            let found = find(text);
            let all = found.noted.iter().map(|Noted { path, numbers }| {
                let numbers: Vec<_> = numbers.iter().map(|(key, number)| format!("{key}={number}")).collect();
                format!("{} {}", to_json::path(path), numbers.join(" "))
            });
            let all: Vec<_> = all.collect();
            if !noted.is_empty() || integers.is_empty() {
                assert_eq!(all.join("; "), noted, "{text}");
            }
            assert_eq!(found.integers.join(" "), integers, "{text}");
        }
    }

    #[test]
    fn integers_that_cannot_be_told_apart_are_not() {
        let exact = Exact::default();
        exact.add("9007199254740993".into());
        exact.add("9007199254740993".into());
        assert_eq!(exact.integer(9_007_199_254_740_993_i64 as f64), Integer::As("9007199254740993".into()));
        exact.add("9007199254740992".into());
        assert_eq!(exact.integer(9_007_199_254_740_992.0), Integer::Unsure);
        assert_eq!(exact.integer(2.0_f64.powi(60)), Integer::Plain);
        assert_eq!(exact.integer(0.5), Integer::Plain);
    }
}
