//! The way from the text of a program to what the engine runs: parse, normalise, transform, wrap, print.

use oxc::{
    allocator::{Allocator, ArenaVec},
    ast::{
        AstKind,
        ast::{Expression, Statement},
    },
    ast_visit::Visit,
    codegen::{Codegen, CodegenOptions, CommentOptions},
    diagnostics::{Diagnostics, OxcDiagnostic},
    parser::{ParseOptions, Parser, ParserReturn},
    semantic::{Scoping, SemanticBuilder},
    span::{GetSpan, SourceType},
    transformer::{TransformOptions, Transformer},
};
use oxc_sourcemap::SourceMap;
use pml_wire::{
    ErrorCode,
    message::{ErrorReport, PreflightCall},
};

use super::{
    entry, fence,
    fence::Unfenced,
    namespace,
    pen::Pen,
    preflight, probe,
    probe::Branch,
    raw_text,
    shape::{self, Shaped},
    source::{Mapped, Source},
    sums, syntax_advice, unawaited, unfit, unreturned, watch, wrap,
};

/// What `import … from "pml"` can name.
pub(crate) const MODULE_EXPORTS: [&str; 12] = [
    "searchTools",
    "callTool",
    "callToolsBatch",
    "executeWorkflow",
    "readResource",
    "listResources",
    "getPrompt",
    "progress",
    "result",
    "ToolError",
    "ResultHandle",
    "mcp",
];

/// The name the engine knows the program by.
pub(crate) const ENGINE_FILE: &str = "agent.ts";

/// A program ready for the engine.
#[derive(Debug)]
pub(crate) struct Program {
    /// The text of the expression.
    pub(crate) javascript: String,
    /// The agent's text, and the way back to it.
    pub(crate) source: Source,
    /// The branches that carry a probe; a probe names one by its index.
    pub(crate) branches: Vec<Branch>,
    /// The tool calls that can be read off it.
    pub(crate) calls: Vec<PreflightCall>,
    /// What the agent should know about how the program was read.
    pub(crate) warnings: Vec<String>,
    /// What to say if the run ends without a value.
    pub(crate) unreturned: Option<String>,
}

/// Whether branches are to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probes {
    Insert,
    Omit,
}

/// Compiles `code`, or says what is wrong with it in the agent's own lines.
pub(crate) fn compile(code: &str, name: &str, probes: Probes) -> Result<Program, Box<ErrorReport>> {
    let mut source = Source::new(code.strip_prefix('\u{feff}').unwrap_or(code), name, probes);
    let mut warnings = Vec::new();
    if let Some(code) = fence::without_tags(source.text()) {
        source.set_code(code);
    } else if has_fence(source.text()) {
        match fence::remove(source.text()) {
            Unfenced::Plain => {}
            Unfenced::Code { code, has_prose } => {
                source.set_code(code);
                if has_prose {
                    warnings.push("only the code inside of the fence was run, not the text around it".to_owned());
                }
            }
            Unfenced::Several { second } => {
                let what = "the text has several code blocks, and it cannot be told which is the program";
                return Err(Box::new(ErrorReport {
                    hint: Some("send the code of one program, without fences and without prose".to_owned()),
                    ..source.report(ErrorCode::UnsupportedSyntax, what, second)
                }));
            }
        }
    }
    if source.code().trim().is_empty() {
        let report = ErrorReport::new(ErrorCode::CodeEmpty, "there is no code to run");
        return Err(Box::new(report.with_hint("send at least one statement, such as `return 1`")));
    }
    let options = if may_call(source.code()) { with_map() } else { CodegenOptions::default() };
    let output = translate(&source, probes, options)?;
    let Output { javascript, branches, calls, unreturned, map, warnings: more } = output;
    warnings.extend(more);
    if let Some(map) = map {
        source.set_map(Mapped { javascript: javascript.clone(), map });
    }
    Ok(Program { javascript, source, branches, calls, warnings, unreturned })
}

