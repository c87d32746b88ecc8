//! What the catalogue knows of a capability beside what it knows of every tool: the `_meta` of the tool that runs it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tool::Tool;

/// What the ids of capabilities begin with, where those of tools have their server. No server can have this name.
pub const CAPABILITIES: &str = "capabilities";
/// The key in the `_meta` of a tool.
const META: &str = "io.pml/capability";

/// A program that was saved under a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedProgram {
    /// What it calls.
    pub tools: Vec<String>,
    /// What it was saved for.
    pub intents: Vec<String>,
    pub standing: Standing,
    /// The id of the capability and the SHA-256 of its code.
    pub identity: String,
}

/// Whether it should be used: its tools may not be what they were when it was saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    #[default]
    Sound,
    /// A tool has changed since.
    Changed,
    /// A tool is gone: it does not work.
    Gone,
    /// Somebody has said that it should not be used any more.
    Deprecated,
}

impl SavedProgram {
    /// The program that a tool runs. `None` if the tool is no capability.
    pub fn of(tool: &Tool) -> Option<SavedProgram> {
        if tool.id.server() != CAPABILITIES {
            return None;
        }
        let declared: Value = serde_json::from_str(tool.raw().get()).ok()?;
        let mut program: SavedProgram = serde_json::from_value(declared["_meta"][META].clone()).unwrap_or_default();
        if program.intents.is_empty() {
            program.intents.extend(tool.description.clone());
        }
        Some(program)
    }

    /// The `_meta` of the tool that runs it.
    pub fn to_meta(&self) -> Value {
        json!({ META: self })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn a_program_is_read_from_its_tool() {
        let program = SavedProgram {
            tools: vec!["a:b".to_owned()],
            intents: vec!["do it".to_owned()],
            standing: Standing::Changed,
            identity: "7 ab".to_owned(),
        };
        let tool = |server: &str, meta: Value| {
            let raw = json!({ "name": "t", "description": "Does it", "_meta": meta });
            Tool::parse(server, to_raw_value(&raw).unwrap()).unwrap()
        };
        assert_eq!(SavedProgram::of(&tool(CAPABILITIES, program.to_meta())), Some(program.clone()));
        assert_eq!(SavedProgram::of(&tool("other", program.to_meta())), None, "only pml says what a capability is");
        let plain = SavedProgram { intents: vec!["Does it".to_owned()], ..SavedProgram::default() };
        for meta in [json!({}), json!(7), json!({ META: "x" }), json!({ META: { "standing": "unheard of" } })] {
            assert_eq!(SavedProgram::of(&tool(CAPABILITIES, meta)), Some(plain.clone()));
        }
    }
}
