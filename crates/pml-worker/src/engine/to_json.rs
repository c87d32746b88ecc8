//! JavaScript values to JSON text, natively.
//!
//! The output is what `JSON.stringify` would give, with these differences: a bigint becomes a
//! decimal string, a lone surrogate becomes U+FFFD, a `toJSON` planted on `Object.prototype` or
//! `Array.prototype` is ignored, and whatever gets lost on the way is named in a warning.
//!
//! **Invariant:** each property is read once, and what was read is what is written: a getter or a
//! proxy cannot show one value to a check and another to the host.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    rc::Rc,
};

use pml_wire::walk;
use rquickjs::{
    Atom, Ctx, Function, Object, Value,
    atom::PredefinedAtom,
    function::This,
    object::Filter,
    qjs::{JSAtom, JSClassID},
};

use super::{
    exact::{Exact, Integer, Notes},
    raw::{self, Item, OwnNames},
};

/// Steps of a path that can be shown, at most.
const SHOWN_STEPS: usize = 200;
/// Most warnings about one value; the rest is counted.
const MAX_WARNINGS: usize = 10;
/// Most of them whose place is compared with the others.
const MAX_WARNED: usize = 1000;

/// How the description of an image, audio or a resource begins.
const HANDLE_BEGINNINGS: [&[u8]; 3] =
    [b"{\"type\":\"image\",\"size\":", b"{\"type\":\"audio\",\"size\":", b"{\"type\":\"resource\",\"size\":"];
/// Names of members that are remembered as they are written, and how long each may be.
const MAX_KNOWN_NAMES: usize = 1024;
const MAX_KNOWN_BYTES: usize = 64;

/// What the walk needs to know of the realm as it was before any program ran.
#[derive(Clone, Debug)]
pub(crate) struct Intrinsics<'js> {
    pub(crate) object_prototype: Object<'js>,
    pub(crate) array_prototype: Object<'js>,
    pub(crate) is_array: Function<'js>,
    pub(crate) to_number: Function<'js>,
    pub(crate) unbox: Function<'js>,
    /// The prototypes of values that were read from JSON text.
    pub(crate) text_prototypes: Rc<RefCell<Vec<Object<'js>>>>,
    /// Set while something is written.
    pub(crate) is_writing: Rc<Cell<bool>>,
    /// The prototype of handles, and what stands for one in JSON.
    pub(crate) handle_prototype: Object<'js>,
    pub(crate) handle_marker: Function<'js>,
    /// What an object without properties is, and what to use instead.
    pub(crate) formless: Function<'js>,
    /// The text that such a value was read from, if it is unchanged.
    pub(crate) original_text: Function<'js>,
    /// How numbers of results are written.
    pub(super) exact: Exact,
    /// What is noted about the numbers of an array or object.
    pub(super) numbers_of: Function<'js>,
    /// The engine's class numbers of arrays, of ordinary objects, of the exceptions of the web's interfaces, and of boxed
    /// primitives.
    pub(crate) array: JSClassID,
    pub(crate) ordinary: JSClassID,
    pub(crate) dom_exception: JSClassID,
    pub(crate) boxed: [JSClassID; 4],
}

/// What becomes of values that were read from JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Texts {
    /// Each is written as a value: one that is unchanged as the text it was read from.
    AsValues,
    /// Each but the outermost is written as a text, and it is noted where.
    Noted,
    /// Each is written as `JSON.stringify` does it, but for integers that JavaScript rounds.
    Plain,
}

/// JSON text, and what was lost in making it.
#[derive(Debug, Default)]
pub(crate) struct Json {
    pub(crate) text: Vec<u8>,
    /// Where the texts of values begin that were read from JSON text.
    pub(crate) texts: Vec<u32>,
    pub(crate) warnings: Vec<String>,
    /// What stood where JSON has something else: the path, and what it was.
    pub(crate) lost: Vec<(String, String)>,
}

