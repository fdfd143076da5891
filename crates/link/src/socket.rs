//! Opens and tunes sockets: those of [`wire`], and what a link's client adds to them.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
pub use wire::socket::{connect, listen};

use crate::client::{Address, ClientConfig, Dialer};

/// Connects to `address` as a [`Client`](crate::Client) of that configuration would: with its
/// timeout and its TLS, and counted in its traffic. For programs that [`drive`](crate::drive) a
/// connection themselves.
///
/// # Errors
/// The address is none ([`io::ErrorKind::InvalidInput`]); what the operating system or TLS says;
/// or that it took too long.
pub async fn dial(
    address: &Address,
    config: &ClientConfig,
) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + use<>> {
    let dialer = Dialer::new(address, config)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    dialer.connect(config.connect_timeout).await
}
