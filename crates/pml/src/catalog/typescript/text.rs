//! Writes types as TypeScript, in one line or in many.
//!
//! **Invariant:** what is written is little more than the limit: from there on types are `any`, and
//! objects leave out the properties that are left.

use std::{collections::HashSet, rc::Rc};

use serde_json::Value;

use super::{
    comment::{Comment, limits, remark},
    names::{is_identifier, key, quoted},
    types::{Object, Property, Tuple, Type},
};

/// Bytes of the names of properties that are left out of a line.
const MAX_LEFT_OUT_BYTES: usize = 200;
/// Every object has these already. An optional property with another type would make all literals
/// that leave it out unfit, so it is `any`.
const INHERITED: [&str; 7] =
    ["constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf"];

/// How much a line shows of what must be given and of what may be.
#[derive(Clone, Copy)]
pub(super) struct Detail {
    pub(super) required: Shown,
    pub(super) optional: Shown,
    /// Are short descriptions of properties shown?
    pub(super) is_described: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Shown {
    /// Levels of objects in objects.
    pub(super) levels: usize,
    /// Members of a union.
    pub(super) members: usize,
    /// A longer string literal is `string`.
    pub(super) literal_bytes: usize,
}

impl Shown {
    pub(super) const ALL: Shown = Shown { levels: usize::MAX, members: usize::MAX, literal_bytes: usize::MAX };
}

impl Detail {
    #[cfg(test)]
    pub(super) const ALL: Detail = Detail { required: Shown::ALL, optional: Shown::ALL, is_described: false };
}

#[derive(Clone, Copy)]
enum Layout {
    /// No line breaks, and no comments but on limits.
    Line { detail: Detail },
    /// A line per property, with its comment, from this indent on.
    Block { indent: usize },
}

pub(super) struct Written {
    pub(super) text: String,
    /// Did all of it fit?
    pub(super) is_whole: bool,
}

/// A type in one line.
pub(super) fn line(of: &Type<'_>, detail: Detail, limit: usize) -> Written {
    write(of, Layout::Line { detail }, limit)
}

/// A type with comments, for a line that is indented so far.
pub(super) fn block(of: &Type<'_>, indent: usize, limit: usize) -> Written {
    write(of, Layout::Block { indent }, limit)
}

fn write(of: &Type<'_>, layout: Layout, limit: usize) -> Written {
    let mut writer = Writer { out: String::new(), layout, limit, is_optional: false, is_whole: true };
    writer.write(of, 0);
    Written { text: writer.out, is_whole: writer.is_whole }
}

struct Writer {
    out: String,
    layout: Layout,
    limit: usize,
    /// May what is written be left out of a value?
    is_optional: bool,
    is_whole: bool,
}

impl Writer {
    fn shown(&self) -> Shown {
        match self.layout {
            Layout::Line { detail } if self.is_optional => detail.optional,
            Layout::Line { detail } => detail.required,
            Layout::Block { .. } => Shown::ALL,
        }
    }

    fn is_full(&mut self) -> bool {
        let is_full = self.out.len() >= self.limit;
        self.is_whole &= !is_full;
        is_full
    }

    fn write(&mut self, of: &Type<'_>, level: usize) {
        match of {
            Type::Never => self.out.push_str("never"),
            Type::Null => self.out.push_str("null"),
            Type::Boolean => self.out.push_str("boolean"),
            Type::Number => self.out.push_str("number"),
            Type::String => self.out.push_str("string"),
            Type::Any => self.out.push_str("any"),
            _ if self.is_full() => self.out.push_str("any"),
            Type::Literal(value) => self.literal(value),
            Type::Array(item) => {
                self.item(item, level);
                self.out.push_str("[]");
            }
            Type::Tuple(tuple) => self.tuple(tuple, level),
            Type::Object(object) => self.object(object, level),
            Type::Union(members) => drop(self.union(members, level)),
        }
    }

    fn literal(&mut self, value: &Value) {
        match value {
            Value::String(text) if text.len() > self.shown().literal_bytes => self.out.push_str("string"),
            Value::String(text) => self.out.push_str(&quoted(text)),
            _ => self.out.push_str(&value.to_string()),
        }
    }

