//! A client's file, as far as pml has to do with it: objects of servers under some keys.

use serde_json::Value;
use toml_edit::{
    Array, DocumentMut, InlineTable, Item, Table, TableLike,
    visit_mut::{self, VisitMut},
};

use super::{Format, Mistake, jsonc::Text};

/// A file that was understood.
#[derive(Debug)]
pub struct Document(Inner);

#[derive(Debug)]
enum Inner {
    Json(Text),
    // The text as it was, for as long as it is the same: not every byte survives the parser.
    Toml { text: String, document: Box<DocumentMut> },
}

impl Document {
    pub fn parse(format: Format, text: &str) -> Result<Document, Mistake> {
        match format {
            Format::Json => Text::parse(text).map(|text| Document(Inner::Json(text))),
            Format::Toml => {
                let document = parse_toml(text)?;
                Ok(Document(Inner::Toml { text: text.to_owned(), document: Box::new(document) }))
            }
        }
    }

    pub fn text(&self) -> &str {
        match &self.0 {
            Inner::Json(text) => text.text(),
            Inner::Toml { text, .. } => text,
        }
    }

    /// The servers under some keys, in their order.
    pub fn servers(&self, keys: &[String]) -> Result<Vec<(String, Value)>, Mistake> {
        match &self.0 {
            Inner::Json(text) => {
                let Some(object) = text.get(keys)? else { return Ok(Vec::new()) };
                let mut servers: Vec<(String, Value)> = Vec::new();
                for member in text.members(&object)? {
                    let value = text.value(&member.value)?;
                    // Of two with one name the last counts, as it does for who wrote the file.
                    servers.retain(|(name, _)| *name != member.key);
                    servers.push((member.key, value));
                }
                Ok(servers)
            }
            Inner::Toml { text, document } => {
                let mut item = document.as_item();
                for key in keys {
                    match item.get(key) {
                        Some(inner) => item = inner,
                        None => return Ok(Vec::new()),
                    }
                }
                let at = item.span().map_or(0, |span| span.start);
                let table = item.as_table_like().ok_or_else(|| Mistake::at(text, at, "this must be a table"))?;
                Ok(table.iter().map(|(name, item)| (name.to_owned(), to_json(item))).collect())
            }
        }
    }

    /// The value under some keys, if it is there.
    pub fn value(&self, keys: &[String]) -> Option<Value> {
        match &self.0 {
            Inner::Json(text) => text.get(keys).ok()?.and_then(|range| text.value(&range).ok()),
            Inner::Toml { document, .. } => {
                keys.iter().try_fold(document.as_item(), |item, key| item.get(key)).map(to_json)
            }
        }
    }

    pub fn set(&mut self, keys: &[String], name: &str, value: &Value) -> Result<(), Mistake> {
        match &mut self.0 {
            Inner::Json(text) => text.set(keys, name, value),
            Inner::Toml { text, document } => {
                let table = table_at(document, keys).ok_or_else(|| Mistake::at(text, 0, "this must be a table"))?;
                let values = value.as_object().into_iter().flatten();
                let values: Vec<_> = values.filter_map(|(key, value)| Some((key, from_json(value)?))).collect();
                match table.get_mut(name).and_then(Item::as_table_like_mut) {
                    // In its place, with the comments around it.
                    Some(present) => {
                        let old: Vec<_> = present.iter().map(|(key, _)| key.to_owned()).collect();
                        for key in old.iter().filter(|key| !values.iter().any(|(other, _)| other == key)) {
                            present.remove(key);
                        }
                        for (key, value) in values {
                            present.insert(key, Item::Value(value));
                        }
                    }
                    // A table that is written on one line turns it into a value by itself.
                    None => {
                        let entry: Table = values.into_iter().map(|(key, value)| (key.clone(), value)).collect();
                        drop(table.insert(name, Item::Table(entry)));
                    }
                }
                *text = toml_text(text, document);
                Ok(())
            }
        }
    }

