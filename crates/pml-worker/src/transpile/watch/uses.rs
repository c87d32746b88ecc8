//! Looks at values that a program adds, copies and takes apart as if they were something else.
//!
//! `"9.50" + "4.00"` joins two texts, `{ ...map }` is empty, `Object.entries(list)` gives indexes where the program has names,
//! and `line.split(",")` gives a line as it is that has semicolons.

use oxc::{
    ast::ast::*,
    ast_visit::{VisitMut, walk_mut},
    span::{GetSpan, Span},
};

use super::{
    looker::Looker,
    names::Names,
    places::{is_foreign, is_optional, is_read, unwatched},
    watched::Usage,
};
use crate::transpile::{pen::Pen, probe::Branch, sums::SUM};

/// How the variables that turn a look off begin.
const FLAG: &str = "$watchUse";
/// Separators of fields, and of a name and its value.
const SEPARATORS: [&str; 6] = [",", ";", "\t", "|", "=", ":"];
/// Names that say nothing, or that there is an index.
const INDEXES: [&str; 30] = [
    "index", "idx", "position", "pos", "row", "line", "col", "column", "num", "number", "nr", "no", "rank", "place",
    "offset", "page", "step", "level", "round", "day", "slot", "order", "count", "key", "prop", "property", "field",
    "attr", "path", "at",
];

/// Looks at the values of `program`.
pub(in crate::transpile) fn watch<'a>(
    program: &mut oxc::ast::ast::Program<'a>,
    pen: &Pen<'a>,
    names: &Names<'a>,
    branches: &mut Vec<Branch>,
) {
    let looker = Looker::new(pen, FLAG, branches);
    let mut watcher = Watcher { names, summed: Span::default(), is_reducing: false, looker };
    watcher.visit_program(program);
    watcher.looker.declare(program);
}

struct Watcher<'a, 'b> {
    names: &'b Names<'a>,
    /// What is looked at already: what is added to a number.
    summed: Span,
    /// Is this the function of a `reduce` that begins with a value, whose sum is looked at?
    is_reducing: bool,
    looker: Looker<'a, 'b>,
}

