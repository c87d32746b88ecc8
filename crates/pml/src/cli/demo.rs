//! `pml demo`: a program that comes with pml, and tools that come with pml.

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use pml_wire::{ErrorCode, message::CallError};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::time::sleep;

use super::{print, with_pool};
use crate::{
    config::Config,
    execution::{self, CallHandler, Event, HandlerFuture, Request, ToolCall},
};

const PROGRAM: &str = include_str!("demo.ts");

pub(super) async fn run(config: Config) -> ExitCode {
    let mut stderr = io::stderr();
    let _ = writeln!(stderr, "An agent would send this program:\n");
    for line in PROGRAM.lines() {
        let _ = writeln!(stderr, "    {line}");
    }
    let _ = writeln!(stderr, "\npml runs it in a process that can only compute and ask:\n");
    let listener = |event: Event<'_>| match event {
        Event::Log(log) => print::log(log),
        Event::CallEnded(call) => {
            let verdict = if call.error.is_none() { "ok" } else { "failed" };
            let _ = writeln!(io::stderr(), "  → {} {verdict} in {}", call.tool, print::duration(call.duration));
        }
        Event::CallStarted(_) | Event::Progress(_) => {}
    };
    let request = Request {
        code: PROGRAM.to_owned(),
        name: "demo.ts".to_owned(),
        args: RawValue::from_string("{\"days\":3}".to_owned()).expect("a constant that is JSON"),
    };
    let outcome = with_pool(&config, config.sandbox.mode, async |pool, interrupt| {
        execution::run(&pool, request, config.limits, &Tools, &listener, &interrupt).await
    })
    .await;
    let _ = writeln!(stderr, "\nand returns:\n");
    match print::outcome(&outcome) {
        Ok(()) if outcome.result.is_ok() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Two small servers: `weather`, which takes its time, and `text`.
struct Tools;

#[derive(Deserialize)]
struct Forecast {
    city: String,
    days: u32,
}

#[derive(Deserialize)]
struct Table {
    rows: Vec<Vec<String>>,
}

impl CallHandler for Tools {
    fn call(&self, call: ToolCall) -> HandlerFuture<'_> {
        Box::pin(async move {
            match call.tool.as_str() {
                "weather:forecast" => forecast(parse(&call.args)?).await,
                "text:table" => table(&parse(&call.args)?),
                other => Err(CallError::new(ErrorCode::ToolNotFound, format!("there is no tool `{other}`"))),
            }
        })
    }

    fn names(&self) -> Arc<str> {
        r#"{"weather":["forecast"],"text":["table"]}"#.into()
    }
}

fn parse<'a, T: Deserialize<'a>>(args: &'a RawValue) -> Result<T, CallError> {
    serde_json::from_str(args.get()).map_err(|err| CallError::new(ErrorCode::InvalidArguments, err.to_string()))
}

fn to_raw(value: &serde_json::Value) -> Result<Box<RawValue>, CallError> {
    RawValue::from_string(value.to_string()).map_err(|err| CallError::new(ErrorCode::ToolError, err.to_string()))
}

/// Weather that depends on the name of the city alone.
async fn forecast(asked: Forecast) -> Result<Box<RawValue>, CallError> {
    sleep(Duration::from_millis(50)).await;
    if !asked.city.chars().all(char::is_alphabetic) {
        return Err(CallError::new(ErrorCode::ToolError, format!("no city is called `{}`", asked.city)));
    }
    let seed: u32 = asked.city.bytes().map(u32::from).sum();
    let days: Vec<_> =
        (0..asked.days.min(14)).map(|day| json!({ "day": day, "celsius": (seed * 7 + day * 5) % 30 })).collect();
    to_raw(&json!({ "city": asked.city, "days": days }))
}

fn table(asked: &Table) -> Result<Box<RawValue>, CallError> {
    let columns = asked.rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        asked.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let lines: Vec<_> = asked
        .rows
        .iter()
        .map(|row| {
            let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect();
    to_raw(&json!(lines.join("\n")))
}
