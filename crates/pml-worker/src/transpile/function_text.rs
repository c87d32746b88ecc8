//! The text of a function as the program means it: without probes.

use oxc::{
    allocator::Allocator,
    ast::AstKind,
    ast_visit::Visit,
    codegen::CodegenOptions,
    span::{GetSpan, SourceType, Span},
};

use super::{Probes, Source, parse, translate, wrap::IMPORT_FUNCTION};

/// What marks a text that probes may have changed.
const MARKS: [&str; 5] = ["$probe", "$on", "$sum", "NaN;", "[(NaN, "];

/// The text without probes of a function that the engine shows as `text`. Nothing if it is none of the program's, or has
/// no probe.
///
/// The program is compiled both ways; probes add no function, so the same function is the same in order.
pub(super) fn without_probes(source: &Source, text: &str) -> Option<String> {
    if !MARKS.iter().any(|mark| text.contains(mark)) {
        return None;
    }
    let compile = |probes| translate(source, probes, CodegenOptions::default()).ok();
    let (probed, plain) = (compile(Probes::Insert)?.javascript, compile(Probes::Omit)?.javascript);
    let (mut functions, plain_functions) = (functions(&probed), functions(&plain));
    // What sets `$on` is the one function that the program does not have.
    functions.retain(|span| !is_switch(span.source_text(&probed)));
    let start = probed.find(text)?;
    let end = start + text.len();
    // What stands before the text of a method, such as `static`, is the same in both.
    let holds = |span: &Span| span.end as usize == end && span.start as usize <= start;
    let index =
        (0..functions.len()).filter(|index| holds(&functions[*index])).max_by_key(|index| functions[*index].start)?;
    let plain_span = plain_functions.get(index).filter(|_| functions.len() == plain_functions.len())?;
    let before = start - functions[index].start as usize;
    plain.get(plain_span.start as usize + before..plain_span.end as usize).map(str::to_owned)
}

/// The text with `import(…)` where the compiler put a function in its place, if it did.
pub(super) fn with_imports(text: &str) -> Option<String> {
    let call = format!("{IMPORT_FUNCTION}(");
    text.contains(&call).then(|| text.replace(&call, "import("))
}

fn is_switch(text: &str) -> bool {
    text.starts_with("($to) => $on") && text.ends_with(" = $to")
}

/// Where the functions and classes of a program stand, in order.
fn functions(javascript: &str) -> Vec<Span> {
    struct Finder(Vec<Span>);
    impl<'a> Visit<'a> for Finder {
        fn enter_node(&mut self, kind: AstKind<'a>) {
            use AstKind::{ArrowFunctionExpression, Class, Function, MethodDefinition, ObjectProperty};
            if matches!(
                kind,
                Function(_) | ArrowFunctionExpression(_) | Class(_) | MethodDefinition(_) | ObjectProperty(_)
            ) {
                self.0.push(kind.span());
            }
        }
    }
    let allocator = Allocator::default();
    let parsed = parse(&allocator, javascript, SourceType::mjs());
    let mut finder = Finder(Vec::new());
    finder.visit_program(&parsed.program);
    finder.0
}
