//! The tool calls that can be read off a program, for the host to check before anything runs.
//!
//! A call is *certain* if it is made whenever the program gets that far, and if nothing in the
//! program can handle its failure: the host may then refuse the whole program for it. So whatever is
//! in doubt is not certain. The walk goes in the order of the text, which for what is certain is the
//! order of execution.

use oxc::{
    ast::{AstKind, ast::*},
    ast_visit::Visit,
    semantic::{Scoping, SymbolId},
    span::{GetSpan, Span},
};
use pml_wire::{
    id::RESERVED_NAMES,
    message::{MAX_PREFLIGHT_CALLS, PreflightCall},
};

use serde_json::{Map, Value};

use super::Source;

/// Functions that programs look for on `mcp`, and find there unless a server is called so.
const LOOKED_FOR: [&str; 6] = ["callTool", "call", "callToolsBatch", "searchTools", "listTools", "list_tools"];
/// By these a program could reach the global object and put another `mcp` there.
const WAYS_TO_THE_GLOBALS: [&str; 3] = ["globalThis", "eval", "Function"];

/// Bytes of values that are written out in one call, about. Longer ones are checked when the call is made.
const MAX_VALUE_BYTES: usize = 4096;
const MAX_VALUE_DEPTH: usize = 16;

/// Finds the calls in `program`, as it was parsed. Walks it only if it can name a tool at all.
pub(super) fn find<'a>(program: &oxc::ast::ast::Program<'a>, scoping: &Scoping, source: &Source) -> Vec<PreflightCall> {
    let globals = scoping.root_unresolved_references();
    let uses = globals.get("mcp");
    let is_replaced = uses.into_iter().flatten().any(|id| scoping.get_reference(*id).is_write());
    let calls = Calls::of(program, scoping);
    if is_replaced || (uses.is_none() && calls.call_tool.is_none() && !globals.contains_key("pml")) {
        return Vec::new();
    }
    let mut finder = Finder {
        named: calls,
        source,
        calls: Vec::new(),
        handed_over: Vec::new(),
        functions: 0,
        branches: 0,
        ends: 0,
        is_mcp_ours: !WAYS_TO_THE_GLOBALS.iter().any(|name| globals.contains_key(*name)),
    };
    finder.visit_program(program);
    finder.calls
}

/// What a function of the module "pml" is called in the program: an import, or taken out of the global `pml`.
fn imported(program: &oxc::ast::ast::Program<'_>, function: &str) -> Option<SymbolId> {
    let imports = program.body.iter().filter_map(|statement| match statement {
        Statement::ImportDeclaration(import) if import.source.value == "pml" => import.specifiers.as_ref(),
        _ => None,
    });
    let imported = imports.flatten().find_map(|specifier| match specifier {
        ImportDeclarationSpecifier::ImportSpecifier(it) if it.imported.name() == function => it.local.symbol_id.get(),
        _ => None,
    });
    let declarators = || {
        let declarations = program.body.iter().filter_map(|statement| match statement {
            Statement::VariableDeclaration(it) if it.kind.is_const() => Some(&it.declarations),
            _ => None,
        });
        declarations.flatten()
    };
    imported.or_else(|| {
        let taken = declarators().filter(|it| it.init.as_ref().is_some_and(|init| init.is_specific_id("pml")));
        let mut patterns = taken.filter_map(|it| match &it.id {
            BindingPattern::ObjectPattern(pattern) => Some(&pattern.properties),
            _ => None,
        });
        patterns.find_map(|properties| {
            let property = properties.iter().find(|it| it.key.is_specific_static_name(function))?;
            property.value.get_binding_identifier()?.symbol_id.get()
        })
    })
}

/// Which calls of a program are calls of tools.
pub(super) struct Calls<'s> {
    scoping: &'s Scoping,
    /// What the program calls `callTool` and `result` of the module "pml".
    call_tool: Option<SymbolId>,
    result: Option<SymbolId>,
}

