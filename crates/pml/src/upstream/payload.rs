//! The result of a request, as JSON text in parts.
//!
//! **Invariant:** a result is scanned once. Its parts stay JSON text, without line breaks; a large text goes to the
//! program as the server wrote it.

use std::fmt;

use serde::{
    Deserialize, Serialize, Serializer,
    de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::room::Held;

/// The result of a request: its fields, or its whole text, not taken apart yet.
#[derive(Debug, Default)]
pub(super) struct Payload {
    fields: Vec<(String, Field)>,
    whole: Option<Box<RawValue>>,
    /// What the result is instead of an object. `null` counts as an object without fields.
    pub(super) not_an_object: Option<&'static str>,
    /// The message had bytes that are no UTF-8, and `U+FFFD` stands in their place.
    pub(super) is_repaired: bool,
    /// The room that the result takes, if it is large.
    pub(super) held: Held,
}

/// How results are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Taken apart at once, in the same scan.
    Parts,
    /// As text: somebody wants one as the server wrote it.
    Whole,
}

#[derive(Debug)]
enum Field {
    Raw(Box<RawValue>),
    /// The items of `content` or `tools`.
    Items(Vec<Item>),
    /// The fields of `structuredContent`.
    Object(Fields),
}

/// A value that is taken apart if it is an object: a content block, a tool, a result.
#[derive(Debug)]
pub enum Item {
    Object(Fields),
    Other(Box<RawValue>),
}

/// The fields of an object, as JSON texts, in order.
#[derive(Debug, Default)]
pub struct Fields(pub(super) Vec<(String, Box<RawValue>)>);

impl Payload {
    #[cfg(test)]
    pub(super) fn field_count(&self) -> usize {
        self.fields.len()
    }

    pub(super) fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// The result as the server wrote it, if it was kept so.
    pub(super) fn into_whole(self) -> Option<Box<RawValue>> {
        self.whole
    }

    /// The result taken apart, if it was not yet.
    pub(super) fn into_parts(self) -> Payload {
        match self.whole {
            // It is JSON, and any JSON is a payload.
            Some(whole) => Payload {
                held: self.held,
                is_repaired: self.is_repaired,
                ..serde_json::from_str(whole.get()).unwrap_or_default()
            },
            None => self,
        }
    }

    /// About how large it is.
    pub(super) fn bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(key, field)| {
            key.len()
                + match field {
                    Field::Raw(value) => value.get().len(),
                    Field::Items(items) => items.iter().map(Item::bytes).sum(),
                    Field::Object(fields) => fields.bytes(),
                }
        });
        fields.sum::<usize>() + self.whole.as_ref().map_or(0, |whole| whole.get().len())
    }

    pub(super) fn raw(&self, name: &str) -> Option<&RawValue> {
        self.fields.iter().find(|(key, _)| key == name).and_then(|(_, field)| match field {
            Field::Raw(value) => Some(&**value),
            Field::Items(_) | Field::Object(_) => None,
        })
    }

    /// The field as a `T`, if it is there and is one.
    pub(super) fn get<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    pub(super) fn take_raw(&mut self, name: &str) -> Option<Box<RawValue>> {
        match self.take(name)? {
            Field::Raw(value) => Some(value),
            Field::Items(_) | Field::Object(_) => None,
        }
    }

    /// The items of `content` or `tools`, if it is a list.
    pub(super) fn take_items(&mut self, name: &str) -> Option<Vec<Item>> {
        let index = self.fields.iter().position(|(key, field)| key == name && matches!(field, Field::Items(_)))?;
        match self.fields.swap_remove(index).1 {
            Field::Items(items) => Some(items),
            Field::Raw(_) | Field::Object(_) => None,
        }
    }

    /// `structuredContent`, if it is there.
    pub(super) fn take_structured(&mut self) -> Option<Item> {
        match self.take("structuredContent")? {
            Field::Object(fields) => Some(Item::Object(fields)),
            Field::Raw(value) if value.get() != "null" => Some(Item::Other(value)),
            Field::Raw(_) | Field::Items(_) => None,
        }
    }

    /// A field that is a result itself, with the room that all of it takes.
    pub(super) fn into_result(mut self, name: &str) -> Option<Payload> {
        let result = self.take_raw(name)?;
        // It is JSON, and any JSON is a payload.
        Some(Payload { held: self.held, ..serde_json::from_str(result.get()).unwrap_or_default() })
    }

    fn take(&mut self, name: &str) -> Option<Field> {
        let index = self.fields.iter().position(|(key, _)| key == name)?;
        Some(self.fields.swap_remove(index).1)
    }
}

impl Fields {
    /// The value of one field, which is taken out.
    pub fn take(&mut self, name: &str) -> Option<Box<RawValue>> {
        let index = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(index).1)
    }

    /// Adds a field, which is not there yet.
    pub fn push(&mut self, name: &str, value: Box<RawValue>) {
        self.0.push((name.to_owned(), value));
    }

    /// Adds the fields of another object, none of which is there yet.
    pub fn extend(&mut self, others: Fields) {
        self.0.extend(others.0);
    }

    pub fn raw(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// The field as a `T`, if it is there and is one.
    pub fn get<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    /// About how large the object is.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(key, value)| key.len() + value.get().len()).sum()
    }

    /// The object, whole: written out, not read again.
    pub fn to_raw(&self) -> Box<RawValue> {
        serde_json::value::to_raw_value(self).expect("texts and JSON texts serialize")
    }
}

