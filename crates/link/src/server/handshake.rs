//! What comes before the link's own handshake: TLS, if the server is set to it.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use tokio::sync::watch;
use wire::Connection;

use super::{Peer, Shared};
use crate::link_stream::LinkStream;

/// Stands for the address of a client that has none.
const NO_ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// Makes a client's connection ready for the link. `None` if it cannot be, which is logged and
/// counted, or if the server leaves meanwhile.
#[cfg(feature = "tls")]
pub(super) async fn shake(
    shared: &Shared,
    stream: Connection,
    mut leaving: watch::Receiver<bool>,
) -> Option<(LinkStream, Peer)> {
    let address = stream.facts().peer.tcp().unwrap_or(NO_ADDRESS);
    let Some(tls) = &shared.config.tls else {
        return Some((ready(shared, stream), Peer::new(address)));
    };
    let shaking = async {
        let accepting = tls.0.accept(stream);
        match tokio::time::timeout(shared.config.handshake_timeout, accepting).await {
            Ok(Ok((stream, identity))) => {
                let identity = identity.map(std::sync::Arc::new);
                return Some((ready(shared, stream), Peer { identity, ..Peer::new(address) }));
            }
            Ok(Err(refused)) => {
                note_failure(shared, address, &refused.reason);
                let _ = refused.linger().await;
            }
            Err(_) => note_failure(shared, address, &"the client took too long"),
        }
        None
    };
    tokio::select! {
        shaken = shaking => shaken,
        _ = leaving.wait_for(|leaving| *leaving) => None,
    }
}

#[cfg(feature = "tls")]
fn note_failure(shared: &Shared, client: SocketAddr, reason: &dyn std::fmt::Display) {
    shared.n_failed_handshakes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    tracing::debug!(%client, %reason, "TLS handshake failed");
}

/// Without TLS there is nothing to do.
#[cfg(not(feature = "tls"))]
pub(super) async fn shake(
    shared: &Shared,
    stream: Connection,
    _: watch::Receiver<bool>,
) -> Option<(LinkStream, Peer)> {
    let peer = Peer::new(stream.facts().peer.tcp().unwrap_or(NO_ADDRESS));
    Some((ready(shared, stream), peer))
}

fn ready(shared: &Shared, stream: Connection) -> LinkStream {
    LinkStream::new(stream, shared.config.traffic.clone())
}
