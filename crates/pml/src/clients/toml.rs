//! Changes TOML as text: what is not part of an entry keeps every byte.
//!
//! An entry may be written as a table with a header, as an inline table, as dotted keys, or as several of these in
//! several places. Its text is found by its keys; a comment right above its header belongs to it.

use std::ops::Range;

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item};

use super::mistake::Mistake;
use crate::config::toml_text::{Member, Statement, members, newline_at, statements};

/// A text that is TOML.
#[derive(Debug)]
pub(super) struct Text {
    text: String,
    document: Box<DocumentMut>,
}

impl Text {
    pub(super) fn parse(text: &str) -> Result<Text, Mistake> {
        let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
        let document = bare.parse().map_err(|err: toml_edit::TomlError| {
            // Not the error as it shows itself: it shows the line, and there may be a token in it.
            let message = err.message().lines().next().unwrap_or_default();
            Mistake::at(bare, err.span().map_or(0, |span| span.start), message)
        })?;
        Ok(Text { text: text.to_owned(), document: Box::new(document) })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The entries under some keys, in their order.
    pub(super) fn entries(&self, keys: &[String]) -> Result<Vec<(String, Value)>, Mistake> {
        let Some(item) = self.item(keys) else { return Ok(Vec::new()) };
        let at = item.span().map_or(0, |span| span.start);
        let table = item.as_table_like().ok_or_else(|| Mistake::at(&self.text, at, "this must be a table"))?;
        Ok(table.iter().map(|(name, item)| (name.to_owned(), to_json(item))).collect())
    }

    pub(super) fn value(&self, keys: &[String]) -> Option<Value> {
        self.item(keys).map(to_json)
    }

    fn item(&self, keys: &[String]) -> Option<&Item> {
        keys.iter().try_fold(self.document.as_item(), |item, key| item.get(key))
    }

    /// Writes an entry, in place of one of that name if there is one.
    pub(super) fn set(&mut self, keys: &[String], name: &str, value: &Value) -> Result<(), Mistake> {
        let path = [keys, &[name.to_owned()]].concat();
        let Value::Object(fields) = value else { return Err(self.no_table()) };
        if self.item(keys).is_some_and(|item| !item.is_table_like()) {
            return Err(self.no_table());
        }
        let Some(present) = self.value(&path) else { return self.insert(keys, name, fields) };
        if present == *value {
            return Ok(());
        }
        let statements = statements(&self.text);
        let of_entry: Vec<_> = statements.iter().filter(|statement| statement.path.starts_with(&path)).collect();
        match of_entry.as_slice() {
            [Statement { path: own, value: Some(range), .. }] if *own == path => {
                let range = range.clone();
                self.replace(vec![(range, inline(value))])
            }
            all if all.iter().any(|one| one.value.is_none() && one.path == path)
                && all.iter().all(|one| one.value.is_none() || one.header >= path.len()) =>
            {
                self.update(&path, &present, fields)
            }
            _ => {
                self.remove(keys, name)?;
                self.insert(keys, name, fields)
            }
        }
    }

    /// Changes an entry that has a header: only the lines of keys that differ.
    fn update(&mut self, path: &[String], present: &Value, fields: &Map<String, Value>) -> Result<(), Mistake> {
        for key in present.as_object().into_iter().flat_map(Map::keys).filter(|key| !fields.contains_key(*key)) {
            self.remove(path, key)?;
        }
        for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            let own = [path, std::slice::from_ref(key)].concat();
            match self.value(&own) {
                Some(same) if same == *value => continue,
                None => {}
                Some(_) => {
                    let all = statements(&self.text);
                    let mut of_key = all.iter().filter(|statement| statement.path.starts_with(&own));
                    if let (Some(Statement { path, value: Some(range), .. }), None) = (of_key.next(), of_key.next())
                        && *path == own
                    {
                        self.replace(vec![(range.clone(), inline(value))])?;
                        continue;
                    }
                    self.remove(path, key)?;
                }
            }
            let all = statements(&self.text);
            let Some(header) = all.iter().position(|one| one.value.is_none() && one.path == path) else { continue };
            let body = all[header + 1..].iter().take_while(|one| one.value.is_some()).last();
            let at = body.unwrap_or(&all[header]).lines.end;
            let line = format!("{} = {}", key_text(key), inline(value));
            self.insert_line(at, &line)?;
        }
        Ok(())
    }

