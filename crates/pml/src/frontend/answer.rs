//! How a run is told: content for the model, `structuredContent` for programs.
//!
//! The first block is the result, or what went wrong. The second, if there is anything to tell, has
//! the console, the calls and the warnings. Images and the like follow as blocks of their own. What is
//! longer than the budget is kept for `read_result`, and its start is shown.
//!
//! Characters that cannot be seen are shown as escapes in both forms, and a warning says so: what is shown then differs
//! from the value that the program returned.
//!
//! **Invariant:** neither of the two forms has more than about `budget` tokens, whatever the
//! program did. (Attached media are not counted: clients have limits of their own for those.)

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _, sync::Arc};

use pml_wire::{
    message::{ErrorReport, Log, LogLevel},
    walk::Walk,
};
use serde_json::{Value, json, value::RawValue};

use super::{
    results::{Caller, Page, Results, Text},
    tokens,
};
use crate::{
    execution::{CallRecord, Outcome, millis},
    shown::{self, visible},
};

/// Calls that are told one by one. Of more, those that failed and how many there were.
const MAX_CALLS: usize = 30;
/// Longest message of one failed call.
const MAX_CALL_ERROR: usize = 300;
/// Keys and elements that the shape of a result names.
const MAX_KEYS: usize = 20;
/// Every integer of so many digits fits into 64 bits.
const MAX_SAFE_DIGITS: usize = 18;
/// Digits of an integer that a warning shows.
const MAX_DIGITS: usize = 60;
/// What the result may always have, however much the console says.
const LEAST: usize = 200;

/// Where long texts go, and how long a short one is.
#[derive(Clone, Debug)]
pub(super) struct Keeper {
    pub(super) results: Arc<Results>,
    pub(super) caller: Caller,
    /// Most tokens of an answer.
    pub(super) budget: usize,
}

/// The result of `execute_code`. Takes time in proportion to the outcome.
pub(super) fn answer(mut outcome: Outcome, keeper: &Keeper) -> Value {
    let mut hidden = make_visible(&mut outcome);
    let Outcome { execution_id, result, attached, logs, calls, mut warnings, duration, .. } = outcome;
    let mut told = json!({
        "execution_id": execution_id,
        "status": if result.is_ok() { "success" } else { "error" },
    });
    let console = console(&logs, keeper);
    let is_error = result.is_err();
    let size = tokens::estimate(&notes(&console, &calls, &warnings, is_error));
    let left = keeper.budget.saturating_sub(size).max(LEAST);
    let rounded = result.as_ref().ok().and_then(|value| beyond_64_bits(value.get()).map(str::to_owned));
    let first = match result {
        Ok(value) => success(value, keeper, left, &mut told, &mut hidden),
        Err(report) => failure(&report, &calls, left, &mut told),
    };
    // Blocks of MCP already; what a server made up that is none was never kept as one.
    let mut blocks: Vec<Value> = attached.iter().filter_map(|block| serde_json::from_str(block.get()).ok()).collect();
    hidden += blocks.iter_mut().map(shown::clean).sum::<usize>();
    warnings.extend(say_hidden(hidden));
    if let Some(integer) = rounded.filter(|_| told.get("result").is_some()) {
        warnings.push(format!("`structuredContent` has {integer} rounded, which is beyond 64 bits; the text is exact"));
    }
    let notes = notes(&console, &calls, &warnings, is_error);
    told["logs"] = console.lines;
    if let Some(id) = console.kept {
        told["logs_handle"] = json!({ "id": id });
    }
    told["calls"] = calls_json(&calls);
    if calls.len() > MAX_CALLS {
        told["calls_total"] = calls.len().into();
    }
    told["warnings"] = warnings.into();
    told["duration_ms"] = millis(duration).into();
    let mut content = vec![json!({ "type": "text", "text": first })];
    if !notes.is_empty() {
        content.push(json!({ "type": "text", "text": notes }));
    }
    content.extend(blocks);
    json!({ "content": content, "structuredContent": told, "isError": is_error })
}

/// Makes all that is text visible. How many characters that were.
fn make_visible(outcome: &mut Outcome) -> usize {
    let Outcome { result, logs, calls, warnings, .. } = outcome;
    let mut texts: Vec<&mut String> = logs.iter_mut().map(|log| &mut log.text).chain(warnings).collect();
    for call in calls {
        texts.push(&mut call.tool);
        texts.extend(call.error.as_mut().map(|error| &mut error.message));
    }
    if let Err(report) = result {
        let ErrorReport { message, hint, stack, frame, .. } = &mut **report;
        texts.push(message);
        texts.extend([hint, stack, frame].into_iter().flatten());
    }
    texts.into_iter().map(shown::clean_text).sum()
}

