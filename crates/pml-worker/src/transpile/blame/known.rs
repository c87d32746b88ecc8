//! What can be said of an expression without running it: where its value came from, and what it looked
//! like then.

use oxc::{
    ast::{AstKind, ast::*},
    semantic::{Semantic, SymbolId},
    span::{GetSpan, Span},
};

use super::{
    operations::name_of,
    shape::{Given, Shape, Text},
};
use crate::transpile::watch::{unprobed, unwatched};

/// What the program was given, among the results of tools.
pub(crate) const ARGS: &str = "args";
/// Classes whose objects are told from others.
const CLASSES: [&str; 3] = ["Set", "Map", "Date"];
/// Functions of `Promise` that give one.
const PROMISES: [&str; 7] = ["all", "allSettled", "any", "race", "resolve", "reject", "try"];
/// Steps that are followed from a name to its value.
const MAX_STEPS: usize = 20;
/// Methods that give an array of the same elements.
const SAME: [&str; 8] = ["filter", "slice", "sort", "reverse", "toSorted", "toReversed", "concat", "splice"];
/// Methods that give an element.
const ELEMENT: [&str; 5] = ["find", "at", "pop", "shift", "findLast"];
/// Methods that call a function with each element.
pub(super) const EACH: [&str; 11] =
    ["map", "filter", "forEach", "find", "findIndex", "some", "every", "flatMap", "sort", "toSorted", "findLast"];
/// Methods of texts and numbers that give a text.
const TEXT: [&str; 22] = [
    "join",
    "toString",
    "toISOString",
    "toFixed",
    "trim",
    "toLowerCase",
    "toUpperCase",
    "replace",
    "replaceAll",
    "padStart",
    "padEnd",
    "repeat",
    "substring",
    "charAt",
    "trimEnd",
    "trimStart",
    "toLocaleString",
    "toLocaleDateString",
    "toLocaleTimeString",
    "toLocaleLowerCase",
    "toLocaleUpperCase",
    "normalize",
];

/// What is known of a value.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) shape: Shape,
    /// The call it came from, and where that stands.
    pub(super) origin: Option<(String, Span)>,
    /// Not the result itself, but something in it.
    pub(super) is_part: bool,
    /// The way from the result to it: names of properties, and nothing for an element of an array. `None` if the result is in an
    /// envelope.
    pub(super) path: Option<Vec<Option<String>>>,
    /// A promise of it: it was not awaited.
    pub(super) is_promise: bool,
}

impl Known {
    pub(super) fn plain(shape: Shape) -> Known {
        Known { shape, origin: None, is_part: false, path: None, is_promise: false }
    }

    /// A promise of what pml itself gives, or of what nothing is known of.
    fn promise(shape: Shape) -> Known {
        Known { is_promise: true, ..Known::plain(shape) }
    }

    /// What it is once it has been awaited, if that is known.
    pub(super) fn awaited(self) -> Option<Known> {
        (self.shape != Shape::Unknown).then_some(Known { is_promise: false, ..self })
    }

    /// Its property of this name.
    pub(super) fn property(self, name: &str) -> Option<Known> {
        let shape = self.shape.property(name);
        self.part(Some(name.to_owned()), shape)
    }

    /// One of its elements.
    pub(super) fn element(self) -> Option<Known> {
        let shape = self.shape.element();
        self.part(None, shape)
    }

    fn part(self, step: Option<String>, shape: Option<Shape>) -> Option<Known> {
        let path = self.path.map(|path| path.into_iter().chain([step]).collect());
        let (shape, is_promise) = match shape? {
            Shape::Promise(inner) => (*inner, true),
            shape => (shape, false),
        };
        (!self.is_promise).then_some(Known { shape, is_part: true, path, is_promise, ..self })
    }
}

pub(super) struct Knowledge<'s, 'a> {
    pub(super) semantic: &'s Semantic<'a>,
    pub(super) results: &'s [Given],
    /// The engine's line and column of a failure of the call that stands at an offset.
    pub(super) places: &'s dyn Fn(u32) -> Option<(u32, u32)>,
}

