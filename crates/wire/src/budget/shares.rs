//! Who may have how much of what is left, and what who may not is told.

/// A connection that holds less than this part of what is free is not refused for what its peer
/// holds, as long as this part of the budget is free.
const SMALL_CONNECTION: Small = Small { part: 64, left: 4 };
/// The same for a peer and what its listener holds.
const SMALL_PEER: Small = Small { part: 2, left: 8 };
/// Times of what is free that a peer may hold, and a listener.
const PEER_TIMES: usize = 2;
const LISTENER_TIMES: usize = 4;

/// Who is small enough not to be refused for what others hold.
struct Small {
    /// Holds at most what is free, divided by this.
    part: usize,
    /// While at least the budget, divided by this, is free.
    left: usize,
}

impl Small {
    fn is(&self, held: usize, left: usize, limit: usize) -> bool {
        limit / self.left <= left && held <= left / self.part
    }
}

/// No memory for what a peer sends or waits for: others need what is left.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", self.text())]
pub struct OverBudget {
    /// Bytes that were asked for.
    pub wanted: usize,
    /// Bytes of the budget that nobody uses.
    pub free: usize,
    /// The budget.
    pub limit: usize,
    /// What `holder` has already.
    pub held: usize,
    /// Whose share is used up.
    pub holder: BudgetHolder,
}

impl OverBudget {
    /// Whether it is more than one connection ever gets, so that it is of no use to try again.
    #[must_use]
    pub fn is_final(&self) -> bool {
        largest_share(self.limit) < self.wanted
    }

    fn text(&self) -> String {
        let Self { wanted, free, limit, held, holder } = self;
        if self.is_final() {
            let largest = largest_share(*limit);
            return format!(
                "no memory for {wanted} more bytes: one connection gets {largest} at most, half of \
                 the budget of {limit} (memory_bytes of [agent]); send less at a time, or raise it"
            );
        }
        format!(
            "no memory for {wanted} more bytes: {free} of {limit} are free, and {held} are held \
             already by {holder} (memory_bytes of [agent]); try again later, or raise it"
        )
    }
}

/// What a single connection gets where nobody else holds anything: as much as is left then.
pub(super) const fn largest_share(limit: usize) -> usize {
    limit / 2
}

/// Whose share of the budget is used up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BudgetHolder {
    /// One connection.
    Connection,
    /// All connections of one peer's address.
    Peer,
    /// All connections of one listener.
    Listener,
    /// All connections of a worker to one endpoint.
    Endpoint,
    /// All connections to endpoints.
    Endpoints,
}

impl std::fmt::Display for BudgetHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connection => "this connection",
            Self::Peer => "this peer",
            Self::Listener => "this listener",
            Self::Endpoint => "the connections to this endpoint",
            Self::Endpoints => "the connections to all endpoints",
        })
    }
}

/// What a connection, its peer and its listener hold; or a connection to an endpoint, all of them
/// to that endpoint, and all of them to any.
pub(super) struct Shares {
    pub(super) connection: usize,
    pub(super) peer: usize,
    pub(super) listener: usize,
    /// The connection carries the calls of many, to an endpoint.
    pub(super) is_shared: bool,
}

impl Shares {
    /// Whether the connection may have so many bytes more while so many are free.
    pub(super) fn check(&self, wanted: usize, free: usize, limit: usize) -> Result<(), OverBudget> {
        let Self { connection, peer, listener, is_shared } = *self;
        let holders = match is_shared {
            true => [BudgetHolder::Endpoint, BudgetHolder::Endpoints],
            false => [BudgetHolder::Peer, BudgetHolder::Listener],
        };
        let left = free.saturating_sub(wanted);
        let is_small_connection = SMALL_CONNECTION.is(connection + wanted, left, limit);
        let is_small_peer = SMALL_PEER.is(peer + wanted, left, limit);
        let shares = [
            (BudgetHolder::Connection, connection, 1, false),
            (holders[0], peer, PEER_TIMES, is_small_connection),
            (holders[1], listener, LISTENER_TIMES, is_small_peer),
        ];
        for (holder, held, times, is_exempt) in shares {
            let fits = is_exempt || held + wanted <= left.saturating_mul(times);
            if free < wanted || !fits {
                return Err(OverBudget { wanted, free, limit, held, holder });
            }
        }
        Ok(())
    }
}
