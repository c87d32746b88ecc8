//! The three servers, and what is done to them.

use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{
    pml::beside,
    process::{command_line, descendants, signal},
};

/// Between two acts.
const PAUSE: Duration = Duration::from_secs(3);
/// How long a stopped server stays so.
const STOPPED: Duration = Duration::from_millis(1500);

/// A server that listens on a port, and is started again there when it has died.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) port: u16,
    state: Arc<Mutex<Option<Child>>>,
    is_over: Arc<AtomicBool>,
    keeper: Option<JoinHandle<()>>,
}

impl Remote {
    /// Starts a server over `http` or `sse`.
    pub(super) fn start(transport: &'static str, calls: &Path) -> Remote {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a port is free").port();
        let (state, is_over) = (Arc::<Mutex<Option<Child>>>::default(), Arc::<AtomicBool>::default());
        let (calls, shared, over) = (calls.to_owned(), Arc::clone(&state), Arc::clone(&is_over));
        let keeper = thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let is_gone = match state.as_mut() {
                    Some(child) => child.try_wait().is_ok_and(|status| status.is_some()),
                    None => true,
                };
                if is_gone {
                    let mut command = Command::new(beside("fixture-server"));
                    command.args(["--transport", transport, "--port", &port.to_string(), "--calls"]).arg(&calls);
                    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
                    *state = command.spawn().ok();
                }
                drop(state);
                thread::sleep(Duration::from_millis(20));
            }
        });
        Remote { port, state, is_over, keeper: Some(keeper) }
    }

    fn pid(&self) -> Option<u32> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Child::id)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = self.keeper.take().map(JoinHandle::join);
        if let Some(child) = self.state.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The servers over stdio that a pml has started, without those who keep them.
pub(super) fn stdio_servers(pml: u32) -> Vec<u32> {
    let is_server = |pid: &u32| command_line(*pid).first().is_some_and(|program| program.ends_with("fixture-server"));
    descendants(pml).into_iter().filter(is_server).collect()
}

/// What was done to servers.
#[derive(Debug, Default)]
pub(super) struct Deeds {
    pub(super) kills: AtomicU64,
    pub(super) stops: AtomicU64,
}

/// Kills and stops servers, one after the other, until `until`.
pub(super) fn torment(remotes: &[&Remote], pmls: &[u32], mut seed: u64, until: Instant, deeds: &Deeds) {
    let mut random = move |below: usize| {
        // xorshift: the same acts for the same seed.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap_or(0)
    };
    while Instant::now() + PAUSE + STOPPED < until {
        thread::sleep(PAUSE);
        let mut all: Vec<u32> = remotes.iter().filter_map(|remote| remote.pid()).collect();
        all.extend(pmls.iter().flat_map(|pml| stdio_servers(*pml)));
        let Some(pid) = all.get(random(all.len().max(1))).copied() else { continue };
        if random(3) > 0 {
            signal(pid, Signal::KILL);
            deeds.kills.fetch_add(1, Ordering::Relaxed);
        } else {
            signal(pid, Signal::STOP);
            thread::sleep(STOPPED);
            signal(pid, Signal::CONT);
            deeds.stops.fetch_add(1, Ordering::Relaxed);
        }
    }
}