    fn insert(&mut self, keys: &[String], name: &str, fields: &Map<String, Value>) -> Result<(), Mistake> {
        let all = statements(&self.text);
        let parent = all.iter().rev().find_map(|one| {
            let range = one.value.clone().filter(|_| keys.starts_with(&one.path))?;
            Some((range, keys[one.path.len()..].to_vec()))
        });
        if let Some((range, rest)) = parent {
            return self.insert_inline(range, &rest, name, fields);
        }
        let path = [keys, &[name.to_owned()]].concat();
        let end = self.text.len();
        let newline = newline_at(&self.text, end);
        let mut entry = String::new();
        if !self.text.trim_start_matches('\u{feff}').is_empty() {
            entry.push_str(if self.text.ends_with('\n') { "" } else { newline });
            entry.push_str(newline);
        }
        entry.push_str(&format!("[{}]{newline}", path_text(&path)));
        for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            entry.push_str(&format!("{} = {}{newline}", key_text(key), inline(value)));
        }
        let before = self.text.clone();
        if self.replace(vec![(end..end, entry)]).is_ok() {
            return Ok(());
        }
        // Where the others are written as dotted keys that no header may follow, so is this one.
        *self = Text::parse(&before)?;
        let near = all.iter().rev().find(|one| one.value.is_some() && one.path.starts_with(keys));
        let (at, header) = near.map_or((end, 0), |one| (one.lines.end, one.header));
        let line = format!("{} = {}", path_text(&path[header..]), inline(&Value::Object(fields.clone())));
        self.insert_line(at, &line)
    }

    /// Writes an entry into an inline table that holds it, or holds what holds it.
    fn insert_inline(
        &mut self,
        mut table: Range<usize>,
        mut rest: &[String],
        name: &str,
        fields: &Map<String, Value>,
    ) -> Result<(), Mistake> {
        while let Some(member) = members(&self.text, &table)
            .into_iter()
            .find(|member| rest.starts_with(&member.path) && self.text[member.value.clone()].starts_with('{'))
        {
            rest = &rest[member.path.len()..];
            table = member.value;
        }
        if !self.text[table.clone()].starts_with('{') {
            return Err(self.no_table());
        }
        let path = [rest, &[name.to_owned()]].concat();
        let entry = format!("{} = {}", path_text(&path), inline(&Value::Object(fields.clone())));
        let edit = match members(&self.text, &table).last() {
            Some(last) => (last.whole.end..last.whole.end, format!(", {entry}")),
            None => (table.clone(), format!("{{ {entry} }}")),
        };
        self.replace(vec![edit])
    }

    fn insert_line(&mut self, at: usize, line: &str) -> Result<(), Mistake> {
        let newline = newline_at(&self.text, at);
        let before = if at == 0 || self.text[..at].ends_with('\n') { "" } else { newline };
        self.replace(vec![(at..at, format!("{before}{line}{newline}"))])
    }

    /// Takes an entry out. Was it there?
    pub(super) fn remove(&mut self, keys: &[String], name: &str) -> Result<bool, Mistake> {
        let path = [keys, &[name.to_owned()]].concat();
        let was_there = self.item(&path).is_some();
        let ranges = self.ranges(&path).into_iter().map(|range| (range, String::new())).collect();
        self.replace(ranges)?;
        Ok(was_there)
    }

    /// The text of an entry, if it is a table with a header whose parts are all in one place.
    pub(super) fn raw(&self, path: &[String]) -> Option<String> {
        let all = statements(&self.text);
        let mut of_entry = all.iter().filter(|one| one.path.starts_with(path));
        let is_under_header = of_entry.all(|one| one.header >= path.len());
        let blocks = blocks(&self.text, &all, path);
        match blocks.as_slice() {
            [block] if is_under_header => Some(self.text[block.clone()].to_owned()),
            _ => None,
        }
    }

    /// Puts the text of an entry back, behind everything else.
    pub(super) fn append(&mut self, raw: &str) -> Result<(), Mistake> {
        let end = self.text.len();
        let newline = newline_at(&self.text, end);
        let gap = match self.text.trim_start_matches('\u{feff}') {
            "" => String::new(),
            text if text.ends_with('\n') => newline.to_owned(),
            _ => newline.repeat(2),
        };
        self.replace(vec![(end..end, format!("{gap}{raw}"))])
    }

    /// Where an entry is.
    fn ranges(&self, path: &[String]) -> Vec<Range<usize>> {
        let all = statements(&self.text);
        let mut ranges: Vec<_> = blocks(&self.text, &all, path).into_iter().map(|block| self.with_gap(block)).collect();
        for one in all.iter().filter(|one| one.value.is_some() && one.header < path.len()) {
            let Some(value) = &one.value else { continue };
            if one.path.starts_with(path) {
                ranges.push(one.lines.clone());
            } else if path.starts_with(&one.path) {
                ranges.extend(self.inline_ranges(value, &path[one.path.len()..]));
            }
        }
        ranges
    }

    /// Where an entry is in an inline table, with a comma next to it.
    fn inline_ranges(&self, table: &Range<usize>, rest: &[String]) -> Vec<Range<usize>> {
        if !self.text[table.clone()].starts_with('{') {
            return Vec::new();
        }
        let all = members(&self.text, table);
        let mut ranges = Vec::new();
        for (index, member) in all.iter().enumerate() {
            if member.path.starts_with(rest) {
                let stays = |other: &&Member| !other.path.starts_with(rest);
                let before = all[..index].iter().rfind(stays);
                ranges.push(match (all.get(index + 1), before) {
                    (Some(next), _) => member.whole.start..next.whole.start,
                    (None, Some(before)) => before.whole.end..member.whole.end,
                    (None, None) => member.whole.clone(),
                });
            } else if rest.starts_with(&member.path) {
                ranges.extend(self.inline_ranges(&member.value, &rest[member.path.len()..]));
            }
        }
        // The last one may reach back over those before it.
        let mut joined: Vec<Range<usize>> = Vec::new();
        ranges.sort_by_key(|range| range.start);
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        joined
    }

    /// A block with the empty line above it, if there is one on the other side too, or nothing.
    fn with_gap(&self, block: Range<usize>) -> Range<usize> {
        let line_before =
            self.text[..block.start].strip_suffix('\n').map(|text| text.rfind('\n').map_or(0, |at| at + 1));
        let rest = &self.text[block.end..];
        let line_after = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let is_blank_after = rest[..line_after].trim().is_empty();
        match line_before {
            Some(start) if is_blank_after && self.text[start..block.start].trim().is_empty() => start..block.end,
            None if is_blank_after => block.start..block.end + line_after,
            _ => block,
        }
    }

    fn replace(&mut self, mut edits: Vec<(Range<usize>, String)>) -> Result<(), Mistake> {
        let mut text = self.text.clone();
        edits.sort_by_key(|(range, _)| range.start);
        for (range, new) in edits.into_iter().rev() {
            text.replace_range(range, &new);
        }
        // What is written must be readable, whatever mistake was made here.
        *self = Text::parse(&text)?;
        Ok(())
    }

    fn no_table(&self) -> Mistake {
        Mistake::at(&self.text, 0, "this must be a table")
    }
}

