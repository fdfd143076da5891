//! Calls to a Dubbo provider over Dubbo TCP.

use std::rc::Rc;
use std::time::Instant;

use dubbo_proto::{
    ClientConfig, ClientConnection, ClientEvent, ProtoError, Reply as DubboReply, SendError,
    Serialization, Status,
};
use link::{Conn, Machine};
use tokio::sync::oneshot;
use tracing::{debug, info};

use super::{Arguments, Peer, Request, Setup, Upstream};
use crate::call::{Outcome, Reply, ReplyTo, wait};
use crate::error::{CallError, Code};
use crate::scratch::Scratch;

/// The protocol's side of one Dubbo endpoint.
pub struct DubboPeer {
    address: Rc<str>,
    max_in_flight: u32,
    scratch: Scratch,
}

/// [`ClientConnection`] as the driver sees it.
pub struct DubboClient(pub ClientConnection<ReplyTo>);

impl Machine for DubboClient {
    type Event = ClientEvent<ReplyTo>;
    type Error = dubbo_proto::ProtoError;

    fn handle_bytes(
        &mut self,
        now: Instant,
        input: &mut bytes::BytesMut,
    ) -> Result<(), Self::Error> {
        self.0.handle_bytes(now, input)
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<Self::Event> {
        self.0.poll_event()
    }
    fn transmit(&mut self) -> &mut bytes::BytesMut {
        self.0.transmit()
    }
    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl DubboPeer {
    /// The endpoint at `address`.
    pub fn new(address: &str, setup: Setup) -> Self {
        Self {
            address: address.into(),
            max_in_flight: setup.max_in_flight,
            scratch: Scratch::default(),
        }
    }

    fn outcome(&self, status: Status, serialization: Serialization, body: bytes::Bytes) -> Outcome {
        if status == Status::Ok {
            let endpoint = Rc::clone(&self.address);
            return Ok(Reply { serialization, body, endpoint, is_json_text: false });
        }
        let error = match DubboReply::decode(serialization, status, &body) {
            Ok(DubboReply::Failed { status, text }) => CallError::from_provider(status, &text),
            // Only a reply of status OK is anything else.
            Ok(DubboReply::Done(_)) | Err(_) => CallError::from_provider(status, ""),
        };
        Err(error.at(&self.address))
    }
}

impl Peer for DubboPeer {
    type Machine = DubboClient;

    fn machine(&self, now: Instant) -> DubboClient {
        let config =
            ClientConfig { max_in_flight: self.max_in_flight as usize, ..ClientConfig::default() };
        DubboClient(ClientConnection::new(config, now))
    }

    fn is_ready(machine: &DubboClient) -> bool {
        machine.0.is_accepting()
    }

    fn on_event(&self, event: ClientEvent<ReplyTo>) {
        match event {
            ClientEvent::Reply { token, status, serialization, body } => {
                token.complete(self.outcome(status, serialization, body));
            }
            ClientEvent::Expired { token } => {
                let error = CallError::new(Code::Timeout, "no answer before the deadline");
                token.complete(Err(error.at(&self.address)));
            }
            ClientEvent::TooLong { token, len, max } => {
                let message = format!("a reply of {len} bytes is over the limit of {max}");
                let error = CallError::new(Code::ReplyTooLarge, message);
                token.complete(Err(error.at(&self.address)));
            }
            ClientEvent::ReadOnly => info!(endpoint = %self.address, "provider is leaving"),
            ClientEvent::Writeable => info!(endpoint = %self.address, "provider is back"),
            other => debug!(endpoint = %self.address, event = ?other),
        }
    }

    fn on_end(&self, conn: &Conn<DubboClient>, error: &CallError) {
        let pending: Vec<ReplyTo> = conn.with(|machine| machine.0.drain_pending().collect());
        for token in pending {
            token.complete(Err(error.clone()));
        }
    }

    fn close(machine: &mut DubboClient, _: Instant) {
        machine.0.close();
    }
}

/// Makes a call and waits for its outcome.
pub async fn call<A: Arguments>(
    upstream: &Upstream<DubboPeer>,
    request: &Request<'_, A>,
    serialization: Serialization,
) -> Outcome {
    let mut now = request.now;
    let conn = match upstream.conn() {
        Ok(conn) => conn,
        Err(_) => {
            let conn = upstream.connected(request.deadline).await?;
            now = Instant::now();
            conn
        }
    };
    let template = request.route.template(serialization)?;
    let (task, outcome) = oneshot::channel();
    let id = upstream.peer().scratch.with(|args| {
        request.args.encode(request.route, serialization, args)?;
        let (attachments, to) = (request.attachments, ReplyTo::Task(task));
        conn.with(|machine| machine.0.send(now, template, args, attachments, request.deadline, to))
            .map_err(|(_, error)| refused(&error).at(upstream.address()))
    })?;
    // A caller that goes away frees its place in the table of pending calls.
    wait(outcome, || drop(conn.with(|machine| machine.0.cancel(id)))).await
}

/// The failure of a call that could not be sent: nothing has been begun.
pub fn refused(error: &SendError) -> CallError {
    let code = match error {
        SendError::TooManyInFlight { .. } | SendError::BufferFull { .. } => Code::Overloaded,
        SendError::NotAccepting => Code::Unreachable,
        SendError::Encode(ProtoError::PayloadTooLong { .. }) => Code::BodyTooLarge,
        SendError::Encode(_) => Code::BadRequest,
    };
    CallError::new(code, error.to_string())
}
