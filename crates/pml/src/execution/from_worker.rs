//! Parses and validates the frames of a worker.
//!
//! **Invariant:** a worker is hostile. Every frame is bounded before it is parsed, and a frame that an honest worker never sends is an error.

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
    /// The program waits for a response or a timer.
    Waiting,
    /// A timer fired.
    Awake,
    Decisions(Vec<Decision>),
    /// The number of responses that the program had received when it made the following requests.
    Answered(u32),
    /// The line of the program that made the following requests. Not checked yet.
    Line(u32),
}

/// A violation: something that an honest worker never does.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation(pub(super) String);

impl FromWorker {
    /// Reads a frame. Takes time in proportion to its size.
    pub(super) fn read(frame: Frame, max_result_bytes: usize) -> Result<FromWorker, Violation> {
        if frame.kind == Kind::Value {
            return read_value(frame, max_result_bytes);
        }
        let frame = &frame;
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
            Kind::ExecutionComplete => FromWorker::Complete(parse(frame)?),
            Kind::Waiting => FromWorker::Waiting,
            Kind::Awake => FromWorker::Awake,
            Kind::Answered => FromWorker::Answered(frame.id),
            Kind::Line => FromWorker::Line(frame.id),
            Kind::Decisions => FromWorker::Decisions(parse::<Decisions>(frame)?.decisions),
            Kind::Value
            | Kind::Init
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

/// The result of a run, in the buffer that it came in.
fn read_value(frame: Frame, max_result_bytes: usize) -> Result<FromWorker, Violation> {
    let value = String::from_utf8(frame.body).ok().and_then(|text| RawValue::from_string(text).ok());
    let Some(value) = value else { return Err(Violation("a result that is no JSON".to_owned())) };
    if json::depth(value.get()) > json::MAX_DEPTH || value.get().len() > max_result_bytes {
        return Err(Violation("a result over its limits".to_owned()));
    }
    Ok(FromWorker::Value(value))
}

fn parse<'a, T: serde::Deserialize<'a>>(frame: &'a Frame) -> Result<T, Violation> {
    serde_json::from_slice(&frame.body).map_err(|err| Violation(format!("a bad {:?} frame: {err}", frame.kind)))
}
