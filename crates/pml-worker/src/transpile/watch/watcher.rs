//! Puts the looks into a program.

use std::{cell::RefCell, collections::HashMap};

use oxc::{
    allocator::{CloneIn, TakeIn},
    ast::ast::*,
    ast_visit::{VisitMut, walk_mut},
    span::{GetSpan, SPAN},
};

use super::{
    fallbacks::Fallbacks,
    looker::Looker,
    names::{Names, list_of},
    places::{is_field, is_optional, is_read, is_simple, is_telling, is_time, literal, number_in, operand, seconds_in},
    watched::{Keys, Literal, Number, Usage},
};
use crate::transpile::{pen::Pen, probe::Branch};

/// How the variables that turn a look off begin.
pub(in crate::transpile) const WATCH: &str = "$watch";
/// How the variable begins that keeps what is looked at.
pub(in crate::transpile) const KEPT: &str = "$kept";

/// Looks at values of `program`. What is seen is told by the index of a branch.
pub(in crate::transpile) fn watch<'a>(
    program: &mut oxc::ast::ast::Program<'a>,
    pen: &Pen<'a>,
    names: &Names<'a>,
    branches: &mut Vec<Branch>,
) {
    let fallbacks = Fallbacks::of(program);
    let mut watcher = Watcher {
        names,
        fallbacks,
        changed: RefCell::default(),
        is_sorting: false,
        looker: Looker::new(pen, WATCH, branches),
    };
    watcher.visit_program(program);
    watcher.looker.declare(program);
}

struct Watcher<'a, 'b> {
    names: &'b Names<'a>,
    fallbacks: Fallbacks<'a>,
    /// Lists that are written out, and whether they change.
    changed: RefCell<HashMap<&'a str, bool>>,
    /// Is this a comparator?
    is_sorting: bool,
    looker: Looker<'a, 'b>,
}

impl<'a> Watcher<'a, '_> {
    fn look_at(&mut self, value: &mut Expression<'a>, usage: Usage) {
        self.looker.look_at(value, usage);
    }

    /// Looks at what is compared with literals.
    fn look_at_compared(&mut self, value: &mut Expression<'a>, with: Vec<Literal>, is_strict: bool) {
        let value = operand(value);
        let of_variable = matches!(value.get_inner_expression(), Expression::Identifier(_));
        if with.iter().any(|it| is_telling(it, of_variable)) && is_read(value, self.names) {
            self.look_at(value, Usage::Compared { with, is_strict });
        }
    }

    /// The literals of a list, also of one that a variable holds.
    fn literals(&self, value: &Expression<'a>) -> Option<Vec<Literal>> {
        match value.get_inner_expression() {
            Expression::Identifier(it) => {
                let name = it.name.as_str();
                let list = self.names.list(name)?;
                let mut changed = self.changed.borrow_mut();
                let is_changed = changed.entry(name).or_insert_with(|| {
                    let grows = [".push(", ".add(", ".unshift(", "[", ".delete("];
                    grows.iter().any(|it| self.looker.pen.text.contains(&format!("{name}{it}")))
                });
                (!*is_changed).then(|| list.clone())
            }
            value => list_of(value),
        }
    }
}

