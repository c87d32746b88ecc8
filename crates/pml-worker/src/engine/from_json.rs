//! JSON text to JavaScript values, natively.
//!
//! The engine's own parser takes every character, every name and every number the long way. This one reads the same language
//! in less than half of the time: names and short texts that were met before are known, texts without escapes are copied
//! whole, and arrays and objects are made in one piece, when all that is in them has been read. Numbers are looked at on
//! the way, so that text whose numbers JavaScript writes as they came need not be walked over a second time.
//!
//! Half of the time goes into memory that is touched for the first time, so what is not allocated counts twice.
//!
//! **Invariant:** what [`build`] returns is what the engine's parser would have returned. Of text that it is not sure about
//! (no JSON, a lone surrogate, deep nesting) it says so, and the engine decides.

#![expect(unsafe_code, reason = "calls into the C engine")]

use rquickjs::{Ctx, Error, Object, Result, Value, qjs};

use super::exact;
use crate::memory;

/// Deepest nesting. The host takes and gives no more than 100.
const MAX_DEPTH: usize = 200;
/// Elements of an array that are collected before they are put into it.
const CHUNK: usize = 4096;
/// Places for names of properties that are known.
const KNOWN_NAMES: usize = 512;
/// Longest name that is known.
const MAX_KNOWN_BYTES: usize = 64;
/// Places for short texts that are known, and the longest.
const KNOWN_TEXTS: usize = 1024;
const MAX_TEXT_BYTES: usize = 24;
/// Digits of a decimal number that a float always keeps.
const KEPT_DIGITS: usize = 15;
/// Places for kinds of objects that are known, and most members of one.
const KNOWN_SHAPES: usize = 1024;
const MAX_MEMBERS: usize = 32;
/// Kinds of objects whose names are kept, and most names of one.
const MAX_KINDS: usize = 64;
const MAX_KIND_NAMES: usize = 60;
/// From this size of JSON on it is worthwhile to know kinds of objects and short texts.
const REPEATING_BYTES: usize = 4 * 1024;
/// From this size on, no garbage is looked for while values are made: there is none among them.
const LARGE_BYTES: usize = 64 * 1024;

/// A value that was built.
#[derive(Debug)]
pub(super) struct Built<'js> {
    pub(super) value: Value<'js>,
    /// Are all numbers in it written by JavaScript as they came?
    pub(super) is_plain: bool,
    /// The names in each kind of object, if its objects got a prototype. Not all, if there are many.
    pub(super) kinds: Vec<Kind>,
}

/// The names of an object, and the name that it, or the array that it is in, stands under; none for the outermost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) under: Option<String>,
    pub(super) names: Vec<String>,
}

/// The value of JSON text; `None` if it is for the engine to say. Its objects get `prototype`, if there is one.
pub(super) fn build<'js>(ctx: &Ctx<'js>, text: &str, prototype: Option<&Object<'js>>) -> Result<Option<Built<'js>>> {
    let maker = Maker { ctx: ctx.as_raw().as_ptr(), prototype: prototype.map(|it| it.as_value().as_raw()) };
    let _pause = (text.len() >= LARGE_BYTES).then(|| Pause::begin(ctx));
    let mut builder = Builder {
        ctx: ctx.as_raw().as_ptr(),
        text,
        at: 0,
        open: Vec::new(),
        values: Vec::new(),
        members: Vec::new(),
        names: Names::new(ctx.as_raw().as_ptr()),
        texts: (text.len() >= REPEATING_BYTES).then(|| Texts::new(ctx.as_raw().as_ptr())),
        shapes: (text.len() >= REPEATING_BYTES).then(|| Shapes::new(maker)),
        maker,
        seen: Vec::new(),
        kinds: Vec::new(),
        scratch: Vec::new(),
        is_plain: true,
    };
    match builder.run() {
        Ok(value) => {
            // SAFETY: the value is alive, belongs to this context, and is handed over.
            let value = unsafe { Value::from_raw(ctx.clone(), value) };
            Ok(Some(Built { value, is_plain: builder.is_plain, kinds: std::mem::take(&mut builder.kinds) }))
        }
        Err(Stop::Unsure) => Ok(None),
        Err(Stop::Exception) => Err(Error::Exception),
    }
}

/// Why a value was not built.
enum Stop {
    /// It is for the engine to say.
    Unsure,
    /// The engine has thrown: it is out of memory.
    Exception,
}

type Step<T> = std::result::Result<T, Stop>;

