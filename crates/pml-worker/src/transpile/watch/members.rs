//! Looks at what is looked for in a Set, Map or list, together with where it is looked for: the number 501 is in no Set of texts.
//!
//! `done.has(p.id)` becomes `done.has($watchMember0 ? ($kept5 = p.id, $watchMember0 = $probe(0, [done, $kept5]), $kept5) : p.id)`.
//! So what stands in front of the method is read a second time: it must be a name, or a chain of them. Of a chain, `d.subjects`, the
//! names are given (`[d, "subjects", $kept5]`), so that no getter of the program runs twice.

use std::collections::HashSet;

use oxc::{
    allocator::CloneIn,
    ast::ast::*,
    ast_visit::{Visit, VisitMut, walk, walk_mut},
    span::{GetSpan, SPAN},
};

use super::{
    looker::Looker,
    names::Names,
    places::{is_field, is_read, literal, unwatched},
    watched::{Literal, Usage, Way},
};
use crate::transpile::{
    pen::Pen,
    probe::{Branch, excerpt},
};

/// How the variables that turn a look off begin.
const FLAG: &str = "$watchMember";

/// Looks at the values of `program`.
pub(in crate::transpile) fn watch<'a>(
    program: &mut oxc::ast::ast::Program<'a>,
    pen: &Pen<'a>,
    names: &Names<'a>,
    branches: &mut Vec<Branch>,
) {
    let mut loops = Loops::default();
    loops.visit_program(program);
    let mut watcher = Watcher { names, loops, looker: Looker::new(pen, FLAG, branches) };
    watcher.visit_program(program);
    watcher.looker.declare(program);
}

/// Variables of loops, each of which is an element of a list.
#[derive(Default)]
struct Loops<'a>(HashSet<&'a str>);

impl<'a> Visit<'a> for Loops<'a> {
    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        if let ForStatementLeft::VariableDeclaration(declaration) = &it.left {
            let ids = declaration.declarations.iter().filter_map(|it| it.id.get_binding_identifier());
            self.0.extend(ids.map(|id| id.name.as_str()));
        }
        walk::walk_for_of_statement(self, it);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        let method = it.callee.as_member_expression().and_then(|member| member.static_property_name());
        if let Some(Argument::ArrowFunctionExpression(callback)) = it.arguments.first()
            && matches!(method, Some("forEach" | "filter" | "map" | "flatMap"))
            && let Some(id) = callback.params.items.first().and_then(|it| it.pattern.get_binding_identifier())
        {
            self.0.insert(id.name.as_str());
        }
        walk::walk_call_expression(self, it);
    }
}

struct Watcher<'a, 'b> {
    names: &'b Names<'a>,
    loops: Loops<'a>,
    looker: Looker<'a, 'b>,
}

impl<'a> Watcher<'a, '_> {
    /// Looks at a value beside another one, which is read a second time.
    fn look_at_both(&mut self, value: &mut Expression<'a>, other: &Expression<'a>, way: Way) {
        let pen = self.looker.pen;
        let usage = Usage::Among { way, other: excerpt(pen.text, other.span()) };
        let mut path = Vec::new();
        add_path(pen, other, &mut path);
        self.looker.look_at_beside(value, path, usage);
    }

    fn is_looked_for(&self, value: &Expression<'a>) -> bool {
        value.is_identifier_reference() || is_read(value, self.names) || is_field(value) || is_converted(value)
    }
}

impl<'a> VisitMut<'a> for Watcher<'a, '_> {
    fn visit_call_expression(&mut self, it: &mut CallExpression<'a>) {
        walk_mut::walk_call_expression(self, it);
        let Expression::StaticMemberExpression(member) = &it.callee else { return };
        let way = match member.property.name.as_str() {
            "has" => Way::Has,
            "get" => Way::Get,
            "includes" => Way::Includes,
            "indexOf" => Way::IndexOf,
            "add" => Way::Add,
            _ => return,
        };
        let receiver = unwatched(&member.object);
        let [argument] = &mut it.arguments[..] else { return };
        let Some(argument) = argument.as_expression_mut().filter(|_| is_path(receiver)) else { return };
        let value = unwatched(argument).get_inner_expression();
        let is_meant = match way {
            Way::Add => value.get_identifier_reference().is_some_and(|id| self.loops.0.contains(id.name.as_str())),
            _ => self.is_looked_for(value),
        };
        if is_meant {
            self.look_at_both(argument, receiver, way);
        }
    }

