//! What a value looked like when it came, in as much detail as a message can use.

use std::fmt::Write as _;

/// Keys that a message names.
const SHOWN_KEYS: usize = 8;

/// Members of one level that are looked at for one that is meant.
const MAX_INSIDE: usize = 100;
/// Methods of lists that objects do not have.
const LIST_METHODS: [&str; 15] = [
    "map", "filter", "forEach", "find", "reduce", "some", "every", "slice", "join", "sort", "at", "flatMap", "push",
    "concat", "includes",
];
/// Names that programs read of objects, and arrays do not have.
const OTHERS: [&str; 16] = [
    "items", "rows", "data", "results", "result", "list", "records", "nodes", "edges", "total", "count", "content",
    "value", "name", "id", "plays",
];
/// Names of lists in an object that has little else.
const LISTS: [&str; 10] =
    ["items", "rows", "data", "results", "list", "records", "values", "nodes", "edges", "entries"];

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
    /// What it begins with, if it is a text.
    pub(crate) beginning: Option<String>,
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
            Shape::Array(..) if OTHERS.contains(&name) => Some(Shape::Undefined),
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

    /// The steps to the members that are arrays: `.items`.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = String> {
        let members = match self {
            Shape::Object(members) => &members[..],
            _ => &[],
        };
        members.iter().filter(|(_, shape)| matches!(shape, Shape::Array(..))).map(|(key, _)| step(key))
    }

    /// The way to what is meant by a property that an object does not have: `.data.issues`, if there is one of that name further inside,
    /// or the only list in it, if a list seems to be meant. In lists it is looked for last, in their first elements.
    pub(crate) fn way_to(&self, property: &str) -> Option<String> {
        let is_list = property == "length" || LIST_METHODS.contains(&property);
        let is_named = |key: &str, _: &Shape| plain(key) == plain(property);
        let named = || self.inside(is_named, false).or_else(|| self.inside(is_named, true));
        if !is_list && let Some((way, found)) = named() {
            // `issues: { nodes: […], pageInfo: {…} }`
            let list = found.list().filter(|_| is_plural(property) && found.keys().any(|key| LISTS.contains(&key)));
            return Some(way + &list.unwrap_or_default());
        }
        if is_list {
            return self.list().map(|way| format!("{way}.{property}"));
        }
        if is_plural(property) || LISTS.contains(&property) { self.list() } else { None }
    }

    /// The way to the only list that is as near as it.
    pub(crate) fn list(&self) -> Option<String> {
        self.inside(|_, shape| matches!(shape, Shape::Array(..)), false).map(|(way, _)| way)
    }

    /// The nearest of the members, and those of members, that is meant, and the way to it. None if two are equally near.
    fn inside(&self, is_meant: impl Fn(&str, &Shape) -> bool, goes_into_lists: bool) -> Option<(String, &Shape)> {
        let mut level: Vec<(String, &Shape)> = vec![(String::new(), self)];
        while !level.is_empty() {
            let members = level.iter().flat_map(|(way, shape)| {
                let (way, members) = match shape {
                    Shape::Object(members) => (way.clone(), &members[..]),
                    Shape::Array(_, Some(element)) if goes_into_lists => match &**element {
                        Shape::Object(members) => (format!("{way}[0]"), &members[..]),
                        _ => (way.clone(), &[][..]),
                    },
                    _ => (way.clone(), &[][..]),
                };
                members.iter().map(move |(key, shape)| (format!("{way}{}", step(key)), key, shape))
            });
            let members: Vec<_> = members.take(MAX_INSIDE).collect();
            let mut found = members.iter().filter(|(_, key, shape)| is_meant(key, shape));
            match (found.next(), found.next()) {
                (Some((way, _, shape)), None) => return Some((way.clone(), shape)),
                (Some(_), Some(_)) => return None,
                (None, _) => {}
            }
            level = members.into_iter().map(|(way, _, shape)| (way, shape)).collect();
        }
        None
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

/// A name however it is spelt: `has_more` and `hasMore`.
pub(crate) fn plain(name: &str) -> String {
    name.replace(['_', '-'], "").to_ascii_lowercase()
}

/// Does a name stand for several of a kind: `issues`, not `status`?
fn is_plural(name: &str) -> bool {
    name.len() > 3 && name.ends_with('s') && !name.ends_with("ss") && !name.ends_with("us")
}

/// A step from an object to a member.
fn step(key: &str) -> String {
    let is_name = key.starts_with(|it: char| it.is_alphabetic() || matches!(it, '_' | '$'))
        && key.chars().all(|it| it.is_alphanumeric() || matches!(it, '_' | '$'));
    if is_name { format!(".{key}") } else { format!("[{key:?}]") }
}

#[cfg(test)]
mod tests {
    use super::{Shape, Text};

    fn object(members: &[(&str, Shape)]) -> Shape {
        Shape::Object(members.iter().map(|(key, shape)| ((*key).to_owned(), shape.clone())).collect())
    }

    #[test]
    fn what_is_meant_is_found_further_inside() {
        let text = Shape::Text(Text::Plain);
        let list = Shape::Array(Some(2), Some(Box::new(object(&[("id", text.clone())]))));
        let page = object(&[("nodes", list.clone()), ("pageInfo", object(&[("endCursor", text.clone())]))]);
        let relay = object(&[("data", object(&[("issues", page)]))]);
        let wrapped =
            object(&[("result", object(&[("full name", text.clone()), ("id", text.clone())])), ("ok", text.clone())]);
        let two = object(&[
            ("a", object(&[("id", text.clone()), ("l", list.clone())])),
            ("b", object(&[("id", text), ("l", list.clone())])),
        ]);
        let nested =
            object(&[("data", object(&[("items", list.clone())])), ("meta", object(&[("total", Shape::Number)]))]);
        #[rustfmt::skip]
        let table = [
            (&relay, "issues", Some(".data.issues.nodes")), (&relay, "nodes", Some(".data.issues.nodes")), (&relay, "items", Some(".data.issues.nodes")),
            (&relay, "end_cursor", Some(".data.issues.pageInfo.endCursor")), (&relay, "filter", Some(".data.issues.nodes.filter")),
            (&wrapped, "fullName", None), (&wrapped, "full name", Some(".result[\"full name\"]")), (&wrapped, "users", None), (&wrapped, "id", Some(".result.id")),
            (&two, "id", None), (&two, "length", None), (&nested, "orders", Some(".data.items")), (&nested, "total", Some(".meta.total")),
            (&nested, "status", None), (&nested, "id", Some(".data.items[0].id")), (&relay, "title", None),
        ];
        for (shape, property, expected) in table {
            assert_eq!(shape.way_to(property).as_deref(), expected, "{property} of {shape:?}");
        }
    }
}
