//! The few engine calls that rquickjs does not offer, each behind a safe function.

#![expect(unsafe_code, reason = "calls into the C engine")]

use std::{mem::MaybeUninit, slice};

use rquickjs::{Array, ArrayBuffer, Ctx, Object, Value, qjs};

/// The text of a string, number or bigint, without running any of the program's code.
///
/// Lone surrogates, which no UTF-8 text can hold, become U+FFFD; the flag says whether there were
/// any. `None` means that the engine is out of memory.
pub(crate) fn text(value: &Value<'_>) -> Option<(String, bool)> {
    with_text(value, |text, replaced| (text.to_owned(), replaced))
}

/// Lets `look` see the text of [`text`], which is copied only if it has to be.
pub(crate) fn with_text<T>(value: &Value<'_>, look: impl FnOnce(&str, bool) -> T) -> Option<T> {
    // The text of an object is what its `toString` gives, and nothing of the program runs here.
    if value.is_object() || value.is_symbol() {
        return None;
    }
    let ctx = value.ctx().as_raw().as_ptr();
    let mut len = MaybeUninit::uninit();
    // SAFETY: `value` is alive and belongs to `ctx`. On success the pointer is valid for `len`
    // bytes until it is freed, which happens below, after the look; nothing of the engine runs in between.
    unsafe {
        let pointer = qjs::JS_ToCStringLen2(ctx, len.as_mut_ptr(), value.as_raw(), false);
        if pointer.is_null() {
            return None;
        }
        let bytes = slice::from_raw_parts(pointer.cast::<u8>(), len.assume_init() as usize);
        let seen = match str::from_utf8(bytes) {
            Ok(text) => look(text, false),
            Err(_) => look(&replace_surrogates(bytes), true),
        };
        qjs::JS_FreeCString(ctx, pointer);
        Some(seen)
    }
}

/// The engine writes a lone surrogate as the three bytes UTF-8 would need for it.
fn replace_surrogates(mut bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    while let Some(chunk) = bytes.utf8_chunks().next() {
        text.push_str(chunk.valid());
        bytes = &bytes[chunk.valid().len()..];
        if bytes.is_empty() {
            break;
        }
        text.push('\u{fffd}');
        let is_surrogate = bytes[0] == 0xed && bytes.len() >= 3;
        bytes = &bytes[if is_surrogate { 3 } else { 1 }..];
    }
    text
}

/// The exception that is pending, taken. Where there is none, since a value only had another type
/// than expected, an error that says so: a program must never get hold of an engine's nothing.
pub(crate) fn take_exception<'js>(ctx: &Ctx<'js>) -> Value<'js> {
    if !ctx.has_exception() {
        rquickjs::Exception::throw_type(ctx, "a value is not of the expected type");
    }
    ctx.catch()
}

/// A copy of an array buffer's bytes.
pub(crate) fn bytes(buffer: &ArrayBuffer<'_>) -> Vec<u8> {
    // SAFETY: the slice is copied before anything else can run and move or detach the buffer.
    buffer.as_raw().map(|bytes| unsafe { bytes.as_ref() }.to_vec()).unwrap_or_default()
}

/// A value that was read from an array or object. What most values are does not take a reference to the context.
#[derive(Clone, Debug)]
pub(crate) enum Item<'js> {
    Int(i32),
    Float(f64),
    Bool(bool),
    Null,
    Undefined,
    /// A text, an object, or what is seldom met.
    Other(Value<'js>),
}

impl<'js> Item<'js> {
    /// Takes over a value. `None` if it is an exception.
    ///
    /// # Safety
    ///
    /// The value must be owned by the caller and belong to `ctx`.
    unsafe fn from_raw(ctx: &Ctx<'js>, value: qjs::JSValue) -> Option<Item<'js>> {
        // SAFETY: what is read of a value is what its tag says. The rest is the caller's promise.
        unsafe {
            Some(match qjs::JS_VALUE_GET_NORM_TAG(value) {
                qjs::JS_TAG_INT => Item::Int(qjs::JS_VALUE_GET_INT(value)),
                qjs::JS_TAG_FLOAT64 => Item::Float(qjs::JS_VALUE_GET_FLOAT64(value)),
                qjs::JS_TAG_BOOL => Item::Bool(qjs::JS_VALUE_GET_BOOL(value)),
                qjs::JS_TAG_NULL => Item::Null,
                qjs::JS_TAG_UNDEFINED => Item::Undefined,
                qjs::JS_TAG_EXCEPTION => return None,
                _ => Item::Other(Value::from_raw(ctx.clone(), value)),
            })
        }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Item::Int(number) => Some(f64::from(*number)),
            Item::Float(number) => Some(*number),
            _ => None,
        }
    }
}

/// What an array, or what looks like one, holds at an index. `None` if that threw.
pub(crate) fn element<'js>(array: &Object<'js>, index: u32) -> Option<Item<'js>> {
    let ctx = array.ctx();
    // SAFETY: `array` is alive and belongs to `ctx`; the value is ours, and is taken over.
    unsafe {
        let value = qjs::JS_GetPropertyUint32(ctx.as_raw().as_ptr(), array.as_value().as_raw(), index);
        Item::from_raw(ctx, value)
    }
}

