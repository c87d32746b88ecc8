//! Server-sent events, cut out of a stream of bytes.
//!
//! **Invariant:** the place where a stream can be taken up again is behind the last event that came whole.

use std::{borrow::Cow, time::Duration};

use reqwest::header::HeaderValue;

use super::super::lines::{Line, Lines};

/// Cuts a stream of bytes into events. One that is begun again keeps its place.
#[derive(Debug)]
pub(super) struct Events {
    lines: Lines,
    name: String,
    data: Vec<u8>,
    has_data: bool,
    max_bytes: usize,
    /// The id of the event at hand, and of the last one that came whole; `None` if it cannot be sent.
    id: Option<HeaderValue>,
    last_id: Option<HeaderValue>,
    retry: Option<Duration>,
    /// Whether the first line of the stream is still to come: a byte order mark in front of it is dropped.
    is_at_start: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    Message {
        name: String,
        data: Vec<u8>,
    },
    /// An event over the limit: how it begins.
    TooLong(Vec<u8>),
}

/// How much of an event over the limit is kept.
const BEGINNING: usize = 1024;
/// A stream may begin with a byte order mark, says the standard of server-sent events.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// Room for a field's name in front of its value.
const FIELD_BYTES: usize = 16;
/// The longest id that is given back.
const MAX_ID_BYTES: usize = 1024;

impl Events {
    pub(super) fn new(max_bytes: usize) -> Events {
        Events {
            lines: Lines::of_events(max_bytes + FIELD_BYTES),
            name: String::new(),
            data: Vec::new(),
            has_data: false,
            max_bytes,
            id: None,
            last_id: None,
            retry: None,
            is_at_start: true,
        }
    }

    /// The next bytes are a new stream, which goes on where the last one ended.
    pub(super) fn begin_again(&mut self) {
        let (last_id, retry) = (self.last_id.take(), self.retry);
        *self = Events { id: last_id.clone(), last_id, retry, ..Events::new(self.max_bytes) };
    }

    /// What the server calls the last event that came whole.
    pub(super) fn last_id(&self) -> Option<&HeaderValue> {
        self.last_id.as_ref()
    }

