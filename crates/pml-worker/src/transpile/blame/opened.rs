//! The compiled program, parsed again to find the operation that a message is about.

use oxc::{
    allocator::Allocator,
    codegen::CodegenOptions,
    semantic::{Semantic, SemanticBuilder},
    span::SourceType,
};

use super::{
    known::Knowledge,
    operations::{self, Found, Kind},
    shape::Given,
    teller::Teller,
};
use crate::transpile::{Probes, Source, parse, translate};

/// The program as the engine runs it, and what is in it.
pub(super) struct Opened<'o, 'a> {
    pub(super) source: &'o Source,
    pub(super) javascript: &'o str,
    pub(super) semantic: &'o Semantic<'a>,
    pub(super) found: &'o Found<'a>,
}

/// Opens the program and has something said of it. Nothing if it cannot be opened, which only a program that never ran can do.
pub(super) fn open<T>(source: &Source, probes: Probes, tell: impl FnOnce(&Opened<'_, '_>) -> T) -> Option<T> {
    let made;
    // What was kept has probes.
    let javascript = match source.compiled().filter(|_| probes == source.probes()) {
        Some(javascript) => javascript,
        None => {
            made = translate(source, probes, CodegenOptions::default()).ok()?.javascript;
            &made
        }
    };
    let allocator = Allocator::default();
    let parsed = parse(&allocator, javascript, SourceType::mjs());
    let program = allocator.alloc(parsed.program);
    let semantic = SemanticBuilder::new().with_build_nodes(true).build(program).semantic;
    let found = operations::find(program);
    Some(tell(&Opened { source, javascript, semantic: &semantic, found: &found }))
}

impl<'o, 'a> Opened<'o, 'a> {
    /// Has something said of values, as far as the results of tools tell what they are.
    pub(super) fn tell<T>(&self, results: &[Given], tell: impl FnOnce(&Teller<'_, 'a>) -> T) -> T {
        let places = |start: u32| {
            let call = self.found.operations.iter().find(|it| it.kind == Kind::Call && it.start == start)?;
            Some(place_of(self.javascript, call.place))
        };
        let knowledge = Knowledge { semantic: self.semantic, results, places: &places };
        tell(&Teller { knowledge, source: self.source, javascript: self.javascript })
    }
}

/// The byte that a line and column of the engine, counted from 1 and in bytes, stand for.
pub(super) fn offset_of(text: &str, (line, column): (u32, u32)) -> Option<u32> {
    let mut start = 0;
    for _ in 1..line {
        start += text[start..].find('\n')? + 1;
    }
    u32::try_from(start + column.checked_sub(1)? as usize).ok()
}

/// The engine's line and column of a byte.
pub(super) fn place_of(text: &str, offset: u32) -> (u32, u32) {
    let before = &text[..text.floor_char_boundary(offset as usize)];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() as u32 + 1, (before.len() - start) as u32 + 1)
}
