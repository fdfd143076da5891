//! A connection that keeps to the rules of HTTP/2, but for what it is told to send: it answers
//! SETTINGS and PINGs, and sends bodies only as far as the windows go.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::frame::{self, Frame, Inbox};
use super::{
    ACK, DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, MAX_PAYLOAD_LEN, NO_FLAGS,
    PING, SETTINGS, WINDOW_UPDATE,
};
use crate::peer::Peer;

/// What the specification gives a stream and a connection before anybody says otherwise.
const DEFAULT_WINDOW: i64 = 65_535;

pub(super) struct Session {
    peer: Peer,
    /// What is to be written.
    out: Vec<u8>,
    inbox: Inbox,
    /// What may still be sent on the connection.
    window: i64,
    initial_window: i64,
    /// What was given to streams beyond the initial window.
    given: HashMap<u32, i64>,
}

impl Session {
    /// `out` is what the connection begins with.
    pub(super) fn new(peer: Peer, out: Vec<u8>) -> Self {
        Self {
            peer,
            out,
            inbox: Inbox::default(),
            window: DEFAULT_WINDOW,
            initial_window: DEFAULT_WINDOW,
            given: HashMap::new(),
        }
    }

    /// Sends a request with its body, and waits for leave where that is needed.
    pub(super) async fn call(&mut self, stream: u32, fields: &[u8], body: &[u8]) -> io::Result<()> {
        frame::write(&mut self.out, HEADERS, END_HEADERS, stream, fields);
        let (mut rest, mut sent) = (body, 0);
        loop {
            let given = self.given.get(&stream).copied().unwrap_or_default();
            let window = self.window.min(self.initial_window + given - sent);
            let len = usize::try_from(window).unwrap_or(0).min(rest.len()).min(MAX_PAYLOAD_LEN);
            if len == 0 {
                self.turn().await?;
                continue;
            }
            let (part, behind) = rest.split_at(len);
            rest = behind;
            let flags = if rest.is_empty() { END_STREAM } else { NO_FLAGS };
            frame::write(&mut self.out, DATA, flags, stream, part);
            let len = i64::try_from(len).unwrap_or(i64::MAX);
            (self.window, sent) = (self.window - len, sent + len);
            if rest.is_empty() {
                break;
            }
        }
        self.given.remove(&stream);
        while !self.out.is_empty() {
            self.turn().await?;
        }
        Ok(())
    }

    /// Does nothing but show that it is there, until the peer ends it.
    pub(super) async fn stay_alive(&mut self, interval: Duration) -> io::Result<()> {
        loop {
            let next = Instant::now() + interval;
            let quiet: io::Result<()> = match timeout_at(next, async {
                loop {
                    self.turn().await?;
                }
            })
            .await
            {
                Ok(ended) => ended,
                Err(_) => Ok(()),
            };
            quiet?;
            frame::write(&mut self.out, PING, NO_FLAGS, 0, b"stillher");
        }
    }

    async fn turn(&mut self) -> io::Result<()> {
        let read = self.peer.turn(&mut self.out).await?;
        self.inbox.push(read);
        while let Some(frame) = self.inbox.next() {
            self.handle(&frame);
        }
        Ok(())
    }

    fn handle(&mut self, frame: &Frame) {
        match (frame.kind, frame.flags & ACK) {
            (SETTINGS, 0) => {
                for setting in frame.payload.chunks_exact(6) {
                    if let [n0, n1, v0, v1, v2, v3] = *setting
                        && u16::from_be_bytes([n0, n1]) == INITIAL_WINDOW_SIZE
                    {
                        self.initial_window = u32::from_be_bytes([v0, v1, v2, v3]).into();
                    }
                }
                frame::write(&mut self.out, SETTINGS, ACK, 0, &[]);
            }
            (PING, 0) => frame::write(&mut self.out, PING, ACK, 0, &frame.payload),
            (WINDOW_UPDATE, _) if frame.stream == 0 => self.window += i64::from(frame.number()),
            (WINDOW_UPDATE, _) => {
                *self.given.entry(frame.stream).or_default() += i64::from(frame.number());
            }
            _ => {}
        }
    }
}
