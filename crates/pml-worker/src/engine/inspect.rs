//! Values as a person reads them on a console.
//!
//! Nothing of the program runs for it: getters are shown as such and proxies stay closed, so
//! logging an object cannot change it.

use std::fmt::Write as _;

use rquickjs::{Array, Atom, Function, Object, Value, object::Filter};

use super::raw;
use crate::transpile::Source;

/// Objects inside objects are shown down to here.
const MAX_DEPTH: usize = 5;
/// Members of one object that are shown.
const MAX_MEMBERS: usize = 100;
/// Longest text of one value.
const MAX_BYTES: usize = 64 * 1024;
/// A short object stands on one line.
const LINE_CHARS: usize = 76;

/// Functions of the prelude that look into objects with intrinsics of the untouched realm.
#[derive(Clone, Debug)]
pub(crate) struct Helpers<'js> {
    /// The keys and values of a Map, or the values of a Set, in one flat array.
    pub(crate) entries: Function<'js>,
    /// The text of a date or regular expression.
    pub(crate) describe: Function<'js>,
    /// The text of a value of `Temporal`, undefined for others.
    pub(crate) temporal: Function<'js>,
    /// The engine's class number of the exceptions of the web's interfaces.
    pub(crate) dom_exception: rquickjs::qjs::JSClassID,
    /// Where an error was made, as the engine noted it.
    pub(crate) stack_of: Function<'js>,
}

/// Formats the arguments of a console call, `%s` and friends included.
pub(crate) fn format_args<'js>(args: &[Value<'js>], helpers: &Helpers<'js>, source: Option<&Source>) -> String {
    let mut printer = Printer { helpers, source, open: Vec::new(), budget: MAX_BYTES };
    let mut text = String::new();
    let mut rest = args;
    if let [first, others @ ..] = args
        && !others.is_empty()
        && let Some(format) = first.as_string().and_then(|_| raw::text(first))
        && format.0.contains('%')
    {
        rest = printer.substitute(&mut text, &format.0, others);
        if !rest.is_empty() {
            text.push(' ');
        }
    }
    for (index, value) in rest.iter().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        match value.is_string() {
            true => text.push_str(&printer.primitive(value)),
            false => text.push_str(&printer.value(value, 0)),
        }
    }
    text
}

struct Printer<'a, 'js> {
    helpers: &'a Helpers<'js>,
    source: Option<&'a Source>,
    open: Vec<Object<'js>>,
    /// Bytes that may still be shown.
    budget: usize,
}

