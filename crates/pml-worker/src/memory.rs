//! The engine's allocator: libc's, with a limit that leaves room to complain.
//!
//! The engine can hold its own limit, but then a full heap has no room for the error that says so,
//! and quickjs aborts where it cannot reject a promise. Here the first refusal frees a reserve for
//! the way out.

use std::{
    ptr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use rquickjs::allocator::Allocator;

/// What is added to the limit once it was hit.
const RESERVE_BYTES: usize = 1024 * 1024;

static USED: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static EXHAUSTED: AtomicBool = AtomicBool::new(false);

/// Sets how much the engine may hold from now on, on top of what it holds already.
pub(crate) fn set_limit(bytes: usize) {
    LIMIT.store(USED.load(Relaxed).saturating_add(bytes), Relaxed);
}

/// How much the engine holds.
pub(crate) fn used() -> usize {
    USED.load(Relaxed)
}

/// Has an allocation been refused? Also read by the signal handler.
pub(crate) fn is_exhausted() -> bool {
    EXHAUSTED.load(Relaxed)
}

#[derive(Debug)]
pub(crate) struct Limited;

/// May `more` bytes be added?
fn admit(more: usize) -> bool {
    let used = USED.load(Relaxed);
    if used.saturating_add(more) <= LIMIT.load(Relaxed) {
        return true;
    }
    if !EXHAUSTED.swap(true, Relaxed) {
        let limit = LIMIT.load(Relaxed);
        LIMIT.store(limit.saturating_add(RESERVE_BYTES), Relaxed);
    }
    false
}

fn count(pointer: *mut u8) -> *mut u8 {
    if !pointer.is_null() {
        // Not in one step, which would cost as much as the allocation: a process that sets a limit has one thread.
        USED.store(USED.load(Relaxed).wrapping_add(size_of_block(pointer)), Relaxed);
    }
    pointer
}

fn discount(bytes: usize) {
    USED.store(USED.load(Relaxed).wrapping_sub(bytes), Relaxed);
}

fn size_of_block(pointer: *mut u8) -> usize {
    // SAFETY: every caller passes a live block of libc's allocator.
    #[expect(unsafe_code, reason = "asks libc about its own block")]
    unsafe {
        #[cfg(target_os = "macos")]
        return libc::malloc_size(pointer.cast());
        #[cfg(not(target_os = "macos"))]
        return libc::malloc_usable_size(pointer.cast());
    }
}

// SAFETY: blocks come from libc's malloc family, which aligns to at least `usize`, gives at least
// the size asked for or null, and knows the usable size of each block. Refusing gives null.
#[expect(unsafe_code, reason = "the engine's allocator is a C interface")]
unsafe impl Allocator for Limited {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if !admit(size) {
            return ptr::null_mut();
        }
        // SAFETY: malloc takes any size.
        count(unsafe { libc::malloc(size) }.cast())
    }

    fn calloc(&mut self, items: usize, size: usize) -> *mut u8 {
        match items.checked_mul(size) {
            // SAFETY: calloc takes any sizes; the product was checked.
            Some(total) if admit(total) => count(unsafe { libc::calloc(items, size) }.cast()),
            _ => ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&mut self, pointer: *mut u8) {
        discount(size_of_block(pointer));
        // SAFETY: the caller promises that `pointer` is a live block of ours.
        unsafe { libc::free(pointer.cast()) };
    }

    unsafe fn realloc(&mut self, pointer: *mut u8, new_size: usize) -> *mut u8 {
        let old_size = if pointer.is_null() { 0 } else { size_of_block(pointer) };
        if new_size > old_size && !admit(new_size - old_size) {
            return ptr::null_mut();
        }
        // SAFETY: the caller promises that `pointer` is null or a live block of ours. If realloc
        // fails, the old block stays as it was and stays counted.
        let moved = unsafe { libc::realloc(pointer.cast(), new_size) }.cast::<u8>();
        if !moved.is_null() {
            discount(old_size);
            return count(moved);
        }
        if new_size == 0 {
            discount(old_size); // realloc to nothing frees
        }
        moved
    }

    unsafe fn usable_size(pointer: *mut u8) -> usize {
        size_of_block(pointer)
    }
}
