//! Whether a program reckons with the absence of a property that it reads.

use oxc::{
    ast::{AstKind, ast::*},
    semantic::{NodeId, Semantic},
    span::{GetSpan, Span},
};

use super::{
    opened::{Opened, offset_of, open, place_of},
    operations::{Kind, name_of},
};
use crate::transpile::{
    Probes, Source,
    watch::{is_kept, is_look, is_watch},
};

/// What the source says of a read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Read {
    /// The line of what was sent.
    pub(crate) line: Option<usize>,
    /// Only tests whether the property is there: `typeof x.a`, `x.a === undefined`, `x.a ? x.a : x`.
    pub(crate) is_test: bool,
    /// The name is computed: `x[key]`.
    pub(crate) is_computed: bool,
    /// Another value takes its place: `x.a ?? x.b`. A literal is no such value: `x.a ?? []` is what a slip gives, too.
    pub(crate) has_alternative: bool,
    /// The names of what it is read in place of, of the same object: `next_cursor` in `x.nextCursor ?? x.next_cursor`.
    pub(crate) instead_of: Vec<String>,
    /// The next step fails if the property is not there: `x.a.b`, `x.a()`.
    pub(crate) throws: bool,
    /// Does the program look at `success` or `error` anywhere?
    pub(crate) mentions_failure: bool,
}

/// Judges reads, each by the engine's line and column and the name of the property.
pub(in crate::transpile) fn reads(source: &Source, probes: Probes, reads: &[((u32, u32), &str)]) -> Vec<Read> {
    let judged = open(source, probes, |opened| {
        let judge = Judge { semantic: opened.semantic, javascript: opened.javascript };
        let mentions_failure = judge.mentions_failure();
        let judged = reads.iter().map(|(place, property)| {
            let read = judge.read(opened, *place, property);
            Read { mentions_failure, ..read }
        });
        judged.collect()
    });
    judged.unwrap_or_else(|| reads.iter().map(|_| Read::default()).collect())
}

struct Judge<'s, 'a> {
    semantic: &'s Semantic<'a>,
    javascript: &'s str,
}

