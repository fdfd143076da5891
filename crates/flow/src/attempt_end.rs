//! How an attempt ended, as far as the choice of endpoints is concerned.

use std::time::{Duration, Instant};

use balance::{Balancer, Ticket};
use rand::Rng;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AttemptEnd {
    /// With an answer.
    Answered,
    /// With a failure.
    Failed,
    /// The endpoint is there, and refused the call because it cannot serve anyone now.
    Refused,
    /// Nobody will hear how: the caller went away, or waits for no answer.
    Unheard,
}

impl AttemptEnd {
    /// Gives the attempt's ticket back. `latency` is the time since the attempt began; `rng` is asked
    /// for only if the endpoint has to rest.
    pub fn give_back<K: Eq + Clone, R: Rng>(
        self,
        balancer: &mut Balancer<K>,
        ticket: Ticket,
        now: Instant,
        latency: Duration,
        rng: impl FnOnce() -> R,
    ) {
        match self {
            Self::Answered => balancer.finish(ticket, now, latency, true),
            Self::Failed => balancer.finish(ticket, now, latency, false),
            Self::Refused => balancer.refused(ticket, now, latency, &mut rng()),
            Self::Unheard => balancer.abandon(ticket),
        }
    }
}
