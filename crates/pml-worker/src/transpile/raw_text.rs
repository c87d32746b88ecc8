//! Keeps the raw text of tagged templates as it was written.
//!
//! The printer escapes `</script`, which no value is changed by but that of `String.raw` and other tags. A
//! mark inside of it, which is taken out of what was printed, hides it from the printer.

use oxc::{
    allocator::Allocator,
    ast::ast::*,
    ast_visit::{VisitMut, walk_mut},
};

/// Puts `mark` where the printer would escape. Did it anywhere?
pub(super) fn mark<'a>(allocator: &'a Allocator, program: &mut oxc::ast::ast::Program<'a>, mark: &'a str) -> bool {
    let mut marker = Marker { allocator, mark, is_used: false };
    marker.visit_program(program);
    marker.is_used
}

struct Marker<'a> {
    allocator: &'a Allocator,
    mark: &'a str,
    is_used: bool,
}

impl<'a> VisitMut<'a> for Marker<'a> {
    fn visit_tagged_template_expression(&mut self, it: &mut TaggedTemplateExpression<'a>) {
        for quasi in &mut it.quasi.quasis {
            let raw = quasi.value.raw.as_str();
            let places: Vec<_> = raw
                .match_indices("</")
                .filter(|(at, _)| {
                    raw.as_bytes()[at + 2..].get(..6).is_some_and(|it| it.eq_ignore_ascii_case(b"script"))
                })
                .collect();
            if places.is_empty() {
                continue;
            }
            let mut marked = String::new();
            let mut from = 0;
            for (at, _) in places {
                marked.push_str(&raw[from..=at]);
                marked.push_str(self.mark);
                from = at + 1;
            }
            marked.push_str(&raw[from..]);
            quasi.value.raw = self.allocator.alloc_str(&marked).into();
            self.is_used = true;
        }
        walk_mut::walk_tagged_template_expression(self, it);
    }
}