struct Builder<'a> {
    ctx: *mut qjs::JSContext,
    text: &'a str,
    at: usize,
    /// The arrays and objects around the place, outermost first.
    open: Vec<Open>,
    /// Elements of the arrays, and values of the members of the objects, that are open. Each is owned.
    values: Vec<qjs::JSValue>,
    /// Names of the members of the objects that are open. The last may have no value yet.
    members: Vec<Name>,
    names: Names,
    texts: Option<Texts>,
    shapes: Option<Shapes>,
    maker: Maker,
    /// What stands for the kinds of objects that were met.
    seen: Vec<u64>,
    kinds: Vec<Kind>,
    /// Where texts with escapes are put together.
    scratch: Vec<u8>,
    is_plain: bool,
}

/// Makes objects.
#[derive(Clone, Copy)]
struct Maker {
    ctx: *mut qjs::JSContext,
    /// Held by the caller of [`build`].
    prototype: Option<qjs::JSValue>,
}

impl Maker {
    fn object(self) -> qjs::JSValue {
        // SAFETY: the context is alive for as long as the builder is, and so is the prototype.
        unsafe {
            match self.prototype {
                Some(prototype) => qjs::JS_NewObjectProto(self.ctx, prototype),
                None => qjs::JS_NewObject(self.ctx),
            }
        }
    }
}

/// An array or object that has begun. What it holds is owned.
enum Open {
    Array {
        /// Where its elements begin in `values`.
        base: usize,
        /// The array, once it has more than a chunk of elements, and how many are in it.
        made: Option<(qjs::JSValue, u32)>,
    },
    Object {
        /// Where its members begin in `values` and in `members`.
        base: usize,
        members: usize,
    },
}

/// The name of a member.
#[derive(Clone, Copy)]
enum Name {
    /// One of the [`Names`], which live as long as the builder.
    Known(qjs::JSAtom),
    Owned(qjs::JSAtom),
}

impl Name {
    fn atom(self) -> qjs::JSAtom {
        let (Name::Known(atom) | Name::Owned(atom)) = self;
        atom
    }
}