    /// `"Botany" in d.subjects`
    fn visit_binary_expression(&mut self, it: &mut BinaryExpression<'a>) {
        walk_mut::walk_binary_expression(self, it);
        if it.operator != BinaryOperator::In {
            return;
        }
        let left = unwatched(&it.left);
        let is_meant = match literal(left) {
            Some(literal) => matches!(literal, Literal::Text(_) | Literal::Number(_)),
            None => is_path(left) && is_read(left, self.names),
        };
        if is_meant && is_path(unwatched(&it.right)) {
            self.look_at_both(&mut it.right, left, Way::In);
        }
    }
}

/// The first name of a chain, and the names of the properties behind it. What is no chain is its own.
pub(super) fn add_path<'a>(pen: &Pen<'a>, value: &Expression<'a>, path: &mut Vec<Expression<'a>>) {
    let (object, name) = match value.get_inner_expression() {
        Expression::StaticMemberExpression(it) => {
            (&it.object, Expression::new_string_literal(SPAN, it.property.name, None, &pen.builder))
        }
        Expression::ComputedMemberExpression(it) => (&it.object, it.expression.clone_in(pen.allocator)),
        value => return path.push(value.clone_in(pen.allocator)),
    };
    add_path(pen, object, path);
    path.push(name);
}

/// Is this a name or a chain of names, which can be read twice? Not a tool of a server.
pub(super) fn is_path(value: &Expression<'_>) -> bool {
    match value.get_inner_expression() {
        Expression::Identifier(it) => it.name != "mcp",
        Expression::ThisExpression(_) => true,
        Expression::StaticMemberExpression(it) => is_path(&it.object),
        Expression::ComputedMemberExpression(it) => {
            is_path(&it.object) && (it.expression.is_literal() || it.expression.is_identifier_reference())
        }
        _ => false,
    }
}

/// `String(x.id)`, `Number(x.id)`, `` `${x.id}` ``
fn is_converted(value: &Expression<'_>) -> bool {
    match value {
        Expression::CallExpression(it) => {
            matches!(it.callee_name(), Some("String" | "Number")) && it.callee.is_identifier_reference()
        }
        Expression::TemplateLiteral(it) => it.expressions.len() == 1,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::transpile::{Probes, compile};

    #[test]
    fn what_is_looked_for_is_looked_at_beside_where_it_is_looked_for() {
        let watched = |value: &str, other: &str| {
            let look = format!("$kept5 = {value}, $watchMember0 = $probe(0, [{other}, $kept5]), $kept5");
            format!("$watchMember0 ? ({look}) : {value}")
        };
        #[rustfmt::skip]
        let table = [
            ("l.map((x) => s.list.includes(x))", Some(format!("s.list.includes({})", watched("x", "s, \"list\"")))),
            ("l.map((x) => s[i].list.includes(x))", Some(format!("s[i].list.includes({})", watched("x", "s, i, \"list\"")))),
            ("m.get(String(x.id))", Some(format!("m.get({})", watched("String(x.id)", "m")))),
            ("return 'a' in x.tags", Some(format!("return \"a\" in ({})", watched("x.tags", "\"a\"")))),
            ("for (const x of l) s.add(x)", Some(format!("s.add({})", watched("x", "s")))),
            ("return mcp.a.get(x.id)", None),
            ("return f().has(x.id)", None),
            ("const x = {}; s.add(x)", None),
            ("return f() in x.tags", None),
        ];
        for (code, expected) in table {
            let code = format!("mcp; {code}");
            let javascript = compile(&code, "agent.ts", Probes::Insert).unwrap().javascript;
            // A list of several is written in lines.
            let javascript = javascript.replace("[\n\t\t", "[").replace(",\n\t\t", ", ").replace("\n\t]", "]");
            match expected {
                Some(expected) => assert!(javascript.contains(&expected), "{code} became {javascript}, not {expected}"),
                None => assert!(!javascript.contains("$watchMember"), "{code} became {javascript}"),
            }
        }
    }
}