/// What is said about characters that are shown otherwise than they are.
pub(super) fn say_hidden(count: usize) -> Option<String> {
    let (noun, verb) = if count == 1 { ("character", "is") } else { ("characters", "are") };
    (count > 0).then(|| {
        format!("{count} {noun} that cannot be seen {verb} shown as escapes (\\u…), not as in the value itself")
    })
}

/// The start of the first integer in a JSON text that no 64 bits hold.
fn beyond_64_bits(json: &str) -> Option<&str> {
    let is_integer = |token: &&str| token.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    let tokens = Walk::new(json).map(|place| &json[place.span]).filter(is_integer);
    tokens
        .filter(|token| token.len() > MAX_SAFE_DIGITS)
        .find(|token| token.parse::<u64>().is_err() && token.parse::<i64>().is_err())
        .map(|token| &token[..token.len().min(MAX_DIGITS)])
}

/// The result, or its start and how to get the rest.
pub(super) fn success(
    value: Box<RawValue>,
    keeper: &Keeper,
    left: usize,
    told: &mut Value,
    hidden: &mut usize,
) -> String {
    // A text is shown as it is, not in quotes.
    let text = match serde_json::from_str::<String>(value.get()) {
        Ok(text) => Text::Plain(text.into()),
        Err(_) => Text::json(Box::<RawValue>::into(value)),
    };
    // Most of a long text need not be looked at to know that it is too long.
    let bytes = text.as_str().len();
    let fitting = text.page(0, left);
    if fitting.bytes == bytes {
        let mut value = match &text {
            Text::Plain(text) => (&**text).into(),
            Text::Json(text) => serde_json::from_str(text.as_str()).unwrap_or_else(|_| text.as_str().into()),
        };
        *hidden += shown::clean(&mut value);
        told["result"] = value;
        return fitting.shown.into_owned();
    }
    let size = left * bytes / fitting.bytes.max(1);
    let shape = visible(&shape(&text)).into_owned();
    let Page { bytes: next, shown: start } = text.page(0, (left / 4).max(LEAST));
    let start = start.into_owned();
    *hidden += shown::count_hidden(&text.as_str()[..next]);
    told["preview"] = start.clone().into();
    let rest = match keeper.results.keep(&keeper.caller, text) {
        Some(id) => {
            told["result_handle"] = json!({ "id": id, "bytes": bytes, "next_offset": next, "shape": shape });
            format!(
                "read_result({{\"id\":\"{id}\",\"offset\":{next}}}) goes on from here; with \"path\" it reads one part. In a program, \
                 `await pml.result(\"{id}\")` is all of it"
            )
        }
        None => "it is too long to be kept: return less".to_owned(),
    };
    format!("{start}…\n\n[the start of {bytes} bytes, about {size} tokens: {shape}. {rest}]")
}

/// What went wrong, where, and what to do.
fn failure(report: &ErrorReport, calls: &[CallRecord], left: usize, told: &mut Value) -> String {
    let mut text = format!("error[{}]: {}\n", report.code, report.message);
    // Writing to a String cannot fail.
    if let Some(frame) = &report.frame {
        let _ = writeln!(text, "{frame}");
    }
    if let Some(stack) = report.stack.as_deref().filter(|_| report.frame.is_none()) {
        let _ = writeln!(text, "{stack}");
    }
    if let Some(hint) = &report.hint {
        let _ = writeln!(text, "hint: {hint}");
    }
    let cut = |text: &str| tokens::prefix(text, left / 2).to_owned();
    // Whether a call that ended the program may be repeated is known of the call, not of its code.
    let errors = calls.iter().rev().filter_map(|call| call.error.as_ref());
    let uncaught = errors.filter(|_| report.tool.is_some()).find(|error| error.code == report.code);
    told["error"] = json!({
        "code": report.code,
        "message": cut(&report.message),
        "hint": report.hint,
        "frame": report.frame.as_deref().map(cut),
        "tool": report.tool,
        "retryable": uncaught.map_or(report.code.is_retryable(), |error| error.retryable),
        "outcome": uncaught.map(|error| error.outcome),
    });
    cut(text.trim_end())
}

