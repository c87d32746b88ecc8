//! Looks at lists whose indexes a program takes for names, although their variable is called as an index may be: `key`, `p`.
//!
//! `for (const p in list) names.push(p)`, `Object.keys(list)` and `Object.entries(list).map(([key, item]) => key)`. Whoever
//! indexes the list, counts, or makes numbers of the keys knows what they are.

use std::collections::HashSet;

use oxc::{
    ast::ast::*,
    ast_visit::{VisitMut, walk_mut},
    span::{GetSpan, Span},
};

use super::{looker::Looker, members::is_path, uses::is_name, watched::Usage};
use crate::transpile::{pen::Pen, probe::Branch};

/// How the variables that turn a look off begin.
const FLAG: &str = "$watchKey";
/// Names in [`super::uses`] that may be those of properties.
const PROPERTIES: [&str; 5] = ["key", "prop", "property", "field", "attr"];

/// Looks at the lists of `program`.
pub(in crate::transpile) fn watch<'a>(
    program: &mut oxc::ast::ast::Program<'a>,
    pen: &Pen<'a>,
    branches: &mut Vec<Branch>,
) {
    let mut watcher = Watcher { right: HashSet::new(), looker: Looker::new(pen, FLAG, branches) };
    watcher.visit_program(program);
    watcher.looker.declare(program);
}

struct Watcher<'a, 'b> {
    /// Where the calls of `Object.keys` and `Object.entries` begin that take indexes for what they are, or are told already.
    right: HashSet<u32>,
    looker: Looker<'a, 'b>,
}

/// What is taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    Keys,
    Entries,
}

fn parts(call: &CallExpression<'_>) -> Option<Parts> {
    match &call.callee {
        callee if callee.is_specific_member_access("Object", "keys") => Some(Parts::Keys),
        callee if callee.is_specific_member_access("Object", "entries") => Some(Parts::Entries),
        _ => None,
    }
}

impl<'a> Watcher<'a, '_> {
    fn text(&self, span: Span) -> &'a str {
        span.source_text(self.looker.pen.text)
    }

    /// Judges `Object.keys(list)` by the variable that holds a key, and by what is done with it.
    fn judge(&mut self, call: &mut Expression<'a>, pattern: &BindingPattern<'a>, body: Span) {
        let Expression::CallExpression(call) = call else { return };
        let Some(parts) = parts(call) else { return };
        let name = match (parts, pattern) {
            (Parts::Entries, BindingPattern::ArrayPattern(it)) => {
                it.elements.first().and_then(|it| it.as_ref()?.get_identifier_name())
            }
            (Parts::Entries, _) => None,
            (Parts::Keys, pattern) => pattern.get_identifier_name(),
        };
        // This call is judged here.
        self.right.insert(call.span.start);
        let Some(name) = name.filter(|name| !is_name(name.as_str()) && is_property(name.as_str())) else { return };
        let (name, body) = (name.as_str(), self.text(body));
        let is_wrong = match parts {
            Parts::Keys => is_mentioned(body, name) && !is_indexed(body, name),
            Parts::Entries => is_kept(body, name) && !is_number(body, name),
        };
        if is_wrong {
            self.look_at(call, name);
        }
    }

    fn look_at(&mut self, call: &mut CallExpression<'a>, name: &str) {
        if let [argument] = &mut call.arguments[..]
            && let Some(list) = argument.as_expression_mut()
            && is_path(list)
            && !self.looker.pen.text.contains(&format!("{}[", self.text(list.span())))
        {
            self.looker.look_at(list, Usage::Indexed(name.to_owned()));
        }
    }
}

impl<'a> VisitMut<'a> for Watcher<'a, '_> {
    fn visit_for_in_statement(&mut self, it: &mut ForInStatement<'a>) {
        walk_mut::walk_for_in_statement(self, it);
        let ForStatementLeft::VariableDeclaration(declaration) = &it.left else { return };
        let Some(name) = declaration.declarations.first().and_then(|it| it.id.get_identifier_name()) else { return };
        let (name, body) = (name.as_str(), self.text(it.body.span()));
        let is_wrong = (is_name(name) || is_property(name))
            && is_mentioned(body, name)
            && (!is_indexed(body, name) || is_alternative(body, name));
        if is_wrong && is_path(&it.right) {
            self.looker.look_at(&mut it.right, Usage::Indexed(name.to_owned()));
        }
    }

    fn visit_for_of_statement(&mut self, it: &mut ForOfStatement<'a>) {
        if let ForStatementLeft::VariableDeclaration(declaration) = &it.left
            && let Some(declarator) = declaration.declarations.first()
        {
            self.judge(&mut it.right, &declarator.id, it.body.span());
        }
        walk_mut::walk_for_of_statement(self, it);
    }

    /// `const keys = Object.keys(list)`, which may be counted later.
    fn visit_variable_declarator(&mut self, it: &mut VariableDeclarator<'a>) {
        if let (BindingPattern::BindingIdentifier(id), Some(Expression::CallExpression(call))) = (&it.id, &it.init) {
            let (name, text) = (id.name.as_str(), self.looker.pen.text);
            let is_counted = text.contains(&format!("{name}.length")) || text.contains(&format!("{name}["));
            if is_counted || text.contains(&format!("of {name})")) {
                self.right.insert(call.span.start);
            }
        }
        walk_mut::walk_variable_declarator(self, it);
    }

