//! Walks over a JSON document, and knows what surrounds each value: its name, the other half of a pair, the flag in front
//! of it, the column it stands in.
//!
//! The text is edited in place, so everything that need not change stays byte for byte.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fmt::Write as _,
    ops::Range,
    rc::Rc,
};

use pml_wire::{json::MAX_DEPTH, trace::Truncated};
use serde::de::IgnoredAny;

use super::{
    automaton::AUTOMATON,
    finding::{self, Kind, TRUNCATED},
    headers,
    keys::{self, Strength, Telling},
    sanitizer::{Report, Sanitizer},
    shape::{is_digest, is_random, is_uuid},
    value::{has_signs, is_secret},
};

/// Is the text one JSON value?
pub(super) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Does the text look as if it were JSON that holds other values?
pub(super) fn may_be_json(text: &str) -> bool {
    let text = text.trim();
    let ends = text.as_bytes().first().zip(text.as_bytes().last());
    matches!(ends, Some((b'{', b'}') | (b'[', b']'))) || matches!(ends, Some((b'"', b'"'))) && text.len() > 2
}

/// The document without what must not stay; `None` if it may stay as it is. `text` must be JSON.
pub(super) fn sanitize(
    sanitizer: &Sanitizer,
    text: &str,
    path: &str,
    nested: usize,
    telling: Option<&Telling>,
    report: &mut Report,
) -> Option<String> {
    let nodes = parse(text);
    let mut walk = Walk {
        sanitizer,
        text,
        nodes,
        nested,
        path: path.to_owned(),
        report,
        edits: Vec::new(),
        names: HashMap::new(),
    };
    let around = Around { telling: telling.cloned(), all: telling.is_some(), ..Around::default() };
    walk.value(0, &around);
    let edits = walk.edits;
    if edits.is_empty() {
        return None;
    }
    let mut output = String::with_capacity(text.len());
    let mut at = 0;
    for (span, new) in edits {
        output.push_str(&text[at..span.start]);
        output.push_str(&new);
        at = span.end;
    }
    output.push_str(&text[at..]);
    Some(output)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Object,
    Array,
    String,
    Number,
    Literal,
    /// Nested more deeply than pml gives.
    TooDeep,
}

#[derive(Clone, Debug)]
struct Node {
    form: Form,
    span: Range<usize>,
    /// With its quotes.
    key: Option<Range<usize>>,
    /// The index behind the last node inside of it.
    next: usize,
}

/// The values of a document, each in front of those inside of it.
fn parse(text: &str) -> Vec<Node> {
    let bytes = text.as_bytes();
    let mut nodes: Vec<Node> = Vec::with_capacity(bytes.len() / 24 + 1);
    let mut open: Vec<usize> = Vec::new();
    let mut key: Option<Range<usize>> = None;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let start = at;
        match byte {
            b'"' => {
                at = string_end(bytes, start);
                let in_object = open.last().is_some_and(|parent| nodes[*parent].form == Form::Object);
                if in_object && key.is_none() {
                    key = Some(start..at);
                } else {
                    let next = nodes.len() + 1;
                    nodes.push(Node { form: Form::String, span: start..at, key: key.take(), next });
                }
            }
            b'{' | b'[' => {
                let form = if *byte == b'{' { Form::Object } else { Form::Array };
                if open.len() == MAX_DEPTH {
                    at = container_end(bytes, start);
                    let next = nodes.len() + 1;
                    nodes.push(Node { form: Form::TooDeep, span: start..at, key: key.take(), next });
                } else {
                    open.push(nodes.len());
                    nodes.push(Node { form, span: start..start, key: key.take(), next: 0 });
                    at += 1;
                }
            }
            b'}' | b']' => {
                at += 1;
                if let Some(index) = open.pop() {
                    nodes[index].span.end = at;
                    nodes[index].next = nodes.len();
                }
            }
            b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' => at += 1,
            _ => {
                at = start
                    + bytes[start..]
                        .iter()
                        .position(|byte| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r'))
                        .unwrap_or(bytes.len() - start);
                let form = if matches!(byte, b'-' | b'0'..=b'9') { Form::Number } else { Form::Literal };
                let next = nodes.len() + 1;
                nodes.push(Node { form, span: start..at, key: key.take(), next });
            }
        }
    }
    nodes
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        match memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
            None => return bytes.len(),
            Some(offset) if bytes[at + offset] == b'"' => return at + offset + 1,
            Some(offset) => at += offset + 2,
        }
    }
}

