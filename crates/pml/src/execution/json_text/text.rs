//! JSON text, and what is known of where its parts are.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde::de::IgnoredAny;

use super::{
    path::{self, Step},
    scan,
};
use crate::work::Waiter;

/// Of the elements of a large array, the places of every so many are kept.
const EVERY: usize = 16;
/// A container that takes less than this is passed over each time.
const WORTH_BYTES: usize = 16 * 1024;
/// How often long work looks whether it is still wanted, in children that it has passed.
const LOOK: usize = 4096;

/// How much memory all that is known about texts may take together.
#[derive(Clone, Debug)]
pub struct IndexRoom(Arc<AtomicUsize>);

impl IndexRoom {
    pub fn new(bytes: usize) -> IndexRoom {
        IndexRoom(Arc::new(AtomicUsize::new(bytes)))
    }

    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// A text whose parts are read.
#[derive(Debug)]
pub struct JsonText {
    text: Box<str>,
    /// Is the text known to be JSON? `None` if nobody has looked.
    is_json: Mutex<Option<Result<(), String>>>,
    /// The large containers that were looked into, by the place where they begin.
    containers: Mutex<HashMap<usize, Arc<Container>>>,
    room: IndexRoom,
}

/// Where the children of a container are.
#[derive(Debug)]
enum Container {
    /// The place of every [`EVERY`]th element.
    Array(Vec<u32>),
    /// Hashes of keys and the places where the keys begin, sorted.
    Object(Vec<(u32, u32)>),
    /// There is no room to keep that.
    Unknown,
}

impl JsonText {
    /// A text that is JSON.
    pub fn of_json(text: Box<str>, room: &IndexRoom) -> JsonText {
        JsonText { is_json: Mutex::new(Some(Ok(()))), ..JsonText::new(text, room) }
    }

    /// A text that may be JSON.
    pub fn new(text: Box<str>, room: &IndexRoom) -> JsonText {
        JsonText { text, is_json: Mutex::default(), containers: Mutex::default(), room: room.clone() }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The value at a path. The first look into a large container takes time in proportion to its size, and the value
    /// itself is passed over once.
    pub fn select(&self, path: &str, wanted: &Waiter) -> Result<&str, String> {
        let steps = path::parse(path)?;
        self.check_json()?;
        let bytes = self.text.as_bytes();
        let mut at = scan::skip_space(bytes, 0);
        for (number, step) in steps.iter().enumerate() {
            let child = match (bytes.get(at), step) {
                (Some(b'['), Step::Index(index)) => self.element(at, *index, wanted),
                (Some(b'{'), Step::Key(key)) => self.entry(at, key, wanted),
                _ => None,
            };
            at = child.ok_or_else(|| path::nothing_at(&steps[..=number]))?;
        }
        Ok(self.text.get(at..scan::skip_value(bytes, at)).unwrap_or_default())
    }

    fn check_json(&self) -> Result<(), String> {
        let mut is_json = self.is_json.lock().unwrap_or_else(PoisonError::into_inner);
        is_json
            .get_or_insert_with(|| match serde_json::from_str::<IgnoredAny>(&self.text) {
                _ if u32::try_from(self.text.len()).is_err() => Err("the text is too long".to_owned()),
                Ok(_) => Ok(()),
                Err(err) => Err(format!("the text is not JSON: {err}")),
            })
            .clone()
    }

    /// The place of an element of the array at `at`.
    fn element(&self, at: usize, index: usize, wanted: &Waiter) -> Option<usize> {
        let known = self.container(at);
        match known.as_deref() {
            Some(Container::Array(places)) => {
                let from = *places.get(index / EVERY)? as usize;
                // As if an array began in front of it.
                scan::elements(self.text.as_bytes(), from.checked_sub(1)?).nth(index % EVERY)
            }
            Some(Container::Object(_) | Container::Unknown) => scan::elements(self.text.as_bytes(), at).nth(index),
            None => self.look_into_array(at, index, wanted),
        }
    }

    /// Passes over an array that nothing is known about, and keeps what is found if it is worth it.
    fn look_into_array(&self, at: usize, index: usize, wanted: &Waiter) -> Option<usize> {
        let (mut places, mut found, mut end) = (Vec::new(), None, at);
        for (number, place) in scan::elements(self.text.as_bytes(), at).enumerate() {
            if number % LOOK == 0 && wanted.is_gone() {
                return None;
            }
            if number.is_multiple_of(EVERY) {
                places.push(u32::try_from(place).ok()?);
            }
            if number == index {
                found = Some(place);
            }
            end = place;
        }
        let bytes = places.len() * size_of::<u32>();
        self.keep(at, end - at, bytes, || Container::Array(places));
        found
    }

    /// The place of the value of a key of the object at `at`. Of two equal keys the last counts, as in JavaScript.
    fn entry(&self, at: usize, key: &str, wanted: &Waiter) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let value_of = |place: usize| scan::entries(bytes, place.checked_sub(1)?).next().map(|(_, value)| value);
        let known = self.container(at);
        match known.as_deref() {
            Some(Container::Object(places)) => {
                let wanted = hash(key);
                let from = places.partition_point(|(hash, _)| *hash < wanted);
                let same =
                    places[from..].iter().take_while(|(hash, _)| *hash == wanted).map(|(_, place)| *place as usize);
                same.filter(|place| scan::is_key(&self.text, *place, key)).last().and_then(value_of)
            }
            Some(Container::Array(_) | Container::Unknown) => {
                let same = scan::entries(bytes, at).filter(|(place, _)| scan::is_key(&self.text, *place, key));
                same.last().map(|(_, value)| value)
            }
            None => self.look_into_object(at, key, wanted),
        }
    }

