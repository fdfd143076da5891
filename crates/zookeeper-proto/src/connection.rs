//! One connection to one server: bytes, requests and instants in; bytes and events out.
//!
//! Invariants:
//! - A frame's length is checked before any of it is waited for. An answer that is too long is
//!   left out as it comes, and takes nothing else with it.
//! - Each request gets one answer, or is given up with the connection. Answers come in the order
//!   of the requests; a server that breaks it is not trusted any more.
//! - A watcher is told at most once, and never before the answer to the request that has set it.
//! - Nothing is asked before the session is there and every identity is accepted.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, BytesMut};

use crate::answer::{self, Answer, Refusal};
use crate::event::{Broken, Event};
use crate::jute::{RecordReader, put_buffer};
use crate::request::{Request, op, put_auth, put_remove_watches};
use crate::settings::{Session, Settings, Watcher};

/// Numbers of requests that no client chooses. Source: `ClientCnxn` in apache/zookeeper.
const XID_EVENT: i32 = -1;
const XID_PING: i32 = -2;
const XID_AUTH: i32 = -4;

/// What an event says of the connection itself, and not of a node.
const EVENT_NONE: i32 = -1;

/// The length before each frame.
const LEN_LEN: usize = 4;

/// What each frame after the handshake begins with: a request's number, a change's and a code.
const HEADER_LEN: usize = 16;

/// Requests that wait for their answers: far more than one process watches services.
const MAX_PENDING: usize = 100_000;

/// A request that was sent.
#[derive(Debug)]
struct Pending<R, W> {
    xid: i32,
    op: i32,
    sent_at: Instant,
    /// `None` for what this module itself has asked for.
    to: Option<R>,
    /// The path and who is told, if the request sets a watch.
    watch: Option<(String, W)>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Connecting,
    Authenticating { n_left: usize },
    Ready,
    Closing,
    Broken(Broken),
}

/// The state of one connection. `R` is what a request is sent with and its answer comes with.
#[derive(Debug)]
pub struct Connection<R, W> {
    settings: Settings,
    session: Option<Session>,
    last_zxid: i64,
    stage: Stage,
    next_xid: i32,
    pending: VecDeque<Pending<R, W>>,
    watches: HashMap<String, Vec<W>>,
    events: VecDeque<Event<R, W>>,
    out: BytesMut,
    /// How many of the next bytes belong to an answer that is left out.
    skipped_len: usize,
    began_at: Instant,
    heard_at: Instant,
    /// When an answer has come last, or a part of a frame.
    progressed_at: Instant,
    sent_at: Instant,
}

impl<R, W: Watcher> Connection<R, W> {
    /// Begins the handshake.
    #[must_use]
    pub fn new(settings: Settings, now: Instant) -> Self {
        let mut connection = Self {
            session: None,
            last_zxid: settings.last_zxid,
            stage: Stage::Connecting,
            next_xid: 1,
            pending: VecDeque::new(),
            watches: HashMap::new(),
            events: VecDeque::new(),
            out: BytesMut::new(),
            skipped_len: 0,
            began_at: now,
            heard_at: now,
            progressed_at: now,
            sent_at: now,
            settings,
        };
        connection.put_connect();
        connection
    }

    /// The last change that is known, for the next connection.
    #[must_use]
    pub fn last_zxid(&self) -> i64 {
        self.last_zxid
    }

    /// Sends a request. Its answer is an [`Event::Answered`] with `to`, which is dropped if the
    /// connection is not [`Event::Ready`] or has too much to do.
    pub fn send(&mut self, request: Request<W>, to: R, now: Instant) {
        if self.stage != Stage::Ready || self.pending.len() == MAX_PENDING {
            return;
        }
        if matches!(request, Request::Close) {
            self.stage = Stage::Closing;
        }
        self.put(request.op(), now, Some(to), |out| request.encode(out));
        let (Request::Children { path, watcher }
        | Request::Exists { path, watcher }
        | Request::Data { path, watcher }) = request
        else {
            return;
        };
        if let Some(pending) = self.pending.back_mut() {
            pending.watch = watcher.map(|watcher| (path, watcher));
        }
    }

