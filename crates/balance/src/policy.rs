//! The rules by which an endpoint is chosen, and their names in configuration files.

use std::fmt;
use std::str::FromStr;

/// How a [`Balancer`](crate::Balancer) chooses among the endpoints that may take a call.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Policy {
    /// By chance, in proportion to the weights.
    Random,
    /// Smooth weighted round robin: over one cycle (as many calls as the weights sum up to) each
    /// endpoint gets exactly its weight, spread evenly over the cycle.
    RoundRobin,
    /// The endpoint with the fewest calls in flight. Where weights differ: one of those that have
    /// less than their share of the calls in flight. Equal ones take turns, by weight.
    LeastInFlight,
    /// The better of two endpoints drawn by weight. Better is the lower expected wait: a
    /// peak-sensitive average of the latency, times the calls in flight relative to the weight.
    PowerOfTwo,
    /// As [`LeastInFlight`](Self::LeastInFlight), but a call counts for more at an endpoint that
    /// is slower than usual, or that fails: as many times as its answers take longer, and as it
    /// takes tries to get one. Of more than 16 endpoints four are drawn by weight and compared.
    #[default]
    Adaptive,
    /// The endpoint with the fewest calls in flight, whatever the weights; equal ones by chance,
    /// in proportion to the weights. Dubbo's `leastactive`.
    LeastActive,
    /// The lowest product of mean latency in a window of 30 s and calls in flight plus one; equal
    /// ones by chance, in proportion to the weights. Dubbo's `shortestresponse`.
    ShortestResponse,
    /// Calls with the same key go to the same endpoint: see [`Ring`](crate::Ring). A call without
    /// a key goes as by [`Adaptive`](Self::Adaptive).
    ConsistentHash,
}

impl Policy {
    /// All policies, in the order in which documentation lists them.
    pub const ALL: [Self; 8] = [
        Self::Adaptive,
        Self::LeastInFlight,
        Self::PowerOfTwo,
        Self::RoundRobin,
        Self::Random,
        Self::LeastActive,
        Self::ShortestResponse,
        Self::ConsistentHash,
    ];

    /// The name in configuration files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round-robin",
            Self::LeastInFlight => "least-in-flight",
            Self::PowerOfTwo => "power-of-two",
            Self::Adaptive => "adaptive",
            Self::LeastActive => "least-active",
            Self::ShortestResponse => "shortest-response",
            Self::ConsistentHash => "consistent-hash",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name() == name).ok_or(UnknownPolicy)
    }
}

/// The name is not one of the policies; the message lists them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected one of ")?;
        for (index, policy) in Policy::ALL.into_iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            f.write_str(policy.name())?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownPolicy {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("Random".parse::<Policy>(), Err(UnknownPolicy));
        for policy in Policy::ALL {
            assert!(UnknownPolicy.to_string().contains(policy.name()));
        }
    }
}