/// The headers of an entry with what is below them: each as one range if nothing else is in between, with the comment
/// right above.
fn blocks(text: &str, all: &[Statement], path: &[String]) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut is_open = false;
    let mut last_end = 0;
    for one in all {
        let is_inside = one.header >= path.len() && one.path.starts_with(path);
        if is_inside && is_open {
            if let Some(block) = blocks.last_mut() {
                block.end = one.lines.end;
            }
        } else if is_inside {
            blocks.push(with_comment(text, last_end, one.lines.start)..one.lines.end);
        }
        is_open = is_inside;
        last_end = one.lines.end;
    }
    blocks
}

/// Where the comment begins that stands right above a line.
fn with_comment(text: &str, earliest: usize, line: usize) -> usize {
    let mut start = line;
    for above in text[earliest..line].split_inclusive('\n').rev() {
        if !above.trim_start_matches('\u{feff}').trim_start().starts_with('#') {
            break;
        }
        start -= above.len();
    }
    if text[start..].starts_with('\u{feff}') { start + '\u{feff}'.len_utf8() } else { start }
}

fn path_text(path: &[String]) -> String {
    path.iter().map(|key| key_text(key)).collect::<Vec<_>>().join(".")
}

fn key_text(key: &str) -> String {
    let key = toml_edit::Key::new(key);
    key.display_repr().into_owned()
}

