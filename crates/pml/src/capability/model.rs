//! A capability, as programs, people and the catalogue see it.

use std::sync::Arc;

use pml_wire::{CapabilityId, ToolId, trace::Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::name::CapabilityName;
use crate::{
    broker::{CAPABILITIES, OWN},
    catalog::{self, SavedProgram, Snapshot},
    digest::sha256,
    hub::store::{self, CapabilityStats, Visibility},
};

/// The keyword of the schema of the parameters under which pml keeps its notes: hubs carry schemas as they are.
const NOTES: &str = "x-pml";
/// Most that is said of a capability in lists: of its description and intents, and how many of its intents and tools.
const MAX_DESCRIPTION_CHARS: usize = 600;
const MAX_INTENTS_SHOWN: usize = 3;
const MAX_TOOLS_SHOWN: usize = 6;

/// A capability at its newest version.
#[derive(Clone, Debug)]
pub struct Capability {
    pub id: CapabilityId,
    pub name: CapabilityName,
    /// The fully qualified name, with the hash of the version.
    pub fqdn: Arc<str>,
    pub version: u32,
    pub hash: String,
    pub code: Arc<str>,
    /// The JSON schema of its parameters.
    pub parameters: Value,
    pub notes: Notes,
    pub description: String,
    pub visibility: Visibility,
    pub author: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The number of its last change.
    pub revision: u64,
    /// Changes with every change.
    pub tag: String,
    /// Names that it had before, the latest first.
    pub former: Vec<CapabilityName>,
    pub stats: CapabilityStats,
}

/// What is known of a capability besides its code, its parameters and its description.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notes {
    /// What it may use.
    pub tools: Vec<SavedTool>,
    /// The kinds of its result, as a JSON schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What it was saved for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intents: Vec<String>,
    /// It should not be used any more, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// The hub that it came from, by its fully qualified name there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// A tool that a capability uses; or a resource or prompt, as the policy writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SavedTool {
    pub tool: String,
    /// Of everything that its server said about it when the capability was saved; empty if that was not known.
    #[serde(default)]
    pub hash: String,
}

/// Whether the tools of a capability are as they were when it was saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    pub gone: Vec<String>,
    pub changed: Vec<String>,
}

impl Standing {
    pub fn is_sound(&self) -> bool {
        self.gone.is_empty() && self.changed.is_empty()
    }
}

impl Capability {
    /// `None` if its schema cannot be read.
    pub fn of(stored: &store::Capability) -> Option<Capability> {
        let (parameters, notes) = read_schema(stored.version.parameters.as_deref())?;
        Some(Capability {
            id: stored.id,
            name: CapabilityName::of(&stored.name),
            fqdn: stored.name.to_string().into(),
            version: stored.version.number,
            hash: stored.version.hash.clone(),
            code: stored.version.code.as_str().into(),
            parameters,
            notes,
            description: stored.version.description.clone(),
            visibility: stored.visibility,
            author: stored.version.author.clone(),
            created_at: stored.created_at,
            updated_at: stored.updated_at,
            revision: stored.revision,
            tag: stored.tag(),
            former: stored.former_names.iter().map(CapabilityName::of).collect(),
            stats: stored.stats,
        })
    }

    /// Compares its tools with those that there are now.
    pub fn standing(&self, snapshot: &Snapshot) -> Standing {
        let mut standing = Standing::default();
        for saved in &self.notes.tools {
            let Ok(id) = saved.tool.parse::<ToolId>() else { continue };
            // Resources and prompts are not listed, nor is what pml has itself.
            let is_tool = !id.tool().starts_with("resource:") && !id.tool().starts_with("prompt:");
            if !is_tool || id.server() == OWN {
                continue;
            }
            if id.server() == CAPABILITIES {
                match callee(snapshot, &id, &saved.hash) {
                    Some(program) if program.standing == catalog::Standing::Gone => {
                        standing.gone.push(saved.tool.clone())
                    }
                    Some(program) => {
                        let is_same = saved.hash.is_empty() || program.identity == saved.hash;
                        if !is_same || program.standing == catalog::Standing::Changed {
                            standing.changed.push(saved.tool.clone());
                        }
                    }
                    // They are about to be listed.
                    None if snapshot.listing(CAPABILITIES).is_none() => {}
                    None => standing.gone.push(saved.tool.clone()),
                }
                continue;
            }
            match snapshot.tool(&id) {
                Some(tool) if saved.hash.is_empty() || tool.hash == saved.hash => {}
                Some(_) => standing.changed.push(saved.tool.clone()),
                // A server that was never reached may have it.
                None if snapshot.server_name(id.server()).is_some_and(|name| snapshot.listing(name).is_none()) => {}
                None => standing.gone.push(saved.tool.clone()),
            }
        }
        standing
    }

    /// Which program it is, for capabilities that call it: its id, and the SHA-256 of its code.
    pub fn identity(&self) -> String {
        format!("{} {}", self.id, sha256(&*self.code))
    }

