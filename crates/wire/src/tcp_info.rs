//! What the kernel knows of a TCP connection.
//!
//! The kernel's `struct tcp_info` grows from version to version, and a kernel gives as much of it
//! as it has. So it is read into zeroed bytes, together with how many the kernel gave, and a
//! figure that lies beyond them is not there.

use std::os::fd::{AsRawFd, RawFd};

use tokio::net::TcpStream;

/// Room for `struct tcp_info` of `linux/tcp.h`: 248 bytes in Linux 6.8, 104 in Linux 3.10.
const MAX_LEN: usize = 512;

/// Offsets of fields, which the kernel never moves. Source: `struct tcp_info` of `linux/tcp.h`.
mod offset {
    pub(super) const APP_LIMITED_BIT: usize = 7;
    pub(super) const SND_MSS: usize = 16;
    pub(super) const UNACKED: usize = 24;
    pub(super) const RTT: usize = 68;
    pub(super) const RTTVAR: usize = 72;
    pub(super) const SND_CWND: usize = 80;
    pub(super) const TOTAL_RETRANS: usize = 100;
    pub(super) const BYTES_ACKED: usize = 120;
    pub(super) const BYTES_RECEIVED: usize = 128;
    pub(super) const NOTSENT_BYTES: usize = 144;
    pub(super) const MIN_RTT: usize = 148;
    pub(super) const DATA_SEGS_IN: usize = 152;
    pub(super) const DATA_SEGS_OUT: usize = 156;
    pub(super) const DELIVERY_RATE: usize = 160;
    pub(super) const BUSY_TIME: usize = 168;
    pub(super) const RWND_LIMITED: usize = 176;
    pub(super) const SNDBUF_LIMITED: usize = 184;
    pub(super) const DSACK_DUPS: usize = 216;
}

/// The kernel's figures of one connection at one moment.
#[derive(Clone, Debug)]
pub struct TcpInfo {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl TcpInfo {
    /// Asks the kernel. `None` where it does not tell.
    #[must_use]
    pub fn of(stream: &TcpStream) -> Option<Self> {
        Self::of_socket(stream.as_raw_fd())
    }

    /// What the kernel has given somewhere else, such as for a socket of another process.
    #[must_use]
    pub fn from_bytes(given: &[u8]) -> Self {
        let mut info = Self { bytes: [0; MAX_LEN], len: given.len().min(MAX_LEN) };
        info.bytes[..info.len].copy_from_slice(&given[..info.len]);
        info
    }

    /// The same by the number of an open TCP socket.
    pub(crate) fn of_socket(socket: RawFd) -> Option<Self> {
        let mut info = Self { bytes: [0; MAX_LEN], len: 0 };
        info.len = kernel::read(socket, &mut info.bytes)?;
        Some(info)
    }

    /// The smoothed round-trip time, in microseconds. `None` until it was measured.
    #[must_use]
    pub fn rtt_us(&self) -> Option<u32> {
        self.u32_at(offset::RTT).filter(|us| *us != 0)
    }

    /// How much the round-trip time varies, in microseconds. `None` until it was measured.
    #[must_use]
    pub fn rtt_deviation_us(&self) -> Option<u32> {
        self.rtt_us().and(self.u32_at(offset::RTTVAR))
    }

    /// The shortest round trip lately, in microseconds; since Linux 4.6. `None` until it was
    /// measured.
    #[must_use]
    pub fn min_rtt_us(&self) -> Option<u32> {
        self.u32_at(offset::MIN_RTT).filter(|us| *us != u32::MAX)
    }

    /// Segments that were sent again, over the connection's life.
    #[must_use]
    pub fn retransmits(&self) -> Option<u32> {
        self.u32_at(offset::TOTAL_RETRANS)
    }

    /// Segments that the peer got twice, as far as it has said so (DSACK, RFC 2883), over the
    /// connection's life; since Linux 4.19. What was sent again had not been lost then, but late.
    #[must_use]
    pub fn duplicates(&self) -> Option<u32> {
        self.u32_at(offset::DSACK_DUPS)
    }

