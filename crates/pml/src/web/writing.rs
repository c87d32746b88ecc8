//! A connection whose client must read.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// How long a client may take nothing of what is sent to it.
pub(crate) const UNREAD: Duration = Duration::from_secs(60);

/// A stream that fails when nothing of what is written is taken for [`UNREAD`].
#[derive(Debug)]
pub(crate) struct Writing<S> {
    stream: S,
    /// Runs while a write waits.
    patience: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl<S> Writing<S> {
    pub(crate) fn new(stream: S) -> Writing<S> {
        Writing { stream, patience: Box::pin(sleep(UNREAD)), is_waiting: false }
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.patience.as_mut().reset(Instant::now() + UNREAD);
        }
        ready!(self.patience.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Writing<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Writing<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_is_waited_for_and_who_does_not_read_is_not() {
        let (server, mut client) = tokio::io::duplex(16);
        let mut server = Writing::new(server);
        let sending = tokio::spawn(async move { server.write_all(&[b'x'; 64]).await.map_err(|err| err.kind()) });
        let mut byte = [0; 8];
        for _ in 0..4 {
            tokio::time::sleep(UNREAD - Duration::from_secs(1)).await;
            client.read_exact(&mut byte).await.unwrap();
        }
        assert!(!sending.is_finished(), "a little at a time is enough");
        tokio::time::sleep(UNREAD + Duration::from_secs(1)).await;
        assert_eq!(sending.await.unwrap(), Err(io::ErrorKind::TimedOut));
    }
}