impl<'a> Knowledge<'_, 'a> {
    pub(super) fn of(&self, value: &Expression<'a>) -> Option<Known> {
        self.value(value, MAX_STEPS)
    }

    /// Of a variable that has no value: the result of a tool that it was declared with, and whether it was taken out of that by a
    /// pattern: `const { items } = await …`.
    pub(super) fn whole_of(&self, value: &Expression<'a>) -> Option<(Known, bool)> {
        let Expression::Identifier(name) = value.get_inner_expression() else { return None };
        let scoping = self.semantic.scoping();
        let symbol = scoping.get_reference(name.reference_id.get()?).symbol_id()?;
        if scoping.symbol_is_mutated(symbol) {
            return None;
        }
        let AstKind::VariableDeclarator(it) = self.semantic.nodes().kind(scoping.symbol_declaration(symbol)) else {
            return None;
        };
        let known = self.of(it.init.as_ref()?).filter(|known| known.origin.is_some() || known.is_promise)?;
        Some((known, it.id.is_destructuring_pattern()))
    }

    /// What a variable was declared with, if that is a property of something that is known: the last one of `x.a ?? x.b`. Any other
    /// expression is itself.
    pub(super) fn read_for<'e>(&'e self, value: &'e Expression<'a>) -> &'e Expression<'a> {
        let declared = || {
            let Expression::Identifier(name) = value.get_inner_expression() else { return None };
            let symbol = self.symbol_of(name)?;
            let scoping = self.semantic.scoping();
            if scoping.symbol_is_mutated(symbol) {
                return None;
            }
            let AstKind::VariableDeclarator(it) = self.semantic.nodes().kind(scoping.symbol_declaration(symbol)) else {
                return None;
            };
            let mut read = unwatched(it.init.as_ref().filter(|_| it.id.is_binding_identifier())?);
            while let Expression::LogicalExpression(it) = read.get_inner_expression()
                && it.operator != LogicalOperator::And
            {
                read = unwatched(&it.right);
            }
            let member = read.get_inner_expression().as_member_expression()?;
            self.of(member.object()).filter(|known| known.origin.is_some())?;
            Some(read)
        };
        declared().unwrap_or(value)
    }

    /// Of a variable that a pattern took out of an object: the object, and the name of the property.
    pub(super) fn taken_from<'e>(&'e self, value: &Expression<'a>) -> Option<(&'e Expression<'a>, &'e str)> {
        let Expression::Identifier(name) = value.get_inner_expression() else { return None };
        let symbol = self.symbol_of(name)?;
        let AstKind::VariableDeclarator(it) =
            self.semantic.nodes().kind(self.semantic.scoping().symbol_declaration(symbol))
        else {
            return None;
        };
        let BindingPattern::ObjectPattern(pattern) = &it.id else { return None };
        let is_meant = |property: &&BindingProperty<'a>| {
            property.value.get_binding_identifier().is_some_and(|id| id.symbol_id.get() == Some(symbol))
        };
        let property = pattern.properties.iter().find(is_meant)?;
        Some((it.init.as_ref()?, name_of(&property.key)?))
    }

    fn value(&self, value: &Expression<'a>, steps: usize) -> Option<Known> {
        let steps = steps.checked_sub(1)?;
        match unwatched(value).get_inner_expression() {
            Expression::StringLiteral(_) | Expression::TemplateLiteral(_) => {
                Some(Known::plain(Shape::Text(Text::Plain)))
            }
            Expression::NumericLiteral(_) => Some(Known::plain(Shape::Number)),
            Expression::BooleanLiteral(_) => Some(Known::plain(Shape::Boolean)),
            Expression::NullLiteral(_) => Some(Known::plain(Shape::Null)),
            Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_) => {
                Some(Known::plain(Shape::Function))
            }
            Expression::ArrayExpression(_) => Some(Known::plain(Shape::Array(None, None))),
            Expression::AwaitExpression(it) => self.value(&it.argument, steps)?.awaited(),
            Expression::Identifier(name) => {
                let reference = self.semantic.scoping().get_reference(name.reference_id.get()?);
                match reference.symbol_id() {
                    Some(symbol) => self.symbol(symbol, steps),
                    None if name.name == "args" => {
                        let given = self.results.iter().find(|given| given.tool == ARGS)?;
                        given.shape.clone().map(Known::plain)
                    }
                    None => (name.name == "undefined").then(|| Known::plain(Shape::Undefined)),
                }
            }
            Expression::CallExpression(it) => self.call(it, steps),
            Expression::NewExpression(it) => {
                let Expression::Identifier(class) = it.callee.get_inner_expression() else { return None };
                if class.name == "Promise" {
                    return Some(Known::promise(Shape::Unknown));
                }
                let class = CLASSES.iter().find(|name| **name == class.name)?;
                Some(Known::plain(Shape::Instance(class)))
            }
            Expression::LogicalExpression(it) if it.operator != LogicalOperator::And => {
                let left = self.value(&it.left, steps)?;
                match &left.shape {
                    _ if left.is_promise => Some(left),
                    Shape::Undefined | Shape::Null => self.value(&it.right, steps),
                    Shape::Array(..) | Shape::Object(_) | Shape::Instance(_) | Shape::Function => Some(left),
                    Shape::Text(_) | Shape::Number | Shape::Boolean => Some(left).filter(|_| it.operator.is_coalesce()),
                    Shape::Promise(_) | Shape::Other | Shape::Unknown => None,
                }
            }
            Expression::ConditionalExpression(it) => {
                let Expression::CallExpression(test) = unprobed(&it.test).get_inner_expression() else { return None };
                let is_test = test.callee.is_specific_member_access("Array", "isArray");
                let tested = test.arguments.first().and_then(Argument::as_expression).filter(|_| is_test)?;
                let tested = self.value(tested, steps).filter(|known| !known.is_promise && known.origin.is_some())?;
                match tested.shape {
                    Shape::Array(..) => self.value(&it.consequent, steps),
                    _ => self.value(&it.alternate, steps),
                }
            }
            Expression::ChainExpression(it) => self.member(it.expression.as_member_expression()?, steps),
            value if self.tool(value).is_some() => Some(Known::plain(Shape::Function)),
            value => self.member(value.as_member_expression()?, steps),
        }
    }

    fn member(&self, member: &MemberExpression<'a>, steps: usize) -> Option<Known> {
        let object = self.value(member.object(), steps)?;
        match member.static_property_name() {
            Some(name) if name.parse::<usize>().is_err() => object.property(name),
            // An object has no elements, but may have members that are called so.
            Some(name) if matches!(object.shape, Shape::Object(_)) => object.property(name),
            Some(_) => object.element(),
            None => object.element().filter(|_| is_index(member)),
        }
    }

    fn call(&self, call: &CallExpression<'a>, steps: usize) -> Option<Known> {
        if let Some(tool) = self.tool(&call.callee) {
            return self.result(&tool, call.span, false);
        }
        if let Expression::Identifier(_) = call.callee.get_inner_expression()
            && self.is_call_tool(&call.callee)
            && let Some(Expression::StringLiteral(tool)) = call.arguments.first().and_then(Argument::as_expression)
        {
            return self.result(&tool.value, call.span, true);
        }
        if let Expression::Identifier(name) = call.callee.get_inner_expression() {
            if self.is_async(name) {
                return Some(Known::promise(Shape::Unknown));
            }
            let is_imported = self.symbol_of(name).is_some_and(|symbol| self.is_imported(symbol));
            if let Some(shape) = given_by_pml(&name.name).filter(|_| is_imported) {
                return Some(Known::promise(shape));
            }
        }
        if call.callee.is_specific_member_access("JSON", "stringify") {
            return Some(Known::plain(Shape::Text(Text::Json)));
        }
        let member = call.callee.as_member_expression()?;
        let is_pml = member.object().is_specific_id("pml") || member.object().is_specific_id("mcp");
        if is_pml && member.static_property_name() == Some("callTool") {
            let Some(Expression::StringLiteral(tool)) = call.arguments.first().and_then(Argument::as_expression) else {
                return None;
            };
            return self.result(&tool.value, call.span, true);
        }
        let method = member.static_property_name()?;
        if member.object().is_specific_id("Promise") && method == "allSettled" {
            let names = ["status", "value", "reason"].map(|name| (name.to_owned(), Shape::Unknown));
            return Some(Known::promise(Shape::Array(None, Some(Box::new(Shape::Object(names.into()))))));
        }
        if member.object().is_specific_id("Promise") && PROMISES.contains(&method) || self.is_async_method(method) {
            return Some(Known::promise(Shape::Unknown));
        }
        if let Some(shape) = given_by_pml(method).filter(|_| is_pml) {
            return Some(Known::promise(shape));
        }
        if member.object().is_specific_id("Object") && matches!(method, "keys" | "values" | "entries") {
            return Some(Known::plain(Shape::Array(None, None)));
        }
        if TEXT.contains(&method) {
            return Some(Known::plain(Shape::Text(Text::Plain)));
        }
        let object = self.value(member.object(), steps)?;
        if object.is_promise && matches!(method, "then" | "catch" | "finally") {
            return Some(Known::promise(Shape::Unknown));
        }
        // Of a handle.
        if matches!(method, "slice" | "json") && object.shape.keys().take(2).eq(["type", "size"]) {
            return Some(Known::promise(Shape::Unknown));
        }
        if matches!(object.shape, Shape::Text(_)) && method == "split" && !object.is_promise {
            return Some(Known::plain(Shape::Array(None, Some(Box::new(Shape::Text(Text::Plain))))));
        }
        let object = Some(object).filter(|object| matches!(object.shape, Shape::Array(..)))?;
        if matches!(method, "map" | "flatMap") && !object.is_promise {
            let callback = call.arguments.first().and_then(Argument::as_expression);
            let element =
                callback.and_then(|it| self.returned(it, steps)).filter(|it| it.is_promise && method == "map");
            let element = element.map(|element| Box::new(Shape::Promise(Box::new(element.shape))));
            return Some(Known::plain(Shape::Array(None, element)));
        }
        if SAME.contains(&method) {
            let same = Shape::Array(None, object.shape.element().map(Box::new));
            return (!object.is_promise).then_some(Known { shape: same, is_part: true, ..object });
        }
        object.element().filter(|_| ELEMENT.contains(&method))
    }

    /// What a tool gave, or its envelope.
    fn result(&self, tool: &str, span: Span, is_envelope: bool) -> Option<Known> {
        let place = if is_envelope { None } else { Some((self.places)(span.start)?) };
        let given = self.results.iter().find(|given| given.tool == tool && given.place == place);
        let shape = given.and_then(|given| given.shape.clone()).unwrap_or(Shape::Unknown);
        let shape = match is_envelope {
            true => {
                // A result was noted if there was one.
                let error = match shape {
                    Shape::Unknown => Shape::Object(
                        ["code", "message", "tool", "retryable", "outcome"]
                            .map(|name| (name.to_owned(), Shape::Unknown))
                            .into(),
                    ),
                    _ => Shape::Other,
                };
                let members = [("success", Shape::Boolean), ("result", shape), ("error", error)];
                Shape::Object(members.map(|(name, shape)| (name.to_owned(), shape)).into())
            }
            false => shape,
        };
        let path = (!is_envelope).then(Vec::new);
        Some(Known { shape, origin: Some((tool.to_owned(), span)), is_part: is_envelope, path, is_promise: true })
    }

    /// The target of `mcp.server.tool`.
    fn tool(&self, callee: &Expression<'a>) -> Option<String> {
        let member = callee.get_inner_expression().as_member_expression()?;
        let server = member.object().get_inner_expression().as_member_expression()?;
        let is_mcp = server.object().is_specific_id("mcp");
        is_mcp.then_some(format!("{}:{}", server.static_property_name()?, member.static_property_name()?))
    }

    /// Was the name imported from "pml"? Imports are the members of a parameter by then.
    fn is_call_tool(&self, callee: &Expression<'a>) -> bool {
        matches!(callee.get_inner_expression(), Expression::Identifier(name) if name.name == "callTool")
    }

    pub(super) fn symbol_of(&self, name: &IdentifierReference<'a>) -> Option<SymbolId> {
        self.semantic.scoping().get_reference(name.reference_id.get()?).symbol_id()
    }

    /// Is this a name that was imported from "pml"? Imports are the members of a parameter of the outermost function by then.
    fn is_imported(&self, symbol: SymbolId) -> bool {
        let scoping = self.semantic.scoping();
        let declaration = scoping.symbol_declaration(symbol);
        matches!(self.semantic.nodes().kind(declaration), AstKind::FormalParameter(_))
            && declaration.index() < self.semantic.nodes().len()
            && self
                .semantic
                .nodes()
                .ancestor_kinds(declaration)
                .filter(|kind| matches!(kind, AstKind::ArrowFunctionExpression(_) | AstKind::Function(_)))
                .count()
                == 1
    }

    /// The call that gave the value of an expression, also through a variable that is never assigned again.
    pub(super) fn made_by<'e>(&'e self, value: &'e Expression<'a>) -> Option<&'e CallExpression<'a>> {
        match unwatched(value).get_inner_expression() {
            Expression::CallExpression(it) => Some(it),
            Expression::Identifier(name) => {
                let scoping = self.semantic.scoping();
                let symbol = self.symbol_of(name).filter(|symbol| !scoping.symbol_is_mutated(*symbol))?;
                match self.semantic.nodes().kind(scoping.symbol_declaration(symbol)) {
                    AstKind::VariableDeclarator(it) if !it.id.is_destructuring_pattern() => {
                        match unwatched(it.init.as_ref()?).get_inner_expression() {
                            Expression::CallExpression(call) => Some(call),
                            _ => None,
                        }
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Is this what the program was given?
    pub(super) fn is_args(&self, value: &Expression<'a>) -> bool {
        let Expression::Identifier(name) = value.get_inner_expression() else { return false };
        name.name == ARGS && self.symbol_of(name).is_none()
    }

    /// Is this a variable that a pattern took out of a list: `const [a, b] = …`?
    pub(super) fn is_taken_from_list(&self, value: &Expression<'a>) -> bool {
        let Expression::Identifier(name) = value.get_inner_expression() else { return false };
        let Some(symbol) = self.symbol_of(name) else { return false };
        let declaration = self.semantic.scoping().symbol_declaration(symbol);
        let AstKind::VariableDeclarator(it) = self.semantic.nodes().kind(declaration) else { return false };
        let BindingPattern::ArrayPattern(pattern) = &it.id else { return false };
        let is_all =
            it.init.as_ref().is_some_and(|init| matches!(init.get_inner_expression(), Expression::AwaitExpression(_)));
        let mut elements = pattern.elements.iter().flatten().filter_map(|element| element.get_binding_identifier());
        !is_all && elements.any(|id| id.symbol_id.get() == Some(symbol))
    }

    /// Is this the error that a `catch` names?
    pub(super) fn is_caught(&self, value: &Expression<'a>) -> bool {
        let Expression::Identifier(name) = value.get_inner_expression() else { return false };
        let symbol = self.symbol_of(name);
        symbol.is_some_and(|symbol| self.semantic.scoping().symbol_flags(symbol).is_catch_variable())
    }

    /// What a function that is written out returns, if that is a promise or one expression.
    fn returned(&self, function: &Expression<'a>, steps: usize) -> Option<Known> {
        match function.get_inner_expression() {
            Expression::ArrowFunctionExpression(it) if it.r#async => Some(Known::promise(Shape::Unknown)),
            Expression::FunctionExpression(it) if it.r#async => Some(Known::promise(Shape::Unknown)),
            Expression::ArrowFunctionExpression(it) => self.value(it.body.as_expression()?, steps),
            _ => None,
        }
    }

    /// Are all methods of this name, in classes and objects of the program, async?
    fn is_async_method(&self, name: &str) -> bool {
        let mut methods = self.semantic.nodes().iter().filter_map(|node| match node.kind() {
            AstKind::MethodDefinition(it) if it.key.is_specific_static_name(name) => Some(it.value.r#async),
            AstKind::ObjectProperty(it) if it.key.is_specific_static_name(name) => {
                Some(match it.value.get_inner_expression() {
                    Expression::FunctionExpression(it) => it.r#async,
                    Expression::ArrowFunctionExpression(it) => it.r#async,
                    _ => false,
                })
            }
            _ => None,
        });
        methods.next().is_some_and(|first| first && methods.all(|other| other))
    }

    /// Is this the name that a `for … in` gives to keys?
    pub(super) fn is_key(&self, value: &Expression<'a>) -> bool {
        let Expression::Identifier(name) = value.get_inner_expression() else { return false };
        let Some(symbol) = self.symbol_of(name) else { return false };
        let mut around =
            self.semantic.nodes().ancestor_kinds(self.semantic.scoping().symbol_declaration(symbol)).take(2);
        around.any(|kind| matches!(kind, AstKind::ForInStatement(_)))
            && matches!(
                self.semantic.nodes().kind(self.semantic.scoping().symbol_declaration(symbol)),
                AstKind::VariableDeclarator(_)
            )
    }

    /// The place of a parameter of a function, if that is what a name stands for.
    pub(super) fn parameter_of(&self, value: &Expression<'a>) -> Option<usize> {
        let Expression::Identifier(name) = value.get_inner_expression() else { return None };
        let declaration = self.semantic.scoping().symbol_declaration(self.symbol_of(name)?);
        let AstKind::FormalParameter(it) = self.semantic.nodes().kind(declaration) else { return None };
        let parameters = self.semantic.nodes().ancestor_kinds(declaration).find_map(|kind| match kind {
            AstKind::FormalParameters(it) => Some(it),
            _ => None,
        })?;
        parameters.items.iter().position(|other| other.span == it.span)
    }

    /// Is this the name of an async function of the program?
    fn is_async(&self, name: &IdentifierReference<'a>) -> bool {
        let scoping = self.semantic.scoping();
        let Some(symbol) = self.symbol_of(name).filter(|symbol| !scoping.symbol_is_mutated(*symbol)) else {
            return false;
        };
        match self.semantic.nodes().kind(scoping.symbol_declaration(symbol)) {
            AstKind::Function(it) => it.r#async && !it.generator,
            AstKind::VariableDeclarator(it) => match it.init.as_ref().map(Expression::get_inner_expression) {
                Some(Expression::ArrowFunctionExpression(it)) => it.r#async,
                Some(Expression::FunctionExpression(it)) => it.r#async && !it.generator,
                _ => false,
            },
            _ => false,
        }
    }

    /// The value that a variable was declared with, unless it is assigned to later.
    fn symbol(&self, symbol: SymbolId, steps: usize) -> Option<Known> {
        let scoping = self.semantic.scoping();
        if scoping.symbol_is_mutated(symbol) {
            return None;
        }
        let nodes = self.semantic.nodes();
        let declaration = scoping.symbol_declaration(symbol);
        let is_this = |id: &BindingIdentifier<'a>| id.symbol_id.get() == Some(symbol);
        match nodes.kind(declaration) {
            AstKind::VariableDeclarator(it) => {
                if let Some((pattern, value)) = awaited_part(it, symbol) {
                    return follow(pattern, &is_this, self.value(value, steps)?.awaited()?);
                }
                let known = match &it.init {
                    Some(init) => self.value(init, steps),
                    None => {
                        // `for (const x of list)`.
                        let list = nodes.ancestor_kinds(declaration).take(2).find_map(|kind| match kind {
                            AstKind::ForOfStatement(it) => Some(&it.right),
                            _ => None,
                        })?;
                        self.value(list, steps)?.element()
                    }
                }?;
                follow(&it.id, &is_this, known)
            }
            AstKind::FormalParameter(it) => {
                let mut kinds = nodes.ancestor_kinds(declaration);
                let parameters = kinds.find_map(|kind| match kind {
                    AstKind::FormalParameters(it) => Some(it),
                    _ => None,
                })?;
                let function = kinds.next()?.span();
                let call = kinds.find_map(|kind| match kind {
                    AstKind::CallExpression(it) => Some(it),
                    _ => None,
                })?;
                let member = call.callee.as_member_expression()?;
                let method = member.static_property_name()?;
                let is_argument = call.arguments.first().is_some_and(|first| first.span() == function);
                let place = parameters.items.iter().position(|other| other.span == it.span)?;
                let is_element = EACH.contains(&method) && (place == 0 || method == "sort")
                    || matches!(method, "reduce" | "reduceRight") && place == 1;
                let list = self.value(member.object(), steps).filter(|_| is_argument && is_element)?;
                follow(&it.pattern, &is_this, list.element()?)
            }
            AstKind::Function(_) => Some(Known::plain(Shape::Function)),
            _ => None,
        }
    }
}

/// What a function of pml promises.
fn given_by_pml(name: &str) -> Option<Shape> {
    let object =
        |names: &[&str]| Shape::Object(names.iter().map(|name| ((*name).to_owned(), Shape::Unknown)).collect());
    let list = |element: Shape| Shape::Array(None, Some(Box::new(element)));
    Some(match name {
        "searchTools" => list(object(&["name", "description", "inputSchema", "signature", "score"])),
        "callToolsBatch" => list(object(&["success", "result", "error"])),
        "listResources" => list(object(&["server", "uri", "name"])),
        "getPrompt" => object(&["description", "messages"]),
        "readResource" | "executeWorkflow" | "result" => Shape::Unknown,
        _ => return None,
    })
}

/// The part of a value that a pattern gives a name.
fn follow<'a>(
    pattern: &BindingPattern<'a>,
    is_this: &dyn Fn(&BindingIdentifier<'a>) -> bool,
    known: Known,
) -> Option<Known> {
    match pattern {
        BindingPattern::BindingIdentifier(id) => is_this(id).then_some(known),
        BindingPattern::ObjectPattern(it) => it
            .properties
            .iter()
            .find_map(|property| follow(&property.value, is_this, known.clone().property(name_of(&property.key)?)?)),
        BindingPattern::ArrayPattern(it) => {
            it.elements.iter().flatten().find_map(|element| follow(element, is_this, known.clone().element()?))
        }
        BindingPattern::AssignmentPattern(_) => None,
    }
}

/// `list[0]`, `list[i]`.
fn is_index(member: &MemberExpression<'_>) -> bool {
    let MemberExpression::ComputedMemberExpression(it) = member else { return false };
    matches!(it.expression, Expression::NumericLiteral(_) | Expression::Identifier(_) | Expression::BinaryExpression(_))
}

/// Of `const [a, b] = await Promise.all([x, y])`, the pattern and the value that a name stands for.
fn awaited_part<'e, 'a>(
    declarator: &'e VariableDeclarator<'a>,
    symbol: SymbolId,
) -> Option<(&'e BindingPattern<'a>, &'e Expression<'a>)> {
    let BindingPattern::ArrayPattern(patterns) = &declarator.id else { return None };
    let Expression::AwaitExpression(all) = declarator.init.as_ref()?.get_inner_expression() else { return None };
    let Expression::CallExpression(all) = all.argument.get_inner_expression() else { return None };
    let Argument::ArrayExpression(values) = all.arguments.first()? else { return None };
    let holds = |pattern: &BindingPattern<'a>| {
        pattern.get_binding_identifiers().iter().any(|id| id.symbol_id.get() == Some(symbol))
    };
    let index = patterns.elements.iter().position(|element| element.as_ref().is_some_and(holds))?;
    let value = values.elements.get(index)?.as_expression()?;
    let is_all = all.callee.is_specific_member_access("Promise", "all");
    is_all.then_some((patterns.elements[index].as_ref()?, value))
}