/// The console, as far as there is room for it.
struct Console {
    text: String,
    /// As JSON.
    lines: Value,
    /// Where all of it is, if this is not all.
    kept: Option<String>,
}

fn console(logs: &[Log], keeper: &Keeper) -> Console {
    let mut text = String::new();
    for log in logs {
        let level = match log.level {
            LogLevel::Log | LogLevel::Info | LogLevel::Debug => "",
            LogLevel::Warn => "[warn] ",
            LogLevel::Error => "[error] ",
        };
        let _ = writeln!(text, "{level}{}", log.text);
    }
    let most = keeper.budget / 4;
    if tokens::estimate(&text) <= most {
        let lines = json!(logs);
        // Of many short lines, JSON is mostly what is around them.
        if tokens::estimate(&lines.to_string()) <= most * 2 {
            return Console { text, lines, kept: None };
        }
    }
    let start = tokens::prefix(&text, most * 3 / 4).to_owned();
    let (bytes, shown) = (text.len(), start.len());
    let kept = keeper.results.keep(&keeper.caller, Text::Plain(text.into()));
    let how = kept.as_ref().map(|id| format!("; read_result({{\"id\":\"{id}\",\"offset\":{shown}}}) goes on"));
    let note = format!("[the first {shown} of {bytes} bytes{}]", how.unwrap_or_default());
    let lines = json!([{ "level": "log", "text": start }]);
    Console { text: format!("{start}…\n{note}\n"), lines, kept }
}

/// The second block: everything but the result.
fn notes(console: &Console, calls: &[CallRecord], warnings: &[String], has_failed: bool) -> String {
    let mut text = String::new();
    if !console.text.is_empty() {
        let _ = write!(text, "console:\n{}", console.text);
    }
    let (done, failed): (Vec<_>, Vec<_>) = calls.iter().partition(|call| call.error.is_none());
    if !calls.is_empty() {
        // After a failure, what has been done is what matters: it must not be done twice.
        let lead = match has_failed && !done.is_empty() {
            true => " (those that succeeded have had their effect)",
            false => "",
        };
        let _ = writeln!(text, "calls: {} succeeded, {} failed{lead}", done.len(), failed.len());
    }
    if calls.len() <= MAX_CALLS {
        calls.iter().for_each(|call| tell(&mut text, call));
    } else {
        for (tool, count) in counted(&done) {
            let empty = done.iter().filter(|call| call.is_empty && call.tool == tool).count();
            let found = if empty > 0 { format!(", found nothing × {empty}") } else { String::new() };
            let _ = writeln!(text, "  ok {tool} × {count}{found}");
        }
        failed.iter().take(MAX_CALLS / 2).for_each(|call| tell(&mut text, call));
    }
    for warning in warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text.truncate(text.trim_end().len());
    text
}

fn tell(text: &mut String, call: &CallRecord) {
    let duration = millis(call.duration);
    let _ = match &call.error {
        // Often an argument that is not quite right.
        None if call.is_empty => writeln!(text, "  ok {} {duration} ms, found nothing", call.tool),
        None => writeln!(text, "  ok {} {duration} ms", call.tool),
        Some(error) => {
            writeln!(text, "  failed {} {duration} ms, {}: {}", call.tool, error.code, short(&error.message))
        }
    };
}

/// How often each tool was called, the busiest first.
fn counted<'a>(calls: &[&'a CallRecord]) -> Vec<(&'a str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls {
        *counts.entry(call.tool.as_str()).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.truncate(MAX_CALLS / 2);
    counts
}

fn calls_json(calls: &[CallRecord]) -> Value {
    // If not all can be told, the failures can.
    let chosen = calls.iter().filter(|call| calls.len() <= MAX_CALLS || call.error.is_some()).take(MAX_CALLS);
    let list = chosen.map(|call| {
        json!({
            "id": call.id,
            "tool": call.tool,
            "success": call.error.is_none(),
            "duration_ms": millis(call.duration),
            "error": call.error.as_ref().map(|error| json!({ "code": error.code, "message": short(&error.message) })),
        })
    });
    list.collect()
}

fn short(message: &str) -> Cow<'_, str> {
    match message.len() > MAX_CALL_ERROR {
        true => format!("{}…", &message[..message.floor_char_boundary(MAX_CALL_ERROR)]).into(),
        false => message.into(),
    }
}