/// Why a value has no JSON text.
#[derive(Debug)]
pub(crate) enum Failure<'js> {
    /// The value at the path contains itself.
    Cycle { path: String },
    /// Reading the path threw.
    Threw { path: String, exception: Value<'js> },
    /// The value at the path is nested too deeply.
    TooDeep { path: String },
    /// The text would be longer than this.
    TooLarge { limit: usize },
}

/// Writes `value`. `undefined` and functions at the top become `null`. `explain` gets each error before it is written.
pub(crate) fn to_json<'js>(
    value: &Value<'js>,
    intrinsics: &Intrinsics<'js>,
    limit: usize,
    texts: Texts,
    explain: &dyn Fn(&Value<'js>),
) -> Result<Json, Failure<'js>> {
    let mut writer = Writer {
        ctx: value.ctx().clone(),
        intrinsics,
        explain,
        limit,
        mode: texts,
        out: Vec::new(),
        texts: Vec::new(),
        path: Vec::new(),
        names: HashMap::default(),
        open: Vec::new(),
        warnings: Vec::new(),
        warned: 0,
        more_warnings: 0,
        lost: Vec::new(),
    };
    intrinsics.is_writing.set(true);
    let written = writer.value(value.clone());
    intrinsics.is_writing.set(false);
    if !written? {
        writer.out.extend_from_slice(b"null");
    }
    if writer.out.len() > limit {
        return Err(Failure::TooLarge { limit });
    }
    let mut warnings: Vec<String> = writer.warnings.into_iter().map(Warning::into_text).collect();
    if writer.more_warnings > 0 {
        warnings.push(format!("and {} more values were changed or dropped", writer.more_warnings));
    }
    Ok(Json { text: writer.out, texts: writer.texts, warnings, lost: writer.lost })
}

enum Step<'js> {
    Key(Atom<'js>),
    /// One of an object's own names.
    Own(Rc<OwnNames<'js>>, usize),
    Index(usize),
}

/// A name as it is written.
struct KnownName<'js> {
    text: Box<[u8]>,
    /// Holds on to the engine's number for it.
    _name: Value<'js>,
}

/// Spreads the numbers of atoms, which are small and nobody's to choose.
#[derive(Default)]
struct AtomHasher(u64);

impl Hasher for AtomHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What is said of a place, and of others like it.
struct Warning {
    path: String,
    /// The path without indexes.
    place: String,
    what: String,
    more: usize,
}

impl Warning {
    fn into_text(self) -> String {
        let Warning { path, what, more, .. } = self;
        if more == 0 { format!("{path}: {what}") } else { format!("{path} and {more} more like it: {what}") }
    }
}

struct Writer<'a, 'js> {
    ctx: Ctx<'js>,
    intrinsics: &'a Intrinsics<'js>,
    explain: &'a dyn Fn(&Value<'js>),
    limit: usize,
    mode: Texts,
    out: Vec<u8>,
    texts: Vec<u32>,
    path: Vec<Step<'js>>,
    /// Names of members as they are written, each with its colon.
    names: HashMap<JSAtom, KnownName<'js>, BuildHasherDefault<AtomHasher>>,
    /// The objects around the current value, outermost first.
    open: Vec<Object<'js>>,
    warnings: Vec<Warning>,
    /// Warnings whose paths were looked at.
    warned: usize,
    more_warnings: usize,
    lost: Vec<(String, String)>,
}

