//! The allocator of the whole binary: the system's, with a limit while a program is compiled.
//!
//! The engine has an allocator of its own ([`crate::memory`]). The compiler is Rust, and a few kilobytes of hostile
//! TypeScript can make it ask for a gigabyte. Nothing in it can cope with a refusal, so the process says why and leaves.
//!
//! Outside of compiling, and in the other roles of the binary, an allocation costs one load more than the system's.

#![expect(unsafe_code, reason = "an allocator is an unsafe interface")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use crate::last_words;

/// Least memory for the compiler, whatever the limit of the run.
const LEAST_BYTES: usize = 32 * 1024 * 1024;

static IS_LIMITED: AtomicBool = AtomicBool::new(false);
/// How much may still be allocated.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// The allocator. For `#[global_allocator]`.
#[derive(Debug)]
pub struct Heap;

/// Does `work` with at most so much memory on top of what is in use. If it wants more, the process ends with a report.
pub(crate) fn limited<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    LEFT.store(bytes.max(LEAST_BYTES), Relaxed);
    IS_LIMITED.store(true, Relaxed);
    let output = work();
    IS_LIMITED.store(false, Relaxed);
    output
}

fn take(bytes: usize) {
    if IS_LIMITED.load(Relaxed) {
        match LEFT.load(Relaxed).checked_sub(bytes) {
            Some(left) => LEFT.store(left, Relaxed),
            None => last_words::leave_compiling(),
        }
    }
}

fn give_back(bytes: usize) {
    if IS_LIMITED.load(Relaxed) {
        LEFT.store(LEFT.load(Relaxed).saturating_add(bytes), Relaxed);
    }
}

// SAFETY: every call goes to `System` with the arguments it came with; counting touches no memory of the caller's. Loads
// and stores need not be one step: a process that sets a limit has one thread.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller's promises are `System`'s requirements.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        give_back(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        match new_size.checked_sub(layout.size()) {
            Some(more) => take(more),
            None => give_back(layout.size() - new_size),
        }
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}
