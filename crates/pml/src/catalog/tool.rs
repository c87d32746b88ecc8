//! One tool, as its server describes it.

use std::sync::OnceLock;

use pml_wire::{ToolId, id::ToolIdError};
use serde_json::{Map, Value, value::RawValue};

use super::{
    header_arguments::{HeaderArgument, header_arguments},
    references,
    schema::{Checker, Pace, TooSlow, Verdict, compiles_quickly},
    schema_form::{Side, has_default},
    typescript::{self, Declared, Returned},
    unknown::unknown,
};
use crate::{
    digest::sha256,
    shown::{self, visible},
};

/// What the names of resources and prompts begin with in the policy and the audit log, behind that of the server.
const RESERVED: [&str; 2] = ["resource:", "prompt:"];

/// A tool that can be called.
#[derive(Debug)]
pub struct Tool {
    pub id: ToolId,
    /// With every character in sight, as the texts in the schemas.
    pub description: Option<String>,
    /// An object; empty if the server gave none that can be used.
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub hints: Hints,
    /// Of everything the server says about it.
    pub hash: String,
    /// The one key of the result that programs get in place of the result.
    pub unwrapped: Option<String>,
    raw: Box<RawValue>,
    input: OnceLock<Checker>,
    output: OnceLock<Checker>,
    headers: OnceLock<Result<Vec<HeaderArgument>, String>>,
    signature: OnceLock<String>,
}

/// What the server claims. Believed of trusted servers only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    pub is_read_only: bool,
    pub is_idempotent: bool,
    pub is_destructive: bool,
    /// Must it be called as a task? No hint, but what the server requires.
    pub needs_task: bool,
}

impl Tool {
    /// Reads a tool of `server`, or says why it is none. What is wrong about it but does not stand
    /// in the way of calling it is left out.
    pub fn parse(server: &str, raw: Box<RawValue>) -> Result<Tool, String> {
        let value: Value = serde_json::from_str(raw.get()).map_err(|err| format!("it cannot be read: {err}"))?;
        let Value::Object(object) = &value else { return Err("it is no object".to_owned()) };
        let name = match object.get("name") {
            Some(Value::String(name)) if !name.is_empty() => name,
            Some(Value::String(_)) => return Err("its name is empty".to_owned()),
            Some(_) => return Err("its name is no text".to_owned()),
            None => return Err("it has no name".to_owned()),
        };
        let id = format!("{server}:{name}").parse().map_err(|err: ToolIdError| err.to_string())?;
        shown::check_name(name)?;
        if let Some(kind) = RESERVED.iter().find(|kind| name.starts_with(**kind)) {
            return Err(format!("its name `{name}` begins with `{kind}`, which stands for no tool"));
        }
        let schema = |key: &str| {
            let mut schema = object.get(key).filter(|schema| schema.is_object()).cloned()?;
            shown::clean_schema(&mut schema);
            references::localise(&mut schema);
            Some(schema)
        };
        let output_schema = schema("outputSchema");
        let hint = |key: &str| object.get("annotations").and_then(|hints| hints[key].as_bool());
        Ok(Tool {
            id,
            description: object.get("description").and_then(Value::as_str).map(|text| visible(text).into_owned()),
            input_schema: schema("inputSchema").unwrap_or_else(|| Value::Object(Map::new())),
            unwrapped: output_schema.as_ref().and_then(wrapper),
            output_schema,
            hints: Hints {
                // A server that says both is not believed.
                is_read_only: hint("readOnlyHint") == Some(true) && hint("destructiveHint") != Some(true),
                is_idempotent: hint("idempotentHint").unwrap_or(false),
                is_destructive: hint("destructiveHint").unwrap_or(true),
                needs_task: value["execution"]["taskSupport"] == "required",
            },
            hash: sha256(raw.get()),
            raw,
            input: OnceLock::new(),
            output: OnceLock::new(),
            headers: OnceLock::new(),
            signature: OnceLock::new(),
        })
    }

    /// As the server described it.
    pub fn raw(&self) -> &RawValue {
        &self.raw
    }

    /// The schema of its arguments as the server wrote it, for readers; an empty object if there is none.
    pub fn written_input(&self) -> Value {
        self.written_schema("inputSchema").unwrap_or_else(|| Value::Object(Map::new()))
    }

    /// The same of its results.
    pub fn written_output(&self) -> Option<Value> {
        self.written_schema("outputSchema")
    }

    fn written_schema(&self, key: &str) -> Option<Value> {
        let mut declared: Map<String, Value> = serde_json::from_str(self.raw.get()).ok()?;
        let mut schema = declared.remove(key).filter(Value::is_object)?;
        shown::clean_schema(&mut schema);
        Some(schema)
    }

    /// Checks the arguments of a call. The verdict has the path and what was expected.
    pub fn check_arguments(&self, args: &Value, pace: Pace) -> Result<Verdict, TooSlow> {
        self.input_checker(pace)?.check("args", args, pace)
    }

    /// Checks some of the arguments of a call, each by itself.
    pub fn check_some_arguments(&self, args: &Value, pace: Pace) -> Result<Verdict, TooSlow> {
        self.input_checker(pace)?.check_properties("args", args, pace)
    }