/// What a long text is, in a few words.
fn shape(text: &Text) -> String {
    let text = match text {
        Text::Plain(text) => return format!("text of {} lines", text.lines().count()),
        Text::Json(text) => text.as_str(),
    };
    if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(text) {
        let first = items.first().and_then(|item| keys(item.get()));
        return match first {
            Some(keys) => format!("an array of {} objects with {keys}", items.len()),
            None => format!("an array of {} values", items.len()),
        };
    }
    keys(text).map_or_else(|| "JSON".to_owned(), |keys| format!("an object with {keys}"))
}

/// The keys of an object, if it is one.
fn keys(text: &str) -> Option<String> {
    let object: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(text).ok()?;
    let mut keys: Vec<_> = object.keys().take(MAX_KEYS).map(|key| short(key)).collect();
    if object.len() > MAX_KEYS {
        keys.push("…".into());
    }
    Some(format!("the keys {}", keys.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pml_wire::{CallId, ErrorCode, ExecutionId, message::CallError};

    use super::*;

    fn outcome(result: Result<&str, ErrorReport>) -> Outcome {
        Outcome {
            execution_id: ExecutionId::mint(),
            result: match result {
                Ok(json) => Ok(RawValue::from_string(json.to_owned()).unwrap()),
                Err(report) => Err(Box::new(report)),
            },
            attached: Vec::new(),
            nested: None,
            logs: Vec::new(),
            calls: Vec::new(),
            used: Default::default(),
            warnings: Vec::new(),
            decisions: Vec::new(),
            duration: Duration::from_millis(5),
        }
    }

    fn call(number: u32, error: Option<CallError>) -> CallRecord {
        CallRecord {
            id: CallId(number),
            tool: "a:b".to_owned(),
            duration: Duration::from_millis(1),
            error,
            is_empty: false,
        }
    }

    fn told(outcome: Outcome, budget: usize) -> (Value, Arc<Results>) {
        let keeper = Keeper { results: Arc::default(), caller: Caller::new("me"), budget };
        (answer(outcome, &keeper), keeper.results)
    }

    #[test]
    fn a_small_result_is_told_whole() {
        for (json, text) in [
            ("{\"a\":[1]}", "{\"a\":[1]}"),
            ("\"hi\\n\"", "hi\n"),
            ("null", "null"),
            ("\"1\"", "1"),
            ("\"{\\\"a\\\":1}\"", "{\"a\":1}"),
        ] {
            let (value, _) = told(outcome(Ok(json)), 1000);
            assert_eq!(value["content"].as_array().unwrap().len(), 1);
            assert_eq!(value["content"][0]["text"], text);
            assert_eq!(value["structuredContent"]["result"].to_string(), json, "its type is kept");
            assert_eq!(value["isError"], false);
        }
    }

    #[test]
    fn an_integer_that_structured_content_cannot_hold_is_said() {
        for (json, is_rounded) in [
            ("[18446744073709551615, -9223372036854775808, \"123456789012345678901234567890\", 1e30]", false),
            ("{\"a\":123456789012345678901234567890}", true),
            ("-9223372036854775809", true),
        ] {
            let (value, _) = told(outcome(Ok(json)), 1000);
            assert_eq!(value["content"][0]["text"], json);
            let warnings = value["structuredContent"]["warnings"].to_string();
            assert_eq!(warnings.contains("beyond 64 bits"), is_rounded, "{json}: {warnings}");
        }
    }

    #[test]
    fn a_long_result_is_kept_and_its_start_shown() {
        let json = format!("[{}]", vec!["{\"name\":\"somebody\",\"n\":12}"; 5000].join(","));
        let (value, results) = told(outcome(Ok(&json)), 1000);
        let text = value["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("an array of 5000 objects with the keys n, name"), "{text}");
        assert!(tokens::estimate(&value.to_string()) < 1000, "both forms together");
        let handle = &value["structuredContent"]["result_handle"];
        let kept = results.get(&Caller::new("me"), handle["id"].as_str().unwrap()).unwrap();
        assert_eq!(kept.as_str(), json);
        let next = usize::try_from(handle["next_offset"].as_u64().unwrap()).unwrap();
        assert!(text.starts_with(&json[..next]));
    }

    #[test]
    fn what_cannot_be_seen_is_shown_in_every_part() {
        let hidden = "\u{e0041}\u{202e}\u{1b}";
        let is_clean = |value: &Value| shown::count_hidden_in(value) == 0;
        let text = serde_json::to_string(hidden).unwrap();
        let object = format!("{{{text}:[{text}],\"b\":1}}");
        let mut both = outcome(Ok(&object));
        both.logs = vec![Log { level: LogLevel::Log, text: hidden.to_owned() }];
        both.calls = vec![call(1, Some(CallError::new(ErrorCode::ToolError, hidden)))];
        let block = json!({ "type": "image", "data": "AA==", "mimeType": hidden }).to_string();
        both.attached = vec![RawValue::from_string(block).unwrap()];
        let (value, _) = told(both, 1000);
        assert!(is_clean(&value), "{value}");
        let first = value["content"][0]["text"].as_str().unwrap();
        let exact: Value = serde_json::from_str(first).unwrap();
        assert_eq!(exact, serde_json::from_str::<Value>(&object).unwrap(), "JSON has escapes of its own");
        let expected = json!({ r"\u{e0041}\u{202e}\u{1b}": [r"\u{e0041}\u{202e}\u{1b}"], "b": 1 });
        assert_eq!(value["structuredContent"]["result"], expected);
        let warning = value["structuredContent"]["warnings"][0].as_str().unwrap();
        assert!(warning.starts_with("15 characters that cannot be seen"), "{warning}");
        assert!(value["content"][1]["text"].as_str().unwrap().contains(warning));

        let (value, _) = told(outcome(Ok(&text)), 1000);
        assert_eq!(value["content"][0]["text"], r"\u{e0041}\u{202e}\u{1b}");
        let long = serde_json::to_string(&hidden.repeat(5000)).unwrap();
        let report = ErrorReport::new(ErrorCode::Exception, hidden).with_hint(hidden);
        for outcome in [outcome(Ok(&long)), outcome(Ok(&format!("[{long}]"))), outcome(Err(report))] {
            let (value, _) = told(outcome, 1000);
            assert!(is_clean(&value), "{value}");
            assert!(tokens::estimate(&value["structuredContent"].to_string()) < 1300, "{value}");
        }
    }

    #[test]
    fn no_program_can_make_an_answer_too_long() {
        let flood = "ünï 0123456789 {}[]\"\" ".repeat(3000);
        let mut floods = outcome(Err(ErrorReport::new(ErrorCode::Exception, flood.clone()).with_hint("no")));
        floods.logs = vec![Log { level: LogLevel::Error, text: flood.clone() }; 20];
        floods.calls = (0..500).map(|n| call(n, Some(CallError::new(ErrorCode::ToolError, flood.clone())))).collect();
        floods.warnings = vec!["careful".to_owned(); 20];
        let mut lines = outcome(Ok("1"));
        lines.logs = vec![Log { level: LogLevel::Log, text: String::new() }; 9000];
        let (value, results) = told(lines, 10_000);
        assert!(tokens::estimate(&value["structuredContent"].to_string()) < 10_000, "many lines with nothing in them");
        let id = value["structuredContent"]["logs_handle"]["id"].as_str().unwrap();
        assert_eq!(results.get(&Caller::new("me"), id).unwrap().as_str(), "\n".repeat(9000));
        let (value, _) = told(floods, 10_000);
        for form in ["content", "structuredContent"] {
            let size = tokens::estimate(&value[form].to_string());
            assert!(size < 16_000, "{form}: {size}");
        }
        assert_eq!(value["structuredContent"]["calls_total"], 500);
    }

    #[test]
    fn a_failure_says_what_has_been_done() {
        let mut failed = outcome(Err(ErrorReport::new(ErrorCode::ToolError, "no").with_hint("try again")));
        failed.calls = vec![
            CallRecord { is_empty: true, ..call(1, None) },
            call(2, Some(CallError::new(ErrorCode::ToolError, "no"))),
        ];
        let (value, _) = told(failed, 1000);
        assert_eq!(value["isError"], true);
        assert_eq!(value["content"][0]["text"], "error[TOOL_ERROR]: no\nhint: try again");
        let notes = value["content"][1]["text"].as_str().unwrap();
        assert!(notes.contains("1 succeeded, 1 failed (those that succeeded have had their effect)"), "{notes}");
        assert!(notes.contains("ok a:b 1 ms, found nothing\n"), "{notes}");
        assert_eq!(value["structuredContent"]["calls"][0]["success"], true);
    }
}