/// Is a line of the text the beginning of a code fence? Not if it stands in a comment, nor if the text around it is a
/// program that means something else by it.
fn has_fence(text: &str) -> bool {
    /// Looks for an expression that begins with the fence: to JavaScript, two tagged templates.
    struct Finder(u32, bool);
    impl<'a> Visit<'a> for Finder {
        fn enter_node(&mut self, kind: AstKind<'a>) {
            self.1 |= kind.span().start == self.0;
        }
    }
    let Some(start) = fence::first(text) else { return false };
    if fence::is_at_start(text) {
        return true;
    }
    let allocator = Allocator::default();
    let parsed = parse(&allocator, text, SourceType::ts());
    if parsed.program.comments.iter().any(|comment| comment.span.start <= start && start < comment.span.end) {
        return false;
    }
    let mut finder = Finder(start, false);
    finder.visit_program(&parsed.program);
    finder.1 || !parsed.diagnostics.is_empty()
}

/// Can the program call tools, as far as its text tells? One that gets at them in another way is mapped later.
fn may_call(code: &str) -> bool {
    code.contains("mcp") || code.contains("pml")
}

fn with_map() -> CodegenOptions {
    CodegenOptions { source_map_path: Some(ENGINE_FILE.into()), ..CodegenOptions::default() }
}

/// The map from the output's places back to the text's.
pub(super) fn source_map(source: &Source, probes: Probes) -> Option<Mapped> {
    let output = translate(source, probes, with_map()).ok()?;
    Some(Mapped { javascript: output.javascript, map: output.map? })
}

pub(super) struct Output {
    pub(super) javascript: String,
    pub(super) branches: Vec<Branch>,
    pub(super) calls: Vec<PreflightCall>,
    pub(super) warnings: Vec<String>,
    pub(super) unreturned: Option<String>,
    pub(super) map: Option<SourceMap<'static>>,
}

pub(super) fn translate(source: &Source, probes: Probes, options: CodegenOptions) -> Result<Output, Box<ErrorReport>> {
    let allocator = Allocator::default();
    let text = allocator.alloc_str(source.code());
    let mut parsed = parse(&allocator, text, SourceType::ts());
    if !parsed.diagnostics.is_empty() {
        let alone = parse_expression(&allocator, text).map(|it| ArenaVec::from_array_in([it], &&allocator));
        match alone.or_else(|| parse_with_object(&allocator, text)) {
            Some(body) => parsed.program.body = body,
            None => return Err(Box::new(explain(&allocator, source, text, &parsed.diagnostics))),
        }
    }
    let mut program = parsed.program;
    unfit::refuse(&program, source)?;
    let last = program.body.iter().rfind(|it| !entry::is_passed_over(it));
    let length_warning = last.and_then(|last| match last {
        Statement::ExpressionStatement(it) => unreturned::length_warning(&it.expression),
        _ => None,
    });
    let result_name = allocator.alloc_str(&probe::unused_name(text, "$result"));
    let Shaped { called, uncalled } = shape::normalise(&allocator, &mut program, result_name, source)?;
    let unreturned = unreturned::uncalled_warning(&uncalled).or_else(|| unreturned::warning(&program, called, source));

    let scoping = resolve(&program).map_err(|errors| explain(&allocator, source, text, &errors))?;
    wrap::refuse_unsupported(&program, source)?;
    let scoping = if namespace::is_needed(&program) {
        namespace::mend(&allocator, &mut program, &scoping, source)?;
        resolve(&program).map_err(|errors| explain(&allocator, source, text, &errors))?
    } else {
        scoping
    };
    unawaited::refuse(&program, &scoping, source)?;
    let calls = preflight::find(&program, &scoping, source);
    let transformed = Transformer::new(&allocator, ENGINE_FILE.as_ref(), &TransformOptions::default())
        .build_with_scoping(scoping, &mut program);
    if transformed.diagnostics.has_errors() {
        return Err(Box::new(explain(&allocator, source, text, &transformed.diagnostics)));
    }

    let probe_name = allocator.alloc_str(&probe::unused_name(text, "$probe"));
    let branches = match probes {
        Probes::Insert => {
            let on_name = allocator.alloc_str(&probe::unused_name(text, "$on"));
            let sum_name = allocator.alloc_str(&probe::unused_name(text, sums::SUM));
            let mut branches = probe::insert(&allocator, &mut program, text, probe_name, on_name);
            sums::watch(&mut program, &Pen::new(&allocator, text, probe_name, sum_name), &mut branches);
            if may_call(text) {
                // Each pass has a variable of its own, since they look at parts of the same expressions.
                let pen = |number: &str| {
                    let kept = probe::unused_name(text, &format!("{}{number}", watch::KEPT));
                    Pen::new(&allocator, text, probe_name, allocator.alloc_str(&kept))
                };
                let names = watch::Names::of(&program);
                watch::watch(&mut program, &pen(""), &names, &mut branches);
                watch::watch_conditions(&mut program, &pen("2"), &names, on_name, &mut branches);
                watch::watch_orders(&mut program, &pen("3"), &names, &mut branches);
                watch::watch_uses(&mut program, &pen("4"), &names, &mut branches);
                watch::watch_members(&mut program, &pen("5"), &names, &mut branches);
                watch::watch_keys(&mut program, &pen("6"), &mut branches);
                watch::watch_texts(&mut program, &pen("7"), &names, &mut branches);
                watch::watch_means(&mut program, &pen("8"), &names, &mut branches);
                watch::watch_amounts(&mut program, &pen("9"), &names, &mut branches);
                watch::watch_drops(&mut program, &pen("10"), &names, &mut branches);
            }
            branches
        }
        Probes::Omit => Vec::new(),
    };
    wrap::wrap(&allocator, &mut program, probe_name, source)?;

    let mark = allocator.alloc_str(&probe::unused_name(text, "$raw"));
    let is_marked = raw_text::mark(&allocator, &mut program, mark);
    let options = CodegenOptions { comments: CommentOptions::disabled(), ..options };
    let output = Codegen::new().with_options(options).build(&program);
    Ok(Output {
        javascript: if is_marked { output.code.replace(mark, "") } else { output.code },
        branches,
        calls,
        warnings: length_warning.into_iter().collect(),
        unreturned,
        map: output.map.map(SourceMap::into_owned),
    })
}