impl<'a> Judge<'_, 'a> {
    fn read(&self, opened: &Opened<'_, 'a>, place: (u32, u32), property: &str) -> Read {
        let Some(offset) = offset_of(opened.javascript, place) else { return Read::default() };
        let (line, column) = place_of(opened.javascript, offset);
        let line = opened.source.original(line, column).map(|position| position.line);
        let read = Read { line, ..Read::default() };
        let operations = &opened.found.operations;
        let operation = operations
            .iter()
            .find(|it| it.kind == Kind::Read && it.place == offset && it.property.is_some_and(|name| name == property));
        // Of `table[key]`, whether there is such a key is what the program asks.
        let at_place = || operations.iter().filter(|it| it.place == offset);
        let is_pattern = at_place().any(|it| it.kind == Kind::TakeApart)
            || opened.found.patterns.iter().any(|it| it.place == offset);
        if operation.is_none() && at_place().any(|it| it.kind == Kind::Read && it.property.is_none()) && !is_pattern {
            return Read { is_test: true, is_computed: true, ..read };
        }
        if operation.is_none() && self.has_default(property) {
            return Read { has_alternative: true, ..read };
        }
        match operation.and_then(|operation| self.node(operation.start, property)) {
            Some(node) => self.climb(node, property, read),
            None => read,
        }
    }

    /// The expression that begins here and ends with the property.
    fn node(&self, start: u32, property: &str) -> Option<NodeId> {
        let mut nodes = self.semantic.nodes().iter();
        nodes
            .find(|node| match node.kind() {
                AstKind::StaticMemberExpression(it) => it.span.start == start && it.property.name == property,
                AstKind::ComputedMemberExpression(it) => {
                    it.span.start == start && it.static_property_name().is_some_and(|name| name == property)
                }
                _ => false,
            })
            .map(|node| node.id())
    }

    /// Is the property taken out by a pattern that has another value for it? As of `x.a ?? []`, a literal is none.
    fn has_default(&self, property: &str) -> bool {
        self.semantic.nodes().iter().any(|node| match node.kind() {
            AstKind::BindingProperty(it) if name_of(&it.key).is_some_and(|name| name == property) => {
                matches!(&it.value, BindingPattern::AssignmentPattern(it) if !is_default(&it.right))
            }
            _ => false,
        })
    }

    fn mentions_failure(&self) -> bool {
        self.semantic.nodes().iter().any(|node| match node.kind() {
            AstKind::StaticMemberExpression(it) => matches!(it.property.name.as_str(), "success" | "error"),
            AstKind::BindingProperty(it) => name_of(&it.key).is_some_and(|name| name == "success" || name == "error"),
            _ => false,
        })
    }

    /// Follows the value to where it is used.
    fn climb(&self, node: NodeId, property: &str, mut read: Read) -> Read {
        let nodes = self.semantic.nodes();
        let own = nodes.kind(node).span();
        let mut span = own;
        for kind in nodes.ancestor_kinds(node) {
            match kind {
                AstKind::LogicalExpression(it) if it.left.span().contains_inclusive(span) => match it.operator {
                    LogicalOperator::And => {}
                    _ if is_default(&it.right) => {}
                    _ => {
                        read.has_alternative = true;
                        return read;
                    }
                },
                AstKind::LogicalExpression(it) if it.operator != LogicalOperator::And => {
                    let instead_of =
                        names_of(it.left.span().source_text(self.javascript), own.source_text(self.javascript));
                    read.instead_of.extend(instead_of);
                }
                AstKind::UnaryExpression(it) if it.operator == UnaryOperator::Typeof => read.is_test = true,
                AstKind::BinaryExpression(it) if it.operator.is_equality() => {
                    let other = if it.left.span().contains_inclusive(span) { &it.right } else { &it.left };
                    // What is there unless it says otherwise: `x.isActive !== false`.
                    let is_unless = it.operator == BinaryOperator::StrictInequality
                        && matches!(other.get_inner_expression(), Expression::BooleanLiteral(it) if !it.value);
                    read.is_test |= is_nothing(other) || is_unless || read.is_test;
                    return read;
                }
                AstKind::ConditionalExpression(it) if is_probe(&it.test) || is_watch(&it.test) => {}
                AstKind::AssignmentExpression(it) if is_kept(it) => {}
                AstKind::SequenceExpression(it) if is_look(it) => {}
                AstKind::ConditionalExpression(it) if it.test.span().contains_inclusive(span) => {
                    let text = own.source_text(self.javascript);
                    read.is_test |= it.consequent.span().source_text(self.javascript).contains(text)
                        || it.alternate.span().source_text(self.javascript).contains(text);
                    return read;
                }
                AstKind::IfStatement(it) if it.test.span().contains_inclusive(span) => {
                    read.is_test |= mentions(it.consequent.span(), property, self.javascript)
                        || it.alternate.as_ref().is_some_and(|it| mentions(it.span(), property, self.javascript));
                    return read;
                }
                AstKind::CallExpression(it) if is_probe(&it.callee) => {}
                AstKind::CallExpression(it) if it.callee.is_specific_member_access("Array", "isArray") => {
                    read.is_test = true;
                }
                AstKind::CallExpression(it) if it.callee.span().contains_inclusive(span) => {
                    read.throws |= span == own && !it.optional;
                }
                AstKind::StaticMemberExpression(it) if span == own && !it.optional => read.throws = true,
                AstKind::ComputedMemberExpression(it) if span == own && !it.optional && it.object.span() == own => {
                    read.throws = true;
                }
                // `x.a ??= b`
                AstKind::AssignmentExpression(it) if it.left.span().contains_inclusive(span) => {
                    read.is_test = true;
                    return read;
                }
                AstKind::StaticMemberExpression(_)
                | AstKind::ComputedMemberExpression(_)
                | AstKind::LogicalExpression(_)
                | AstKind::ChainExpression(_)
                | AstKind::ConditionalExpression(_)
                | AstKind::UnaryExpression(_)
                | AstKind::ParenthesizedExpression(_) => {}
                _ => return read,
            }
            span = kind.span();
        }
        read
    }
}

/// Is this the name of a probe of ours?
fn is_probe(value: &Expression<'_>) -> bool {
    matches!(value, Expression::Identifier(name) if name.name.starts_with("$on") || name.name.starts_with("$probe"))
}

fn mentions(span: Span, property: &str, text: &str) -> bool {
    span.source_text(text).contains(&format!(".{property}"))
}

/// The properties that are read of the same object as another one, by the texts of both.
fn names_of(text: &str, other: &str) -> Vec<String> {
    let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
    let root = other.split(|it| !is_part(it)).next().unwrap_or_default();
    if root.is_empty() || !text.split(|it| !is_part(it)).any(|word| word == root) {
        return Vec::new();
    }
    let parts = text.split('.').skip(1).map(|part| part.split(|it| !is_part(it)).next().unwrap_or_default());
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// `null`, `undefined` or `void 0`.
fn is_nothing(value: &Expression<'_>) -> bool {
    value.is_null_or_undefined()
}

/// A value that stands for nothing in particular: `[]`, `0`, `"none"`.
fn is_default(value: &Expression<'_>) -> bool {
    match value.get_inner_expression() {
        Expression::ArrayExpression(it) => it.elements.is_empty(),
        Expression::ObjectExpression(it) => it.properties.is_empty(),
        value => {
            value.is_literal()
                || is_nothing(value)
                || matches!(value, Expression::TemplateLiteral(it) if it.expressions.is_empty())
        }
    }
}
