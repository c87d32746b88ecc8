//! Names of OpenTelemetry that pml uses, all of them.
//!
//! The conventions for MCP are in development and may rename things; these are the names of
//! <https://github.com/open-telemetry/semantic-conventions-genai> at [`COMMIT`], which refers to version 1.44.0 of the
//! conventions that all signals share. Whoever exports takes a name from here and nowhere else.

/// The state of the conventions that the names are of.
pub const COMMIT: &str = "55a32cddb97d99cec08d5ee081e74206a0636041";
/// The shared conventions, for the `schemaUrl` of what is exported.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.44.0";

/// Attributes of the process.
pub const SERVICE_NAME: &str = "service.name";
pub const SERVICE_VERSION: &str = "service.version";

/// The method of the request; every span of MCP has it.
pub const MCP_METHOD_NAME: &str = "mcp.method.name";
pub const MCP_PROTOCOL_VERSION: &str = "mcp.protocol.version";
pub const MCP_SESSION_ID: &str = "mcp.session.id";
pub const MCP_RESOURCE_URI: &str = "mcp.resource.uri";
pub const JSONRPC_REQUEST_ID: &str = "jsonrpc.request.id";
pub const RPC_RESPONSE_STATUS_CODE: &str = "rpc.response.status_code";
pub const NETWORK_TRANSPORT: &str = "network.transport";
pub const NETWORK_PROTOCOL_NAME: &str = "network.protocol.name";
pub const CLIENT_ADDRESS: &str = "client.address";
pub const CLIENT_PORT: &str = "client.port";
pub const SERVER_ADDRESS: &str = "server.address";
pub const SERVER_PORT: &str = "server.port";

pub const GEN_AI_OPERATION_NAME: &str = "gen_ai.operation.name";
pub const GEN_AI_TOOL_NAME: &str = "gen_ai.tool.name";
pub const GEN_AI_PROMPT_NAME: &str = "gen_ai.prompt.name";
/// Only on request, and only sanitized.
pub const GEN_AI_TOOL_CALL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub const GEN_AI_TOOL_CALL_RESULT: &str = "gen_ai.tool.call.result";

pub const ERROR_TYPE: &str = "error.type";

/// Values of [`GEN_AI_OPERATION_NAME`].
pub const EXECUTE_TOOL: &str = "execute_tool";
pub const INVOKE_WORKFLOW: &str = "invoke_workflow";
/// The [`ERROR_TYPE`] of a tool that ran and said that it failed.
pub const TOOL_ERROR: &str = "tool_error";
/// Values of [`NETWORK_TRANSPORT`].
pub const TRANSPORT_PIPE: &str = "pipe";
pub const TRANSPORT_TCP: &str = "tcp";

/// Metrics, in seconds.
pub const MCP_CLIENT_OPERATION_DURATION: &str = "mcp.client.operation.duration";
pub const MCP_SERVER_OPERATION_DURATION: &str = "mcp.server.operation.duration";
pub const MCP_CLIENT_SESSION_DURATION: &str = "mcp.client.session.duration";
pub const MCP_SERVER_SESSION_DURATION: &str = "mcp.server.session.duration";
pub const GEN_AI_WORKFLOW_DURATION: &str = "gen_ai.workflow.duration";

/// What the conventions have no name for.
pub const PML_ENTRY: &str = "pml.entry";
pub const PML_INTENT: &str = "pml.intent";
pub const PML_CALLER: &str = "pml.caller";
pub const PML_CLIENT_NAME: &str = "pml.client.name";
pub const PML_CLIENT_VERSION: &str = "pml.client.version";
pub const PML_CODE_SHA256: &str = "pml.code.sha256";
pub const PML_INTERRUPTED: &str = "pml.interrupted";
pub const PML_LAYER: &str = "pml.layer";
pub const PML_LINE: &str = "pml.line";
pub const PML_QUEUED_MS: &str = "pml.queued_ms";