    /// The congestion window: how many segments may be under way.
    #[must_use]
    pub fn cwnd_segments(&self) -> Option<u32> {
        self.u32_at(offset::SND_CWND)
    }

    /// The longest segment that is sent, in bytes.
    #[must_use]
    pub fn mss_bytes(&self) -> Option<u32> {
        self.u32_at(offset::SND_MSS)
    }

    /// Segments that were sent and not acknowledged yet.
    #[must_use]
    pub fn unacked_segments(&self) -> Option<u32> {
        self.u32_at(offset::UNACKED)
    }

    /// Bytes that wait in the socket and were not sent yet; since Linux 4.6.
    #[must_use]
    pub fn not_sent_bytes(&self) -> Option<u32> {
        self.u32_at(offset::NOTSENT_BYTES)
    }

    /// How fast the peer got what was sent lately, in bytes per second; since Linux 4.9. `None`
    /// until it was measured.
    #[must_use]
    pub fn delivery_rate(&self) -> Option<u64> {
        self.at(offset::DELIVERY_RATE).map(u64::from_ne_bytes).filter(|rate| *rate != 0)
    }

    /// Whether [`TcpInfo::delivery_rate`] was limited by how much there was to be sent; since
    /// Linux 4.9.
    #[must_use]
    pub fn is_app_limited(&self) -> Option<bool> {
        // The bit came together with the rate.
        self.delivery_rate()?;
        self.at(offset::APP_LIMITED_BIT).map(|[bits]| bits & 1 == 1)
    }

    /// Bytes that the peer has acknowledged, over the connection's life; since Linux 4.1.
    #[must_use]
    pub fn acked_bytes(&self) -> Option<u64> {
        self.u64_at(offset::BYTES_ACKED)
    }

    /// Bytes that came in, over the connection's life; since Linux 4.1.
    #[must_use]
    pub fn received_bytes(&self) -> Option<u64> {
        self.u64_at(offset::BYTES_RECEIVED)
    }

    /// How long there was something to be sent or acknowledged, over the connection's life, in
    /// microseconds; since Linux 4.10.
    #[must_use]
    pub fn busy_us(&self) -> Option<u64> {
        self.u64_at(offset::BUSY_TIME)
    }

    /// How long of that the peer's receive window was full, in microseconds; since Linux 4.10.
    #[must_use]
    pub fn window_limited_us(&self) -> Option<u64> {
        self.u64_at(offset::RWND_LIMITED)
    }

    /// How long of that the socket's own send buffer was too small, in microseconds; since Linux
    /// 4.10.
    #[must_use]
    pub fn buffer_limited_us(&self) -> Option<u64> {
        self.u64_at(offset::SNDBUF_LIMITED)
    }

    /// Segments with data that came in; since Linux 4.6.
    #[must_use]
    pub fn data_segments_in(&self) -> Option<u32> {
        self.u32_at(offset::DATA_SEGS_IN)
    }

    /// Segments with data that went out; since Linux 4.6.
    #[must_use]
    pub fn data_segments_out(&self) -> Option<u32> {
        self.u32_at(offset::DATA_SEGS_OUT)
    }

    fn u32_at(&self, offset: usize) -> Option<u32> {
        self.at(offset).map(u32::from_ne_bytes)
    }

    fn u64_at(&self, offset: usize) -> Option<u64> {
        self.at(offset).map(u64::from_ne_bytes)
    }