impl Builder<'_> {
    fn run(&mut self) -> Step<qjs::JSValue> {
        loop {
            let Some(mut value) = self.begin()? else { continue };
            loop {
                match self.place(value)? {
                    Placed::Root => {
                        self.skip_space();
                        if self.at == self.text.len() {
                            return Ok(value);
                        }
                        self.free(value);
                        return Err(Stop::Unsure);
                    }
                    Placed::Next => break,
                    Placed::Closed(container) => value = container,
                }
            }
        }
    }

    /// Reads a value, or the beginning of an array or object that is not empty.
    fn begin(&mut self) -> Step<Option<qjs::JSValue>> {
        self.skip_space();
        let byte = self.peek()?;
        match byte {
            b'"' => self.string().map(Some),
            b'-' | b'0'..=b'9' => self.number().map(Some),
            b't' => self.word("true", qjs::JS_TRUE),
            b'f' => self.word("false", qjs::JS_FALSE),
            b'n' => self.word("null", qjs::JS_NULL),
            b'[' | b'{' if self.open.len() == MAX_DEPTH => Err(Stop::Unsure),
            b'[' => {
                self.at += 1;
                self.skip_space();
                if self.peek()? == b']' {
                    self.at += 1;
                    return self.array(self.values.len()).map(Some);
                }
                self.open.push(Open::Array { base: self.values.len(), made: None });
                Ok(None)
            }
            b'{' => {
                self.at += 1;
                self.skip_space();
                if self.peek()? == b'}' {
                    self.at += 1;
                    return self.check(self.maker.object()).map(Some);
                }
                self.open.push(Open::Object { base: self.values.len(), members: self.members.len() });
                self.name()?;
                Ok(None)
            }
            _ => Err(Stop::Unsure),
        }
    }

    /// Puts a value where it belongs, and reads what stands behind it. Owns the value, unless it is the root.
    fn place(&mut self, value: qjs::JSValue) -> Step<Placed> {
        match self.open.last_mut() {
            None => return Ok(Placed::Root),
            Some(Open::Array { base, .. }) => {
                let is_full = self.values.len() - *base >= CHUNK;
                self.values.push(value);
                if is_full {
                    self.put_down()?;
                }
            }
            Some(Open::Object { .. }) => self.values.push(value),
        }
        self.skip_space();
        let byte = self.peek()?;
        self.at += 1;
        match (byte, self.open.last()) {
            (b',', Some(Open::Array { .. })) => Ok(Placed::Next),
            (b',', _) => {
                self.skip_space();
                self.name()?;
                Ok(Placed::Next)
            }
            (b']', Some(Open::Array { base, made })) => {
                let (base, is_made) = (*base, made.is_some());
                if !is_made {
                    let array = self.array(base)?;
                    self.open.pop();
                    return Ok(Placed::Closed(array));
                }
                self.put_down()?;
                match self.open.pop() {
                    Some(Open::Array { made: Some((array, _)), .. }) => Ok(Placed::Closed(array)),
                    _ => Err(Stop::Unsure),
                }
            }
            (b'}', Some(Open::Object { base, members })) => {
                let object = self.object(*base, *members)?;
                self.open.pop();
                Ok(Placed::Closed(object))
            }
            _ => Err(Stop::Unsure),
        }
    }

    /// An array of all values from `base` on, which it takes over.
    fn array(&mut self, base: usize) -> Step<qjs::JSValue> {
        let count = i32::try_from(self.values.len() - base).map_err(|_| Stop::Unsure)?;
        // SAFETY: the pointer is valid for that many values. They are taken over, also by a call that fails, and so are ours no
        // more.
        let array = unsafe {
            let array = qjs::JS_NewArrayFrom(self.ctx, count, self.values.as_ptr().add(base));
            self.values.set_len(base);
            array
        };
        self.check(array)
    }

    /// An object of all values from `base` on, which it takes over, under the names from `members` on.
    fn object(&mut self, base: usize, members: usize) -> Step<qjs::JSValue> {
        if self.maker.prototype.is_some() {
            self.note_kind(members);
        }
        let object = self.check(self.maker.object())?;
        let (mut shape, mut has_failed) = (NO_MEMBERS, false);
        for (name, value) in self.members[members..].iter().zip(&self.values[base..]) {
            if has_failed {
                self.free(*value);
                continue;
            }
            if let Some(shapes) = &mut self.shapes {
                shape = shapes.extend(shape, name.atom());
            }
            let flags = qjs::JS_PROP_C_W_E as i32;
            // SAFETY: object and name are alive; the value is taken over, also by a call that fails.
            let done = unsafe { qjs::JS_DefinePropertyValue(self.ctx, object, name.atom(), *value, flags) };
            has_failed = done < 0;
        }
        self.values.truncate(base);
        for name in self.members.drain(members..) {
            free_name(&self.names, name);
        }
        if has_failed {
            self.free(object);
            return Err(Stop::Exception);
        }
        Ok(object)
    }

    /// Keeps the names of the members from `members` on, if no object had these.
    fn note_kind(&mut self, members: usize) {
        if self.seen.len() >= MAX_KINDS {
            return;
        }
        let names = &self.members[members..];
        // The last name before its own has no value yet: that is what is being read.
        let under = members.checked_sub(1).map(|last| self.members[last]);
        let kind = under.iter().chain(names).fold(NO_MEMBERS, |kind, name| {
            (kind.rotate_left(5) ^ u64::from(name.atom()) ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        if self.seen.contains(&kind) {
            return;
        }
        self.seen.push(kind);
        let text = |name: &Name| {
            // SAFETY: the atom is alive, and the value is ours and is freed. The text is copied before it is freed.
            unsafe {
                let value = qjs::JS_AtomToString(self.ctx, name.atom());
                let text = qjs::JS_ToCStringLen2(self.ctx, std::ptr::null_mut(), value, false);
                qjs::JS_FreeValue(self.ctx, value);
                let owned = (!text.is_null()).then(|| std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned());
                qjs::JS_FreeCString(self.ctx, text);
                owned
            }
        };
        let names = names.iter().take(MAX_KIND_NAMES).filter_map(text).collect();
        self.kinds.push(Kind { under: under.as_ref().and_then(text), names });
    }

    /// Puts the elements that were collected into the innermost array.
    fn put_down(&mut self) -> Step<()> {
        let Some(Open::Array { base, made }) = self.open.last() else { return Err(Stop::Unsure) };
        let (base, made) = (*base, *made);
        let made = match made {
            None => {
                let array = self.array(base)?;
                (array, CHUNK as u32 + 1)
            }
            Some((array, mut count)) => {
                let rest: Vec<_> = self.values.drain(base..).collect();
                let mut has_failed = false;
                for value in rest {
                    if has_failed {
                        self.free(value);
                        continue;
                    }
                    let flags = qjs::JS_PROP_C_W_E as i32;
                    // SAFETY: the array is alive; the value is taken over, also by a call that fails.
                    let done = unsafe { qjs::JS_DefinePropertyValueUint32(self.ctx, array, count, value, flags) };
                    has_failed = done < 0;
                    count += 1;
                }
                if has_failed {
                    return Err(Stop::Exception);
                }
                (array, count)
            }
        };
        if let Some(Open::Array { made: place, .. }) = self.open.last_mut() {
            *place = Some(made);
        }
        Ok(())
    }

    /// Reads the name of a member and the colon behind it.
    fn name(&mut self) -> Step<()> {
        if self.peek()? != b'"' {
            return Err(Stop::Unsure);
        }
        let (from, to, is_escaped) = self.quoted()?;
        let found = match is_escaped {
            false => self.names.get(&self.text.as_bytes()[from..to]),
            true => {
                self.unescape(from, to)?;
                self.names.get(&self.scratch)
            }
        };
        self.members.push(found.ok_or(Stop::Exception)?);
        self.skip_space();
        if self.peek()? != b':' {
            return Err(Stop::Unsure);
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Step<qjs::JSValue> {
        let (from, to, is_escaped) = self.quoted()?;
        let bytes = match is_escaped {
            false => &self.text.as_bytes()[from..to],
            true => {
                self.unescape(from, to)?;
                &self.scratch[..]
            }
        };
        let string = match &mut self.texts {
            // What is filled up with zeros has none of its own: those have to be escaped.
            Some(texts) if !is_escaped && (1..=MAX_TEXT_BYTES).contains(&bytes.len()) => texts.get(bytes),
            _ => new_text(self.ctx, bytes),
        };
        self.check(string)
    }

    /// Goes over a string. Where its content begins and ends, and whether there are escapes in it.
    fn quoted(&mut self) -> Step<(usize, usize, bool)> {
        let bytes = self.text.as_bytes();
        let from = self.at + 1;
        let (mut at, mut is_escaped) = (from, false);
        loop {
            match bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    is_escaped = true;
                    at += 2;
                }
                Some(0x20..) => at += 1,
                _ => return Err(Stop::Unsure),
            }
        }
        self.at = at + 1;
        Ok((from, at, is_escaped))
    }

    /// Puts a text into `scratch`, with what its escapes stand for.
    fn unescape(&mut self, from: usize, to: usize) -> Step<()> {
        let bytes = &self.text.as_bytes()[from..to];
        self.scratch.clear();
        let mut at = 0;
        while let Some(rest) = bytes.get(at..)
            && !rest.is_empty()
        {
            let plain = rest.iter().position(|byte| *byte == b'\\').unwrap_or(rest.len());
            self.scratch.extend_from_slice(&rest[..plain]);
            at += plain;
            let Some(kind) = bytes.get(at + 1) else { break };
            at += 2;
            let character = match kind {
                b'"' | b'\\' | b'/' => char::from(*kind),
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => {
                    let high = hex(bytes, at)?;
                    at += 4;
                    let code = match high {
                        0xd800..=0xdbff if bytes.get(at..at + 2) == Some(b"\\u") => {
                            let low = hex(bytes, at + 2)?;
                            at += 6;
                            match low {
                                0xdc00..=0xdfff => 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00),
                                _ => return Err(Stop::Unsure),
                            }
                        }
                        _ => high,
                    };
                    // A lone surrogate is no character, but may stand in JavaScript's texts.
                    char::from_u32(code).ok_or(Stop::Unsure)?
                }
                _ => return Err(Stop::Unsure),
            };
            self.scratch.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        Ok(())
    }

    fn number(&mut self) -> Step<qjs::JSValue> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let is_negative = bytes[start] == b'-';
        let mut at = start + usize::from(is_negative);
        let digits_from = at;
        let mut integer = 0_u64;
        while let Some(digit @ b'0'..=b'9') = bytes.get(at) {
            integer = integer.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            at += 1;
        }
        let digits = at - digits_from;
        if digits == 0 || digits > 1 && bytes[digits_from] == b'0' {
            return Err(Stop::Unsure);
        }
        if !matches!(bytes.get(at), Some(b'.' | b'e' | b'E')) && digits <= KEPT_DIGITS && !(integer == 0 && is_negative)
        {
            self.at = at;
            let number = if is_negative { -(integer as i64) } else { integer as i64 };
            return Ok(match i32::try_from(number) {
                Ok(number) => qjs::JS_MKVAL(qjs::JS_TAG_INT, number),
                Err(_) => qjs::__JS_NewFloat64(number as f64),
            });
        }
        let mut fraction = 0..0;
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            let from = at;
            while let Some(b'0'..=b'9') = bytes.get(at) {
                at += 1;
            }
            fraction = from..at;
            if fraction.is_empty() {
                return Err(Stop::Unsure);
            }
        }
        let has_exponent = matches!(bytes.get(at), Some(b'e' | b'E'));
        if has_exponent {
            at += 1;
            at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
            let from = at;
            while let Some(b'0'..=b'9') = bytes.get(at) {
                at += 1;
            }
            if from == at {
                return Err(Stop::Unsure);
            }
        }
        self.at = at;
        let token = &self.text[start..at];
        // So few digits are all kept, and so written again; numbers near zero are written with an exponent.
        let is_kept = !has_exponent
            && !fraction.is_empty()
            && bytes[fraction.end - 1] != b'0'
            && digits + fraction.len() <= KEPT_DIGITS
            && (integer > 0 || bytes[fraction].iter().take(5).any(|digit| *digit != b'0'));
        if !is_kept && self.is_plain {
            self.is_plain = exact::is_plain(token);
        }
        token.parse().map(qjs::__JS_NewFloat64).map_err(|_| Stop::Unsure)
    }

    fn word(&mut self, word: &str, value: qjs::JSValue) -> Step<Option<qjs::JSValue>> {
        match self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            true => {
                self.at += word.len();
                Ok(Some(value))
            }
            false => Err(Stop::Unsure),
        }
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.as_bytes().get(self.at) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Step<u8> {
        self.text.as_bytes().get(self.at).copied().ok_or(Stop::Unsure)
    }

    fn check(&self, value: qjs::JSValue) -> Step<qjs::JSValue> {
        // SAFETY: looks at the tag of a value.
        match unsafe { qjs::JS_IsException(value) } {
            true => Err(Stop::Exception),
            false => Ok(value),
        }
    }

    fn free(&self, value: qjs::JSValue) {
        // SAFETY: the caller owns the value and does not use it again.
        unsafe { qjs::JS_FreeValue(self.ctx, value) };
    }
}

