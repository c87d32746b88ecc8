//! Looks at what a program writes into a text, beside other text: an object of a result becomes its JSON there.
//!
//! `${t.artist} - ${t.title}`, `b.sponsor + " - "`, `` out[`${t.artist}`] `` and `String(s.name).split(" ")`. What is printed is
//! not looked at, nor is a text that is nothing but the value, nor what a function is given that may be anything.

use std::collections::HashSet;

use oxc::{
    ast::ast::*,
    ast_visit::{Visit, VisitMut, walk, walk_mut},
};

use super::{looker::Looker, names::Names, places::is_read, watched::Usage};
use crate::transpile::{pen::Pen, probe::Branch};

/// How the variables that turn a look off begin.
const FLAG: &str = "$watchText";
/// Methods of texts that are called on `String(x.a)` if it is meant to be one.
const METHODS: [&str; 9] =
    ["split", "slice", "substring", "substr", "trim", "padEnd", "padStart", "charAt", "localeCompare"];
/// Methods of lists that call a function with each element.
const ITERATING: [&str; 7] = ["map", "forEach", "flatMap", "filter", "find", "some", "every"];

/// Looks at the texts of `program`.
pub(in crate::transpile) fn watch<'a>(
    program: &mut oxc::ast::ast::Program<'a>,
    pen: &Pen<'a>,
    names: &Names<'a>,
    branches: &mut Vec<Branch>,
) {
    let mut parts = Parts::default();
    parts.visit_program(program);
    let mut watcher = Watcher { names, parts, is_shown: false, looker: Looker::new(pen, FLAG, branches) };
    watcher.visit_program(program);
    watcher.looker.declare(program);
}

/// Variables that hold a part of something: a property that a pattern takes out, or an element of a list.
#[derive(Default)]
struct Parts<'a>(HashSet<&'a str>);

impl<'a> Parts<'a> {
    fn note_element(&mut self, pattern: &BindingPattern<'a>, list: &Expression<'a>) {
        if let BindingPattern::BindingIdentifier(id) = pattern
            && !is_anything(list)
        {
            self.0.insert(id.name.as_str());
        }
    }
}

/// Does the list hold whatever an object holds: `Object.values(x)`?
fn is_anything(list: &Expression<'_>) -> bool {
    matches!(list.get_inner_expression(), Expression::CallExpression(it)
        if it.callee.as_member_expression().is_some_and(|member| member.object().is_specific_id("Object")))
}

impl<'a> Visit<'a> for Parts<'a> {
    fn visit_binding_property(&mut self, it: &BindingProperty<'a>) {
        self.0.extend(it.value.get_binding_identifier().map(|id| id.name.as_str()));
        walk::walk_binding_property(self, it);
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        if let ForStatementLeft::VariableDeclaration(declaration) = &it.left {
            declaration.declarations.iter().for_each(|element| self.note_element(&element.id, &it.right));
        }
        walk::walk_for_of_statement(self, it);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if let Some(member) = it.callee.as_member_expression()
            && member.static_property_name().is_some_and(|name| ITERATING.contains(&name))
            && let Some(Argument::ArrowFunctionExpression(function)) = it.arguments.first()
            && let Some(parameter) = function.params.items.first()
        {
            self.note_element(&parameter.pattern, member.object());
        }
        walk::walk_call_expression(self, it);
    }
}

struct Watcher<'a, 'b> {
    names: &'b Names<'a>,
    parts: Parts<'a>,
    /// Is this what is printed, or the message of an error?
    is_shown: bool,
    looker: Looker<'a, 'b>,
}

impl<'a> Watcher<'a, '_> {
    fn look_at(&mut self, value: &mut Expression<'a>) {
        let is_part = match value.get_inner_expression() {
            Expression::Identifier(it) => self.parts.0.contains(it.name.as_str()),
            _ => true,
        };
        if !self.is_shown && is_part && is_read(value, self.names) {
            self.looker.look_at(value, Usage::Written);
        }
    }

    fn shown(&mut self, is_shown: bool, walk: impl FnOnce(&mut Self)) {
        let before = self.is_shown;
        self.is_shown |= is_shown;
        walk(self);
        self.is_shown = before;
    }
}

/// Is the value a text with something in it, by its looks?
fn is_text(value: &Expression<'_>) -> bool {
    match value.get_inner_expression() {
        Expression::StringLiteral(it) => !it.value.is_empty(),
        Expression::TemplateLiteral(_) => true,
        Expression::BinaryExpression(it) => {
            it.operator == BinaryOperator::Addition && (is_text(&it.left) || is_text(&it.right))
        }
        _ => false,
    }
}

/// Is this `` `${x.a}` ``, a text that is nothing but a value?
fn is_alone(it: &TemplateLiteral<'_>) -> bool {
    it.expressions.len() == 1 && it.quasis.iter().all(|part| part.value.raw.is_empty())
}

/// Is this `console.log`, `progress` or the like?
fn is_printing(callee: &Expression<'_>) -> bool {
    match callee.get_inner_expression() {
        Expression::Identifier(it) => it.name == "progress",
        callee => callee.as_member_expression().is_some_and(|it| {
            it.object().is_specific_id("console") || it.static_property_name().is_some_and(|name| name == "progress")
        }),
    }
}