    /// Checks the arguments of a call of which the values at `holes`, JSON Pointers, are not known yet.
    pub fn check_arguments_but(&self, args: &Value, holes: &[String], pace: Pace) -> Result<Verdict, TooSlow> {
        self.input_checker(pace)?.check_but("args", args, holes, pace)
    }

    /// Arguments that the schema neither names nor refuses, each with what may have been meant.
    pub fn unknown_arguments(&self, args: &Value, pace: Pace) -> Result<Vec<String>, TooSlow> {
        unknown(&self.input_schema, "args", args, pace)
    }

    /// Checks what a call returned, if the tool says what it returns.
    pub fn check_result(&self, result: &Value, pace: Pace) -> Result<Verdict, TooSlow> {
        match &self.output_schema {
            Some(schema) => self.checker(&self.output, schema, Side::Result, pace)?.check("result", result, pace),
            None => Ok(Ok(())),
        }
    }

    fn input_checker(&self, pace: Pace) -> Result<&Checker, TooSlow> {
        self.checker(&self.input, &self.input_schema, Side::Arguments, pace)
    }

    fn checker<'a>(
        &self,
        checker: &'a OnceLock<Checker>,
        schema: &Value,
        side: Side,
        pace: Pace,
    ) -> Result<&'a Checker, TooSlow> {
        if pace == Pace::Quick && checker.get().is_none() && !compiles_quickly(self.raw.get().len()) {
            return Err(TooSlow);
        }
        Ok(checker.get_or_init(|| Checker::new(&self.id, schema, side)))
    }

    /// The names of the arguments that must be given. The server fills in those that have a default.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        let names = self.input_schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.filter(|name| self.input_schema.as_object().is_none_or(|schema| !has_default(schema, name)))
    }

    /// The names of the arguments that may be given; `None` if any may.
    pub fn accepted(&self) -> Option<Vec<&str>> {
        let schema = self.input_schema.as_object()?;
        // Whatever adds properties from elsewhere makes the list a guess.
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
            && !["patternProperties", "allOf", "anyOf", "oneOf", "$ref"].iter().any(|key| schema.contains_key(*key));
        let properties = schema.get("properties")?.as_object()?;
        is_closed.then(|| properties.keys().map(String::as_str).collect())
    }

    /// Arguments that the server wants to see in headers as well, where there are headers: the
    /// header's name and the value.
    pub fn header_arguments(&self, args: &Value) -> Vec<(String, String)> {
        let wanted = self.headers().as_deref().unwrap_or_default();
        wanted.iter().filter_map(|wanted| Some((wanted.header.clone(), wanted.value(args)?))).collect()
    }

    /// Checks what the server wants in headers. A tool for which that is wrong cannot be called over HTTP.
    pub fn check_headers(&self) -> Result<(), String> {
        self.headers().as_ref().map(drop).map_err(String::clone)
    }

    fn headers(&self) -> &Result<Vec<HeaderArgument>, String> {
        self.headers.get_or_init(|| header_arguments(&self.input_schema))
    }

    /// How programs call it, in one line of TypeScript.
    pub fn signature(&self) -> &str {
        self.signature.get_or_init(|| typescript::signature(&self.declared()))
    }

    /// The same with a result type that was learned; `source` says from how many results.
    pub fn signature_with(&self, learned: &Value, source: &str) -> String {
        let declared = Declared { result: Returned::Schema(learned), ..self.declared() };
        format!("{} /* result type learned from {source} */", typescript::signature(&declared))
    }

    /// What its TypeScript declaration needs.
    pub fn declared(&self) -> Declared<'_> {
        let result = match (&self.output_schema, &self.unwrapped) {
            (Some(schema), Some(key)) => Returned::Part { whole: schema, part: &schema["properties"][key] },
            (Some(schema), None) => Returned::Schema(schema),
            (None, _) => Returned::Unknown,
        };
        Declared {
            server: self.id.server(),
            name: self.id.tool(),
            description: self.description.as_deref(),
            input: &self.input_schema,
            result,
        }
    }
}

