//! What is known of a socket at one moment.

use std::fmt;
use std::net::SocketAddr;

use agent::inspect::snapshot::TcpSnapshot;
use wire::TcpInfo;

/// A connection, as one side of it sees it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SocketId {
    /// The address of the side that was looked at.
    pub local: SocketAddr,
    /// The other side.
    pub remote: SocketAddr,
}

impl SocketId {
    /// The same connection, seen from the other side.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { local: self.remote, remote: self.local }
    }
}

/// `10.0.0.5:41234 -> 10.0.0.7:20880`.
impl fmt::Display for SocketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.local, self.remote)
    }
}

/// Which side opened a connection.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// This one: it calls.
    Client,
    /// The other one: this one listens at its port.
    Server,
}

/// A socket and its figures.
#[derive(Clone, Debug)]
pub struct Socket {
    /// Which connection it is.
    pub id: SocketId,
    /// The number by which processes hold it; 0 if none does.
    pub inode: u64,
    /// Its figures.
    pub figures: Figures,
}

/// The figures of a socket. Sums count from when the connection was opened. What nobody says is
/// `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Bytes that have come, and that the process has not read.
    pub unread_bytes: Option<u64>,
    /// Bytes that the process has written, and the peer has not acknowledged.
    pub unacked_bytes: Option<u64>,
    /// Those of them that were not sent yet.
    pub not_sent_bytes: Option<u64>,
    /// Bytes that the peer has acknowledged.
    pub acked_bytes: Option<u64>,
    /// Bytes that came.
    pub received_bytes: Option<u64>,
    /// Segments with data that were sent.
    pub segments_out: Option<u64>,
    /// Segments that were sent again.
    pub retransmits: Option<u64>,
    /// Segments that the peer got twice, as far as it says so.
    pub duplicates: Option<u64>,
    /// How long there was something to be sent or acknowledged, in microseconds.
    pub busy_us: Option<u64>,
    /// How long of that the peer's receive window was full, in microseconds.
    pub window_limited_us: Option<u64>,
    /// How long of that the send buffer was too small, in microseconds.
    pub buffer_limited_us: Option<u64>,
    /// The smoothed round-trip time, in microseconds.
    pub rtt_us: Option<u32>,
    /// The shortest round trip lately, in microseconds.
    pub min_rtt_us: Option<u32>,
    /// How fast the peer got what was sent lately, in bytes per second.
    pub delivery_rate: Option<u64>,
    /// Whether that was limited by how much there was to be sent.
    pub is_app_limited: Option<bool>,
    /// The size of the send buffer, in bytes, as the kernel accounts it.
    pub send_buffer_bytes: Option<u64>,
    /// Whether the peer has said that it sends no more.
    pub is_closed_by_peer: bool,
}

impl Figures {
    /// What the kernel says of a connection.
    #[must_use]
    pub fn of(info: &TcpInfo) -> Self {
        Self {
            not_sent_bytes: info.not_sent_bytes().map(u64::from),
            acked_bytes: info.acked_bytes(),
            received_bytes: info.received_bytes(),
            segments_out: info.data_segments_out().map(u64::from),
            retransmits: info.retransmits().map(u64::from),
            duplicates: info.duplicates().map(u64::from),
            busy_us: info.busy_us(),
            window_limited_us: info.window_limited_us(),
            buffer_limited_us: info.buffer_limited_us(),
            rtt_us: info.rtt_us(),
            min_rtt_us: info.min_rtt_us(),
            delivery_rate: info.delivery_rate(),
            is_app_limited: info.is_app_limited(),
            ..Self::default()
        }
    }
}

/// The same from an agent's page of connections, which does not say what is unread.
impl From<&TcpSnapshot> for Figures {
    fn from(tcp: &TcpSnapshot) -> Self {
        Self {
            not_sent_bytes: tcp.not_sent_bytes.map(u64::from),
            acked_bytes: tcp.acked_bytes,
            received_bytes: tcp.received_bytes,
            segments_out: tcp.segments_out.map(u64::from),
            retransmits: tcp.retransmits.map(u64::from),
            duplicates: tcp.duplicates.map(u64::from),
            busy_us: tcp.busy_us,
            window_limited_us: tcp.window_limited_us,
            buffer_limited_us: tcp.buffer_limited_us,
            rtt_us: tcp.rtt_us,
            min_rtt_us: tcp.min_rtt_us,
            delivery_rate: tcp.delivery_rate,
            is_app_limited: tcp.is_app_limited,
            ..Self::default()
        }
    }
}
