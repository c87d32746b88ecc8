//! A tool in one line, and all tools in a file for editors.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use serde_json::{Map, Value};

use super::{
    comment::Comment,
    names::{access, alias, is_reserved, key, quoted},
    schema,
    text::{Detail, Shown, block, line},
    types::{Object, Rest, Type, members, union},
};
use crate::catalog::schema_form::Side;

/// Bytes of a signature, about: its arguments and its result.
const SIGNATURE_ARGUMENTS: usize = 1400;
const SIGNATURE_RESULT: usize = 400;
/// Bytes of the arguments or the result up to which short descriptions are shown.
const SIGNATURE_DESCRIBED: usize = 500;
/// How much a signature shows: the first that fits, else the last. What a call needs is shortened after everything else.
const DETAILS: [Detail; 7] = [
    detail(shown(4, usize::MAX), shown(4, usize::MAX)),
    detail(shown(4, usize::MAX), shown(4, 8)),
    detail(shown(4, usize::MAX), shown(2, 8)),
    detail(shown(4, usize::MAX), shown(1, 8)),
    detail(shown(3, usize::MAX), shown(1, 4)),
    detail(shown(2, usize::MAX), shown(1, 4)),
    detail(shown(1, usize::MAX), shown(1, 4)),
];
/// Bytes of a declaration, about, for its arguments and for its result each.
const DECLARATION_BYTES: usize = 28 * 1024;

const fn detail(required: Shown, optional: Shown) -> Detail {
    Detail { required, optional, is_described: false }
}

/// What every declaration file ends with.
const AMBIENT: &str = include_str!("pml.d.ts");

/// A tool as its declaration needs it.
#[derive(Clone, Copy, Debug)]
pub struct Declared<'a> {
    pub server: &'a str,
    pub name: &'a str,
    pub description: Option<&'a str>,
    /// The JSON schema of the arguments, as the server sent it.
    pub input: &'a Value,
    pub result: Returned<'a>,
}

/// What a call returns to a program.
#[derive(Clone, Copy, Debug)]
pub enum Returned<'a> {
    Unknown,
    Text,
    /// A value that this JSON schema describes.
    Schema(&'a Value),
    /// A value that `part` of a JSON schema describes; its references lead into the whole.
    Part {
        whole: &'a Value,
        part: &'a Value,
    },
}

const fn shown(levels: usize, members: usize) -> Shown {
    Shown { levels, members, literal_bytes: if members == usize::MAX { 200 } else { 60 } }
}

/// One line for search results and messages:
/// `mcp.github.create_issue(args: { owner: string; title: string; body?: string }): Promise<any>`.
///
/// Required arguments come first. What makes it long is shortened: about 2000 bytes at most.
pub fn signature(tool: &Declared<'_>) -> String {
    let arguments = Arguments::read(tool.input);
    let parameter = arguments.parameter(&fitting(&arguments.of, SIGNATURE_ARGUMENTS));
    let result = tool.result.text(|of| fitting(of, SIGNATURE_RESULT));
    if is_reserved(tool.server) || is_reserved(tool.name) {
        let name = quoted(&format!("{}:{}", tool.server, tool.name));
        return format!("callTool({name}, {parameter}): Promise<{{ success: boolean; result?: {result} }}>");
    }
    format!("mcp{}{}({parameter}): Promise<{result}>", access(tool.server), access(tool.name))
}

/// The type that `schema`, a part of `root`, describes, in one line of about `limit` bytes.
pub fn type_line(root: &Value, schema: &Value, limit: usize) -> String {
    fitting(&schema::read(root, schema, Side::Arguments), limit)
}