/// A value on one line.
fn inline(value: &Value) -> String {
    from_json(value).map(|value| value.to_string()).unwrap_or_default()
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

    fn keys() -> [String; 1] {
        ["s".to_owned()]
    }

    #[test]
    fn an_entry_comes_and_goes_and_every_other_byte_stays() {
        let entry = json!({"command": "pml", "args": ["serve"]});
        #[rustfmt::skip]
        let table = [
            ("", "[s.p]\ncommand = \"pml\"\nargs = [\"serve\"]\n"),
            ("# a\r\nm = 'x' # b\r\n", "# a\r\nm = 'x' # b\r\n\r\n[s.p]\r\ncommand = \"pml\"\r\nargs = [\"serve\"]\r\n"),
            ("[s]\na = { command = \"x\" } # c\n", "[s]\na = { command = \"x\" } # c\n\n[s.p]\ncommand = \"pml\"\nargs = [\"serve\"]\n"),
            ("s = { a = { command = \"x\" } }\n", "s = { a = { command = \"x\" }, p = { command = \"pml\", args = [\"serve\"] } }\n"),
            ("t.s = 1\ns = {}\n", "t.s = 1\ns = { p = { command = \"pml\", args = [\"serve\"] } }\n"),
            // A line end inside of a text, and lines that end in both ways.
            ("m = \"\"\"\r\na\nb\r\n\"\"\"\r\nn = 1\nz.a = 1\r\ny.a = 1\r\nz.b = 2\r\n\r\n", "m = \"\"\"\r\na\nb\r\n\"\"\"\r\nn = 1\nz.a = 1\r\ny.a = 1\r\nz.b = 2\r\n\r\n\r\n[s.p]\r\ncommand = \"pml\"\r\nargs = [\"serve\"]\r\n"),
            ("\u{feff}[s.a]\ncommand = 'x'\n", "\u{feff}[s.a]\ncommand = 'x'\n\n[s.p]\ncommand = \"pml\"\nargs = [\"serve\"]\n"),
            // Others are written as dotted keys.
            ("s.a.command = 'x'\nm = 1\ns.a.args = []\n", "s.a.command = 'x'\nm = 1\ns.a.args = []\n\n[s.p]\ncommand = \"pml\"\nargs = [\"serve\"]\n"),
        ];
        for (text, expected) in table {
            let mut edited = Text::parse(text).unwrap();
            edited.set(&keys(), "p", &entry).unwrap_or_else(|err| panic!("{text}: {err}"));
            assert_eq!(edited.text(), expected, "{text}");
            assert_eq!(edited.value(&["s".to_owned(), "p".to_owned()]), Some(entry.clone()), "{text}");
            assert!(edited.remove(&keys(), "p").unwrap(), "{text}");
            let left = if text == "t.s = 1\ns = {}\n" { "t.s = 1\ns = {  }\n" } else { text };
            assert_eq!(edited.text(), left, "and out again");
        }
    }

    #[test]
    fn an_entry_is_found_however_it_is_written() {
        #[rustfmt::skip]
        let table = [
            // What is set off by an empty line is about the file; what is right above is about the entry.
            ("# the file\n\n# the entry\n[s.p]\ncommand = \"x\"\n\n# z\n[z]\na = 1\n", "# the file\n\n# z\n[z]\na = 1\n"),
            ("# the file\n\n[s.p]\ncommand = \"x\"\n[s.p.env]\nA = \"b\"\n# end\n", "# the file\n\n# end\n"),
            ("a = 1\n\n# other\n# [s.off]\n\n[s.p]\n[s.b]\n", "a = 1\n\n# other\n# [s.off]\n\n[s.b]\n"),
            ("s.p.command = 'x'\r\ns.a.command = 'y'\ns.p.args = [\n'a']\n\r\n", "s.a.command = 'y'\n\r\n"),
            ("[s]\np.command = 'x'\na = 1\np.env.B = '1'\n", "[s]\na = 1\n"),
            ("[s]\np = { command = 'x' } # about p\na = 1\n", "[s]\na = 1\n"),
            ("[s.p]\ncommand = 'x'\n\n[z]\n\n[s.p.env]\nA = 'b'\n", "[z]\n"),
            ("s = { p = { command = 'x' }, a = {} }", "s = { a = {} }"),
            ("s = { a = {}, p = { command = 'x' } }", "s = { a = {} }"),
            ("s = { p.command = 'x', a = {}, p.args = [] }", "s = { a = {} }"),
            ("s = { p.command = 'x', p.args = [] }", "s = {  }"),
            ("\u{feff}[s.p]\ncommand = \"\"\"\r\n[z]\n\"\"\"\r\n[z]\r\n", "\u{feff}[z]\r\n"),
            ("[s.'p']\n[s.pp]\n", "[s.pp]\n"),
        ];
        for (text, expected) in table {
            let mut edited = Text::parse(text).unwrap_or_else(|err| panic!("{text}: {err}"));
            assert!(edited.remove(&keys(), "p").unwrap(), "{text}");
            assert_eq!(edited.text(), expected, "{text}");
            assert!(!edited.remove(&keys(), "p").unwrap(), "{text}");
        }
    }

    #[test]
    fn an_entry_is_changed_where_it_is() {
        let entry = json!({"command": "pml", "args": ["serve"], "env": {"A": "b"}});
        #[rustfmt::skip]
        let table = [
            ("# mine\n[s.p] # here\ncommand = \"old\" # c\nurl = \"x\"\nenv.A = 'b' # mine\n[z]\n", "# mine\n[s.p] # here\ncommand = \"pml\" # c\nenv.A = 'b' # mine\nargs = [\"serve\"]\n[z]\n"),
            ("[s.p]\r\n[s.p.env]\r\nA = 'b'\r\n", "[s.p]\r\ncommand = \"pml\"\r\nargs = [\"serve\"]\r\n[s.p.env]\r\nA = 'b'\r\n"),
            ("[s]\np = { command = 'old' } # x\n", "[s]\np = { command = \"pml\", args = [\"serve\"], env = { A = \"b\" } } # x\n"),
        ];
        for (text, expected) in table {
            let mut edited = Text::parse(text).unwrap();
            edited.set(&keys(), "p", &entry).unwrap();
            assert_eq!(edited.text(), expected, "{text}");
        }
        let mistake = Text::parse("\u{feff}a = 1\nb = \n").unwrap_err();
        assert_eq!((mistake.line, mistake.column), (2, 5), "{mistake}");
        assert_eq!(Text::parse("\u{feff}b = \n").unwrap_err().column, 5);
    }
}