impl<'s> Calls<'s> {
    pub(super) fn of(program: &oxc::ast::ast::Program<'_>, scoping: &'s Scoping) -> Calls<'s> {
        Calls { scoping, call_tool: imported(program, "callTool"), result: imported(program, "result") }
    }
}

impl<'a> Calls<'_> {
    /// The tool that a call names, and its arguments.
    pub(super) fn read<'e>(&self, call: &'e CallExpression<'a>) -> Option<(String, Option<&'e Argument<'a>>)> {
        match self.is_own(&call.callee, "callTool", self.call_tool) {
            true => Some((call.arguments.first().and_then(text)?, call.arguments.get(1))),
            false => Some((self.tool(&call.callee)?, call.arguments.first())),
        }
    }

    /// Is this the function that reads a kept result?
    pub(super) fn is_recall(&self, callee: &Expression<'a>) -> bool {
        self.is_own(callee, "result", self.result)
    }

    fn is_call_tool(&self, callee: &Expression<'a>) -> bool {
        self.is_own(callee, "callTool", self.call_tool)
    }

    /// Is this a function of the module "pml"?
    fn is_own(&self, callee: &Expression<'a>, function: &str, imported: Option<SymbolId>) -> bool {
        let is_method = member(callee).is_some_and(|(pml, name)| name == function && self.is_global(pml, "pml"));
        is_method || imported.is_some() && self.symbol(callee) == imported
    }

    fn is_global(&self, value: &Expression<'a>, name: &str) -> bool {
        matches!(value.get_inner_expression(), Expression::Identifier(it) if it.name == name)
            && self.symbol(value).is_none()
    }

    /// What a name stands for, if the program declares it.
    fn symbol(&self, value: &Expression<'a>) -> Option<SymbolId> {
        let Expression::Identifier(name) = value.get_inner_expression() else { return None };
        self.scoping.get_reference(name.reference_id.get()?).symbol_id()
    }

    /// The target of `mcp.server.tool`; of `mcp.tool`, which is none, the name.
    fn tool(&self, callee: &Expression<'a>) -> Option<String> {
        let (server_object, tool) = member(callee)?;
        if self.is_global(server_object, "mcp") {
            let is_tool = !RESERVED_NAMES.contains(&tool) && !LOOKED_FOR.contains(&tool);
            return is_tool.then(|| tool.to_owned());
        }
        let (mcp, server) = member(server_object)?;
        let is_tool = self.is_global(mcp, "mcp") && ![server, tool].iter().any(|name| RESERVED_NAMES.contains(name));
        is_tool.then(|| format!("{server}:{tool}"))
    }
}

struct Finder<'s> {
    named: Calls<'s>,
    source: &'s Source,
    calls: Vec<PreflightCall>,
    /// Calls whose promise goes straight to the program, so that its failure is the program's.
    handed_over: Vec<Span>,
    /// Functions and the like around the current place.
    functions: usize,
    /// What may leave out the current place, around it.
    branches: usize,
    /// Places so far at which the program may have ended.
    ends: usize,
    /// Nothing can have replaced `mcp`.
    is_mcp_ours: bool,
}

impl<'a> Finder<'_> {
    fn is_certain(&self) -> bool {
        self.functions == 0 && self.branches == 0 && self.ends == 0 && self.is_mcp_ours
    }

    /// Notes that the promise of `value` goes straight to the program; or the promises in it, if it
    /// is `Promise.all([…])`.
    fn hand_over(&mut self, value: &Expression<'a>) {
        let Expression::CallExpression(call) = value.get_inner_expression() else { return };
        if !self.is_promise_all(&call.callee) {
            self.handed_over.push(call.span);
        } else if let Some(Argument::ArrayExpression(array)) = call.arguments.first() {
            let elements = array.elements.iter().filter_map(ArrayExpressionElement::as_expression);
            self.handed_over.extend(elements.map(|element| element.get_inner_expression().span()));
        }
    }

    fn is_promise_all(&self, callee: &Expression<'a>) -> bool {
        member(callee).is_some_and(|(object, name)| name == "all" && self.named.is_global(object, "Promise"))
    }

