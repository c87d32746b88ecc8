//! Which expressions are looked at, and what they look like once they are.

use oxc::{
    ast::{AstKind, ast::*},
    ast_visit::Visit,
    span::GetSpan,
};

use super::{
    names::Names,
    watched::Literal,
    watcher::{KEPT, WATCH},
};

/// Longest expression that is written twice.
const TWICE_BYTES: u32 = 80;

/// A text, number, boolean, `null` or `undefined` that is written out.
pub(super) fn literal(value: &Expression<'_>) -> Option<Literal> {
    match value.get_inner_expression() {
        Expression::StringLiteral(it) => Some(Literal::Text(it.value.to_string())),
        Expression::TemplateLiteral(it) => Some(Literal::Text(it.single_quasi()?.to_string())),
        Expression::NumericLiteral(it) => Some(Literal::Number(it.value)),
        Expression::BooleanLiteral(it) => Some(Literal::Boolean(it.value)),
        Expression::NullLiteral(_) => Some(Literal::Null),
        value if value.is_null_or_undefined() => Some(Literal::Undefined),
        _ => None,
    }
}

/// Is it worthwhile to look at what is compared with the literal? Not if it stands for nothing in particular.
pub(super) fn is_telling(literal: &Literal, of_variable: bool) -> bool {
    match literal {
        // A loop over the characters of a text compares each.
        Literal::Text(text) => text.chars().nth(usize::from(of_variable)).is_some(),
        Literal::Number(_) | Literal::Boolean(_) => true,
        Literal::Null | Literal::Undefined => false,
    }
}

/// The part of an operand that is looked at: of `x.a ?? ""` the `x.a`.
pub(super) fn operand<'e, 'a>(value: &'e mut Expression<'a>) -> &'e mut Expression<'a> {
    let has_default = matches!(value.get_inner_expression(), Expression::LogicalExpression(it)
        if it.operator != LogicalOperator::And && literal(&it.right).is_some());
    if !has_default {
        return value;
    }
    match value.get_inner_expression_mut() {
        Expression::LogicalExpression(it) => &mut it.left,
        value => value,
    }
}

/// The `x` of `Number(x)` and `+x`.
pub(super) fn number_in<'e, 'a>(value: &'e mut Expression<'a>) -> Option<&'e mut Expression<'a>> {
    match value.get_inner_expression_mut() {
        Expression::UnaryExpression(it) if it.operator == UnaryOperator::UnaryPlus => Some(&mut it.argument),
        Expression::CallExpression(it) if it.callee.is_specific_id("Number") => {
            it.arguments.first_mut().and_then(Argument::as_expression_mut).map(operand)
        }
        _ => None,
    }
}

/// The `x` of `x * 1000`.
pub(super) fn seconds_in<'e, 'a>(value: &'e mut Expression<'a>) -> Option<&'e mut Expression<'a>> {
    let Expression::BinaryExpression(it) = value.get_inner_expression_mut() else { return None };
    let is_thousand = |value: &Expression<'a>| literal(value) == Some(Literal::Number(1000.0));
    match it.operator {
        BinaryOperator::Multiplication if is_thousand(&it.right) => Some(&mut it.left),
        BinaryOperator::Multiplication if is_thousand(&it.left) => Some(&mut it.right),
        _ => None,
    }
}

/// Does the value count milliseconds, or is it a date, by its looks: `Date.now() - 7 * DAY`, `new Date()`?
pub(super) fn is_time(value: &Expression<'_>, names: &Names<'_>) -> bool {
    match value.get_inner_expression() {
        Expression::Identifier(it) => names.is_time(it.name.as_str()),
        Expression::NewExpression(it) => it.callee.is_specific_id("Date"),
        Expression::UnaryExpression(it) => it.operator == UnaryOperator::UnaryPlus && is_time(&it.argument, names),
        Expression::BinaryExpression(it) => {
            matches!(it.operator, BinaryOperator::Addition | BinaryOperator::Subtraction)
                && is_time(&it.left, names)
                && !is_time(&it.right, names)
        }
        Expression::CallExpression(it) => {
            let callee = it.callee.get_inner_expression();
            let is_of_date = |name: &str| callee.is_specific_member_access("Date", name);
            is_of_date("now")
                || is_of_date("parse")
                || is_of_date("UTC")
                || callee.as_member_expression().is_some_and(|member| {
                    matches!(member.static_property_name(), Some("getTime" | "valueOf"))
                        && is_time(member.object(), names)
                })
        }
        _ => false,
    }
}