    /// A type in front of `[]` or `?`.
    fn item(&mut self, of: &Type<'_>, level: usize) {
        let start = self.out.len();
        match of {
            Type::Union(members) if !self.is_full() => {
                if self.union(members, level) > 1 {
                    self.out.insert(start, '(');
                    self.out.push(')');
                }
            }
            _ => self.write(of, level),
        }
    }

    fn tuple(&mut self, tuple: &Tuple<'_>, level: usize) {
        self.out.push('[');
        for (index, item) in tuple.items.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.item(item, level);
            if index >= tuple.required {
                self.out.push('?');
            }
        }
        if let Some(rest) = &tuple.rest {
            self.out.push_str(", ...");
            self.item(rest, level);
            self.out.push_str("[]");
        }
        self.out.push(']');
    }

    /// Members that read the same are written once. Returns how many are written.
    fn union(&mut self, members: &[Rc<Type<'_>>], level: usize) -> usize {
        let most = self.shown().members;
        let is_line = matches!(self.layout, Layout::Line { .. });
        let mut seen = HashSet::new();
        let mut left_out = 0;
        for member in members {
            let end = self.out.len();
            if !seen.is_empty() {
                self.out.push_str(" | ");
                if is_line && self.is_full() {
                    self.out.truncate(end);
                    left_out += 1;
                    continue;
                }
            }
            let start = self.out.len();
            self.write(member, level);
            let text = &self.out[start..];
            if seen.len() < most && !seen.contains(text) {
                seen.insert(text.to_owned());
                continue;
            }
            left_out += usize::from(!seen.contains(text));
            self.out.truncate(end);
        }
        if left_out > 0 {
            self.out.push_str(&format!(" /* {left_out} more */"));
        }
        seen.len()
    }

    /// Required properties come first.
    fn object(&mut self, object: &Object<'_>, level: usize) {
        if level >= self.shown().levels {
            return self.out.push_str("object");
        }
        let further = object.further();
        if object.properties.is_empty() {
            return self.map(further.as_deref(), level);
        }
        self.out.push('{');
        let (required, optional): (Vec<_>, Vec<_>) = object.properties.iter().partition(|property| property.required);
        let mut left_out = Vec::new();
        for property in required.into_iter().chain(optional) {
            if self.is_full() {
                left_out.push(property.name);
                continue;
            }
            self.start_member(level + 1, property.described);
            self.property(property, level);
        }
        let is_line = matches!(self.layout, Layout::Line { .. });
        if !left_out.is_empty() && is_line {
            self.out.push_str(&more(&left_out));
        } else if !left_out.is_empty() || further.is_some() {
            // The type of an index must fit all properties, so it is `any` beside them.
            self.start_member(level + 1, None);
            self.out.push_str("[key: string]: any;");
        }
        if is_line && self.out.ends_with(';') {
            self.out.pop();
        }
        self.start_member(level, None);
        self.out.push('}');
    }

    fn property(&mut self, property: &Property<'_>, level: usize) {
        self.out.push_str(&key(property.name));
        self.out.push_str(if property.required { ": " } else { "?: " });
        let is_optional = self.is_optional;
        self.is_optional |= !property.required;
        if !property.required && INHERITED.contains(&property.name) {
            self.out.push_str("any");
        } else {
            self.write(&property.of, level + 1);
        }
        if let (Layout::Line { detail }, Some(schema)) = (self.layout, property.described)
            && !self.is_full()
        {
            let described = if detail.is_described { remark(property.name, schema) } else { None };
            let notes: Vec<_> = described.into_iter().chain(limits(schema)).collect();
            if !notes.is_empty() {
                self.out.extend([" /* ", &notes.join(", "), " */"]);
            }
        }
        self.is_optional = is_optional;
        self.out.push(';');
    }

    /// An object without known properties. The compiler takes anything for `{}`, hence `never`.
    fn map(&mut self, of: Option<&Type<'_>>, level: usize) {
        match (of, self.layout) {
            (None, Layout::Line { .. }) => return self.out.push_str("{}"),
            (Some(Type::Any), Layout::Line { .. }) => return self.out.push_str("object"),
            (None, Layout::Block { .. }) => self.out.push_str("{ [key: string]: never"),
            (Some(of), _) => {
                self.out.push_str("{ [key: string]: ");
                self.write(of, level + 1);
            }
        }
        self.out.push_str(" }");
    }

    fn start_member(&mut self, level: usize, described: Option<&Value>) {
        match self.layout {
            Layout::Line { .. } => self.out.push(' '),
            Layout::Block { indent } => {
                let indent = indent + 2 * level;
                self.out.push('\n');
                if let Some(schema) = described {
                    Comment::of_schema(schema).write(&mut self.out, indent);
                }
                self.out.push_str(&" ".repeat(indent));
            }
        }
    }
}

/// What is left out of an object, by name as far as names can stand in a comment.
fn more(left_out: &[&str]) -> String {
    let mut names = String::new();
    for name in left_out.iter().filter(|name| is_identifier(name)) {
        if names.len() + name.len() > MAX_LEFT_OUT_BYTES {
            names.push_str(", …");
            break;
        }
        names.push_str(if names.is_empty() { ": " } else { ", " });
        names.push_str(name);
    }
    format!(" /* {} more{names} */", left_out.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::{schema_form::Side, typescript::schema};

    fn read(schema: &Value) -> Rc<Type<'_>> {
        schema::read(schema, schema, Side::Arguments)
    }

    #[test]
    fn a_line_is_shortened() {
        let letters: Vec<_> = ('a'..='k').map(String::from).collect();
        let nested = json!({"properties": {"a": {"properties": {"b": {"properties": {"c": {"type": "string"}}}}}}});
        let long = "x".repeat(61);
        let list = json!({"items": {"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}});
        let needed = json!({"properties": {"a": {"enum": letters}, "b": {"enum": letters}}, "required": ["b"]});
        let four = r#""a" | "b" | "c" | "d" /* 7 more */"#;
        let all = r#""a" | "b" | "c" | "d" | "e" | "f" | "g" | "h" | "i" | "j" | "k""#;
        #[rustfmt::skip]
        let table = [
            // schema                           levels  limit   line
            (json!({"enum": letters}),          1,      1000,   all),
            (json!({"enum": letters}),          1,      13,     r#""a" | "b" | "c" /* 8 more */"#),
            (needed,                            1,      1000,   &*format!("{{ b: {all}; a?: {four} }}")),
            (json!({"enum": [long, long, 1]}),  1,      1000,   "string | 1"),
            (nested.clone(),                    3,      1000,   "{ a?: { b?: { c?: string } } }"),
            (nested.clone(),                    2,      1000,   "{ a?: { b?: object } }"),
            (nested,                            0,      1000,   "object"),
            (list.clone(),                      1,      1000,   "({ a?: any } | { b?: any })[]"),
            (list,                              0,      1000,   "object[]"),
            (json!({"type": "object"}),         1,      1000,   "object"),
            (json!({"properties": {"a": {}, "b": {}, "*/": {}}}), 1, 8, "{ a?: any; /* 2 more: b */ }"),
        ];
        for (schema, levels, limit, expected) in table {
            let detail = Detail {
                required: Shown { levels, members: usize::MAX, literal_bytes: 60 },
                optional: Shown { levels, members: 4, literal_bytes: 60 },
                is_described: false,
            };
            assert_eq!(line(&read(&schema), detail, limit).text, expected, "{schema}");
        }
    }

    #[test]
    fn a_block_has_comments_and_required_properties_first() {
        let schema = json!({
            "properties": {
                "b": {"type": "string", "description": "Not needed."},
                "a-b": {"type": "object", "properties": {"c": {"description": "One.\nTwo."}}},
                "none": {"type": "object", "additionalProperties": false},
                "open": {"type": "object", "properties": {}},
                "toString": {"type": "string"},
            },
            "required": ["a-b"],
        });
        let expected = r#"{
    "a-b": {
      /**
       * One.
       * Two.
       */
      c?: any;
    };
    /** Not needed. */
    b?: string;
    none?: { [key: string]: never };
    open?: { [key: string]: any };
    toString?: any;
  }"#;
        assert_eq!(block(&read(&schema), 2, 1000).text, expected);
        let cut = "{\n  \"a-b\": any;\n  [key: string]: any;\n}";
        assert_eq!(block(&read(&schema), 0, 2).text, cut);
    }
}