    fn visit_call(&mut self, call: &CallExpression<'a>) {
        if self.calls.len() == MAX_PREFLIGHT_CALLS {
            return;
        }
        let Some((target, arguments)) = self.named.read(call) else { return };
        let Keys { sure, perhaps, values, is_open } = keys(arguments);
        let position = self.source.position(call.span.start);
        self.calls.push(PreflightCall {
            target,
            keys: sure,
            perhaps,
            values,
            is_open,
            // `callTool` answers a failure, and does not throw it.
            is_certain: !self.named.is_call_tool(&call.callee)
                && self.is_certain()
                && self.handed_over.contains(&call.span),
            line: u32::try_from(position.line).unwrap_or(u32::MAX),
            column: u32::try_from(position.column).unwrap_or(u32::MAX),
            frame: self.source.frame(position),
        });
    }

    /// Visits what may be left out.
    fn visit_branch(&mut self, visit: impl FnOnce(&mut Self)) {
        self.branches += 1;
        visit(self);
        self.branches -= 1;
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        match kind {
            AstKind::CallExpression(it) => self.visit_call(it),
            AstKind::AwaitExpression(it) if self.is_certain() => self.hand_over(&it.argument),
            AstKind::ReturnStatement(it) if self.is_certain() => {
                it.argument.iter().for_each(|value| self.hand_over(value));
            }
            _ => {}
        }
        self.functions += usize::from(is_function(kind));
        self.branches += usize::from(is_branch(kind));
    }

    fn leave_node(&mut self, kind: AstKind<'a>) {
        self.functions -= usize::from(is_function(kind));
        self.branches -= usize::from(is_branch(kind));
        if matches!(kind, AstKind::ReturnStatement(_) | AstKind::ThrowStatement(_)) && self.functions == 0 {
            self.ends += 1;
        }
    }

    fn visit_if_statement(&mut self, it: &IfStatement<'a>) {
        self.visit_expression(&it.test);
        self.visit_branch(|finder| {
            finder.visit_statement(&it.consequent);
            it.alternate.iter().for_each(|it| finder.visit_statement(it));
        });
    }

    fn visit_conditional_expression(&mut self, it: &ConditionalExpression<'a>) {
        self.visit_expression(&it.test);
        self.visit_branch(|finder| {
            finder.visit_expression(&it.consequent);
            finder.visit_expression(&it.alternate);
        });
    }

    fn visit_logical_expression(&mut self, it: &LogicalExpression<'a>) {
        self.visit_expression(&it.left);
        self.visit_branch(|finder| finder.visit_expression(&it.right));
    }

    fn visit_try_statement(&mut self, it: &TryStatement<'a>) {
        let first = self.calls.len();
        self.visit_block_statement(&it.block);
        let tried = first..self.calls.len();
        it.handler.iter().for_each(|it| self.visit_catch_clause(it));
        // A `finally` that ends the program drops the failure.
        let ends = self.ends;
        it.finalizer.iter().for_each(|it| self.visit_block_statement(it));
        if it.handler.is_some() || self.ends > ends {
            self.calls[tried].iter_mut().for_each(|call| call.is_certain = false);
        }
    }
}

/// Does a `return` in there end something other than the program?
fn is_function(kind: AstKind<'_>) -> bool {
    use AstKind::*;
    matches!(kind, Function(_) | ArrowFunctionExpression(_) | Class(_) | TSModuleBlock(_))
}

/// May what stands in there be left out, or come at another time?
fn is_branch(kind: AstKind<'_>) -> bool {
    use AstKind::*;
    match kind {
        SwitchStatement(_) | WhileStatement(_) | DoWhileStatement(_) | ForStatement(_) => true,
        ForInStatement(_) | ForOfStatement(_) | LabeledStatement(_) | CatchClause(_) | ChainExpression(_) => true,
        // Default values.
        AssignmentPattern(_) | AssignmentTargetWithDefault(_) | AssignmentTargetPropertyIdentifier(_) => true,
        AssignmentExpression(it) => it.operator.is_logical(),
        _ => false,
    }
}

