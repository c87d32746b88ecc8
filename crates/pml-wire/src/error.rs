//! The error codes that agents see.

use serde::{Deserialize, Serialize};

/// Declares the codes once, so that the enum, its text form and [`ErrorCode::ALL`] cannot differ.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What went wrong, as the agent's code, the trace and the person at the terminal see it.
        ///
        /// A code is a promise: never renamed, never reused. Each has a section in
        /// `docs/errors.md` (the test `every_code_is_documented` fails otherwise).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of `docs/errors.md`.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// The code as it is written everywhere outside this program.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $text,)*
                }
            }
        }
    };
}

codes! {
    /// The program is empty or blank.
    CodeEmpty = "CODE_EMPTY",
    /// The program has more bytes than `limits.code_bytes`.
    CodeTooLarge = "CODE_TOO_LARGE",
    /// The program is nested so deeply that compiling it would exhaust the stack.
    CodeTooDeep = "CODE_TOO_DEEP",
    /// The program is not UTF-8 text.
    CodeNotUtf8 = "CODE_NOT_UTF8",
    /// The program is not TypeScript.
    SyntaxError = "SYNTAX_ERROR",
    /// The program is TypeScript, but uses a part of it that pml does not run.
    UnsupportedSyntax = "UNSUPPORTED_SYNTAX",
    /// The program threw, and nothing caught it.
    Exception = "EXCEPTION",
    /// The program ran longer than its deadline.
    Timeout = "TIMEOUT",
    /// The program needed more memory than its limit.
    MemoryLimit = "MEMORY_LIMIT",
    /// The program recursed deeper than its stack.
    StackOverflow = "STACK_OVERFLOW",
    /// The program waits for something that can no longer happen.
    Deadlock = "DEADLOCK",
    /// The run was cancelled from outside.
    Cancelled = "CANCELLED",
    /// The result has no JSON form.
    ResultNotJson = "RESULT_NOT_JSON",
    /// The result has more bytes than `limits.result_bytes`.
    ResultTooLarge = "RESULT_TOO_LARGE",
    /// The result is nested deeper than JSON readers accept.
    ResultTooDeep = "RESULT_TOO_DEEP",
    /// No tool has that name.
    ToolNotFound = "TOOL_NOT_FOUND",
    /// No server has a resource of that address, or a prompt of that name; or several have.
    ResourceNotFound = "RESOURCE_NOT_FOUND",
    /// The arguments of a tool call are not what the tool takes.
    InvalidArguments = "INVALID_ARGUMENTS",
    /// The tool ran and reported a failure.
    ToolError = "TOOL_ERROR",
    /// The program was not started, because it calls an unknown tool or passes invalid arguments.
    PreflightFailed = "PREFLIGHT_FAILED",
    /// The tool asks the user for input, and no user can be asked.
    InputRequired = "INPUT_REQUIRED",
    /// The result does not match the output schema of the tool.
    InvalidResult = "INVALID_RESULT",
    /// The policy does not allow this call.
    PolicyDenied = "POLICY_DENIED",
    /// Calls are made faster than configured, or than the server accepts.
    RateLimited = "RATE_LIMITED",
    /// The server did not start, or did not agree on a protocol.
    ProviderInitFailed = "PROVIDER_INIT_FAILED",
    /// The server is not connected at the moment.
    ProviderUnavailable = "PROVIDER_UNAVAILABLE",
    /// The server did not respond in time.
    ProviderTimeout = "PROVIDER_TIMEOUT",
    /// The server's process ended while a call was waiting for it.
    ProviderCrashed = "PROVIDER_CRASHED",
    /// The response of the server is not valid MCP.
    ProviderProtocol = "PROVIDER_PROTOCOL",
    /// The server requires a login.
    AuthRequired = "AUTH_REQUIRED",
    /// A login at a server did not succeed.
    LoginFailed = "LOGIN_FAILED",
    /// The program made more tool calls than one run may.
    CallBudgetSpent = "CALL_BUDGET_SPENT",
    /// A capability ran and failed.
    CapabilityFailed = "CAPABILITY_FAILED",
    /// A capability calls itself, directly or through others.
    CapabilityCycle = "CAPABILITY_CYCLE",
    /// Runs are nested too deeply in each other.
    NestingTooDeep = "NESTING_TOO_DEEP",
    /// No capability has that name.
    CapabilityNotFound = "CAPABILITY_NOT_FOUND",
    /// The program cannot become a capability, or a capability cannot be changed so.
    CapabilityRefused = "CAPABILITY_REFUSED",
    /// The sandbox process ended without a result.
    WorkerCrashed = "WORKER_CRASHED",
    /// The sandbox process violated the protocol, as only a compromised worker would.
    SandboxViolation = "SANDBOX_VIOLATION",
    /// No sandbox could be started, or this machine cannot make one that is strong enough.
    SandboxUnavailable = "SANDBOX_UNAVAILABLE",
    /// pml is shutting down and accepts no more programs.
    ShuttingDown = "SHUTTING_DOWN",
    /// The process that ran the program ended before the program did.
    Interrupted = "INTERRUPTED",
    /// No stored trace has that id.
    TraceNotFound = "TRACE_NOT_FOUND",
    /// The stored traces cannot be read or changed.
    TraceStoreFailed = "TRACE_STORE_FAILED",
    /// A hub does not respond.
    HubUnavailable = "HUB_UNAVAILABLE",
    /// A hub refused a request.
    HubRefused = "HUB_REFUSED",
    /// A workflow cannot run as it is written. Nothing of it has run.
    WorkflowInvalid = "WORKFLOW_INVALID",
    /// Tasks of a workflow have failed.
    WorkflowFailed = "WORKFLOW_FAILED",
    /// A task was not run, since a task that it needs has failed or was skipped.
    DependencyFailed = "DEPENDENCY_FAILED",
    /// No plan of that id is kept.
    PlanNotFound = "PLAN_NOT_FOUND",
    /// A tool or a capability of a plan is not what it was when the plan was made. Nothing of the plan has run.
    PlanOutdated = "PLAN_OUTDATED",
    /// The configuration cannot be used.
    ConfigInvalid = "CONFIG_INVALID",
}

