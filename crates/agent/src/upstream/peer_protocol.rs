//! What an endpoint's protocol has to say for its connections to be kept.

use std::time::{Duration, Instant};

use link::{Conn, Machine};

use super::Signs;
use crate::connections::SessionActivity;
use crate::error::CallError;

/// What differs between the protocols of endpoints.
pub trait PeerProtocol: 'static {
    /// What is spoken, as the configuration has it.
    const PROTOCOL: &'static str;
    /// The state machine of a connection.
    type Machine: Machine + 'static;

    /// Longest wait for a connection that is made now.
    fn connect_timeout(&self) -> Duration;
    /// The machine of a new connection.
    fn machine(&self, now: Instant) -> Self::Machine;
    /// Whether the connection takes calls.
    fn is_ready(machine: &Self::Machine) -> bool;
    /// Asks the peer for a sign of life.
    fn ask(machine: &mut Self::Machine, now: Instant);
    /// What the connection does just now.
    fn activity(machine: &Self::Machine) -> SessionActivity;
    /// How many calls are in flight.
    fn in_flight(machine: &Self::Machine) -> usize;
    /// How long the connection has been in the midst of a message, until `now`.
    fn waited(machine: &Self::Machine, now: Instant) -> Duration;
    /// What is known of the peer's signs of life.
    fn signs(machine: &Self::Machine) -> Signs;
    /// An event of the connection. Returns whether the peer takes calls now that it did not take
    /// before, or the other way round.
    fn on_event(&self, event: <Self::Machine as Machine>::Event) -> bool;
    /// Whether the peer of a connection has said that it ends it, or takes no more calls.
    fn has_said_goodbye(&self, machine: &Self::Machine) -> bool;
    /// Why a connection that this side ends has failed; `None` if it has not.
    fn failure(machine: &Self::Machine) -> Option<String>;
    /// The connection has ended: completes whatever is pending with `error`.
    fn on_end(&self, conn: &Conn<Self::Machine>, error: &CallError);
    /// The connection is one too many: it gets no further calls, and is closed.
    fn retire(&self, now: Instant) {
        let _ = now;
    }
    /// Nobody will make calls any more: finish what is in flight and close.
    fn close(machine: &mut Self::Machine, now: Instant);
}
