//! Outcomes for people.

use std::{
    io::{self, IsTerminal as _, Write},
    time::Duration,
};

use pml_wire::message::{ErrorReport, Log, LogLevel, Progress};
use serde::Serialize;

use crate::{
    execution::Outcome,
    shown::{visible, visible_json},
    upstream,
};

/// A place for text in which every character can be seen. Each piece that is written must be whole text.
#[derive(Debug)]
pub(super) struct Visible<W>(pub(super) W);

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(visible(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The characters of a line of the terminal that stdout is; `None` if it is none, or does not say.
pub(super) fn columns() -> Option<usize> {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

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

/// How far the server of a call says it is.
pub(super) fn call_progress(tool: &str, progress: &upstream::Progress) {
    let _ = writeln!(io::stderr(), "progress: {} {}", visible(tool), visible(&progress.to_string()));
}

/// One line of JSON to stdout, in which every character can be seen; the values are what they are.
pub(super) fn json(value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string(value)?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(visible_json(&text).as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// The result to stdout; what else there is to say to stderr.
pub(super) fn outcome(outcome: &Outcome) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    if let Ok(value) = &outcome.result {
        let mut stdout = io::stdout().lock();
        let text = match serde_json::from_str(value.get()) {
            // A text is for reading; its quotes and escapes are not.
            Ok(serde_json::Value::String(text)) => text,
            Ok(value) => visible_json(&serde_json::to_string_pretty(&value)?).into_owned(),
            // JSON, but with numbers or texts that Rust has no form for.
            Err(_) => visible_json(value.get()).into_owned(),
        };
        // What a program returns must not drive the terminal.
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
            writeln!(stderr, "calls that had succeeded: {}", visible(&done.join(", ")))?;
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
        writeln!(stderr, "  --> {}", visible(frame).replace('\n', "\n  "))?;
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

/// A number of milliseconds, of whoever said it: nothing that is no time makes pml fail.
pub(super) fn millis(millis: f64) -> String {
    match Duration::try_from_secs_f64(millis / 1e3) {
        Ok(time) => duration(time),
        Err(_) if millis > 0.0 => "endless".to_owned(),
        Err(_) => duration(Duration::ZERO),
    }
}

/// A time as people say it.
pub(super) fn rough(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_time_is_told_all_the_same() {
        let table = [(1.5, "1.5 ms"), (2500.0, "2.50 s"), (-1.0, "0.0 ms"), (f64::NAN, "0.0 ms"), (1.7e308, "endless")];
        for (number, text) in table {
            assert_eq!(millis(number), text);
        }
    }

    #[test]
    fn times_are_said_roughly() {
        for (seconds, text) in [(5, "5 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 days")] {
            assert_eq!(rough(Duration::from_secs(seconds)), text);
        }
    }
}
