//! Writes types as TypeScript, in one line or in many.
//!
//! **Invariant:** what is written is little more than the limit: from there on types are `any`, and
//! objects leave out the properties that are left.

use std::{collections::HashSet, rc::Rc};

use serde_json::Value;

use super::{
    comment::Comment,
    names::{key, quoted},
    types::{Object, Property, Tuple, Type},
};

/// In one line, a longer string literal is `string`.
const MAX_LINE_LITERAL_BYTES: usize = 60;
/// In one line, a union shows so many members.
const MAX_LINE_MEMBERS: usize = 8;
/// Every object has these already. An optional property with another type would make all literals
/// that leave it out unfit, so it is `any`.
const INHERITED: [&str; 7] =
    ["constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf"];

#[derive(Clone, Copy)]
enum Layout {
    /// No line breaks and no comments. Objects in objects are shown so many levels deep.
    Line { levels: usize },
    /// A line per property, with its comment, from this indent on.
    Block { indent: usize },
}

pub(super) struct Written {
    pub(super) text: String,
    /// Did all of it fit?
    pub(super) is_whole: bool,
}

/// A type in one line that shows `levels` of objects in objects.
pub(super) fn line(of: &Type<'_>, levels: usize, limit: usize) -> Written {
    write(of, Layout::Line { levels }, limit)
}

/// A type with comments, for a line that is indented so far.
pub(super) fn block(of: &Type<'_>, indent: usize, limit: usize) -> Written {
    write(of, Layout::Block { indent }, limit)
}

fn write(of: &Type<'_>, layout: Layout, limit: usize) -> Written {
    let mut writer = Writer { out: String::new(), layout, limit, is_whole: true };
    writer.write(of, 0);
    Written { text: writer.out, is_whole: writer.is_whole }
}

struct Writer {
    out: String,
    layout: Layout,
    limit: usize,
    is_whole: bool,
}

impl Writer {
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
        match (value, self.layout) {
            (Value::String(text), Layout::Line { .. }) if text.len() > MAX_LINE_LITERAL_BYTES => {
                self.out.push_str("string")
            }
            (Value::String(text), _) => self.out.push_str(&quoted(text)),
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
        let most = match self.layout {
            Layout::Line { .. } => MAX_LINE_MEMBERS,
            Layout::Block { .. } => usize::MAX,
        };
        let mut seen = HashSet::new();
        let mut left_out = 0;
        for member in members {
            let end = self.out.len();
            if !seen.is_empty() {
                self.out.push_str(" | ");
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
        if matches!(self.layout, Layout::Line { levels } if level >= levels) {
            return self.out.push_str("object");
        }
        if object.properties.is_empty() {
            return self.map(object.rest.as_deref(), level);
        }
        self.out.push('{');
        let (required, optional): (Vec<_>, Vec<_>) = object.properties.iter().partition(|property| property.required);
        let mut left_out = 0;
        for property in required.into_iter().chain(optional) {
            if self.is_full() {
                left_out += 1;
                continue;
            }
            self.start_member(level + 1, property.described);
            self.property(property, level);
        }
        let is_line = matches!(self.layout, Layout::Line { .. });
        if left_out > 0 && is_line {
            self.out.push_str(&format!(" /* {left_out} more */"));
        } else if left_out > 0 || object.rest.is_some() {
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
        if !property.required && INHERITED.contains(&property.name) {
            self.out.push_str("any");
        } else {
            self.write(&property.of, level + 1);
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::typescript::schema::read;

    #[test]
    fn a_line_is_shortened() {
        let letters: Vec<_> = ('a'..='k').map(String::from).collect();
        let nested = json!({"properties": {"a": {"properties": {"b": {"properties": {"c": {"type": "string"}}}}}}});
        let long = "x".repeat(61);
        let list = json!({"items": {"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}});
        #[rustfmt::skip]
        let table = [
            // schema                           levels  limit   line
            (json!({"enum": letters}),          1,      1000,   r#""a" | "b" | "c" | "d" | "e" | "f" | "g" | "h" /* 3 more */"#),
            (json!({"enum": [long, long, 1]}),  1,      1000,   "string | 1"),
            (nested.clone(),                    3,      1000,   "{ a?: { b?: { c?: string } } }"),
            (nested.clone(),                    2,      1000,   "{ a?: { b?: object } }"),
            (nested,                            0,      1000,   "object"),
            (list.clone(),                      1,      1000,   "({ a?: any } | { b?: any })[]"),
            (list,                              0,      1000,   "object[]"),
            (json!({"type": "object"}),         1,      1000,   "object"),
            (json!({"properties": {"a": {}, "b": {}, "c": {}}}), 1, 8, "{ a?: any; /* 2 more */ }"),
        ];
        for (schema, levels, limit, expected) in table {
            assert_eq!(line(&read(&schema), levels, limit).text, expected, "{schema}");
        }
    }

    #[test]
    fn a_block_has_comments_and_required_properties_first() {
        let schema = json!({
            "properties": {
                "b": {"type": "string", "description": "Not needed."},
                "a-b": {"type": "object", "properties": {"c": {"description": "One.\nTwo."}}},
                "none": {"type": "object", "properties": {}},
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
    toString?: any;
  }"#;
        assert_eq!(block(&read(&schema), 2, 1000).text, expected);
        let cut = "{\n  \"a-b\": any;\n  [key: string]: any;\n}";
        assert_eq!(block(&read(&schema), 0, 2).text, cut);
    }
}
