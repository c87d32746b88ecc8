//! The process that workers are forked from.
//!
//! Executing the pml binary anew for each worker would pay for its relocations, the engine and the
//! prelude each time, in time and in private memory. So one process does all of that once, closes
//! what children inherit, and then forks a worker for each request of the host. It has one thread,
//! and runs no program but one of our own ([`Session::warm_up`]), so that its children find the pages of the binary
//! mapped ([`inherit_file_pages`]) and everything made that is made at its first use.
//!
//! Requests arrive over the socket on stdin: the limits, with the worker's socket and stderr
//! attached. The response is the worker's process id, or a negated errno.
//! Workers are the host's own children (`CLONE_PARENT`), so the host reaps them and reads their
//! exit status itself.
//!
//! When the host dies, the socket closes and this process exits. That ends process 1 of the
//! workers' PID namespace, upon which the kernel kills every worker.

#![expect(unsafe_code, reason = "fork and descriptor passing")]

use std::{
    fs,
    io::{self, BufRead},
    mem,
    os::{fd::RawFd, unix::fs::FileExt},
    ptr,
};

use pml_wire::hardening::{HardeningReport, Layer};

use crate::{
    engine::{self, Session},
    harden::{self, WorkerLimits},
    last_words, worker,
};

/// The host's end of the request socket, until the fork.
const CONTROL: RawFd = 0;

/// The contents of a request.
struct Request {
    limits: WorkerLimits,
    socket: RawFd,
    stderr: RawFd,
}

/// The outcome of a receive on the request socket.
enum Received {
    Request(Request),
    /// A request whose descriptors did not arrive, because this process is at its descriptor limit.
    Incomplete,
    /// The host has closed its end.
    Gone,
}

pub(crate) fn run() -> ! {
    last_words::install();
    // If it fails, workers start more slowly.
    let _ = inherit_file_pages();
    let report = harden::prepare(true);
    let has_namespaces = report.layers.iter().any(|layer| layer.layer == Layer::Namespaces && layer.enforced);
    if has_namespaces && let Err(err) = fork_init() {
        last_words::fail(&format!("the PID namespace has no first process: {err}"));
    }
    let served = engine::with_session(|session| {
        session.warm_up();
        serve(&session, &report)
    });
    match served {
        Ok(never) => never,
        Err(err) => last_words::fail(&format!("the engine does not start: {err}")),
    }
}

/// Has children inherit which pages of the binary and its libraries are mapped.
///
/// A child begins without the pages that are mapped from files, and each of them, where it is first used, costs a page
/// fault: more than a hundred of the two hundred that the start of a worker takes. The kernel only copies the entries of
/// a mapping to a child if a page in it is private. So one byte of each mapping is written, with the value it has. That
/// does not change what may be done with the pages: code stays read-only and executable.
fn inherit_file_pages() -> io::Result<()> {
    let maps = io::BufReader::new(fs::File::open("/proc/self/maps")?);
    let memory = fs::File::options().read(true).write(true).open("/proc/self/mem")?;
    for line in maps.lines() {
        if let Some(start) = read_only_file_mapping(&line?) {
            let mut byte = [0];
            memory.read_exact_at(&mut byte, start)?;
            memory.write_all_at(&byte, start)?;
        }
    }
    Ok(())
}

/// Where a mapping begins, if the line of `/proc/self/maps` is of a private mapping of a file that cannot be written to.
fn read_only_file_mapping(line: &str) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let (range, permissions, path) = (fields.next()?, fields.next()?, fields.nth(3)?);
    let is_meant = matches!(permissions, "r--p" | "r-xp") && path.starts_with('/');
    let (start, _) = range.split_once('-').filter(|_| is_meant)?;
    u64::from_str_radix(start, 16).ok()
}

/// Forks a worker for each request, until the host closes the socket. A request that cannot be served is answered with the
/// reason, and nothing else: workers that run end with this process.
fn serve(session: &Session<'_>, report: &HardeningReport) -> ! {
    loop {
        match receive() {
            Received::Request(request) => {
                answer(fork(session, report, &request));
                // SAFETY: the descriptors came with the request and belong to the child now.
                unsafe {
                    libc::close(request.socket);
                    libc::close(request.stderr);
                }
            }
            Received::Incomplete => answer(-libc::EMFILE),
            Received::Gone => last_words::leave(),
        }
    }
}

/// Forks a worker: its process id, or a negated errno.
fn fork(session: &Session<'_>, report: &HardeningReport, request: &Request) -> i32 {
    // SAFETY: the process has one thread, so the child may do anything. The flags make the
    // child a sibling: its parent is the host.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_PARENT | libc::SIGCHLD, 0, 0, 0, 0) };
    match pid {
        0 => {
            take_descriptors(request);
            session.rehearse();
            worker::serve(session, report, request.limits)
        }
        -1 => -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        pid => i32::try_from(pid).unwrap_or(-libc::EIO),
    }
}

