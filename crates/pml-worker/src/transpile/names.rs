//! Names by their spelling: who uses which, before names are resolved.

use std::collections::HashMap;

use oxc::{allocator::ArenaVec, ast::ast::*, ast_visit::Visit, span::Span};

/// Where each name is used.
#[derive(Debug, Default)]
pub(super) struct References<'a>(HashMap<&'a str, Vec<u32>>);

impl<'a> References<'a> {
    pub(super) fn of(statements: &ArenaVec<'a, Statement<'a>>) -> References<'a> {
        let mut references = References::default();
        references.visit_statements(statements);
        references
    }

    /// Is the name used outside of this span?
    pub(super) fn has_outside(&self, name: &str, span: Span) -> bool {
        let places = self.0.get(name).map_or(&[][..], Vec::as_slice);
        places.iter().any(|place| *place < span.start || *place >= span.end)
    }
}

impl<'a> Visit<'a> for References<'a> {
    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        self.0.entry(it.name.as_str()).or_default().push(it.span.start);
    }
}
