//! The echo over tarpc: TCP, frames with a length in front, bincode.

use bytes::Bytes;
use futures_util::StreamExt;
use tarpc::client::{self, RpcError};
use tarpc::context::{self, Context};
use tarpc::serde_transport;
use tarpc::server::{self, BaseChannel, Channel};
use tokio::net::{TcpListener, TcpStream};
use tokio_serde::formats::Bincode;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::error::PeerError;
use crate::measure::Tally;
use crate::options::{ClientOptions, ServerOptions};
use crate::payload;
use crate::runtime::{Peer, announce, call_all, runtime};

/// Its own limit is 100 responses that wait for the connection's task.
const RESPONSE_BUFFER: usize = 4096;

#[tarpc::service]
trait Echo {
    async fn echo(payload: Bytes) -> Bytes;
}

#[derive(Clone)]
struct Service;

impl Echo for Service {
    async fn echo(self, _: Context, payload: Bytes) -> Bytes {
        payload::answer(payload)
    }
}

/// Serves until the process ends.
pub(crate) fn serve(options: &ServerOptions) -> Result<(), PeerError> {
    runtime(options.threads)?.block_on(async {
        let listener = TcpListener::bind(options.listen).await?;
        announce(listener.local_addr()?);
        loop {
            let framed = framed(listener.accept().await?.0)?;
            let transport = serde_transport::new(framed, Bincode::default());
            let config = server::Config { pending_response_buffer: RESPONSE_BUFFER };
            let requests = BaseChannel::new(config, transport).execute(Service.serve());
            tokio::spawn(requests.for_each(|call| async {
                tokio::spawn(call);
            }));
        }
    })
}

/// Measures a server.
pub(crate) fn call(options: &ClientOptions) -> Result<Tally, PeerError> {
    runtime(options.threads)?.block_on(async {
        let mut connections = Vec::new();
        for _ in 0..options.connections {
            let framed = framed(TcpStream::connect(options.connect).await?)?;
            let transport = serde_transport::new(framed, Bincode::default());
            // The limits are 1000 calls in flight and 100 that wait for the connection's task.
            let mut config = client::Config::default();
            config.max_in_flight_requests = config.max_in_flight_requests.max(options.concurrency);
            config.pending_request_buffer = config.pending_request_buffer.max(options.concurrency);
            connections.push(EchoClient::new(config, transport).spawn());
        }
        call_all(&connections, options).await
    })
}

fn framed(stream: TcpStream) -> Result<Framed<TcpStream, LengthDelimitedCodec>, PeerError> {
    stream.set_nodelay(true)?;
    Ok(Framed::new(stream, LengthDelimitedCodec::new()))
}

impl Peer for EchoClient {
    type Error = RpcError;

    async fn call(&mut self, payload: Bytes) -> Result<Bytes, RpcError> {
        self.echo(context::current(), payload).await
    }
}