    /// Takes one out. Was it there?
    pub fn remove(&mut self, keys: &[String], name: &str) -> Result<bool, Mistake> {
        match &mut self.0 {
            Inner::Json(text) => text.remove(keys, name),
            Inner::Toml { text, document } => {
                let table = table_at(document, keys).ok_or_else(|| Mistake::at(text, 0, "this must be a table"))?;
                let removed = table.remove(name);
                let was_there = removed.is_some();
                if let Some(Item::Table(removed)) = removed {
                    keep_comments(document, &removed);
                }
                *text = toml_text(text, document);
                Ok(was_there)
            }
        }
    }
}

/// Reads TOML.
pub fn parse_toml(text: &str) -> Result<DocumentMut, Mistake> {
    text.parse().map_err(|err: toml_edit::TomlError| {
        // Not the error as it shows itself: it shows the line, and there may be a token in it.
        let message = err.message().lines().next().unwrap_or_default();
        Mistake::at(text, err.span().map_or(0, |span| span.start), message)
    })
}

/// The text of a TOML file with the line ends and the byte order mark that it had.
pub fn toml_text(before: &str, document: &DocumentMut) -> String {
    let mut text = document.to_string();
    if before.contains("\r\n") && !text.contains("\r\n") {
        text = text.replace('\n', "\r\n");
    }
    match before.starts_with('\u{feff}') && !text.starts_with('\u{feff}') {
        true => format!("\u{feff}{text}"),
        false => text,
    }
}

/// What stands above a table and is set off by an empty line, such as the head of the file, is not
/// about the table: it goes to what comes next.
fn keep_comments(document: &mut DocumentMut, removed: &Table) {
    let above = removed.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    let lines: Vec<_> = above.split_inclusive('\n').collect();
    let own = lines.iter().rposition(|line| line.trim().is_empty()).map_or(0, |at| at + 1);
    let kept: String = lines[..own].concat();
    let Some(position) = removed.position().filter(|_| kept.contains('#')) else { return };
    let mut next = Next { after: position, found: None, above: None };
    next.visit_document_mut(document);
    match next.found {
        Some(_) => {
            next.above = Some(kept);
            next.visit_document_mut(document);
        }
        None => {
            let trailing = document.trailing().as_str().unwrap_or_default().to_owned();
            document.set_trailing(format!("{kept}{trailing}"));
        }
    }
}

/// Finds the table behind a position; with `above`, puts that above it.
struct Next {
    after: isize,
    found: Option<isize>,
    above: Option<String>,
}

impl VisitMut for Next {
    fn visit_table_mut(&mut self, table: &mut Table) {
        let position = table.position().filter(|at| *at > self.after && !table.is_implicit() && !table.is_dotted());
        match (&self.above, position) {
            (None, Some(at)) => self.found = Some(self.found.map_or(at, |found| found.min(at))),
            (Some(above), Some(at)) if self.found == Some(at) => {
                let own = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
                let both = format!("{above}{}", own.strip_prefix('\n').unwrap_or(own));
                table.decor_mut().set_prefix(both);
            }
            _ => {}
        }
        visit_mut::visit_table_mut(self, table);
    }
}

fn table_at<'a>(document: &'a mut DocumentMut, keys: &[String]) -> Option<&'a mut (dyn TableLike + 'a)> {
    let mut item = document.as_item_mut();
    for key in keys {
        let table = item.as_table_like_mut()?;
        item = table.entry(key).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
    }
    item.as_table_like_mut()
}

fn to_json(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => value_to_json(value),
        Item::Table(table) => table.iter().map(|(key, item)| (key.to_owned(), to_json(item))).collect(),
        Item::ArrayOfTables(tables) => tables
            .iter()
            .map(|table| table.iter().map(|(key, item)| (key.to_owned(), to_json(item))).collect::<Value>())
            .collect(),
    }
}