pub(super) fn parse<'a>(allocator: &'a Allocator, text: &'a str, kind: SourceType) -> ParserReturn<'a> {
    parser(allocator, text, kind).parse()
}

fn parser<'a>(allocator: &'a Allocator, text: &'a str, kind: SourceType) -> Parser<'a> {
    let options = ParseOptions {
        allow_return_outside_function: true,
        // The engine would find a bad one too, but not say where.
        parse_regular_expression: true,
        ..ParseOptions::default()
    };
    Parser::new(allocator, text, kind.with_module(true)).with_options(options)
}

/// Finds what each name stands for.
pub(super) fn resolve(program: &oxc::ast::ast::Program<'_>) -> Result<Scoping, Diagnostics> {
    let built = SemanticBuilder::new()
        .with_check_syntax_error(true)
        .with_enum_eval(true)
        .with_excess_capacity(2.0)
        .build(program);
    match built.diagnostics.has_errors() {
        true => Err(built.diagnostics),
        false => Ok(built.semantic.into_scoping()),
    }
}

/// A text that is no program, but is a function without a name or an object: `function () { … }`, `{ a: 1, b: 2 }`.
fn parse_expression<'a>(allocator: &'a Allocator, text: &'a str) -> Option<Statement<'a>> {
    let value = parser(allocator, text, SourceType::ts()).parse_expression().ok()?;
    Some(shape::expression_statement(value, allocator))
}

