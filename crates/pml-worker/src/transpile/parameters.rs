//! Makes a program that worked once into one that takes parameters.
//!
//! A value that is written out as an argument of a tool call becomes a parameter, named after the property that it fills:
//! `mcp.fs.read({ path: "a.txt" })` becomes `mcp.fs.read({ path: args.path })`, with `"a.txt"` as its default. The text of the
//! program stays as it is otherwise. Nothing else becomes a parameter: no name of a property, no part of a template, no value
//! that the program itself computes with.
//!
//! **Invariant:** the new program does with the defaults what the old one did. Where that is in doubt (the program declares
//! another `args`, assigns to it, or uses it whole), nothing is changed.

use std::collections::BTreeMap;

use oxc::{
    allocator::Allocator,
    ast::{AstKind, ast::*},
    ast_visit::Visit,
    semantic::Scoping,
    span::{GetSpan, SourceType, Span},
};
use pml_wire::message::{AnalysedParameter, Analysis, ErrorReport, MAX_PARAMETERS};
use serde_json::Value;

use super::{
    Source,
    compile::{Probes, compile, parse, resolve},
    preflight::{Calls, literal},
};

/// The global that parameters are taken from.
const ARGS: &str = "args";
/// Longest value that becomes a parameter, in bytes. Longer ones are content, not parameters.
const MAX_VALUE_BYTES: usize = 1000;
/// How deeply objects in arguments are looked into.
const MAX_DEPTH: usize = 4;

/// Reads a program, or says what is wrong with it.
pub(crate) fn analyse(code: &str, name: &str) -> Result<Analysis, Box<ErrorReport>> {
    let mut program = compile(code, name, Probes::Omit)?;
    let text = program.source.code();
    let allocator = Allocator::default();
    let parsed = parse(&allocator, text, SourceType::ts());
    let mut analysis = Analysis { code: text.trim_end().to_owned(), ..Analysis::default() };
    analysis.calls = std::mem::take(&mut program.calls);
    // What only reads as an expression has no calls in statements; it stays as it is.
    if !parsed.diagnostics.is_empty() {
        analysis.uses_args_whole = text.contains(ARGS);
        return Ok(analysis);
    }
    let Ok(scoping) = resolve(&parsed.program) else { return Ok(analysis) };
    let mut reader = Reader::new(&parsed.program, &scoping, &program.source);
    reader.visit_program(&parsed.program);
    let Reader { own, is_args_plain, member_spans, recalls, places, .. } = reader;
    analysis.recalls = recalls;
    analysis.arguments = own.keys().cloned().collect();
    analysis.optional = own.iter().filter(|(_, need)| **need == Need::Optional).map(|(name, _)| name.clone()).collect();
    let references = scoping.root_unresolved_references().get(ARGS).map_or(0, |uses| uses.len());
    analysis.uses_args_whole = references > member_spans;
    let is_declared = scoping.symbol_names().any(|symbol| symbol == ARGS);
    if is_args_plain && !is_declared && !analysis.uses_args_whole {
        let (code, parameters) = rewrite(text, places, &own);
        (analysis.code, analysis.parameters) = (code.trim_end().to_owned(), parameters);
    }
    Ok(analysis)
}

/// Does the program need a value of `args`?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Required,
    /// It has another value in its place.
    Optional,
}

/// A value that may become a parameter.
struct Place {
    span: Span,
    property: String,
    value: Value,
    line: u32,
}

struct Reader<'s, 'a> {
    calls: Calls<'s>,
    source: &'s Source,
    scoping: &'s Scoping,
    /// Names of `args` that the program reads.
    own: BTreeMap<String, Need>,
    /// Nothing assigns to `args` or to a part of it.
    is_args_plain: bool,
    /// Uses of `args` that read one name of it.
    member_spans: usize,
    /// Lines that read a kept result.
    recalls: Vec<u32>,
    places: Vec<Place>,
    marker: std::marker::PhantomData<&'a ()>,
}

