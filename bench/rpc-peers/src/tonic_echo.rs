//! The echo over gRPC: HTTP/2 in plain TCP, one channel per connection.

use bytes::Bytes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use crate::error::PeerError;
use crate::measure::Tally;
use crate::options::{ClientOptions, ServerOptions};
use crate::payload;
use crate::runtime::{Peer, announce, call_all, runtime};

mod generated {
    tonic::include_proto!("bench.Echo");
}
use generated::echo_client::EchoClient;
use generated::echo_server::{Echo, EchoServer};

const NAME: &str = "tonic";

/// Request and response.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Payload {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) payload: Bytes,
}

struct Service;

#[tonic::async_trait]
impl Echo for Service {
    async fn echo(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let payload = payload::answer(request.into_inner().payload);
        Ok(Response::new(Payload { payload }))
    }
}

/// Serves until the process ends.
pub(crate) fn serve(options: &ServerOptions) -> Result<(), PeerError> {
    runtime(options.threads)?.block_on(async {
        let incoming = TcpIncoming::bind(options.listen)?.with_nodelay(Some(true));
        announce(incoming.local_addr()?);
        // Its own limit is 200 calls in flight.
        let mut server = Server::builder().max_concurrent_streams(u32::MAX);
        let router = server.add_service(EchoServer::new(Service));
        router.serve_with_incoming(incoming).await.map_err(PeerError::library(NAME))
    })
}

/// Measures a server.
pub(crate) fn call(options: &ClientOptions) -> Result<Tally, PeerError> {
    runtime(options.threads)?.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{}", options.connect));
        let endpoint = endpoint.map_err(PeerError::library(NAME))?.tcp_nodelay(true);
        // Requests that wait for the connection's task, 1024 unless set.
        let endpoint = endpoint.buffer_size(options.concurrency.max(1024));
        let mut connections = Vec::new();
        for _ in 0..options.connections {
            let channel = endpoint.connect().await.map_err(PeerError::library(NAME))?;
            connections.push(EchoClient::new(channel));
        }
        call_all(&connections, options).await
    })
}

impl Peer for EchoClient<Channel> {
    type Error = Status;

    async fn call(&mut self, payload: Bytes) -> Result<Bytes, Status> {
        Ok(self.echo(Payload { payload }).await?.into_inner().payload)
    }
}
