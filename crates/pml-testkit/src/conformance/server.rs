//! What the server answers, method by method.

#![expect(deprecated, reason = "logging and legacy subscriptions are deprecated, and clients use them")]

use std::{
    borrow::Cow,
    sync::{Arc, Mutex as StdMutex, PoisonError},
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock,
        GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, JsonObject, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, LoggingLevel, PaginatedRequestParams,
        PromptMessage, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
        ResourceContents, Role, ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
        SubscriptionFilter, Tool, UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext},
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, broadcast};

use super::{
    dialogue::{Told, Turn},
    fixtures, questions,
    shared::{Change, Shared},
    tools,
};

/// One session of a legacy client, or one request of a modern one.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) shared: Arc<Shared>,
    versions: &'static [ProtocolVersion],
    log_level: StdMutex<LoggingLevel>,
    /// Subscribed to before the request is looked at: `listen` is called only after the client has been
    /// told that it will hear of every change.
    changes: Mutex<broadcast::Receiver<Change>>,
}

impl Server {
    pub(super) fn new(shared: Arc<Shared>, versions: &'static [ProtocolVersion]) -> Server {
        let changes = Mutex::new(shared.changes());
        Server { shared, versions, log_level: StdMutex::new(LoggingLevel::Info), changes }
    }

    /// What a legacy client wants to hear.
    pub(super) fn log_level(&self) -> LoggingLevel {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("conformance-server", env!("CARGO_PKG_VERSION")))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.versions)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(fixtures::tools(self.shared.has_tool())))
    }

    /// The transport checks the headers that a schema asks for (`x-mcp-header`) against this.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        fixtures::tools(self.shared.has_tool()).into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        tools::call(self, request, context).await
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(fixtures::prompts(self.shared.has_prompt())))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let messages = match request.name.as_str() {
            "test_simple_prompt" => vec![from_user("This is a simple prompt for testing.")],
            "test_prompt_with_arguments" => {
                let (first, second) = (argument(&arguments, "arg1")?, argument(&arguments, "arg2")?);
                vec![from_user(format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
            }
            "test_prompt_with_embedded_resource" => {
                let uri = argument(&arguments, "resourceUri")?;
                let resource = ResourceContents::text("Embedded resource content for testing.", uri);
                vec![
                    PromptMessage::new(Role::User, ContentBlock::resource(resource.with_mime_type("text/plain"))),
                    from_user("Please process the embedded resource above."),
                ]
            }
            "test_prompt_with_image" => vec![
                PromptMessage::new(Role::User, ContentBlock::image(fixtures::PNG, "image/png")),
                from_user("Please analyze the image above."),
            ],
            name @ "test_input_required_result_prompt" => {
                let told = Told { responses: request.input_responses, state: request.request_state };
                match questions::of_prompt().go_on(name, told, &context, &self.shared).await? {
                    Turn::Ask(required) => return Ok(required.into()),
                    Turn::Done(text) => vec![from_user(text)],
                }
            }
            "test_extra_prompt" if self.shared.has_prompt() => vec![from_user("Still there.")],
            name => return Err(ErrorData::invalid_params(format!("there is no prompt `{name}`"), None)),
        };
        Ok(GetPromptResult::new(messages).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let known = ["paris", "park", "party", "test"];
        let fitting = known.into_iter().filter(|word| word.starts_with(&request.argument.value));
        let completion = CompletionInfo::with_all_values(fitting.map(String::from).collect());
        completion.map(CompleteResult::new).map_err(|err| ErrorData::internal_error(err, None))
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(fixtures::resources()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(fixtures::resource_templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = known_resource(&request.uri)?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner) = request.level;
        Ok(())
    }

    /// Nothing that can be subscribed to ever changes, so there is nothing to remember.
    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        known_resource(&request.uri).map(drop)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        known_resource(&request.uri).map(drop)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.lock().await;
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            let sink = context.sink();
            let accepted = context.accepted();
            let sent = match change {
                Ok(Change::Tools) if accepted.tools_list_changed == Some(true) => sink.notify_tool_list_changed().await,
                Ok(Change::Prompts) if accepted.prompts_list_changed == Some(true) => {
                    sink.notify_prompt_list_changed().await
                }
                Ok(_) => Ok(()),
                Err(err) => return Err(ErrorData::internal_error(format!("changes were missed: {err}"), None)),
            };
            if sent.is_err() {
                // The client has gone.
                return Ok(());
            }
        }
    }
}

fn known_resource(uri: &str) -> Result<ResourceContents, ErrorData> {
    fixtures::read(uri).ok_or_else(|| ErrorData::resource_not_found("Resource not found", Some(json!({"uri": uri}))))
}

fn from_user(text: impl Into<String>) -> PromptMessage {
    PromptMessage::new(Role::User, ContentBlock::text(text))
}

fn argument<'a>(arguments: &'a JsonObject, name: &str) -> Result<&'a str, ErrorData> {
    let argument = arguments.get(name).and_then(Value::as_str);
    argument.ok_or_else(|| ErrorData::invalid_params(format!("the prompt needs the string `{name}`"), None))
}