/// The key of a schema that does nothing but wrap one value. Decided by the schema, never by a
/// value, so that the declared type is true.
fn wrapper(schema: &Value) -> Option<String> {
    let properties = schema.get("properties")?.as_object()?;
    let (key, inner) = properties.iter().next().filter(|_| properties.len() == 1)?;
    let is_wrapper = match key.as_str() {
        "result" => true,
        "content" => inner["type"] == "string",
        _ => false,
    };
    (is_wrapper && schema["type"] == "object").then(|| key.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Tool, String> {
        Tool::parse("s", RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn a_tool_is_read_or_refused_by_itself() {
        let table = [
            (r#"{"name":"a","inputSchema":{"type":"object"}}"#, Ok("s:a")),
            (r#"{"name":"a"}"#, Ok("s:a")),
            (r#"{"name":"a","inputSchema":null,"description":12,"annotations":"x"}"#, Ok("s:a")),
            (r#"{"name":"a:b","inputSchema":true}"#, Ok("s:a:b")),
            (r#"{"name":"then"}"#, Ok("s:then")),
            (r#"{"name":""}"#, Err("its name is empty")),
            (r#"{"name":null}"#, Err("its name is no text")),
            (r"{}", Err("it has no name")),
            ("null", Err("it is no object")),
            (r#"{"name":"a\nb"}"#, Err("tool id \"s:a\\nb\" holds a control character")),
            ("{\"name\":\"a\u{200b}\"}", Err("the name `a\\u{200b}` holds U+200B, which cannot be seen")),
            (r#"{"name":"resources"}"#, Ok("s:resources")),
            (
                r#"{"name":"resource:x"}"#,
                Err("its name `resource:x` begins with `resource:`, which stands for no tool"),
            ),
        ];
        for (text, expected) in table {
            let actual = parse(text).map(|tool| tool.id.as_str().to_owned());
            assert_eq!(actual.as_deref().map_err(String::as_str), expected, "{text}");
        }
        assert!(parse(&format!(r#"{{"name":"{}"}}"#, "x".repeat(300))).unwrap_err().contains("300 bytes"));
    }

    #[test]
    fn readers_see_the_schema_as_the_server_wrote_it() {
        let schema = r##"{"$defs":{"a":{"$anchor":"name","type":"string"}},"properties":{"k":{"$ref":"#name"}}}"##;
        let tool = parse(&format!(r#"{{"name":"a","inputSchema":{schema}}}"#)).unwrap();
        assert_eq!(tool.written_input(), serde_json::from_str::<Value>(schema).unwrap());
        assert_eq!(tool.input_schema["properties"]["k"]["$ref"], "#/$defs/a");
        assert_eq!(
            (tool.written_output(), parse(r#"{"name":"b"}"#).unwrap().written_input()),
            (None, serde_json::json!({}))
        );
    }

    #[test]
    fn texts_are_in_sight_and_what_calls_repeat_is_exact() {
        let text = "{\"name\":\"a\",\"description\":\"x\u{e0041}\",\"inputSchema\":{\"properties\":{\"k\":\
            {\"description\":\"\u{202e}y\",\"enum\":[\"\u{200b}\"]}}}}";
        let tool = parse(text).unwrap();
        assert_eq!(tool.description.as_deref(), Some("x\\u{e0041}"));
        let property = &tool.input_schema["properties"]["k"];
        assert_eq!((&property["description"], &property["enum"][0]), (&"\\u{202e}y".into(), &"\u{200b}".into()));
        assert!(tool.signature().contains(r#""\u{200b}""#), "{}", tool.signature());
        assert_eq!(tool.raw().get(), text);
        let verdict = tool.check_arguments(&serde_json::json!({ "k": "\u{200b}" }), Pace::Thorough);
        assert!(verdict.is_ok_and(|verdict| verdict.is_ok()));
    }

    #[test]
    fn only_a_schema_that_wraps_one_value_is_unwrapped() {
        let table = [
            (r#"{"type":"object","properties":{"content":{"type":"string"}}}"#, Some("content")),
            (r#"{"type":"object","properties":{"result":{"type":"array"}}}"#, Some("result")),
            (r#"{"type":"object","properties":{"content":{"type":"array"}}}"#, None),
            (r#"{"type":"object","properties":{"result":{},"more":{}}}"#, None),
            (r#"{"type":"object","properties":{"other":{"type":"string"}}}"#, None),
            (r#"{"type":"object"}"#, None),
            (
                r##"{"$defs":{"R":{"type":"string"}},"type":"object","properties":{"result":{"$ref":"#/$defs/R"}}}"##,
                Some("result"),
            ),
            (
                r##"{"$defs":{"R":{"type":"array"}},"type":"object","properties":{"content":{"$ref":"#/$defs/R"}}}"##,
                None,
            ),
        ];
        for (schema, expected) in table {
            let tool = parse(&format!(r#"{{"name":"a","outputSchema":{schema}}}"#)).unwrap();
            assert_eq!(tool.unwrapped.as_deref(), expected, "{schema}");
        }
    }

    #[test]
    fn a_value_behind_a_reference_keeps_its_type_when_it_is_unwrapped() {
        let defs = r##"{"Row":{"type":"object","properties":{"id":{"type":"integer"},"next":{"$ref":"#/$defs/Row"}},"required":["id"]}}"##;
        let table = [
            (r##"{"$ref":"#/$defs/Row"}"##, "id: number"),
            (r##"{"type":"array","items":{"$ref":"#/$defs/Row"}}"##, "id: number"),
            (r##"{"anyOf":[{"$ref":"#/$defs/Row"},{"type":"null"}]}"##, "| null"),
        ];
        for (result, part) in table {
            let schema = format!(r#"{{"$defs":{defs},"type":"object","properties":{{"result":{result}}}}}"#);
            let tool = parse(&format!(r#"{{"name":"a","outputSchema":{schema}}}"#)).unwrap();
            assert_eq!(tool.unwrapped.as_deref(), Some("result"));
            assert!(tool.signature().contains(part) && tool.signature().contains("id: number"), "{}", tool.signature());
        }
    }
}