fn container_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// What surrounds a value.
#[derive(Clone, Debug, Default)]
struct Around {
    /// What its name says, or that of what it stands in.
    telling: Option<Telling>,
    /// Everything inside is meant, whatever its name.
    all: bool,
    /// What the columns of its rows are called.
    columns: Option<Rc<Vec<Option<Telling>>>>,
    /// It stands somewhere inside of what is called a secret, under a name that says nothing.
    within: Option<Telling>,
    /// Its name says that it is an identifier.
    is_id: bool,
}

/// What is known of a name.
#[derive(Clone, Debug)]
struct Name {
    text: String,
    telling: Option<Telling>,
    clean: Option<String>,
    is_plural: bool,
    is_id: bool,
}

struct Walk<'a, 'r> {
    sanitizer: &'a Sanitizer,
    text: &'a str,
    nodes: Vec<Node>,
    nested: usize,
    path: String,
    report: &'r mut Report,
    edits: Vec<(Range<usize>, String)>,
    names: HashMap<&'a str, Rc<Name>>,
}

impl<'a> Walk<'a, '_> {
    fn value(&mut self, index: usize, around: &Around) {
        let Some(Node { form, span, .. }) = self.nodes.get(index).cloned() else { return };
        match form {
            Form::Object => self.object(index, around),
            Form::Array => self.array(index, around),
            Form::String => self.string(span, around),
            Form::Number => {
                let text = &self.text[span.clone()];
                if (around.telling.is_some() || text.len() >= 14)
                    && !around.is_id
                    && let Some(new) = self.sanitizer.telling_number(text, around.telling.as_ref(), self.report)
                {
                    self.edits.push((span, quoted(&new)));
                }
            }
            Form::Literal => {}
            Form::TooDeep => {
                self.report.truncated.push(Truncated { path: self.path.clone(), original_bytes: span.len() as u64 });
                self.edits.push((span, quoted(TRUNCATED)));
            }
        }
    }

    /// The nodes directly inside of one.
    fn children(&self, index: usize) -> Vec<usize> {
        let mut children = Vec::new();
        let mut at = index + 1;
        while at < self.nodes[index].next {
            children.push(at);
            at = self.nodes[at].next;
        }
        children
    }

    fn object(&mut self, index: usize, around: &Around) {
        let children = self.children(index);
        let names: Vec<Rc<Name>> = children.iter().map(|child| self.name(*child)).collect();
        let pair = self.pair(&children, &names);
        let columns = self.columns(&children, &names);
        let is_secret_object =
            children.iter().zip(&names).any(|(child, name)| name.text == "kind" && self.raw(*child) == "\"Secret\"");
        // Two names may become the same one; none of their values is lost.
        let is_renamed = names.iter().any(|name| name.clean.is_some());
        let kept = names.iter().filter(|name| is_renamed && name.clean.is_none());
        let mut taken: HashSet<String> = kept.map(|name| name.text.clone()).collect();
        for (child, name) in children.into_iter().zip(names) {
            if let Some(clean) = &name.clean {
                let mut unique = clean.clone();
                let mut number = 2;
                while !taken.insert(unique.clone()) {
                    unique = format!("{clean} {number}");
                    number += 1;
                }
                if let Some(key) = self.nodes[child].key.clone() {
                    self.edits.push((key, quoted(&unique)));
                }
            }
            let mut inside = Around { is_id: name.is_id, ..Around::default() };
            inside.telling = match (&name.telling, &pair, &around.telling) {
                // Among credentials, a `key` is one.
                (Some(own), _, Some(outer)) if around.all && own.strength < outer.strength => Some(outer.clone()),
                (Some(own), ..) => {
                    inside.all = name.is_plural;
                    Some(own.clone())
                }
                (None, Some(pair), _) if keys::is_value_of_pair(&name.text) => Some(pair.clone()),
                (None, _, Some(outer))
                    if keys::is_value_of_pair(&name.text) || around.all && !is_description(&name.text) =>
                {
                    inside.all = around.all;
                    Some(outer.clone())
                }
                _ => None,
            };
            if inside.telling.is_none() && !is_description(&name.text) {
                inside.within = around.within.clone();
            }
            let is_holder = name
                .telling
                .as_ref()
                .is_some_and(|own| own.strength == Strength::Certain && matches!(own.kind, Kind::Secret(_)));
            if is_holder && matches!(self.nodes[child].form, Form::Object) {
                inside.within = name.telling.clone();
            }
            if is_secret_object && matches!(name.text.as_str(), "data" | "stringData") {
                inside.telling = Some(Telling { kind: Kind::secret("secret"), strength: Strength::Likely });
                inside.all = true;
            }
            if matches!(
                name.text.as_str(),
                "rows" | "data" | "values" | "records" | "row" | "params" | "args" | "bindings"
            ) {
                inside.columns = columns.clone();
            }
            let length = self.path.len();
            push_step(&mut self.path, name.clean.as_ref().unwrap_or(&name.text));
            self.value(child, &inside);
            self.path.truncate(length);
        }
    }

    /// What the name in a pair of name and value says.
    fn pair(&mut self, children: &[usize], names: &[Rc<Name>]) -> Option<Telling> {
        if children.len() > 16 || !names.iter().any(|name| keys::is_value_of_pair(&name.text)) {
            return None;
        }
        children.iter().zip(names).filter(|(_, name)| keys::is_name_of_pair(&name.text)).find_map(|(child, _)| {
            let node = &self.nodes[*child];
            let text = (node.form == Form::String).then(|| decoded(&self.text[node.span.clone()]))?;
            // `Password field`, as tools of browsers say it.
            let text = text.trim().trim_end_matches([']', '"', '\'', ')']);
            let control =
                [" field", " input", " textbox", " box", " text field", " input field", "-input", "_input", "-field"];
            let text = control.iter().find_map(|control| text.strip_suffix(control)).unwrap_or(text);
            self.sanitizer.telling(text)
        })
    }

    /// What the first of several rows says about the others, if it holds the names of columns.
    fn head_row(&self, rows: &[usize]) -> Option<Rc<Vec<Option<Telling>>>> {
        let [first, others @ ..] = rows else { return None };
        let is_row = |row: &usize| self.nodes[*row].form == Form::Array;
        (others.first().is_some_and(is_row) && is_row(first)).then_some(())?;
        let cells = self.children(*first);
        let is_name = |cell: &usize| {
            let raw = self.raw(*cell);
            self.nodes[*cell].form == Form::String
                && raw.len() <= 42
                && raw.bytes().filter(u8::is_ascii_digit).count() < 4
                && raw[1..raw.len() - 1].chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' '))
        };
        let has_width = |row: &usize| self.children(*row).len() == cells.len();
        (cells.len() >= 2 && cells.iter().all(is_name) && has_width(&others[0])).then_some(())?;
        let columns: Vec<_> = cells.iter().map(|cell| self.sanitizer.telling(&decoded(self.raw(*cell)))).collect();
        // Rows of two are pairs, if the first one says what the second is.
        let is_pair = cells.len() == 2 && columns[0].is_some();
        (columns.iter().any(Option::is_some) && !is_pair).then(|| Rc::new(columns))
    }

    /// What the names of columns say about rows.
    fn columns(&self, children: &[usize], names: &[Rc<Name>]) -> Option<Rc<Vec<Option<Telling>>>> {
        let (header, _) = children.iter().zip(names).find(|(child, name)| {
            matches!(
                name.text.as_str(),
                "columns"
                    | "headers"
                    | "header"
                    | "fields"
                    | "column_names"
                    | "columnNames"
                    | "names"
                    | "keys"
                    | "labels"
            ) && self.nodes[**child].form == Form::Array
        })?;
        let columns: Vec<_> = self
            .children(*header)
            .into_iter()
            .map(|child| {
                let name = match self.nodes[child].form {
                    Form::String => child,
                    // `[{"name": "password", "type": "text"}, …]`
                    Form::Object => self.children(child).into_iter().find(|inner| {
                        let key = self.nodes[*inner].key.clone().map(|key| &self.text[key]);
                        matches!(key, Some("\"name\"" | "\"column\"" | "\"field\""))
                    })?,
                    _ => return None,
                };
                (self.nodes[name].form == Form::String).then(|| self.sanitizer.telling(&decoded(self.raw(name))))?
            })
            .collect();
        columns.iter().any(Option::is_some).then(|| Rc::new(columns))
    }

    fn raw(&self, index: usize) -> &'a str {
        &self.text[self.nodes[index].span.clone()]
    }

    fn array(&mut self, index: usize, around: &Around) {
        let children = self.children(index);
        let is_pair = children.len() == 2;
        let is_row = around.columns.as_ref().is_some_and(|columns| {
            columns.len() == children.len()
                && children.iter().all(|child| !matches!(self.nodes[*child].form, Form::Array | Form::Object))
        });
        let head_row = self.head_row(&children);
        let mut previous: Option<Cow<'a, str>> = None;
        let mut in_key = false;
        let mut command = headers::CommandLine::default();
        for (position, child) in children.into_iter().enumerate() {
            let node = self.nodes[child].clone();
            let text = (node.form == Form::String).then(|| decoded(&self.text[node.span.clone()]));
            let mut inside = Around {
                all: around.all,
                telling: around.telling.clone(),
                columns: head_row.clone().filter(|_| position > 0).or_else(|| around.columns.clone()),
                within: around.within.clone(),
                is_id: around.is_id,
            };
            let length = self.path.len();
            let _ = write!(self.path, "/{position}");
            if let Some(text) = &text {
                // A private key whose lines are elements.
                if in_key {
                    in_key = !text.contains("-----END ");
                    if !finding::without_markers(text).is_empty() {
                        self.report_kind(&Kind::secret("private-key"));
                        self.edits.push((node.span, quoted(&Kind::secret("private-key").marker())));
                    }
                    self.path.truncate(length);
                    continue;
                }
                in_key = text.contains("-----BEGIN ") && text.contains("PRIVATE") && !text.contains("-----END ");
                let flag = previous.as_deref().unwrap_or_default();
                if let Some(span) = command.password(flag, text, false) {
                    let kind = Kind::secret("password");
                    self.report_kind(&kind);
                    let mut clean = text.clone().into_owned();
                    clean.replace_range(span, &kind.marker());
                    self.edits.push((node.span, quoted(&clean)));
                    self.path.truncate(length);
                    previous = None;
                    continue;
                }
                if let Some(telling) = named_by(self.sanitizer, flag, text, is_pair) {
                    inside.telling = Some(telling);
                }
            }
            if is_row && let Some(telling) = around.columns.as_ref().and_then(|columns| columns.get(position)?.clone())
            {
                inside.telling = Some(telling);
            }
            self.value(child, &inside);
            self.path.truncate(length);
            previous = text;
        }
    }

    fn report_kind(&mut self, kind: &Kind) {
        finding::count(&mut self.report.redacted, kind);
    }

    fn string(&mut self, span: Range<usize>, around: &Around) {
        let raw = &self.text[span.clone()];
        if raw.len() < 3
            || around.is_id && raw.len() < 24 && raw[1..raw.len() - 1].bytes().all(|byte| byte.is_ascii_digit())
        {
            return;
        }
        let text = decoded(raw);
        let clean = match &around.telling {
            Some(telling) => self.sanitizer.telling_string(&text, telling, self.nested, &self.path, self.report),
            None => match around.within.as_ref().filter(|_| is_hidden(&text)) {
                Some(telling) => self.sanitizer.telling_string(&text, telling, self.nested, &self.path, self.report),
                None => self.sanitizer.string(&text, self.nested, &self.path, self.report),
            },
        };
        match clean {
            Some(clean) => self.edits.push((span, quoted(&clean))),
            // Half of a pair of surrogates, which most readers refuse.
            None if text.contains('\u{fffd}')
                && raw.contains("\\u")
                && serde_json::from_str::<&serde_json::value::RawValue>(raw).is_ok()
                && serde_json::from_str::<String>(raw).is_err() =>
            {
                self.edits.push((span, quoted(&text)));
            }
            None => {}
        }
    }

    /// What is known of the name of a member.
    fn name(&mut self, index: usize) -> Rc<Name> {
        let raw = self.nodes[index].key.clone().map_or("\"\"", |key| &self.text[key]);
        if let Some(name) = self.names.get(raw) {
            return name.clone();
        }
        let text = decoded(raw).into_owned();
        if is_plain(&text) {
            let name = Rc::new(Name {
                is_id: text.ends_with("id") && keys::words(&text).last().is_some_and(|last| last == "id"),
                text,
                telling: None,
                clean: None,
                is_plural: false,
            });
            self.names.insert(raw, name.clone());
            return name;
        }
        let mut clean = self.sanitizer.string(&text, self.nested.max(1), &self.path, self.report);
        if clean.is_none() && serde_json::from_str::<String>(raw).is_err() {
            clean = Some(text.clone());
        }
        let shown = finding::without_markers(clean.as_deref().unwrap_or(&text));
        let words = keys::words(&shown);
        let last = words.last().map(String::as_str).unwrap_or_default();
        let is_plural = matches!(
            last,
            "secrets" | "passwords" | "credentials" | "creds" | "keys" | "tokens" | "cookies" | "codes" | "phones"
        ) || shown == "SecretString"
            || shown == "phrase";
        let telling = match shown.as_ref() {
            "SecretString" | "SecretBinary" | "secret_string" | "secretString" => {
                Some(Telling { kind: Kind::secret("secret"), strength: Strength::Certain })
            }
            shown if shown.len() <= 256 => keys::classify_words(&words),
            _ => None,
        };
        let name = Rc::new(Name { telling, is_plural, is_id: last == "id", text, clean });
        self.names.insert(raw, name.clone());
        name
    }
}

