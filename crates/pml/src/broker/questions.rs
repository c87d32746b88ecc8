//! Resources and prompts for programs.
//!
//! They pass the same checks as the requests that clients make themselves, and leave a line and an event. The contents of a
//! resource become a value like the result of a tool.

use std::sync::Arc;

use pml_wire::{
    CallId, ErrorCode,
    message::{Ask, CallError},
};
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    door::Broker,
    handler::Answer,
    normalise::{JsonTexts, blocks, check_depth},
    offers::{NoHolder, Resource},
    subject::{Subject, SubjectRequest},
};
use crate::{
    catalog::nearest,
    protocol::code::RESOURCE_NOT_FOUND,
    shown::visible,
    trace::Context,
    upstream::{Content, Fields, Item, Kind, Media, RpcError, TextBlock, Whole},
    work,
};

/// Longest address.
const MAX_URI_BYTES: usize = 8 * 1024;
/// Most prompts whose names are read for a suggestion.
const MAX_NAMES: usize = 1000;

impl Broker {
    /// Serves a program's requests for resources and prompts.
    pub(super) async fn answer_about(&self, context: Arc<Context>, id: CallId, ask: Ask) -> Result<Answer, CallError> {
        match ask {
            Ask::Search(search) => self.recorded_search((context, id), search).await,
            Ask::ListResources { server } => self.list_for_program(server.as_deref()).await,
            Ask::ReadResource { uri, server } => {
                let resource = self.resource_for_program(&uri, server.as_deref()).await?;
                let params = Map::from_iter([("uri".to_owned(), resource.uri.as_str().into())]);
                let whole = self.ask_server((context, id), resource.subject(), "resources/read", params).await?;
                let Whole { text, held } = whole;
                let body = work::sized(text.get().len(), move |_| {
                    let body = blocks(contents(&text)?, JsonTexts::Read);
                    check_depth(&body).map(|()| body)
                });
                Ok(Answer { body: body.await?, held })
            }
            Ask::GetPrompt { server, name, args } => {
                let arguments = prompt_arguments(&args)?;
                let server = self.server_for_program(&server)?;
                let params =
                    Map::from_iter([("name".to_owned(), name.as_str().into()), ("arguments".to_owned(), arguments)]);
                let subject = Subject::prompt(&server, &name);
                let whole = match self.ask_server((context, id), subject, "prompts/get", params).await {
                    // Servers use different codes for an unknown resource.
                    Err(error) if error.code == ErrorCode::ToolError => {
                        return Err(self.explain_prompt(&server, &name, error).await);
                    }
                    outcome => outcome?,
                };
                Ok(Answer { held: whole.held, ..whole.text.into() })
            }
        }
    }

    /// Sends a request to the server of a subject.
    async fn ask_server(
        &self,
        (context, id): (Arc<Context>, CallId),
        subject: Subject,
        method: &'static str,
        params: Map<String, Value>,
    ) -> Result<Whole, CallError> {
        let (asker, name) = (Arc::clone(&context), subject.to_string());
        let request =
            SubjectRequest { context, id, subject, method, params, meta: Map::new(), relay: None, owner: None };
        let answer = self.forward_about(request).await?;
        asker.used.subject((asker.execution, id), &name);
        let whole = answer.map_err(refusal)?;
        match asks_for_input(&whole.text) {
            true => Err(CallError::new(
                ErrorCode::InputRequired,
                "the server asks the user something, and nobody can be asked",
            )),
            false => Ok(whole),
        }
    }

    async fn resource_for_program(&self, uri: &str, server: Option<&str>) -> Result<Resource, CallError> {
        if uri.len() > MAX_URI_BYTES {
            let message = format!("an address has at most {MAX_URI_BYTES} bytes");
            return Err(CallError::new(ErrorCode::InvalidArguments, message));
        }
        match server {
            Some(name) => {
                let server = self.server(&self.server_for_program(name)?)?;
                Ok(Resource { server, uri: uri.to_owned() })
            }
            None => self.find_resource(uri).await.map_err(|why| {
                let hint = match why {
                    NoHolder::Nobody => "; a link that a tool returned can be given as it is",
                    NoHolder::Several(_) => "",
                };
                CallError::new(ErrorCode::ResourceNotFound, format!("{}{hint}", why.explain(uri)))
            }),
        }
    }

