//! Promises where a value is meant: `if (isOpen())` with an async `isOpen` is always true.
//!
//! A promise counts as true, equals nothing and has no property of the value that it will have, so a program that forgot
//! `await` goes on with a wrong value. What is certain to be a promise (a call of an async function of the program, of a tool, of
//! `Promise.all`, and a constant that holds one) is refused where only a value can be meant, before anything of the program
//! runs.

use std::collections::HashSet;

use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    semantic::{Scoping, SymbolId},
    span::{GetSpan, Span},
};
use pml_wire::{ErrorCode, message::ErrorReport};

use super::Source;

/// Functions of `"pml"` that give promises.
const ASYNC_EXPORTS: [&str; 8] = [
    "callTool",
    "callToolsBatch",
    "searchTools",
    "executeWorkflow",
    "readResource",
    "listResources",
    "getPrompt",
    "result",
];
/// Methods of arrays that ask a callback for true or false.
const PREDICATES: [&str; 7] = ["filter", "some", "every", "find", "findIndex", "findLast", "findLastIndex"];
/// What is wrong with a promise that is tested.
const TRUE: &str = "which always counts as true";
/// What a promise has.
const MEMBERS: [&str; 8] =
    ["then", "catch", "finally", "constructor", "toString", "valueOf", "hasOwnProperty", "toLocaleString"];

/// Refuses the first promise of `program` that is used as a value.
pub(super) fn refuse(
    program: &oxc::ast::ast::Program<'_>,
    scoping: &Scoping,
    source: &Source,
) -> Result<(), Box<ErrorReport>> {
    let mut promises = Promises { scoping, functions: HashSet::new(), constants: HashSet::new() };
    promises.visit_program(program);
    // A constant may hold what a function gives that is declared behind it.
    promises.visit_program(program);
    let mut finder = Finder { promises, found: None };
    finder.visit_program(program);
    let Some(Found { span, what, fix }) = finder.found else { return Ok(()) };
    let text = span.source_text(source.code());
    let shown = if text.len() <= 60 && !text.contains('\n') { text } else { "…" };
    let hint = match fix {
        Fix::Await => format!("write `await {shown}`"),
        Fix::Member(name) => format!("write `(await {shown}).{name}`"),
        Fix::Flags(method) => format!(
            "first `const flags = await Promise.all(list.map(…))` with this function, then `list.{method}((_, i) => flags[i])`"
        ),
    };
    Err(Box::new(ErrorReport {
        hint: Some(hint),
        ..source.report(ErrorCode::UnsupportedSyntax, format!("`{shown}` is a promise, {what}"), span.start)
    }))
}

/// What is known to be a promise, or to give one.
struct Promises<'s> {
    scoping: &'s Scoping,
    functions: HashSet<SymbolId>,
    constants: HashSet<SymbolId>,
}

impl Promises<'_> {
    fn symbol(&self, name: &IdentifierReference<'_>) -> Option<SymbolId> {
        self.scoping.get_reference(name.reference_id.get()?).symbol_id()
    }

    /// Does the name stand for the global of that name?
    fn is_global(&self, value: &Expression<'_>, global: &str) -> bool {
        matches!(value.get_inner_expression(), Expression::Identifier(it) if it.name == global && self.symbol(it).is_none())
    }

    fn has(&self, value: &Expression<'_>) -> bool {
        match value.get_inner_expression() {
            Expression::Identifier(it) => self.symbol(it).is_some_and(|symbol| self.constants.contains(&symbol)),
            Expression::CallExpression(it) if !it.optional => self.gives(&it.callee),
            Expression::NewExpression(it) => self.is_global(&it.callee, "Promise"),
            _ => false,
        }
    }

    /// Does a call of this give a promise?
    fn gives(&self, callee: &Expression<'_>) -> bool {
        let callee = callee.get_inner_expression();
        if let Expression::Identifier(it) = callee {
            return self.symbol(it).is_some_and(|symbol| self.functions.contains(&symbol));
        }
        let Some((object, name)) =
            callee.as_member_expression().and_then(|it| Some((it.object(), it.static_property_name()?)))
        else {
            return false;
        };
        if self.is_global(object, "Promise") {
            return matches!(name, "all" | "allSettled" | "any" | "race" | "resolve" | "reject" | "try");
        }
        if self.is_global(object, "pml") {
            return ASYNC_EXPORTS.contains(&name);
        }
        let server = object.get_inner_expression().as_member_expression();
        let is_tool = server.is_some_and(|it| self.is_global(it.object(), "mcp"));
        is_tool || matches!(name, "then" | "catch" | "finally") && self.has(object)
    }
}

