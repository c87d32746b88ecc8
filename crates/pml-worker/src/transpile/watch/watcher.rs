//! Puts the looks into a program.

use std::collections::HashMap;

use oxc::{
    allocator::{CloneIn, TakeIn},
    ast::ast::*,
    ast_visit::{Visit, VisitMut, walk_mut},
    span::{GetSpan, SPAN},
};

use super::{
    names::{Names, list_of},
    places::{is_optional, is_read, is_simple, is_telling, literal, operand},
    watched::{Literal, Usage, Watched},
};
use crate::transpile::{
    pen::Pen,
    probe::{Branch, excerpt, unused_name},
};

/// How the variables that turn a look off begin.
pub(in crate::transpile) const WATCH: &str = "$watch";
/// How the variable begins that keeps what is looked at.
pub(in crate::transpile) const KEPT: &str = "$kept";
/// Most places of one program.
const MAX_PLACES: usize = 200;

/// Looks at values of `program`. What is seen is told by the index of a branch.
pub(in crate::transpile) fn watch<'a>(
    program: &mut oxc::ast::ast::Program<'a>,
    pen: &Pen<'a>,
    branches: &mut Vec<Branch>,
) {
    let mut names = Names::default();
    names.visit_program(program);
    let prefix = unused_name(pen.text, WATCH);
    let mut watcher = Watcher { pen, names, prefix, places: HashMap::new(), variables: Vec::new(), branches };
    watcher.visit_program(program);
    if watcher.variables.is_empty() {
        return;
    }
    let flags = watcher.variables.iter().map(|name| (*name, Some(pen.number(1))));
    pen.declare(program, std::iter::once((pen.kept, None)).chain(flags));
}

struct Watcher<'a, 'b> {
    pen: &'b Pen<'a>,
    names: Names<'a>,
    prefix: String,
    /// The branch and the variable of each place. A condition may stand twice in the program.
    places: HashMap<(u32, bool), (usize, &'a str)>,
    variables: Vec<&'a str>,
    branches: &'b mut Vec<Branch>,
}

impl<'a> Watcher<'a, '_> {
    fn look_at(&mut self, value: &mut Expression<'a>, usage: Usage) {
        let (pen, span) = (self.pen, value.span());
        let key = (span.start, matches!(usage, Usage::Searched(_)));
        if span.is_empty() || self.variables.len() >= MAX_PLACES && !self.places.contains_key(&key) {
            return;
        }
        let (branch, flag) = *self.places.entry(key).or_insert_with(|| {
            let watched = Watched { value: excerpt(pen.text, span), offset: span.start, usage };
            self.branches.push(Branch::Watch(watched));
            let name: &str = pen.allocator.alloc_str(&format!("{}{}", self.prefix, self.variables.len()));
            self.variables.push(name);
            (self.branches.len() - 1, name)
        });
        let kept = || pen.name(SPAN, pen.kept);
        let told = pen.set(flag, pen.tell(branch, kept()));
        let test = pen.name(SPAN, flag);
        *value = if is_simple(value) {
            let first = pen.set(pen.kept, value.clone_in(pen.allocator));
            let plain = value.take_in(&pen.allocator);
            pen.choose(test, pen.sequence([first, told, kept()]), plain)
        } else {
            let first = pen.set(pen.kept, value.take_in(&pen.allocator));
            let told = Expression::new_logical_expression(SPAN, test, LogicalOperator::And, told, &pen.builder);
            pen.sequence([first, told, kept()])
        };
    }

    /// Looks at what is compared with literals.
    fn look_at_compared(&mut self, value: &mut Expression<'a>, with: Vec<Literal>, is_strict: bool) {
        let value = operand(value);
        let of_variable = matches!(value.get_inner_expression(), Expression::Identifier(_));
        if with.iter().any(|it| is_telling(it, of_variable)) && is_read(value, &self.names) {
            self.look_at(value, Usage::Compared { with, is_strict });
        }
    }

    /// The literals of a list, also of one that a variable holds.
    fn literals(&self, value: &Expression<'a>) -> Option<Vec<Literal>> {
        match value.get_inner_expression() {
            Expression::Identifier(it) => self.names.list(it.name.as_str()).cloned(),
            value => list_of(value),
        }
    }
}

impl<'a> VisitMut<'a> for Watcher<'a, '_> {
    fn visit_binary_expression(&mut self, it: &mut BinaryExpression<'a>) {
        walk_mut::walk_binary_expression(self, it);
        if !it.operator.is_equality() {
            return;
        }
        let is_strict = matches!(it.operator, BinaryOperator::StrictEquality | BinaryOperator::StrictInequality);
        if let Some(literal) = literal(&it.right) {
            self.look_at_compared(&mut it.left, vec![literal], is_strict);
        } else if let Some(literal) = literal(&it.left) {
            self.look_at_compared(&mut it.right, vec![literal], is_strict);
        }
    }

    fn visit_switch_statement(&mut self, it: &mut SwitchStatement<'a>) {
        walk_mut::walk_switch_statement(self, it);
        let tests = it.cases.iter().filter_map(|case| case.test.as_ref());
        if let Some(with) = tests.map(literal).collect::<Option<Vec<_>>>() {
            self.look_at_compared(&mut it.discriminant, with, true);
        }
    }

    /// `["a", "b"].includes(x.state)`, `KNOWN.has(x.state)`, `x.labels.includes("bug")`.
    fn visit_call_expression(&mut self, it: &mut CallExpression<'a>) {
        walk_mut::walk_call_expression(self, it);
        let [argument] = &mut it.arguments[..] else { return };
        let Some(argument) = argument.as_expression_mut() else { return };
        let Some(member) = it.callee.as_member_expression_mut() else { return };
        let method = member.static_property_name();
        if !matches!(method, Some("includes" | "indexOf" | "has")) {
            return;
        }
        if let Some(with) = self.literals(member.object()) {
            self.look_at_compared(argument, with, true);
        } else if let Some(searched) = literal(argument).filter(|it| is_telling(it, false))
            && method != Some("has")
            && !is_optional(member.object())
            && !matches!(member.object().get_inner_expression(), Expression::ThisExpression(_) | Expression::Super(_))
        {
            self.look_at(member.object_mut(), Usage::Searched(searched));
        }
    }
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
            ("const L = new Set(['a']); return L.has(x.a)", format!("L.has{}", watched("x.a"))),
            ("return x.a.includes('bug')", format!("return {}.includes(\"bug\");", watched("x.a"))),
            ("return x.a?.includes('bug')", format!("return {}?.includes(\"bug\");", watched("x.a"))),
            (
                "return x.map((i) => i).includes('bug')",
                "return ($kept = x.map((i) => i), $watch0 && ($watch0 = $probe(0, $kept)), $kept).includes(\"bug\");".into(),
            ),
            // Nothing that may be a part of a result, or nothing in particular.
            ("let a = 1; return a === 2", "return a === 2;".into()),
            ("for (const c of x) if (c === '(') f()", "c === \"(\"".into()),
            ("return x.a === ''", "return x.a === \"\";".into()),
            ("return x.a === null", "return x.a === null;".into()),
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