    /// A field, if the kernel has given all of it.
    fn at<const LEN: usize>(&self, offset: usize) -> Option<[u8; LEN]> {
        let given = self.bytes.get(..self.len)?;
        given.get(offset..)?.first_chunk().copied()
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::os::fd::RawFd;

    use nix::libc;

    /// Reads the head of `struct tcp_info` into `into`. Gives how many bytes the kernel wrote.
    #[expect(unsafe_code, reason = "no safe wrapper reads an option of a length unknown before")]
    pub(super) fn read(socket: RawFd, into: &mut [u8]) -> Option<usize> {
        let mut len = libc::socklen_t::try_from(into.len()).ok()?;
        // SAFETY: `into` is exclusively borrowed and valid for writes of `len` bytes, the kernel
        // writes no more than `len` says and stores in it how many it wrote, any bytes are valid
        // in a slice of `u8`, and the kernel refuses a number that is no open socket.
        let status = unsafe {
            libc::getsockopt(
                socket,
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                into.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        (status == 0).then(|| usize::try_from(len).unwrap_or(0).min(into.len()))
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::os::fd::RawFd;

    /// Nothing tells.
    pub(super) fn read(_: RawFd, _: &mut [u8]) -> Option<usize> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_gives_what_it_has() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let info = TcpInfo::of(&stream).unwrap();
        assert!(offset::DATA_SEGS_OUT + 4 <= info.len && info.len <= MAX_LEN, "{} bytes", info.len);
        assert_eq!((info.data_segments_in(), info.data_segments_out()), (Some(0), Some(0)));
        assert!(info.bytes[info.len..].iter().all(|byte| *byte == 0));
    }

    #[tokio::test]
    async fn less_room_is_no_failure() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        for room in [0, 1, 104, 158, 168] {
            let mut bytes = [0; MAX_LEN];
            assert_eq!(kernel::read(stream.as_raw_fd(), &mut bytes[..room]), Some(room));
        }
    }

    #[tokio::test]
    async fn what_is_no_tcp_socket_has_no_figures() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(TcpInfo::of_socket(file.as_raw_fd()).is_none());
        assert!(TcpInfo::of_socket(-1).is_none());
    }

    #[test]
    fn what_was_given_elsewhere_is_read_the_same_way() {
        let info = TcpInfo::from_bytes(&[2; 1000]);
        assert_eq!((info.len, info.acked_bytes()), (MAX_LEN, Some(0x0202_0202_0202_0202)));
        let short = TcpInfo::from_bytes(&[2; 130]);
        assert_eq!((short.acked_bytes().is_some(), short.received_bytes()), (true, None));
        assert_eq!(TcpInfo::from_bytes(&[]).rtt_us(), None);
    }

    #[tokio::test]
    async fn what_was_never_measured_is_absent() {
        let info = TcpInfo { bytes: [0; MAX_LEN], len: MAX_LEN };
        assert_eq!(
            (info.rtt_us(), info.rtt_deviation_us(), info.delivery_rate()),
            (None, None, None)
        );
        let info = TcpInfo { bytes: [0xff; MAX_LEN], len: MAX_LEN };
        assert_eq!(info.min_rtt_us(), None);
    }

    #[test]
    fn an_old_kernel_has_fewer_figures() {
        let info = |len| TcpInfo { bytes: [1; MAX_LEN], len };
        assert_eq!(info(104).data_segments_in(), None);
        assert_eq!((info(104).retransmits(), info(103).retransmits()), (Some(0x0101_0101), None));
        assert_eq!((info(104).min_rtt_us(), info(104).not_sent_bytes()), (None, None));
        assert_eq!(info(167).delivery_rate(), None);
        assert_eq!(info(168).delivery_rate(), Some(0x0101_0101_0101_0101));
        assert_eq!(
            (info(156).data_segments_in(), info(156).data_segments_out()),
            (Some(0x0101_0101), None)
        );
        assert_eq!(info(159).data_segments_out(), None);
        assert_eq!(info(160).data_segments_out(), Some(0x0101_0101));
        assert_eq!((info(175).busy_us(), info(176).window_limited_us()), (None, None));
        assert_eq!((info(191).buffer_limited_us(), info(167).is_app_limited()), (None, None));
        assert_eq!(info(192).buffer_limited_us(), Some(0x0101_0101_0101_0101));
        assert_eq!(info(192).is_app_limited(), Some(true));
        assert_eq!((info(219).duplicates(), info(220).duplicates()), (None, Some(0x0101_0101)));
    }
}
