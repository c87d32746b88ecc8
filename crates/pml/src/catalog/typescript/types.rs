//! Types between a schema and its text.

use std::rc::Rc;

use serde_json::Value;

/// A union with more members is `any`.
const MAX_MEMBERS: usize = 1000;

/// A type, of parts that may be shared.
#[derive(Debug, PartialEq)]
pub(super) enum Type<'a> {
    Any,
    Never,
    Null,
    Boolean,
    Number,
    String,
    /// A string, number or boolean.
    Literal(&'a Value),
    Array(Rc<Type<'a>>),
    Tuple(Tuple<'a>),
    Object(Object<'a>),
    /// At least two members, none of which is a union, `any` or `never`.
    Union(Vec<Rc<Type<'a>>>),
}

#[derive(Debug, PartialEq)]
pub(super) struct Tuple<'a> {
    pub(super) items: Vec<Rc<Type<'a>>>,
    /// How many of the items must be there.
    pub(super) required: usize,
    /// The type of further items; `None` if there may be none.
    pub(super) rest: Option<Rc<Type<'a>>>,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Object<'a> {
    pub(super) properties: Vec<Property<'a>>,
    pub(super) rest: Rest<'a>,
}

/// What a schema says of properties that it does not name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Rest<'a> {
    /// Nothing. Beside declared properties, others are mostly misspelt; an object without any is open.
    #[default]
    Silent,
    /// There may be none.
    Closed,
    /// Those whose names match a pattern are of this type. Nothing is said of others.
    Matching(Rc<Type<'a>>),
    /// Each is of this type.
    Open(Rc<Type<'a>>),
}

impl<'a> Object<'a> {
    /// The type of further properties; `None` if there may be none.
    pub(super) fn further(&self) -> Option<Rc<Type<'a>>> {
        let is_declared = || self.properties.iter().any(|property| property.described.is_some());
        match &self.rest {
            Rest::Silent if is_declared() => None,
            Rest::Silent => Some(Rc::new(Type::Any)),
            Rest::Closed => None,
            Rest::Matching(of) | Rest::Open(of) => Some(of.clone()),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Property<'a> {
    pub(super) name: &'a str,
    pub(super) of: Rc<Type<'a>>,
    pub(super) required: bool,
    /// The schema that describes the property; `None` if it is only said to be required.
    pub(super) described: Option<&'a Value>,
}

/// The union of types: flat, without `never`.
pub(super) fn union<'a>(types: impl IntoIterator<Item = Rc<Type<'a>>>) -> Rc<Type<'a>> {
    let mut members = Vec::new();
    for of in types {
        match &*of {
            Type::Any => return of,
            Type::Never => {}
            Type::Union(inner) => members.extend(inner.iter().cloned()),
            _ => members.push(of),
        }
    }
    match members.len() {
        0 => Rc::new(Type::Never),
        1 => members.swap_remove(0),
        2..=MAX_MEMBERS => Rc::new(Type::Union(members)),
        _ => Rc::new(Type::Any),
    }
}

/// The types that a type is the union of: itself, if it is none.
pub(super) fn members<'t, 'a>(of: &'t Rc<Type<'a>>) -> &'t [Rc<Type<'a>>] {
    match &**of {
        Type::Union(members) => members,
        _ => std::slice::from_ref(of),
    }
}

/// The type that a value has, whatever is in it.
pub(super) fn kind<'a>(value: &Value) -> Type<'a> {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Boolean,
        Value::Number(_) => Type::Number,
        Value::String(_) => Type::String,
        Value::Array(_) => Type::Array(Rc::new(Type::Any)),
        Value::Object(_) => Type::Object(Object::default()),
    }
}