/// A `.d.ts` file: every server and tool on `mcp`, with comments, and what else programs are given.
///
/// Of two tools with the same name on the same server, the first counts.
pub fn declarations<'a>(tools: impl IntoIterator<Item = Declared<'a>>) -> String {
    let mut servers: BTreeMap<&str, BTreeMap<&str, Declared<'a>>> = BTreeMap::new();
    for tool in tools {
        servers.entry(tool.server).or_default().entry(tool.name).or_insert(tool);
    }
    let mut out = String::from("// Written by `pml types`.\n\n");
    out.push_str(concat!(
        "/**\n * The tools of all servers. A call returns the tool's value, or throws a `ToolError`.\n *\n",
        " * `any` is the result of a tool without an output schema. A text that is a JSON object or array is that value; it is\n",
        " * still its text where a text is meant: `String(value)`, a template, an argument that is a string.\n */\n",
    ));
    out.push_str("declare const mcp: {\n");
    let server_aliases = aliases(servers.keys().copied());
    for (server, tools) in &servers {
        if is_reserved(server) {
            out.push_str(&format!(
                "  // {server}: call its tools by callTool({}, …)\n",
                quoted(&format!("{server}:…"))
            ));
            continue;
        }
        out.push_str(&format!("  readonly {}: {{\n", key(server)));
        let aliases = aliases(tools.keys().copied());
        for tool in tools.values() {
            declare(&mut out, tool, aliases.get(tool.name));
        }
        out.push_str("  };\n");
        if let Some(alias) = server_aliases.get(server) {
            Comment::of_text(&format!("The same as `{server}`.")).write(&mut out, 2);
            out.push_str(&format!("  readonly {alias}: (typeof mcp)[{}];\n", quoted(server)));
        }
    }
    out.push_str("};\n");
    out.push_str(AMBIENT);
    out
}

/// One tool on its server.
fn declare(out: &mut String, tool: &Declared<'_>, alias: Option<&String>) {
    let Declared { server, name, .. } = tool;
    if is_reserved(name) {
        out.push_str(&format!("    // {name}: call it by callTool({}, …)\n", quoted(&format!("{server}:{name}"))));
        return;
    }
    let arguments = Arguments::read(tool.input);
    let parameter = arguments.parameter(&block(&arguments.of, 4, DECLARATION_BYTES).text);
    let result = tool.result.text(|of| block(of, 4, DECLARATION_BYTES).text);
    Comment::of_text(tool.description.unwrap_or_default()).write(out, 4);
    out.push_str(&format!("    {}({parameter}): Promise<{result}>;\n", key(name)));
    if let Some(alias) = alias {
        Comment::of_text(&format!("The same as `{name}`.")).write(out, 4);
        out.push_str(&format!("    {alias}: (typeof mcp)[{}][{}];\n", quoted(server), quoted(name)));
    }
}

/// The aliases of names, of servers or of a server's tools, that mean one of them only.
fn aliases<'a>(names: impl Iterator<Item = &'a str> + Clone) -> BTreeMap<&'a str, String> {
    let mut taken: BTreeSet<String> = names.clone().map(str::to_owned).collect();
    let mut shared = BTreeSet::new();
    let mut aliases: BTreeMap<_, _> = names.filter_map(|name| Some((name, alias(name)?))).collect();
    for alias in aliases.values() {
        if !taken.insert(alias.clone()) {
            shared.insert(alias.clone());
        }
    }
    aliases.retain(|_, alias| !shared.contains(alias));
    aliases
}

/// The type of a tool's one parameter.
struct Arguments<'a> {
    of: Rc<Type<'a>>,
    may_be_left_out: bool,
}

impl<'a> Arguments<'a> {
    /// Arguments are an object, whatever a schema says.
    fn read(schema: &'a Value) -> Arguments<'a> {
        let read = schema::read(schema, schema, Side::Arguments);
        let is_object = |member: &&Rc<Type<'_>>| matches!(&***member, Type::Object(_));
        let objects: Vec<_> = members(&read).iter().filter(is_object).cloned().collect();
        if objects.is_empty() {
            return Arguments { of: Rc::new(Type::Object(Object::default())), may_be_left_out: true };
        }
        // A tool that lists no argument takes none.
        let lists_none = schema.get("properties").and_then(Value::as_object).is_some_and(Map::is_empty);
        if lists_none && matches!(&*read, Type::Object(object) if *object == Object::default()) {
            let nothing = Object { properties: Vec::new(), rest: Rest::Closed };
            return Arguments { of: Rc::new(Type::Object(nothing)), may_be_left_out: true };
        }
        let requires_some = |member: &Rc<Type<'_>>| match &**member {
            Type::Object(object) => object.properties.iter().any(|property| property.required),
            _ => false,
        };
        let may_be_left_out = !objects.iter().all(requires_some);
        Arguments { of: union(objects), may_be_left_out }
    }

    fn parameter(&self, text: &str) -> String {
        format!("args{}: {text}", if self.may_be_left_out { "?" } else { "" })
    }
}

