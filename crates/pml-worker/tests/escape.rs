//! Native code inside the jail: what a program could do if it took over the engine.
//!
//! Without arguments this starts itself once for each attempt. With one it closes the jail as a
//! worker does, makes the attempt, and is expected to die of it. A program of its own, since each
//! attempt needs a process without threads that nobody will miss.

#![expect(unsafe_code, reason = "the attempts are system calls")]
#![expect(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods, reason = "a test program of its own")]
#![cfg(target_os = "linux")]

use std::{
    env,
    os::unix::process::ExitStatusExt,
    process::{Command, ExitCode, Stdio},
    ptr::null,
};

use pml_worker::harden::{self, WorkerLimits};

fn main() -> ExitCode {
    match env::args().nth(1).and_then(|name| ATTEMPTS.iter().find(|(other, _)| *other == name)) {
        Some((_, attempt)) => make(*attempt),
        None => judge(),
    }
}

/// Closes the jail and makes the attempt. Returning at all is a failure.
fn make(attempt: Attempt) -> ExitCode {
    let prepared = harden::prepare(false);
    let report = harden::lock(&prepared, WorkerLimits { memory_bytes: 64 << 20, cpu_seconds: 5 });
    if report.missing().next().is_some() {
        return ExitCode::from(3);
    }
    attempt();
    // SAFETY: ends the process without anything that the jail forbids.
    unsafe { libc::_exit(4) }
}

