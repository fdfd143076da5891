//! What connections hold in memory, counted against the process's budget.
//!
//! [`Memory`] is a worker's part of the budget. [`Metered`] is any connection's state machine with
//! an account: it counts what the driver has read and could not use yet, what the machine puts
//! together, and what waits to be written. Where that grows and must not, it sheds what has begun
//! to come, and stops reading from a peer that does not take its answers.
//!
//! Invariant: the account says what is held after every turn of the driver.

use std::cell::Cell;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use link::LinkMachine;
use wire::{Account, Budget, Conn, Group, Lease, Machine, OverBudget, Waits};

use crate::error::{CallError, Code};
use crate::stages::StageClock;

/// While more than this waits for a peer that asks us, nothing more is read from it. What short
/// answers overtake does not count: else a peer could not ask for a short one while a long one is
/// on its way to it.
const MAX_UNREAD_LEN: usize = 1 << 20;
/// Long requests wait for an endpoint's link up to so many bytes; short ones up to
/// [`MAX_LINK_WAITING_LEN`]: who sends long ones leaves room for those who do not. It is as much
/// as the longest body that an ingress takes by default: a second one may wait behind it.
const MAX_LONG_WAITING_LEN: usize = 8 << 20;
/// What may wait for an endpoint's link, and for a peer that asks us by one.
pub const MAX_LINK_WAITING_LEN: usize = 3 * MAX_LONG_WAITING_LEN;
/// Requests and replies of up to so many bytes are short.
const SHORT_LEN: usize = 4 << 10;
/// How long a peer may leave its answers unread that holds more than its share while memory is
/// short.
const WRITE_TIMEOUT_IF_SHORT: Duration = Duration::from_secs(2);
/// So many times as much is kept for a request as has come of it.
const ROOM_TIMES: usize = 4;
/// A buffer that holds less counts by what is in it: the rest was never touched.
const SMALL_BUFFER_LEN: usize = 8 * 1024;

/// A worker's part of the budget.
pub struct Memory {
    budget: Budget,
    lease: Rc<Lease>,
    /// All connections to endpoints, of all workers.
    endpoints: Arc<Group>,
}

impl Memory {
    /// For one worker. `endpoints` is the group of all workers' connections to endpoints.
    pub fn new(budget: Budget, endpoints: Arc<Group>) -> Self {
        Self { lease: budget.lease(), budget, endpoints }
    }

    /// The account of an accepted connection.
    pub fn accepted(&self, listener: &Arc<Group>, peer: IpAddr) -> Rc<Account> {
        Account::new(&self.lease, listener, self.budget.peer(peer))
    }

    /// That of all connections to one endpoint.
    pub fn endpoint(&self) -> EndpointMemory {
        let (lease, all) = (Rc::clone(&self.lease), Arc::clone(&self.endpoints));
        EndpointMemory { lease, all, endpoint: Group::new() }
    }
}

/// Where a worker's connections to one endpoint have their part of the budget from.
pub struct EndpointMemory {
    lease: Rc<Lease>,
    all: Arc<Group>,
    endpoint: Arc<Group>,
}

impl EndpointMemory {
    /// The account of one connection.
    pub fn account(&self) -> Rc<Account> {
        Account::shared(&self.lease, &self.all, &self.endpoint)
    }
}

/// A machine that knows what it holds.
pub trait Buffers: Machine {
    /// Whether the peer asks and we answer: it is held back when it does not read.
    const IS_ASKED: bool;

    /// Bytes that wait to be written, without those that the driver has taken.
    fn waiting_len(&self) -> usize;
    /// Those of them that short messages overtake.
    fn overtakable_len(&self) -> usize {
        0
    }
    /// Bytes of messages that are not whole.
    fn assembly_len(&self) -> usize;
    /// What the peer's requests take that are in flight, beside what is counted elsewhere.
    fn in_flight_len(&self) -> usize {
        0
    }
    /// Nothing is read from the peer: its silence says nothing.
    fn note_unread(&mut self, now: Instant) {
        let _ = now;
    }
    /// Gives up a message that has begun to come, in `input` or in the machine; `text` says why.
    /// `false` if there is none.
    ///
    /// # Errors
    /// As [`Machine::handle_bytes`].
    fn shed(&mut self, now: Instant, input: &mut BytesMut, text: &str)
    -> Result<bool, Self::Error>;
}

