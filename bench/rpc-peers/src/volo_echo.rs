//! The echo over volo's Thrift: multiplexed connections, one client for each.

use bytes::Bytes;
use tokio::net::TcpListener;
use volo::net::incoming::DefaultIncoming;
use volo_thrift::{ClientError, ServerError};

use crate::error::PeerError;
use crate::measure::Tally;
use crate::options::{ClientOptions, ServerOptions};
use crate::payload;
use crate::runtime::{Peer, announce, call_all, runtime};

mod generated {
    #![allow(warnings, unsafe_code, reason = "generated")]
    include!(concat!(env!("OUT_DIR"), "/volo_echo.rs"));
}
use generated::volo_echo::echo::{Echo, EchoClient, EchoClientBuilder, EchoServer};

struct Service;

impl Echo for Service {
    async fn echo(&self, payload: Bytes) -> Result<Bytes, ServerError> {
        Ok(payload::answer(payload))
    }
}

/// Serves until the process ends.
pub(crate) fn serve(options: &ServerOptions) -> Result<(), PeerError> {
    runtime(options.threads)?.block_on(async {
        let listener = TcpListener::bind(options.listen).await?;
        announce(listener.local_addr()?);
        let server = EchoServer::new(Service).multiplex(true);
        let served = server.run(DefaultIncoming::from(listener)).await;
        served.map_err(PeerError::library("volo"))
    })
}

/// Measures a server.
pub(crate) fn call(options: &ClientOptions) -> Result<Tally, PeerError> {
    runtime(options.threads)?.block_on(async {
        let connect = |_| {
            let client = EchoClientBuilder::new("echo").address(options.connect);
            client.multiplex(true).build()
        };
        let connections: Vec<_> = (0..options.connections).map(connect).collect();
        call_all(&connections, options).await
    })
}

impl Peer for EchoClient {
    type Error = ClientError;

    async fn call(&mut self, payload: Bytes) -> Result<Bytes, ClientError> {
        self.echo(payload).await
    }
}