/// Is the value read of something that the program did not make itself, by its looks?
pub(super) fn is_read(value: &Expression<'_>, names: &Names<'_>) -> bool {
    match value.get_inner_expression() {
        Expression::Identifier(it) => names.is_taken(it.name.as_str()),
        Expression::ChainExpression(it) => it.expression.as_member_expression().is_some_and(is_part),
        // `x.price ?? x.amount`
        Expression::LogicalExpression(it) => {
            it.operator != LogicalOperator::And && is_read(&it.left, names) && is_read(&it.right, names)
        }
        value => value.as_member_expression().is_some_and(is_part),
    }
}

/// `x.state`. Not `this.state`, which the program set itself, nor `list[i]`, the element of a tight loop.
fn is_part(member: &MemberExpression<'_>) -> bool {
    let name = member.static_property_name();
    name.is_some_and(|name| name != "length") && is_foreign(member.object())
}

/// Is this `row[3]`, a field of a line of text?
pub(super) fn is_field(value: &Expression<'_>) -> bool {
    matches!(value, Expression::ComputedMemberExpression(it) if it.expression.is_literal())
}

/// May the object be one that the program did not make itself?
pub(super) fn is_foreign(object: &Expression<'_>) -> bool {
    match object.get_inner_expression() {
        Expression::ThisExpression(_) | Expression::Super(_) | Expression::NewExpression(_) => false,
        Expression::Identifier(it) => !matches!(it.name.as_str(), "Math" | "Number" | "Symbol" | "globalThis"),
        Expression::ChainExpression(it) => {
            it.expression.as_member_expression().is_none_or(|member| is_foreign(member.object()))
        }
        object => object.as_member_expression().is_none_or(|member| is_foreign(member.object())),
    }
}

/// Does the chain around end with the value? Then it cannot be taken out of it: `a?.b.includes(…)`.
pub(super) fn is_optional(value: &Expression<'_>) -> bool {
    match value {
        Expression::CallExpression(it) => it.optional || is_optional(&it.callee),
        value => value.as_member_expression().is_some_and(|it| it.optional() || is_optional(it.object())),
    }
}

/// May this be written twice? Not functions, which are counted, nor what changes something.
pub(super) fn is_simple(value: &Expression<'_>) -> bool {
    struct Finder(bool);
    impl<'a> Visit<'a> for Finder {
        fn enter_node(&mut self, kind: AstKind<'a>) {
            use AstKind::{ArrowFunctionExpression, Class, Function, ObjectExpression, TaggedTemplateExpression};
            self.0 |= matches!(
                kind,
                ArrowFunctionExpression(_)
                    | Class(_)
                    | Function(_)
                    | ObjectExpression(_)
                    | TaggedTemplateExpression(_)
                    | AstKind::ConditionalExpression(_)
            );
        }
    }
    let mut finder = Finder(value.span().size() > TWICE_BYTES);
    finder.visit_expression(value);
    !finder.0
}

/// The expression that is looked at, of a compiled program; any other is given back.
pub(in crate::transpile) fn unwatched<'e, 'a>(value: &'e Expression<'a>) -> &'e Expression<'a> {
    match value.get_inner_expression() {
        Expression::ConditionalExpression(it) if is_watch(&it.test) => unwatched(&it.alternate),
        Expression::SequenceExpression(it) if is_look(it) => match it.expressions.first() {
            Some(Expression::AssignmentExpression(kept)) => unwatched(&kept.right),
            _ => value,
        },
        _ => value,
    }
}

/// A condition without the probe around it: `$on ? $on(0, c) : c`, `$probe(0, c)`.
pub(in crate::transpile) fn unprobed<'e, 'a>(test: &'e Expression<'a>) -> &'e Expression<'a> {
    let is_ours = |value: &Expression<'a>| value.get_identifier_reference().is_some_and(|it| it.name.starts_with('$'));
    match test.get_inner_expression() {
        Expression::ConditionalExpression(it) if is_ours(&it.test) => unprobed(&it.alternate),
        Expression::CallExpression(it) if is_ours(&it.callee) => {
            it.arguments.get(1).and_then(Argument::as_expression).map_or(test, unprobed)
        }
        inner => inner,
    }
}

/// `$watch0`.
pub(in crate::transpile) fn is_watch(value: &Expression<'_>) -> bool {
    matches!(value, Expression::Identifier(name) if name.name.starts_with(WATCH))
}

/// `$kept = …`.
pub(in crate::transpile) fn is_kept(it: &AssignmentExpression<'_>) -> bool {
    matches!(&it.left, AssignmentTarget::AssignmentTargetIdentifier(name) if name.name.starts_with(KEPT))
}

/// `$kept = …, …, $kept`.
pub(in crate::transpile) fn is_look(it: &SequenceExpression<'_>) -> bool {
    matches!(it.expressions.first(), Some(Expression::AssignmentExpression(first)) if is_kept(first))
}
