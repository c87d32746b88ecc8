//! What a worker says, read from its frames and checked.
//!
//! **Invariant:** a worker is hostile. Every frame is bounded before it is read, and what ours never sends is an error.

use pml_wire::{
    Frame, Kind, json,
    message::{
        Ask, Decision, Decisions, ExecutionComplete, Log, MAX_PREFLIGHT_CALLS, MAX_QUESTION_BYTES, Preflight,
        PreflightCall, Progress, Read, Recall, RpcCall,
    },
};
use serde_json::value::RawValue;

/// A message from a worker.
#[derive(Debug)]
pub(super) enum FromWorker {
    Call {
        id: u32,
        target: String,
        args: Box<RawValue>,
        texts: Vec<u32>,
        is_raw: bool,
    },
    Log(Log),
    Progress(Progress),
    NamesRequest,
    Preflight(Vec<PreflightCall>),
    Read {
        id: u32,
        read: Read,
    },
    Recall {
        id: u32,
        recall: Recall,
    },
    Ask {
        id: u32,
        ask: Ask,
    },
    Value(Box<RawValue>),
    Complete(ExecutionComplete),
    /// The program waits for an answer or a timer.
    Waiting,
    /// A timer was due.
    Awake,
    Decisions(Vec<Decision>),
    /// How many answers the program had when it made the requests that follow.
    Answered(u32),
    /// The line of the program that makes the requests that follow. Not checked yet.
    Line(u32),
}

/// What a worker did that ours never does.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation(pub(super) String);

impl FromWorker {
    /// Reads a frame. Takes time in proportion to its size.
    pub(super) fn read(frame: &Frame, max_result_bytes: usize) -> Result<FromWorker, Violation> {
        let violation = |what: &str| Err(Violation(what.to_owned()));
        Ok(match frame.kind {
            Kind::RpcCall => {
                let call: RpcCall<'_> = parse(frame)?;
                if json::depth(call.args.get()) > json::MAX_DEPTH {
                    return violation("arguments nested too deeply");
                }
                let (target, args) = (call.target, call.args.to_owned());
                FromWorker::Call { id: frame.id, target, args, texts: call.texts, is_raw: call.raw }
            }
            Kind::Log => FromWorker::Log(parse(frame)?),
            Kind::Progress => FromWorker::Progress(parse(frame)?),
            Kind::NamesRequest => FromWorker::NamesRequest,
            Kind::Preflight => {
                let Preflight { calls } = parse(frame)?;
                if calls.len() > MAX_PREFLIGHT_CALLS {
                    return violation("a list of calls that is too long");
                }
                FromWorker::Preflight(calls)
            }
            Kind::Read | Kind::Recall | Kind::Ask if frame.body.len() > MAX_QUESTION_BYTES => {
                return Err(Violation(format!("a {:?} frame of {} bytes", frame.kind, frame.body.len())));
            }
            Kind::Read => FromWorker::Read { id: frame.id, read: parse(frame)? },
            Kind::Recall => FromWorker::Recall { id: frame.id, recall: parse(frame)? },
            Kind::Ask => FromWorker::Ask { id: frame.id, ask: parse(frame)? },
            Kind::Value => {
                let value: Box<RawValue> = parse(frame)?;
                if json::depth(value.get()) > json::MAX_DEPTH || value.get().len() > max_result_bytes {
                    return violation("a result over its limits");
                }
                FromWorker::Value(value)
            }
            Kind::ExecutionComplete => FromWorker::Complete(parse(frame)?),
            Kind::Waiting => FromWorker::Waiting,
            Kind::Awake => FromWorker::Awake,
            Kind::Answered => FromWorker::Answered(frame.id),
            Kind::Line => FromWorker::Line(frame.id),
            Kind::Decisions => FromWorker::Decisions(parse::<Decisions>(frame)?.decisions),
            Kind::Init
            | Kind::RpcResult
            | Kind::RpcJsonText
            | Kind::RpcError
            | Kind::RpcHandles
            | Kind::Names
            | Kind::Analyse
            | Kind::Analysis
            | Kind::Ready => {
                return Err(Violation(format!("a {:?} frame", frame.kind)));
            }
        })
    }
}

fn parse<'a, T: serde::Deserialize<'a>>(frame: &'a Frame) -> Result<T, Violation> {
    serde_json::from_slice(&frame.body).map_err(|err| Violation(format!("a bad {:?} frame: {err}", frame.kind)))
}