impl<'a> Watcher<'a, '_> {
    /// Looks at a value that is made a number: the `x` of `Number(x)`, or the value itself.
    fn look_at_number(&mut self, value: &mut Expression<'a>, made: Number) {
        let Some(value) = number_in(value) else {
            let value = operand(value);
            if is_read(value, self.names) && made != Number::Other {
                self.look_at(value, Usage::Number(made));
            }
            return;
        };
        if is_read(value, self.names) {
            self.look_at(value, Usage::Number(made));
        }
    }

    /// Looks at a value that is taken for milliseconds.
    fn look_at_time(&mut self, value: &mut Expression<'a>, is_date: bool) {
        if let Some(seconds) = seconds_in(value) {
            let seconds = operand(seconds);
            let is_meant = number_in(seconds).is_some_and(|it| is_read(it, self.names)) || is_read(seconds, self.names);
            if is_meant {
                self.look_at(seconds, Usage::Seconds);
            }
            return;
        }
        let value = operand(value);
        let is_number = number_in(value).is_some_and(|it| is_read(it, self.names));
        if is_number || is_read(value, self.names) || is_date && is_element(value) {
            self.look_at(value, Usage::Time { is_date });
        }
    }

    /// Looks at the sides of an operator that takes numbers.
    fn look_at_sides(&mut self, it: &mut BinaryExpression<'a>) {
        let is_difference = it.operator == BinaryOperator::Subtraction;
        let has_time = is_time(&it.left, self.names) || is_time(&it.right, self.names);
        if it.operator.is_compare() && !self.is_sorting && !has_time {
            self.look_at_computed(&mut it.left);
            self.look_at_computed(&mut it.right);
        }
        if matches!(it.operator, BinaryOperator::Multiplication | BinaryOperator::Division) {
            self.look_at_factor(&mut it.left);
            self.look_at_factor(&mut it.right);
        }
        if !it.operator.is_compare() && !is_difference {
            return;
        }
        if is_time(&it.right, self.names) && !is_time(&it.left, self.names) {
            return self.look_at_time(&mut it.left, false);
        }
        if is_time(&it.left, self.names) && !is_time(&it.right, self.names) {
            return self.look_at_time(&mut it.right, false);
        }
        if is_difference {
            if self.is_sorting {
                self.look_at_number(&mut it.left, Number::Sorted);
                self.look_at_number(&mut it.right, Number::Sorted);
            } else {
                self.look_at_factor(&mut it.left);
                self.look_at_factor(&mut it.right);
            }
            return;
        }
        let is_number = |value: &mut Expression<'a>| {
            matches!(literal(value), Some(Literal::Number(_))) || number_in(value).is_some()
        };
        if is_number(&mut it.left) || is_number(&mut it.right) {
            self.look_at_number(&mut it.left, Number::Ordered);
            self.look_at_number(&mut it.right, Number::Ordered);
        }
    }

    /// Looks at what a side of a comparison is computed of: a text makes NaN of it, which nobody sees.
    fn look_at_computed(&mut self, value: &mut Expression<'a>) {
        match value.get_inner_expression_mut() {
            Expression::BinaryExpression(it) if it.operator.is_arithmetic() => {
                let is_sum = it.operator == BinaryOperator::Addition;
                let has_time = is_time(&it.left, self.names) || is_time(&it.right, self.names);
                if is_sum || has_time {
                    return;
                }
                self.look_at_operand(&mut it.left);
                self.look_at_operand(&mut it.right);
            }
            Expression::CallExpression(it)
                if it.callee.as_member_expression().is_some_and(|member| member.object().is_specific_id("Math")) =>
            {
                let arguments = it.arguments.iter_mut().filter_map(Argument::as_expression_mut);
                arguments.for_each(|argument| self.look_at_computed(argument));
            }
            Expression::CallExpression(_) => self.look_at_number(value, Number::Ordered),
            _ => {}
        }
    }

    fn look_at_operand(&mut self, side: &mut Expression<'a>) {
        match side.get_inner_expression() {
            Expression::BinaryExpression(_) | Expression::CallExpression(_) => self.look_at_computed(side),
            Expression::Identifier(_) => {}
            _ => self.look_at_number(side, Number::Ordered),
        }
    }

    /// Looks at a side of `*`, `/` or `-`, of which a text may make NaN.
    fn look_at_factor(&mut self, value: &mut Expression<'a>) {
        let value = operand(value);
        let inner = value.get_inner_expression();
        if (inner.is_member_expression() || matches!(inner, Expression::ChainExpression(_)))
            && is_read(value, self.names)
        {
            let is_checked = self.fallbacks.is_checked(value.span().start);
            self.look_at(value, Usage::Number(if is_checked { Number::Checked } else { Number::Computed }));
        }
    }

    /// Looks at both sides of `u.id === o.user_id`, which costs the reading of one variable, too.
    fn look_at_pair(&mut self, value: &mut Expression<'a>) {
        let Expression::BinaryExpression(it) = &*value else { return };
        let is_strict = matches!(it.operator, BinaryOperator::StrictEquality | BinaryOperator::StrictInequality);
        let is_member = |value: &Expression<'a>| value.get_inner_expression().is_member_expression();
        let sides = [&it.left, &it.right];
        let is_meant = is_strict
            && sides.iter().any(|side| is_member(side))
            && sides.iter().any(|side| is_read(side, self.names))
            && sides.iter().all(|side| is_read(side, self.names) || is_field(side))
            && sides.iter().all(|side| is_simple(side) && self.literal(side).is_none());
        if !is_meant {
            return;
        }
        let plain = value.clone_in(self.looker.pen.allocator);
        let Expression::BinaryExpression(it) = value else { return };
        let (pen, comparison) = (self.looker.pen, it.span.start);
        let Some((left, flag)) = self.looker.place(it.left.span(), Usage::Side { comparison, is_left: true }) else {
            return;
        };
        let Some((right, _)) = self.looker.place(it.right.span(), Usage::Side { comparison, is_left: false }) else {
            return;
        };
        let kept = || pen.name(SPAN, pen.kept);
        let told = |branch| pen.set(flag, pen.tell(branch, kept()));
        let wants_more = pen.name(SPAN, flag);
        let told_right =
            Expression::new_logical_expression(SPAN, wants_more, LogicalOperator::And, told(right), &pen.builder);
        let first = pen.set(pen.kept, it.left.take_in(&pen.allocator));
        it.left = pen.sequence([first, told(left), kept()]);
        let second = pen.set(pen.kept, it.right.take_in(&pen.allocator));
        it.right = pen.sequence([second, told_right, kept()]);
        let watched = value.take_in(&pen.allocator);
        *value = pen.choose(pen.name(SPAN, flag), watched, plain);
    }

    /// A literal, or a constant that holds one.
    fn literal(&self, value: &Expression<'a>) -> Option<Literal> {
        match value.get_inner_expression() {
            Expression::Identifier(it) if !value.is_undefined() => self.names.constant(it.name.as_str()).cloned(),
            value => literal(value),
        }
    }

    fn look_at_equality(&mut self, it: &mut BinaryExpression<'a>) {
        let is_strict = matches!(it.operator, BinaryOperator::StrictEquality | BinaryOperator::StrictInequality);
        let (value, literal) = match (self.literal(&it.left), self.literal(&it.right)) {
            (None, Some(literal)) => (&mut it.left, literal),
            (Some(literal), None) => (&mut it.right, literal),
            _ => return,
        };
        match literal {
            Literal::Null | Literal::Undefined if is_strict && is_read(value, self.names) => {
                if value.get_identifier_reference().is_some_and(|it| self.names.is_parameter(it.name.as_str())) {
                    return;
                }
                self.look_at(value, Usage::Nothing { is_null: literal == Literal::Null });
            }
            literal => self.look_at_compared(value, vec![literal], is_strict),
        }
    }
}