fn free_name(names: &Names, name: Name) {
    if let Name::Owned(atom) = name {
        names.free(atom);
    }
}

fn new_text(ctx: *mut qjs::JSContext, utf8: &[u8]) -> qjs::JSValue {
    // SAFETY: the context is alive, and the pointer is valid for that many bytes.
    unsafe { qjs::JS_NewStringLen(ctx, utf8.as_ptr().cast(), utf8.len() as _) }
}

impl Drop for Builder<'_> {
    /// Gives up what was not finished.
    fn drop(&mut self) {
        for value in std::mem::take(&mut self.values) {
            self.free(value);
        }
        for open in std::mem::take(&mut self.open) {
            if let Open::Array { made: Some((array, _)), .. } = open {
                self.free(array);
            }
        }
        for name in std::mem::take(&mut self.members) {
            free_name(&self.names, name);
        }
    }
}

/// What became of a value.
enum Placed {
    /// Nothing is around it.
    Root,
    /// Another follows.
    Next,
    /// It was the last in this array or object.
    Closed(qjs::JSValue),
}

/// The four hexadecimal digits at a place.
fn hex(bytes: &[u8], at: usize) -> Step<u32> {
    let digits = bytes.get(at..at + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).ok_or(Stop::Unsure)
}

/// Names of properties, as the engine knows them.
struct Names {
    ctx: *mut qjs::JSContext,
    /// By a hash of the name. Each atom is owned.
    known: Vec<Option<(Box<[u8]>, qjs::JSAtom)>>,
}