fn is_async(value: &Expression<'_>) -> bool {
    match value.get_inner_expression() {
        Expression::ArrowFunctionExpression(it) => it.r#async,
        Expression::FunctionExpression(it) => it.r#async && !it.generator,
        _ => false,
    }
}

impl<'a> Visit<'a> for Promises<'_> {
    fn visit_function(&mut self, it: &Function<'a>, flags: oxc::syntax::scope::ScopeFlags) {
        if let Some(id) = it.id.as_ref().filter(|_| it.r#async && !it.generator)
            && let Some(symbol) = id.symbol_id.get().filter(|symbol| !self.scoping.symbol_is_mutated(*symbol))
        {
            self.functions.insert(symbol);
        }
        walk::walk_function(self, it, flags);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let (BindingPattern::BindingIdentifier(id), Some(value)) = (&it.id, &it.init)
            && let Some(symbol) = id.symbol_id.get().filter(|symbol| !self.scoping.symbol_is_mutated(*symbol))
        {
            if is_async(value) {
                self.functions.insert(symbol);
            } else if self.has(value) {
                self.constants.insert(symbol);
            }
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_import_specifier(&mut self, it: &ImportSpecifier<'a>) {
        if ASYNC_EXPORTS.contains(&it.imported.name().as_str())
            && let Some(symbol) = it.local.symbol_id.get()
        {
            self.functions.insert(symbol);
        }
    }
}

/// A promise that is used as a value.
struct Found {
    span: Span,
    what: &'static str,
    fix: Fix,
}

/// What to write instead.
enum Fix {
    Await,
    /// The property that is read of it.
    Member(String),
    /// The method whose callback gives it.
    Flags(String),
}

struct Finder<'s> {
    promises: Promises<'s>,
    /// The first that was found.
    found: Option<Found>,
}

impl Finder<'_> {
    fn find(&mut self, value: &Expression<'_>, what: &'static str, fix: Fix) {
        if self.found.is_none() && self.promises.has(value) {
            self.found = Some(Found { span: value.get_inner_expression().span(), what, fix });
        }
    }

    fn check(&mut self, value: &Expression<'_>, what: &'static str) {
        self.find(value, what, Fix::Await);
    }

    fn check_test(&mut self, value: &Expression<'_>) {
        self.check(value, TRUE);
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_if_statement(&mut self, it: &IfStatement<'a>) {
        self.check_test(&it.test);
        walk::walk_if_statement(self, it);
    }

    fn visit_while_statement(&mut self, it: &WhileStatement<'a>) {
        self.check_test(&it.test);
        walk::walk_while_statement(self, it);
    }

    fn visit_do_while_statement(&mut self, it: &DoWhileStatement<'a>) {
        self.check_test(&it.test);
        walk::walk_do_while_statement(self, it);
    }

    fn visit_conditional_expression(&mut self, it: &ConditionalExpression<'a>) {
        self.check_test(&it.test);
        walk::walk_conditional_expression(self, it);
    }

    fn visit_logical_expression(&mut self, it: &LogicalExpression<'a>) {
        match it.operator {
            LogicalOperator::Coalesce => self.check(&it.left, "which is never null or undefined"),
            _ => self.check_test(&it.left),
        }
        walk::walk_logical_expression(self, it);
    }

    fn visit_unary_expression(&mut self, it: &UnaryExpression<'a>) {
        if it.operator == UnaryOperator::LogicalNot {
            self.check_test(&it.argument);
        }
        walk::walk_unary_expression(self, it);
    }

    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        let is_comparison = it.operator.is_equality() || it.operator.is_compare();
        // Two promises may be asked whether they are the same.
        if is_comparison && !(self.promises.has(&it.left) && self.promises.has(&it.right)) {
            self.check(&it.left, "which equals no other value");
            self.check(&it.right, "which equals no other value");
        }
        walk::walk_binary_expression(self, it);
    }

    fn visit_switch_statement(&mut self, it: &SwitchStatement<'a>) {
        self.check(&it.discriminant, "which equals no other value");
        walk::walk_switch_statement(self, it);
    }

    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        let name = it.property.name.as_str();
        if !MEMBERS.contains(&name) && !is_constant(&it.object) {
            self.find(&it.object, "which has no such property", Fix::Member(name.to_owned()));
        }
        walk::walk_static_member_expression(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if it.id.is_object_pattern()
            && let Some(value) = &it.init
        {
            self.check(value, "which has none of these properties");
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_object_expression(&mut self, it: &ObjectExpression<'a>) {
        for property in &it.properties {
            if let ObjectPropertyKind::SpreadProperty(it) = property {
                self.check(&it.argument, "which has no properties to take over");
            }
        }
        walk::walk_object_expression(self, it);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        let method = it.callee.as_member_expression().and_then(|it| it.static_property_name());
        if let Some(method) = method.filter(|name| PREDICATES.contains(name))
            && let Some(Expression::ArrowFunctionExpression(arrow)) =
                it.arguments.first().and_then(Argument::as_expression)
            && let Some(value) = arrow.body.as_expression()
        {
            self.find(value, TRUE, Fix::Flags(method.to_owned()));
        }
        walk::walk_call_expression(self, it);
    }
}

/// A program may give a promise that it keeps a property of its own.
fn is_constant(value: &Expression<'_>) -> bool {
    matches!(value.get_inner_expression(), Expression::Identifier(_))
}

#[cfg(test)]
mod tests {
    use crate::transpile::{Probes, compile};

    #[test]
    fn a_promise_is_refused_where_a_value_is_meant() {
        let refused = [
            ("async function f() {} if (f()) {}", "`f()`"),
            ("if (!f()) {} async function f() {}", "`f()`"),
            ("const f = async () => 1; const x = f() ? 1 : 2", "`f()`"),
            ("const f = async () => 1; while (f()) {}", "`f()`"),
            ("const p = mcp.a.b({}); if (p) {}", "`p`"),
            ("const p = mcp.a.b({}) || []", "`mcp.a.b({})`"),
            ("const p = mcp.a['b-c']({}) ?? []", "`mcp.a['b-c']({})`"),
            ("if (mcp.a.b({}) === 1) {}", "`mcp.a.b({})`"),
            ("const { items } = mcp.a.b({})", "`mcp.a.b({})`"),
            ("import { callTool } from 'pml'; const { result } = callTool('a:b', {})", "`callTool('a:b', {})`"),
            ("const all = Promise.all([]); if (all) {}", "`all`"),
            ("const o = { ...mcp.a.b({}) }", "`mcp.a.b({})`"),
            ("switch (mcp.a.b({})) {}", "`mcp.a.b({})`"),
            ("if (mcp.a.b({}).then((x) => x)) {}", "`mcp.a.b({}).then((x) => x)`"),
        ];
        for (code, shown) in refused {
            let error = *compile(code, "agent.ts", Probes::Insert).unwrap_err();
            assert!(error.message.starts_with(shown), "{code}: {error:?}");
            assert_eq!(error.hint, Some(format!("write `await {}`", shown.trim_matches('`'))), "{code}");
        }
        let hinted = [
            ("const n = mcp.a.b({}).items.length", "write `(await mcp.a.b({})).items`"),
            (
                "async function has(x) {} const kept = [1].filter((x) => has(x))",
                "then `list.filter((_, i) => flags[i])`",
            ),
        ];
        for (code, part) in hinted {
            let hint = compile(code, "agent.ts", Probes::Insert).unwrap_err().hint.unwrap();
            assert!(hint.contains(part), "{code}: {hint}");
        }
        let accepted = [
            "async function f() {} if (await f()) {}",
            "async function* f() {} const g = f(); g.next()",
            "let p; if (args) p = mcp.a.b({}); if (p) await p",
            "const p = mcp.a.b({}); return p.then((x) => x)",
            "const p = mcp.a.b({}); p.label = 1; return p.label",
            "const f = (mcp) => { if (mcp.a.b()) return 1 }; return f(args)",
            "const a = mcp.a.b({}), b = mcp.a.b({}); return a === b",
            "const f = async () => 1; if (f) return f()",
            "const ps = [1].map((x) => mcp.a.b({ x })); return Promise.all(ps)",
            "const r = (await mcp.a.b({})).items ?? []; return r",
            "async function f() {} function g(f) { if (f()) return 1 } return g(args)",
        ];
        for code in accepted {
            assert!(compile(code, "agent.ts", Probes::Insert).is_ok(), "{code}");
        }
    }
}
