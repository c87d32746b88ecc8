//! The words of the Model Context Protocol: versions, methods, error codes, headers and keys of `_meta`.
//!
//! The side that speaks to clients and the side that speaks to servers take them from here, so that neither can spell one
//! otherwise.

/// How requests of a version relate to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// `initialize` begins a session, to which later requests belong.
    Legacy,
    /// Each request stands for itself.
    Modern,
}

/// The version of the modern era.
pub const MODERN: &str = "2026-07-28";
/// The versions of the legacy era, newest first.
pub const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", BATCHING, "2024-11-05"];
/// The only version in which several messages may be sent as one JSON array.
pub const BATCHING: &str = "2025-03-26";

/// A version that pml speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(&'static str);

impl Version {
    pub const MODERN: Version = Version(MODERN);
    /// The version that `initialize` asks for.
    pub const NEWEST_LEGACY: Version = Version(LEGACY[0]);

    /// The version of that name, if pml speaks it.
    pub fn of(name: &str) -> Option<Version> {
        LEGACY.into_iter().chain([MODERN]).find(|known| *known == name).map(Version)
    }

    pub fn as_str(self) -> &'static str {
        self.0
    }

    pub fn era(self) -> Era {
        if self.0 == MODERN { Era::Modern } else { Era::Legacy }
    }
}

/// Codes of JSON-RPC errors.
pub mod code {
    pub const PARSE_ERROR: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Legacy era: no resource has this address.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// A header does not say what the body says.
    pub const HEADER_MISMATCH: i64 = -32020;
    pub const MISSING_CAPABILITY: i64 = -32021;
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// The codes that only servers of the modern era use.
    pub const MODERN_ONLY: std::ops::RangeInclusive<i64> = UNSUPPORTED_VERSION..=HEADER_MISMATCH;
}

/// Headers of HTTP, in lower case.
pub mod header {
    pub const SESSION: &str = "mcp-session-id";
    pub const VERSION: &str = "mcp-protocol-version";
    pub const METHOD: &str = "mcp-method";
    pub const NAME: &str = "mcp-name";
    /// In front of the name of an argument that a tool wants in a header.
    pub const PARAMETER: &str = "mcp-param-";
    pub const LAST_EVENT_ID: &str = "last-event-id";
}

/// Methods of requests and notifications.
pub mod method {
    pub const INITIALIZE: &str = "initialize";
    pub const DISCOVER: &str = "server/discover";
    pub const PING: &str = "ping";
    pub const TOOLS_LIST: &str = "tools/list";
    pub const TOOLS_CALL: &str = "tools/call";
    pub const RESOURCES_LIST: &str = "resources/list";
    pub const TEMPLATES_LIST: &str = "resources/templates/list";
    pub const PROMPTS_LIST: &str = "prompts/list";
    pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
    pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
    pub const SUBSCRIPTIONS_LISTEN: &str = "subscriptions/listen";
    pub const SET_LEVEL: &str = "logging/setLevel";
    pub const TASKS_GET: &str = "tasks/get";
    pub const TASKS_RESULT: &str = "tasks/result";
    pub const TASKS_CANCEL: &str = "tasks/cancel";
    pub const ELICITATION: &str = "elicitation/create";
    pub const SAMPLING: &str = "sampling/createMessage";
    pub const ROOTS_LIST: &str = "roots/list";
    pub const INITIALIZED: &str = "notifications/initialized";
    pub const CANCELLED: &str = "notifications/cancelled";
    pub const PROGRESS: &str = "notifications/progress";
    pub const MESSAGE: &str = "notifications/message";
    pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
    pub const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
    pub const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
    pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
    pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
    pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
}

/// Keys of `_meta`.
pub mod meta {
    /// In front of every key that the protocol itself defines.
    pub const PREFIX: &str = "io.modelcontextprotocol/";
    pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    pub const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
    pub const SERVER: &str = "io.modelcontextprotocol/serverInfo";
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_belong_to_eras() {
        assert_eq!(Version::of("2026-07-28").map(Version::era), Some(Era::Modern));
        assert_eq!(
            Version::of("2024-11-05").map(|known| (known.as_str(), known.era())),
            Some(("2024-11-05", Era::Legacy))
        );
        assert_eq!(Version::of("1999-01-01"), None);
    }
}
