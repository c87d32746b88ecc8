//! Why an argument of a call was not there: `{ owner: me.login }`, of a `me` that was not awaited.

use oxc::{ast::ast::*, span::GetSpan};

use super::{
    opened::{Opened, offset_of, open},
    operations::Kind,
    shape::Given,
    teller::Teller,
};
use crate::transpile::{Probes, Source};

/// What is known of the expression that the call at `place` passes as `name`, and that was undefined.
pub(in crate::transpile) fn argument(
    source: &Source,
    probes: Probes,
    place: (u32, u32),
    name: &str,
    results: &[Given],
) -> Option<String> {
    open(source, probes, |opened| opened.tell(results, |teller| told(opened, teller, place, name)))?
}

fn told<'a>(opened: &Opened<'_, 'a>, teller: &Teller<'_, 'a>, place: (u32, u32), name: &str) -> Option<String> {
    let offset = offset_of(opened.javascript, place)?;
    let calls = opened.found.operations.iter().filter(|it| it.kind == Kind::Call && it.place == offset);
    let objects = calls.flat_map(|call| call.arguments).filter_map(|argument| match argument.as_expression()? {
        Expression::ObjectExpression(it) => Some(it),
        _ => None,
    });
    let value = objects.flat_map(|object| &object.properties).find_map(|property| match property {
        ObjectPropertyKind::ObjectProperty(it) if it.key.is_specific_static_name(name) => Some(&it.value),
        _ => None,
    })?;
    // A value that is written out is no surprise.
    if value.is_literal() || value.span().is_empty() {
        return None;
    }
    let text = teller.text(value);
    let hint = teller.missing(value).or_else(|| teller.not_found(value));
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    Some(format!("`{name}` was passed {text}, which is undefined{}{hint}", teller.came_from(value)))
}