impl Item {
    /// The value, whole.
    pub(super) fn into_raw(self) -> Box<RawValue> {
        match self {
            Item::Object(fields) => fields.to_raw(),
            Item::Other(raw) => raw,
        }
    }

    /// About how large it is.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Item::Object(fields) => fields.bytes(),
            Item::Other(value) => value.get().len(),
        }
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// A result that is not taken apart.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct WholeText(pub(super) Box<RawValue>);

impl From<WholeText> for Payload {
    fn from(WholeText(whole): WholeText) -> Payload {
        let kind = match whole.get().as_bytes().first() {
            Some(b'{') | None => None,
            Some(b'n') => None,
            Some(b'[') => Some("a list"),
            Some(b'"') => Some("a text"),
            Some(b't' | b'f') => Some("a truth value"),
            Some(_) => Some("a number"),
        };
        Payload { whole: Some(whole), not_an_object: kind, ..Payload::default() }
    }
}

/// Implements a visitor that takes an object apart and lets everything else be something simpler.
macro_rules! other_values {
    ($value:ident => $other:expr, null => $null:expr) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any JSON value")
        }

        fn visit_bool<E: de::Error>(self, $value: bool) -> Result<Self::Value, E> {
            $other
        }

        fn visit_i64<E: de::Error>(self, $value: i64) -> Result<Self::Value, E> {
            $other
        }

        fn visit_u64<E: de::Error>(self, $value: u64) -> Result<Self::Value, E> {
            $other
        }

        fn visit_f64<E: de::Error>(self, $value: f64) -> Result<Self::Value, E> {
            $other
        }

        fn visit_str<E: de::Error>(self, $value: &str) -> Result<Self::Value, E> {
            $other
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            $null
        }
    };
}

fn to_raw<E: de::Error>(value: impl serde::Serialize) -> Result<Box<RawValue>, E> {
    serde_json::value::to_raw_value(&value).map_err(E::custom)
}

/// A result that is no object.
fn other(kind: &'static str) -> Payload {
    Payload { not_an_object: Some(kind), ..Payload::default() }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ForPayload;
        impl<'de> Visitor<'de> for ForPayload {
            type Value = Payload;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }

            // `"result": null`: an answer without fields.
            fn visit_unit<E: de::Error>(self) -> Result<Payload, E> {
                Ok(Payload::default())
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<Payload, E> {
                Ok(other("a truth value"))
            }

            fn visit_i64<E: de::Error>(self, _: i64) -> Result<Payload, E> {
                Ok(other("a number"))
            }

            fn visit_u64<E: de::Error>(self, _: u64) -> Result<Payload, E> {
                Ok(other("a number"))
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Payload, E> {
                Ok(other("a number"))
            }

            fn visit_str<E: de::Error>(self, _: &str) -> Result<Payload, E> {
                Ok(other("a text"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Payload, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(other("a list"))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Payload, A::Error> {
                let mut fields = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    let field = match key.as_str() {
                        "content" | "tools" => map.next_value()?,
                        "structuredContent" => match map.next_value()? {
                            Item::Object(fields) => Field::Object(fields),
                            Item::Other(value) => Field::Raw(value),
                        },
                        _ => Field::Raw(map.next_value::<&RawValue>()?.to_owned()),
                    };
                    fields.push((key, field));
                }
                Ok(Payload { fields, ..Payload::default() })
            }
        }
        deserializer.deserialize_any(ForPayload)
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ForField;
        impl<'de> Visitor<'de> for ForField {
            type Value = Field;

            other_values!(value => to_raw(value).map(Field::Raw), null => Ok(Field::Raw(RawValue::NULL.to_owned())));

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Field, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Field::Items(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Field, A::Error> {
                read_fields(map).map(|fields| Field::Raw(fields.to_raw()))
            }
        }
        deserializer.deserialize_any(ForField)
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ForItem;
        impl<'de> Visitor<'de> for ForItem {
            type Value = Item;

            other_values!(value => to_raw(value).map(Item::Other), null => Ok(Item::Other(RawValue::NULL.to_owned())));

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Item, A::Error> {
                let mut items: Vec<&RawValue> = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                to_raw(items).map(Item::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Item, A::Error> {
                read_fields(map).map(Item::Object)
            }
        }
        deserializer.deserialize_any(ForItem)
    }
}

fn read_fields<'de, A: MapAccess<'de>>(mut map: A) -> Result<Fields, A::Error> {
    let mut fields = Vec::new();
    while let Some(key) = map.next_key::<String>()? {
        fields.push((key, map.next_value::<&RawValue>()?.to_owned()));
    }
    Ok(Fields(fields))
}
