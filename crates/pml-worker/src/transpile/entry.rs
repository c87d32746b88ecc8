//! Which function of a program is the program, and what it is called with.

use oxc::{
    allocator::{Allocator, ArenaVec},
    ast::{ast::*, builder::AstBuilder},
    ast_visit::Visit,
    span::{GetSpan, SPAN, Span},
    syntax::scope::ScopeFlags,
};

use super::MODULE_EXPORTS;

/// Parameters that stand for a global of the same name.
const GLOBALS: [&str; 4] = ["mcp", "pml", "args", "console"];
/// Parameters that stand for `args`.
const INPUTS: [&str; 4] = ["input", "inputs", "params", "parameters"];

/// A function at the top level that has a name.
pub(super) struct Definition<'a> {
    pub(super) name: &'a str,
    pub(super) span: Span,
    pub(super) parameters: Parameters,
}

/// What a function has to be called with.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters {
    given: Vec<Given>,
    /// A parameter that nothing is known for, or a generator: what to say, and where it stands.
    refused: Option<(String, u32)>,
}

#[derive(Clone, Copy, Debug)]
enum Given {
    Global(&'static str),
    /// `args ?? {}`, which can be taken apart.
    Args,
    /// Everything that a program sees, in an object.
    Everything,
    Nothing,
}

impl Parameters {
    pub(super) fn is_empty(&self) -> bool {
        self.given.is_empty() && self.refused.is_none()
    }

    /// The arguments for them.
    pub(super) fn arguments<'a>(
        self,
        allocator: &'a Allocator,
        builder: &AstBuilder<'a>,
    ) -> Result<ArenaVec<'a, Argument<'a>>, (String, u32)> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        let name = |name: &'static str| Expression::new_identifier(SPAN, name, builder);
        let arguments = self.given.into_iter().map(|given| {
            Argument::from(match given {
                Given::Global(global) => name(global),
                Given::Nothing => name("undefined"),
                Given::Args => {
                    let none = Expression::new_object_expression(SPAN, [], builder);
                    Expression::new_logical_expression(SPAN, name("args"), LogicalOperator::Coalesce, none, builder)
                }
                Given::Everything => {
                    let mut members = ArenaVec::new_in(&allocator);
                    for global in GLOBALS {
                        let key = PropertyKey::from(Expression::new_string_literal(SPAN, global, None, builder));
                        let kind = PropertyKind::Init;
                        let member = ObjectProperty::new(SPAN, kind, key, name(global), false, false, false, builder);
                        members.push(ObjectPropertyKind::ObjectProperty(oxc::allocator::ArenaBox::new_in(
                            member, &allocator,
                        )));
                    }
                    members.push(ObjectPropertyKind::new_spread_property(SPAN, name("pml"), builder));
                    Expression::new_object_expression(SPAN, members, builder)
                }
            })
        });
        Ok(ArenaVec::from_iter_in(arguments, &allocator))
    }

    fn of(parameters: &FormalParameters<'_>, is_generator: bool) -> Parameters {
        let mut found = Parameters::default();
        if is_generator {
            found.refused = Some(("it is a generator".to_owned(), parameters.span.start));
        }
        for parameter in &parameters.items {
            match given(parameter) {
                Some(given) => found.given.push(given),
                None => {
                    let what = match parameter.pattern.get_identifier_name() {
                        Some(name) => format!("it takes `{name}`, which nothing is known of"),
                        None => "it takes a parameter that nothing is known of".to_owned(),
                    };
                    found.refused.get_or_insert((what, parameter.span.start));
                }
            }
        }
        found
    }
}

fn given(parameter: &FormalParameter<'_>) -> Option<Given> {
    match &parameter.pattern {
        BindingPattern::BindingIdentifier(it) => {
            let name = it.name.as_str();
            let global = GLOBALS.into_iter().find(|global| *global == name).map(Given::Global);
            let input = INPUTS.contains(&name).then_some(Given::Global("args"));
            let optional = (parameter.optional || parameter.initializer.is_some()).then_some(Given::Nothing);
            global.or(input).or(optional)
        }
        BindingPattern::ObjectPattern(it) => {
            let names = it.properties.iter().map(|property| property.key.static_name());
            let is_ours = |name: &str| GLOBALS.contains(&name) || MODULE_EXPORTS.contains(&name);
            let ours = names.filter(|name| name.as_deref().is_some_and(is_ours)).count();
            match ours {
                0 => Some(Given::Args),
                _ if ours == it.properties.len() => Some(Given::Everything),
                _ => None,
            }
        }
        _ => None,
    }
}

pub(super) fn is_function(value: &Expression<'_>) -> bool {
    parameters(value).is_some()
}

/// What a function expression has to be called with; nothing if it is none.
pub(super) fn parameters(value: &Expression<'_>) -> Option<Parameters> {
    match value.get_inner_expression() {
        Expression::ArrowFunctionExpression(it) => Some(Parameters::of(&it.params, false)),
        Expression::FunctionExpression(it) => Some(Parameters::of(&it.params, it.generator)),
        _ => None,
    }
}

