//! What the tools do.

#![expect(deprecated, reason = "logging is deprecated, and servers use it")]

use std::time::Duration;

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, LoggingLevel,
        LoggingMessageNotificationParam, ProgressNotificationParam, ResourceContents,
    },
    service::RequestContext,
};
use tokio::time::sleep;

use super::{
    dialogue::{Told, Turn, is_legacy},
    fixtures, questions,
    server::Server,
    shared::Change,
};

/// What the scenarios wait between two messages, so that each can be seen to come by itself.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn call(
    server: &Server,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let name = request.name.as_ref();
    let capabilities = context.client_capabilities().unwrap_or_default();
    let arguments = request.arguments.unwrap_or_default();
    if let Some(dialogue) = questions::of_tool(name, &arguments, &capabilities) {
        let told = Told { responses: request.input_responses, state: request.request_state };
        return Ok(match dialogue.go_on(name, told, &context, &server.shared).await? {
            Turn::Ask(required) => required.into(),
            Turn::Done(text) => said(text).into(),
        });
    }
    let result = match name {
        "test_simple_text" => said("This is a simple text response for testing."),
        "test_image_content" => CallToolResult::success(vec![ContentBlock::image(fixtures::PNG, "image/png")]),
        "test_audio_content" => CallToolResult::success(vec![ContentBlock::audio(fixtures::WAV, "audio/wav")]),
        "test_embedded_resource" => CallToolResult::success(vec![embedded(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )]),
        "test_multiple_content_types" => CallToolResult::success(vec![
            ContentBlock::text("Multiple content types test:"),
            ContentBlock::image(fixtures::PNG, "image/png"),
            embedded("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ]),
        "test_error_handling" => {
            CallToolResult::error(vec![ContentBlock::text("This tool intentionally returns an error for testing")])
        }
        "test_tool_with_logging" | "test_logging_tool" => log(server, &context).await?,
        "test_tool_with_progress" => progress(&context).await?,
        "test_trigger_tool_change" => change(server, &context, Change::Tools).await?,
        "test_trigger_prompt_change" => change(server, &context, Change::Prompts).await?,
        "test_x_mcp_header" | "json_schema_2020_12_tool" => said(serde_json::json!(arguments).to_string()),
        "test_extra_tool" if server.shared.has_tool() => said("Still there."),
        _ => return Err(ErrorData::invalid_params(format!("there is no tool `{name}`"), None)),
    };
    Ok(result.into())
}

fn said(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn embedded(uri: &str, mime_type: &str, text: &str) -> ContentBlock {
    ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(mime_type))
}

/// Sends three messages, if the client wants to hear them: a legacy one has set a level once for the
/// session, a modern one says so with each request.
async fn log(server: &Server, context: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
    let level = if is_legacy(context) { Some(server.log_level()) } else { context.meta.log_level() };
    let wanted = level.is_some_and(|level| (level as u8) <= (LoggingLevel::Info as u8));
    for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        if wanted {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, text.into());
            context.peer.notify_logging_message(message).await.map_err(gone)?;
        }
        sleep(PAUSE).await;
    }
    Ok(said("Tool with logging executed successfully"))
}

async fn progress(context: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
    for progress in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let message = ProgressNotificationParam::new(token, progress).with_total(100.0);
            context.peer.notify_progress(message).await.map_err(gone)?;
        }
        sleep(PAUSE).await;
    }
    Ok(said("Tool with progress executed successfully"))
}

/// Changes a list. Modern clients hear of it if they listen, a legacy one on its session.
async fn change(
    server: &Server,
    context: &RequestContext<RoleServer>,
    change: Change,
) -> Result<CallToolResult, ErrorData> {
    server.shared.change(change);
    if is_legacy(context) {
        match change {
            Change::Tools => context.peer.notify_tool_list_changed().await,
            Change::Prompts => context.peer.notify_prompt_list_changed().await,
        }
        .map_err(gone)?;
    }
    Ok(said("Changed."))
}

fn gone(err: rmcp::ServiceError) -> ErrorData {
    ErrorData::internal_error(format!("the client cannot be told: {err}"), None)
}
