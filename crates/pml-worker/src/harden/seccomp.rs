//! The system calls a worker may make, as data. Any other kills the process.
//!
//! A new line needs a reason of the same kind: who makes the call, and why it gives nothing away.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

/// When a listed call is let through.
enum When {
    Always,
    /// Argument `.0`, masked with `.1`, equals `.2`.
    Masked(u8, u64, u64),
    /// Argument `.0` equals `.1`.
    Equals(u8, u64),
    /// The first argument is this process, the third is `.0`.
    SelfWith(u64),
}
use When::{Always, Equals, Masked, SelfWith};

const PROT_EXEC: u64 = libc::PROT_EXEC as u64;

#[rustfmt::skip]
const ALLOWED: &[(libc::c_long, When, &str)] = &[
    (libc::SYS_read,             Always,                  "frames from the host; no descriptor but the socket and stderr is open"),
    (libc::SYS_write,            Always,                  "frames to the host; last words to stderr"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll,             Always,                  "waiting for the host with a timer running"),
    (libc::SYS_ppoll,            Always,                  "the same, where libc has no poll"),
    (libc::SYS_mmap,             Masked(2, PROT_EXEC, 0), "malloc; never executable"),
    (libc::SYS_mprotect,         Masked(2, PROT_EXEC, 0), "malloc growing an arena; never executable"),
    (libc::SYS_munmap,           Always,                  "free"),
    (libc::SYS_mremap,           Always,                  "realloc; keeps the protection of what it moves"),
    (libc::SYS_madvise,          Always,                  "free giving pages back"),
    (libc::SYS_brk,              Always,                  "malloc"),
    (libc::SYS_getrandom,        Always,                  "crypto.getRandomValues, crypto.randomUUID"),
    (libc::SYS_clock_gettime,    Always,                  "Date and timers, where the vDSO cannot answer"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_gettimeofday,     Always,                  "Date, where the vDSO cannot answer"),
    (libc::SYS_restart_syscall,  Always,                  "a poll continued after SIGSTOP and SIGCONT"),
    (libc::SYS_exit_group,       Always,                  "leaving"),
    (libc::SYS_rt_sigreturn,     Always,                  "returning from a handler, to die of the signal"),
    (libc::SYS_rt_sigprocmask,   Always,                  "abort in the engine, before it raises SIGABRT"),
    (libc::SYS_getpid,           Always,                  "abort finding itself"),
    (libc::SYS_gettid,           Always,                  "abort finding itself"),
    (libc::SYS_tgkill,           SelfWith(libc::SIGABRT as u64), "abort; no other process and no other signal"),
    (libc::SYS_prctl,            Equals(0, libc::PR_GET_SECCOMP as u64), "the self-test asking whether this filter is on"),
];

/// Compiles the list for the process `pid`.
pub(super) fn program(pid: u32) -> Result<BpfProgram, seccompiler::BackendError> {
    let condition = |(index, operator, value)| SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for (call, when, _) in ALLOWED {
        let conditions = match *when {
            Always => vec![],
            Masked(index, mask, value) => vec![(index, SeccompCmpOp::MaskedEq(mask), value)],
            Equals(index, value) => vec![(index, SeccompCmpOp::Eq, value)],
            SelfWith(value) => vec![(0, SeccompCmpOp::Eq, u64::from(pid)), (2, SeccompCmpOp::Eq, value)],
        };
        let conditions = conditions.into_iter().map(condition).collect::<Result<Vec<_>, _>>()?;
        // No rule at all means: whatever the arguments.
        let entry = rules.entry(*call).or_default();
        if !conditions.is_empty() {
            entry.push(SeccompRule::new(conditions)?);
        }
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)?.try_into()
}