impl Returned<'_> {
    fn text(&self, write: impl FnOnce(&Type<'_>) -> String) -> String {
        match self {
            Returned::Unknown => "any".to_owned(),
            Returned::Text => "string".to_owned(),
            Returned::Schema(schema) => write(&schema::read(schema, schema, Side::Result)),
            Returned::Part { whole, part } => write(&schema::read(whole, part, Side::Result)),
        }
    }
}

/// In one line, as deep as it fits.
fn fitting(of: &Type<'_>, limit: usize) -> String {
    let [most, .., least] = DETAILS;
    let described = line(of, Detail { is_described: true, ..most }, limit.min(SIGNATURE_DESCRIBED));
    if described.is_whole {
        return described.text;
    }
    let whole = DETAILS.iter().map(|detail| line(of, *detail, limit)).find(|written| written.is_whole);
    whole.unwrap_or_else(|| line(of, least, limit)).text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool<'a>(name: &'a str, input: &'a Value) -> Declared<'a> {
        Declared { server: "s", name, description: None, input, result: Returned::Unknown }
    }

    #[test]
    fn a_signature_is_one_line() {
        let none = json!({"type": "object", "properties": {}});
        let two =
            json!({"properties": {"body": {"type": "string"}, "title": {"type": "string"}}, "required": ["title"]});
        let odd = json!({"type": "string"});
        let choice = json!({"oneOf": [{"required": ["a"], "properties": {"a": {}}}, {"type": "null"}]});
        #[rustfmt::skip]
        let table = [
            // server   tool        input       result                      signature
            ("s",       "t",        &two,       Returned::Unknown,          "mcp.s.t(args: { title: string; body?: string }): Promise<any>"),
            ("s",       "t",        &none,      Returned::Text,             "mcp.s.t(args?: {}): Promise<string>"),
            ("s",       "t",        &odd,       Returned::Schema(&none),    "mcp.s.t(args?: object): Promise<object>"),
            ("s",       "t",        &choice,    Returned::Schema(&odd),     "mcp.s.t(args: { a: any }): Promise<string>"),
            ("my-s",    "a\nb",     &none,      Returned::Unknown,          r#"mcp["my-s"]["a\nb"](args?: {}): Promise<any>"#),
            ("s",       "then",     &none,      Returned::Text,             r#"callTool("s:then", args?: {}): Promise<{ success: boolean; result?: string }>"#),
        ];
        for (server, name, input, result, expected) in table {
            assert_eq!(signature(&Declared { server, name, description: None, input, result }), expected);
        }
    }

    #[test]
    fn declarations_list_servers_tools_and_aliases() {
        let input = json!({"properties": {"a": {"type": "number", "description": "First."}}, "required": ["a"]});
        let none = json!({"properties": {}});
        let described =
            Declared { description: Some("Adds. */ alert()"), result: Returned::Text, ..tool("get-sum", &input) };
        let then = Declared { server: "then", ..tool("x", &none) };
        let docs = Declared { server: "aws-docs", ..tool("x", &none) };
        let text = declarations([tool("then", &none), described, tool("get-sum", &none), then, docs]);
        let expected = r#"declare const mcp: {
  readonly "aws-docs": {
    x(args?: { [key: string]: never }): Promise<any>;
  };
  /** The same as `aws-docs`. */
  readonly awsDocs: (typeof mcp)["aws-docs"];
  readonly s: {
    /** Adds. *\/ alert() */
    "get-sum"(args: {
      /** First. */
      a: number;
    }): Promise<string>;
    /** The same as `get-sum`. */
    getSum: (typeof mcp)["s"]["get-sum"];
    // then: call it by callTool("s:then", …)
  };
  // then: call its tools by callTool("then:…", …)
};
"#;
        assert!(text.contains(expected), "{text}");
        assert!(text.ends_with(AMBIENT));
    }

    #[test]
    fn an_alias_means_one_tool() {
        #[rustfmt::skip]
        let table = [
            // names                    aliases
            ("get-sum other",           "get-sum=getSum"),
            ("get-sum getSum",          ""),
            ("get-sum get.sum x-y",     "x-y=xY"),
            ("get-sum get.sum get/sum", ""),
        ];
        for (names, expected) in table {
            let aliases = aliases(names.split(' '));
            let actual: Vec<_> = aliases.iter().map(|(name, alias)| format!("{name}={alias}")).collect();
            assert_eq!(actual.join(" "), expected, "{names}");
        }
    }
}