impl<'s, 'a> Reader<'s, 'a> {
    fn new(program: &oxc::ast::ast::Program<'a>, scoping: &'s Scoping, source: &'s Source) -> Reader<'s, 'a> {
        let uses = scoping.root_unresolved_references().get(ARGS);
        let is_written = uses.into_iter().flatten().any(|id| scoping.get_reference(*id).is_write());
        Reader {
            calls: Calls::of(program, scoping),
            source,
            scoping,
            own: BTreeMap::new(),
            is_args_plain: !is_written,
            member_spans: 0,
            recalls: Vec::new(),
            places: Vec::new(),
            marker: std::marker::PhantomData,
        }
    }

    fn line(&self, span: Span) -> u32 {
        u32::try_from(self.source.position(span.start).line).unwrap_or(u32::MAX)
    }

    fn is_args(&self, value: &Expression<'a>) -> bool {
        let Expression::Identifier(name) = value.get_inner_expression() else { return false };
        let reference = name.reference_id.get();
        name.name == ARGS && reference.is_some_and(|id| self.scoping.get_reference(id).symbol_id().is_none())
    }

    /// The name of `args` that an expression reads.
    fn argument(&self, value: &Expression<'a>) -> Option<String> {
        match value.get_inner_expression() {
            Expression::StaticMemberExpression(it) if self.is_args(&it.object) => Some(it.property.name.to_string()),
            Expression::ComputedMemberExpression(it) if self.is_args(&it.object) => {
                it.static_property_name().map(|name| name.to_string())
            }
            _ => None,
        }
    }

    fn read_object(&mut self, object: &ObjectExpression<'a>, depth: usize) {
        // What is spread may say something about the same names.
        if depth > MAX_DEPTH || object.properties.iter().any(|it| matches!(it, ObjectPropertyKind::SpreadProperty(_))) {
            return;
        }
        for property in &object.properties {
            let ObjectPropertyKind::ObjectProperty(property) = property else { continue };
            let is_plain = property.kind == PropertyKind::Init && !property.method && !property.computed;
            let Some(name) = property.key.static_name().filter(|_| is_plain) else { continue };
            if matches!(&*name, "__proto__" | "toJSON" | "constructor" | "prototype") {
                continue;
            }
            match property.value.get_inner_expression() {
                Expression::ObjectExpression(inner) => self.read_object(inner, depth + 1),
                value => {
                    let mut left = MAX_VALUE_BYTES;
                    if let Some(found) = literal(value, &mut left, 0).filter(is_parameter) {
                        let span = property.value.span();
                        let (property, line) = (name.into_owned(), self.line(span));
                        self.places.push(Place { span, property, value: found, line });
                    }
                }
            }
        }
    }
}

/// A text, a number, a boolean, or a list of these.
fn is_parameter(value: &Value) -> bool {
    let is_plain = |value: &Value| matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_));
    is_plain(value) || value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(is_plain))
}

impl<'a> Visit<'a> for Reader<'_, 'a> {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        match kind {
            AstKind::CallExpression(call) => {
                if self.calls.is_recall(&call.callee) {
                    self.recalls.push(self.line(call.span));
                }
                let arguments = self.calls.read(call).and_then(|(_, arguments)| arguments);
                let arguments = arguments.and_then(Argument::as_expression).map(Expression::get_inner_expression);
                if let Some(Expression::ObjectExpression(object)) = arguments {
                    self.read_object(object, 0);
                }
            }
            AstKind::StaticMemberExpression(it) if self.is_args(&it.object) => {
                self.own.entry(it.property.name.to_string()).or_insert(Need::Required);
                self.member_spans += 1;
            }
            AstKind::ComputedMemberExpression(it) if self.is_args(&it.object) => {
                if let Some(name) = it.static_property_name() {
                    self.own.entry(name.to_string()).or_insert(Need::Required);
                    self.member_spans += 1;
                }
            }
            AstKind::VariableDeclarator(it) if it.init.as_ref().is_some_and(|init| self.is_args(init)) => {
                if let BindingPattern::ObjectPattern(pattern) = &it.id
                    && pattern.rest.is_none()
                {
                    let read = |it: &BindingProperty<'a>| {
                        let has_default = matches!(it.value, BindingPattern::AssignmentPattern(_));
                        let need = if has_default { Need::Optional } else { Need::Required };
                        Some((it.key.static_name()?.into_owned(), need))
                    };
                    let names: Option<Vec<_>> = pattern.properties.iter().map(read).collect();
                    if let Some(names) = names {
                        self.own.extend(names);
                        self.member_spans += 1;
                    }
                }
            }
            AstKind::LogicalExpression(it) if it.operator != LogicalOperator::And => {
                if let Some(name) = self.argument(&it.left) {
                    self.own.insert(name, Need::Optional);
                }
            }
            // A part of `args` that is changed is not what was given any more.
            AstKind::AssignmentExpression(it) => {
                let target = it.left.as_member_expression().map(MemberExpression::object);
                self.is_args_plain &= !target.is_some_and(|object| self.is_args(object));
            }
            _ => {}
        }
    }
}