/// Does a value look like a secret by itself, so that it is enough that a name far above says it is one?
fn is_hidden(text: &str) -> bool {
    let bytes = text.as_bytes();
    is_random(bytes) && !is_uuid(bytes) && !is_digest(bytes)
}

/// What the element in front of one says about it: a flag, or a name if there are only the two.
fn named_by(sanitizer: &Sanitizer, previous: &str, text: &str, is_pair: bool) -> Option<Telling> {
    if previous.is_empty() || previous.len() > 64 || previous.contains([' ', '=']) {
        return None;
    }
    let telling = sanitizer.telling(previous)?;
    let is_flag = previous.starts_with('-') && previous.len() > 2;
    let is_value = !text.starts_with("--") && is_secret(&telling, text);
    let is_clear = is_pair && sanitizer.telling(text).is_none() && (has_signs(text) || text.contains(' '))
        || headers::credentials(text, 0).is_some()
        || has_signs(text) && text.len() >= 10 && telling.strength > Strength::Weak;
    (is_value && (is_flag || is_clear)).then_some(telling)
}

/// A name in which there is nothing to find: nothing that could tell, and nothing that could be a secret itself.
fn is_plain(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len() < 40
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b' ' | b'$' | b'/'))
        && bytes.iter().filter(|byte| byte.is_ascii_digit()).count() < 3
        && !AUTOMATON.search.is_match(name)
}

