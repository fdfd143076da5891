//! How an attempt ended, as far as the choice of endpoints is concerned.

use std::hash::Hash;
use std::time::{Duration, Instant};

use balance::{Balancer, Ticket, Verdict};
use rand::Rng;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AttemptEnd {
    /// With an answer.
    Answered,
    /// With an exception of the service: the endpoint is healthy.
    Threw,
    /// With a failure that the endpoint is to blame for.
    Failed,
    /// Without an answer in time. That counts against the endpoint if it had twice as long as
    /// answers usually take.
    TimedOut,
    /// The endpoint has as many calls as it can take.
    Full,
    /// The endpoint is there, and refused the call because it cannot serve anyone now.
    Refused,
    /// Nobody will hear how: the caller went away, or waits for no answer.
    Unheard,
}

impl AttemptEnd {
    /// Gives the attempt's ticket back. `latency` is the time since the attempt began; `rng` is
    /// asked for only if the endpoint is ejected.
    pub fn give_back<K: Eq + Hash + Clone, R: Rng>(
        self,
        balancer: &mut Balancer<K>,
        ticket: Ticket,
        now: Instant,
        latency: Duration,
        rng: impl FnOnce() -> R,
    ) {
        let verdict = match self {
            Self::Answered => Verdict::Answered,
            Self::Threw => Verdict::Threw,
            Self::Failed => Verdict::Failed,
            Self::TimedOut => Verdict::TimedOut,
            Self::Full => Verdict::Full,
            Self::Refused => Verdict::Refused,
            Self::Unheard => return balancer.abandon(ticket),
        };
        balancer.finish(ticket, now, latency, verdict, rng);
    }
}
