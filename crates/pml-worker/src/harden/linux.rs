//! The jail on Linux.

#![expect(unsafe_code, reason = "system calls that no safe crate of ours offers")]

use std::{ffi::CStr, io, process, ptr};

use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope};
use pml_wire::hardening::{HardeningReport, Layer, LayerReport};

use super::{
    limits::{ADDRESS_SPACE_BYTES, STACK_BYTES, WorkerLimits},
    report::layer,
    seccomp,
};

/// Has the kernel kill this process when the thread that started it ends.
///
/// Not for forked workers: their parent is whichever thread of the host started the zygote.
pub(crate) fn die_with_parent() {
    // SAFETY: takes plain numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Builds what children inherit: namespaces, an empty root, no capabilities, Landlock.
///
/// `with_pid_namespace` only where the caller forks afterwards: a PID namespace takes in children,
/// not the process that makes it.
pub fn prepare(with_pid_namespace: bool) -> HardeningReport {
    close_inherited_files();
    be_killed_first();
    set_limit(libc::RLIMIT_STACK, STACK_BYTES);
    HardeningReport {
        layers: vec![
            // In this order: mounting needs the capabilities that come with a user namespace, and
            // Landlock forbids mounting.
            layer(Layer::Namespaces, enter_namespaces(with_pid_namespace)),
            layer(Layer::NoNewPrivs, set_no_new_privs()),
            layer(Layer::Landlock, restrict_with_landlock()),
            layer(Layer::NonDumpable, set_non_dumpable()),
        ],
    }
}

/// Closes the rest, in the worker itself, and tries every wall.
pub fn lock(prepared: &HardeningReport, limits: WorkerLimits) -> HardeningReport {
    let mut report = prepared.clone();
    report.layers.iter_mut().for_each(try_wall);
    // Only now: without a descriptor to spare, the other walls could not be tried.
    let mut rlimits = layer(Layer::Rlimits, set_limits(limits));
    try_wall(&mut rlimits);
    report.layers.push(rlimits);
    report.layers.push(layer(Layer::Seccomp, load_filter()));
    report
}

fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Standard input is the socket and standard error is a pipe; nothing else is ours.
fn close_inherited_files() {
    // SAFETY: nothing in this process holds a descriptor above 2 yet. `close_range` is Linux 5.9,
    // older than Landlock; without either the host refuses this worker anyway.
    unsafe {
        libc::close(libc::STDOUT_FILENO);
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
}

/// Has the kernel, when memory runs out, take this process before the host. Where that cannot be said, the kernel takes
/// the largest process.
fn be_killed_first() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

fn set_limit(resource: libc::__rlimit_resource_t, value: u64) -> bool {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: `limit` is a valid `rlimit`.
    unsafe { libc::setrlimit(resource, &raw const limit) == 0 }
}

fn get_limit(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: u64::MAX, rlim_max: u64::MAX };
    // SAFETY: `limit` is a valid `rlimit` to write to.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    limit.rlim_max
}

fn set_limits(limits: WorkerLimits) -> Result<String, String> {
    let WorkerLimits { memory_bytes, cpu_seconds } = limits;
    let address_space = memory_bytes.saturating_add(ADDRESS_SPACE_BYTES);
    let table = [
        ("AS", libc::RLIMIT_AS, address_space),
        ("CPU", libc::RLIMIT_CPU, cpu_seconds),
        // Descriptors below 1, and 0 is the socket. Not 0: poll takes no more entries than this.
        ("NOFILE", libc::RLIMIT_NOFILE, 1),
        ("FSIZE", libc::RLIMIT_FSIZE, 0),
        ("CORE", libc::RLIMIT_CORE, 0),
        ("NPROC", libc::RLIMIT_NPROC, 0),
        ("MEMLOCK", libc::RLIMIT_MEMLOCK, 0),
    ];
    for (name, resource, value) in table {
        // A lower limit from outside is as good.
        if !set_limit(resource, value) && get_limit(resource) > value {
            return Err(format!("RLIMIT_{name} cannot be set: {}", io::Error::last_os_error()));
        }
    }
    let megabytes = address_space >> 20;
    Ok(format!("address space {megabytes} MiB, CPU {cpu_seconds} s, no new files, processes, cores or locked memory"))
}

fn set_no_new_privs() -> io::Result<String> {
    // SAFETY: takes plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    Ok("set".to_owned())
}

fn set_non_dumpable() -> io::Result<String> {
    // SAFETY: takes plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) })?;
    Ok("set".to_owned())
}

/// New namespaces of every useful kind, an empty read-only root, and no capabilities.
fn enter_namespaces(with_pid_namespace: bool) -> Result<String, String> {
    let mut flags =
        libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    if with_pid_namespace {
        flags |= libc::CLONE_NEWPID;
    }
    // SAFETY: takes plain numbers; the process has one thread, as a new user namespace demands.
    let unshared = check(unsafe { libc::unshare(flags) });
    let root = unshared
        .as_ref()
        .map_err(ToString::to_string)
        .and_then(|()| enter_empty_root().map_err(|err| format!("the root could not be emptied: {err}")));
    // Whatever came of it: also outside of a namespace of our own, no capability is needed.
    drop_capabilities().map_err(|err| format!("capabilities could not be dropped: {err}"))?;
    unshared.map_err(|err| format!("unshare: {err}"))?;
    root?;
    let pid = if with_pid_namespace { ", pid" } else { "" };
    Ok(format!("user, mount, net, ipc, uts{pid}; empty root; no capabilities"))
}

/// Makes an empty, read-only file system the root and lets go of the old one.
fn enter_empty_root() -> io::Result<()> {
    // A directory that every Linux has; what is mounted on it is seen by this process alone.
    const PLACE: &CStr = c"/proc";
    const NONE: *const libc::c_char = ptr::null();
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: all strings are NUL-terminated and live through the calls; null is allowed where it
    // is used. The mount namespace is ours alone, so no other process is affected.
    unsafe {
        check(libc::mount(NONE, c"/".as_ptr(), NONE, libc::MS_REC | libc::MS_PRIVATE, ptr::null()))?;
        let size = c"size=4k,nr_inodes=1,mode=0555";
        check(libc::mount(c"none".as_ptr(), PLACE.as_ptr(), c"tmpfs".as_ptr(), flags, size.as_ptr().cast()))?;
        check(libc::chdir(PLACE.as_ptr()))?;
        // Old and new root in one place: the old one lies on top and can be taken off.
        if libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) == -1 {
            return Err(io::Error::last_os_error());
        }
        check(libc::umount2(c".".as_ptr(), libc::MNT_DETACH))?;
        check(libc::chdir(c"/".as_ptr()))?;
        let read_only = flags | libc::MS_REMOUNT | libc::MS_RDONLY;
        check(libc::mount(NONE, c"/".as_ptr(), NONE, read_only, ptr::null()))
    }
}

