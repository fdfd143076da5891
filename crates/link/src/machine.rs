//! The link's state machine, as the driver sees it.

use std::time::Instant;

use bytes::BytesMut;
use link_proto::{Connection, Event, LinkError};

use crate::io::Machine;

impl<T> Machine for Connection<T> {
    type Event = Event<T>;
    type Error = LinkError;

    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), LinkError> {
        self.handle_bytes(now, input)
    }

    fn has_backlog(&self) -> bool {
        self.has_backlog()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<Event<T>> {
        self.poll_event()
    }

    fn has_events(&self) -> bool {
        self.has_events()
    }

    fn transmit(&mut self) -> &mut BytesMut {
        self.transmit()
    }

    fn is_finished(&self) -> bool {
        self.is_finished()
    }

    fn is_broken(&self) -> bool {
        self.failure().is_some()
    }

    fn wants_input(&self) -> bool {
        !self.is_congested()
    }
}