/// The `toJSON` of an object. `None` if reading it threw.
pub(crate) fn to_json_of<'js>(object: &Object<'js>) -> Option<Item<'js>> {
    let (ctx, atom) = (object.ctx(), qjs::JS_ATOM_toJSON as qjs::JSAtom);
    // SAFETY: `object` is alive and belongs to `ctx`; the atom is one that always exists; the value is ours, and is taken
    // over.
    unsafe {
        let value = qjs::JS_GetProperty(ctx.as_raw().as_ptr(), object.as_value().as_raw(), atom);
        Item::from_raw(ctx, value)
    }
}

/// Is the prototype of an object, which is no proxy, one of these?
pub(crate) fn has_prototype<'js>(object: &Object<'js>, prototypes: &[Object<'js>]) -> bool {
    let ctx = object.ctx().as_raw().as_ptr();
    // SAFETY: `object` is alive and belongs to `ctx`. The prototype is ours, and is freed after its last use.
    unsafe {
        let prototype = qjs::JS_GetPrototype(ctx, object.as_value().as_raw());
        let address = qjs::JS_VALUE_GET_PTR(prototype);
        let is_object = qjs::JS_VALUE_GET_NORM_TAG(prototype) == qjs::JS_TAG_OBJECT;
        qjs::JS_FreeValue(ctx, prototype);
        is_object && prototypes.iter().any(|it| qjs::JS_VALUE_GET_PTR(it.as_value().as_raw()) == address)
    }
}

/// Where an object is, which is that of another one only after it is gone.
pub(crate) fn address(object: &Object<'_>) -> usize {
    // SAFETY: it is an object, whose value holds its address.
    unsafe { qjs::JS_VALUE_GET_PTR(object.as_value().as_raw()) as usize }
}

/// Are these the same object?
pub(crate) fn is_same_object<'js>(left: &Object<'js>, right: &Object<'js>) -> bool {
    // SAFETY: both are objects, whose values hold their addresses.
    unsafe { qjs::JS_VALUE_GET_PTR(left.as_value().as_raw()) == qjs::JS_VALUE_GET_PTR(right.as_value().as_raw()) }
}

/// The names of an object's own enumerable properties, as they were when they were asked for.
#[derive(Debug)]
pub(crate) struct OwnNames<'js> {
    ctx: Ctx<'js>,
    table: *mut qjs::JSPropertyEnum,
    count: u32,
}

impl<'js> OwnNames<'js> {
    /// `None` if asking for them threw.
    pub(crate) fn of(object: &Object<'js>) -> Option<OwnNames<'js>> {
        let ctx = object.ctx();
        let (mut table, mut count) = (std::ptr::null_mut(), 0);
        let flags = (qjs::JS_GPN_STRING_MASK | qjs::JS_GPN_ENUM_ONLY) as i32;
        // SAFETY: `object` is alive and belongs to `ctx`; on success the table is ours, and is freed when this is dropped.
        let done = unsafe {
            let object = object.as_value().as_raw();
            qjs::JS_GetOwnPropertyNames(ctx.as_raw().as_ptr(), &raw mut table, &raw mut count, object, flags)
        };
        (done == 0).then(|| OwnNames { ctx: ctx.clone(), table, count })
    }

    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    /// The engine's number for a name. It is that of another name only after nobody holds this one any more.
    pub(crate) fn number(&self, index: usize) -> qjs::JSAtom {
        assert!(index < self.len(), "a name that is there");
        // SAFETY: the table has `count` entries, and the index is one of them.
        unsafe { (*self.table.add(index)).atom }
    }

    /// The name itself, which holds on to its number. `None` if the engine is out of memory.
    pub(crate) fn name(&self, index: usize) -> Option<Value<'js>> {
        // SAFETY: the atom is alive as long as the table is; the value is ours, and is taken over.
        unsafe {
            let value = qjs::JS_AtomToValue(self.ctx.as_raw().as_ptr(), self.number(index));
            (!qjs::JS_IsException(value)).then(|| Value::from_raw(self.ctx.clone(), value))
        }
    }

    /// The property of an object that has this name now. `None` if reading it threw.
    pub(crate) fn value_in(&self, object: &Object<'js>, index: usize) -> Option<Item<'js>> {
        // SAFETY: object and atom are alive; the value is ours, and is taken over.
        unsafe {
            let (ctx, object) = (self.ctx.as_raw().as_ptr(), object.as_value().as_raw());
            let value = qjs::JS_GetProperty(ctx, object, self.number(index));
            Item::from_raw(&self.ctx, value)
        }
    }
}

impl Drop for OwnNames<'_> {
    fn drop(&mut self) {
        // SAFETY: the table is ours and is not used again.
        unsafe { qjs::JS_FreePropertyEnum(self.ctx.as_raw().as_ptr(), self.table, self.count) };
    }
}