    /// The real name of a server that a program names.
    fn server_for_program(&self, name: &str) -> Result<String, CallError> {
        let snapshot = self.snapshot();
        let is_shown = |server: &&str| self.shows_server(server);
        snapshot.server_name(name).filter(is_shown).map(str::to_owned).ok_or_else(|| {
            let hint = match nearest(name, snapshot.servers().filter(is_shown)).first() {
                Some(near) => format!("; did you mean `{near}`?"),
                None => String::new(),
            };
            CallError::new(ErrorCode::ResourceNotFound, format!("there is no server `{name}`{hint}"))
        })
    }

    /// The resources and templates of all servers, or of one.
    async fn list_for_program(&self, server: Option<&str>) -> Result<Answer, CallError> {
        let only = server.map(|name| self.server_for_program(name)).transpose()?;
        let (resources, templates) =
            futures_util::join!(self.listed_resources(Kind::Resources), self.listed_resources(Kind::ResourceTemplates));
        let list: Vec<_> = resources
            .into_iter()
            .chain(templates)
            .filter(|listed| only.as_ref().is_none_or(|only| *only == listed.server))
            .map(|listed| {
                let mut item = Map::from_iter([("server".to_owned(), Value::from(listed.server))]);
                item.extend(listed.item);
                item
            })
            .collect();
        let raw = work::elsewhere(move |_| to_raw_value(&list)).await;
        raw.map(Answer::from).map_err(|err| CallError::new(ErrorCode::ProviderProtocol, err.to_string()))
    }

    /// The error for an unknown prompt, with a suggestion.
    async fn explain_prompt(&self, server: &str, name: &str, error: CallError) -> CallError {
        let (servers, lists) = self.lists_of(Kind::Prompts).await;
        let listed = servers.iter().zip(&lists).find(|(upstream, _)| upstream.settings().name == server);
        let names: Vec<_> = listed
            .into_iter()
            .flat_map(|(_, items)| items.iter().take(MAX_NAMES).filter_map(|item| item["name"].as_str()))
            .filter(|own| self.allows_subject(&Subject::prompt(server, *own)))
            .collect();
        if names.contains(&name) {
            return error;
        }
        let hint = match nearest(name, names.iter().copied()).first() {
            Some(near) => format!("; did you mean `{near}`?"),
            None => String::new(),
        };
        CallError::new(ErrorCode::ResourceNotFound, format!("server `{server}` has no prompt `{name}`{hint}"))
    }
}

/// The error of a server, as programs see it.
fn refusal(error: RpcError) -> CallError {
    // In the modern era the address in the error distinguishes it from other errors.
    let names_address = error.data.as_ref().is_some_and(|data| data["uri"].is_string());
    let code = if error.code == RESOURCE_NOT_FOUND || names_address {
        ErrorCode::ResourceNotFound
    } else {
        ErrorCode::ToolError
    };
    CallError { data: error.data, rpc_code: Some(error.code), ..CallError::new(code, visible(&error.message)) }
}

fn asks_for_input(result: &RawValue) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind {
        result_type: Option<String>,
    }
    result.get().contains("input_required")
        && serde_json::from_str::<Kind>(result.get())
            .is_ok_and(|it| it.result_type.as_deref() == Some("input_required"))
}

/// The arguments of a prompt are strings. Models also write numbers and booleans.
fn prompt_arguments(args: &RawValue) -> Result<Value, CallError> {
    let wrong = |why: String| CallError::new(ErrorCode::InvalidArguments, why);
    let args: Map<String, Value> = serde_json::from_str(args.get())
        .map_err(|_| wrong("the arguments of a prompt are an object of texts".to_owned()))?;
    let text = |(key, value): (String, Value)| match value {
        Value::String(_) => Ok((key, value)),
        Value::Number(_) | Value::Bool(_) => Ok((key, value.to_string().into())),
        _ => Err(wrong(format!("the argument `{key}` of a prompt must be a text"))),
    };
    args.into_iter().map(text).collect::<Result<Map<_, _>, _>>().map(Value::Object)
}

