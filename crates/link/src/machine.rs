//! The link's state machine, as the driver sees it.

use std::ops::{Deref, DerefMut};
use std::time::Instant;

use bytes::BytesMut;
use link_proto::{Connection, Event, LinkError};
use wire::Machine;

/// A link's state machine for [`drive`](crate::drive). Rust asks for a type of this crate: the
/// trait is in `wire` and the machine in `link-proto`, and neither knows the other.
pub struct LinkMachine<T>(pub Connection<T>);

impl<T> Deref for LinkMachine<T> {
    type Target = Connection<T>;

    #[inline]
    fn deref(&self) -> &Connection<T> {
        &self.0
    }
}

impl<T> DerefMut for LinkMachine<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Connection<T> {
        &mut self.0
    }
}

impl<T> Machine for LinkMachine<T> {
    type Event = Event<T>;
    type Error = LinkError;

    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), LinkError> {
        self.0.handle_bytes(now, input)
    }

    fn has_backlog(&self) -> bool {
        self.0.has_backlog()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<Event<T>> {
        self.0.poll_event()
    }

    fn has_events(&self) -> bool {
        self.0.has_events()
    }

    fn transmit(&mut self) -> &mut BytesMut {
        self.0.transmit()
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    fn is_broken(&self) -> bool {
        self.0.failure().is_some()
    }

    fn is_amid_message(&self) -> bool {
        self.0.assembly_held() != 0
    }

    fn wants_input(&self) -> bool {
        !self.0.is_congested()
    }
}