impl<'a> VisitMut<'a> for Watcher<'a, '_> {
    fn visit_expression(&mut self, it: &mut Expression<'a>) {
        walk_mut::walk_expression(self, it);
        if matches!(it, Expression::BinaryExpression(it) if it.operator.is_equality()) {
            self.look_at_pair(it);
        }
    }

    fn visit_binary_expression(&mut self, it: &mut BinaryExpression<'a>) {
        // First, since `Number(x)` is looked at wherever it is.
        self.look_at_sides(it);
        walk_mut::walk_binary_expression(self, it);
        if it.operator.is_equality() {
            self.look_at_equality(it);
        }
    }

    fn visit_unary_expression(&mut self, it: &mut UnaryExpression<'a>) {
        walk_mut::walk_unary_expression(self, it);
        if it.operator == UnaryOperator::UnaryPlus && is_read(&it.argument, self.names) {
            let made = self.made(it.span.start);
            self.look_at(&mut it.argument, Usage::Number(made));
        }
    }

    fn visit_new_expression(&mut self, it: &mut NewExpression<'a>) {
        let class = match it.callee.get_inner_expression() {
            Expression::Identifier(name) => name.name.as_str(),
            _ => "",
        };
        if let [argument] = &mut it.arguments[..]
            && let Some(argument) = argument.as_expression_mut()
        {
            match class {
                "Date" => self.look_at_time(argument, true),
                "Set" if is_made(argument) => self.look_at(argument, Usage::Identity(Keys::List)),
                "Map" if is_made(argument) => self.look_at(argument, Usage::Identity(Keys::Pairs)),
                _ => {}
            }
        }
        walk_mut::walk_new_expression(self, it);
    }

