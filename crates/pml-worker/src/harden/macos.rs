//! The jail on macOS: resource limits and a sandbox profile that denies everything.
//!
//! **Untested.** Written from Apple's documentation; no macOS machine has run it. There is no
//! seccomp and no PID namespace here, so it is weaker than Linux even when it works.

#![expect(unsafe_code, reason = "system calls that no safe crate of ours offers")]

use std::{ffi::CStr, io, ptr};

use pml_wire::hardening::{HardeningReport, Layer};

use super::{
    limits::{ADDRESS_SPACE_BYTES, STACK_BYTES, WorkerLimits},
    report::layer,
};

unsafe extern "C" {
    fn sandbox_init(profile: *const libc::c_char, flags: u64, error: *mut *mut libc::c_char) -> libc::c_int;
    fn sandbox_free_error(error: *mut libc::c_char);
}

/// macOS has no such thing; a worker notices the closed socket instead.
pub(crate) fn die_with_parent() {}

/// Nothing is inherited here: each worker is a process of its own.
pub fn prepare(_with_pid_namespace: bool) -> HardeningReport {
    HardeningReport::default()
}

/// Closes the jail.
pub fn lock(prepared: &HardeningReport, limits: WorkerLimits) -> HardeningReport {
    let mut report = prepared.clone();
    report.layers.push(layer(Layer::Rlimits, set_limits(limits)));
    report.layers.push(layer(Layer::Seatbelt, enter_sandbox()));
    report
}

fn set_limits(limits: WorkerLimits) -> io::Result<String> {
    let table = [
        (libc::RLIMIT_AS, limits.memory_bytes.saturating_add(ADDRESS_SPACE_BYTES)),
        (libc::RLIMIT_STACK, STACK_BYTES),
        (libc::RLIMIT_CPU, limits.cpu_seconds),
        (libc::RLIMIT_NOFILE, 1),
        (libc::RLIMIT_FSIZE, 0),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NPROC, 0),
    ];
    for (resource, value) in table {
        let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
        // SAFETY: `limit` is a valid `rlimit`.
        if unsafe { libc::setrlimit(resource, &raw const limit) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok("set".to_owned())
}

fn enter_sandbox() -> Result<String, String> {
    const PROFILE: &CStr = c"(version 1)(deny default)";
    let mut error = ptr::null_mut();
    // SAFETY: the profile is NUL-terminated; on failure `error` is a C string that is ours to free.
    unsafe {
        if sandbox_init(PROFILE.as_ptr(), 0, &raw mut error) == 0 {
            return Ok("deny default".to_owned());
        }
        let message = CStr::from_ptr(error).to_string_lossy().into_owned();
        sandbox_free_error(error);
        Err(message)
    }
}