impl<'js> Writer<'_, 'js> {
    /// Writes one value. `false` means that it has no JSON form and nothing was written.
    fn value(&mut self, value: Value<'js>) -> Result<bool, Failure<'js>> {
        if self.out.len() > self.limit {
            return Err(Failure::TooLarge { limit: self.limit });
        }
        if value.is_string() {
            self.string(&value)?;
            return Ok(true);
        }
        if value.is_object() {
            let object = value.into_object().expect("it is one");
            return match self.mode != Texts::Plain && self.is_text(&object) {
                true => self.json_text(object),
                false => self.object(object),
            };
        }
        if let Some(number) = value.as_int() {
            return self.item(Item::Int(number));
        }
        if let Some(number) = value.as_float() {
            return self.item(Item::Float(number));
        }
        if let Some(flag) = value.as_bool() {
            return self.item(Item::Bool(flag));
        }
        if value.is_null() {
            return self.item(Item::Null);
        }
        if value.is_big_int() {
            self.lose("a bigint: use Number(it)");
            self.string(&value)?;
            return Ok(true);
        }
        if value.is_symbol() {
            self.warn("a symbol was dropped");
            self.lose("a symbol: pass a text");
        }
        Ok(false) // a symbol or undefined
    }

    /// Writes what was read from an array or object. As [`Writer::value`].
    fn item(&mut self, item: Item<'js>) -> Result<bool, Failure<'js>> {
        match item {
            // Cannot fail: the sink is a Vec.
            Item::Int(number) => drop(serde_json::to_writer(&mut self.out, &number)),
            Item::Float(number) => self.float(number),
            Item::Bool(flag) => self.out.extend_from_slice(if flag { b"true" } else { b"false" }),
            Item::Null => self.out.extend_from_slice(b"null"),
            Item::Undefined => return Ok(false),
            Item::Other(value) => return self.value(value),
        }
        match self.out.len() > self.limit {
            true => Err(Failure::TooLarge { limit: self.limit }),
            false => Ok(true),
        }
    }

    fn float(&mut self, number: f64) {
        if !number.is_finite() {
            let name = if number.is_nan() {
                "NaN"
            } else if number > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            };
            self.warn(&format!("{name} became null"));
            self.lose(name);
            self.out.extend_from_slice(b"null");
            return;
        }
        match self.intrinsics.exact.integer(number) {
            Integer::As(text) => self.out.extend_from_slice(text.as_bytes()),
            Integer::Plain => write_float(&mut self.out, number),
            Integer::Unsure => {
                self.warn(&format!(
                    "{number} may be rounded: results had several integers that JavaScript takes for this one; pass on the \
                     object that has it, unchanged"
                ));
                write_float(&mut self.out, number);
            }
        }
    }

    /// Writes a number as it came, if it is noted and still the same. Else nothing is written.
    fn noted(&mut self, notes: &Notes, key: impl FnOnce() -> String, item: &Item<'js>) -> bool {
        if notes.is_empty() {
            return false;
        }
        let Some(number) = item.number() else { return false };
        let Some(text) = notes.get(&key(), number) else { return false };
        if self.mode == Texts::Plain && text.contains(['.', 'e', 'E']) {
            return false;
        }
        self.out.extend_from_slice(text.as_bytes());
        true
    }

    /// What is noted about the numbers of an array or object.
    fn notes(&self, object: &Object<'js>) -> Notes {
        match self.intrinsics.exact.has_notes() {
            true => Notes::of(object, &self.intrinsics.numbers_of),
            false => Notes::default(),
        }
    }

    fn string(&mut self, value: &Value<'js>) -> Result<(), Failure<'js>> {
        let (limit, out) = (self.limit, &mut self.out);
        let written = raw::with_text(value, |text, replaced| {
            let fits = text.len() <= limit;
            if fits {
                quote(out, text);
            }
            (fits, replaced, slip_in(text))
        });
        let (fits, replaced, slip) = written.ok_or_else(|| self.threw())?;
        if replaced {
            self.warn("a lone surrogate became U+FFFD");
        }
        if let Some(slip) = slip {
            self.warn(slip);
        }
        if fits { Ok(()) } else { Err(Failure::TooLarge { limit }) }
    }

    fn object(&mut self, mut object: Object<'js>) -> Result<bool, Failure<'js>> {
        if !object.is_proxy() && raw::has_prototype(&object, std::slice::from_ref(&self.intrinsics.handle_prototype)) {
            object = self.intrinsics.handle_marker.call((object,)).map_err(|_| self.threw())?;
        } else if let Some(replacement) = self.call_to_json(&object)? {
            match replacement.try_into_object() {
                Ok(other) => object = other,
                Err(primitive) => return self.value(primitive),
            }
        }
        // Most are; what is neither is looked at more closely.
        let class = raw::class_id(&object);
        let (is_plain_array, is_ordinary) = (class == self.intrinsics.array, class == self.intrinsics.ordinary);
        let is_plain = is_plain_array || is_ordinary;
        if !is_plain && object.is_function() {
            match self.path.is_empty() {
                true => self.warn("a function has no JSON form: call it, and pass on what it gives"),
                false => {
                    self.warn("a function was dropped");
                    self.lose("a function: call it, and pass what it gives");
                }
            }
            return Ok(false);
        }
        if !is_plain && let Some(primitive) = self.unbox(&object)? {
            return self.value(primitive);
        }
        if self.open.iter().any(|outer| raw::is_same_object(outer, &object)) {
            return Err(Failure::Cycle { path: self.path() });
        }
        if self.open.len() >= pml_wire::json::MAX_DEPTH {
            return Err(Failure::TooDeep { path: self.path() });
        }
        let is_array = is_plain_array
            || object.is_proxy() && self.intrinsics.is_array.call((object.clone(),)).map_err(|_| self.threw())?;

        self.open.push(object.clone());
        if is_array {
            self.array(&object)?;
        } else if !is_plain && self.is_error(&object) {
            self.error(&object)?;
        } else {
            let start = self.out.len();
            self.members(&object)?;
            if self.out.len() == start + 2 {
                self.warn_if_empty(&object, is_plain);
            }
            let is_copy = HANDLE_BEGINNINGS.iter().any(|beginning| self.out[start..].starts_with(beginning));
            let object_prototype = std::slice::from_ref(&self.intrinsics.object_prototype);
            if is_copy && is_ordinary && raw::has_prototype(&object, object_prototype) {
                self.warn("a copy of a handle has its description, not its content: use the handle itself");
            }
        }
        self.open.pop();
        Ok(true)
    }

    /// Was the value read from JSON text?
    fn is_text(&self, object: &Object<'js>) -> bool {
        !object.is_proxy() && raw::has_prototype(object, &self.intrinsics.text_prototypes.borrow())
    }

    /// Writes a value that was read from JSON text.
    fn json_text(&mut self, object: Object<'js>) -> Result<bool, Failure<'js>> {
        let original: Value<'js> = self.intrinsics.original_text.call((object.clone(),)).map_err(|_| self.threw())?;
        let start = self.out.len();
        let is_noted = self.mode == Texts::Noted && !self.path.is_empty();
        match original.is_string() {
            true => {
                let (text, _) = raw::text(&original).ok_or_else(|| self.threw())?;
                if self.open.len() + pml_wire::json::depth(&text) > pml_wire::json::MAX_DEPTH {
                    return Err(Failure::TooDeep { path: self.path() });
                }
                if text.len() > self.limit {
                    return Err(Failure::TooLarge { limit: self.limit });
                }
                match is_noted {
                    true => quote(&mut self.out, &text),
                    false => self.out.extend_from_slice(text.as_bytes()),
                }
            }
            false => {
                let mode = self.mode;
                if is_noted {
                    self.mode = Texts::Plain;
                }
                let is_written = self.object(object)?;
                self.mode = mode;
                if !is_written || !is_noted {
                    return Ok(is_written);
                }
                let text = String::from_utf8_lossy(&self.out.split_off(start)).into_owned();
                quote(&mut self.out, &text);
            }
        }
        if is_noted {
            self.texts.push(u32::try_from(start).unwrap_or(u32::MAX));
        }
        Ok(true)
    }

    fn array(&mut self, array: &Object<'js>) -> Result<(), Failure<'js>> {
        let length: Value<'js> = array.get(PredefinedAtom::Length).map_err(|_| self.threw())?;
        let length: f64 = match length.as_number() {
            Some(length) => length,
            None => self.intrinsics.to_number.call((length,)).map_err(|_| self.threw())?,
        };
        let notes = self.notes(array);
        self.out.push(b'[');
        for index in 0..length.max(0.0) as usize {
            if index > 0 {
                self.out.push(b',');
            }
            self.path.push(Step::Index(index));
            let item = match u32::try_from(index) {
                Ok(index) => raw::element(array, index),
                Err(_) => array.get(index as f64).ok().map(Item::Other),
            };
            let item = item.ok_or_else(|| self.threw())?;
            if !self.noted(&notes, || index.to_string(), &item) && !self.item(item)? {
                self.out.extend_from_slice(b"null");
            }
            self.path.pop();
        }
        self.out.push(b']');
        Ok(())
    }

    fn members(&mut self, object: &Object<'js>) -> Result<(), Failure<'js>> {
        let notes = self.notes(object);
        let names = Rc::new(OwnNames::of(object).ok_or_else(|| self.threw())?);
        self.out.push(b'{');
        let mut first = true;
        for index in 0..names.len() {
            self.path.push(Step::Own(Rc::clone(&names), index));
            let member = names.value_in(object, index).ok_or_else(|| self.threw())?;
            let start = self.out.len();
            if !first {
                self.out.push(b',');
            }
            self.own_name(&names, index)?;
            if self.noted(&notes, || own_text(&names, index).unwrap_or_default(), &member) || self.item(member)? {
                first = false;
            } else {
                self.out.truncate(start);
            }
            self.path.pop();
        }
        self.out.push(b'}');
        Ok(())
    }

    /// Writes one of an object's own names and a colon.
    fn own_name(&mut self, names: &OwnNames<'js>, index: usize) -> Result<(), Failure<'js>> {
        let number = names.number(index);
        if let Some(known) = self.names.get(&number) {
            self.out.extend_from_slice(&known.text);
            return Ok(());
        }
        let start = self.out.len();
        let name = names.name(index).ok_or_else(|| self.threw())?;
        self.string(&name)?;
        self.out.push(b':');
        let written = &self.out[start..];
        if written.len() <= MAX_KNOWN_BYTES && self.names.len() < MAX_KNOWN_NAMES {
            self.names.insert(number, KnownName { text: written.into(), _name: name });
        }
        Ok(())
    }

    /// Writes one member, unless its value has no JSON form.
    fn member(
        &mut self,
        object: &Object<'js>,
        key: Atom<'js>,
        notes: &Notes,
        first: &mut bool,
    ) -> Result<(), Failure<'js>> {
        self.path.push(Step::Key(key.clone()));
        let member: Value<'js> = object.get(key.clone()).map_err(|_| self.threw())?;
        let member = match member.as_number() {
            Some(number) => Item::Float(number),
            None => Item::Other(member),
        };
        let start = self.out.len();
        if !*first {
            self.out.push(b',');
        }
        let name = key.to_value().map_err(|_| self.threw())?;
        self.string(&name)?;
        self.out.push(b':');
        let key = || raw::text(&name).map(|(key, _)| key).unwrap_or_default();
        if self.noted(notes, key, &member) || self.item(member)? {
            *first = false;
        } else {
            self.out.truncate(start);
        }
        self.path.pop();
        Ok(())
    }

    fn is_error(&self, object: &Object<'js>) -> bool {
        object.is_error() || raw::class_id(object) == self.intrinsics.dom_exception
    }

    /// An error is its name, its message, what it was given besides, and what led to it.
    fn error(&mut self, error: &Object<'js>) -> Result<(), Failure<'js>> {
        (self.explain)(error);
        let notes = self.notes(error);
        self.out.push(b'{');
        let mut first = true;
        for name in ["name", "message"] {
            let name = rquickjs::String::from_str(self.ctx.clone(), name).map_err(|_| self.threw())?;
            self.member(
                error,
                Atom::from_value(self.ctx.clone(), name.as_value()).map_err(|_| self.threw())?,
                &notes,
                &mut first,
            )?;
        }
        let all: Vec<_> = error.own_keys::<Atom<'js>>(Filter::new().string()).collect();
        let shown: Vec<_> = error.own_keys::<Atom<'js>>(Filter::new().string().enum_only()).flatten().collect();
        for key in all {
            let key = key.map_err(|_| self.threw())?;
            let name = key.to_string().map_err(|_| self.threw())?;
            let is_told = shown.contains(&key) || matches!(name.as_str(), "cause" | "errors");
            if is_told && !matches!(name.as_str(), "name" | "message" | "stack") {
                self.member(error, key, &notes, &mut first)?;
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    /// What the object's own `toJSON` makes of it, if it has one.
    fn call_to_json(&mut self, object: &Object<'js>) -> Result<Option<Value<'js>>, Failure<'js>> {
        let Item::Other(method) = raw::to_json_of(object).ok_or_else(|| self.threw())? else { return Ok(None) };
        let Some(method) = method.into_function() else { return Ok(None) };
        let Intrinsics { object_prototype, array_prototype, .. } = self.intrinsics;
        for prototype in [object_prototype, array_prototype] {
            let planted: Value<'js> = prototype.get(PredefinedAtom::ToJSON).map_err(|_| self.threw())?;
            if raw::is_same(&planted, &method) {
                self.warn("a toJSON on a built-in prototype was ignored");
                return Ok(None);
            }
        }
        let key = match self.path.last() {
            Some(Step::Key(key)) => key.to_string().unwrap_or_default(),
            Some(Step::Own(names, index)) => own_text(names, *index).unwrap_or_default(),
            Some(Step::Index(index)) => index.to_string(),
            None => String::new(),
        };
        method.call((This(object.clone()), key)).map(Some).map_err(|_| self.threw())
    }

    /// The primitive in a `new Number(1)` and the like.
    fn unbox(&mut self, object: &Object<'js>) -> Result<Option<Value<'js>>, Failure<'js>> {
        if !self.intrinsics.boxed.contains(&raw::class_id(object)) {
            return Ok(None);
        }
        self.intrinsics.unbox.call((object.clone(),)).map(Some).map_err(|_| self.threw())
    }

    /// Some objects have all their content where JSON does not look.
    fn warn_if_empty(&mut self, object: &Object<'js>, is_plain: bool) {
        let (what, instead) = if raw::is_map(object) {
            ("a Map".to_owned(), "use Object.fromEntries(map)".to_owned())
        } else if raw::is_set(object) {
            ("a Set".to_owned(), "use [...set]".to_owned())
        } else if object.is_promise() {
            ("a Promise".to_owned(), "await it".to_owned())
        } else {
            let object_prototype = std::slice::from_ref(&self.intrinsics.object_prototype);
            if is_plain && (object.is_proxy() || raw::has_prototype(object, object_prototype)) {
                return;
            }
            match self
                .intrinsics
                .formless
                .call::<_, Option<Vec<String>>>((object.clone(),))
                .map(|found| found.map(<[String; 2]>::try_from))
            {
                Ok(Some(Ok([what, instead]))) => (what, instead),
                Ok(_) => return,
                Err(_) => {
                    self.ctx.catch();
                    return;
                }
            }
        };
        self.warn(&format!("{what} has no JSON form: {instead}"));
        self.lose(&format!("{what}: {instead}"));
    }

    /// Notes that something else than what stood here is written.
    fn lose(&mut self, what: &str) {
        if self.lost.len() < MAX_WARNINGS {
            let path = self.path();
            self.lost.push((path, what.to_owned()));
        }
    }

    fn warn(&mut self, what: &str) {
        // Paths cost time, and a list may have a million places like it.
        if self.warned == MAX_WARNED {
            self.more_warnings += 1;
            return;
        }
        self.warned += 1;
        let path = self.path();
        // Of `$[0].cost` and `$[1].cost`, one is enough.
        let place = without_indexes(&path);
        let known = self.warnings.iter_mut().find(|known| known.place == place && known.what == what);
        if let Some(known) = known {
            known.more += 1;
        } else if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Warning { path, place, what: what.to_owned(), more: 0 });
        } else {
            self.more_warnings += 1;
        }
    }

    fn threw(&self) -> Failure<'js> {
        Failure::Threw { path: self.path(), exception: raw::take_exception(&self.ctx) }
    }

    /// The current place, `$.a[0]["odd name"]`.
    fn path(&self) -> String {
        let steps = self.path.iter().take(SHOWN_STEPS).map(|step| match step {
            Step::Index(index) => walk::Step::Index(*index),
            Step::Own(names, index) => walk::Step::Key(own_text(names, *index).unwrap_or_else(|| "?".to_owned())),
            Step::Key(key) => {
                let name = key.to_value().ok().and_then(|name| raw::text(&name));
                walk::Step::Key(name.map_or_else(|| "?".to_owned(), |(name, _)| name))
            }
        });
        path(&steps.collect::<Vec<_>>())
    }
}

/// The text of one of an object's own names.
fn own_text(names: &OwnNames<'_>, index: usize) -> Option<String> {
    raw::text(&names.name(index)?).map(|(text, _)| text)
}

fn quote(out: &mut Vec<u8>, text: &str) {
    // Cannot fail: strings serialize, and the sink is a Vec.
    let _ = serde_json::to_writer(out, text);
}

/// A number as JavaScript writes it, but all digits of an integer.
/// What a text shows of a value that was made a text and has none.
fn slip_in(text: &str) -> Option<&'static str> {
    /// Longer texts may well speak of such a number.
    const SHORT: usize = 24;
    // A text that is nothing else may be what `Object.prototype.toString` was asked for.
    if let Some(start) =
        text.find("[object ").filter(|_| !text.starts_with("[object ") || !text.ends_with(']') || text.contains(','))
    {
        let slips = [
            ("[object Object]", "the text has [object Object]: use JSON.stringify(value), or one of its properties"),
            ("[object Promise]", "the text has [object Promise]: await it first"),
            ("[object Map]", "the text has [object Map]: use JSON.stringify([...map])"),
            ("[object Set]", "the text has [object Set]: use [...set].join(\", \")"),
        ];
        return slips.iter().find(|(shown, _)| text[start..].contains(shown)).map(|(_, slip)| *slip);
    }
    if text == "Invalid Date" {
        return Some("the text is that of an invalid date");
    }
    let around = text.split_once("NaN").filter(|_| text.len() <= SHORT);
    let has_nan = around.is_some_and(|(before, after)| {
        !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
    });
    has_nan.then_some("the text has NaN: something that is not a number was computed with")
}

pub(super) fn write_float(out: &mut Vec<u8>, number: f64) {
    if number.fract() == 0.0 && number.abs() < 1e21 {
        // An integer without a point, which schemas and readers tell from a float.
        out.extend_from_slice(format!("{}", number + 0.0).as_bytes());
    } else {
        // Cannot fail: the sink is a Vec.
        let _ = serde_json::to_writer(out, &number);
    }
}

/// A path in words, `$.a[0]["odd name"]`, cut where it gets long.
pub(super) fn path(steps: &[walk::Step]) -> String {
    let mut path = "$".to_owned();
    for step in steps {
        match step {
            walk::Step::Index(index) => path.push_str(&format!("[{index}]")),
            walk::Step::Key(name) => {
                let plain = !name.is_empty()
                    && !name.starts_with(|first: char| first.is_ascii_digit())
                    && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
                let name: String = name.chars().take(40).collect();
                match plain {
                    true => path.push_str(&format!(".{name}")),
                    false => path.push_str(&format!("[{name:?}]")),
                }
            }
        }
        if path.len() > 300 {
            path.push('…');
            break;
        }
    }
    path
}

/// A path in which each index is the same.
fn without_indexes(path: &str) -> String {
    let mut steps = path.split('[');
    let first = steps.next().unwrap_or_default().to_owned();
    steps.fold(first, |place, step| {
        let behind = step.trim_start_matches(|it: char| it.is_ascii_digit());
        place + "[" + behind
    })
}