/// The object and the name of `object.name` or `object["name"]`.
pub(super) fn member<'e, 'a>(value: &'e Expression<'a>) -> Option<(&'e Expression<'a>, &'e str)> {
    let member = match value.get_inner_expression() {
        Expression::ChainExpression(chain) => chain.expression.as_member_expression(),
        value => value.as_member_expression(),
    }?;
    Some((member.object(), member.static_property_name()?))
}

/// The text of an argument that is written out.
fn text(argument: &Argument<'_>) -> Option<String> {
    match argument.as_expression()?.get_inner_expression() {
        Expression::StringLiteral(text) => Some(text.value.to_string()),
        Expression::TemplateLiteral(text) => text.single_quasi().map(|text| text.to_string()),
        _ => None,
    }
}

/// The names of arguments.
#[derive(Default)]
struct Keys {
    sure: Vec<String>,
    /// Those whose value may turn out to be none.
    perhaps: Vec<String>,
    /// Those whose value is written out.
    values: Map<String, Value>,
    /// There may be more.
    is_open: bool,
}

fn keys(arguments: Option<&Argument<'_>>) -> Keys {
    let mut keys = Keys::default();
    let mut left = MAX_VALUE_BYTES;
    let Some(arguments) = arguments else { return keys };
    let Some(Expression::ObjectExpression(object)) = arguments.as_expression().map(Expression::get_inner_expression)
    else {
        return Keys { is_open: true, ..keys };
    };
    for property in &object.properties {
        let ObjectPropertyKind::ObjectProperty(property) = property else {
            keys.is_open = true;
            continue;
        };
        match property.key.static_name().as_deref() {
            // What it returns is sent instead.
            None | Some("toJSON") => keys.is_open = true,
            // Not a property but the prototype, which is not sent; nor is what is undefined.
            Some("__proto__") if !property.computed && !property.shorthand => {}
            Some(_) if property.value.get_inner_expression().is_undefined() => {}
            Some(name) => {
                // Of two with the same name, the last counts.
                keys.values.remove(name);
                match literal(&property.value, &mut left, 0) {
                    Some(value) => {
                        keys.sure.push(name.to_owned());
                        keys.values.insert(name.to_owned(), value);
                    }
                    None if is_sent(property.value.get_inner_expression()) => keys.sure.push(name.to_owned()),
                    None => keys.perhaps.push(name.to_owned()),
                }
            }
        }
    }
    // What is spread or computed may replace what is written out.
    if keys.is_open {
        keys.values.clear();
    }
    keys
}

/// The value of an expression that is written out whole, as it is sent. Takes from the bytes that are left.
pub(super) fn literal(value: &Expression<'_>, left: &mut usize, depth: usize) -> Option<Value> {
    if depth > MAX_VALUE_DEPTH {
        return None;
    }
    let mut text = |text: &str| {
        *left = left.checked_sub(text.len())?;
        Some(Value::from(text))
    };
    match value.get_inner_expression() {
        Expression::StringLiteral(it) if !it.lone_surrogates => text(&it.value),
        Expression::TemplateLiteral(it) => it.single_quasi().and_then(|quasi| text(&quasi)),
        Expression::NumericLiteral(it) => number(it.value),
        Expression::UnaryExpression(it) if it.operator == UnaryOperator::UnaryNegation => match &it.argument {
            Expression::NumericLiteral(it) => number(-it.value),
            _ => None,
        },
        Expression::BooleanLiteral(it) => Some(it.value.into()),
        Expression::NullLiteral(_) => Some(Value::Null),
        Expression::ArrayExpression(it) => {
            *left = left.checked_sub(it.elements.len())?;
            let items = it.elements.iter().map(|element| literal(element.as_expression()?, left, depth + 1));
            items.collect::<Option<Vec<_>>>().map(Value::from)
        }
        Expression::ObjectExpression(it) => {
            let mut members = Map::new();
            for property in &it.properties {
                let ObjectPropertyKind::ObjectProperty(property) = property else { return None };
                let name = property.key.static_name()?;
                *left = left.checked_sub(name.len() + 1)?;
                // The one is called, the other is no property.
                if ["toJSON", "__proto__"].contains(&&*name) {
                    return None;
                }
                if property.value.get_inner_expression().is_undefined() {
                    members.remove(&*name);
                    continue;
                }
                members.insert(name.into_owned(), literal(&property.value, left, depth + 1)?);
            }
            Some(members.into())
        }
        _ => None,
    }
}

