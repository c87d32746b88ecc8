//! A child's pipes: one message per line.
//!
//! **Invariant:** a message is marked as left just before the first byte of it is written, and the mark is taken back only
//! if the pipe took no byte of it.

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
        failure::{Failure, Retry, stopped},
        inbox::Inbox,
        lines::{Line, Lines},
        process::{LastWords, Pipes, Process, Start},
        reading::Reading,
    },
    outgoing::{Departure, Outgoing},
    plumbing::{OUTBOX, Plumbing},
};

/// How long a server whose output has ended may take to end itself.
const END: Duration = Duration::from_secs(1);
/// How long the output of a process that has ended is read.
const LAST_BYTES: Duration = Duration::from_millis(200);
/// Least room for one read; large results are read in large pieces.
const READ_BYTES: usize = 64 * 1024;

/// As much as is written in one go. Less than an empty pipe takes.
const BATCH_BYTES: usize = 32 * 1024;

/// The writing end.
#[derive(Debug)]
pub(super) struct Stdio {
    outbox: mpsc::Sender<Queued>,
}

/// A line that waits to be written.
#[derive(Debug)]
struct Queued {
    line: OneLine,
    departure: Departure,
}

impl Stdio {
    pub(super) async fn send(&self, message: Outgoing) {
        // An error means that the writer has ended, and then the inbox is closed or about to be.
        let _ = self.outbox.send(Queued { line: message.body, departure: message.departure }).await;
    }

    pub(super) fn tell(&self, message: Outgoing) {
        let _ = self.outbox.try_send(Queued { line: message.body, departure: message.departure });
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
    let ((outbox, to_write), (replies, replied)) = (mpsc::channel(OUTBOX), mpsc::channel(OUTBOX));
    let words = process.last_words();
    let pid = process.pid();
    let inbox = Inbox::new(Arc::clone(&plumbing.news), replies, Arc::clone(&words));
    tasks.spawn(write(stdin, launch, (to_write, replied), Arc::clone(&inbox), stop.clone()));
    let reader = read(process, stdout, Arc::clone(&inbox), plumbing.clone(), stop.clone());
    tasks.spawn(plumbing.lives.track_future(reader));
    Ok((Stdio { outbox }, inbox, words, pid))
}

/// Writes what starts the server, then messages and answers to its own requests as they come, several in one go. Its end
/// closes the server's input.
async fn write(
    mut stdin: ChildStdin,
    launch: Vec<u8>,
    (mut to_write, mut replied): (mpsc::Receiver<Queued>, mpsc::Receiver<OneLine>),
    inbox: Arc<Inbox>,
    stop: CancellationToken,
) {
    let write = async {
        if stdin.write_all(&launch).await.is_err() {
            return false;
        }
        loop {
            let mut batch = Batch::default();
            tokio::select! {
                Some(queued) = to_write.recv() => batch.push(queued),
                Some(line) = replied.recv() => batch.push_line(&line),
                else => return true,
            }
            while !batch.is_full()
                && let Ok(more) = to_write.try_recv()
            {
                batch.push(more);
            }
            while !batch.is_full()
                && let Ok(more) = replied.try_recv()
            {
                batch.push_line(&more);
            }
            if !batch.write_to(&mut stdin).await {
                return false;
            }
        }
    };
    let is_well = tokio::select! {
        () = stop.cancelled() => true,
        is_well = write => is_well,
    };
    if !is_well {
        // If it has ended, the reader knows more.
        sleep(END).await;
        let message = "the server does not read its input any more";
        inbox.requests.close(Failure::new(ErrorCode::ProviderCrashed, message, Retry::Later));
        stop.cancel();
    }
}

/// Lines that are written together.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Where each message begins in `bytes`.
    messages: Vec<(usize, Departure)>,
}

impl Batch {
    /// Is there so much to write that a pipe may not take it at once? What waits behind it can still be given up.
    fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES
    }

    /// Adds a message, unless it was given up.
    fn push(&mut self, Queued { line, departure }: Queued) {
        if departure.leave() {
            self.messages.push((self.bytes.len(), departure));
            self.push_line(&line);
        }
    }

    fn push_line(&mut self, line: &OneLine) {
        self.bytes.extend_from_slice(line.as_str().as_bytes());
        self.bytes.push(b'\n');
    }

    /// Writes all lines. False if the pipe takes no more.
    async fn write_to(self, pipe: &mut (impl AsyncWriteExt + Unpin)) -> bool {
        let mut written = 0;
        while written < self.bytes.len() {
            match pipe.write(&self.bytes[written..]).await {
                Ok(count) if count > 0 => written += count,
                _ => {
                    self.messages.iter().filter(|(start, _)| *start >= written).for_each(|(_, it)| it.take_back());
                    return false;
                }
            }
        }
        true
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
        // The writer ends at once: a call that came now could not be answered. It leaves over the next connection.
        stop.cancel();
        if !lines.rest().is_empty() {
            inbox.take(lines.rest().to_vec().into(), reading.take(), None).await;
        }
        let how = process.ended(END).await;
        let how = how.unwrap_or_else(|| "it closed its output and went on running".to_owned());
        process.kill();
        let message = process.last_words().behind(format!("the server's process is gone: {how}"));
        inbox.requests.close(Failure::new(ErrorCode::ProviderCrashed, message, Retry::Later));
    } else {
        inbox.requests.close(stopped());
    }
    drop(stdout);
    process.stop().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe that takes so many bytes and then breaks.
    struct Breaking(usize);

    impl tokio::io::AsyncWrite for Breaking {
        fn poll_write(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            bytes: &[u8],
        ) -> std::task::Poll<std::io::Result<usize>> {
            let count = bytes.len().min(self.0);
            self.0 -= count;
            std::task::Poll::Ready(if count == 0 { Err(std::io::ErrorKind::BrokenPipe.into()) } else { Ok(count) })
        }

        fn poll_flush(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn poll_shutdown(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn of_a_batch_that_breaks_off_only_the_untouched_messages_are_unsent() {
        // Each line has four bytes with its end.
        for (taken, unsent) in [(0, 3), (1, 2), (4, 2), (7, 1), (11, 0), (12, 0)] {
            let departures = [Departure::default(), Departure::default(), Departure::default()];
            let mut batch = Batch::default();
            for departure in &departures {
                batch.push(Queued { line: OneLine::new("abc".to_owned()), departure: departure.clone() });
            }
            assert_eq!(batch.write_to(&mut Breaking(taken)).await, taken == 12);
            assert_eq!(departures.iter().filter(|departure| departure.withdraw()).count(), unsent, "{taken}");
        }
    }
}