fn value_to_json(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => text.value().as_str().into(),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        toml_edit::Value::Float(number) => (*number.value()).into(),
        toml_edit::Value::Boolean(value) => (*value.value()).into(),
        toml_edit::Value::Datetime(time) => time.value().to_string().into(),
        toml_edit::Value::Array(values) => values.iter().map(value_to_json).collect(),
        toml_edit::Value::InlineTable(table) => {
            table.iter().map(|(key, value)| (key.to_owned(), value_to_json(value))).collect()
        }
    }
}

/// `None` for what TOML has no form for.
fn from_json(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(values) => values.iter().filter_map(from_json).collect::<Array>().into(),
        Value::Object(object) => {
            let pairs = object.iter().filter_map(|(key, value)| Some((key.as_str(), from_json(value)?)));
            pairs.collect::<InlineTable>().into()
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_of_a_toml_file_changes_and_nothing_else_does() {
        let keys = ["mcp_servers".to_owned()];
        let entry = json!({"command": "pml", "args": ["serve"]});
        #[rustfmt::skip]
        let table = [
            ("", "[mcp_servers.pml]\ncommand = \"pml\"\nargs = [\"serve\"]\n"),
            ("# a\r\nmodel = 'x' # b\r\n", "# a\r\nmodel = 'x' # b\r\n\r\n[mcp_servers.pml]\r\ncommand = \"pml\"\r\nargs = [\"serve\"]\r\n"),
            ("[mcp_servers]\na = { command = \"x\" } # c\n", "[mcp_servers]\na = { command = \"x\" } # c\n\n[mcp_servers.pml]\ncommand = \"pml\"\nargs = [\"serve\"]\n"),
            ("mcp_servers = { a = { command = \"x\" } }\n", "mcp_servers = { a = { command = \"x\" } , pml = { command = \"pml\", args = [\"serve\"] } }\n"),
            ("# mine\n[mcp_servers.pml] # here\ncommand = \"old\"\nurl = \"x\"\n[z]\n", "# mine\n[mcp_servers.pml] # here\ncommand = \"pml\"\nargs = [\"serve\"]\n[z]\n"),
        ];
        for (text, expected) in table {
            let mut document = Document::parse(Format::Toml, text).unwrap();
            document.set(&keys, "pml", &entry).unwrap();
            assert_eq!(document.text(), expected, "{text}");
            assert_eq!(document.value(&[keys[0].clone(), "pml".to_owned()]), Some(entry.clone()), "{text}");
            assert!(document.remove(&keys, "pml").unwrap(), "{text}");
            assert!(document.servers(&keys).unwrap().iter().all(|(name, _)| name == "a"), "{text}");
        }
        #[rustfmt::skip]
        let table = [
            // What is set off by an empty line is about the file; what is right above is about the entry.
            ("# the file\n\n# the entry\n[mcp_servers.pml]\ncommand = \"x\"\n\n# z\n[z]\na = 1\n", "# the file\n\n# z\n[z]\na = 1\n"),
            ("# the file\n\n[mcp_servers.pml]\ncommand = \"x\"\n[mcp_servers.pml.env]\nA = \"b\"\n# end\n", "# the file\n\n# end\n"),
            ("a = 1\n\n# other\n# [mcp_servers.off]\n\n[mcp_servers.pml]\n[mcp_servers.b]\n", "a = 1\n\n# other\n# [mcp_servers.off]\n\n[mcp_servers.b]\n"),
        ];
        for (text, expected) in table {
            let mut document = Document::parse(Format::Toml, text).unwrap();
            assert!(document.remove(&keys, "pml").unwrap(), "{text}");
            assert_eq!(document.text(), expected, "{text}");
        }
        let mistake = Document::parse(Format::Toml, "a = 1\nb = \n").unwrap_err();
        assert_eq!((mistake.line, mistake.column), (2, 5), "{mistake}");
    }
}
