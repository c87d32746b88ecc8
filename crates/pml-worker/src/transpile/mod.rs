//! TypeScript in, one JavaScript expression out.
//!
//! The expression is an async function whose body is the program, so that top-level `await`,
//! `return` and `import` work together. Its parameters are the function that branch probes call,
//! under a name that is nowhere in the program, and the object that imports are taken from. The
//! wrapping is done on the syntax tree: the agent's text is never pasted into ours, so no text of
//! theirs can end our function early.
//!
//! A source map is made on the way only for programs that may make calls, whose lines are told to the host: most other
//! programs succeed and need none. For those, [`Source`] compiles again when the first error asks for a place.
//!
//! **Invariant:** this runs inside the jail. Deep nesting may exhaust the stack here; see
//! [`crate::last_words`] for how that becomes an answer.

mod blame;
mod compile;
mod entry;
mod fence;
mod function_text;
mod lists;
mod names;
mod namespace;
mod parameters;
mod pen;
mod preflight;
mod probe;
mod raw_text;
mod shape;
mod source;
mod sums;
mod syntax_advice;
mod tight;
mod unawaited;
mod unfit;
mod unreturned;
mod watch;
mod wrap;

use self::compile::{parse, source_map, translate};
pub(crate) use self::{
    blame::{
        ARGS, Blame, Given, Read, Shape, Text, assigned, assigned_constant, declared_elsewhere, is_explained, plain,
        undefined_name,
    },
    compile::{ENGINE_FILE, MODULE_EXPORTS, Probes, compile},
    parameters::analyse,
    probe::{Branch, Guard},
    source::{Source, function_of, innermost, nearest},
    watch::{Keys, Literal, Number, Side, Treatment, Usage, Watched, Way, last_name},
    wrap::import_refusal,
};
