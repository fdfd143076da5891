//! What callers do: call, look when they are woken, give up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

use link_proto::{Payload, RouteDef, SendError, Status};
use rand::Rng;

use super::server::{EARLY, n_items};
use super::{
    CallEnd, CallKey, CallSlot, EventCounts, Phase, Sim, WhenDown, WhenFull, any_len, item_of,
    payload_of,
};
use crate::client::session::{CallHead, NotTaken, SessionMachine};
use crate::error::{Failure, Full};

/// Whether somebody is to look.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Flag {
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Somebody who waits.
struct Sleeper {
    flag: Arc<Flag>,
    waker: Waker,
}

impl Sleeper {
    fn new(is_awake: bool) -> Self {
        let flag = Arc::new(Flag(AtomicBool::new(is_awake)));
        Self { waker: Arc::clone(&flag).into(), flag }
    }
}

/// One call.
pub(super) struct SimulatedCall {
    pub(super) seq: u64,
    pub(super) seed: u64,
    pub(super) key: CallKey,
    deadline: Option<Instant>,
    one_way: bool,
    sleeper: Sleeper,
    stream: Option<CallerStream>,
    is_done: bool,
}

/// The caller's ends of its streams.
struct CallerStream {
    sender: Sleeper,
    receiver: Sleeper,
    n_up: u64,
    n_sent: u64,
    is_ended: bool,
    has_down: bool,
    n_got: u64,
    /// How the receiver ended: whole or not.
    end: Option<bool>,
    /// The call was answered.
    is_ok: bool,
}

impl Sim {
    pub(super) fn act(&mut self) {
        match self.rng.random_range(0..100) {
            0..60 => self.call(),
            60..64 => self.give_one_up(),
            64 => self.rewake_one(),
            _ => {}
        }
    }

    fn call(&mut self) {
        let (seq, seed) = (self.next_seq, self.rng.random_range(1..u64::MAX / 64));
        self.next_seq += 1;
        let len = any_len(&mut self.rng);
        let one_way = self.rng.random_bool(0.1);
        let (stream_in, stream_out) = match self.rng.random_range(0..8) {
            0 if !one_way => (true, false),
            1 if !one_way => (false, true),
            2 if !one_way => (true, true),
            _ => (false, false),
        };
        let deadline = self
            .rng
            .random_bool(0.4)
            .then(|| self.now + Duration::from_micros(self.rng.random_range(0..40_000)));
        let method = self.rng.random_range(0..5);
        let def = Arc::new(RouteDef { method: method.to_string(), ..RouteDef::default() });
        let timeout = None;
        let head = CallHead {
            method,
            def: &def,
            codec: 7,
            deadline,
            timeout,
            one_way,
            stream_in,
            stream_out,
        };
        let sleeper = Sleeper::new(false);
        let (payload, number) = (payload_of(seed, len), seq.to_string());
        let meta = [("seq", number.as_str())];
        let n_waiting = self.session.waiting.keys.len();
        let (now, bytes) = (self.now, Payload::Bytes(payload));
        let taken = self.session.start(now, head, &meta, bytes, &sleeper.waker);
        let key = match taken {
            Ok(key) => key,
            Err(not_taken) => return self.check_not_taken(&not_taken, len),
        };
        if matches!(self.session.calls.get(key), Some(CallSlot::Waiting(_))) {
            self.tally.note("waited");
            let is_free = self.config.when_full == WhenFull::Wait;
            let is_ready = self.session.link.as_ref().is_some_and(|link| link.peer().is_some());
            assert!(is_free || !is_ready || n_waiting > 0, "it was not to wait");
        } else {
            assert_eq!(n_waiting, 0, "it overtook others");
        }
        let (n_up, _) = n_items(seed);
        let stream = (stream_in || stream_out).then(|| CallerStream {
            sender: Sleeper::new(stream_in),
            receiver: Sleeper::new(stream_out),
            n_up: if stream_in { n_up } else { 0 },
            n_sent: 0,
            is_ended: !stream_in,
            has_down: stream_out,
            n_got: 0,
            end: None,
            is_ok: false,
        });
        if matches!(self.session.calls.get(key), Some(CallSlot::Done(_))) {
            assert!(one_way, "only a one-way call ends at once");
            sleeper.waker.wake_by_ref();
        }
        let is_done = false;
        self.callers.push(SimulatedCall {
            seq,
            seed,
            key,
            deadline,
            one_way,
            sleeper,
            stream,
            is_done,
        });
    }

    fn check_not_taken(&mut self, not_taken: &NotTaken, len: usize) {
        let waits = self.config.when_full == WhenFull::Wait;
        self.tally.note(match not_taken {
            NotTaken::Elsewhere => {
                assert_ne!(self.session.phase, Phase::Open);
                "elsewhere"
            }
            NotTaken::Full(Full::Calls(n)) => {
                assert!(!waits && *n > 0);
                "full: calls"
            }
            NotTaken::Full(Full::Bytes(n)) => {
                let is_over = *n == self.session.waiting.bytes + len;
                assert!(!waits || is_over && *n > self.config.max_waiting_bytes);
                "full: bytes"
            }
            NotTaken::Full(Full::Waiting(n)) => {
                assert_eq!(*n, self.config.max_waiting_calls);
                "full: waiting"
            }
            NotTaken::Unreachable(_) => {
                assert!(self.has_failed && self.config.when_down == WhenDown::Fail);
                "unreachable"
            }
            NotTaken::Full(Full::Methods) | NotTaken::Unsendable(_) => panic!("{not_taken:?}"),
        });
    }