impl<'js> Printer<'_, 'js> {
    /// Fills in the `%` marks of `format` and returns the values that are left.
    fn substitute<'v>(&mut self, text: &mut String, format: &str, mut values: &'v [Value<'js>]) -> &'v [Value<'js>] {
        let mut characters = format.chars().peekable();
        while let Some(character) = characters.next() {
            let mark = characters.peek().copied();
            match (character, mark) {
                ('%', Some('%')) => text.push('%'),
                ('%', Some('s' | 'd' | 'i' | 'f' | 'j' | 'o' | 'O' | 'c')) if !values.is_empty() => {
                    let (value, others) = (&values[0], &values[1..]);
                    values = others;
                    match mark {
                        Some('c') => {}
                        Some('s' | 'd' | 'i' | 'f') if value.is_string() => text.push_str(&self.primitive(value)),
                        _ => text.push_str(&self.value(value, 0)),
                    }
                }
                _ => {
                    text.push(character);
                    continue;
                }
            }
            characters.next();
        }
        values
    }

    fn primitive(&mut self, value: &Value<'js>) -> String {
        let (text, _) = raw::text(value).unwrap_or_default();
        if text.len() > self.budget {
            let cut = text.floor_char_boundary(self.budget);
            let dropped = text.len() - cut;
            self.budget = 0;
            return format!("{}… ({dropped} more bytes)", &text[..cut]);
        }
        self.budget -= text.len();
        text
    }

    fn value(&mut self, value: &Value<'js>, depth: usize) -> String {
        if self.budget == 0 {
            return "…".to_owned();
        }
        if value.is_string() {
            let text = self.primitive(value);
            return serde_json::to_string(&text).unwrap_or(text);
        }
        if value.is_big_int() {
            return self.primitive(value) + "n";
        }
        if value.is_symbol() {
            return self.describe(value);
        }
        match value.as_object() {
            Some(object) => self.object(object, depth),
            None if value.is_undefined() => "undefined".to_owned(),
            None if value.is_null() => "null".to_owned(),
            None => self.primitive(value),
        }
    }

    /// The text of a date, regular expression or symbol.
    fn describe(&mut self, value: &Value<'js>) -> String {
        let text = self.helpers.describe.call::<_, Value<'js>>((value.clone(),));
        text.map_or_else(|_| "[Object]".to_owned(), |text| self.primitive(&text))
    }

    fn temporal(&mut self, object: &Object<'js>) -> Option<String> {
        let text = self.helpers.temporal.call::<_, Value<'js>>((object.clone(),)).ok()?;
        text.is_string().then(|| self.primitive(&text))
    }

    fn object(&mut self, object: &Object<'js>, depth: usize) -> String {
        if object.is_proxy() {
            return "[Proxy]".to_owned();
        }
        if object.is_function() {
            let name = self.own_text(object, "name").unwrap_or_default();
            return if name.is_empty() { "[Function]".to_owned() } else { format!("[Function {name}]") };
        }
        if object.is_error() || raw::class_id(object) == self.helpers.dom_exception {
            return self.error(object, depth);
        }
        if raw::is_date(object) || raw::is_regex(object) {
            return self.describe(object);
        }
        if object.is_promise() {
            return "Promise {}".to_owned();
        }
        if let Some(text) = self.temporal(object) {
            return text;
        }
        if self.open.iter().any(|outer| raw::is_same(outer, object)) {
            return "[Circular]".to_owned();
        }
        if depth >= MAX_DEPTH {
            return if object.is_array() { "[Array]" } else { "[Object]" }.to_owned();
        }
        self.open.push(object.clone());
        let text = self.members(object, depth);
        self.open.pop();
        text
    }

    fn members(&mut self, object: &Object<'js>, depth: usize) -> String {
        let mut items = Vec::new();
        let collection = raw::is_map(object).then_some("Map").or(raw::is_set(object).then_some("Set"));
        if let Some(name) = collection {
            let flat: Vec<Value<'js>> = self
                .helpers
                .entries
                .call::<_, Array<'js>>((object.clone(),))
                .map(|flat| flat.iter().filter_map(Result::ok).collect())
                .unwrap_or_default();
            let width = if name == "Map" { 2 } else { 1 };
            for entry in flat.chunks(width).take(MAX_MEMBERS) {
                let shown: Vec<_> = entry.iter().map(|value| self.value(value, depth + 1)).collect();
                items.push(shown.join(" => "));
            }
            let size = flat.len() / width;
            return layout(&format!("{name}({size}) "), '{', items, size, '}', depth);
        }
        let is_array = object.is_array();
        let mut total = 0;
        for key in object.own_keys::<Atom<'js>>(Filter::new().string().enum_only()) {
            let Some(name) = key.ok().and_then(|key| key.to_value().ok()) else { continue };
            total += 1;
            if total > MAX_MEMBERS {
                continue;
            }
            let shown = match raw::own_data(object, &name) {
                Some(value) => self.value(&value, depth + 1),
                None => "[Getter]".to_owned(),
            };
            let name = self.primitive(&name);
            let is_index = is_array && name.bytes().all(|byte| byte.is_ascii_digit());
            items.push(if is_index { shown } else { format!("{}: {shown}", plain_or_quoted(&name)) });
        }
        match is_array {
            true => layout("", '[', items, total, ']', depth),
            false => layout(&self.prefix(object), '{', items, total, '}', depth),
        }
    }

    /// The name of a class that is not plain `Object`, read without running anything.
    fn prefix(&mut self, object: &Object<'js>) -> String {
        let Some(prototype) = object.get_prototype() else {
            return String::new();
        };
        if prototype.is_proxy() {
            return String::new();
        }
        let constructor = string_value(&prototype, "constructor");
        let constructor = constructor.and_then(|name| raw::own_data(&prototype, &name));
        let name = constructor.and_then(|constructor| self.own_text(constructor.as_object()?, "name"));
        match name {
            Some(name) if !name.is_empty() && name != "Object" => format!("{name} "),
            _ => String::new(),
        }
    }

    fn error(&mut self, error: &Object<'js>, depth: usize) -> String {
        let name = self.inherited_text(error, "name").unwrap_or_else(|| "Error".to_owned());
        let message = self.inherited_text(error, "message").unwrap_or_default();
        let mut text = if message.is_empty() { name } else { format!("{name}: {message}") };
        let stack = self.helpers.stack_of.call::<_, Value<'js>>((error.clone(),)).ok();
        let stack = stack.filter(Value::is_string).and_then(|stack| raw::text(&stack)).unwrap_or_default().0;
        let (stack, _) = self.source.map(|source| source.remap_stack(&stack)).unwrap_or_default();
        for line in stack.as_deref().unwrap_or_default().lines() {
            let _ = write!(
                text,
                "
{}    {line}",
                "  ".repeat(depth)
            );
        }
        text
    }

    fn own_text(&mut self, object: &Object<'js>, name: &str) -> Option<String> {
        if object.is_proxy() {
            return None;
        }
        let value = raw::own_data(object, &string_value(object, name)?)?;
        value.is_string().then(|| self.primitive(&value))
    }

    fn inherited_text(&mut self, object: &Object<'js>, name: &str) -> Option<String> {
        let mut holder = object.clone();
        for _ in 0..20 {
            if let Some(text) = self.own_text(&holder, name) {
                return Some(text);
            }
            if holder.is_proxy() {
                return None;
            }
            holder = holder.get_prototype()?;
        }
        None
    }
}

fn string_value<'js>(object: &Object<'js>, text: &str) -> Option<Value<'js>> {
    Some(rquickjs::String::from_str(object.ctx().clone(), text).ok()?.into_value())
}

fn plain_or_quoted(name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
    match plain {
        true => name.to_owned(),
        false => format!("{name:?}"),
    }
}

/// One line if it is short, else one item a line.
fn layout(prefix: &str, open: char, mut items: Vec<String>, total: usize, close: char, depth: usize) -> String {
    if total > items.len() {
        items.push(format!("… {} more", total - items.len()));
    }
    if items.is_empty() {
        return format!("{prefix}{open}{close}");
    }
    let width: usize = items.iter().map(|item| item.len() + 2).sum();
    let (gap, end) = if open == '{' { (" ", " ") } else { ("", "") };
    if width + prefix.len() <= LINE_CHARS && !items.iter().any(|item| item.contains('\n')) {
        return format!("{prefix}{open}{gap}{}{end}{close}", items.join(", "));
    }
    let indent = "  ".repeat(depth + 1);
    let outer = "  ".repeat(depth);
    format!("{prefix}{open}\n{indent}{}\n{outer}{close}", items.join(&format!(",\n{indent}")))
}
