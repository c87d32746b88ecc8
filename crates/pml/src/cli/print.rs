//! Outcomes for people.

use std::{
    io::{self, Write},
    time::Duration,
};

use pml_wire::message::{ErrorReport, Log, LogLevel, Progress};

use crate::execution::Outcome;

/// A line of console output, as it comes.
pub(super) fn log(log: &Log) {
    let mark = match log.level {
        LogLevel::Debug => "debug: ",
        LogLevel::Info | LogLevel::Log => "",
        LogLevel::Warn => "warn: ",
        LogLevel::Error => "error: ",
    };
    let _ = writeln!(io::stderr(), "{mark}{}", visible(&log.text));
}

/// How far the program says it is.
pub(super) fn progress(progress: &Progress) {
    let Progress { progress, total, message } = progress;
    let total = total.map(|total| format!("/{total}")).unwrap_or_default();
    let message = message.as_deref().map(|message| format!(" {}", visible(message))).unwrap_or_default();
    let _ = writeln!(io::stderr(), "progress: {progress}{total}{message}");
}

/// The result to stdout; what else there is to say to stderr.
pub(super) fn outcome(outcome: &Outcome) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    if let Ok(value) = &outcome.result {
        let mut stdout = io::stdout().lock();
        let text = match serde_json::from_str(value.get()) {
            // A text is for reading; its quotes and escapes are not.
            Ok(serde_json::Value::String(text)) => text,
            Ok(value) => serde_json::to_string_pretty(&value)?,
            // JSON, but with numbers or texts that Rust has no form for.
            Err(_) => value.get().to_owned(),
        };
        writeln!(stdout, "{}", visible(&text))?;
        stdout.flush()?;
    }
    for warning in &outcome.warnings {
        writeln!(stderr, "warning: {}", visible(warning))?;
    }
    if let Err(report) = &outcome.result {
        error(&mut stderr, report)?;
        let done: Vec<_> =
            outcome.calls.iter().filter(|call| call.error.is_none()).map(|call| call.tool.as_str()).collect();
        if !done.is_empty() {
            writeln!(stderr, "calls that had succeeded: {}", done.join(", "))?;
        }
    }
    let verdict = if outcome.result.is_ok() { "done" } else { "failed" };
    let calls = match outcome.calls.len() {
        0 => String::new(),
        1 => ", 1 tool call".to_owned(),
        count => format!(", {count} tool calls"),
    };
    writeln!(stderr, "{verdict} in {}{calls}", duration(outcome.duration))
}

fn error(stderr: &mut impl Write, report: &ErrorReport) -> io::Result<()> {
    writeln!(stderr, "error[{}]: {}", report.code, visible(&report.message))?;
    if let Some(frame) = &report.frame {
        writeln!(stderr, "  --> {}", frame.replace('\n', "\n  "))?;
    }
    // The innermost line is in the frame already.
    if let Some(stack) = report.stack.as_deref().filter(|stack| stack.lines().count() > 1) {
        for line in stack.lines() {
            writeln!(stderr, "    {}", visible(line))?;
        }
    }
    if let Some(hint) = &report.hint {
        writeln!(stderr, "hint: {}", visible(hint))?;
    }
    Ok(())
}

pub(super) fn duration(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

/// What a program prints must not drive the terminal.
pub(super) fn visible(text: &str) -> String {
    let turns_text = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_harmful = |c: char| (c.is_control() && c != '\n' && c != '\t') || turns_text(c);
    match text.contains(is_harmful) {
        true => text.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn control_sequences_are_shown_not_obeyed() {
        assert_eq!(visible("a\n\tb"), "a\n\tb");
        assert_eq!(visible("\x1b[2Jx\r"), "\u{fffd}[2Jx\u{fffd}");
        assert_eq!(visible("a\u{202e}b"), "a\u{fffd}b");
    }
}
