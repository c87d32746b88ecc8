//! Writes a look at a value into a program, and keeps the variables that turn looks off.

use std::{
    collections::HashMap,
    mem::{Discriminant, discriminant},
};

use oxc::{
    allocator::{CloneIn, TakeIn},
    ast::ast::*,
    span::{GetSpan, SPAN, Span},
};

use super::{
    places::{is_simple, unwatched},
    watched::{Side, Usage, Watched},
};
use crate::transpile::{
    pen::Pen,
    probe::{Branch, excerpt, unused_name},
};

/// Most places of one kind in one program.
const MAX_PLACES: usize = 200;

/// What a pass looks at values with.
pub(super) struct Looker<'a, 'b> {
    pub(super) pen: &'b Pen<'a>,
    prefix: String,
    /// The branch and the variable of each place. A condition may stand twice in the program.
    places: HashMap<(u32, Discriminant<Usage>), (usize, &'a str)>,
    variables: Vec<&'a str>,
    branches: &'b mut Vec<Branch>,
}

impl<'a, 'b> Looker<'a, 'b> {
    /// `prefix` is how the variables begin that turn looks off.
    pub(super) fn new(pen: &'b Pen<'a>, prefix: &str, branches: &'b mut Vec<Branch>) -> Looker<'a, 'b> {
        let prefix = unused_name(pen.text, prefix);
        Looker { pen, prefix, places: HashMap::new(), variables: Vec::new(), branches }
    }

    /// Declares the variables.
    pub(super) fn declare(self, program: &mut oxc::ast::ast::Program<'a>) {
        if self.variables.is_empty() {
            return;
        }
        let flags = self.variables.iter().map(|name| (*name, Some(self.pen.number(1))));
        self.pen.declare(program, std::iter::once((self.pen.kept, None)).chain(flags));
    }

    /// The branch and the variable of a place. None for what stands nowhere in the text, and beyond [`MAX_PLACES`].
    pub(super) fn place(&mut self, span: Span, usage: Usage) -> Option<(usize, &'a str)> {
        let (pen, key) = (self.pen, (span.start, discriminant(&usage)));
        if span.is_empty() || self.variables.len() >= MAX_PLACES && !self.places.contains_key(&key) {
            return None;
        }
        Some(*self.places.entry(key).or_insert_with(|| {
            let watched = Watched { value: excerpt(pen.text, span), offset: span.start, usage };
            self.branches.push(Branch::Watch(watched));
            let name: &str = pen.allocator.alloc_str(&format!("{}{}", self.prefix, self.variables.len()));
            self.variables.push(name);
            (self.branches.len() - 1, name)
        }))
    }

    /// Looks at a value.
    pub(super) fn look_at(&mut self, value: &mut Expression<'a>, usage: Usage) {
        let Some((branch, flag)) = self.place(value.span(), usage) else { return };
        let pen = self.pen;
        let kept = || pen.name(SPAN, pen.kept);
        let told = pen.set(flag, pen.tell(branch, kept()));
        *value = if is_simple(value) {
            let first = pen.set(pen.kept, value.clone_in(pen.allocator));
            let plain = value.take_in(&pen.allocator);
            pen.choose(pen.name(SPAN, flag), pen.sequence([first, told, kept()]), plain)
        } else {
            self.kept_once(value, flag, told)
        };
    }

    /// Looks at what a call gives, beside others. It is written once.
    pub(super) fn look_at_call_beside(&mut self, call: &mut Expression<'a>, others: Vec<Expression<'a>>, usage: Usage) {
        let Some((branch, flag)) = self.place(call.span(), usage) else { return };
        let pen = self.pen;
        let both = pen.list(others.into_iter().chain([pen.name(SPAN, pen.kept)]));
        *call = self.kept_once(call, flag, pen.set(flag, pen.tell(branch, both)));
    }

    /// `($kept = value, $watch0 && told, $kept)`
    fn kept_once(&self, value: &mut Expression<'a>, flag: &'a str, told: Expression<'a>) -> Expression<'a> {
        let pen = self.pen;
        let first = pen.set(pen.kept, value.take_in(&pen.allocator));
        let test = pen.name(SPAN, flag);
        let told = Expression::new_logical_expression(SPAN, test, LogicalOperator::And, told, &pen.builder);
        pen.sequence([first, told, pen.name(SPAN, pen.kept)])
    }

    /// Looks at a value together with others, which are read a second time. The value may be looked at already.
    pub(super) fn look_at_beside(&mut self, value: &mut Expression<'a>, others: Vec<Expression<'a>>, usage: Usage) {
        let plain = unwatched(value);
        if !is_simple(plain) {
            return;
        }
        let Some((branch, flag)) = self.place(plain.span(), usage) else { return };
        let pen = self.pen;
        let kept = || pen.name(SPAN, pen.kept);
        let first = pen.set(pen.kept, value.clone_in(pen.allocator));
        let told = pen.set(flag, pen.tell(branch, pen.list(others.into_iter().chain([kept()]))));
        let plain = value.take_in(&pen.allocator);
        *value = pen.choose(pen.name(SPAN, flag), pen.sequence([first, told, kept()]), plain);
    }

    /// Looks at both sides of an operator, the left one first: `a < b` becomes
    /// `$watch0 ? ($kept = a, $probe(0, $kept), $kept) < ($kept = b, $watch0 = $probe(1, $kept), $kept) : a < b`.
    pub(super) fn look_at_sides(&mut self, value: &mut Expression<'a>, usage: fn(Side) -> Usage) {
        if !is_simple(value) {
            return;
        }
        let Some((left, flag)) = self.place(value.span(), usage(Side::Left)) else { return };
        let (pen, span) = (self.pen, value.span());
        // The right side has the next branch, and the same variable.
        if left + 1 == self.branches.len() {
            let watched = Watched { value: excerpt(pen.text, span), offset: span.start, usage: usage(Side::Right) };
            self.branches.push(Branch::Watch(watched));
        }
        let mut looked_at = value.clone_in(pen.allocator);
        if let Expression::BinaryExpression(it) = looked_at.get_inner_expression_mut() {
            let kept = || pen.name(SPAN, pen.kept);
            let first = pen.set(pen.kept, it.left.take_in(&pen.allocator));
            it.left = pen.sequence([first, pen.tell(left, kept()), kept()]);
            let first = pen.set(pen.kept, it.right.take_in(&pen.allocator));
            it.right = pen.sequence([first, pen.set(flag, pen.tell(left + 1, kept())), kept()]);
        }
        let plain = value.take_in(&pen.allocator);
        *value = pen.choose(pen.name(SPAN, flag), looked_at, plain);
    }
}