    /// `Object.keys(list).length`
    fn visit_static_member_expression(&mut self, it: &mut StaticMemberExpression<'a>) {
        if it.property.name == "length" {
            self.right.insert(it.object.span().start);
        }
        walk_mut::walk_static_member_expression(self, it);
    }

    fn visit_call_expression(&mut self, it: &mut CallExpression<'a>) {
        let parts = parts(it);
        if let Expression::StaticMemberExpression(member) = &mut it.callee
            && parts.is_none()
        {
            let place = usize::from(member.property.name == "reduce");
            let is_search = matches!(member.property.name.as_str(), "includes" | "indexOf" | "join");
            let parameters = match it.arguments.first() {
                Some(Argument::ArrowFunctionExpression(callback)) => Some((&callback.params, callback.span)),
                Some(Argument::FunctionExpression(callback)) => Some((&callback.params, callback.span)),
                _ => None,
            };
            match parameters.map(|(parameters, body)| (parameters.items.get(place), body)) {
                Some((Some(parameter), body)) => self.judge(&mut member.object, &parameter.pattern, body),
                // `Object.keys(list).map(Number)`, and what does not look at the keys.
                Some((None, _)) => drop(self.right.insert(member.object.span().start)),
                None if matches!(it.arguments.first(), Some(Argument::Identifier(_))) && !is_search => {
                    self.right.insert(member.object.span().start);
                }
                None => {}
            }
        }
        if parts == Some(Parts::Keys) && !it.span.is_empty() && self.right.insert(it.span.start) {
            self.look_at(it, "");
        }
        walk_mut::walk_call_expression(self, it);
    }
}

/// May a variable that is called so be the name of a property?
fn is_property(name: &str) -> bool {
    PROPERTIES.contains(&name) || name.len() == 1 && !matches!(name, "i" | "j" | "n" | "_")
}

fn is_mentioned(body: &str, name: &str) -> bool {
    let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
    // Behind an arrow stands what is done with the parameter.
    let body = body.split_once("=>").map_or(body, |(_, body)| body);
    body.split(|it| !is_part(it)).any(|word| word == name)
}

/// Is a key used as an index, or a property read of it, of which there is a warning already?
fn is_indexed(body: &str, name: &str) -> bool {
    let forms = ["[@]", "@.", "@?.", "@ ==", "@ !=", "@ <", "@ >", "@ %", "@ *", "@ -"];
    forms.iter().any(|form| body.contains(&form.replace('@', name))) || is_number(body, name)
}

/// Is a key taken in place of a property of it, which it never has: `p.name ?? p`?
fn is_alternative(body: &str, name: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|it: char| it.is_alphanumeric() || matches!(it, '_' | '$' | '[' | '.'));
    let is_taken = ["??", "||"].iter().any(|operator| {
        let taken = format!("{operator} {name}");
        body.match_indices(&taken).any(|(at, _)| is_end(&body[at + taken.len()..]))
    });
    is_taken && !body.contains(&format!("[{name}]")) && !is_number(body, name)
}

/// Is a key made a number?
fn is_number(body: &str, name: &str) -> bool {
    ["Number(@", "parseInt(@", "+@", "~~@"].iter().any(|form| body.contains(&form.replace('@', name)))
}

/// Is a key kept as a value: added to a list or Set, or made the key of an object?
fn is_kept(body: &str, name: &str) -> bool {
    let forms = [".add(@)", ".push(@)", ".set(@,", "[@] = ", "[@]:", "{ @,", "{ @ }", "=> @)", "=> [@,"];
    body.split_once("=>").is_some_and(|(_, rest)| rest.trim() == name)
        || forms.iter().any(|form| body.contains(&form.replace('@', name)))
}

#[cfg(test)]
mod tests {
    use crate::transpile::{Probes, compile};

    #[test]
    fn lists_whose_indexes_are_taken_for_names_are_looked_at() {
        #[rustfmt::skip]
        let table = [
            ("for (const p in x.list) names.push(p)", true),
            ("return Object.keys(x.list)", true),
            ("const { tags } = x; return Object.keys(tags)", true),
            ("return Object.keys(x).includes(y)", true),
            ("return Object.keys(x.list).join()", true),
            ("return Object.keys(x).map((k) => `- ${k}`)", true),
            ("for (const [key, item] of Object.entries(x)) s.add(key)", true),
            ("return Object.entries(x).map(([key]) => key)", true),
            ("for (const p in list) names.push(p.name ?? p)", true),
            ("for (const p in list) names.push(list[p].name ?? p)", false),
            ("for (const p in list) names.push(list[p])", false),
            ("for (const p in list) names.push(Number(p) + 1)", false),
            ("for (const i in list) names.push(i)", false),
            ("for (const p in list) count++", false),
            ("return Object.keys(x.list).length", false),
            ("return Object.keys(x.list).map(Number)", false),
            ("return Object.keys(x).filter((k) => x[k])", false),
            ("const keys = Object.keys(x); return keys.length", false),
            ("for (const [key, item] of Object.entries(x)) s.push(`${key}: ${item}`)", false),
            ("return Object.entries(x)", false),
        ];
        for (code, expected) in table {
            let code = format!("mcp; {code}");
            let javascript = compile(&code, "agent.ts", Probes::Insert).unwrap().javascript;
            assert_eq!(javascript.contains("$watchKey"), expected, "{code} became {javascript}");
        }
    }
}