impl Names {
    fn new(ctx: *mut qjs::JSContext) -> Names {
        Names { ctx, known: Vec::new() }
    }

    /// The atom of a name, which is UTF-8; `None` if the engine has thrown.
    fn get(&mut self, name: &[u8]) -> Option<Name> {
        if name.len() > MAX_KNOWN_BYTES {
            return self.make(name).map(Name::Owned);
        }
        if self.known.is_empty() {
            self.known.resize_with(KNOWN_NAMES, || None);
        }
        let hash =
            name.iter().fold(name.len() as u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(*byte)));
        let place = (hash ^ hash >> 9) as usize % KNOWN_NAMES;
        match &self.known[place] {
            Some((known, atom)) if **known == *name => Some(Name::Known(*atom)),
            // Those that came first are never replaced: they may be names of members that are open.
            Some(_) => self.make(name).map(Name::Owned),
            None => {
                let atom = self.make(name)?;
                self.known[place] = Some((name.into(), atom));
                Some(Name::Known(atom))
            }
        }
    }

    fn make(&self, name: &[u8]) -> Option<qjs::JSAtom> {
        // SAFETY: the pointer is valid for that many bytes, which are UTF-8. The engine finds atoms by their bytes only if they
        // are ASCII; others go through a text, which is freed.
        let atom = unsafe {
            if name.is_ascii() {
                qjs::JS_NewAtomLen(self.ctx, name.as_ptr().cast(), name.len() as _)
            } else {
                let text = qjs::JS_NewStringLen(self.ctx, name.as_ptr().cast(), name.len() as _);
                if qjs::JS_IsException(text) {
                    return None;
                }
                let atom = qjs::JS_ValueToAtom(self.ctx, text);
                qjs::JS_FreeValue(self.ctx, text);
                atom
            }
        };
        (atom != qjs::JS_ATOM_NULL as qjs::JSAtom).then_some(atom)
    }

    fn free(&self, atom: qjs::JSAtom) {
        // SAFETY: the caller owns the atom and does not use it again.
        unsafe { qjs::JS_FreeAtom(self.ctx, atom) };
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        for (_, atom) in std::mem::take(&mut self.known).into_iter().flatten() {
            self.free(atom);
        }
    }
}