/// A program whose last statement is an object without parentheses, which JavaScript reads as a block: `{ a: x, b: y }`.
fn parse_with_object<'a>(allocator: &'a Allocator, text: &'a str) -> Option<ArenaVec<'a, Statement<'a>>> {
    /// Lines that are tried as the first of the object.
    const MAX_LINES: usize = 50;
    let end = text.trim_end().trim_end_matches(';').len();
    if !text[..end].ends_with('}') {
        return None;
    }
    let starts = text[..end].match_indices('{').map(|(at, _)| at).filter(|at| {
        let before = text[..*at].trim_end_matches([' ', '\t']);
        before.is_empty() || before.ends_with('\n') || before.ends_with(';')
    });
    let starts: Vec<_> = starts.collect();
    starts.into_iter().rev().take(MAX_LINES).find_map(|start| {
        // Each part is parsed where it stands, so that its places are right.
        let object = allocator.alloc_str(&[&fence::blank(&text[..start]), &text[start..end]].concat());
        let value = parser(allocator, object, SourceType::ts()).parse_expression().ok()?;
        if !matches!(&value, Expression::ObjectExpression(it) if !it.properties.is_empty()) {
            return None;
        }
        let before = parse(allocator, &text[..start], SourceType::ts());
        let mut body = before.program.body;
        body.push(shape::expression_statement(value, allocator));
        before.diagnostics.is_empty().then_some(body)
    })
}