/// A number as JSON has it.
fn number(value: f64) -> Option<Value> {
    const MAX_SAFE: f64 = 9_007_199_254_740_991.0;
    match value.fract() == 0.0 && value.abs() <= MAX_SAFE {
        true => Some((value as i64).into()),
        false => serde_json::Number::from_f64(value).map(Value::from),
    }
}

/// Is this a value that JSON has, whatever the program does?
fn is_sent(value: &Expression<'_>) -> bool {
    matches!(
        value,
        Expression::StringLiteral(_)
            | Expression::NumericLiteral(_)
            | Expression::BooleanLiteral(_)
            | Expression::NullLiteral(_)
            | Expression::BigIntLiteral(_)
            | Expression::TemplateLiteral(_)
            | Expression::ArrayExpression(_)
            | Expression::ObjectExpression(_)
            | Expression::BinaryExpression(_)
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Probes, compile};

    /// The calls of a program, each as `line target(keys)`, with `?` behind a key that may be missing,
    /// `…` if the call is open and `!` if it is certain.
    fn calls(code: &str) -> Vec<String> {
        let program = compile(code, "agent.ts", Probes::Insert).unwrap();
        let show = |call: &super::PreflightCall| {
            let open = if call.is_open { "…" } else { "" };
            let certain = if call.is_certain { "!" } else { "" };
            let perhaps = call.perhaps.iter().map(|key| format!("{key}?"));
            let keys: Vec<_> = call.keys.iter().cloned().chain(perhaps).collect();
            format!("{} {}({}{open}){certain}", call.line, call.target, keys.join(","))
        };
        program.calls.iter().map(show).collect()
    }

    #[test]
    fn values_that_are_written_out_are_read_off() {
        let long = "x".repeat(5000);
        #[rustfmt::skip]
        let table = [
            ("{ a: 1, b: -1.5, c: 'x', d: `y`, e: true, f: null }",     r#"{"a":1,"b":-1.5,"c":"x","d":"y","e":true,"f":null}"#),
            ("{ a: [1, ['x']], b: { c: { d: 1e3 } } }",                 r#"{"a":[1,["x"]],"b":{"c":{"d":1000}}}"#),
            ("{ a: ('x' as const)!, 'b c': 0x10, b: { x: undefined } }", r#"{"a":"x","b":{},"b c":16}"#),
            // What is computed, or is something else when it is sent.
            ("{ a: x, b: x + 1, c: `${x}`, d: [x], e: { x }, f: 1n, g: -x, h: [, 1], i: [...x], j: { ...x } }", "{}"),
            ("{ a: { toJSON: 1 }, b: { __proto__: 1 }, c: { get x() { return 1 } }, d: '\\ud800', e: undefined }", "{}"),
            ("{ a: 1, a: x }",                                          "{}"),
            ("{ a: x, a: 1 }",                                          r#"{"a":1}"#),
            ("{ a: 1, ...x }",                                          "{}"),
            ("{ a: 1, [x]: 2 }",                                        "{}"),
            ("x",                                                       "{}"),
            (&*format!("{{ a: 1, b: '{long}', c: 2 }}"),                r#"{"a":1,"c":2}"#),
        ];
        for (arguments, expected) in table {
            let code = format!("let x: any; await mcp.a.b({arguments})");
            let program = compile(&code, "agent.ts", Probes::Insert).unwrap();
            let values = serde_json::Value::from(program.calls[0].values.clone());
            assert_eq!(values, serde_json::from_str::<serde_json::Value>(expected).unwrap(), "{arguments}");
        }
    }

    #[test]
    fn calls_are_read_off_the_program() {
        #[rustfmt::skip]
        let table: &[(&str, &[&str])] = &[
            // How a call is written.
            ("await mcp.a.b()", &["1 a:b()!"]),
            ("\n  await mcp.a.b({ x: 1, 'y z': 2, [`w`]: 3, f() {} })", &["2 a:b(x,y z,w,f?)!"]),
            ("await mcp['a'][`b c`]({ x })", &["1 a:b c(x?)!"]),
            ("await (mcp as any).a!.b<T>({ x } as const)", &["1 a:b(x?)!"]),
            ("await mcp.a.b({ ...x, y: 1 })", &["1 a:b(y…)!"]),
            ("await mcp.a.b({ [x]: 1 })", &["1 a:b(…)!"]),
            ("await mcp.a.b(x)", &["1 a:b(…)!"]),
            ("await mcp.a.b(...x)", &["1 a:b(…)!"]),
            ("await mcp.a.b({ __proto__: x, y: undefined })", &["1 a:b()!"]),
            ("await mcp.a.b({ toJSON: f })", &["1 a:b(…)!"]),
            ("await mcp?.a.b()", &["1 a:b()"]),
            ("await (mcp.a?.b)({ x })", &["1 a:b(x?)!"]),
            // What is none.
            ("return mcp.a", &[]),
            ("return mcp.then()", &[]),
            ("mcp.a.toString(); mcp.name.b(); mcp.a.b.call(1)", &[]),
            ("await mcp[a].b(); await mcp.a[b]()", &[]),
            ("const mcp = { a: { b() {} } }; await mcp.a.b()", &[]),
            ("function f(mcp: any) { return mcp.a.b() } await mcp.c.d()", &["1 c:d()!"]),
            ("mcp = {}; await mcp.a.b()", &[]),
            ("callTool('a:b')", &[]),
            ("const s = 'mcp.a.b()' // mcp.a.b()", &[]),
            // `callTool` answers failures.
            ("import { callTool as c } from 'pml'; await c('a:b', { x: 1 })", &["1 a:b(x)"]),
            ("import { callTool } from 'pml'; await callTool(`a:b`); await callTool(x, {})", &["1 a:b()"]),
            ("import { callTool } from 'pml'; function f(callTool) { callTool('a:b') } f(1)", &[]),
            // Where the promise goes.
            ("return mcp.a.b()", &["1 a:b()!"]),
            ("mcp.a.b()", &["1 a:b()!"]),
            ("mcp.a.b(); 1", &["1 a:b()"]),
            ("const p = mcp.a.b(); await p", &["1 a:b()"]),
            ("await mcp.a.b().catch(f)", &["1 a:b()"]),
            ("await mcp.a.b().then(f)", &["1 a:b()"]),
            ("await Promise.all([mcp.a.b(), (mcp.c.d()), ...e])", &["1 a:b()!", "1 c:d()!"]),
            ("return Promise.all([mcp.a.b(), f(mcp.c.d())])", &["1 a:b()!", "1 c:d()"]),
            ("await Promise.allSettled([mcp.a.b()])", &["1 a:b()"]),
            ("await Promise.all(x.map(() => mcp.a.b()))", &["1 a:b()"]),
            ("class Promise { static all() {} } await Promise.all([mcp.a.b()])", &["1 a:b()"]),
            ("const { x } = await mcp.a.b(), [y] = (await mcp.c.d()).e", &["1 a:b()!", "1 c:d()!"]),
            ("await mcp.a.b({ x: await mcp.c.d() })", &["1 a:b(x?)!", "1 c:d()!"]),
            ("f(`${await mcp.a.b()}`, [await mcp.c.d()])", &["1 a:b()!", "1 c:d()!"]),
            ("export const x = await mcp.a.b()", &["1 a:b()!"]),
            ("export default await mcp.a.b()", &["1 a:b()!"]),
            ("async () => { const x = await mcp.a.b(); return x }", &["1 a:b()!"]),
            ("(async () => { await mcp.a.b() })()", &["1 a:b()!"]),
            ("async function main() { await mcp.a.b() }", &["1 a:b()"]),
            ("mcp.a.b(); export default 1", &["1 a:b()"]),
            ("export default 1; mcp.a.b()", &["1 a:b()"]),
            // Whether it is made.
            ("async function f() { await mcp.a.b() } await mcp.c.d()", &["1 a:b()", "1 c:d()!"]),
            ("const f = async () => { return mcp.a.b() }; const g = () => mcp.c.d()", &["1 a:b()", "1 c:d()"]),
            ("class A { async f() { await mcp.a.b() } }", &["1 a:b()"]),
            ("if (await mcp.a.b()) await mcp.c.d(); else await mcp.e.f()", &["1 a:b()!", "1 c:d()", "1 e:f()"]),
            ("(await mcp.a.b()) ? await mcp.c.d() : 1", &["1 a:b()!", "1 c:d()"]),
            ("(await mcp.a.b()) ?? await mcp.c.d()", &["1 a:b()!", "1 c:d()"]),
            ("x ||= await mcp.a.b(); y += await mcp.c.d()", &["1 a:b()", "1 c:d()!"]),
            ("switch (1) { case 1: await mcp.a.b() }", &["1 a:b()"]),
            ("for (const x of y) await mcp.a.b(x)", &["1 a:b(…)"]),
            ("while (x) { await mcp.a.b() }", &["1 a:b()"]),
            ("{ await mcp.a.b() }", &["1 a:b()!"]),
            ("l: { if (x) break l; await mcp.a.b() } await mcp.c.d()", &["1 a:b()", "1 c:d()!"]),
            ("const { x = await mcp.a.b() } = y; ({ z = await mcp.c.d() } = y); [w = await mcp.e.f()] = y", &["1 a:b()", "1 c:d()", "1 e:f()"]),
            ("x?.[await mcp.a.b()]", &["1 a:b()"]),
            ("if (x) return; await mcp.a.b()", &["1 a:b()"]),
            ("if (x) throw 1; await mcp.a.b()", &["1 a:b()"]),
            ("return await mcp.a.b(); await mcp.c.d()", &["1 a:b()!", "1 c:d()"]),
            ("const f = () => { return 1 }; await mcp.a.b()", &["1 a:b()!"]),
            // Whether its failure is handled.
            ("try { await mcp.a.b() } catch { await mcp.c.d() } await mcp.e.f()", &["1 a:b()", "1 c:d()", "1 e:f()!"]),
            ("try { await mcp.a.b() } finally { await mcp.c.d() }", &["1 a:b()!", "1 c:d()!"]),
            ("try { await mcp.a.b() } finally { return 1 }", &["1 a:b()"]),
            ("try { if (x) return } finally { await mcp.a.b() }", &["1 a:b()"]),
            ("try { try { await mcp.a.b() } finally {} } catch {}", &["1 a:b()"]),
            // Whether `mcp` is ours.
            ("globalThis.mcp = x; await mcp.a.b()", &["1 a:b()"]),
            ("globalThis.x = 1; try {} finally { await mcp.a.b() }", &["1 a:b()"]),
            ("eval('mcp = x'); await mcp.a.b()", &["1 a:b()"]),
        ];
        for (code, expected) in table {
            assert_eq!(calls(code), *expected, "{code}");
        }
    }

    #[test]
    fn a_call_is_shown_where_the_agent_wrote_it() {
        let program = compile("type T = 1\nconst é = await mcp.a.b()", "x.ts", Probes::Insert).unwrap();
        let [call] = &program.calls[..] else { panic!("{:?}", program.calls) };
        assert_eq!((call.line, call.column), (2, 17));
        assert_eq!(call.frame, "x.ts:2:17\n  1 | type T = 1\n> 2 | const é = await mcp.a.b()\n    |                 ^");
    }

    #[test]
    fn no_more_are_named_than_the_host_takes() {
        let code = "await mcp.a.b();\n".repeat(super::MAX_PREFLIGHT_CALLS + 1);
        assert_eq!(calls(&code).len(), super::MAX_PREFLIGHT_CALLS);
    }
}
