//! What fuzz targets call.

use std::time::{Duration, Instant};

use bytes::BytesMut;

use crate::{Acl, Connection, Event, Identity, Request, Settings, Watcher};

/// Far more than a case has bytes.
const MAX_FRAME_LEN: usize = 1 << 20;

struct Nobody;

impl Watcher for Nobody {
    fn is_wanted(&self) -> bool {
        false
    }
}

/// What a hostile server can send. The first byte says how the rest is cut.
///
/// # Panics
/// If more answers come than were asked for.
pub fn server_bytes(data: &[u8], now: Instant) {
    let Some((&cut, data)) = data.split_first() else { return };
    let settings = Settings {
        session: None,
        session_timeout: Duration::from_secs(30),
        last_zxid: 0,
        identities: match cut & 1 {
            0 => Vec::new(),
            _ => vec![Identity { scheme: "digest".into(), secret: b"u:p".to_vec() }],
        },
        max_frame_len: MAX_FRAME_LEN,
        answer_timeout: Duration::from_secs(5),
    };
    let mut connection = Connection::<u32, Nobody>::new(settings, now);
    let (mut input, mut n_asked, mut n_answered) = (BytesMut::new(), 0, 0);
    for piece in data.chunks(usize::from(cut / 2).max(1)) {
        input.extend_from_slice(piece);
        if connection.handle_bytes(now, &mut input).is_err() {
            assert!(connection.broken().is_some());
            break;
        }
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Ready { .. } => {
                    for request in requests() {
                        n_asked += 1;
                        connection.send(request, n_asked, now);
                    }
                }
                Event::Answered { to, .. } => {
                    n_answered += 1;
                    assert_eq!(to, n_answered, "answers come in order");
                }
                Event::Expired | Event::Fired(_) => {}
            }
        }
        connection.handle_timeout(now);
        let _ = connection.poll_timeout();
        connection.transmit().clear();
    }
    assert!(n_answered <= n_asked);
}

fn requests() -> [Request<Nobody>; 7] {
    let path = || "/a".to_owned();
    let (data, acl) = (Vec::new(), Acl::Open);
    [
        Request::Children { path: path(), watcher: Some(Nobody) },
        Request::Exists { path: path(), watcher: Some(Nobody) },
        Request::Data { path: path(), watcher: Some(Nobody) },
        Request::Create { path: path(), data: data.clone(), acl, is_ephemeral: true },
        Request::SetData { path: path(), data: data.clone(), version: 0 },
        Request::TakeOver { path: path(), data, acl, version: 0 },
        Request::Delete { path: path(), version: 0 },
    ]
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests begin at some instant")]
mod tests {
    use proptest::prelude::*;

    proptest! {
        /// Whatever a server sends after a good handshake, nobody panics.
        #[test]
        fn any_bytes_are_taken(cut: u8, frames in prop::collection::vec(any::<Vec<u8>>(), 0..8)) {
            let mut data = vec![cut & 0xfe, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0x27, 0x10];
            data.extend([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 16]);
            data.extend([0; 16]);
            for (n, frame) in (1_i32..).zip(frames) {
                let len = u32::try_from(frame.len() + 16).unwrap();
                data.extend(len.to_be_bytes());
                data.extend(n.to_be_bytes());
                data.extend([0; 12]);
                data.extend(frame);
            }
            super::server_bytes(&data, std::time::Instant::now());
        }
    }
}
