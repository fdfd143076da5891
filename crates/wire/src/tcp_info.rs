//! What the kernel knows of a TCP connection.
//!
//! The kernel's `struct tcp_info` grows from version to version, and a kernel gives as much of it as
//! it has. So it is read into zeroed bytes, together with how many the kernel gave, and a figure
//! that lies beyond them is not there.

use tokio::net::TcpStream;

/// Room for `struct tcp_info` of `linux/tcp.h`: 248 bytes in Linux 6.8, 104 in Linux 3.10.
const MAX_LEN: usize = 512;

/// Offsets of fields, which the kernel never moves.
const DATA_SEGS_IN: usize = 152;
const DATA_SEGS_OUT: usize = 156;

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
        let mut info = Self { bytes: [0; MAX_LEN], len: 0 };
        info.len = kernel::read(stream, &mut info.bytes)?;
        Some(info)
    }

    /// Segments with data that came in; since Linux 4.6.
    #[must_use]
    pub fn data_segments_in(&self) -> Option<u32> {
        self.u32_at(DATA_SEGS_IN)
    }

    /// Segments with data that went out; since Linux 4.6.
    #[must_use]
    pub fn data_segments_out(&self) -> Option<u32> {
        self.u32_at(DATA_SEGS_OUT)
    }

    fn u32_at(&self, offset: usize) -> Option<u32> {
        let given = self.bytes.get(..self.len)?;
        given.get(offset..)?.first_chunk().copied().map(u32::from_ne_bytes)
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::os::fd::AsRawFd;

    use nix::libc;
    use tokio::net::TcpStream;

    /// Reads the head of `struct tcp_info` into `into`. Gives how many bytes the kernel wrote.
    #[expect(unsafe_code, reason = "no safe wrapper reads an option of a length unknown before")]
    pub(super) fn read(stream: &TcpStream, into: &mut [u8]) -> Option<usize> {
        let mut len = libc::socklen_t::try_from(into.len()).ok()?;
        // SAFETY: `into` is exclusively borrowed and valid for writes of `len` bytes, the kernel
        // writes no more than `len` says and stores in it how many it wrote, any bytes are valid
        // in a slice of `u8`, and the descriptor is open as long as `stream` is borrowed.
        let status = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
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
    use tokio::net::TcpStream;

    /// Nothing tells.
    pub(super) fn read(_: &TcpStream, _: &mut [u8]) -> Option<usize> {
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
        assert!(DATA_SEGS_OUT + 4 <= info.len && info.len <= MAX_LEN, "{} bytes", info.len);
        assert_eq!((info.data_segments_in(), info.data_segments_out()), (Some(0), Some(0)));
        assert!(info.bytes[info.len..].iter().all(|byte| *byte == 0));
    }

    #[tokio::test]
    async fn less_room_is_no_failure() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        for room in [0, 1, 104, 158, 168] {
            let mut bytes = [0; MAX_LEN];
            assert_eq!(kernel::read(&stream, &mut bytes[..room]), Some(room));
        }
    }

    #[test]
    fn an_old_kernel_has_fewer_figures() {
        let info = |len| TcpInfo { bytes: [1; MAX_LEN], len };
        assert_eq!(info(104).data_segments_in(), None);
        assert_eq!(
            (info(156).data_segments_in(), info(156).data_segments_out()),
            (Some(0x0101_0101), None)
        );
        assert_eq!(info(159).data_segments_out(), None);
        assert_eq!(info(160).data_segments_out(), Some(0x0101_0101));
    }
}
