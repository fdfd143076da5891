//! The calls of one consumer's connection that are under way.
//!
//! Invariant: a place is taken from [`Flights::reserve`] until [`Flights::take`], so that whoever
//! was given its number finds his own call there, or none.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dubbo_proto::{ReplyTo, RequestId, Serialization};
use link_proto::CallId;
use tokio::task::AbortHandle;
use wire::Conn;

use crate::call::ReplyTiming;
use crate::cluster::Attempt;
use crate::error::{CallError, Code};
use crate::expected_len::ExpectedLen;
use crate::gate::Admitted;
use crate::journal::{JournalEntry, RecordedAnswer};
use crate::metrics::CallStats;
use crate::routes::ClusterRoute;
use crate::stages::{Stage, StageClock};
use crate::upstream::dubbo::DubboClient;
use crate::upstream::link::LinkClient;

/// One call.
pub(super) struct Flight {
    /// Where its reply goes.
    pub(super) to: ReplyTo,
    /// When it came.
    pub(super) started: Instant,
    /// Until when its caller waits.
    pub(super) deadline: Instant,
    /// Who counts it.
    pub(super) counted: CallCounter,
    /// Where it is, to give it up there.
    pub(super) sent: CallLocation,
    /// What it takes to offer it again.
    pub(super) again: Option<Box<Again>>,
    /// What is learnt of its method's replies, if it was sent to a Dubbo provider.
    pub(super) reply_len: Option<Rc<ExpectedLen>>,
    /// What is to be told of it, if anybody wants to know.
    pub(super) entry: Option<Box<JournalEntry>>,
}

/// Who counts a call besides its listener.
pub(super) enum CallCounter {
    /// The endpoint that it was sent to.
    Attempt(Attempt),
    /// The export that it is for.
    Export(Arc<CallStats>, Admitted),
    /// A task of its own.
    Elsewhere,
}

/// Where a call is.
pub(super) enum CallLocation {
    /// On a connection to a Dubbo provider.
    Dubbo(Conn<DubboClient>, RequestId),
    /// On a link.
    Link(Conn<LinkClient>, CallId),
    /// In a task.
    Task(AbortHandle),
    /// Just being handed over.
    Nowhere,
}

/// A call that may be offered to another endpoint.
pub(super) struct Again {
    pub(super) route: Rc<ClusterRoute>,
    pub(super) body: Bytes,
    pub(super) deadline: Instant,
}

impl Flight {
    /// Gives the call up: nobody waits for its reply any more.
    pub(super) fn cancel(self) {
        self.sent.cancel();
        if let CallCounter::Export(stats, _) = &self.counted {
            stats.finished(self.started.elapsed(), Some(Code::Cancelled as u8));
        }
    }
}

impl CallLocation {
    /// Gives the call up where it is.
    pub(super) fn cancel(&self) {
        match self {
            Self::Dubbo(conn, id) => drop(conn.with(|app| app.0.cancel(*id))),
            Self::Link(conn, id) => drop(conn.with(|link| link.cancel(*id))),
            Self::Task(task) => task.abort(),
            Self::Nowhere => {}
        }
    }
}

impl CallCounter {
    /// Where the call is, if that is known.
    fn endpoint(&self) -> Option<&str> {
        match self {
            Self::Attempt(attempt) => Some(attempt.upstream().address()),
            Self::Export(..) | Self::Elsewhere => None,
        }
    }

    /// Notes on the call's clock that its reply came at `at`. All of the time of a local app is
    /// its own work.
    #[cold]
    pub(super) fn note_reply(&self, clock: &StageClock, at: Instant) {
        clock.enter(Stage::Answer, at);
        if matches!(self, Self::Export(..)) {
            clock.app_took(Duration::MAX);
        }
    }

    /// Notes how long the endpoint's app took, if its agent says so.
    pub(super) fn note_app(&self, came: Option<ReplyTiming>) {
        if let (Self::Attempt(attempt), Some(ReplyTiming { at, app: Some(app) })) = (self, came) {
            attempt.app_took(at, app);
        }
    }