    fn look_into_object(&self, at: usize, key: &str, wanted: &Waiter) -> Option<usize> {
        let (mut places, mut found, mut end) = (Vec::new(), None, at);
        for (number, (place, value)) in scan::entries(self.text.as_bytes(), at).enumerate() {
            if number % LOOK == 0 && wanted.is_gone() {
                return None;
            }
            if scan::is_key(&self.text, place, key) {
                found = Some(value);
            }
            places.push((self.hash_at(place), u32::try_from(place).ok()?));
            end = value;
        }
        let bytes = places.len() * size_of::<(u32, u32)>();
        // The last value may be most of it.
        let size = scan::skip_value(self.text.as_bytes(), end) - at;
        self.keep(at, size, bytes, || {
            places.sort_unstable();
            Container::Object(places)
        });
        found
    }

    fn hash_at(&self, place: usize) -> u32 {
        let end = scan::skip_value(self.text.as_bytes(), place);
        let key = self.text.get(place..end).unwrap_or_default();
        match key.contains('\\') {
            false => hash(key.get(1..key.len().saturating_sub(1)).unwrap_or_default()),
            true => hash(&serde_json::from_str::<String>(key).unwrap_or_default()),
        }
    }

    fn container(&self, at: usize) -> Option<Arc<Container>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner).get(&at).cloned()
    }

    /// Keeps what is known about a container of a size, if that is worth it and there is room.
    fn keep(&self, at: usize, size: usize, bytes: usize, make: impl FnOnce() -> Container) {
        if size < WORTH_BYTES {
            return;
        }
        let container = if self.room.take(bytes) { make() } else { Container::Unknown };
        self.containers.lock().unwrap_or_else(PoisonError::into_inner).insert(at, Arc::new(container));
    }
}