    /// What a search needs to know of it.
    fn for_finding(&self, standing: &Standing) -> SavedProgram {
        // What pml answers itself, and resources and prompts, are of no server's tools.
        let is_tool = |saved: &&SavedTool| saved.tool.parse::<ToolId>().is_ok_and(|id| id.server() != OWN);
        SavedProgram {
            tools: self.notes.tools.iter().filter(is_tool).map(|saved| saved.tool.clone()).collect(),
            intents: self
                .notes
                .intents
                .iter()
                .chain([&self.description])
                .filter(|it| !it.is_empty())
                .cloned()
                .collect(),
            standing: match (standing.gone.is_empty(), standing.changed.is_empty()) {
                (false, _) => catalog::Standing::Gone,
                (true, false) => catalog::Standing::Changed,
                (true, true) if self.notes.deprecated.is_some() => catalog::Standing::Deprecated,
                (true, true) => catalog::Standing::Sound,
            },
            identity: self.identity(),
        }
    }

    /// What the catalogue shows of it.
    pub fn as_tool(&self, standing: &Standing) -> Value {
        let mut description = String::new();
        let quoted = |tools: &[String]| tools.iter().map(|tool| format!("`{tool}`")).collect::<Vec<_>>().join(", ");
        if let Some(why) = &self.notes.deprecated {
            description.push_str(&format!("Deprecated: {why}. "));
        }
        if !standing.gone.is_empty() {
            description.push_str(&format!("Does not work now: {} is gone. ", quoted(&standing.gone)));
        }
        if !standing.changed.is_empty() {
            description.push_str(&format!("{} has changed since this was saved. ", quoted(&standing.changed)));
        }
        description.push_str(&self.description);
        let others = self.notes.intents.iter().rev().filter(|intent| !self.description.contains(intent.as_str()));
        for intent in others.take(MAX_INTENTS_SHOWN) {
            finish(&mut description);
            description.push_str(&format!("Saved for: {intent}"));
        }
        let mut description: String = description.chars().take(MAX_DESCRIPTION_CHARS).collect();
        // Whoever asks in other words may use those of its tools.
        let tools: Vec<&str> = self.notes.tools.iter().filter(is_listed).map(|saved| saved.tool.as_str()).collect();
        if !tools.is_empty() {
            finish(&mut description);
            let more = if tools.len() > MAX_TOOLS_SHOWN { ", …" } else { "" };
            description.push_str(&format!("Uses {}{more}", tools[..tools.len().min(MAX_TOOLS_SHOWN)].join(", ")));
        }
        let mut tool = json!({
            "name": self.name.in_code(),
            "description": description,
            "inputSchema": self.parameters,
            "_meta": self.for_finding(standing).to_meta(),
        });
        // A schema that only wraps one value would be unwrapped, and the value is not.
        let is_wrapper = |schema: &Value| schema["properties"].as_object().is_some_and(|names| names.len() == 1);
        if let Some(schema) = self.notes.result.as_ref().filter(|schema| !is_wrapper(schema)) {
            tool["outputSchema"] = schema.clone();
        }
        tool
    }
}

/// Is it a tool that a search could find?
fn is_listed(saved: &&SavedTool) -> bool {
    saved
        .tool
        .parse::<ToolId>()
        .is_ok_and(|id| id.server() != OWN && !id.tool().starts_with("resource:") && !id.tool().starts_with("prompt:"))
}

/// Ends a sentence, so that another can follow.
fn finish(text: &mut String) {
    let end = if text.is_empty() {
        ""
    } else if text.ends_with(['.', '!', '?']) {
        " "
    } else {
        ". "
    };
    text.push_str(end);
}

/// The capability that another one calls under a name, which may have another name by now.
fn callee(snapshot: &Snapshot, id: &ToolId, identity: &str) -> Option<SavedProgram> {
    if let Some(tool) = snapshot.tool(id) {
        return SavedProgram::of(tool);
    }
    let (id, _) = identity.split_once(' ')?;
    let listed = snapshot.listing(CAPABILITIES)?.tools.values();
    listed.filter_map(|tool| SavedProgram::of(tool)).find(|program| program.identity.starts_with(id))
}

/// The schema of the parameters as it is stored, with the notes.
pub(super) fn write_schema(parameters: &Value, notes: &Notes) -> String {
    let mut schema = parameters.as_object().cloned().unwrap_or_default();
    schema.insert(NOTES.to_owned(), serde_json::to_value(notes).expect("plain data serializes"));
    Value::Object(schema).to_string()
}

/// The schema of the parameters, and the notes.
pub(super) fn read_schema(stored: Option<&str>) -> Option<(Value, Notes)> {
    let mut schema: Map<String, Value> = match stored {
        Some(text) => serde_json::from_str(text).ok()?,
        None => Map::new(),
    };
    let notes = schema.remove(NOTES).map(serde_json::from_value).transpose().ok()?.unwrap_or_default();
    schema.entry("type").or_insert_with(|| "object".into());
    Some((Value::Object(schema), notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_travel_in_the_schema() {
        let notes = Notes {
            tools: vec![SavedTool { tool: "fs:read".to_owned(), hash: "ab".to_owned() }],
            intents: vec!["read it".to_owned()],
            ..Notes::default()
        };
        let parameters = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
        let stored = write_schema(&parameters, &notes);
        assert_eq!(read_schema(Some(&stored)), Some((parameters, notes)));
        assert_eq!(read_schema(None), Some((json!({ "type": "object" }), Notes::default())));
        // Of a later pml, or of somebody else.
        let other = r#"{"properties":{},"x-pml":{"tools":[{"tool":"a:b","more":1}],"more":[]}}"#;
        assert_eq!(read_schema(Some(other)).unwrap().1.tools[0].tool, "a:b");
        assert_eq!(read_schema(Some(r#"{"x-pml":7}"#)), None);
    }
}