/// A machine with an account.
pub struct Metered<M> {
    machine: M,
    account: Rc<Account>,
    /// What the driver has read and the machine could not use yet.
    input_len: usize,
    /// What the driver has taken to write it.
    taken_len: usize,
    /// What the account was told.
    counted: Cell<usize>,
    /// Clocks of calls that wait to be written.
    watched: WatchedClocks,
    waits: Waits,
    /// Nothing is read for a while.
    rests: bool,
}

impl<M> Metered<M> {
    /// A machine of a new connection.
    pub fn new(machine: M, account: Rc<Account>) -> Self {
        let (counted, watched, waits) = (Cell::new(0), WatchedClocks::default(), Waits::default());
        let (input_len, taken_len, rests) = (0, 0, false);
        Self { machine, account, input_len, taken_len, counted, watched, waits, rests }
    }

    /// Reads nothing from the peer, until it is told otherwise.
    pub fn set_rests(&mut self, rests: bool) {
        self.rests = rests;
    }

    /// The account.
    pub fn account(&self) -> &Rc<Account> {
        &self.account
    }

    /// How long it has been in the midst of a message, until `now`. Nobody counts that where the
    /// peer asks.
    pub fn waited(&self, now: Instant) -> Duration {
        self.waits.total(now)
    }

    /// What was queued last is of the call with that clock.
    #[cold]
    pub fn watch(&mut self, clock: Rc<StageClock>) {
        self.watched.queued.push(clock);
    }
}

/// Clocks of calls whose bytes wait to be written. There are few: one call in many has one.
#[derive(Default)]
struct WatchedClocks {
    /// The machine has their bytes.
    queued: Vec<Rc<StageClock>>,
    /// The driver has their bytes.
    taken: Vec<Rc<StageClock>>,
}

impl WatchedClocks {
    fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.taken.is_empty()
    }

    /// The driver has written what it took before, and takes the rest.
    #[cold]
    fn take(&mut self) {
        let now = Instant::now();
        self.taken.drain(..).for_each(|clock| clock.written(now));
        std::mem::swap(&mut self.queued, &mut self.taken);
    }
}

impl<M: Buffers> Metered<M> {
    #[inline]
    fn count(&self) -> Result<(), OverBudget> {
        let in_flight_len = self.machine.in_flight_len();
        let held = self.input_len + self.unread_len() + self.machine.assembly_len() + in_flight_len;
        self.account.set(self.counted.replace(held), held)
    }

    #[inline]
    fn unread_len(&self) -> usize {
        self.taken_len + self.machine.waiting_len()
    }

    /// Whether to shed what has begun to come makes room.
    #[cold]
    fn holds_much_unfinished(&self, input: &BytesMut) -> bool {
        SMALL_BUFFER_LEN <= input.len() + self.machine.assembly_len()
    }

    /// Whether more may come. Who asks waits for what he has asked for before, if that is a lot,
    /// or if it is more than its share while memory is short. It is his own answers that end the
    /// wait: who waits for none is always read.
    #[inline]
    fn may_read(&self) -> bool {
        if self.rests || !self.machine.wants_input() {
            return false;
        }
        if !M::IS_ASKED {
            return true;
        }
        let in_order_len = self.unread_len().saturating_sub(self.machine.overtakable_len());
        let awaits_answers = in_order_len + self.machine.in_flight_len() != 0;
        in_order_len <= MAX_UNREAD_LEN && !(awaits_answers && self.account.is_over_share())
    }

    /// Sheds what has begun to come until the rest may be held.
    #[cold]
    fn shed(
        &mut self,
        now: Instant,
        input: &mut BytesMut,
        mut refused: OverBudget,
    ) -> Result<(), M::Error> {
        while self.machine.shed(now, input, &refused.to_string())? {
            self.input_len = buffer_len(input);
            match self.count() {
                Ok(()) => break,
                Err(still) => refused = still,
            }
        }
        Ok(())
    }
}

/// What a buffer takes.
#[inline]
fn buffer_len(buffer: &BytesMut) -> usize {
    if buffer.len() < SMALL_BUFFER_LEN { buffer.len() } else { buffer.capacity() }
}

impl<M> Deref for Metered<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.machine
    }
}

