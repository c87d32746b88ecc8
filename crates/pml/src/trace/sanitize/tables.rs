//! Tables in text: CSV, tables of Markdown and of database shells. The name of a column tells what its cells are.

use std::ops::Range;

use super::{
    finding::Kind,
    keys::{self, Telling},
    scan::Scan,
    value::{has_signs, is_secret},
};

/// Longest line that may be the head of a table.
const MAX_HEAD: usize = 1024;
const MAX_CELL: usize = 48;
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Looks at the cells below a name, if the line around it is the head of a table.
pub(super) fn head(scan: &mut Scan<'_>, name: &Range<usize>) {
    let bytes = scan.bytes;
    if name.start < scan.tables_until {
        return;
    }
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'"' | b'\'' | b'`' | b'*');
    let next = bytes[name.end..].iter().take(32).find(|byte| !is_blank(byte)).copied().unwrap_or(b'\n');
    let before = bytes[name.start.saturating_sub(32)..name.start].iter().rev().find(|byte| !is_blank(byte)).copied();
    let Some(separator) = [Some(next), before].into_iter().flatten().find(|byte| SEPARATORS.contains(byte)) else {
        return;
    };
    if next != separator && !matches!(next, b'\n' | b'\r') {
        return;
    }
    let left = bytes[name.start.saturating_sub(MAX_HEAD)..name.start].iter().rev().take_while(|byte| **byte != b'\n');
    let start = name.start - left.count();
    let Some(length) = bytes[start..].iter().take(MAX_HEAD).position(|byte| *byte == b'\n') else {
        scan.tables_until = (start + MAX_HEAD).max(name.end); // too long for a head, and not worth to be read again
        return;
    };
    let line = start..start + length;
    scan.tables_until = line.end;
    let cells = cells(bytes, line.clone(), separator);
    let texts: Option<Vec<&str>> = cells.iter().map(|cell| scan.text.get(cell.clone())).collect();
    let Some(texts) = texts.filter(|texts| is_head(texts, separator)) else { return };
    let columns: Vec<Option<Telling>> = texts.iter().map(|text| keys::classify(text)).collect();
    if columns.iter().all(Option::is_none) {
        return;
    }
    rows(scan, line.end + 1, separator, &columns);
}

/// Are these names of columns, rather than words of a sentence or arguments of a program?
fn is_head(cells: &[&str], separator: u8) -> bool {
    let is_edge = |index: usize| separator == b'|' && (index == 0 || index + 1 == cells.len());
    let is_name = |text: &str| {
        text.len() <= MAX_CELL
            && text.bytes().filter(u8::is_ascii_digit).count() < 4
            && text
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.') || c == ' ' && separator == b'|')
    };
    cells.len() >= 2
        && cells.iter().enumerate().all(|(index, text)| is_name(text) && (!text.is_empty() || is_edge(index)))
}

fn rows(scan: &mut Scan<'_>, start: usize, separator: u8, columns: &[Option<Telling>]) {
    let bytes = scan.bytes;
    let mut at = start;
    while at < bytes.len() {
        let length = memchr::memchr(b'\n', &bytes[at..]).unwrap_or(bytes.len() - at);
        let line = at..at + length;
        at = line.end + 1;
        scan.tables_until = line.end;
        // `|---|---|`
        if !line.is_empty() && bytes[line.clone()].iter().all(|byte| b"-+|: =\r".contains(byte)) {
            continue;
        }
        let cells = cells(bytes, line, separator);
        if cells.len() != columns.len() {
            return;
        }
        for (cell, telling) in cells.iter().zip(columns) {
            let Some((telling, text)) = telling.as_ref().zip(scan.text.get(cell.clone())) else { continue };
            let is_value = has_signs(text) || columns.len() > 2 && separator != b'|' && !text.contains(' ');
            if matches!(telling.kind, Kind::Secret(_)) && is_value && is_secret(telling, text) {
                scan.add(cell.clone(), telling.kind.clone());
            }
        }
    }
}

/// The cells of a line, without blanks and quotes.
fn cells(bytes: &[u8], line: Range<usize>, separator: u8) -> Vec<Range<usize>> {
    let mut cells = Vec::new();
    let mut start = line.start;
    let mut in_quotes = false;
    for at in line.clone() {
        match bytes[at] {
            b'"' => in_quotes = !in_quotes,
            byte if byte == separator && !in_quotes => {
                cells.push(trimmed(bytes, start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    cells.push(trimmed(bytes, start..line.end));
    cells
}

fn trimmed(bytes: &[u8], cell: Range<usize>) -> Range<usize> {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`' | b'*');
    let text = &bytes[cell.clone()];
    let left = text.iter().take_while(|byte| is_blank(byte)).count();
    let right = text[left..].iter().rev().take_while(|byte| is_blank(byte)).count();
    cell.start + left..cell.end - right
}
