//! `pml sanitize`: the sanitizer of traces as a filter for JSON lines.
//!
//! One line out for each line in, in the same order. A line that is no JSON is taken as text and comes out as a JSON
//! string, so that the output is always JSON lines.

use std::{
    borrow::Cow,
    io::{self, BufRead, BufReader, BufWriter, Write},
    process::ExitCode,
    sync::Arc,
};

use serde_json::json;

use crate::trace::sanitize::{Report, Rules, Sanitizer};

/// Longest line that is read. Of a longer one comes only the marker.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
const BUFFER_BYTES: usize = 128 * 1024;
/// The whole line, if it was too long.
const TOO_LONG: &str = "\"[TRUNCATED]\"";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Say on stderr what was removed and cut, a JSON object for each line that was changed
    #[arg(long)]
    report: bool,
}

pub(super) fn run(args: &Args, rules: Arc<Rules>) -> ExitCode {
    let sanitizer = Sanitizer::new(rules);
    let input = BufReader::with_capacity(BUFFER_BYTES, io::stdin().lock());
    let output = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    match filter(&sanitizer, input, output, |number, report| {
        if args.report {
            let line = json!({ "line": number, "redacted": report.redacted, "truncated": report.truncated });
            let _ = writeln!(io::stderr(), "{line}");
        }
    }) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has had enough.
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(err) => {
            let _ = writeln!(io::stderr(), "error: the lines cannot be read or written: {err}");
            ExitCode::FAILURE
        }
    }
}

/// Sanitizes line after line, and tells of each line that was changed.
fn filter<R: io::Read>(
    sanitizer: &Sanitizer,
    mut input: BufReader<R>,
    mut output: impl Write,
    mut tell: impl FnMut(u64, &Report),
) -> io::Result<()> {
    let mut line = Vec::new();
    let mut number = 0;
    while let Some(is_whole) = read_line(&mut input, &mut line)? {
        number += 1;
        let text = String::from_utf8_lossy(&line);
        let (clean, report) = match is_whole {
            true => sanitized(sanitizer, &text),
            false => (Cow::Borrowed(TOO_LONG), Report::default()),
        };
        output.write_all(clean.as_bytes())?;
        output.write_all(b"\n")?;
        if report != Report::default() {
            tell(number, &report);
        }
        // Somebody may be waiting for this line before sending the next.
        if input.buffer().is_empty() {
            output.flush()?;
        }
        line.shrink_to(BUFFER_BYTES);
    }
    output.flush()
}

/// One line of JSON for one line of anything.
fn sanitized<'a>(sanitizer: &Sanitizer, line: &'a str) -> (Cow<'a, str>, Report) {
    match sanitizer.json(line) {
        Some((clean, report)) => (clean, report),
        None => {
            // As a JSON string, the text passes through the same door.
            let quoted = serde_json::Value::from(line).to_string();
            let clean = sanitizer.json(&quoted).map(|(clean, report)| (clean.into_owned(), report));
            let (clean, report) = clean.unwrap_or_else(|| (TOO_LONG.to_owned(), Report::default()));
            (Cow::Owned(clean), report)
        }
    }
}

/// Reads a line without its end: `None` behind the last one, `Some(false)` if it was too long and is not in `line`.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let mut has_any = false;
    let mut is_whole = true;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
            Err(err) => return Err(err),
        };
        if available.is_empty() {
            return Ok(has_any.then_some(is_whole));
        }
        has_any = true;
        let end = memchr::memchr(b'\n', available);
        let part = &available[..end.unwrap_or(available.len())];
        if line.len() + part.len() > MAX_LINE_BYTES {
            is_whole = false;
            line.clear();
        }
        if is_whole {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(Some(is_whole));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(input: &[u8]) -> Vec<String> {
        let mut output = Vec::new();
        let input = BufReader::with_capacity(16, input);
        filter(&Sanitizer::default(), input, &mut output, |_, _| {}).unwrap();
        String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_line_comes_out_as_one_line_of_json() {
        let input = b"{\"password\":\"hunter2\",  \"n\": 1.50}\r\n\nplain password=hunter2 text\n[1,\n\xff\xfe\n\"x\"";
        let output = filtered(input);
        assert_eq!(
            output,
            [
                r#"{"password":"[REDACTED:password]",  "n": 1.50}"#,
                r#""""#,
                r#""plain password=[REDACTED:password] text""#,
                r#""[1,""#,
                "\"\u{fffd}\u{fffd}\"",
                r#""x""#,
            ]
        );
    }

    #[test]
    fn a_line_that_is_too_long_is_not_kept_and_the_next_one_is_read() {
        let long = vec![b'a'; MAX_LINE_BYTES + 10];
        let input = [b"1\n".as_slice(), &long, b"\n2\n", &long].concat();
        let mut reader = BufReader::new(input.as_slice());
        let mut line = Vec::new();
        let mut read = || read_line(&mut reader, &mut line).unwrap();
        assert_eq!((read(), read(), read(), read(), read()), (Some(true), Some(false), Some(true), Some(false), None));
    }
}
