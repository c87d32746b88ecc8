//! Names that a program uses and that nobody declares, or that it uses in the wrong place.

use oxc::{
    ast::AstKind,
    semantic::{Semantic, SymbolId},
    span::GetSpan,
};

use super::opened::{Opened, open, place_of};
use crate::transpile::{Source, nearest};

/// Names that programs give to what they catch.
const ERRORS: [&str; 6] = ["error", "err", "e", "ex", "exception", "reason"];

/// A name of the program that an undefined one is most likely a slip of.
pub(crate) fn undefined_name(source: &Source, name: &str) -> Option<String> {
    open(source, source.probes(), |opened| {
        let scoping = opened.semantic.scoping();
        if ERRORS.contains(&name)
            && let Some(caught) = scoping.symbol_ids().find(|id| scoping.symbol_flags(*id).is_catch_variable())
        {
            return Some(scoping.symbol_name(caught).to_owned());
        }
        let names = scoping.symbol_names().filter(|other| !other.starts_with('$') && *other != name);
        nearest(name, names).map(str::to_owned)
    })?
}

/// What to do about a name that the program assigns to and does not declare, if it is one.
pub(crate) fn assigned(source: &Source, name: &str) -> Option<String> {
    open(source, source.probes(), |opened| {
        let scoping = opened.semantic.scoping();
        let (_, uses) = scoping.root_unresolved_references().iter().find(|(other, _)| other.as_str() == name)?;
        let written = uses.iter().map(|id| scoping.get_reference(*id)).find(|reference| reference.is_write())?;
        let kinds = opened.semantic.nodes().ancestor_kinds(written.node_id());
        // `tool(name = value)`, as other languages name arguments.
        let mut around = kinds.skip_while(|kind| !matches!(kind, AstKind::AssignmentExpression(_))).skip(1);
        Some(match around.next() {
            Some(AstKind::CallExpression(_)) => format!("arguments are given in one object: `{{ {name}: … }}`"),
            _ => format!("declare it first: `let {name}`"),
        })
    })?
}

/// The line of the constant of this name that the program assigns to.
pub(crate) fn assigned_constant(source: &Source, name: &str) -> Option<usize> {
    open(source, source.probes(), |opened| {
        let scoping = opened.semantic.scoping();
        let is_meant = |id: &SymbolId| {
            scoping.symbol_name(*id) == name
                && scoping.symbol_flags(*id).is_const_variable()
                && scoping.get_resolved_references(*id).any(|reference| reference.is_write())
        };
        line(opened, scoping.symbol_ids().find(is_meant)?)
    })?
}

/// Where the program declares a name that is not there where it is used: further down, in another block or function, or
/// only as a type.
pub(crate) fn declared_elsewhere(source: &Source, name: &str) -> Option<String> {
    if let Some(kind) = declared_type(source.code(), name) {
        return Some(match kind {
            "declare" => format!("`declare` gives `{name}` no value: write the value, or read it from `args`"),
            kind => format!("`{name}` is {kind}, and types do not exist at run time: write a value or a class"),
        });
    }
    open(source, source.probes(), |opened| {
        let scoping = opened.semantic.scoping();
        let symbol = scoping.symbol_ids().find(|id| scoping.symbol_name(*id) == name)?;
        let line = line(opened, symbol)?;
        Some(match is_top_level(opened.semantic, symbol) {
            true => format!("`{name}` is declared on line {line}: use it only behind its declaration, or move that up"),
            false => format!(
                "`{name}` is declared on line {line}, in a block or function of its own: declare it outside, before both"
            ),
        })
    })?
}

/// What the text declares the name as, if not as a value.
fn declared_type(code: &str, name: &str) -> Option<&'static str> {
    let mut words =
        code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).filter(|word| !word.is_empty());
    let (mut before, mut last) = ("", "");
    words.find_map(|word| {
        let found = match (before, last) {
            _ if word != name => None,
            (_, "interface") => Some("an interface"),
            (_, "type") => Some("a type"),
            ("declare", "const" | "let" | "var" | "function") => Some("declare"),
            _ => None,
        };
        (before, last) = (last, word);
        found
    })
}

fn line(opened: &Opened<'_, '_>, symbol: SymbolId) -> Option<usize> {
    let offset = opened.semantic.scoping().symbol_span(symbol).start;
    let (line, column) = place_of(opened.javascript, offset);
    opened.source.original(line, column).map(|position| position.line)
}

/// Is the declaration in no block and no function but the program's own?
fn is_top_level(semantic: &Semantic<'_>, symbol: SymbolId) -> bool {
    let declaration = semantic.scoping().symbol_declaration(symbol);
    let around = semantic.nodes().ancestor_kinds(declaration).filter(|kind| {
        matches!(
            kind,
            AstKind::ArrowFunctionExpression(_)
                | AstKind::Function(_)
                | AstKind::BlockStatement(_)
                | AstKind::ForStatement(_)
                | AstKind::ForOfStatement(_)
                | AstKind::ForInStatement(_)
                | AstKind::CatchClause(_)
        ) && !kind.span().is_empty()
    });
    around.count() <= 1
}