    /// `counts[x.owner]`.
    fn visit_computed_member_expression(&mut self, it: &mut ComputedMemberExpression<'a>) {
        walk_mut::walk_computed_member_expression(self, it);
        if it.expression.is_member_expression() && is_read(&it.expression, self.names) {
            self.look_at(&mut it.expression, Usage::Key);
        }
    }

    /// `const items = x.items ?? x`
    fn visit_variable_declarator(&mut self, it: &mut VariableDeclarator<'a>) {
        walk_mut::walk_variable_declarator(self, it);
        let (BindingPattern::BindingIdentifier(id), Some(value)) = (&it.id, &mut it.init) else { return };
        if is_part_or_whole(value) {
            self.look_at(value, Usage::Alternative(id.name.to_string()));
        }
    }

    fn visit_switch_statement(&mut self, it: &mut SwitchStatement<'a>) {
        walk_mut::walk_switch_statement(self, it);
        let tests = it.cases.iter().filter_map(|case| case.test.as_ref());
        if let Some(with) = tests.map(|it| self.literal(it)).collect::<Option<Vec<_>>>() {
            self.look_at_compared(&mut it.discriminant, with, true);
        }
    }

    fn visit_call_expression(&mut self, it: &mut CallExpression<'a>) {
        let method = it.callee.as_member_expression().and_then(|member| member.static_property_name());
        let was_sorting = self.is_sorting;
        self.is_sorting |= matches!(method, Some("sort" | "toSorted"));
        walk_mut::walk_call_expression(self, it);
        self.is_sorting = was_sorting;
        if it.callee.get_identifier_reference().is_some() {
            self.look_at_conversion(it);
        }
        match method {
            Some("parse") if it.callee.is_specific_member_access("Date", "parse") => {
                if let Some(text) = it.arguments.first_mut().and_then(Argument::as_expression_mut).map(operand)
                    && (is_read(text, self.names) || is_element(text))
                {
                    self.look_at(text, Usage::DateText);
                }
            }
            Some("includes" | "indexOf" | "has") => self.look_at_search(it),
            Some("add" | "get" | "set") => self.look_at_identity(it),
            Some("groupBy") => self.look_at_group(it),
            _ => {}
        }
        if let Some("has") = method {
            self.look_at_identity(it);
        }
    }
}

impl<'a> Watcher<'a, '_> {
    /// What the number is made for that a conversion gives, which begins here.
    fn made(&self, start: u32) -> Number {
        match () {
            () if self.fallbacks.has(start) => Number::Defaulted,
            () if self.fallbacks.is_checked(start) => Number::Checked,
            () => Number::Other,
        }
    }

    /// `Number(x.amount)`, `parseFloat(x.amount)`.
    fn look_at_conversion(&mut self, it: &mut CallExpression<'a>) {
        let has_fallback = self.fallbacks.has(it.span.start);
        let made = match it.callee_name() {
            Some("Number") => self.made(it.span.start),
            Some("parseFloat") if has_fallback => Number::ParsedOr,
            Some("parseFloat") => Number::Parsed,
            // With another radix, it is no amount.
            Some("parseInt") if it.arguments.get(1).is_none_or(is_ten) => {
                if has_fallback {
                    Number::WholeOr
                } else {
                    Number::Whole
                }
            }
            _ => return,
        };
        if let Some(argument) = it.arguments.first_mut().and_then(Argument::as_expression_mut)
            && (is_read(operand(argument), self.names) || is_element(operand(argument)))
        {
            self.look_at(operand(argument), Usage::Number(made));
        }
    }

    /// `Object.groupBy(list, (x) => x.owner)`.
    fn look_at_group(&mut self, it: &mut CallExpression<'a>) {
        let usage = match &it.callee {
            callee if callee.is_specific_member_access("Object", "groupBy") => Usage::Key,
            callee if callee.is_specific_member_access("Map", "groupBy") => Usage::Identity(Keys::One),
            _ => return,
        };
        if let Some(Expression::ArrowFunctionExpression(it)) =
            it.arguments.get_mut(1).and_then(Argument::as_expression_mut)
            && let Some(key) = it.body.as_expression_mut()
            && (key.is_member_expression() || key.is_identifier_reference())
            && is_read(key, self.names)
        {
            self.look_at(key, usage);
        }
    }

    /// `seen.add(x.owner)`, `map.set(x.owner, 1)`.
    fn look_at_identity(&mut self, it: &mut CallExpression<'a>) {
        if let Some(argument) = it.arguments.first_mut().and_then(Argument::as_expression_mut)
            && argument.is_member_expression()
            && is_read(argument, self.names)
        {
            self.look_at(argument, Usage::Identity(Keys::One));
        }
    }

    /// `["a", "b"].includes(x.state)`, `KNOWN.has(x.state)`, `x.labels.includes("bug")`.
    fn look_at_search(&mut self, it: &mut CallExpression<'a>) {
        let [argument] = &mut it.arguments[..] else { return };
        let Some(argument) = argument.as_expression_mut() else { return };
        let Some(member) = it.callee.as_member_expression_mut() else { return };
        if let Some(with) = self.literals(member.object()) {
            self.look_at_compared(argument, with, true);
        } else if let Some(searched) = self.literal(argument).filter(|it| is_telling(it, false))
            && member.static_property_name() != Some("has")
            && !is_optional(member.object())
            && !matches!(member.object().get_inner_expression(), Expression::ThisExpression(_) | Expression::Super(_))
        {
            self.look_at(member.object_mut(), Usage::Searched(searched));
        }
    }
}