/// Short texts, each as it was made when it was met last.
///
/// Rows of a table say the same few words again and again. A text that is there costs neither time nor memory.
struct Texts {
    ctx: *mut qjs::JSContext,
    /// By a hash of the text.
    known: Vec<KnownText>,
}

#[derive(Clone, Copy)]
struct KnownText {
    /// UTF-8, filled up with zeros.
    bytes: [u64; MAX_TEXT_BYTES / 8],
    /// Owned.
    text: qjs::JSValue,
}

impl Texts {
    fn new(ctx: *mut qjs::JSContext) -> Texts {
        Texts { ctx, known: vec![KnownText { bytes: [0; MAX_TEXT_BYTES / 8], text: qjs::JS_NULL }; KNOWN_TEXTS] }
    }

    /// The text of these bytes, which are UTF-8, not too many, and not zero. It is an exception if the engine has thrown.
    fn get(&mut self, utf8: &[u8]) -> qjs::JSValue {
        let mut padded = [0; MAX_TEXT_BYTES];
        padded[..utf8.len()].copy_from_slice(utf8);
        let mut bytes = [0; MAX_TEXT_BYTES / 8];
        for (word, chunk) in bytes.iter_mut().zip(padded.as_chunks().0) {
            *word = u64::from_ne_bytes(*chunk);
        }
        let hash =
            bytes.iter().fold(0, |hash: u64, word| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let known = &mut self.known[(hash >> 32) as usize % KNOWN_TEXTS];
        // SAFETY: what is known is alive. The caller owns what is returned, and what is known owns what it keeps.
        unsafe {
            if known.bytes == bytes {
                return qjs::JS_DupValue(self.ctx, known.text);
            }
            let text = new_text(self.ctx, utf8);
            if !qjs::JS_IsException(text) {
                qjs::JS_FreeValue(self.ctx, known.text);
                *known = KnownText { bytes, text: qjs::JS_DupValue(self.ctx, text) };
            }
            text
        }
    }
}

impl Drop for Texts {
    fn drop(&mut self) {
        for known in &self.known {
            // SAFETY: it is owned, and not used again.
            unsafe { qjs::JS_FreeValue(self.ctx, known.text) };
        }
    }
}

/// What stands for an object without members.
const NO_MEMBERS: u64 = 0;

/// One object of each kind that there is, with the members that its like have so far.
///
/// The engine gives objects with the same members one description, which it finds by the last member that is added: but only
/// of objects that exist. Rows of a table all pass through the same beginnings, which no finished row has. As long as there is
/// an object for each beginning, a row takes the descriptions that are there instead of making its own.
struct Shapes {
    maker: Maker,
    /// By what stands for the members.
    known: Vec<Option<Shape>>,
}

struct Shape {
    members: u64,
    /// Owned. The atoms are alive as long as it is.
    object: qjs::JSValue,
    atoms: Vec<qjs::JSAtom>,
}

impl Shapes {
    fn new(maker: Maker) -> Shapes {
        Shapes { maker, known: (0..KNOWN_SHAPES).map(|_| None).collect() }
    }

