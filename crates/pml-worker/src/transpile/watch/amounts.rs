//! Looks at numbers that methods of texts cut out of a text: `Number(x.price.replace(/[^\d.]/g, ""))`, `parseFloat(x.size.split(" ")[0])`.
//!
//! The text is given, too, so that it can be told whether it says another number: `"1.204,50"` says 1204.5. `replace` of a separator that
//! is written out (`replace(".", "")`) is done on purpose.

use oxc::{
    ast::ast::*,
    ast_visit::{VisitMut, walk_mut},
};

use super::{
    looker::Looker,
    members::{add_path, is_path},
    names::Names,
    places::{is_read, literal, unwatched},
    watched::{Literal, Usage},
};
use crate::transpile::{pen::Pen, probe::Branch};

/// How the variables that turn a look off begin.
const FLAG: &str = "$watchAmount";

/// Looks at the numbers of `program`.
pub(in crate::transpile) fn watch<'a>(
    program: &mut oxc::ast::ast::Program<'a>,
    pen: &Pen<'a>,
    names: &Names<'a>,
    branches: &mut Vec<Branch>,
) {
    let mut watcher = Watcher { names, looker: Looker::new(pen, FLAG, branches) };
    watcher.visit_program(program);
    watcher.looker.declare(program);
}

struct Watcher<'a, 'b> {
    names: &'b Names<'a>,
    looker: Looker<'a, 'b>,
}

impl<'a> VisitMut<'a> for Watcher<'a, '_> {
    fn visit_expression(&mut self, value: &mut Expression<'a>) {
        walk_mut::walk_expression(self, value);
        let made_of = match &*value {
            Expression::UnaryExpression(it) if it.operator == UnaryOperator::UnaryPlus => Some(&it.argument),
            Expression::CallExpression(it) if is_conversion(it) => {
                it.arguments.first().and_then(Argument::as_expression)
            }
            _ => None,
        };
        let Some(text) = made_of.and_then(cut_text) else { return };
        if !is_path(text) || !is_read(text, self.names) {
            return;
        }
        let mut path = Vec::new();
        add_path(self.looker.pen, text, &mut path);
        self.looker.look_at_beside(value, path, Usage::Amount);
    }
}

/// Is this `Number(…)`, `parseFloat(…)` or `Number.parseFloat(…)`?
fn is_conversion(call: &CallExpression<'_>) -> bool {
    match call.callee.get_inner_expression() {
        Expression::Identifier(name) => matches!(name.name.as_str(), "Number" | "parseFloat"),
        callee => callee.is_specific_member_access("Number", "parseFloat"),
    }
}

/// The text that methods cut something out of.
fn cut_text<'e, 'a>(value: &'e Expression<'a>) -> Option<&'e Expression<'a>> {
    let mut rest = unwatched(value).get_inner_expression();
    let mut is_cut = false;
    loop {
        rest = match rest {
            Expression::CallExpression(it) if it.callee.is_specific_id("String") => {
                it.arguments.first()?.as_expression()?
            }
            Expression::CallExpression(it) => {
                let Expression::StaticMemberExpression(member) = &it.callee else { return None };
                let first = it.arguments.first().and_then(Argument::as_expression);
                let is_meant = match (member.property.name.as_str(), first) {
                    ("trim", _) => true,
                    ("replace" | "replaceAll", Some(what)) => !is_separator(what),
                    ("split", Some(at)) => literal(at) == Some(Literal::Text(" ".into())),
                    ("slice" | "substring", Some(_)) => it.arguments.len() == 1,
                    _ => false,
                };
                is_cut |= is_meant;
                Some(&member.object).filter(|_| is_meant)?
            }
            Expression::ComputedMemberExpression(it) if is_cut || is_first(it) => {
                let object = unwatched(&it.object).get_inner_expression();
                match object {
                    Expression::CallExpression(_) => object,
                    _ => return is_cut.then_some(rest),
                }
            }
            Expression::LogicalExpression(it)
                if it.operator != LogicalOperator::And && literal(&it.right).is_some() =>
            {
                &it.left
            }
            rest => return is_cut.then_some(rest),
        };
        rest = unwatched(rest).get_inner_expression();
    }
}

/// `[0]`
fn is_first(member: &ComputedMemberExpression<'_>) -> bool {
    matches!(&member.expression, Expression::NumericLiteral(it) if it.value == 0.0)
}

/// Is this a separator that is written out: `"."`, `/\./g`? Whoever takes it out knows what it is.
fn is_separator(what: &Expression<'_>) -> bool {
    match what.get_inner_expression() {
        Expression::StringLiteral(it) => matches!(it.value.as_str(), "." | ","),
        // So does whoever keeps the digits alone.
        Expression::RegExpLiteral(it) => {
            matches!(
                it.regex.pattern.text.as_str(),
                "\\." | "," | "[.]" | "[,]" | "\\D" | "\\D+" | "[^\\d]" | "[^\\d]+" | "[^0-9]" | "[^0-9]+"
            )
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::FLAG;
    use crate::transpile::{Probes, compile};

    #[test]
    fn numbers_that_are_cut_out_of_texts_are_looked_at() {
        #[rustfmt::skip]
        let table = [
            (r"return Number(x.a.replace(/[^\d.]/g, ''))", Some("[x, \"a\", $kept9]")),
            (r"return parseFloat(x.a.b.split(' ')[0].trim())", Some("[x, \"a\", \"b\", $kept9]")),
            (r"return +String(x.a ?? '0').slice(1)", Some("[x, \"a\", $kept9]")),
            (r"l.map(({ a }) => Number(a.replace('$', '')))", Some("[a, $kept9]")),
            (r"return Number(x.a.replace('.', ''))", None),
            (r"return Number(x.a.replace(/,/g, ''))", None),
            (r"return Number(x.a.replace(/\D/g, ''))", None),
            (r"return Number(x.a.replace(/[^\d]/g, ''))", None),
            (r"return Number(x.a.slice(0, 4))", None),
            (r"return Number(x.a.split(':')[0])", None),
            (r"return Number(x.a)", None),
            (r"return Number(f().replace('$', ''))", None),
        ];
        for (code, expected) in table {
            let code = format!("mcp; {code}");
            let javascript = compile(&code, "agent.ts", Probes::Insert).unwrap().javascript;
            let javascript = javascript.replace("[\n\t\t", "[").replace(",\n\t\t", ", ").replace("\n\t]", "]");
            assert_eq!(javascript.contains(FLAG), expected.is_some(), "{code} became {javascript}");
            assert!(javascript.contains(expected.unwrap_or_default()), "{code} became {javascript}");
        }
    }
}