fn judge() -> ExitCode {
    let mut failed = 0;
    for (name, _) in ATTEMPTS {
        let program = env::current_exe().expect("a running program has a path");
        let status = Command::new(program).arg(name).stdin(Stdio::null()).stderr(Stdio::null()).status();
        let status = status.expect("the attempt starts");
        if status.signal() != Some(libc::SIGSYS) {
            eprintln!("{name}: was not killed for it: {status}");
            failed += 1;
        }
    }
    println!("{} passed, {failed} failed", ATTEMPTS.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

type Attempt = fn() -> i64;

macro_rules! call {
    ($name:ident $(, $arg:expr)*) => {
        // SAFETY: the call is expected not to return; if it does, its arguments are valid for it.
        || unsafe { libc::syscall(libc::$name $(, $arg)*) }
    };
}

/// Everything that must kill. Each is named after what it would give.
#[rustfmt::skip]
const ATTEMPTS: &[(&str, Attempt)] = &[
    // Files.
    ("openat", call!(SYS_openat, libc::AT_FDCWD, c"/etc/passwd".as_ptr(), libc::O_RDONLY)),
    ("openat2", call!(SYS_openat2, libc::AT_FDCWD, c"/etc/passwd".as_ptr(), null::<u8>(), 0)),
    ("statx", call!(SYS_statx, libc::AT_FDCWD, c"/etc".as_ptr(), 0, 0, null::<u8>())),
    ("readlinkat", call!(SYS_readlinkat, libc::AT_FDCWD, c"/etc".as_ptr(), null::<u8>(), 0)),
    ("getdents", call!(SYS_getdents64, 0, null::<u8>(), 0)),
    ("unlinkat", call!(SYS_unlinkat, libc::AT_FDCWD, c"/etc".as_ptr(), 0)),
    ("memfd", call!(SYS_memfd_create, c"x".as_ptr(), 0)),
    ("sendfile", call!(SYS_sendfile, 0, 2, null::<u8>(), 1)),
    ("ioctl", call!(SYS_ioctl, 2, libc::TIOCSTI, c"x".as_ptr())),
    ("fcntl", call!(SYS_fcntl, 0, libc::F_DUPFD, 0)),
    ("dup", call!(SYS_dup, 0)),
    ("pipe", call!(SYS_pipe2, null::<u8>(), 0)),
    ("inotify", call!(SYS_inotify_init1, 0)),
    ("getcwd", call!(SYS_getcwd, null::<u8>(), 0)),
    // Network.
    ("socket", call!(SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0)),
    ("socketpair", call!(SYS_socketpair, libc::AF_UNIX, libc::SOCK_STREAM, 0, null::<u8>())),
    ("connect", call!(SYS_connect, 0, null::<u8>(), 0)),
    ("bind", call!(SYS_bind, 0, null::<u8>(), 0)),
    ("accept", call!(SYS_accept4, 0, null::<u8>(), null::<u8>(), 0)),
    ("sendmsg", call!(SYS_sendmsg, 0, null::<u8>(), 0)),
    ("recvmsg", call!(SYS_recvmsg, 0, null::<u8>(), 0)),
    // Processes.
    ("clone", call!(SYS_clone, libc::SIGCHLD, 0, 0, 0, 0)),
    ("clone3", call!(SYS_clone3, null::<u8>(), 0)),
    ("execve", call!(SYS_execve, c"/bin/true".as_ptr(), null::<u8>(), null::<u8>())),
    ("execveat", call!(SYS_execveat, 0, c"".as_ptr(), null::<u8>(), null::<u8>(), libc::AT_EMPTY_PATH)),
    ("kill", call!(SYS_kill, -1, libc::SIGTERM)),
    ("tkill", call!(SYS_tkill, 1, libc::SIGKILL)),
    ("tgkill of another", call!(SYS_tgkill, 1, 1, libc::SIGABRT)),
    ("tgkill with another signal", call!(SYS_tgkill, libc::getpid(), libc::getpid(), libc::SIGSTOP)),
    ("pidfd", call!(SYS_pidfd_open, 1, 0)),
    ("ptrace", call!(SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0)),
    ("wait", call!(SYS_wait4, -1, null::<u8>(), 0, null::<u8>())),
    ("setsid", call!(SYS_setsid)),
    // Memory, the host's and executable.
    ("process_vm_readv", call!(SYS_process_vm_readv, 1, null::<u8>(), 0, null::<u8>(), 0, 0)),
    ("process_vm_writev", call!(SYS_process_vm_writev, 1, null::<u8>(), 0, null::<u8>(), 0, 0)),
    ("mmap executable", call!(SYS_mmap, null::<u8>(), 4096, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)),
    ("mprotect executable", call!(SYS_mprotect, null::<u8>(), 4096, libc::PROT_EXEC)),
    ("pkey_mprotect", call!(SYS_pkey_mprotect, null::<u8>(), 4096, libc::PROT_EXEC, -1)),
    ("shmget", call!(SYS_shmget, 1, 4096, 0o666)),
    ("userfaultfd", call!(SYS_userfaultfd, 0)),
    // The kernel's larger surfaces.
    ("io_uring", call!(SYS_io_uring_setup, 1, null::<u8>())),
    ("bpf", call!(SYS_bpf, 0, null::<u8>(), 0)),
    ("perf", call!(SYS_perf_event_open, null::<u8>(), 0, -1, -1, 0)),
    ("keyctl", call!(SYS_keyctl, 0, 0, 0, 0, 0)),
    ("futex", call!(SYS_futex, null::<u8>(), 0, 0, null::<u8>(), null::<u8>(), 0)),
    ("epoll", call!(SYS_epoll_create1, 0)),
    // More privileges, more time, more memory.
    ("unshare", call!(SYS_unshare, libc::CLONE_NEWUSER)),
    ("setns", call!(SYS_setns, 0, 0)),
    ("mount", call!(SYS_mount, null::<u8>(), null::<u8>(), null::<u8>(), 0, null::<u8>())),
    ("chroot", call!(SYS_chroot, c"/".as_ptr())),
    ("pivot_root", call!(SYS_pivot_root, c".".as_ptr(), c".".as_ptr())),
    ("setuid", call!(SYS_setuid, 0)),
    ("capset", call!(SYS_capset, null::<u8>(), null::<u8>())),
    ("prlimit", call!(SYS_prlimit64, 0, libc::RLIMIT_CPU, null::<u8>(), null::<u8>())),
    ("setpriority", call!(SYS_setpriority, 0, 0, -20)),
    ("prctl", call!(SYS_prctl, libc::PR_SET_DUMPABLE, 1, 0, 0, 0)),
    ("seccomp", call!(SYS_seccomp, 1, 0, null::<u8>())),
    ("personality", call!(SYS_personality, 0)),
    ("setitimer", call!(SYS_setitimer, 0, null::<u8>(), null::<u8>())),
    ("sigaction", call!(SYS_rt_sigaction, libc::SIGSYS, null::<u8>(), null::<u8>(), 8)),
    ("uname", call!(SYS_uname, null::<u8>())),
];