/// Members that describe a secret and hold none.
fn is_description(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "name",
        "id",
        "type",
        "kind",
        "description",
        "title",
        "label",
        "created_at",
        "createdAt",
        "updated_at",
        "updatedAt",
        "version",
        "arn",
        "url",
        "uri",
        "username",
        "user",
        "host",
        "hostname",
        "port",
        "engine",
        "dbname",
        "database",
        "region",
        "scope",
        "scopes",
        "status",
        "owner",
        "format",
        "comment",
        "notes",
        "provider",
        "service",
        "environment",
        "stage",
        "path",
        "mountPath",
        "namespace",
        "required",
        "expires_at",
        "expiresAt",
        "enabled",
        "domain",
    ];
    NAMES.contains(&name)
}

/// The text of a JSON string, with its quotes. Half a pair of surrogates becomes U+FFFD.
fn decoded(raw: &str) -> Cow<'_, str> {
    let inside = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
        return Cow::Borrowed(inside);
    }
    match serde_json::from_str::<String>(raw) {
        Ok(text) => Cow::Owned(text),
        Err(_) => Cow::Owned(decoded_lossily(inside)),
    }
}

fn decoded_lossily(inside: &str) -> String {
    let mut output = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = rest.find('\\') {
        output.push_str(&rest[..at]);
        let width = match rest.as_bytes().get(at + 1) {
            Some(b'u') => 6,
            _ => 2,
        };
        let pair = rest
            .get(at..at + 12)
            .and_then(|pair| serde_json::from_str::<String>(&format!("\"{pair}\"")).ok())
            .filter(|_| width == 6);
        let escape = rest.get(at..at + width).unwrap_or(&rest[at..]);
        match (pair, serde_json::from_str::<String>(&format!("\"{escape}\""))) {
            (_, Ok(text)) => {
                output.push_str(&text);
                rest = &rest[at + escape.len()..];
            }
            (Some(text), Err(_)) if text.chars().count() == 1 => {
                output.push_str(&text);
                rest = &rest[at + 12..];
            }
            (_, Err(_)) => {
                output.push('\u{fffd}');
                rest = &rest[at + escape.len()..];
            }
        }
    }
    output.push_str(rest);
    output
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_else(|_| format!("\"{TRUNCATED}\""))
}

/// Adds a step of a JSON Pointer.
pub(super) fn push_step(path: &mut String, key: &str) {
    path.push('/');
    for character in key.chars() {
        match character {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            other => path.push(other),
        }
    }
}
