//! How the connections to an address are set up, where several clusters may share it.
//!
//! Invariant: what counts for a new connection depends on who uses the address, and not on who
//! came first, but for the options of its socket.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use wire::SocketOptions;

use crate::config::{ClusterPolicy, ConnectionLimit};

/// More calls than this are never in flight on one connection.
const MAX_ON_A_CONNECTION: u32 = 65_536;

/// How one user of an address wants its connections to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Setup {
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// After how much silence the peer is asked for a sign of life, if that was configured.
    pub heartbeat: Option<Duration>,
    /// Most calls in flight on one connection.
    pub max_in_flight: u32,
    /// Longest body of a reply.
    pub max_reply_len: usize,
    /// Messages of so many bytes do not go with the others.
    pub long_len: usize,
    /// How many connections there are.
    pub connections: ConnectionLimit,
    /// How the kernel carries them: as the first user wants it.
    pub socket: SocketOptions,
    /// Whether a Dubbo provider is told how much time a call has left.
    pub tells_time_left: bool,
}

impl Setup {
    /// For the app behind an export, as the policy of its service says.
    pub fn new(policy: &ClusterPolicy) -> Self {
        Self {
            connect_timeout: policy.connect_timeout,
            heartbeat: policy.heartbeat,
            max_in_flight: policy.max_in_flight,
            max_reply_len: policy.max_reply_len,
            long_len: policy.long_len,
            connections: policy.connections,
            socket: policy.socket,
            tells_time_left: policy.tells_time_left,
        }
    }

    /// For an endpoint of a cluster, as its policy says. The cluster itself counts its calls, and
    /// says of each whether the provider is told of its time: other clusters may differ.
    pub fn of_cluster(policy: &ClusterPolicy) -> Self {
        let (max_in_flight, tells_time_left) = (MAX_ON_A_CONNECTION, true);
        Self { max_in_flight, tells_time_left, ..Self::new(policy) }
    }

    /// What counts where two users of an address differ: what does the least harm to either. Of
    /// limits that is the higher one, of times without a sign of life the shorter one.
    fn combined(self, other: Self) -> Self {
        let heartbeats = [self.heartbeat, other.heartbeat];
        Self {
            connect_timeout: self.connect_timeout.max(other.connect_timeout),
            heartbeat: heartbeats.into_iter().flatten().min(),
            max_in_flight: self.max_in_flight.max(other.max_in_flight),
            max_reply_len: self.max_reply_len.max(other.max_reply_len),
            long_len: self.long_len.min(other.long_len),
            connections: more_connections(self.connections, other.connections),
            socket: self.socket,
            tells_time_left: self.tells_time_left || other.tells_time_left,
        }
    }
}

/// A fixed number counts more than one that is found out.
fn more_connections(one: ConnectionLimit, other: ConnectionLimit) -> ConnectionLimit {
    use ConnectionLimit::{Auto, Fixed};
    match (one, other) {
        (Fixed(one), Fixed(other)) => Fixed(one.max(other)),
        (Auto { max: one }, Auto { max: other }) => Auto { max: one.max(other) },
        (fixed @ Fixed(_), Auto { .. }) | (Auto { .. }, fixed @ Fixed(_)) => fixed,
    }
}

/// How the connections to one address are set up for all who use it now.
#[derive(Debug)]
pub struct SharedSetup {
    /// What users want, each with how many of them want it.
    wanted: RefCell<Vec<(Setup, usize)>>,
    /// What counts. After the last user has gone it stays as it was.
    combined: Cell<Setup>,
}

/// One user of an address. Dropped, what it wants counts no more.
#[derive(Debug)]
pub struct SetupShare {
    shared: Rc<SharedSetup>,
    own: Cell<Setup>,
}

impl SharedSetup {
    /// For an address that nobody uses yet; what its first user wants counts at once.
    pub fn new(first: Setup) -> Rc<Self> {
        Rc::new(Self { wanted: RefCell::default(), combined: Cell::new(first) })
    }

    /// One more user.
    pub fn join(self: &Rc<Self>, setup: Setup) -> SetupShare {
        self.change(None, Some(setup));
        SetupShare { shared: Rc::clone(self), own: Cell::new(setup) }
    }

    /// What counts now. Connections that are made later go by it.
    #[inline]
    pub fn now(&self) -> Setup {
        self.combined.get()
    }

    fn change(&self, less: Option<Setup>, more: Option<Setup>) {
        let mut wanted = self.wanted.borrow_mut();
        if let Some(setup) = more {
            match wanted.iter_mut().find(|(known, _)| *known == setup) {
                Some((_, n)) => *n += 1,
                None => wanted.push((setup, 1)),
            }
        }
        if let Some(setup) = less {
            for (_, n) in wanted.iter_mut().filter(|(known, _)| *known == setup) {
                *n -= 1;
            }
            wanted.retain(|(_, n)| *n != 0);
        }
        if let Some(combined) = wanted.iter().map(|(setup, _)| *setup).reduce(Setup::combined) {
            self.combined.set(combined);
        }
    }
}

impl SetupShare {
    /// It wants this from now on.
    pub fn set(&self, setup: Setup) {
        let before = self.own.replace(setup);
        if before != setup {
            self.shared.change(Some(before), Some(setup));
        }
    }
}

impl Drop for SetupShare {
    fn drop(&mut self) {
        self.shared.change(Some(self.own.get()), None);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn fixed(n: usize) -> ConnectionLimit {
        ConnectionLimit::Fixed(NonZeroUsize::new(n).unwrap())
    }

    #[test]
    fn what_counts_depends_on_who_is_there_and_not_on_who_came_first() {
        let usual = Setup::of_cluster(&ClusterPolicy::default());
        let heartbeat = Some(Duration::from_secs(9));
        let own = Setup { heartbeat, max_reply_len: 2000, connections: fixed(2), ..usual };
        let long_len = usual.long_len / 2;
        let further = Setup { max_reply_len: 9, connections: fixed(3), long_len, ..usual };
        let both = Setup { heartbeat, connections: fixed(2), ..usual };
        for [first, second] in [[usual, own], [own, usual]] {
            let shared = SharedSetup::new(first);
            let (one, other) = (shared.join(first), shared.join(second));
            assert_eq!(shared.now(), both);
            let third = shared.join(further);
            assert_eq!(shared.now(), Setup { connections: fixed(3), long_len, ..both });
            third.set(second);
            assert_eq!(shared.now(), both, "a reload changes it");
            drop((third, other));
            assert_eq!(shared.now(), first);
            drop(one);
            assert_eq!(shared.now(), first);
        }
    }
}