impl ErrorCode {
    /// May the same request succeed if it is retried later?
    pub fn is_retryable(self) -> bool {
        match self {
            ErrorCode::WorkerCrashed
            | ErrorCode::SandboxUnavailable
            | ErrorCode::ShuttingDown
            | ErrorCode::TraceStoreFailed
            | ErrorCode::HubUnavailable
            | ErrorCode::RateLimited
            | ErrorCode::ProviderUnavailable
            | ErrorCode::ProviderTimeout
            | ErrorCode::ProviderCrashed => true,
            ErrorCode::CodeEmpty
            | ErrorCode::CodeTooLarge
            | ErrorCode::CodeTooDeep
            | ErrorCode::CodeNotUtf8
            | ErrorCode::SyntaxError
            | ErrorCode::UnsupportedSyntax
            | ErrorCode::Exception
            | ErrorCode::Timeout
            | ErrorCode::MemoryLimit
            | ErrorCode::StackOverflow
            | ErrorCode::Deadlock
            | ErrorCode::Cancelled
            | ErrorCode::ResultNotJson
            | ErrorCode::ResultTooLarge
            | ErrorCode::ResultTooDeep
            | ErrorCode::ToolNotFound
            | ErrorCode::ResourceNotFound
            | ErrorCode::InvalidArguments
            | ErrorCode::ToolError
            | ErrorCode::PreflightFailed
            | ErrorCode::InputRequired
            | ErrorCode::InvalidResult
            | ErrorCode::PolicyDenied
            | ErrorCode::ProviderInitFailed
            | ErrorCode::ProviderProtocol
            | ErrorCode::AuthRequired
            | ErrorCode::LoginFailed
            | ErrorCode::CallBudgetSpent
            | ErrorCode::CapabilityFailed
            | ErrorCode::CapabilityCycle
            | ErrorCode::NestingTooDeep
            | ErrorCode::CapabilityNotFound
            | ErrorCode::CapabilityRefused
            | ErrorCode::SandboxViolation
            | ErrorCode::Interrupted
            | ErrorCode::TraceNotFound
            | ErrorCode::HubRefused
            | ErrorCode::WorkflowInvalid
            | ErrorCode::WorkflowFailed
            | ErrorCode::DependencyFailed
            | ErrorCode::PlanNotFound
            | ErrorCode::PlanOutdated
            | ErrorCode::ConfigInvalid => false,
        }
    }
}