/// The contents of a resource as blocks of a result. A single text is the text itself.
fn contents(result: &RawValue) -> Result<Vec<Content>, CallError> {
    #[derive(serde::Deserialize)]
    struct Contents {
        contents: Vec<Item>,
    }
    let broken = |why: &dyn std::fmt::Display| {
        CallError::new(ErrorCode::ProviderProtocol, format!("the server's answer is no resource: {why}"))
    };
    let Contents { contents } = serde_json::from_str(result.get()).map_err(|err| broken(&err))?;
    let is_single = contents.len() == 1;
    let content = |item: Item| match item {
        Item::Object(fields) => Ok(part(fields, is_single)),
        Item::Other(_) => Err(broken(&"its parts are no objects")),
    };
    contents.into_iter().map(content).collect()
}

fn part(mut fields: Fields, is_single: bool) -> Content {
    let is_text = |raw: Option<&RawValue>| raw.is_some_and(|raw| raw.get().starts_with('"'));
    if is_text(fields.raw("blob")) {
        let (mime_type, uri) = (fields.get("mimeType"), fields.get("uri"));
        let resource = fields.to_raw();
        let block = to_raw_value(&json!({ "type": "resource", "resource": resource }));
        return match (fields.take("blob"), block) {
            (Some(data), Ok(block)) => {
                Content::Media(Media { kind: "resource".to_owned(), mime_type, uri, data, block })
            }
            _ => Content::Other(resource),
        };
    }
    if is_single
        && is_text(fields.raw("text"))
        && let Some(text) = fields.take("text")
    {
        return Content::Text(TextBlock { text, more: Fields::default() });
    }
    Content::Other(fields.to_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_resource_holds_becomes_blocks() {
        let describe = |text: &str| {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            contents(&raw).map(|content| {
                let blocks = content.into_iter().map(|block| match block {
                    Content::Text(block) => block.text.get().to_owned(),
                    Content::Media(media) => {
                        format!("{} {:?} {:?} {}", media.kind, media.mime_type, media.uri, media.data)
                    }
                    Content::Other(raw) => format!("other {raw}"),
                });
                blocks.collect::<Vec<_>>().join(" | ")
            })
        };
        let table = [
            (r#"{"contents":[{"uri":"a:1","text":"hi"}]}"#, r#""hi""#),
            (
                r#"{"contents":[{"uri":"a:1","mimeType":"i/x","blob":"AA=="}]}"#,
                r#"resource Some("i/x") Some("a:1") "AA==""#,
            ),
            (
                r#"{"contents":[{"uri":"a:1","text":"x"},{"uri":"a:2","text":"y"}]}"#,
                r#"other {"uri":"a:1","text":"x"} | other {"uri":"a:2","text":"y"}"#,
            ),
            (r#"{"contents":[]}"#, ""),
            (r#"{"contents":[{"uri":"a:1"}]}"#, r#"other {"uri":"a:1"}"#),
        ];
        for (text, expected) in table {
            assert_eq!(describe(text).unwrap(), expected, "{text}");
        }
        for broken in ["{}", r#"{"contents":7}"#, r#"{"contents":[7]}"#] {
            assert_eq!(describe(broken).unwrap_err().code, ErrorCode::ProviderProtocol, "{broken}");
        }
    }

    #[test]
    fn arguments_of_prompts_are_texts() {
        let read = |text: &str| prompt_arguments(&RawValue::from_string(text.to_owned()).unwrap());
        assert_eq!(read(r#"{"a":"x","b":3,"c":true}"#).unwrap(), json!({ "a": "x", "b": "3", "c": "true" }));
        assert!(read(r#"{"a":{}}"#).unwrap_err().message.contains("`a`"));
        assert!(read("[]").is_err());
    }
}
