//! Capabilities as files: TOML that can be read and reviewed.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    model::{Capability, Notes, SavedTool, write_schema},
    name::CapabilityName,
    save::refused,
};
use crate::{
    digest::sha256,
    error::Error,
    hub::store::{NewCapability, Visibility},
};

/// The version of the format.
const FORMAT: u32 = 1;
/// Longest file that is read, and most capabilities in it.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
const MAX_CAPABILITIES: usize = 1000;
const MAX_CODE_BYTES: usize = 256 * 1024;

/// Capabilities that were exported.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    #[serde(default)]
    capability: Vec<CapabilityFile>,
}

/// One capability in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapabilityFile {
    pub name: String,
    pub version: u32,
    /// SHA-256 of the code, which says that nobody has changed it since.
    pub sha256: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub intents: Vec<String>,
    /// What it may use: `server:tool`, with the hash of each.
    #[serde(default)]
    pub tools: Vec<String>,
    #[serde(default)]
    pub tool_hashes: Vec<String>,
    /// JSON schemas, as JSON.
    #[serde(default)]
    pub parameters: String,
    #[serde(default)]
    pub result: String,
    /// Last, since it is long.
    pub code: String,
}

impl CapabilityFile {
    pub fn of(capability: &Capability) -> CapabilityFile {
        let Notes { tools, result, intents, .. } = &capability.notes;
        CapabilityFile {
            name: capability.name.to_string(),
            version: capability.version,
            sha256: sha256(&*capability.code),
            description: capability.description.clone(),
            intents: intents.clone(),
            tools: tools.iter().map(|saved| saved.tool.clone()).collect(),
            tool_hashes: tools.iter().map(|saved| saved.hash.clone()).collect(),
            parameters: capability.parameters.to_string(),
            result: result.as_ref().map(Value::to_string).unwrap_or_default(),
            code: capability.code.to_string(),
        }
    }

    /// The same, checked, to be stored.
    pub fn to_new(&self) -> Result<(CapabilityName, NewCapability), Error> {
        let name: CapabilityName = self.name.parse().map_err(refused)?;
        let wrong = |what: String| refused(format!("capability `{name}`: {what}"));
        if sha256(&self.code) != self.sha256 {
            let hint = "somebody has edited the file; put the hash of the code there if you trust it";
            return Err(wrong("the code is not that of its `sha256`".to_owned()).with_hint(hint));
        }
        if self.code.len() > MAX_CODE_BYTES || self.code.trim().is_empty() {
            return Err(wrong(format!("the code has {} bytes; it must have 1 to {MAX_CODE_BYTES}", self.code.len())));
        }
        let schema = |what: &str, text: &str| match text {
            "" => Ok(None),
            text => match serde_json::from_str::<Value>(text) {
                Ok(schema) if schema.is_object() => Ok(Some(schema)),
                _ => Err(wrong(format!("`{what}` is no JSON schema"))),
            },
        };
        let parameters =
            schema("parameters", &self.parameters)?.unwrap_or_else(|| serde_json::json!({"type": "object"}));
        let hashes = self.tool_hashes.iter().cloned().chain(std::iter::repeat(String::new()));
        let notes = Notes {
            tools: self.tools.iter().cloned().zip(hashes).map(|(tool, hash)| SavedTool { tool, hash }).collect(),
            result: schema("result", &self.result)?,
            intents: self.intents.clone(),
            ..Notes::default()
        };
        let new = NewCapability {
            namespace: name.namespace.clone(),
            action: name.action.clone(),
            code: self.code.clone(),
            parameters: Some(write_schema(&parameters, &notes)),
            description: self.description.clone(),
            visibility: Some(Visibility::Private),
            author: None,
        };
        Ok((name, new))
    }
}

/// The text of a file with these capabilities.
pub fn write_file(capabilities: &[CapabilityFile]) -> Result<String, Error> {
    let document = Document { format: FORMAT, capability: capabilities.to_vec() };
    toml::to_string_pretty(&document).map_err(|err| refused(format!("it cannot be written as TOML: {err}")))
}

/// Reads a file of capabilities.
pub fn read_file(path: &Path) -> Result<Vec<CapabilityFile>, Error> {
    use std::io::Read as _;
    let unreadable = |err: std::io::Error| refused(format!("`{}` cannot be read: {err}", path.display()));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(refused(format!("`{}` has more than {MAX_FILE_BYTES} bytes", path.display())));
    }
    let document: Document = toml::from_str(&text)
        .map_err(|err| refused(format!("`{}` is no file of capabilities: {err}", path.display())))?;
    if document.format != FORMAT {
        let message = format!("`{}` has format {}, and this pml reads {FORMAT}", path.display(), document.format);
        return Err(refused(message));
    }
    if document.capability.len() > MAX_CAPABILITIES {
        return Err(refused(format!("`{}` has more than {MAX_CAPABILITIES} capabilities", path.display())));
    }
    Ok(document.capability)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> CapabilityFile {
        let code = "const text = await mcp.fs.read({ path: args.path });\nreturn text.length\n".to_owned();
        CapabilityFile {
            name: "notes.count".to_owned(),
            version: 2,
            sha256: sha256(&code),
            description: "Counts.".to_owned(),
            intents: vec!["count the notes".to_owned()],
            tools: vec!["fs:read".to_owned()],
            tool_hashes: vec!["ab".to_owned()],
            parameters: r#"{"type":"object"}"#.to_owned(),
            result: String::new(),
            code,
        }
    }

    #[test]
    fn a_file_reads_back_and_shows_code_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let text = write_file(&[file()]).unwrap();
        assert!(text.contains("\nreturn text.length\n"), "code in lines of its own: {text}");
        std::fs::write(&path, &text).unwrap();
        assert_eq!(read_file(&path).unwrap(), [file()]);
        std::fs::write(&path, text.replace("format = 1", "format = 9")).unwrap();
        assert!(read_file(&path).unwrap_err().message.contains("format 9"));
        std::fs::write(&path, "nonsense").unwrap();
        assert!(read_file(&path).is_err());
    }

    #[test]
    fn what_was_tampered_with_is_refused() {
        assert!(file().to_new().is_ok());
        type Break = fn(&mut CapabilityFile);
        let table: [(&str, Break); 4] = [
            ("sha256", |file| file.code.push_str("// more")),
            ("namespace.action", |file| file.name = "x".to_owned()),
            ("parameters", |file| file.parameters = "7".to_owned()),
            ("result", |file| file.result = "{".to_owned()),
        ];
        for (part, break_it) in table {
            let mut file = file();
            break_it(&mut file);
            let err = file.to_new().unwrap_err();
            assert!(err.message.contains(part), "{part}: {}", err.message);
        }
    }
}
