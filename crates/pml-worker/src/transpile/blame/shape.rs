//! What a value looked like when it came, in as much detail as a message can use.

use std::fmt::Write as _;

/// Keys that a message names.
const SHOWN_KEYS: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Text(Text),
    Number,
    Boolean,
    Null,
    Undefined,
    Function,
    /// Its length, if that is known, and its first element, if it has any.
    Array(Option<usize>, Option<Box<Shape>>),
    Object(Vec<(String, Shape)>),
    /// An object of a class of the language: `Set`, `Map`, `Date`.
    Instance(&'static str),
    /// A promise of a value.
    Promise(Box<Shape>),
    /// Something else, with its own methods.
    Other,
    /// What a promise will give, which has not come yet.
    Unknown,
}

/// What is in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    Plain,
    /// Nothing but JSON.
    Json,
    /// JSON that begins with this bracket, after other text.
    Prefixed(char),
    /// A list or dictionary as Python shows it: `[{'id': 1, 'name': None}]`.
    Python,
}

/// What a tool gave.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// `server:tool`.
    pub(crate) tool: String,
    /// The engine's line and column of the call, if it was noted.
    pub(crate) place: Option<(u32, u32)>,
    /// Nothing if the call was made several times and gave different things.
    pub(crate) shape: Option<Shape>,
}

impl Shape {
    /// What both are, if they are alike.
    pub(crate) fn common(self, other: Shape) -> Option<Shape> {
        match (self, other) {
            (Shape::Array(left, a), Shape::Array(right, b)) => {
                let element = match (a, b) {
                    (Some(a), Some(b)) => Some(a.common(*b)?),
                    (a, b) => a.or(b).map(|it| *it),
                };
                Some(Shape::Array(left.filter(|_| left == right), element.map(Box::new)))
            }
            (Shape::Object(left), Shape::Object(right)) => {
                let is_alike = left.len() == right.len() && left.iter().zip(&right).all(|(a, b)| a.0 == b.0);
                let members = left.into_iter().zip(right).map(|(a, b)| (a.0, a.1.common(b.1).unwrap_or(Shape::Other)));
                is_alike.then(|| Shape::Object(members.collect()))
            }
            (left, right) => (left == right).then_some(left),
        }
    }

    pub(super) fn property(&self, name: &str) -> Option<Shape> {
        match self {
            Shape::Object(members) => {
                let found = members.iter().find(|(key, _)| key == name).map(|(_, shape)| shape.clone());
                Some(found.unwrap_or(Shape::Undefined))
            }
            Shape::Array(..) if name == "length" => Some(Shape::Number),
            Shape::Text(_) if name == "length" => Some(Shape::Number),
            _ => None,
        }
    }

    pub(super) fn element(&self) -> Option<Shape> {
        match self {
            Shape::Array(_, Some(element)) => Some((**element).clone()),
            Shape::Text(_) => Some(Shape::Text(Text::Plain)),
            _ => None,
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        let members = match self {
            Shape::Object(members) => &members[..],
            _ => &[],
        };
        members.iter().map(|(key, _)| key.as_str())
    }

    /// The members that are arrays.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &str> {
        let members = match self {
            Shape::Object(members) => &members[..],
            _ => &[],
        };
        members.iter().filter(|(_, shape)| matches!(shape, Shape::Array(..))).map(|(key, _)| key.as_str())
    }

    /// `a string`, `an object with …`.
    pub(crate) fn describe(&self) -> String {
        match self {
            Shape::Text(_) => "a string".to_owned(),
            Shape::Number => "a number".to_owned(),
            Shape::Boolean => "a boolean".to_owned(),
            Shape::Null => "null".to_owned(),
            Shape::Undefined => "undefined".to_owned(),
            Shape::Function => "a function".to_owned(),
            Shape::Array(Some(0), _) => "an empty array".to_owned(),
            Shape::Array(Some(length), _) => format!("an array of {length}"),
            Shape::Array(None, _) => "an array".to_owned(),
            Shape::Object(members) if members.is_empty() => "an empty object".to_owned(),
            Shape::Object(members) => {
                let mut text = "an object with ".to_owned();
                for (index, (key, _)) in members.iter().take(SHOWN_KEYS).enumerate() {
                    let _ = write!(text, "{}`{key}`", if index > 0 { ", " } else { "" });
                }
                if members.len() > SHOWN_KEYS {
                    let _ = write!(text, " and {} more", members.len() - SHOWN_KEYS);
                }
                text
            }
            Shape::Instance(class) => format!("a {class}"),
            Shape::Promise(_) => "a promise".to_owned(),
            Shape::Other => "an object".to_owned(),
            Shape::Unknown => "a value".to_owned(),
        }
    }
}