/// The text with parameters in the place of values, and the parameters.
fn rewrite(text: &str, mut places: Vec<Place>, own: &BTreeMap<String, Need>) -> (String, Vec<AnalysedParameter>) {
    places.sort_by_key(|place| place.span.start);
    let mut parameters: Vec<AnalysedParameter> = Vec::new();
    let mut code = String::with_capacity(text.len());
    let mut end = 0;
    for Place { span, property, value, line } in places {
        let (start, stop) = (span.start as usize, span.end as usize);
        if start < end {
            continue;
        }
        let known = parameters.iter().find(|known| known.property == property && known.value == value);
        let name = match known {
            Some(known) => known.name.clone(),
            None if parameters.len() >= MAX_PARAMETERS => continue,
            None => {
                let is_free = |name: &str| !own.contains_key(name) && parameters.iter().all(|it| it.name != name);
                let numbered = (2_u32..).map(|number| format!("{property}{number}"));
                let name = std::iter::once(property.clone()).chain(numbered).find(|name| is_free(name));
                let Some(name) = name else { continue };
                parameters.push(AnalysedParameter { name: name.clone(), property, value, line });
                name
            }
        };
        code.push_str(&text[end..start]);
        code.push_str(&access(&name));
        end = stop;
    }
    code.push_str(&text[end..]);
    (code, parameters)
}