/// Is this a function, or one that is called where it stands, without arguments and awaited or not?
pub(super) fn is_program(value: &Expression<'_>) -> bool {
    match value.get_inner_expression() {
        Expression::AwaitExpression(it) => is_called_function(&it.argument),
        Expression::UnaryExpression(it) if matches!(it.operator, UnaryOperator::Void | UnaryOperator::LogicalNot) => {
            is_called_function(&it.argument)
        }
        _ => is_function(value) || is_called_function(value),
    }
}

fn is_called_function(value: &Expression<'_>) -> bool {
    match value.get_inner_expression() {
        Expression::CallExpression(it) => {
            it.arguments.is_empty() && !it.optional && parameters(&it.callee).is_some_and(|it| it.is_empty())
        }
        _ => false,
    }
}

/// The functions that the top level defines by name.
pub(super) fn functions<'v, 'a>(
    statements: &'v ArenaVec<'a, Statement<'a>>,
) -> impl Iterator<Item = Definition<'a>> + 'v {
    statements.iter().flat_map(|statement| {
        let mut found = Vec::new();
        match statement {
            Statement::FunctionDeclaration(it) if it.body.is_some() => {
                if let Some(id) = &it.id {
                    let parameters = Parameters::of(&it.params, it.generator);
                    found.push(Definition { name: id.name.as_str(), span: it.span, parameters });
                }
            }
            Statement::VariableDeclaration(it) => {
                for declarator in &it.declarations {
                    let parameters = declarator.init.as_ref().and_then(parameters);
                    if let (BindingPattern::BindingIdentifier(id), Some(parameters)) = (&declarator.id, parameters) {
                        found.push(Definition { name: id.name.as_str(), span: declarator.span, parameters });
                    }
                }
            }
            _ => {}
        }
        found
    })
}

pub(super) fn names_a_function<'a>(value: &Expression<'a>, statements: &ArenaVec<'a, Statement<'a>>) -> bool {
    match value.get_inner_expression() {
        Expression::Identifier(name) => functions(statements).any(|function| function.name == name.name),
        _ => false,
    }
}

/// The method to call of an object that holds nothing but functions, as in `export default { run }`.
pub(super) fn member_to_call<'a>(
    value: &Expression<'a>,
    names: &[&'static str],
    statements: &ArenaVec<'a, Statement<'a>>,
) -> Option<(&'static str, Parameters)> {
    let Expression::ObjectExpression(object) = value.get_inner_expression() else { return None };
    let mut methods = Vec::new();
    for property in &object.properties {
        let ObjectPropertyKind::ObjectProperty(property) = property else { return None };
        let found = match property.value.get_inner_expression() {
            Expression::Identifier(name) => {
                functions(statements).find(|function| function.name == name.name).map(|function| function.parameters)
            }
            value => parameters(value),
        };
        methods.push((property.key.static_name()?, found?));
    }
    let name = names.iter().find(|name| methods.iter().any(|(other, _)| other == **name))?;
    let parameters = methods.into_iter().find(|(other, _)| other == *name)?.1;
    Some((name, parameters))
}

/// `module.exports = …` and its relatives, such as `exports.main = …`.
pub(super) fn is_module_exports(value: &Expression<'_>, mains: &[&str]) -> bool {
    let Expression::AssignmentExpression(it) = value else { return false };
    let Some(target) = it.left.as_member_expression().filter(|_| it.operator == AssignmentOperator::Assign) else {
        return false;
    };
    let Some(name) = target.static_property_name() else { return false };
    let is_exports = |value: &Expression<'_>| {
        value.is_specific_id("exports") || value.is_specific_member_access("module", "exports")
    };
    (name == "exports" && target.object().is_specific_id("module"))
        || ((name == "default" || mains.contains(&name)) && is_exports(target.object()))
}

/// `require.main === module` or `import.meta.main`: is this file the one that runs? It is.
pub(super) fn is_main_test(test: &Expression<'_>) -> bool {
    let is_main = |value: &Expression<'_>| {
        let value = value.get_inner_expression();
        value.is_specific_member_access("require", "main")
            || value.as_member_expression().is_some_and(|member| {
                matches!(member.object().get_inner_expression(), Expression::ImportMeta(_))
                    && member.static_property_name().is_some_and(|name| name == "main" || name == "url")
            })
    };
    match test.get_inner_expression() {
        Expression::BinaryExpression(it) if it.operator.is_equality() => is_main(&it.left) || is_main(&it.right),
        test => is_main(test),
    }
}