/// The engine's number for the kind of an object.
pub(crate) fn class_id(value: &Value<'_>) -> qjs::JSClassID {
    // SAFETY: takes any value.
    unsafe { qjs::JS_GetClassID(value.as_raw()) }
}

pub(crate) fn is_map(value: &Value<'_>) -> bool {
    // SAFETY: takes any value.
    unsafe { qjs::JS_IsMap(value.as_raw()) }
}

pub(crate) fn is_set(value: &Value<'_>) -> bool {
    // SAFETY: takes any value.
    unsafe { qjs::JS_IsSet(value.as_raw()) }
}

pub(crate) fn is_date(value: &Value<'_>) -> bool {
    // SAFETY: takes any value.
    unsafe { qjs::JS_IsDate(value.as_raw()) }
}

pub(crate) fn is_regex(value: &Value<'_>) -> bool {
    // SAFETY: takes any value.
    unsafe { qjs::JS_IsRegExp(value.as_raw()) }
}

/// Are these the same object?
pub(crate) fn is_same(left: &Value<'_>, right: &Value<'_>) -> bool {
    // SAFETY: both are alive, and of the one context there is.
    unsafe { qjs::JS_IsSameValue(left.ctx().as_raw().as_ptr(), left.as_raw(), right.as_raw()) }
}

/// An own property as it is: its value, or `None` if a getter would have to run to know.
pub(crate) fn own_data<'js>(object: &Object<'js>, name: &Value<'js>) -> Option<Value<'js>> {
    let ctx = object.ctx();
    let pointer = ctx.as_raw().as_ptr();
    let mut descriptor = MaybeUninit::<qjs::JSPropertyDescriptor>::uninit();
    // SAFETY: `object` and `name` are alive, and the atom is freed after its one use. The
    // descriptor is filled only when 1 is returned, and its three values are then ours to free;
    // `from_raw` takes them over.
    unsafe {
        let atom = qjs::JS_ValueToAtom(pointer, name.as_raw());
        let found = qjs::JS_GetOwnProperty(pointer, descriptor.as_mut_ptr(), object.as_value().as_raw(), atom);
        qjs::JS_FreeAtom(pointer, atom);
        if found != 1 {
            if found < 0 {
                ctx.catch();
            }
            return None;
        }
        let descriptor = descriptor.assume_init();
        let value = Value::from_raw(ctx.clone(), descriptor.value);
        drop(Value::from_raw(ctx.clone(), descriptor.getter));
        drop(Value::from_raw(ctx.clone(), descriptor.setter));
        let is_accessor = descriptor.flags & qjs::JS_PROP_GETSET as i32 != 0;
        (!is_accessor).then_some(value)
    }
}

/// The elements of the beginning of an array as they are, without those that a getter would have to run to know. None of a proxy.
pub(crate) fn own_elements<'a, 'js>(list: &'a Array<'js>, most: usize) -> impl Iterator<Item = Value<'js>> + 'a {
    let length = if list.is_proxy() { 0 } else { list.len().min(most) };
    let index = |index: usize| Value::new_float(list.ctx().clone(), index as f64);
    (0..length).filter_map(move |at| own_data(list, &index(at)))
}

/// Makes an object look like `undefined` to `typeof`, `==` and conditions, as `document.all` does in browsers.
pub(crate) fn make_undetectable(object: Value<'_>) -> Value<'_> {
    // SAFETY: `object` is alive and belongs to the context; the call does nothing to what is no object.
    unsafe { qjs::JS_SetIsHTMLDDA(object.ctx().as_raw().as_ptr(), object.as_raw()) };
    object
}

/// Runs one waiting job. `None` when there was none, the exception when it failed for good.
pub(crate) fn run_job<'js>(ctx: &Ctx<'js>) -> Option<Result<(), Value<'js>>> {
    let mut job_ctx = MaybeUninit::uninit();
    // SAFETY: the runtime is alive as long as `ctx` is. There is one context, so the exception of
    // a failed job is pending on it.
    let result = unsafe {
        let runtime = qjs::JS_GetRuntime(ctx.as_raw().as_ptr());
        qjs::JS_ExecutePendingJob(runtime, job_ctx.as_mut_ptr())
    };
    match result {
        0 => None,
        1.. => Some(Ok(())),
        _ => Some(Err(ctx.catch())),
    }
}

/// Looks for garbage now.
pub(crate) fn collect_garbage(ctx: &Ctx<'_>) {
    // SAFETY: the runtime is alive as long as `ctx` is, and nothing of it is running.
    unsafe { qjs::JS_RunGC(qjs::JS_GetRuntime(ctx.as_raw().as_ptr())) };
}

/// Has the engine look for garbage once it holds so many bytes. Later it decides by itself.
pub(crate) fn collect_garbage_after(ctx: &Ctx<'_>, bytes: usize) {
    // SAFETY: the runtime is alive as long as `ctx` is.
    unsafe { qjs::JS_SetGCThreshold(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), bytes as qjs::size_t) };
}
