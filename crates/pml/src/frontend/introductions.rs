//! What servers say about themselves, for whoever is about to use them.
//!
//! A server's own `instructions` say what its tools do not: which to call first, what an id looks like. They are told with the
//! first answer of a session that shows one of the server's tools, shortened, and marked as the server's words.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{gateway::Frontend, session::Session, tokens};
use crate::shown::visible;

/// Most tokens of one server.
const MAX_TOKENS: usize = 300;
/// All of one answer have this part of its tokens.
const PART: usize = 8;

impl Frontend {
    /// Tells what these servers say about themselves, as far as the client has not been told and there is room for it.
    /// The same by server.
    pub(super) fn introduce<'a>(
        &self,
        text: &mut String,
        session: &Session,
        servers: impl IntoIterator<Item = &'a str>,
    ) -> Map<String, Value> {
        let mut left = self.settings().output_tokens / PART;
        let mut told = Map::new();
        for name in servers {
            let Some(declared) = self.shared.servers.get(name).and_then(|server| server.declared()) else { continue };
            let words = visible(declared.instructions.as_deref().unwrap_or_default().trim()).into_owned();
            let start = tokens::prefix(&words, MAX_TOKENS);
            let size = tokens::estimate(start);
            // What finds no room now is told with another answer.
            if told.contains_key(name) || start.is_empty() || size > left || !session.tells_introduction(name) {
                continue;
            }
            left -= size;
            let more = if start.len() < words.len() { "…" } else { "" };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "server `{name}` says about itself:\n  {}{more}", start.replace('\n', "\n  "));
            told.insert(name.to_owned(), format!("{start}{more}").into());
        }
        told
    }
}