fn drop_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, pid: 0 };
    // Effective, permitted and inheritable, twice 32 bits each.
    let nothing = [0_u32; 6];
    // SAFETY: both match what capset(2) describes for version 3.
    match unsafe { libc::syscall(libc::SYS_capset, &raw const header, nothing.as_ptr()) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A domain with no rule: nothing that Landlock knows of is allowed.
fn restrict_with_landlock() -> Result<String, String> {
    let restrict = || {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(ABI::V7))?
            .handle_access(AccessNet::from_all(ABI::V7))?
            .scope(Scope::from_all(ABI::V7))?
            .create()?
            .restrict_self()
    };
    let status = restrict().map_err(|err: landlock::RulesetError| err.to_string())?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok("files, network and scopes".to_owned()),
        RulesetStatus::PartiallyEnforced => Ok("as much as this kernel knows of".to_owned()),
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock, or it is switched off".to_owned()),
    }
}

/// Loads the filter, then asks the kernel through it.
fn load_filter() -> Result<String, String> {
    let filter = seccomp::program(process::id()).map_err(|err| err.to_string())?;
    seccompiler::apply_filter(&filter).map_err(|err| err.to_string())?;
    // SAFETY: takes plain numbers. The filter allows exactly this use of prctl.
    match unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) } {
        2 => Ok("allow-list, kills the process".to_owned()),
        mode => Err(format!("the filter was loaded, but the kernel reports mode {mode}")),
    }
}

/// Runs against a wall that is said to stand.
fn try_wall(report: &mut LayerReport) {
    if report.enforced
        && let Err(why) = break_through(report.layer)
    {
        report.enforced = false;
        report.detail = format!("set up, but not in force: {why}");
    }
}

/// Tries what a layer forbids. Not seccomp's: that would kill; it is asked in [`load_filter`].
fn break_through(layer: Layer) -> Result<(), String> {
    match layer {
        Layer::NoNewPrivs => {
            // SAFETY: takes plain numbers.
            let set = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) };
            expect(set == 1, "privileges could be gained")
        }
        Layer::NonDumpable => {
            // SAFETY: takes plain numbers.
            let dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) };
            expect(dumpable == 0, "the process is dumpable")
        }
        // The root directory is always there; only Landlock can refuse to list it.
        Layer::Landlock => expect(opens(c"/", libc::O_DIRECTORY) == Err(libc::EACCES), "a directory could be opened"),
        Layer::Namespaces => {
            // SAFETY: `access` reads a NUL-terminated string.
            let found = unsafe { libc::access(c"/etc".as_ptr(), libc::F_OK) } == 0;
            expect(!found, "the machine's files can be seen")
        }
        Layer::Rlimits => {
            // SAFETY: `dup` takes a number; if it succeeds, the copy is closed at once.
            let copy = unsafe { libc::dup(0) };
            if copy >= 0 {
                // SAFETY: `copy` is ours and used nowhere else.
                unsafe { libc::close(copy) };
            }
            expect(copy == -1, "a descriptor could be opened")
        }
        Layer::Seccomp | Layer::Seatbelt => Ok(()),
    }
}

fn expect(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

/// Tries to open a path; gives the error number if that fails.
fn opens(path: &CStr, flags: libc::c_int) -> Result<(), libc::c_int> {
    // SAFETY: the path is NUL-terminated; a descriptor that is opened is closed.
    unsafe {
        match libc::open(path.as_ptr(), flags | libc::O_RDONLY | libc::O_CLOEXEC) {
            -1 => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
            fd => {
                libc::close(fd);
                Ok(())
            }
        }
    }
}