/// The members of `{ a, b }` or `{ total: sum, b }`, which JavaScript reads as a block where a statement stands.
pub(super) fn block_members<'b, 'a>(block: &'b BlockStatement<'a>) -> Option<Vec<(&'a str, &'b Expression<'a>)>> {
    let [statement] = &block.body[..] else { return None };
    let (label, value) = match statement {
        Statement::ExpressionStatement(it) => (None, &it.expression),
        Statement::LabeledStatement(it) => match &it.body {
            Statement::ExpressionStatement(value) => (Some(it.label.name.as_str()), &value.expression),
            _ => return None,
        },
        _ => return None,
    };
    let all: Vec<&Expression<'a>> = match value {
        Expression::SequenceExpression(it) => it.expressions.iter().collect(),
        value => vec![value],
    };
    let named = all.into_iter().enumerate().map(|(index, value)| match (label, value) {
        (Some(label), value) if index == 0 => Some((label, value)),
        (_, Expression::Identifier(name)) => Some((name.name.as_str(), value)),
        _ => None,
    });
    named.collect()
}

/// Does the top level declare one of these names?
pub(super) fn declares(statements: &ArenaVec<'_, Statement<'_>>, names: &[&str]) -> bool {
    struct Finder<'n>(&'n [&'n str], bool);
    impl<'a> Visit<'a> for Finder<'_> {
        fn visit_binding_identifier(&mut self, it: &BindingIdentifier<'a>) {
            self.1 |= self.0.contains(&it.name.as_str());
        }
    }
    let mut finder = Finder(names, false);
    finder.visit_statements(statements);
    finder.1
}

/// A statement that does nothing when its turn comes.
pub(super) fn is_passed_over(statement: &Statement<'_>) -> bool {
    match statement {
        Statement::EmptyStatement(_) | Statement::FunctionDeclaration(_) | Statement::ImportDeclaration(_) => true,
        Statement::VariableDeclaration(it) => it.declare,
        statement => {
            statement.is_typescript_syntax()
                && !matches!(statement, Statement::TSEnumDeclaration(_) | Statement::TSNamespaceDeclaration(_))
        }
    }
}

/// Is there nothing else that runs?
pub(super) fn is_alone(statements: &ArenaVec<'_, Statement<'_>>) -> bool {
    statements.iter().all(|it| is_passed_over(it) && !matches!(it, Statement::FunctionDeclaration(_)))
}

/// Does the program only define things?
pub(super) fn is_all_definitions(statements: &ArenaVec<'_, Statement<'_>>) -> bool {
    /// Finds what does something, outside of functions.
    struct Finder(bool);
    impl<'a> Visit<'a> for Finder {
        fn visit_call_expression(&mut self, _: &CallExpression<'a>) {
            self.0 = true;
        }
        fn visit_await_expression(&mut self, _: &AwaitExpression<'a>) {
            self.0 = true;
        }
        fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}
        fn visit_arrow_function_expression(&mut self, _: &ArrowFunctionExpression<'a>) {}
        fn visit_class(&mut self, _: &Class<'a>) {}
    }
    statements.iter().all(|statement| match statement {
        Statement::VariableDeclaration(it) => {
            let mut finder = Finder(false);
            finder.visit_variable_declaration(it);
            !finder.0
        }
        Statement::ClassDeclaration(_) | Statement::TSEnumDeclaration(_) | Statement::TSNamespaceDeclaration(_) => true,
        statement => is_passed_over(statement),
    })
}

/// `console.log(…)`, which gives nothing.
pub(super) fn is_console_call(value: &Expression<'_>) -> bool {
    match value.get_inner_expression() {
        Expression::CallExpression(it) => {
            it.callee.as_member_expression().is_some_and(|member| member.object().is_specific_id("console"))
        }
        _ => false,
    }
}

/// The body of a function without parameters, as a statement, or the function if its body means something else outside.
pub(super) fn into_body<'a>(
    function: Expression<'a>,
    builder: &AstBuilder<'a>,
) -> Result<Statement<'a>, Expression<'a>> {
    /// Finds what belongs to the function itself.
    struct Finder(bool);
    impl<'a> Visit<'a> for Finder {
        fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
            self.0 |= it.name == "arguments";
        }
        fn visit_this_expression(&mut self, _: &ThisExpression) {
            self.0 = true;
        }
    }
    let block = |body: FunctionBody<'a>| {
        let span = body.span;
        Statement::new_block_statement(span, body.statements, builder)
    };
    match function.into_inner_expression() {
        Expression::ArrowFunctionExpression(it) => match it.unbox().body {
            ArrowFunctionBody::FunctionBody(body) => Ok(block(body.unbox())),
            body => {
                let span = body.span();
                let value = Expression::try_from(body).ok();
                Ok(Statement::new_return_statement(span, value, builder))
            }
        },
        Expression::FunctionExpression(it) => {
            let mut finder = Finder(it.id.is_some());
            it.body.iter().for_each(|body| finder.visit_function_body(body));
            match finder.0 {
                true => Err(Expression::FunctionExpression(it)),
                false => match it.unbox().body {
                    Some(body) => Ok(block(body.unbox())),
                    None => Ok(Statement::new_empty_statement(SPAN, builder)),
                },
            }
        }
        function => Err(function),
    }
}