fn hash(key: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn text(text: &str, room: usize) -> JsonText {
        JsonText::new(text.into(), &IndexRoom::new(room))
    }

    fn select<'a>(text: &'a JsonText, path: &str) -> Result<&'a str, String> {
        text.select(path, &Waiter::default())
    }

    #[test]
    fn paths_lead_to_values() {
        let source = r#" {"items":[{"name":"a"}, {"name":"b","x-y":[1,[2,3]]}],"n":null,"t":"text","a":1,"\u0061": 2, "e":{}, "l": [ ]}"#;
        let text = text(source, 1000);
        let table = [
            ("", Ok(source.trim())),
            ("$", Ok(source.trim())),
            ("items[1].name", Ok(r#""b""#)),
            ("$.items[1][\"x-y\"][1][0]", Ok("2")),
            (".n", Ok("null")),
            ("a", Ok("2")),
            ("e", Ok("{}")),
            ("e.x", Err("there is nothing at `e.x`")),
            ("l[0]", Err("there is nothing at `l[0]`")),
            ("items[2]", Err("there is nothing at `items[2]`")),
            ("items.name", Err("there is nothing at `items.name`")),
            ("t.x", Err("there is nothing at `t.x`")),
            ("n[0]", Err("there is nothing at `n[0]`")),
            ("items[x]", Err("cannot be read at `[x]`")),
            ("items[1", Err("cannot be read")),
            ("a..b", Err("cannot be read")),
            ("items[\"x", Err("cannot be read")),
        ];
        for (path, expected) in table {
            match (select(&text, path), expected) {
                (Ok(actual), Ok(expected)) => assert_eq!(actual, expected, "{path}"),
                (Err(actual), Err(expected)) => assert!(actual.contains(expected), "{path}: {actual}"),
                (actual, _) => panic!("{path}: {actual:?}"),
            }
        }
        for (source, path) in [("hello", "a"), ("{\"a\":", "a"), ("[1 2]", "[0]")] {
            let text = JsonText::new(source.into(), &IndexRoom::new(1000));
            assert!(select(&text, path).unwrap_err().contains("not JSON"), "{source}");
        }
        assert!(select(&text, &"a.".repeat(1000)).unwrap_err().contains("more than 100 steps"));
    }

    /// Any JSON value, large enough at times to be worth an index.
    fn values() -> impl Strategy<Value = Value> {
        let key = prop_oneof!["[a-c]{0,2}", "\\PC{0,4}", Just("long \\ key".to_owned())];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "\\PC{0,20}".prop_map(Value::from),
            "[a-z\\\\\"]{2000}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 80, 20, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..40)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    /// Every path into a value, with the value there.
    fn paths<'a>(path: &str, value: &'a Value, all: &mut Vec<(String, &'a Value)>) {
        all.push((path.to_owned(), value));
        match value {
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, item)| paths(&format!("{path}[{index}]"), item, all));
            }
            Value::Object(entries) => {
                entries.iter().for_each(|(key, item)| paths(&format!("{path}[{}]", json!(key)), item, all));
            }
            _ => {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_path_leads_where_a_parser_finds_it(
            value in values(),
            pretty in any::<bool>(),
            room in prop_oneof![Just(0_usize), Just(1 << 20)],
        ) {
            let source = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
            let text = text(&source, room);
            let mut all = Vec::new();
            paths("", &value, &mut all);
            // Twice: the second time it is known where everything is.
            for (path, expected) in all.iter().chain(&all) {
                let found = select(&text, path).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Value>(found).unwrap(), *expected, "{}", path);
            }
            prop_assert!(select(&text, "[\"none of these\"]").is_err());
            prop_assert!(select(&text, "[1000]").is_err());
        }

        #[test]
        fn text_that_is_no_json_is_refused_and_never_panics(source in "[\\[\\]{}\",:\\\\a1 ]{0,60}", path in "[\\[\\].a0\"]{0,8}") {
            let text = JsonText::of_json(source.clone().into(), &IndexRoom::new(1000));
            let _ = select(&text, &path);
            let text = JsonText::new(source.clone().into(), &IndexRoom::new(1000));
            if serde_json::from_str::<Value>(&source).is_err() {
                prop_assert!(select(&text, &path).is_err());
            }
        }
    }
}
