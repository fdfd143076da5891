//! A gRPC channel on one connection of ours, which is never made anew behind our back.

use std::sync::Mutex;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint, Uri};
use wire::Destination;

/// Connects, and speaks HTTP/2. TLS is the connection's.
pub(super) async fn connect(
    destination: Destination,
    connect_timeout: Duration,
) -> Result<Channel, tonic::transport::Error> {
    let once = Mutex::new(Some(destination));
    let connector = tower::service_fn(move |_: Uri| {
        let destination = once.lock().ok().and_then(|mut once| once.take());
        async move {
            let again = || std::io::Error::other("the connection was lost");
            let destination = destination.ok_or_else(again)?;
            destination.connect("nacos", connect_timeout).await.map(TokioIo::new)
        }
    });
    // The name goes into the header `:authority`, which Nacos does not read.
    Endpoint::from_static("http://nacos").connect_with_connector(connector).await
}
