//! A child's pipes: one message per line.

use std::{sync::Arc, time::Duration};

use pml_wire::{ErrorCode, Line as OneLine};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, ChildStdout},
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    super::{
        codec::{Line, Lines},
        failure::{Failure, Retry},
        inbox::{Inbox, stopped},
        process::{LastWords, Pipes, Process, Start},
        reading::Reading,
    },
    OUTBOX, Plumbing,
};

/// How long a server whose output has ended may take to end itself.
const END: Duration = Duration::from_secs(1);
/// How long the output of a process that has ended is read.
const LAST_BYTES: Duration = Duration::from_millis(200);
/// Least room for one read; large results are read in large pieces.
const READ_BYTES: usize = 64 * 1024;

/// The writing end.
#[derive(Debug)]
pub(super) struct Stdio {
    outbox: mpsc::Sender<OneLine>,
}

impl Stdio {
    pub(super) async fn send(&self, body: OneLine) {
        // An error means that the writer has ended, and then the inbox is closed or about to be.
        let _ = self.outbox.send(body).await;
    }

    pub(super) fn tell(&self, body: OneLine) {
        let _ = self.outbox.try_send(body);
    }
}

type Opened = (Stdio, Arc<Inbox>, Arc<LastWords>, Option<u32>);

pub(super) fn open(
    start: &Start<'_>,
    plumbing: &Plumbing,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<Opened, Failure> {
    let (process, Pipes { launch, stdin, stdout }) = Process::start(start, plumbing.stop_grace)?;
    let (outbox, to_write) = mpsc::channel(OUTBOX);
    let words = process.last_words();
    let pid = process.pid();
    let inbox = Inbox::new(Arc::clone(&plumbing.news), outbox.clone(), Arc::clone(&words));
    tasks.spawn(write(stdin, launch, to_write, Arc::clone(&inbox), stop.clone()));
    let reader = read(process, stdout, Arc::clone(&inbox), plumbing.clone(), stop.clone());
    tasks.spawn(plumbing.lives.track_future(reader));
    Ok((Stdio { outbox }, inbox, words, pid))
}

/// Writes what starts the server, then messages as they come, several in one go. Its end closes the server's input.
async fn write(
    mut stdin: ChildStdin,
    launch: Vec<u8>,
    mut to_write: mpsc::Receiver<OneLine>,
    inbox: Arc<Inbox>,
    stop: CancellationToken,
) {
    let write = async {
        if stdin.write_all(&launch).await.is_err() {
            return false;
        }
        while let Some(line) = to_write.recv().await {
            let mut bytes = line.into_string().into_bytes();
            bytes.push(b'\n');
            while let Ok(more) = to_write.try_recv() {
                bytes.extend_from_slice(more.as_str().as_bytes());
                bytes.push(b'\n');
            }
            if stdin.write_all(&bytes).await.is_err() {
                return false;
            }
        }
        true
    };
    let is_well = tokio::select! {
        () = stop.cancelled() => true,
        is_well = write => is_well,
    };
    if !is_well {
        // If it has ended, the reader knows more.
        sleep(END).await;
        let message = "the server does not read its input any more";
        inbox.close(Failure::new(ErrorCode::ProviderCrashed, message, Retry::Later));
        stop.cancel();
    }
}

/// Reads until the output ends or the connection is closed, then sees the process to its end.
async fn read(
    mut process: Process,
    mut stdout: ChildStdout,
    inbox: Arc<Inbox>,
    plumbing: Plumbing,
    stop: CancellationToken,
) {
    let max_bytes = plumbing.max_message_bytes;
    let mut lines = Lines::new(max_bytes);
    let mut reading = Reading::new(&plumbing.room);
    let mut exited_at = None;
    let has_ended = loop {
        let buffer = lines.buffer();
        // Twice as much each time while a long line comes in, so that its bytes are moved seldom.
        buffer.reserve(READ_BYTES.max(buffer.len()));
        tokio::select! {
            biased;
            () = stop.cancelled() => break false,
            read = stdout.read_buf(buffer) => match read {
                Ok(0) | Err(_) => break true,
                Ok(_) => {
                    let taken = async {
                        while let Some(line) = lines.next_line() {
                            let charge = reading.take();
                            match line {
                                Line::Whole(line) => inbox.take(line, charge, None).await,
                                Line::TooLong(beginning) => inbox.too_long(&beginning, max_bytes, None),
                            }
                        }
                        if let Err(full) = reading.grown(lines.pending_bytes()).await {
                            reading.take();
                            inbox.give_up(&lines.skip_line(), full.into(), None);
                        }
                    };
                    // What is large is worked on, or waits for room, and meanwhile nothing more is read.
                    tokio::select! {
                        biased;
                        () = taken => {}
                        () = stop.cancelled() => break false,
                    }
                }
            },
            // Somebody else may hold the pipe open, but the server is gone. What it wrote last is read.
            () = process.exited(), if exited_at.is_none() => exited_at = Some(Instant::now()),
            () = sleep_until(exited_at.unwrap_or_else(Instant::now) + LAST_BYTES), if exited_at.is_some() => break true,
        }
    };
    if has_ended {
        if !lines.rest().is_empty() {
            inbox.take(lines.rest().to_vec().into(), reading.take(), None).await;
        }
        let how = process.ended(END).await;
        let how = how.unwrap_or_else(|| "it closed its output and went on running".to_owned());
        process.kill();
        let message = process.last_words().behind(format!("the server's process is gone: {how}"));
        inbox.close(Failure::new(ErrorCode::ProviderCrashed, message, Retry::Later));
        stop.cancel(); // the writer has nobody to write to
    } else {
        inbox.close(stopped());
    }
    drop(stdout);
    process.stop().await;
}