fn answer(answer: i32) {
    // SAFETY: the answer is four bytes; if the host does not take them it is gone, which the next receive notices.
    unsafe { libc::send(CONTROL, (&raw const answer).cast(), mem::size_of_val(&answer), libc::MSG_NOSIGNAL) };
}

/// Makes the request's socket and pipe stdin and stderr, and closes all other descriptors.
fn take_descriptors(request: &Request) {
    // SAFETY: all are descriptors of this process, and nothing else in it uses them.
    unsafe {
        libc::dup2(request.socket, libc::STDIN_FILENO);
        libc::dup2(request.stderr, libc::STDERR_FILENO);
        libc::close(libc::STDOUT_FILENO);
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
}

/// Forks process 1 of the PID namespace, which does nothing but die with this process.
///
/// Returns when the child has arranged for that. If this process dies sooner, the child finds the
/// pipe between them closed, and ends by itself.
fn fork_init() -> io::Result<()> {
    let mut pipe = [0; 2];
    // SAFETY: `pipe` has room for two descriptors. The process has one thread, and the child makes
    // system calls only. The byte that is passed is a local of either side.
    unsafe {
        if libc::pipe(pipe.as_mut_ptr()) == -1 {
            return Err(io::Error::last_os_error());
        }
        let [reading, writing] = pipe;
        let mut byte = 0_u8;
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                libc::close(reading);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::write(writing, (&raw const byte).cast(), 1) != 1 {
                    libc::_exit(0);
                }
                libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0);
                loop {
                    libc::pause();
                }
            }
            _ => {
                libc::close(writing);
                let read = libc::read(reading, (&raw mut byte).cast(), 1);
                libc::close(reading);
                if read == 1 { Ok(()) } else { Err(io::Error::other("it died at once")) }
            }
        }
    }
}

/// The next request.
fn receive() -> Received {
    const FD_BYTES: u32 = (2 * size_of::<RawFd>()) as u32;
    let mut bytes = [0_u8; WorkerLimits::BYTES];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut ancillary = [0_u64; 8];
    // SAFETY: a zeroed `msghdr` is valid; the pointers put into it outlive the calls. `u64`s are
    // aligned for `cmsghdr`, and there is room for two descriptors. `cmsg_len` says how many arrived.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = ancillary.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&ancillary) as _;
        let received = loop {
            let received = libc::recvmsg(CONTROL, &raw mut message, libc::MSG_CMSG_CLOEXEC);
            if received >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break received;
            }
        };
        if received != WorkerLimits::BYTES as isize {
            return Received::Gone;
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Received::Incomplete;
        }
        let descriptors = libc::CMSG_DATA(header).cast::<RawFd>();
        if (*header).cmsg_len as u32 != libc::CMSG_LEN(FD_BYTES) {
            if (*header).cmsg_len as u32 >= libc::CMSG_LEN(FD_BYTES / 2) {
                libc::close(ptr::read_unaligned(descriptors));
            }
            return Received::Incomplete;
        }
        let [socket, stderr] = ptr::read_unaligned(descriptors.cast::<[RawFd; 2]>());
        Received::Request(Request { limits: WorkerLimits::from_bytes(bytes), socket, stderr })
    }
}

#[cfg(test)]
mod tests {
    use super::read_only_file_mapping;

    #[test]
    fn only_read_only_mappings_of_files_are_meant() {
        #[rustfmt::skip]
        let table = [
            ("565500000000-565502000000 r--p 00000000 fe:00 42                         /usr/bin/pml", Some(0x5655_0000_0000)),
            ("565502000000-565503000000 r-xp 02000000 fe:00 42                         /usr/bin/a pml", Some(0x5655_0200_0000)),
            ("565503000000-565503100000 rw-p 03000000 fe:00 42                         /usr/bin/pml", None),
            ("565503000000-565503100000 r--s 03000000 fe:00 42                         /usr/lib/cache", None),
            ("7ffc397de000-7ffc397ff000 rw-p 00000000 00:00 0                          [stack]", None),
            ("7ff794551000-7ff794552000 r-xp 00000000 00:00 0                          [vdso]", None),
            ("7ff794545000-7ff794549000 r--p 00000000 00:00 0 ", None),
            ("", None),
        ];
        for (line, expected) in table {
            assert_eq!(read_only_file_mapping(line), expected, "{line}");
        }
    }
}