    /// Nobody wants to know of changes at `path` any more, or somebody less: a watch that nobody
    /// wants is taken back at the server.
    pub fn handle_unwanted(&mut self, path: &str, now: Instant) {
        let Some(watchers) = self.watches.get_mut(path) else { return };
        watchers.retain(Watcher::is_wanted);
        // One that is being set comes after this, and would be taken back with it.
        let is_being_set = |it: &Pending<R, W>| {
            it.watch.as_ref().is_some_and(|(other, watcher)| other == path && watcher.is_wanted())
        };
        let is_unwanted = watchers.is_empty() && !self.pending.iter().any(is_being_set);
        if !is_unwanted {
            return;
        }
        self.watches.remove(path);
        if self.stage == Stage::Ready && self.pending.len() < MAX_PENDING {
            self.put(op::REMOVE_WATCHES, now, None, |out| put_remove_watches(out, path));
        }
    }

    /// Takes whole frames off the front of `input`.
    ///
    /// # Errors
    /// The server broke the protocol, or does not accept us.
    pub fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), Broken> {
        if let Stage::Broken(broken) = self.stage {
            return Err(broken);
        }
        self.heard_at = now;
        let taken = self.take_frames(now, input);
        if let Err(broken) = taken {
            self.stage = Stage::Broken(broken);
        }
        taken
    }

    fn take_frames(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), Broken> {
        self.skip(now, input);
        while let Some(head) = input.first_chunk::<LEN_LEN>() {
            let len = u32::from_be_bytes(*head);
            let max_len = self.settings.max_frame_len;
            let Some(frame_len) = usize::try_from(len).ok().filter(|len| *len <= max_len) else {
                if self.leave_out(now, len, input)? {
                    continue;
                }
                break;
            };
            if input.len() < LEN_LEN + frame_len {
                self.progressed_at = now;
                break;
            }
            input.advance(LEN_LEN);
            let frame = input.split_to(frame_len);
            self.handle_frame(now, &frame)?;
        }
        Ok(())
    }

    /// Begins to leave out an answer that is too long: it is refused, and what was asked besides
    /// goes on. `false` until its header is there.
    fn leave_out(&mut self, now: Instant, len: u32, input: &mut BytesMut) -> Result<bool, Broken> {
        let max_len = self.settings.max_frame_len;
        let too_long = Broken::FrameTooLong { len, max_len };
        let frame_len = i32::try_from(len).ok().and_then(|len| usize::try_from(len).ok());
        let frame_len = frame_len.filter(|len| HEADER_LEN <= *len).ok_or(too_long)?;
        let xid = self.expected().filter(|_| self.stage == Stage::Ready).ok_or(too_long)?;
        let Some(header) = input.get(LEN_LEN..LEN_LEN + HEADER_LEN) else { return Ok(false) };
        let mut reader = RecordReader::new(header);
        let (found, zxid) = (reader.int()?, reader.long()?);
        if found != xid {
            return Err(too_long);
        }
        self.last_zxid = self.last_zxid.max(zxid);
        input.advance(LEN_LEN + HEADER_LEN);
        self.skipped_len = frame_len - HEADER_LEN;
        self.skip(now, input);
        if let Some(pending) = self.pending.pop_front() {
            self.answer(now, pending, Err(Refusal::TooLong { len, max_len }));
        }
        Ok(true)
    }

    fn skip(&mut self, now: Instant, input: &mut BytesMut) {
        let len = self.skipped_len.min(input.len());
        if 0 < len {
            input.advance(len);
            self.skipped_len -= len;
            self.progressed_at = now;
        }
    }

    /// Sends what is due, and finds out whether the server is silent.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(broken) = self.is_late(now) {
            self.stage = Stage::Broken(broken);
        } else if self.stage == Stage::Ready && self.ping_at() <= now {
            self.put_frame(now, |out| {
                out.put_i32(XID_PING);
                out.put_i32(op::PING);
            });
        }
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.stage {
            Stage::Broken(_) => None,
            Stage::Connecting | Stage::Authenticating { .. } => Some(self.session_due()),
            Stage::Ready => {
                let due = self.ping_at().min(self.heard_due());
                Some(self.answer_due().map_or(due, |answer_due| answer_due.min(due)))
            }
            Stage::Closing => self.answer_due(),
        }
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<Event<R, W>> {
        self.events.pop_front()
    }

    /// Bytes to be written, to be taken off the front.
    pub fn transmit(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// Whether the session was ended as was asked for.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.stage == Stage::Closing && self.pending.is_empty()
    }

    /// Why the connection has failed, if it has.
    #[must_use]
    pub fn broken(&self) -> Option<Broken> {
        match self.stage {
            Stage::Broken(broken) => Some(broken),
            _ => None,
        }
    }

    /// Gives up all requests and watches: the connection has ended.
    pub fn abandon(&mut self) {
        self.pending.clear();
        self.watches.clear();
        self.events.clear();
        self.stage = Stage::Broken(Broken::Silent { after: Duration::ZERO });
    }

    fn handle_frame(&mut self, now: Instant, frame: &[u8]) -> Result<(), Broken> {
        let mut reader = RecordReader::new(frame);
        if self.stage == Stage::Connecting {
            return self.handle_connected(now, &mut reader);
        }
        let (xid, zxid, code) = (reader.int()?, reader.long()?, reader.int()?);
        self.last_zxid = self.last_zxid.max(zxid);
        match xid {
            XID_EVENT => self.handle_event(&mut reader)?,
            XID_PING => {}
            XID_AUTH => self.handle_authenticated(code)?,
            xid => self.handle_answer(now, xid, code, &mut reader)?,
        }
        Ok(())
    }

    /// The server's part of the handshake. Source: `ConnectResponse` in zookeeper.jute.
    fn handle_connected(
        &mut self,
        now: Instant,
        reader: &mut RecordReader<'_>,
    ) -> Result<(), Broken> {
        let (_version, timeout_ms, id) = (reader.int()?, reader.int()?, reader.long()?);
        let given = reader.buffer()?;
        let mut password = [0; 16];
        for (to, from) in password.iter_mut().zip(given) {
            *to = *from;
        }
        if !reader.is_empty() {
            // Only asked of clients that would be content with a server that cannot write.
            let _is_read_only = reader.bool()?;
        }
        let Some(timeout_ms) = u64::try_from(timeout_ms).ok().filter(|ms| 0 < *ms && id != 0)
        else {
            self.events.push_back(Event::Expired);
            return Ok(());
        };
        let timeout = Duration::from_millis(timeout_ms);
        self.session = Some(Session { id, password, timeout });
        let identities = std::mem::take(&mut self.settings.identities);
        self.stage = Stage::Authenticating { n_left: identities.len() };
        for identity in &identities {
            self.put_frame(now, |out| {
                out.put_i32(XID_AUTH);
                out.put_i32(op::AUTH);
                put_auth(out, identity);
            });
        }
        self.begin_if_authenticated();
        Ok(())
    }

    fn handle_authenticated(&mut self, code: i32) -> Result<(), Broken> {
        let Stage::Authenticating { n_left } = self.stage else {
            return Err(Broken::OutOfOrder { found: XID_AUTH, expected: self.expected() });
        };
        if code != 0 {
            return Err(Broken::AuthFailed);
        }
        self.stage = Stage::Authenticating { n_left: n_left.saturating_sub(1) };
        self.begin_if_authenticated();
        Ok(())
    }

    fn begin_if_authenticated(&mut self) {
        if let (Stage::Authenticating { n_left: 0 }, Some(session)) = (self.stage, self.session) {
            self.stage = Stage::Ready;
            self.events.push_back(Event::Ready { session });
        }
    }

    fn handle_event(&mut self, reader: &mut RecordReader<'_>) -> Result<(), Broken> {
        let (kind, _state, path) = (reader.int()?, reader.int()?, reader.text()?);
        if kind == EVENT_NONE {
            return Ok(());
        }
        let fired = self.watches.remove(&path).unwrap_or_default();
        self.events.extend(fired.into_iter().map(Event::Fired));
        Ok(())
    }

    fn handle_answer(
        &mut self,
        now: Instant,
        xid: i32,
        code: i32,
        reader: &mut RecordReader<'_>,
    ) -> Result<(), Broken> {
        let expected = self.expected();
        let Some(pending) = self.pending.pop_front().filter(|_| expected == Some(xid)) else {
            return Err(Broken::OutOfOrder { found: xid, expected });
        };
        self.progressed_at = now;
        let outcome = match Refusal::of(code) {
            Some(refusal) => Err(refusal),
            None => answer::decode(pending.op, reader)?,
        };
        self.answer(now, pending, outcome);
        Ok(())
    }

    /// Passes an answer on, and keeps the watch that the server has set with it.
    fn answer(&mut self, now: Instant, pending: Pending<R, W>, outcome: Result<Answer, Refusal>) {
        let is_set = match &outcome {
            Ok(_) | Err(Refusal::TooLong { .. }) => true,
            // The one watch that can be set on a node that is not there.
            Err(refusal) => pending.op == op::EXISTS && *refusal == Refusal::NoNode,
        };
        if let Some((path, watcher)) = pending.watch.filter(|_| is_set) {
            let is_wanted = watcher.is_wanted();
            self.watches.entry(path.clone()).or_default().push(watcher);
            if !is_wanted {
                self.handle_unwanted(&path, now);
            }
        }
        self.events.extend(pending.to.map(|to| Event::Answered { to, outcome }));
    }

    fn expected(&self) -> Option<i32> {
        self.pending.front().map(|pending| pending.xid)
    }

    fn is_late(&self, now: Instant) -> Option<Broken> {
        let after = self.settings.answer_timeout;
        match self.stage {
            Stage::Connecting | Stage::Authenticating { .. } if self.session_due() <= now => {
                Some(Broken::NoSession { after })
            }
            Stage::Ready if self.heard_due() <= now => {
                Some(Broken::Silent { after: self.longest_silence() })
            }
            Stage::Ready | Stage::Closing if self.answer_due().is_some_and(|due| due <= now) => {
                Some(Broken::Silent { after })
            }
            _ => None,
        }
    }

    fn session_due(&self) -> Instant {
        self.began_at + self.settings.answer_timeout
    }

    fn timeout(&self) -> Duration {
        self.session.map_or(self.settings.session_timeout, |session| session.timeout)
    }

    /// As Java's client has it: a third of the session is left to find another server.
    fn longest_silence(&self) -> Duration {
        self.timeout() * 2 / 3
    }

    fn heard_due(&self) -> Instant {
        self.heard_at + self.longest_silence()
    }

    fn ping_at(&self) -> Instant {
        self.sent_at + self.timeout() / 3
    }

    /// When the answer to the oldest request is late. A long one that is still coming is not, and
    /// answers to pings do not count.
    fn answer_due(&self) -> Option<Instant> {
        let oldest = self.pending.front()?;
        Some(oldest.sent_at.max(self.progressed_at) + self.settings.answer_timeout)
    }

    /// Writes a request with its header, and keeps what is needed for its answer.
    fn put(&mut self, op: i32, now: Instant, to: Option<R>, record: impl FnOnce(&mut BytesMut)) {
        let xid = self.next_xid;
        // Below zero are the numbers that are not for requests.
        self.next_xid = xid.checked_add(1).unwrap_or(1);
        self.put_frame(now, |out| {
            out.put_i32(xid);
            out.put_i32(op);
            record(out);
        });
        self.pending.push_back(Pending { xid, op, sent_at: now, to, watch: None });
    }

    fn put_frame(&mut self, now: Instant, frame: impl FnOnce(&mut BytesMut)) {
        self.sent_at = now;
        let at = self.out.len();
        self.out.put_u32(0);
        frame(&mut self.out);
        let len = u32::try_from(self.out.len() - at - LEN_LEN).unwrap_or(u32::MAX);
        if let Some(head) = self.out.get_mut(at..at + LEN_LEN) {
            head.copy_from_slice(&len.to_be_bytes());
        }
    }

    /// The client's part of the handshake. Source: `ConnectRequest` in zookeeper.jute.
    fn put_connect(&mut self) {
        let now = self.began_at;
        let (session, last_zxid) = (self.settings.session, self.last_zxid);
        let wanted = self.settings.session_timeout.as_millis();
        self.put_frame(now, |out| {
            out.put_i32(0);
            out.put_i64(last_zxid);
            out.put_i32(i32::try_from(wanted).unwrap_or(i32::MAX));
            out.put_i64(session.map_or(0, |session| session.id));
            put_buffer(out, &session.map_or([0; 16], |session| session.password));
            // A server that cannot write is of no use.
            out.put_u8(0);
        });
    }
}

#[cfg(test)]
mod tests;