/// Is this a part of a variable, or else the variable: `x.items ?? x.data ?? x`?
fn is_part_or_whole(value: &Expression<'_>) -> bool {
    let Expression::LogicalExpression(it) = value.get_inner_expression() else { return false };
    let Some(whole) = it.right.get_inner_expression().get_identifier_reference() else { return false };
    let mut first = it.left.get_inner_expression();
    while let Expression::LogicalExpression(inner) = first {
        first = inner.left.get_inner_expression();
    }
    let first = match first {
        Expression::ChainExpression(it) => it.expression.as_member_expression(),
        first => first.as_member_expression(),
    };
    it.operator != LogicalOperator::And
        && first.is_some_and(|it| it.object().get_identifier_reference().is_some_and(|it| it.name == whole.name))
}

/// Is this `fields[2]` or `fields[at]`?
fn is_element(value: &Expression<'_>) -> bool {
    matches!(value, Expression::ComputedMemberExpression(it) if it.expression.is_literal() || it.expression.is_identifier_reference())
}

/// Is this `10`?
fn is_ten(value: &Argument<'_>) -> bool {
    matches!(value, Argument::NumericLiteral(it) if it.value == 10.0)
}

/// Is this a list that may hold parts of a result? One that is written out holds nothing of the kind.
fn is_made(value: &Expression<'_>) -> bool {
    !value.is_literal() && !matches!(value.get_inner_expression(), Expression::ArrayExpression(_))
}

#[cfg(test)]
mod tests {
    use crate::transpile::{Probes, compile};