impl<'a> Watcher<'a, '_> {
    /// Looks at the argument of `Object.entries(…)`, if what it gives is called by a name that is no index.
    fn look_at_named(&mut self, call: &mut Expression<'a>, pattern: &BindingPattern<'a>) {
        let Expression::CallExpression(call) = call else { return };
        let name = match () {
            () if call.callee.is_specific_member_access("Object", "entries") => match pattern {
                BindingPattern::ArrayPattern(it) => {
                    it.elements.first().and_then(|it| it.as_ref()?.get_identifier_name())
                }
                _ => None,
            },
            () if call.callee.is_specific_member_access("Object", "keys") => pattern.get_identifier_name(),
            () => None,
        };
        let Some(name) = name.filter(|name| is_name(name.as_str())) else { return };
        if let [argument] = &mut call.arguments[..]
            && let Some(argument) = argument.as_expression_mut()
        {
            self.looker.look_at(argument, Usage::Named(name.to_string()));
        }
    }

    /// `Object.entries(x).map(([name, value]) => …)`
    fn look_at_chain(&mut self, it: &mut CallExpression<'a>) {
        let Expression::StaticMemberExpression(member) = &mut it.callee else { return };
        let place = match member.property.name.as_str() {
            "map" | "forEach" | "filter" | "flatMap" | "some" | "every" | "find" => 0,
            "reduce" => 1,
            _ => return,
        };
        let parameters = match it.arguments.first() {
            Some(Argument::ArrowFunctionExpression(it)) => &it.params,
            Some(Argument::FunctionExpression(it)) => &it.params,
            _ => return,
        };
        if let Some(parameter) = parameters.items.get(place) {
            self.look_at_named(&mut member.object, &parameter.pattern);
        }
    }

    /// `line.split(",")`, `x.date.startsWith("2024-03")`, `x.date.slice(0, 7)`
    fn look_at_text(&mut self, it: &mut CallExpression<'a>) {
        let text = match &it.arguments[..] {
            [Argument::StringLiteral(literal)] => literal.value.to_string(),
            [Argument::NumericLiteral(from), Argument::NumericLiteral(to)]
                if from.value == 0.0 && (to.value == 4.0 || to.value == 7.0) =>
            {
                String::new()
            }
            _ => return,
        };
        let Some(member) = it.callee.as_member_expression_mut() else { return };
        let usage = match member.static_property_name() {
            Some("slice" | "substring" | "substr") if text.is_empty() => Usage::Begins(text),
            Some("split") if SEPARATORS.contains(&text.as_str()) => Usage::Split(text),
            Some("startsWith") if text.len() >= 4 && text.as_bytes()[..4].iter().all(u8::is_ascii_digit) => {
                Usage::Begins(text)
            }
            _ => return,
        };
        let object = member.object_mut();
        if !is_optional(object) && is_foreign(object) && !object.is_literal() {
            self.looker.look_at(object, usage);
        }
    }

    /// What may be added up: no text that is written out, and nothing that is unknown.
    fn is_addend(&self, value: &Expression<'a>) -> Addend {
        let value = unwatched(value).get_inner_expression();
        match value {
            Expression::NumericLiteral(_) => Addend::Number,
            Expression::ComputedMemberExpression(it) if it.expression.is_literal() => Addend::Read,
            value if is_read(value, self.names) => Addend::Read,
            _ => Addend::Unknown,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Addend {
    Number,
    Read,
    Unknown,
}

/// Does a name say what something is called?
pub(super) fn is_name(name: &str) -> bool {
    let lower = name.to_lowercase();
    let is_numbered = ["index", "idx", "number", "pos"].iter().any(|end| lower.ends_with(end));
    name.len() > 1 && !name.starts_with('_') && !is_numbered && !INDEXES.contains(&lower.as_str())
}

impl<'a> VisitMut<'a> for Watcher<'a, '_> {
    fn visit_for_of_statement(&mut self, it: &mut ForOfStatement<'a>) {
        walk_mut::walk_for_of_statement(self, it);
        if let ForStatementLeft::VariableDeclaration(declaration) = &it.left
            && let Some(declarator) = declaration.declarations.first()
        {
            self.look_at_named(&mut it.right, &declarator.id);
        }
    }

    fn visit_assignment_expression(&mut self, it: &mut AssignmentExpression<'a>) {
        if matches!(&it.left, AssignmentTarget::AssignmentTargetIdentifier(name) if name.name.starts_with(SUM)) {
            self.summed = it.right.span();
        }
        walk_mut::walk_assignment_expression(self, it);
    }

    fn visit_call_expression(&mut self, it: &mut CallExpression<'a>) {
        let method = it.callee.as_member_expression().and_then(|member| member.static_property_name());
        let was_reducing = self.is_reducing;
        self.is_reducing |= matches!(method, Some("reduce" | "reduceRight")) && it.arguments.len() == 2;
        walk_mut::walk_call_expression(self, it);
        self.is_reducing = was_reducing;
        if it.callee.is_specific_member_access("Object", "assign") {
            for argument in it.arguments.iter_mut().skip(1).filter_map(Argument::as_expression_mut) {
                if is_copied(argument) {
                    self.looker.look_at(argument, Usage::Copied);
                }
            }
        }
        self.look_at_chain(it);
        self.look_at_text(it);
    }

    fn visit_object_expression(&mut self, it: &mut ObjectExpression<'a>) {
        walk_mut::walk_object_expression(self, it);
        for property in &mut it.properties {
            if let ObjectPropertyKind::SpreadProperty(spread) = property
                && is_copied(&spread.argument)
            {
                self.looker.look_at(&mut spread.argument, Usage::Copied);
            }
        }
    }

    fn visit_expression(&mut self, value: &mut Expression<'a>) {
        walk_mut::walk_expression(self, value);
        let Expression::BinaryExpression(it) = value else { return };
        let is_known = it.span == self.summed
            || self.is_reducing
                && matches!((&it.left, &it.right), (Expression::Identifier(_), _) | (_, Expression::Identifier(_)));
        if it.operator == BinaryOperator::Addition && !is_known {
            let addends = [self.is_addend(&it.left), self.is_addend(&it.right)];
            if addends.contains(&Addend::Read) && !addends.contains(&Addend::Unknown) {
                self.looker.look_at_sides(value, Usage::Added);
            }
        }
    }
}

/// May what is spread be a Map?
fn is_copied(value: &Expression<'_>) -> bool {
    let value = value.get_inner_expression();
    matches!(value, Expression::Identifier(_) | Expression::CallExpression(_) | Expression::NewExpression(_))
        || value.is_member_expression()
}

#[cfg(test)]
mod tests {
    use crate::transpile::{Probes, compile};

    #[test]
    fn what_is_added_copied_or_taken_apart_is_looked_at() {
        #[rustfmt::skip]
        let table = [
            ("return x.a + y.b", Some("$watchUse0 ? ($kept4 = x.a, $probe(0, $kept4), $kept4) + ($kept4 = y.b, $watchUse0 = $probe(1, $kept4), $kept4) : x.a + y.b")),
            ("return x.a + 50", Some("$watchUse0 ? ($kept4 = x.a, $probe(0, $kept4), $kept4) + ($kept4 = 50, $watchUse0")),
            ("return { ...m }", Some("return { ...$watchUse0 ? ($kept4 = m, $watchUse0 = $probe(0, $kept4), $kept4) : m };")),
            ("return Object.assign({}, m)", Some("Object.assign({}, $watchUse0 ?")),
            ("for (const [name, n] of Object.entries(x)) f()", Some("Object.entries($watchUse0 ?")),
            ("return Object.keys(x).map((id) => id)", Some("Object.keys($watchUse0 ?")),
            ("return l.split(';')", Some("return ($watchUse0 ? ($kept4 = l,")),
            ("return x.d.startsWith('2024-03')", Some("return ($watchUse0 ? ($kept4 = x.d,")),
            ("return x.d.slice(0, 7)", Some("return ($watchUse0 ? ($kept4 = x.d,")),
            // Texts, indexes, and what is nothing of a result.
            ("return x.a + ' ' + x.b", None),
            ("let s = 0; return s + x.a", None),
            // Looked at as sums.
            ("let s = 0; s += x.a + x.b", None),
            ("return l.reduce((s, x) => s + x.a, 0)", None),
            ("return { ...{ a: 1 } }", None),
            ("for (const [i, n] of Object.entries(x)) f()", None),
            ("for (const [rowIndex, n] of Object.entries(x)) f()", None),
            ("return Object.keys(x).map((key) => key)", None),
            ("return l.split(' ')", None),
            ("return x.d.startsWith('abc')", None),
            ("return x.d.slice(0, 5)", None),
        ];
        for (code, expected) in table {
            let code = format!("mcp; {code}");
            let javascript = compile(&code, "agent.ts", Probes::Insert).unwrap().javascript;
            let javascript = javascript.split_whitespace().collect::<Vec<_>>().join(" ");
            match expected {
                Some(expected) => assert!(javascript.contains(expected), "{code} became {javascript}, not {expected}"),
                None => assert!(!javascript.contains("$watchUse"), "{code} became {javascript}"),
            }
        }
    }
}
