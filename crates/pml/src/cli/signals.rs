//! SIGINT and SIGTERM: the first cancels what a command does, the second ends pml. SIGXFSZ ends nothing.

use std::{
    convert::Infallible,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::process::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};
use tokio_util::sync::CancellationToken;

/// A write beyond the largest size of a file fails like one to a full disk, and does not end pml. Needs a runtime.
pub(super) fn survive_file_limit() {
    if let Err(err) = signal(SignalKind::from_raw(Signal::XFSZ.as_raw())) {
        tracing::debug!(error = %err, "a file over the limit of sizes ends pml");
    }
}

/// Listens for signals, for as long as the process lives, on a thread of its own: the main one may
/// be stuck writing to a pipe that nobody reads.
///
/// What is returned says when it listens: before that, a signal has its usual effect.
pub(super) fn cancel_on_signal(interrupt: CancellationToken) -> oneshot::Receiver<()> {
    let (listens, listening) = oneshot::channel();
    let listens = Arc::new(Mutex::new(Some(listens)));
    let told = Arc::clone(&listens);
    // Without a listener the signals keep their usual effect, and the workers die with us.
    let unhandled = |err: io::Error| tracing::warn!(error = %err, "signals are not handled");
    let token = interrupt.clone();
    let listener = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let Err(err) = runtime.and_then(|runtime| runtime.block_on(listen(token, &told)));
        unhandled(err);
    });
    // At the limit of processes, which threads count as, the main one has to do.
    if listener.is_err() {
        tokio::spawn(async move {
            let Err(err) = listen(interrupt, &listens).await;
            unhandled(err);
        });
    }
    listening
}

type Told = Arc<Mutex<Option<oneshot::Sender<()>>>>;

async fn listen(interrupt: CancellationToken, told: &Told) -> io::Result<Infallible> {
    let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    if let Some(told) = told.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = told.send(());
    }
    loop {
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
        }
        if interrupt.is_cancelled() {
            #[expect(clippy::disallowed_methods, reason = "asked twice; the workers die with us")]
            std::process::exit(130);
        }
        interrupt.cancel();
    }
}