    /// What stands for these members and one more. There is an object with them from now on, if there is a place for it.
    fn extend(&mut self, members: u64, atom: qjs::JSAtom) -> u64 {
        let more = (members.rotate_left(5) ^ u64::from(atom) ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if self.known[place_of(more)].is_none() {
            self.make(members, atom, more);
        }
        more
    }

    fn make(&mut self, members: u64, atom: qjs::JSAtom, more: u64) {
        let mut atoms = match (members, &self.known[place_of(members)]) {
            (NO_MEMBERS, _) => Vec::new(),
            (_, Some(shape)) if shape.members == members && shape.atoms.len() < MAX_MEMBERS => shape.atoms.clone(),
            _ => return,
        };
        atoms.push(atom);
        // SAFETY: the context and the atoms are alive. An object that cannot be made for lack of memory is not needed: the
        // exception is taken, and what was made is freed.
        unsafe {
            let ctx = self.maker.ctx;
            let object = self.maker.object();
            let flags = qjs::JS_PROP_C_W_E as i32;
            let define = |atom: &qjs::JSAtom| qjs::JS_DefinePropertyValue(ctx, object, *atom, qjs::JS_NULL, flags) >= 0;
            if qjs::JS_IsException(object) || !atoms.iter().all(define) {
                qjs::JS_FreeValue(ctx, qjs::JS_GetException(ctx));
                qjs::JS_FreeValue(ctx, object);
                return;
            }
            self.known[place_of(more)] = Some(Shape { members: more, object, atoms });
        }
    }
}

fn place_of(members: u64) -> usize {
    (members >> 32) as usize % KNOWN_SHAPES
}

impl Drop for Shapes {
    fn drop(&mut self) {
        for shape in std::mem::take(&mut self.known).into_iter().flatten() {
            // SAFETY: the object is owned, and not used again.
            unsafe { qjs::JS_FreeValue(self.maker.ctx, shape.object) };
        }
    }
}

/// No garbage is looked for. What is made meanwhile holds no cycles, so it does not count towards the next search either.
struct Pause {
    runtime: *mut qjs::JSRuntime,
    threshold: qjs::size_t,
    used: usize,
}

impl Pause {
    fn begin(ctx: &Ctx<'_>) -> Pause {
        // SAFETY: the runtime is alive as long as `ctx` is, which whoever has a `Pause` holds on to.
        let (runtime, threshold) = unsafe {
            let runtime = qjs::JS_GetRuntime(ctx.as_raw().as_ptr());
            let threshold = qjs::JS_GetGCThreshold(runtime);
            qjs::JS_SetGCThreshold(runtime, qjs::size_t::MAX);
            (runtime, threshold)
        };
        Pause { runtime, threshold, used: memory::used() }
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let grown = memory::used().saturating_sub(self.used) as qjs::size_t;
        // SAFETY: as above.
        unsafe { qjs::JS_SetGCThreshold(self.runtime, self.threshold.saturating_add(grown)) };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rquickjs::{Context, Runtime};

    use super::*;

    /// What is built of a text and what the engine makes of it, each as the engine writes it; `None` if nothing is.
    fn both(text: &str) -> (Option<String>, Option<String>) {
        let context = Context::full(&Runtime::new().unwrap()).unwrap();
        context.with(|ctx| {
            let built = build(&ctx, text, None).unwrap().map(|built| shown(built.value));
            let parsed = ctx.json_parse(text).ok().map(shown);
            (built, parsed)
        })
    }

    fn shown(value: Value<'_>) -> String {
        // Which also tells -0 from 0.
        let show = "v => JSON.stringify(v, (k, v) => Object.is(v, -0) ? 'minus zero' : v)";
        let show: rquickjs::Function<'_> = value.ctx().eval(show).unwrap();
        show.call((value,)).unwrap()
    }

    #[test]
    fn values_are_what_the_engine_makes_of_the_text() {
        let many: String = (0..10_000).map(|number| format!("{number},")).collect();
        let table = [
            r#"{"a":[1,2,{"b":null}],"c":"d","e":true,"f":false}"#,
            " [ ] ",
            "{ }",
            r#"{ "a" : [ ] , "b" : { } }"#,
            r#"[0,-0,0.0,-0.0,1.5,1e3,-1E-3,2147483647,2147483648,-2147483648,-2147483649,9007199254740993,1e400]"#,
            r#""\"\\\/\b\f\n\r\t\u00e9\u20ac\ud83d\ude00""#,
            "\"é€😀 \u{2028}\u{7f}\"",
            r#"{"é":1,"\u00e9":2,"😀":3,"0":4,"10":5,"-1":6,"01":7,"":8}"#,
            r#"{"__proto__":{"x":1},"constructor":2,"toString":3,"a":1,"a":{"a":2}}"#,
            r#"{"a":{"b":{"c":{"a":1,"b":2,"c":3}},"a":1},"b":[[[[[1]]]]]}"#,
            &format!("[{many}\"end\"]"),
            &format!("[[{many}[1],{{}}],[{many}2]]"),
            &format!(
                r#"{{{}"end":1}}"#,
                (0..2000).map(|n| format!(r#""name {n}":{{"name {n}":{n}}},"#)).collect::<String>()
            ),
            &format!(
                "[{}{{}}]",
                r#"{"id":1,"b":[{"id":2,"c":3},{"c":4,"id":5}],"d":{"id":6,"b":7},"id":8},"#.repeat(500)
            ),
            &format!(r#"{{"{0}":1,"{0}":{{"{0}":2}}}}"#, "long".repeat(50)),
            &format!(
                r#"[{}"end"]"#,
                r#""","a","é","ab","a\u0000","\u0000","a","twenty-four bytes of text","exactly 24 bytes of text","","#
                    .repeat(200)
            ),
            &format!("[{}0]", (0..5000).map(|n| format!(r#""text {}","text {n}","#, n % 7)).collect::<String>()),
            "3",
            "null",
        ];
        for text in table {
            let (built, parsed) = both(text);
            assert!(built.is_some() && built == parsed, "{}: {built:?}, {parsed:?}", &text[..text.len().min(100)]);
        }
    }

    #[test]
    fn what_is_no_json_is_left_to_the_engine() {
        let deep = format!("{}{}", "[".repeat(201), "]".repeat(201));
        let table = [
            "",
            " ",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "]",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{a:1}",
            "{,}",
            "[,]",
            "01",
            "-",
            "+1",
            "1.",
            ".5",
            "1e",
            "1e+",
            "0x1",
            "nul",
            "truefalse",
            "1 2",
            "[1 2]",
            "{\"a\" 1}",
            "{\"a\":1 \"b\":2}",
            "\"",
            "\"\\",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"a\nb\"",
            "\"a\tb\"",
            "NaN",
            "[1}",
            "{\"a\":1]",
            &deep,
        ];
        for text in table {
            assert_eq!(both(text).0, None, "{text}");
        }
    }

    #[test]
    fn numbers_that_change_are_noticed() {
        let context = Context::full(&Runtime::new().unwrap()).unwrap();
        let table = [
            ("[0,1,-1,123456789012345,1.5,-0.25,0.1,0.00001,99999999999999.5]", true),
            ("[1.0]", false),
            ("[-0]", false),
            ("[1e3]", false),
            ("[0.10]", false),
            ("[9007199254740993]", false),
            ("[9007199254740991]", true),
            ("[0.000001]", false),
            ("[0.1234567890123456789]", false),
        ];
        for (text, is_plain) in table {
            context.with(|ctx| assert_eq!(build(&ctx, text, None).unwrap().unwrap().is_plain, is_plain, "{text}"));
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<i32>().prop_map(Into::into),
            any::<f64>().prop_map(|number| serde_json::json!(number)),
            "\\PC*".prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(6, 200, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
                prop::collection::vec(("[a-e]|\\PC*", inner), 0..8).prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn any_value_is_what_the_engine_makes_of_it(value in json(), is_pretty in any::<bool>()) {
            let text = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let (built, parsed) = both(&text.unwrap());
            prop_assert!(built.is_some());
            prop_assert_eq!(built, parsed);
        }

        #[test]
        fn broken_text_is_never_taken_for_another_value(value in json(), at in any::<prop::sample::Index>(), byte in 0x20_u8..0x7f) {
            let mut text = value.to_string();
            let at = at.index(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(at + 1) {
                text.replace_range(at..=at, char::from(byte).encode_utf8(&mut [0; 4]));
            }
            let (built, parsed) = both(&text);
            prop_assert!(built.is_none() || built == parsed, "{}: {:?} {:?}", text, built, parsed);
        }

        #[test]
        fn a_number_that_is_called_plain_is_written_as_it_came(token in "-?(0|[1-9][0-9]{0,16})(\\.[0-9]{1,17})?") {
            let context = Context::full(&Runtime::new().unwrap()).unwrap();
            context.with(|ctx| {
                let built = build(&ctx, &token, None).unwrap().unwrap();
                prop_assert_eq!(built.is_plain, exact::is_plain(&token));
                Ok(())
            })?;
        }
    }
}