impl<M> DerefMut for Metered<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.machine
    }
}

impl<M: Buffers> Machine for Metered<M> {
    type Event = M::Event;
    type Error = M::Error;

    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), M::Error> {
        self.machine.handle_bytes(now, input)?;
        self.input_len = buffer_len(input);
        match self.count() {
            Err(refused) if self.holds_much_unfinished(input) => self.shed(now, input, refused),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn has_backlog(&self) -> bool {
        self.machine.has_backlog()
    }

    fn room_for(&self, input: &BytesMut) -> Option<usize> {
        let len = self.machine.room_for(input)?;
        // Who asks gets several times as much as has come, and not what it only announces.
        Some(if M::IS_ASKED { len.min(input.len().saturating_mul(ROOM_TIMES)) } else { len })
    }

    fn handle_timeout(&mut self, now: Instant) {
        if !self.may_read() {
            self.machine.note_unread(now);
        }
        self.machine.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.machine.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<M::Event> {
        self.machine.poll_event()
    }

    fn has_events(&self) -> bool {
        self.machine.has_events()
    }

    fn transmit(&mut self) -> &mut BytesMut {
        // The driver asks when it has written all that it took before.
        self.taken_len = 0;
        if !self.watched.is_empty() {
            self.watched.take();
        }
        let _ = self.count();
        let out = self.machine.transmit();
        self.taken_len = out.len();
        out
    }

    fn is_finished(&self) -> bool {
        self.machine.is_finished()
    }

    fn is_broken(&self) -> bool {
        self.machine.is_broken()
    }

    fn handle_written(&mut self, now: Instant) {
        self.taken_len = 0;
        self.machine.handle_written(now);
    }

    #[inline]
    fn waits(&mut self) -> Option<&mut Waits> {
        if M::IS_ASKED { None } else { Some(&mut self.waits) }
    }

    #[inline]
    fn is_amid_message(&self) -> bool {
        self.machine.is_amid_message()
    }

    fn wants_input(&self) -> bool {
        let _ = self.count();
        self.may_read()
    }
}

/// What the calls of a link carry on this side, from request to answer.
pub trait LinkToken {
    /// As [`Buffers::IS_ASKED`].
    const IS_ASKED: bool;
}

/// A link on which we answer has no calls of its own.
impl LinkToken for () {
    const IS_ASKED: bool = true;
}

impl<T: LinkToken> Buffers for LinkMachine<T> {
    const IS_ASKED: bool = T::IS_ASKED;

    fn waiting_len(&self) -> usize {
        self.buffered_bytes()
    }

    fn overtakable_len(&self) -> usize {
        self.overtakable_bytes()
    }

    fn assembly_len(&self) -> usize {
        self.assembly_held()
    }

    fn shed(
        &mut self,
        _: Instant,
        _: &mut BytesMut,
        text: &str,
    ) -> Result<bool, link_proto::LinkError> {
        Ok(self.shed_parts(text))
    }
}

/// Whether `len` more bytes may wait on a connection; a call that needs them has not begun.
///
/// # Errors
/// [`Code::Overloaded`], or [`Code::BodyTooLarge`] if there is never so much room.
#[inline]
pub fn check_room<M>(conn: &Conn<Metered<M>>, len: usize) -> Result<(), CallError> {
    conn.look(|machine| machine.account().check(len)).map_err(CallError::from)
}

/// The same on a link.
///
/// # Errors
/// [`Code::Overloaded`].
#[inline]
pub fn check_link_room<T: LinkToken>(
    conn: &Conn<Metered<LinkMachine<T>>>,
    len: usize,
) -> Result<(), CallError> {
    let waiting_len = conn.look(|link| link.buffered_bytes());
    if !may_wait(len, waiting_len) {
        let message = format!(
            "{waiting_len} bytes of other calls wait to be written to the endpoint, and requests \
             of over {SHORT_LEN} bytes do not wait behind {MAX_LONG_WAITING_LEN} or more; no key \
             changes that: send fewer long requests at a time, or add endpoints"
        );
        return Err(CallError::new(Code::Overloaded, message));
    }
    check_room(conn, len)
}

/// Whether a request of `len` bytes may join `waiting_len` that wait for a link.
#[inline]
fn may_wait(len: usize, waiting_len: usize) -> bool {
    len <= SHORT_LEN || waiting_len < MAX_LONG_WAITING_LEN
}

/// Whether there is room for a reply on a connection that carries the calls of many. A short one
/// always passes: what the connection holds is the doing of others, and calls in flight are
/// limited.
///
/// # Errors
/// [`OverBudget`].
#[inline]
pub fn check_shared_reply(account: &Account, len: usize) -> Result<(), OverBudget> {
    if len <= SHORT_LEN { Ok(()) } else { account.check(len) }
}

/// How long a peer may leave its answers unread: `configured`, unless memory is short and it holds
/// more than its share.
pub fn write_timeout(account: &Account, configured: Duration) -> Duration {
    if account.is_over_share() { configured.min(WRITE_TIMEOUT_IF_SHORT) } else { configured }
}

impl From<OverBudget> for CallError {
    #[cold]
    fn from(refused: OverBudget) -> Self {
        let code = if refused.is_final() { Code::BodyTooLarge } else { Code::Overloaded };
        Self::new(code, refused.to_string())
    }
}

/// Why a reply is not passed on that has come.
pub fn no_room_for_reply(len: usize, refused: &OverBudget) -> CallError {
    let message =
        format!("the call was answered, but its reply of {len} bytes was dropped: {refused}");
    CallError::new(Code::ReplyTooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who sends long requests leaves room for those who send short ones.
    #[test]
    fn short_requests_pass_long_ones_that_wait() {
        for (len, waiting_len, may) in [
            (SHORT_LEN, MAX_LONG_WAITING_LEN, true),
            (SHORT_LEN + 1, MAX_LONG_WAITING_LEN, false),
            (SHORT_LEN + 1, MAX_LONG_WAITING_LEN - 1, true),
            (usize::MAX, 0, true),
            (0, usize::MAX, true),
        ] {
            assert_eq!(may_wait(len, waiting_len), may, "{len} {waiting_len}");
        }
    }

    #[test]
    fn a_nearly_empty_buffer_counts_by_its_content() {
        let mut buffer = BytesMut::with_capacity(1 << 20);
        buffer.extend_from_slice(&[0; SMALL_BUFFER_LEN - 1]);
        assert_eq!(buffer_len(&buffer), SMALL_BUFFER_LEN - 1);
        buffer.extend_from_slice(&[0]);
        assert!(1 << 20 <= buffer_len(&buffer), "{}", buffer_len(&buffer));
    }

    /// A slow reader has its configured time, unless others lack the memory that it holds.
    #[test]
    fn memory_that_is_short_makes_slow_readers_hurry() {
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(60));
        let memory = Memory::new(Budget::new(1 << 20), Group::new());
        let account = memory.accepted(&Group::new(), IpAddr::from([10, 0, 0, 1]));
        assert_eq!(write_timeout(&account, long), long);
        let _ = account.set(0, 1 << 20);
        assert!(account.is_over_share());
        assert_eq!(write_timeout(&account, long), WRITE_TIMEOUT_IF_SHORT);
        assert_eq!(write_timeout(&account, short), short);
    }

    /// Other callers of the same link may have used up what it may hold.
    #[test]
    fn short_replies_pass_on_a_link_that_holds_its_share() {
        let memory = Memory::new(Budget::new(1 << 20), Group::new());
        let link = memory.accepted(&Group::new(), IpAddr::from([10, 0, 0, 1]));
        let _ = link.set(0, 700 << 10);
        assert!(link.check(3).is_err(), "a connection of one caller gets no more");
        assert_eq!(check_shared_reply(&link, 3), Ok(()));
        assert_eq!(check_shared_reply(&link, SHORT_LEN), Ok(()));
        assert!(check_shared_reply(&link, SHORT_LEN + 1).is_err());
    }

    #[test]
    fn a_reply_without_room_says_how_long_it_was_and_why() {
        let budget = Budget::new(100);
        let account = Memory::new(budget, Group::new()).endpoint().account();
        let refused = account.check(1 << 30).unwrap_err();
        let error = no_room_for_reply(1 << 30, &refused);
        assert_eq!(error.code, Code::ReplyTooLarge);
        assert!(error.message.contains("its reply of 1073741824 bytes was dropped: no memory"));
        assert_eq!(CallError::from(refused).code, Code::BodyTooLarge, "it never fits");
    }
}
