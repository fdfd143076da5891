//! What both sides of a connection have: output, events, handshake and keepalive.
//!
//! Invariant: what a peer can make us write without reading itself is bounded.

use super::owed::OwedFrames;
use super::streams::Streams;
use crate::assembly::AssemblyBudget;
use crate::compress::CompressionMeter;
use crate::header::{FrameKind, Header, MAX_TEXT_LEN};
use crate::outbox::Outbox;
use crate::reader::Reader;
use crate::{Config, Event, GoAwayReason, LinkError, PeerHello, features, hello};
use std::collections::VecDeque;
use std::time::Instant;

/// What both sides have.
#[derive(Debug)]
pub(super) struct Core<T> {
    pub(super) config: Config,
    pub(super) outbox: Outbox,
    pub(super) owed: OwedFrames,
    pub(super) events: VecDeque<Event<T>>,
    pub(super) budget: AssemblyBudget,
    pub(super) streams: Streams,
    /// Both sides stated the feature.
    pub(super) has_streams: bool,
    /// Both sides stated that feature, too.
    pub(super) has_lz4: bool,
    /// And that one.
    pub(super) has_credits: bool,
    pub(super) meter: CompressionMeter,
    /// Compressed frames were left in the input: their turn has not come.
    pub(super) has_backlog: bool,
    /// Set by the peer's HELLO.
    pub(super) peer: Option<PeerHello>,
    pub(super) failed: Option<LinkError>,
    pub(super) last_heard: Instant,
    /// When the handshake, the keepalive or an unanswered PING is to be looked at next. It may be
    /// early, so that traffic need not move it.
    pub(super) alarm: Instant,
    pub(super) ping_sent: bool,
    /// When the last PING was sent.
    pub(super) pinged_at: Instant,
    pub(super) n_pings: u64,
}

impl<T> Core<T> {
    pub(super) fn new(config: Config, now: Instant, is_server: bool) -> Self {
        let config = config.bounded();
        let mut outbox = Outbox::new();
        outbox.frame(|out| hello::encode(&config, is_server, out));
        Self {
            outbox,
            owed: OwedFrames::default(),
            events: VecDeque::new(),
            budget: AssemblyBudget::new(config.max_reassembly_bytes),
            streams: Streams::new(),
            has_streams: false,
            has_lz4: false,
            has_credits: false,
            meter: CompressionMeter { clock: config.cpu_clock, ..CompressionMeter::default() },
            has_backlog: false,
            peer: None,
            failed: None,
            last_heard: now,
            alarm: now + config.handshake_timeout,
            ping_sent: false,
            pinged_at: now,
            n_pings: 0,
            config,
        }
    }

    #[inline]
    pub(super) fn is_over_buffered(&self) -> bool {
        self.outbox.unpacked_bytes() >= self.config.max_buffered_bytes
    }

    /// The peer lives.
    #[inline]
    pub(super) fn heard(&mut self, now: Instant) {
        self.last_heard = now;
        if self.ping_sent {
            self.ping_sent = false;
            self.alarm = now + self.config.keepalive;
        }
    }

    pub(super) fn handle_hello(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
    ) -> Result<(), LinkError> {
        if self.peer.is_some() {
            return Err(LinkError::Unexpected { kind: header.kind });
        }
        let peer = hello::decode(body)?;
        self.events.push_back(Event::Ready(peer.clone()));
        self.peer = Some(peer);
        self.has_streams = self.negotiate(features::STREAMS);
        self.has_lz4 = self.negotiate(features::LZ4);
        self.has_credits = self.negotiate(features::CREDITS);
        if self.has_lz4 {
            self.outbox.start_packing();
        }
        self.alarm = now + self.config.keepalive;
        Ok(())
    }

    /// Whether both sides stated the feature.
    fn negotiate(&self, feature: u64) -> bool {
        let peer = self.peer.as_ref().map_or(0, |peer| peer.features);
        self.config.features & peer & feature != 0
    }

    pub(super) fn ping(&mut self, now: Instant) {
        self.n_pings += 1;
        self.ping_sent = true;
        self.pinged_at = now;
        self.alarm = now + self.config.ping_timeout;
        let header = Header { kind: FrameKind::Ping as u8, ..Header::default() };
        self.outbox.control(header, &self.n_pings.to_be_bytes());
    }

    pub(super) fn go_away(&mut self, reason: GoAwayReason, text: &str) {
        let header =
            Header { kind: FrameKind::GoAway as u8, status: reason.0, ..Header::default() };
        self.outbox.control(header, cut_text(text).as_bytes());
    }
}

/// A PING or PONG has exactly eight bytes.
pub(super) fn check_opaque(header: &Header, body: &[u8]) -> Result<(), LinkError> {
    let mut reader = Reader::new(header.kind, body);
    reader.bytes(8)?;
    reader.finish()
}

/// A text within the limit of GOAWAY and DEFINE.
pub(super) fn cut_text(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT_LEN)).unwrap_or_default()
}
