//! Values that the host keeps: what a program sees of them, and how it reads them.
//!
//! A handle is an object of the prelude's. Its token stays in the prelude's closure, and comes here
//! only with a request to read.

use std::{collections::HashMap, rc::Rc};

use pml_wire::{
    ErrorCode, Kind,
    message::{Block, CallError, HANDLE_KEY, Handle, Handles, Part, Read, Recall, Slice},
    walk::{Step, Walk},
};
use rquickjs::{Array, Ctx, Function, IntoJs, Object, Result, Value, object::Property};

use super::{
    Form, PendingCall, Prelude, State, exact,
    natives::{self, Late, given},
    raw,
};

/// Longest id of a kept result that is sent to the host.
const ID_BYTES: usize = 200;
/// Longest path that is sent to the host.
const PATH_BYTES: usize = 4096;

/// Gives the prelude what the methods of a handle need.
pub(super) fn install<'js>(
    ctx: &Ctx<'js>,
    native: &Object<'js>,
    state: &Rc<State<'js>>,
    late: &Late<'js>,
) -> Result<()> {
    native.set("handleKey", HANDLE_KEY)?;
    for (name, form) in [("slice", Form::Text), ("chunk", Form::Value)] {
        let shared = Rc::clone(state);
        let slice = move |ctx: Ctx<'js>, token: String, from: f64, to: f64, stack: Value<'js>| {
            let part = Part::Slice { from: from as u64, to: to as u64 };
            let (promise, call) = natives::pending(&ctx, "ResultHandle.slice", form, stack)?;
            read(&shared, call, &Read { token, part });
            Ok::<_, rquickjs::Error>(promise)
        };
        native.set(name, Function::new(ctx.clone(), slice)?)?;
    }

    let shared = Rc::clone(state);
    let recall = move |ctx: Ctx<'js>, id: Value<'js>, stack: Value<'js>| {
        let (mut id, _) = raw::text(&id).ok_or(rquickjs::Error::Exception)?;
        // Longer than any id: cut here, refused by the host.
        id.truncate(id.floor_char_boundary(ID_BYTES));
        let (promise, call) = natives::pending(&ctx, "result", Form::Value, stack)?;
        natives::send(&shared, call, Kind::Recall, &serde_json::to_vec(&Recall { id }).expect("plain data serializes"));
        Ok::<_, rquickjs::Error>(promise)
    };
    native.set("recall", Function::new(ctx.clone(), recall)?)?;

    let (shared, prelude) = (Rc::clone(state), Rc::clone(late));
    let json = move |ctx: Ctx<'js>, token: String, path: Value<'js>, stack: Value<'js>| {
        let (path, _) = raw::text(&path).ok_or(rquickjs::Error::Exception)?;
        let (promise, call) = natives::pending(&ctx, "ResultHandle.json", Form::Value, stack)?;
        if path.len() > PATH_BYTES {
            let error = CallError::new(ErrorCode::InvalidArguments, format!("a path has at most {PATH_BYTES} bytes"));
            natives::settle(&ctx, given(&prelude), &call, Err(error))?;
        } else {
            read(&shared, call, &Read { token, part: Part::Json { path } });
        }
        Ok::<_, rquickjs::Error>(promise)
    };
    native.set("json", Function::new(ctx.clone(), json)?)
}

fn read<'js>(state: &State<'js>, call: PendingCall<'js>, read: &Read) {
    let body = serde_json::to_vec(read).expect("plain data serializes");
    natives::send(state, call, Kind::Read, &body);
}

/// The text of a slice.
pub(super) fn text<'js>(ctx: &Ctx<'js>, slice: Slice) -> Result<Value<'js>> {
    slice.text.into_js(ctx)
}

/// A result of which the host keeps a part.
pub(super) fn value<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    prelude: &Prelude<'js>,
    handles: Handles,
    tool: &str,
) -> Result<Value<'js>> {
    let prototype = tool.contains(':').then(|| prelude.watched.call::<_, Object<'js>>((tool,))).transpose()?;
    let blocks = match handles {
        Handles::Whole(handle) => return object(prelude, handle),
        Handles::Blocks(blocks) => blocks,
        Handles::Within { value, handles } => {
            let read = exact::parse(ctx, state, prelude, value.get().into(), tool, prototype.as_ref())?;
            return put_in(prelude, read, value.get(), handles);
        }
    };
    let array = Array::new(ctx.clone())?;
    for (index, block) in blocks.into_iter().enumerate() {
        let block = match block {
            Block::Value(value) => exact::parse(ctx, state, prelude, value.get().into(), tool, prototype.as_ref())?,
            Block::Handle(handle) => object(prelude, handle)?,
        };
        // Defined, not set: a setter on `Array.prototype` would be the program's.
        array.as_object().prop(index as u32, Property::from(block).writable().enumerable().configurable())?;
    }
    Ok(array.into_value())
}

/// Puts handles where their tokens stand in a value that was read from `text`.
fn put_in<'js>(prelude: &Prelude<'js>, value: Value<'js>, text: &str, handles: Vec<Handle>) -> Result<Value<'js>> {
    let marker = format!("{{\"{HANDLE_KEY}\":\"");
    let handles: HashMap<String, Handle> = handles.into_iter().map(|handle| (handle.token.clone(), handle)).collect();
    let mut walk = Walk::new(text);
    while let Some(place) = walk.next() {
        let token = text[place.span.start..].strip_prefix(&marker).and_then(|behind| behind.split_once("\"}"));
        let Some(handle) = token.and_then(|(token, _)| handles.get(token)) else { continue };
        let mut path = walk.path(&place);
        let handle = object(prelude, handle.clone())?;
        let Some(last) = path.pop() else { return Ok(handle) };
        let parent = path.into_iter().try_fold(value.clone(), |value, step| exact::child(value.as_object()?, step));
        let Some(parent) = parent.as_ref().and_then(Value::as_object) else { continue };
        // Defined, not set: a setter on a prototype would be the program's.
        let property = Property::from(handle).writable().enumerable().configurable();
        match last {
            Step::Key(key) => parent.prop(key, property)?,
            Step::Index(index) => parent.prop(index as u32, property)?,
        }
    }
    Ok(value)
}

fn object<'js>(prelude: &Prelude<'js>, handle: Handle) -> Result<Value<'js>> {
    let Handle { token, r#type, size, mime_type, uri } = handle;
    prelude.make_handle.call((token, r#type, size as f64, mime_type, uri))
}
