//! Loops that only compute: no call of theirs, and no way out of the function, depends on a condition in them.
//!
//! Their conditions get no probes: which of a million elements was even is no decision of the agent, and a probe costs most
//! where there is nothing but conditions. What such a loop finds out is told by the first condition behind it.

use std::collections::HashSet;

use oxc::{
    ast::{AstKind, ast::ForOfStatement},
    ast_visit::Visit,
    span::{GetSpan, Span},
};

/// The loops of `program` that only compute, by their places.
pub(super) fn find(program: &oxc::ast::ast::Program<'_>) -> HashSet<Span> {
    let mut finder = Finder::default();
    finder.visit_program(program);
    finder.found
}

#[derive(Default)]
struct Finder {
    /// For each loop around: has it anything that depends on a condition?
    acts: Vec<bool>,
    found: HashSet<Span>,
}

impl<'a> Visit<'a> for Finder {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        if is_loop(kind) {
            self.acts.push(false);
        }
        if acts(kind)
            && let Some(acts) = self.acts.last_mut()
        {
            *acts = true;
        }
    }

    fn leave_node(&mut self, kind: AstKind<'a>) {
        if !is_loop(kind) {
            return;
        }
        match (self.acts.pop(), self.acts.last_mut()) {
            (Some(true), Some(around)) => *around = true,
            (Some(false), _) if !kind.span().is_empty() => drop(self.found.insert(kind.span())),
            _ => {}
        }
    }
}

fn is_loop(kind: AstKind<'_>) -> bool {
    use AstKind::{DoWhileStatement, ForInStatement, ForOfStatement, ForStatement, WhileStatement};
    matches!(kind, DoWhileStatement(_) | ForInStatement(_) | ForOfStatement(_) | ForStatement(_) | WhileStatement(_))
}

fn acts(kind: AstKind<'_>) -> bool {
    use AstKind::{
        AwaitExpression, CallExpression, ImportExpression, NewExpression, ReturnStatement, TaggedTemplateExpression,
        ThrowStatement, YieldExpression,
    };
    match kind {
        AstKind::ForOfStatement(ForOfStatement { r#await, .. }) => *r#await,
        kind => matches!(
            kind,
            AwaitExpression(_)
                | CallExpression(_)
                | ImportExpression(_)
                | NewExpression(_)
                | ReturnStatement(_)
                | TaggedTemplateExpression(_)
                | ThrowStatement(_)
                | YieldExpression(_)
        ),
    }
}