    /// How long to wait, says the server, before the stream is taken up again.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.lines.buffer().extend_from_slice(bytes);
    }

    /// How much there is of the event at hand.
    pub(super) fn pending_bytes(&self) -> usize {
        self.data.len() + self.lines.pending_bytes()
    }

    /// Throws the event at hand away. How its data begins.
    pub(super) fn skip_event(&mut self) -> Vec<u8> {
        let mut data = std::mem::take(&mut self.data);
        let line = self.lines.skip_line();
        self.has_data = false;
        data.truncate(BEGINNING);
        match data.is_empty() {
            true => line.strip_prefix(b"data:").unwrap_or(&line).to_vec(),
            false => data,
        }
    }

    pub(super) fn next_event(&mut self) -> Option<Event> {
        loop {
            let mut line = match self.lines.next_line()? {
                Line::Whole(line) => line,
                Line::TooLong(beginning) => {
                    let text = beginning.strip_prefix(b"data:").unwrap_or(&beginning);
                    return Some(Event::TooLong(text.to_vec()));
                }
            };
            if std::mem::take(&mut self.is_at_start) && line.starts_with(BOM) {
                match &mut line {
                    Cow::Borrowed(bytes) => *bytes = &bytes[BOM.len()..],
                    Cow::Owned(bytes) => drop(bytes.drain(..BOM.len())),
                }
            }
            if line.is_empty() {
                self.last_id.clone_from(&self.id);
                let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
                if std::mem::take(&mut self.has_data) {
                    return Some(Event::Message { name, data });
                }
                continue;
            }
            // The one line of a large message is not copied: what is not data in it becomes a space, as JSON allows.
            if let Cow::Owned(whole) = &mut line
                && whole.starts_with(b"data:")
                && !self.has_data
            {
                whole[..5].fill(b' ');
                self.has_data = true;
                self.data = std::mem::take(whole);
                continue;
            }
            let (field, value) = match memchr::memchr(b':', &line) {
                Some(colon) => (&line[..colon], &line[colon + 1..]),
                None => (&line[..], &[][..]),
            };
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match field {
                b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
                b"data" => {
                    if std::mem::replace(&mut self.has_data, true) {
                        self.data.push(b'\n');
                    }
                    self.data.extend_from_slice(value);
                    if self.data.len() > self.max_bytes {
                        self.has_data = false;
                        let beginning = self.data[..BEGINNING.min(self.data.len())].to_vec();
                        self.data = Vec::new();
                        return Some(Event::TooLong(beginning));
                    }
                }
                // An empty one takes back what was said before.
                b"id" => {
                    let can_be_sent = (1..=MAX_ID_BYTES).contains(&value.len());
                    self.id = HeaderValue::from_bytes(value).ok().filter(|_| can_be_sent);
                }
                b"retry" => {
                    let millis = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                    self.retry = millis.map(Duration::from_millis).or(self.retry);
                }
                _ => {} // a comment
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_out_of_the_stream() {
        let mut events = Events::new(100);
        events.push(b": hello\r\nevent: endpoint\r\ndata: /messages?id=1\r\n\r\nid: 5\ndata: {\"a\":\ndata:1}\n");
        let message = |name: &str, data: &str| Some(Event::Message { name: name.to_owned(), data: data.into() });
        assert_eq!(events.next_event(), message("endpoint", "/messages?id=1"));
        assert_eq!(events.next_event(), None);
        events.push(b"\n\nevent: ping\n\ndata\n\n");
        assert_eq!(events.next_event(), message("", "{\"a\":\n1}"));
        assert_eq!(events.next_event(), message("", ""));
        assert_eq!(events.next_event(), None);
    }

    #[test]
    fn a_byte_order_mark_before_the_stream_is_no_part_of_its_first_line() {
        let mut events = Events::new(100);
        for _ in 0..2 {
            events.push(b"\xef\xbb\xbfdata: 1\n\ndata: \xef\xbb\xbf2\n\n\xef\xbb\xbfdata: 3\n\n");
            let message = |data: &str| Some(Event::Message { name: String::new(), data: data.into() });
            assert_eq!(events.next_event(), message("1"));
            assert_eq!(events.next_event(), message("\u{feff}2"));
            assert_eq!(events.next_event(), None, "a mark within the stream makes another field");
            events.begin_again();
        }
    }

    #[test]
    fn an_event_over_the_limit_is_dropped_and_told() {
        let mut events = Events::new(10);
        events.push(b"data: {\"id\":1234567890123456789\n\ndata: 12345\ndata: 67890\n\ndata: ok\n\n");
        assert_eq!(events.next_event(), Some(Event::TooLong(b" {\"id\":12345678901234".to_vec())));
        assert_eq!(events.next_event(), Some(Event::TooLong(b"12345\n67890".to_vec())));
        assert_eq!(events.next_event(), Some(Event::Message { name: String::new(), data: b"ok".to_vec() }));
    }

    #[test]
    fn lines_end_in_three_ways_wherever_the_stream_is_cut() {
        for end in ["\n", "\r", "\r\n"] {
            let text = ["event: a", "data: 1", "data: 2", "", ": comment", "data: 3", "", ""].join(end);
            for size in 1..=text.len() {
                let mut events = Events::new(100);
                let mut found = Vec::new();
                for part in text.as_bytes().chunks(size) {
                    events.push(part);
                    found.extend(std::iter::from_fn(|| events.next_event()));
                }
                let message = |name: &str, data: &str| Event::Message { name: name.to_owned(), data: data.into() };
                assert_eq!(found, [message("a", "1\n2"), message("", "3")], "{end:?} {size}");
            }
        }
    }

    #[test]
    fn the_place_is_behind_the_last_whole_event() {
        #[rustfmt::skip]
        let table = [
            // stream                                        id         retry in ms
            ("data: x\n\n",                                  None,      None),
            ("id: a\ndata: x\n\n",                           Some("a"), None),
            ("id: a\nretry: 500\ndata: \n\n",                Some("a"), Some(500)),
            ("id: a\n\nid: b\ndata: x\n",                    Some("a"), None),
            ("id: a\n\ndata: x\n\n",                         Some("a"), None),
            ("id: a\n\nid\ndata: x\n\n",                     None,      None),
            ("id: a\u{0}b\n\nretry: soon\n\n",               None,      None),
            ("retry: 5\nretry: -1\nretry: 7x\n",             None,      Some(5)),
        ];
        for (stream, id, retry) in table {
            let mut events = Events::new(100);
            events.push(stream.as_bytes());
            while events.next_event().is_some() {}
            // Also for whoever goes on and hears nothing new.
            for _ in 0..2 {
                assert_eq!(events.last_id().and_then(|id| id.to_str().ok()), id, "{stream:?}");
                assert_eq!(events.retry(), retry.map(Duration::from_millis), "{stream:?}");
                events.begin_again();
                events.push(b"data: y\n\n");
                assert_eq!(events.next_event(), Some(Event::Message { name: String::new(), data: b"y".to_vec() }));
            }
        }
    }
}