    #[test]
    fn what_is_compared_searched_or_converted_is_looked_at() {
        let watched =
            |value: &str| format!("($watch0 ? ($kept = {value}, $watch0 = $probe(0, $kept), $kept) : {value})");
        #[rustfmt::skip]
        let table = [
            ("return x.a === 'b'", format!("return {} === \"b\";", watched("x.a"))),
            ("return 'b' != x?.a", format!("return \"b\" != {};", watched("x?.a"))),
            ("return (x.a ?? '') === 'b'", format!("return ({} ?? \"\") === \"b\";", watched("x.a"))),
            ("l.filter((x) => x === 'bug')", format!("(x) => {} === \"bug\"", watched("x"))),
            ("const { a } = x; return a === 7", format!("return {} === 7;", watched("a"))),
            ("return ['a', 'b'].includes(x.a)", format!("includes{}", watched("x.a"))),
            ("const L = new Set(['a']); return L.has(x.a)", format!("$kept5 = {}", &watched("x.a")[1..watched("x.a").len() - 1])),
            ("return x.a.includes('bug')", format!("return {}.includes(\"bug\");", watched("x.a"))),
            ("return x.a?.includes('bug')", format!("return {}?.includes(\"bug\");", watched("x.a"))),
            (
                "return x.map((i) => i).includes('bug')",
                "return ($kept = x.map((i) => i), $watch0 && ($watch0 = $probe(0, $kept)), $kept).includes(\"bug\");".into(),
            ),
            ("return x.a !== null", format!("return {} !== null;", watched("x.a"))),
            ("return new Date(x.a ?? 0)", format!("new Date({} ?? 0)", watched("x.a"))),
            ("return Date.now() - x.a", format!("Date.now() - {}", watched("x.a"))),
            ("const old = Date.now() - 9; return x.a < old", format!("return {} < old;", watched("x.a"))),
            ("return Number(x.a) > y", format!("Number{} > y", watched("x.a"))),
            ("return x.a > 3", format!("return {} > 3;", watched("x.a"))),
            ("return +x.a", format!("return +{};", watched("x.a"))),
            ("return x.a * 2 > 100", format!("return {} * 2 > 100;", watched("x.a"))),
            ("return Math.abs(x.a - y) > 100", format!("return Math.abs({} - y) > 100;", watched("x.a"))),
            ("return new Date(x[i])", format!("new Date{}", watched("x[i]"))),
            ("return Date.parse(x.a)", format!("Date.parse{}", watched("x.a"))),
            ("const l = x.l ?? x.m ?? x", format!("const l = {};", &watched("x.l ?? x.m ?? x")[1..watched("x.l ?? x.m ?? x").len() - 1])),
            ("return new Date(x.a * 1000)", format!("new Date({} * 1e3)", watched("x.a"))),
            ("return Date.now() - 1000 * x.a", format!("Date.now() - 1e3 * {}", watched("x.a"))),
            ("l.sort((a, b) => a.n - 1)", format!("(a, b) => {} - 1", watched("a.n"))),
            ("c[x.a] += 1", format!("c[{}] += 1", &watched("x.a")[1..watched("x.a").len() - 1])),
            ("s.add(x.a)", format!("s.add{}", watched("x.a"))),
            (
                "return new Set(l.map((x) => x.a))",
                "new Set(($kept = l.map((x) => x.a), $watch0 && ($watch0 = $probe(0, $kept)), $kept))".into(),
            ),
            ("const me = 'bo'; return x.a === me", format!("return {} === me;", watched("x.a"))),
            (
                "return l.find((x) => x.a === y.b)",
                "(x) => $watch0 ? ($kept = x.a, $watch0 = $probe(0, $kept), $kept) === \
                 ($kept = y.b, $watch0 && ($watch0 = $probe(1, $kept)), $kept) : x.a === y.b"
                    .into(),
            ),
            ("return x === y", "return x === y;".into()),
            // Nothing that may be a part of a result, or nothing in particular.
            ("let a = 1; return a === 2", "return a === 2;".into()),
            ("for (const c of x) if (c === '(') f()", "c === \"(\"".into()),
            ("return x.a === ''", "return x.a === \"\";".into()),
            ("let best = null; return best === null", "return best === null;".into()),
            ("const f = (x) => x === null; return f()", "x === null".into()),
            ("return x.a == null", "return x.a == null;".into()),
            ("return x[0] * x.length", "return x[0] * x.length;".into()),
            ("return x.a + x.length - y", ".length - y;".into()),
            ("return x.a < y", ": x.a < y;".into()),
            ("return 500 * x.a", format!("500 * {}", watched("x.a"))),
            ("return c[i] + c[x[i]]", "return c[i] + c[x[i]];".into()),
            ("return new Set([x.a])", "new Set([x.a])".into()),
            ("return x.length === 0", "return x.length === 0;".into()),
            ("return l[i] === 'a'", "return l[i] === \"a\";".into()),
            ("return x?.a.includes('bug')", "return x?.a.includes(\"bug\");".into()),
        ];
        for (code, expected) in table {
            let code = format!("mcp; {code}");
            let javascript = compile(&code, "agent.ts", Probes::Insert).unwrap().javascript;
            assert!(javascript.contains(&expected), "{code} became {javascript}, not {expected}");
        }
    }

    #[test]
    fn a_condition_that_stands_twice_is_one_place() {
        let program = compile("mcp; if (x.a === 'b') f()", "agent.ts", Probes::Insert).unwrap();
        assert_eq!(program.javascript.matches("$watch0 = $probe(2, $kept)").count(), 2, "{}", program.javascript);
    }
}
