//! Texts that parse but are no program: the call that was to carry it, or the program in quotes.

use oxc::{
    ast::ast::*,
    span::{GetSpan, Span},
};
use pml_wire::{ErrorCode, message::ErrorReport};

use super::Source;

/// Properties under which calls carry a program.
const CODE_KEYS: [&str; 6] = ["code", "program", "script", "source", "arguments", "input"];
/// What programs have in them, and texts for people hardly.
const CODE_SIGNS: [&str; 7] = ["return ", "await ", "const ", "=> ", "mcp.", "callTool(", "console.log("];

/// Refuses a program that is nothing but a text with code in it, or an object that carries one.
pub(super) fn refuse(program: &oxc::ast::ast::Program<'_>, source: &Source) -> Result<(), Box<ErrorReport>> {
    let refusal = match (&program.body[..], &program.directives[..]) {
        ([], [only]) if is_code(&only.expression.value) => {
            Some((only.span, "a text in quotes", "send the text without the quotes around it"))
        }
        ([Statement::ExpressionStatement(only)], []) => match only.expression.get_inner_expression() {
            Expression::StringLiteral(it) if is_code(&it.value) => {
                Some((it.span, "a text in quotes", "send the text without the quotes around it"))
            }
            Expression::ObjectExpression(it) => carried(it)
                .map(|span| (span, "JSON with the code in it", "send the code alone, as it stands in that text")),
            _ => None,
        },
        _ => None,
    };
    match refusal {
        None => Ok(()),
        Some((span, what, hint)) => Err(Box::new(ErrorReport {
            hint: Some(hint.to_owned()),
            ..source.report(ErrorCode::UnsupportedSyntax, format!("this is {what}, not a program"), span.start)
        })),
    }
}

fn is_code(text: &str) -> bool {
    CODE_SIGNS.iter().any(|sign| text.contains(sign))
}

/// Where the code stands in an object that carries some.
fn carried(object: &ObjectExpression<'_>) -> Option<Span> {
    object.properties.iter().find_map(|property| {
        let ObjectPropertyKind::ObjectProperty(property) = property else { return None };
        let is_key = property.key.static_name().is_some_and(|name| CODE_KEYS.contains(&name.as_ref()));
        match property.value.get_inner_expression() {
            Expression::StringLiteral(it) if is_key && is_code(&it.value) => Some(it.span()),
            Expression::ObjectExpression(it) if is_key => carried(it),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::transpile::{Probes, compile};

    #[test]
    fn what_carries_a_program_is_refused() {
        let refused = [
            (r#"{"code": "return 1"}"#, "JSON"),
            (r#"{"name": "execute_code", "arguments": {"code": "const a = 1;\nreturn a"}}"#, "JSON"),
            (r#"({ code: "return await mcp.a.b({})" })"#, "JSON"),
            (r#""return 1 + 1""#, "quotes"),
            (r#"'const a = 1';"#, "quotes"),
        ];
        for (code, part) in refused {
            let error = *compile(code, "agent.ts", Probes::Insert).unwrap_err();
            assert!(error.message.contains(part), "{code}: {error:?}");
        }
        for code in [r#"{"code": 5}"#, r#"({ code: "NO" })"#, "'text'", r#"{ "a": 1 }"#, "return { code: 'return 1' }"]
        {
            assert!(compile(code, "agent.ts", Probes::Insert).is_ok(), "{code}");
        }
    }
}