/// How a program reads one name of `args`.
fn access(name: &str) -> String {
    let mut bytes = name.bytes();
    let is_identifier = bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_' || first == b'$')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$');
    match is_identifier {
        true => format!("{ARGS}.{name}"),
        false => format!("{ARGS}[{}]", Value::from(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code, the parameters as `name=value`, and the names that the program reads itself.
    fn check(code: &str) -> (String, Vec<String>, Vec<String>) {
        let analysis = analyse(code, "agent.ts").unwrap();
        let parameters = analysis.parameters.iter().map(|it| format!("{}={}", it.name, it.value)).collect();
        (analysis.code, parameters, analysis.arguments)
    }

    #[test]
    fn values_of_arguments_become_parameters() {
        #[rustfmt::skip]
        let table = [
            ("return await mcp.fs.read({ path: 'a.txt' })",          "return await mcp.fs.read({ path: args.path })",         "path=\"a.txt\""),
            ("return await mcp['fs'].read({ 'path': `a` })",         "return await mcp['fs'].read({ 'path': args.path })",    "path=\"a\""),
            ("import { callTool } from 'pml'; return callTool('fs:read', { n: -5 })", "import { callTool } from 'pml'; return callTool('fs:read', { n: args.n })", "n=-5"),
            ("return pml.callTool('fs:read', { n: 1.5, on: true })", "return pml.callTool('fs:read', { n: args.n, on: args.on })", "n=1.5 on=true"),
            ("return mcp.gh.find({ q: { state: 'open' }, l: ['a', 'b'] })", "return mcp.gh.find({ q: { state: args.state }, l: args.l })", "state=\"open\" l=[\"a\",\"b\"]"),
            // The same value of the same property is one parameter, another value is another.
            ("await mcp.a.b({ p: 'x' }); await mcp.a.c({ p: 'x' }); return mcp.a.d({ p: 'y' })", "await mcp.a.b({ p: args.p }); await mcp.a.c({ p: args.p }); return mcp.a.d({ p: args.p2 })", "p=\"x\" p2=\"y\""),
            // Names that the program has already are left to it.
            ("return mcp.a.b({ p: args.p, q: { p: 'x' } })",         "return mcp.a.b({ p: args.p, q: { p: args.p2 } })",      "p2=\"x\""),
            ("const { p } = args; return mcp.a.b({ q: p, p: 1 })",   "const { p } = args; return mcp.a.b({ q: p, p: args.p2 })", "p2=1"),
            ("return mcp.a.b({ 'x-y': 1 })",                         "return mcp.a.b({ 'x-y': args[\"x-y\"] })",              "x-y=1"),
            ("return mcp.a.b({ p: 'x' as const })",                  "return mcp.a.b({ p: args.p })",                         "p=\"x\""),
        ];
        for (code, expected, parameters) in table {
            let (actual, found, _) = check(code);
            assert_eq!((actual.as_str(), found.join(" ").as_str()), (expected, parameters), "{code}");
        }
    }

    #[test]
    fn what_is_no_plain_argument_stays() {
        let long = format!("return mcp.a.b({{ p: '{}' }})", "x".repeat(2000));
        for code in [
            "return 1 + 2",
            "const x = 'a'; return mcp.a.b({ p: x })",
            "return mcp.a.b({ p: `a${1}` })",
            "return mcp.a.b({ ['p']: 'x' })",
            "return mcp.a.b({ ...{ p: 'x' }, p: 'y' })",
            "return mcp.a.b({ p: null })",
            "return mcp.a.b({ p: [{ q: 1 }] })",
            "return other.a.b({ p: 'x' })",
            "const mcp = { a: { b: (x: any) => x } }; return mcp.a.b({ p: 'x' })",
            "return mcp.a.b({ __proto__: 'x' })",
            "if (1 > 0) { return Object.keys(args) } return mcp.a.b({ p: 'x' })",
            "return mcp.a.b({ p: 'x', rest: args })",
            "args.p = 1; return mcp.a.b({ p: 'x' })",
            "const args = { p: 1 }; return mcp.a.b({ p: 'x' })",
            "function f(args: any) { return mcp.a.b({ p: 'x' }) } return f(1)",
            "const { p, ...rest } = args; return mcp.a.b({ p: 'x' })",
            long.as_str(),
        ] {
            assert_eq!((check(code).0.as_str(), check(code).1.len()), (code, 0), "{code}");
        }
    }

    #[test]
    fn uses_of_args_and_of_kept_results_are_found() {
        let (_, _, own) = check("const { a } = args; return args.b + args['c']");
        assert_eq!(own, ["a", "b", "c"]);
        assert!(analyse("return f(args); function f(x: any) { return x }", "a.ts").unwrap().uses_args_whole);
        assert!(!analyse("return args.x", "a.ts").unwrap().uses_args_whole);
        let optional = |code: &str| analyse(code, "a.ts").unwrap().optional.join(" ");
        assert_eq!(optional("return [args.a ?? 10, args['b'] || 'x', args.c, args.d && 1]"), "a b");
        assert_eq!(optional("const { a = 1, b } = args; return a + b"), "a");
        assert_eq!(optional("const l = args.a ?? 1; return l + args.a"), "a");
        let calls = analyse("return await mcp.fs.read({ path: 'a' })", "a.ts").unwrap().calls;
        assert_eq!(calls.iter().map(|call| call.target.as_str()).collect::<Vec<_>>(), ["fs:read"]);
        let recalls = |code: &str| analyse(code, "a.ts").unwrap().recalls;
        assert_eq!(recalls("const x = 1;\nreturn await pml.result('r_1')"), [2]);
        assert_eq!(recalls("import { result } from 'pml';\n\nreturn await result('r_1')"), [3]);
        assert_eq!(recalls("const result = (x: string) => x; return result('r_1')"), [0_u32; 0]);
    }

    #[test]
    fn a_program_that_is_none_says_where() {
        let report = analyse("return mcp.a.b({ p: ", "agent.ts").unwrap_err();
        assert!(report.frame.is_some(), "{report:?}");
        assert!(analyse("  ", "agent.ts").is_err());
    }
}