    fn give_one_up(&mut self) {
        if self.callers.is_empty() {
            return;
        }
        let index = self.rng.random_range(0..self.callers.len());
        let caller = self.callers.swap_remove(index);
        self.tally.note(match self.session.calls.get(caller.key) {
            Some(CallSlot::Waiting(_)) => "given up while waiting",
            Some(CallSlot::Out { .. }) => "given up while out",
            Some(CallSlot::Done(_) | CallSlot::Fetched) => "given up when done",
            None => panic!("the call's key is gone"),
        });
        self.session.give_up(caller.key);
    }

    /// A caller that moves to another task.
    fn rewake_one(&mut self) {
        if self.callers.is_empty() {
            return;
        }
        let index = self.rng.random_range(0..self.callers.len());
        let caller = &mut self.callers[index];
        if !caller.is_done {
            caller.sleeper = Sleeper::new(true);
        }
    }

    /// Lets those who were woken look at their calls.
    pub(super) fn look(&mut self) {
        let mut callers = std::mem::take(&mut self.callers);
        callers.retain_mut(|caller| self.look_at(caller));
        self.callers = callers;
    }

    /// Whether the caller still has to do with its call.
    fn look_at(&mut self, caller: &mut SimulatedCall) -> bool {
        if let Some(stream) = &mut caller.stream {
            stream.send(caller.seed, caller.key, &mut self.session);
            stream.receive(caller.seed, caller.key, &mut self.session);
        }
        if !caller.is_done && caller.sleeper.flag.take() {
            match self.session.poll_outcome(caller.key, &caller.sleeper.waker) {
                Poll::Pending => return true,
                Poll::Ready(outcome) => {
                    caller.is_done = true;
                    self.check_outcome(caller, outcome);
                }
            }
        }
        if !caller.is_done {
            return true;
        }
        let Some(stream) = &caller.stream else {
            return false;
        };
        if stream.has_down && stream.end.is_none() {
            return true;
        }
        // It may hold on for a while.
        if self.rng.random_bool(0.7) {
            return true;
        }
        stream.check_end(caller.seed, &mut self.tally);
        assert!(!self.session.give_up(caller.key));
        false
    }

    fn check_outcome(&mut self, caller: &mut SimulatedCall, outcome: CallEnd) {
        let was_seen = self.server.seen.contains(&caller.seed);
        self.tally.note(match outcome {
            CallEnd::Answer(response) => match response.status {
                Status::OK => {
                    let len = response.payload.len();
                    assert_eq!(payload_of(caller.seed + 1, len), response.payload);
                    assert!(was_seen && response.codec == 7);
                    if let Some(stream) = &mut caller.stream {
                        stream.is_ok = true;
                    }
                    "answered"
                }
                Status::REFUSED => {
                    assert!(!was_seen, "it was begun");
                    "refused"
                }
                Status::SERVER_ERROR => "error",
                Status::OVERLOADED | Status::TOO_LARGE => "no room for its parts",
                other => panic!("{other}"),
            },
            CallEnd::Sent => {
                assert!(caller.one_way);
                self.last_sent = self.last_sent.max(caller.seq);
                "sent one-way"
            }
            CallEnd::Expired(reason) => {
                assert!(caller.deadline.is_some_and(|deadline| deadline <= self.now));
                assert!(reason.is_none() || self.has_failed || self.is_connected);
                if reason.is_some() { "expired before a connection" } else { "expired" }
            }
            CallEnd::Broken(reason) => {
                assert!(self.is_broken && &*reason == "cable cut");
                "broken"
            }
            CallEnd::NotBegun => {
                assert!(!was_seen && self.session.phase != Phase::Open);
                "not begun"
            }
            CallEnd::Unreachable(_) => {
                assert!(!was_seen && self.config.when_down == WhenDown::Fail);
                "unreachable"
            }
            CallEnd::Unsendable(SendError::NoStreams) => "no streams",
            CallEnd::Unsendable(error) => panic!("{error}"),
        });
    }
}

impl CallerStream {
    fn send(&mut self, seed: u64, key: CallKey, session: &mut SessionMachine) {
        if self.is_ended || !self.sender.flag.take() {
            return;
        }
        while self.n_sent < self.n_up {
            let item = Payload::Bytes(item_of(seed, self.n_sent));
            match session.poll_send(key, 7, &item, &self.sender.waker) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => self.n_sent += 1,
                // The call has ended.
                Poll::Ready(Err(Failure::Interrupted)) => break,
                Poll::Ready(Err(other)) => panic!("{other}"),
            }
        }
        self.is_ended = true;
        session.end_items(key);
    }

    fn receive(&mut self, seed: u64, key: CallKey, session: &mut SessionMachine) {
        if !self.has_down || self.end.is_some() || !self.receiver.flag.take() {
            return;
        }
        loop {
            match session.poll_item(key, &self.receiver.waker) {
                Poll::Pending => return,
                Poll::Ready(Ok(Some((codec, item)))) => {
                    assert_eq!((codec, item), (7, item_of(seed + 1, self.n_got)));
                    self.n_got += 1;
                }
                Poll::Ready(Ok(None)) => self.end = Some(true),
                Poll::Ready(Err(Failure::Interrupted)) => self.end = Some(false),
                Poll::Ready(Err(other)) => panic!("{other}"),
            }
            if self.end.is_some() {
                return;
            }
        }
    }

    fn check_end(&self, seed: u64, tally: &mut EventCounts) {
        if !self.is_ok {
            return;
        }
        if seed.is_multiple_of(EARLY) {
            tally.note("early end of a stream");
            return;
        }
        assert_eq!(self.n_sent, self.n_up, "the server saw all");
        if self.has_down {
            assert_eq!((self.end, self.n_got), (Some(true), n_items(seed).1), "all items came");
        }
        tally.note("whole stream");
    }
}
