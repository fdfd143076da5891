//! How full a connection's packets are: what is written and read at a time, in how many segments
//! the kernel sends it, and what compression saves.

use std::sync::atomic::{AtomicU64, Ordering};

use link_proto::{Connection, features};
use std::time::Duration;
use wire::TcpInfo;

/// How what a connection carries is compressed. A client asks for it, and a server allows it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// By LZ4: fast, and good for text that repeats itself. Data that does not get smaller is left
    /// alone.
    Lz4,
}

impl Compression {
    /// What is told to the peer.
    pub(crate) fn features(self) -> u64 {
        match self {
            Self::None => features::STREAMS,
            Self::Lz4 => features::STREAMS | features::LZ4,
        }
    }
}

/// Adds up what goes through all connections that it is given to, by [`ClientConfig::traffic`] or
/// [`ServerConfig::traffic`]. Connections with TLS are not counted.
///
/// [`ClientConfig::traffic`]: crate::ClientConfig::traffic
/// [`ServerConfig::traffic`]: crate::ServerConfig::traffic
#[derive(Debug, Default)]
pub struct Traffic {
    n_writes: AtomicU64,
    written_bytes: AtomicU64,
    n_reads: AtomicU64,
    read_bytes: AtomicU64,
    n_segments_out: AtomicU64,
    n_segments_in: AtomicU64,
    n_compressing: AtomicU64,
    raw_out_bytes: AtomicU64,
    packed_out_bytes: AtomicU64,
    raw_in_bytes: AtomicU64,
    packed_in_bytes: AtomicU64,
    compression_ns: AtomicU64,
}

/// What a [`Traffic`] has added up.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TrafficTotals {
    /// Writes to sockets.
    pub n_writes: u64,
    /// What they have taken.
    pub written_bytes: u64,
    /// Reads from sockets that gave something.
    pub n_reads: u64,
    /// What they gave.
    pub read_bytes: u64,
    /// Segments with data, sent and sent again, of connections that have ended: `TCP_INFO` is
    /// looked at last. 0 where the operating system does not tell.
    pub n_segments_out: u64,
    /// Segments with data that have come, as the kernel's offloading merged them.
    pub n_segments_in: u64,
    /// Connections that have ended and on which both sides compressed; also those with TLS, as in
    /// what follows.
    pub n_compressing: u64,
    /// Bytes that were compressed before they were sent.
    pub raw_out_bytes: u64,
    /// What was sent for them.
    pub packed_out_bytes: u64,
    /// Bytes that came compressed, and what they were when unpacked.
    pub packed_in_bytes: u64,
    /// See `packed_in_bytes`.
    pub raw_in_bytes: u64,
    /// CPU time for compressing and unpacking. 0 where the operating system does not tell.
    pub compression_cpu: Duration,
}

impl Traffic {
    /// What has been added up so far.
    pub fn totals(&self) -> TrafficTotals {
        let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TrafficTotals {
            n_writes: value(&self.n_writes),
            written_bytes: value(&self.written_bytes),
            n_reads: value(&self.n_reads),
            read_bytes: value(&self.read_bytes),
            n_segments_out: value(&self.n_segments_out),
            n_segments_in: value(&self.n_segments_in),
            n_compressing: value(&self.n_compressing),
            raw_out_bytes: value(&self.raw_out_bytes),
            packed_out_bytes: value(&self.packed_out_bytes),
            packed_in_bytes: value(&self.packed_in_bytes),
            raw_in_bytes: value(&self.raw_in_bytes),
            compression_cpu: Duration::from_nanos(value(&self.compression_ns)),
        }
    }

    pub(crate) fn count_write(&self, len: usize) {
        self.n_writes.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(len as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_read(&self, len: usize) {
        self.n_reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(len as u64, Ordering::Relaxed);
    }

    /// The CPU time of the thread that asks.
    pub(crate) const CPU_CLOCK: Option<fn() -> Duration> = kernel::CPU_CLOCK;

    /// Adds what compression did on a link that is over. For programs that [`drive`](crate::drive)
    /// a connection themselves.
    pub fn count_link<T>(&self, link: &Connection<T>) {
        let Some(done) = link.compression() else { return };
        for (sum, n) in [
            (&self.n_compressing, 1),
            (&self.raw_out_bytes, done.raw_out_bytes),
            (&self.packed_out_bytes, done.packed_out_bytes),
            (&self.packed_in_bytes, done.packed_in_bytes),
            (&self.raw_in_bytes, done.raw_in_bytes),
            (&self.compression_ns, u64::try_from(done.cpu.as_nanos()).unwrap_or(u64::MAX)),
        ] {
            sum.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Adds what the kernel says of a connection that is about to be closed.
    pub(crate) fn count_segments(&self, info: Option<TcpInfo>) {
        let Some(info) = info else { return };
        let both = info.data_segments_in().zip(info.data_segments_out());
        let Some((n_in, n_out)) = both else { return };
        self.n_segments_in.fetch_add(n_in.into(), Ordering::Relaxed);
        self.n_segments_out.fetch_add(n_out.into(), Ordering::Relaxed);
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use nix::time::ClockId;
    use std::time::Duration;

    pub(super) const CPU_CLOCK: Option<fn() -> Duration> =
        Some(|| ClockId::CLOCK_THREAD_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from));
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    pub(super) const CPU_CLOCK: Option<fn() -> std::time::Duration> = None;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn the_kernel_tells_segments() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut other, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            one.write_all(b"abc").await.unwrap();
            other.read_exact(&mut [0; 3]).await.unwrap();
        }
        let (out, back) = (Traffic::default(), Traffic::default());
        out.count_segments(TcpInfo::of(&one));
        back.count_segments(TcpInfo::of(&other));
        assert_eq!((out.totals().n_segments_out, out.totals().n_segments_in), (3, 0));
        assert_eq!((back.totals().n_segments_out, back.totals().n_segments_in), (0, 3));
    }
}