/// Whether a failed call may have had an effect.
///
/// It decides whether the call may be repeated: a call that was not sent had no effect, and a call that was sent without a response
/// may have had one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// The call did not reach the server, or the server refused it before it began.
    NotSent,
    /// The call was sent, and there was no response.
    Unknown,
    /// The server responded with the failure.
    Answered,
}

impl Delivery {
    /// The value as it is written everywhere outside this program.
    pub fn as_str(self) -> &'static str {
        match self {
            Delivery::NotSent => "not_sent",
            Delivery::Unknown => "unknown",
            Delivery::Answered => "answered",
        }
    }
}

impl ErrorCode {
    /// Whether a call that failed with this code may have had an effect, if nothing more is known.
    pub fn delivery(self) -> Delivery {
        match self {
            ErrorCode::ProviderTimeout
            | ErrorCode::ProviderCrashed
            | ErrorCode::ProviderProtocol
            | ErrorCode::Timeout
            | ErrorCode::Cancelled
            | ErrorCode::Interrupted
            | ErrorCode::CapabilityFailed
            | ErrorCode::WorkerCrashed => Delivery::Unknown,
            ErrorCode::ToolError
            | ErrorCode::InputRequired
            | ErrorCode::InvalidResult
            | ErrorCode::WorkflowFailed
            | ErrorCode::ResultNotJson
            | ErrorCode::ResultTooLarge
            | ErrorCode::ResultTooDeep => Delivery::Answered,
            ErrorCode::CodeEmpty
            | ErrorCode::CodeTooLarge
            | ErrorCode::CodeTooDeep
            | ErrorCode::CodeNotUtf8
            | ErrorCode::SyntaxError
            | ErrorCode::UnsupportedSyntax
            | ErrorCode::Exception
            | ErrorCode::MemoryLimit
            | ErrorCode::StackOverflow
            | ErrorCode::Deadlock
            | ErrorCode::ToolNotFound
            | ErrorCode::ResourceNotFound
            | ErrorCode::InvalidArguments
            | ErrorCode::PreflightFailed
            | ErrorCode::PolicyDenied
            | ErrorCode::RateLimited
            | ErrorCode::ProviderInitFailed
            | ErrorCode::ProviderUnavailable
            | ErrorCode::AuthRequired
            | ErrorCode::LoginFailed
            | ErrorCode::CallBudgetSpent
            | ErrorCode::CapabilityCycle
            | ErrorCode::NestingTooDeep
            | ErrorCode::CapabilityNotFound
            | ErrorCode::CapabilityRefused
            | ErrorCode::SandboxViolation
            | ErrorCode::SandboxUnavailable
            | ErrorCode::ShuttingDown
            | ErrorCode::TraceNotFound
            | ErrorCode::TraceStoreFailed
            | ErrorCode::HubUnavailable
            | ErrorCode::HubRefused
            | ErrorCode::WorkflowInvalid
            | ErrorCode::DependencyFailed
            | ErrorCode::PlanNotFound
            | ErrorCode::PlanOutdated
            | ErrorCode::ConfigInvalid => Delivery::NotSent,
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{Delivery, ErrorCode};

    #[test]
    fn an_outcome_has_one_spelling() {
        for delivery in [Delivery::NotSent, Delivery::Unknown, Delivery::Answered] {
            assert_eq!(serde_json::to_value(delivery).unwrap(), delivery.as_str());
        }
    }

    #[test]
    fn text_and_serde_form_are_the_same() {
        for code in ErrorCode::ALL {
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(json, format!("\"{code}\""));
            assert_eq!(serde_json::from_str::<ErrorCode>(&json).unwrap(), *code);
        }
    }
}