/// Turns the first diagnostic into a report.
fn explain(allocator: &Allocator, source: &Source, text: &str, diagnostics: &Diagnostics) -> ErrorReport {
    // JSX reads as broken generics or comparisons to a TypeScript parser, with baffling messages.
    // If the text is sound as TSX, JSX is what it is.
    let tsx = parse(allocator, allocator.alloc_str(text), SourceType::tsx());
    if tsx.diagnostics.is_empty()
        && let Some(offset) = wrap::first_jsx(&tsx.program)
    {
        let is_wrapped = text[..offset as usize].trim().is_empty();
        let hint = match is_wrapped {
            true => "send the code alone, without tags around it",
            false => "build the text with a template string instead",
        };
        return ErrorReport {
            hint: Some(hint.to_owned()),
            ..source.report(ErrorCode::UnsupportedSyntax, "JSX is not supported", offset)
        };
    }

    let first = diagnostics.iter().next();
    let message = first.map_or_else(|| "the code cannot be parsed".into(), OxcDiagnostic::to_string);
    let offset = first.and_then(|first| first.labels.first()).map_or(0, |label| label.offset());
    let help = first.and_then(|first| first.help.as_ref()).map(ToString::to_string);
    ErrorReport {
        hint: syntax_advice::advice(text, offset as usize, &message).or_else(|| help.and_then(syntax_advice::help)),
        ..source.report(ErrorCode::SyntaxError, message, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn javascript(code: &str) -> String {
        compile(code, "agent.ts", Probes::Omit).unwrap().javascript
    }

    fn error(code: &str) -> ErrorReport {
        *compile(code, "agent.ts", Probes::Omit).unwrap_err()
    }

    #[test]
    fn the_program_becomes_the_body_of_a_function() {
        let table = [
            ("return 1", "", "return 1;"),
            ("1 + 1", "", "return 1 + 1;"),
            ("const x: number = 1; x", "", "const x = 1;\n\treturn x;"),
            ("export default 5", "", "return 5;"),
            ("export const a = 1; a", "", "const a = 1;\n\treturn a;"),
            ("export function f() {}", "", "function f() {}\n\treturn await f();"),
            ("export default function f() {}", "", "function f() {}\n\treturn await f();"),
            ("export default function () { return 1 }", "", "{\n\t\treturn 1;\n\t}"),
            ("export default class {}", "", "return class {};"),
            ("const a = 1; export { a }", "", "const a = 1;"),
            ("'use strict'; 1", "", "return 1;"),
            ("'use strict'", "", ""),
            ("'text'", "", "return \"text\";"),
            ("// nothing", "", ""),
            ("import type { T } from 'x'; interface I {} type A = I", "", ""),
            ("import { T } from 'x'; const a: T = 1", "", "const a = 1;"),
            ("import { callTool } from 'pml'; return callTool", " \"callTool\": callTool ", "return callTool;"),
            (
                "import p, { progress as q } from 'pml'; return p + q",
                " \"default\": p, \"progress\": q ",
                "return p + q;",
            ),
            ("import * as p from 'pml'; return p", " \"*\": p ", "return p;"),
        ];
        for (code, imports, body) in table {
            let body = if body.is_empty() { "{}".to_owned() } else { format!("{{\n\t{body}\n}}") };
            let parameters = if imports.is_empty() { "$probe".to_owned() } else { format!("$probe, {{{imports}}}") };
            assert_eq!(javascript(code), format!("async ({parameters}) => {body};\n"), "{code}");
        }
    }

    #[test]
    fn what_is_refused_says_why_and_where() {
        let table = [
            ("", ErrorCode::CodeEmpty, "no code", None),
            (" \n\t", ErrorCode::CodeEmpty, "no code", None),
            ("return )", ErrorCode::SyntaxError, "", Some("agent.ts:1:8")),
            ("let a = 1;\nlet a = 2", ErrorCode::SyntaxError, "`a`", Some("agent.ts:1:5")),
            ("const a = <div>hi</div>", ErrorCode::UnsupportedSyntax, "JSX", Some("agent.ts:1:11")),
            ("\n@d class A {}", ErrorCode::UnsupportedSyntax, "decorators", Some("agent.ts:2:1")),
            ("\nclass A { accessor x = 1 }", ErrorCode::UnsupportedSyntax, "accessor", Some("agent.ts:2:11")),
            ("import.meta.url", ErrorCode::UnsupportedSyntax, "import.meta", Some("agent.ts:1:1")),
            ("1;\n/(/", ErrorCode::SyntaxError, "", Some("agent.ts:2:")),
            ("import fs from 'node:fs'; fs.x()", ErrorCode::UnsupportedSyntax, "`node:fs`", Some("agent.ts:1:1")),
            ("import 'x'", ErrorCode::UnsupportedSyntax, "`x`", Some("agent.ts:1:1")),
            (
                "import { calTool } from 'pml'; calTool()",
                ErrorCode::UnsupportedSyntax,
                "`calTool`",
                Some("agent.ts:1:10"),
            ),
            ("export * from 'x'", ErrorCode::UnsupportedSyntax, "`export", Some("agent.ts:1:1")),
            ("export { a } from 'x'", ErrorCode::UnsupportedSyntax, "`export", Some("agent.ts:1:1")),
            ("a\0b", ErrorCode::SyntaxError, "", Some("agent.ts:1:")),
            ("}); evil(); (() => {", ErrorCode::SyntaxError, "", Some("agent.ts:1:1")),
        ];
        for (code, expected, message, position) in table {
            let report = error(code);
            assert_eq!(report.code, expected, "{code}: {report:?}");
            assert!(report.message.contains(message), "{code}: {report:?}");
            match position {
                Some(position) => assert!(report.frame.as_deref().unwrap().starts_with(position), "{code}: {report:?}"),
                None => assert_eq!(report.frame, None, "{code}"),
            }
        }
    }

    #[test]
    fn a_misspelt_import_names_the_nearest_export() {
        let report = error("import { calTool } from 'pml'; calTool()");
        assert!(report.hint.unwrap().contains("did you mean `callTool`"));
    }

    #[test]
    fn typescript_only_syntax_is_compiled_away() {
        let table = [
            "enum E { A, B = 'b' } return E.A",
            "const enum E { A } return E.A",
            "namespace N { export const x = 1 } return N.x",
            "class P { constructor(private readonly x: number) {} get() { return this.x } }",
            "const x = { a: 1 } satisfies Record<string, number>; return x",
            "function id<T extends object>(x: T): T { return x } return id({})",
            "const x = <number>(1 as unknown); return x!",
            "abstract class A<T> { abstract f(): T; declare y: string; override toString() { return '' } }",
            "function f(this: Date, a?: number): asserts a is number {}",
            "let x: typeof import('y'); type T = keyof typeof x",
        ];
        for code in table {
            let javascript = javascript(code);
            let again = Allocator::default();
            let parsed = parse(&again, &javascript, SourceType::mjs());
            assert!(parsed.diagnostics.is_empty(), "{code} became {javascript}");
        }
    }
}