impl<'a> VisitMut<'a> for Watcher<'a, '_> {
    fn visit_template_literal(&mut self, it: &mut TemplateLiteral<'a>) {
        walk_mut::walk_template_literal(self, it);
        if !is_alone(it) {
            it.expressions.iter_mut().for_each(|value| self.look_at(value));
        }
    }

    /// What the function of a tagged template is given are values.
    fn visit_tagged_template_expression(&mut self, it: &mut TaggedTemplateExpression<'a>) {
        self.visit_expression(&mut it.tag);
        it.quasi.expressions.iter_mut().for_each(|value| self.visit_expression(value));
    }

    fn visit_binary_expression(&mut self, it: &mut BinaryExpression<'a>) {
        walk_mut::walk_binary_expression(self, it);
        if it.operator != BinaryOperator::Addition {
            return;
        }
        if is_text(&it.left) {
            self.look_at(&mut it.right);
        } else if is_text(&it.right) {
            self.look_at(&mut it.left);
        }
    }

    fn visit_computed_member_expression(&mut self, it: &mut ComputedMemberExpression<'a>) {
        walk_mut::walk_computed_member_expression(self, it);
        match it.expression.get_inner_expression_mut() {
            Expression::TemplateLiteral(key) if is_alone(key) => self.look_at(&mut key.expressions[0]),
            Expression::CallExpression(key) if key.callee.is_specific_id("String") => self.look_at_argument(key),
            _ => {}
        }
    }

    fn visit_call_expression(&mut self, it: &mut CallExpression<'a>) {
        self.shown(is_printing(&it.callee), |this| walk_mut::walk_call_expression(this, it));
        if let Some(member) = it.callee.as_member_expression_mut()
            && member.static_property_name().is_some_and(|name| METHODS.contains(&name))
            && let Expression::CallExpression(text) = member.object_mut().get_inner_expression_mut()
            && text.callee.is_specific_id("String")
        {
            self.look_at_argument(text);
        }
    }

    fn visit_new_expression(&mut self, it: &mut NewExpression<'a>) {
        let name = it.callee.get_identifier_reference().map(|it| it.name.as_str());
        let is_error = name.is_some_and(|name| name.ends_with("Error"));
        self.shown(is_error, |this| walk_mut::walk_new_expression(this, it));
    }
}

impl<'a> Watcher<'a, '_> {
    /// Looks at the `x` of `String(x)`.
    fn look_at_argument(&mut self, call: &mut CallExpression<'a>) {
        if let [argument] = &mut call.arguments[..]
            && let Some(value) = argument.as_expression_mut()
        {
            self.look_at(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FLAG;
    use crate::transpile::{Probes, compile};

    #[test]
    fn what_is_written_into_a_text_is_looked_at() {
        let watched = |value: &str| {
            format!("$watchText0 ? ($kept7 = {value}, $watchText0 = $probe(B, $kept7), $kept7) : {value}")
        };
        #[rustfmt::skip]
        let table = [
            ("return `${x.a} - ${f(x)}`", Some(format!("`${{{}}} - ${{f(x)}}`", watched("x.a")))),
            ("return x.a + ' - '", Some(format!("({}) + \" - \"", watched("x.a")))),
            ("return ' - ' + f(x) + x.a", Some(format!("\" - \" + f(x) + ({})", watched("x.a")))),
            ("c[`${x.a}`] = 1", Some(format!("c[`${{{}}}`] = 1", watched("x.a")))),
            ("c[String(x.a)] = 1", Some(format!("c[String({})] = 1", watched("x.a")))),
            ("return String(x.a).split(' ')", Some(format!("String({}).split", watched("x.a")))),
            ("return l.map(({ a }) => `@${a}`)", Some(format!("`@${{{}}}`", watched("a")))),
            ("return l.map((a) => `@${a}`)", Some(format!("`@${{{}}}`", watched("a")))),
            // Printed, nothing but the value, or what may be anything.
            ("console.log(`a: ${x.a}`)", None),
            ("pml.progress(1, 2, `a: ${x.a}`)", None),
            ("throw new Error(`a: ${x.a}`)", None),
            ("return JSON.parse(`${x.a}`)", None),
            ("return String(x.a)", None),
            ("return '' + x.a", None),
            ("return x.a + 1", None),
            ("return tag`a: ${x.a}`", None),
            ("const f = (v) => `\"${v}\"`; return f(1)", None),
            ("return Object.values(x).map((v) => `\"${v}\"`)", None),
            ("return Object.entries(x).map(([k, v]) => `${k}: ${v}`)", None),
        ];
        for (code, expected) in table {
            let code = format!("mcp; {code}");
            let javascript = compile(&code, "agent.ts", Probes::Insert).unwrap().javascript;
            let branch = javascript.split("$watchText0 = $probe(").nth(1).and_then(|rest| rest.split(',').next());
            assert_eq!(javascript.contains(FLAG), expected.is_some(), "{code} became {javascript}");
            let expected = expected.unwrap_or_default().replace("(B,", &format!("({},", branch.unwrap_or_default()));
            assert!(javascript.contains(&expected), "{code} became {javascript}, not {expected}");
        }
    }
}
