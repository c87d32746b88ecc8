//! What a worker says when it dies of something no code can handle.
//!
//! Compiling deeply nested code overflows the stack or the address space; a full heap can make the
//! engine abort. All end in a signal. The handler writes a frame that was prepared beforehand, so the agent reads
//! what happened instead of "the worker crashed". Any other fatal signal takes its usual course,
//! and the host sees it in the exit status.

#![expect(unsafe_code, reason = "signal handlers and exit without destructors")]

use std::{
    mem, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use pml_wire::{
    ErrorCode, Kind, frame,
    message::{EXIT_OUT_OF_MEMORY, ErrorReport, ExecutionComplete},
};

use crate::{channel::SOCKET, memory};

static COMPILING: AtomicBool = AtomicBool::new(false);
/// Is a panic the caller's affair?
static UNSAID: AtomicBool = AtomicBool::new(false);
static PREPARED: OnceLock<Prepared> = OnceLock::new();

struct Prepared {
    too_deep: Vec<u8>,
    too_large: Vec<u8>,
    out_of_memory: Vec<u8>,
}

/// Says whether the compiler is at work, which is when a stack overflow means deep nesting.
pub(crate) fn compiling(yes: bool) {
    COMPILING.store(yes, Relaxed);
}

/// Ends the process without running anything. The jail forbids most of what an ordinary exit does.
pub(crate) fn leave() -> ! {
    // SAFETY: `_exit` has no requirements and does not return.
    unsafe { libc::_exit(0) }
}

/// Ends the process where a frame cannot be sent, because another one is half written. The host knows the exit code.
pub(crate) fn leave_out_of_memory() -> ! {
    // SAFETY: `_exit` has no requirements and does not return.
    unsafe { libc::_exit(EXIT_OUT_OF_MEMORY) }
}

/// Ends the process when compiling needs too much memory. Nothing is being sent while a program is compiled.
pub(crate) fn leave_compiling() -> ! {
    if let Some(prepared) = PREPARED.get() {
        // SAFETY: the words are valid for reads of their length. A failed write changes nothing here.
        unsafe { libc::write(SOCKET, prepared.too_large.as_ptr().cast(), prepared.too_large.len()) };
    }
    leave()
}

/// Ends the process with a reason on standard error, for the host to show.
pub(crate) fn fail(reason: &str) -> ! {
    let line = format!("{reason}\n");
    // SAFETY: `line` is valid for reads of its length. A failed write changes nothing here.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        libc::_exit(101)
    }
}

/// Runs a function whose panics the caller catches: they do not end the process.
pub(crate) fn unsaid<T>(run: impl FnOnce() -> T) -> T {
    UNSAID.store(true, Relaxed);
    let answer = run();
    UNSAID.store(false, Relaxed);
    answer
}

/// Prepares the frames, installs the handlers on a stack of their own, and has signals ignored that are not for a worker.
pub(crate) fn install() {
    std::panic::set_hook(Box::new(|panic| {
        if UNSAID.load(Relaxed) {
            return;
        }
        // Without the folders: they are those of the machine that pml was built on.
        let place = panic.location().map_or_else(String::new, |place| {
            let file = place.file().rsplit(['/', '\\']).next().unwrap_or_default();
            format!(" at {file}:{}", place.line())
        });
        fail(&format!("panicked{place}: {}", panic.payload_as_str().unwrap_or_default()));
    }));

    PREPARED.get_or_init(|| Prepared {
        too_deep: prepare(too_deep()),
        too_large: prepare(too_large()),
        out_of_memory: prepare(ErrorReport::out_of_memory()),
    });

    const STACK_BYTES: usize = 64 * 1024;
    let stack = Box::leak(vec![0_u8; STACK_BYTES].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_BYTES };
    // SAFETY: the stack lives for ever; `signal` takes any of these. A zeroed `sigaction` is a valid one, `sa_mask` empty. The
    // handler calls only async-signal-safe functions.
    unsafe {
        libc::sigaltstack(&raw const stack, ptr::null_mut());
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // Reset on entry: when the handler returns, the signal strikes again and kills.
        action.sa_flags = libc::SA_ONSTACK | libc::SA_RESETHAND;
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT] {
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
        // Signals to the whole process group or service are for the host, which lets programs come to their end. It ends a
        // worker with SIGKILL, or by closing the socket.
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// The one wording of code that is too deep.
pub(crate) fn too_deep() -> ErrorReport {
    ErrorReport::new(ErrorCode::CodeTooDeep, "the code is nested too deeply to compile")
        .with_hint("split the expression or the data over several statements")
}

fn too_large() -> ErrorReport {
    ErrorReport::new(ErrorCode::MemoryLimit, "compiling the code needs more memory than the limit of the run")
        .with_hint("make the code shorter or nest it less; pass data through `args` or a tool")
}

fn prepare(error: ErrorReport) -> Vec<u8> {
    let complete = ExecutionComplete { error: Some(error), ..ExecutionComplete::default() };
    let mut bytes = Vec::new();
    let body = serde_json::to_vec(&complete).expect("plain data serializes");
    frame::encode(&mut bytes, Kind::ExecutionComplete, 0, &body);
    bytes
}

extern "C" fn handle(signal: libc::c_int) {
    let Some(prepared) = PREPARED.get() else { return };
    let words = match signal {
        // The stack is full, or the compiler found no more memory.
        _ if COMPILING.load(Relaxed) => &prepared.too_deep,
        libc::SIGABRT if memory::is_exhausted() => &prepared.out_of_memory,
        libc::SIGABRT => {
            // Once more, now with the usual effect; `abort` would do so in a way the jail forbids.
            // SAFETY: `raise` is async-signal-safe.
            unsafe { libc::raise(libc::SIGABRT) };
            return;
        }
        _ => return,
    };
    // SAFETY: `words` is valid for reads of its length; `write` and `_exit` are async-signal-safe.
    unsafe {
        libc::write(SOCKET, words.as_ptr().cast(), words.len());
        libc::_exit(0)
    }
}
