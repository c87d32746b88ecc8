//! Bodies for the refusals that hyper writes itself, before a request reaches any route.
//!
//! A request whose head cannot be read, or is too long, is answered by hyper with a status and no body. Clients expect the same
//! form of errors as from every route. hyper has no place to say so; but what it writes then is one head, all of it in one piece,
//! that says `connection: close` and `content-length: 0` and nothing of a type, which no response of a route with such a status does.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The type and the text of the body for a status.
pub(crate) type Wording = fn(StatusCode) -> (&'static str, String);

/// A stream that gives refusals without a body one.
#[derive(Debug)]
pub(crate) struct Refusals<S> {
    stream: S,
    wording: Wording,
    /// What is written in place of a refusal, and how much of it is written.
    instead: Option<(Vec<u8>, usize)>,
}

impl<S> Refusals<S> {
    pub(crate) fn new(stream: S, wording: Wording) -> Refusals<S> {
        Refusals { stream, wording, instead: None }
    }
}

/// The refusal with a body, if these bytes are one without.
fn with_body(head: &[u8], wording: Wording) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(head).ok()?.strip_prefix("HTTP/1.1 ")?.strip_suffix("\r\n\r\n")?;
    let mut lines = text.split("\r\n");
    let status: StatusCode = lines.next()?.split(' ').next()?.parse().ok()?;
    let (mut is_empty, mut closes) = (false, false);
    let mut kept = String::new();
    for line in lines {
        match line {
            "content-length: 0" => is_empty = true,
            "connection: close" => closes = true,
            line if line.is_empty() || line.starts_with("content-type:") => return None,
            line => kept += &format!("{line}\r\n"),
        }
    }
    if !(status.is_client_error() && is_empty && closes) {
        return None;
    }
    let (kind, body) = wording(status);
    let reason = status.canonical_reason().unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {} {reason}\r\ncontent-type: {kind}\r\ncache-control: no-store\r\ncontent-length: {}\r\nconnection: close\r\n{kept}\r\n",
        status.as_u16(),
        body.len()
    );
    Some((head + &body).into_bytes())
}

impl<S: AsyncRead + Unpin> AsyncRead for Refusals<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Refusals<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Refusals { stream, wording, instead } = &mut *self;
        if instead.is_none() {
            *instead = with_body(bytes, *wording).map(|instead| (instead, 0));
        }
        let Some((text, written)) = instead else { return Pin::new(stream).poll_write(context, bytes) };
        while *written < text.len() {
            match ready!(Pin::new(&mut *stream).poll_write(context, &text[*written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                more => *written += more,
            }
        }
        *instead = None;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut filled = slices.iter().filter(|slice| !slice.is_empty());
        match (filled.next(), filled.next()) {
            // A refusal is one piece.
            (Some(only), None) => self.poll_write(context, only),
            _ => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const REFUSAL: &str = "HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n";

    fn wording(status: StatusCode) -> (&'static str, String) {
        ("text/plain", format!("no: {}", status.as_u16()))
    }

    #[tokio::test]
    async fn a_refusal_without_a_body_gets_one_however_slowly_it_is_read() {
        let (server, mut client) = tokio::io::duplex(7);
        let writing = tokio::spawn(async move { Refusals::new(server, wording).write_all(REFUSAL.as_bytes()).await });
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        writing.await.unwrap().unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, "no: 414");
        assert!(head.starts_with("HTTP/1.1 414 URI Too Long\r\ncontent-type: text/plain\r\n"), "{head}");
        assert!(head.contains("\r\ncontent-length: 7\r\n") && head.contains("\r\ndate: Sun"), "{head}");
    }

    #[test]
    fn every_other_write_is_left_alone() {
        let table = [
            REFUSAL.replace("content-length: 0", "content-length: 3"),
            REFUSAL.replace("connection: close\r\n", ""),
            REFUSAL.replace("414 URI Too Long", "200 OK"),
            REFUSAL.replace("date:", "content-type: text/plain\r\ndate:"),
            format!("{REFUSAL}{{}}"),
            "{\"code\": \"X\"}".to_owned(),
            String::new(),
        ];
        for text in table {
            assert_eq!(with_body(text.as_bytes(), wording), None, "{text}");
        }
    }
}