    /// Tells that the call was answered.
    #[cold]
    pub(super) fn tell_answer(
        &self,
        entry: Box<JournalEntry>,
        len: usize,
        failure: Option<Code>,
        endpoint: Option<&str>,
    ) {
        let endpoint = self.endpoint().or(endpoint);
        entry.answered(RecordedAnswer { endpoint, len, failure });
    }

    /// Tells that the call has failed.
    #[cold]
    pub(super) fn tell_failure(&self, entry: Box<JournalEntry>, error: &CallError) {
        entry.failed(error, self.endpoint());
    }

    /// The call that began at `started` was answered, with this body of status OK, which counts
    /// as that failure, or as another one once it is looked at. Returns how long it took.
    #[inline]
    pub(super) fn answered(
        self,
        started: Instant,
        now: Instant,
        body: (Serialization, &[u8]),
        failure: &mut Option<Code>,
    ) -> Duration {
        if let Self::Attempt(attempt) = self {
            return attempt.answered(now, body, failure);
        }
        let latency = now.saturating_duration_since(started);
        if let Self::Export(stats, admitted) = self {
            stats.finished(latency, failure.map(|code| code as u8));
            admitted.answered(now);
        }
        latency
    }

    /// The call has failed.
    pub(super) fn failed(self, started: Instant, now: Instant, error: &CallError) {
        match self {
            Self::Attempt(attempt) => attempt.failed(now, error),
            Self::Export(stats, admitted) => {
                let latency = now.saturating_duration_since(started);
                stats.finished(latency, Some(error.code as u8));
                admitted.failed(now, error);
            }
            Self::Elsewhere => {}
        }
    }
}

/// Calls by number; numbers are used again, last in, first out.
///
/// Each call has a box: on its way into its place and out again it would be copied six times.
#[derive(Default)]
pub(super) struct Flights {
    places: Vec<Option<Box<Flight>>>,
    free: Vec<u32>,
}

impl Flights {
    /// How many are under way.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// A number for a call that is about to be sent.
    #[inline]
    pub(super) fn reserve(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Keeps the call under the number that was reserved for it.
    #[inline]
    pub(super) fn put(&mut self, number: u32, flight: Box<Flight>) {
        if let Some(place) = self.places.get_mut(number as usize) {
            *place = Some(flight);
        }
    }

    /// Notes where a call is, if it has not ended yet.
    pub(super) fn moved(&mut self, number: u32, sent: CallLocation) {
        if let Some(Some(flight)) = self.places.get_mut(number as usize) {
            flight.sent = sent;
        }
    }

    /// The call under that number.
    pub(super) fn get(&self, number: u32) -> Option<&Flight> {
        self.places.get(number as usize)?.as_deref()
    }

    /// The numbers of calls that are stuck at a silent endpoint, and may be offered again.
    pub(super) fn stuck(&self, now: Instant) -> impl Iterator<Item = u32> {
        let is_stuck = move |flight: &Flight| match &flight.counted {
            CallCounter::Attempt(attempt) => flight.again.is_some() && attempt.is_stuck(now),
            CallCounter::Export(..) | CallCounter::Elsewhere => false,
        };
        let places = self.places.iter().zip(0..);
        let stuck = places.filter(move |(place, _)| place.as_deref().is_some_and(is_stuck));
        stuck.map(|(_, number)| number)
    }

    /// The call under that number, which is free from now on.
    #[inline]
    pub(super) fn take(&mut self, number: u32) -> Option<Box<Flight>> {
        let flight = self.places.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(flight)
    }

    /// Frees a number under which nothing was kept; one that was never reserved is none.
    pub(super) fn release(&mut self, number: u32) {
        if (number as usize) < self.places.len() {
            self.free.push(number);
        }
    }

    /// Takes all calls out; their numbers mean nothing any more.
    pub(super) fn take_all(&mut self) -> Vec<Flight> {
        self.free.clear();
        std::mem::take(&mut self.places).into_iter().flatten().map(|flight| *flight).collect()
    }
}

#[cfg(test)]
mod tests;
