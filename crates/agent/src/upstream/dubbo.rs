//! Calls to a Dubbo provider over Dubbo TCP.

use std::rc::Rc;
use std::time::Instant;

use dubbo_proto::{
    ClientConfig, ClientConnection, ClientEvent, ProtoError, SendError, Serialization, Status,
    error_text,
};
use link::{Conn, Machine};
use tokio::sync::oneshot;
use tracing::{debug, info};

use super::{Arguments, Peer, Request, Setup, Signs, Upstream, Whole, sent};
use crate::call::{Outcome, Reply, ReplyTo, wait};
use crate::error::{CallError, Code};
use crate::ingress::dubbo::DubboAnswer;
use crate::scratch::Scratch;

/// What a reply may carry beside a value of the longest kind.
const ATTACHMENTS_LEN: usize = 64 * 1024;

/// The protocol's side of one Dubbo endpoint.
pub struct DubboPeer {
    address: Rc<str>,
    setup: Setup,
    scratch: Scratch,
}

/// [`ClientConnection`] as the driver sees it.
pub struct DubboClient(pub ClientConnection<ReplyTo>, Reading);

/// What the driver's last reading was like.
struct Reading {
    at: Instant,
    /// The provider has been silent for so long that it will not take what waits to be written.
    is_dead: bool,
}

impl Machine for DubboClient {
    /// When it was read, and what it is.
    type Event = (Instant, ClientEvent<ReplyTo>);
    type Error = dubbo_proto::ProtoError;

    fn handle_bytes(
        &mut self,
        now: Instant,
        input: &mut bytes::BytesMut,
    ) -> Result<(), Self::Error> {
        self.1.at = now;
        self.0.handle_bytes(now, input)
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<Self::Event> {
        let event = self.0.poll_event()?;
        self.1.is_dead |= matches!(event, ClientEvent::Dead(_));
        Some((self.1.at, event))
    }
    fn transmit(&mut self) -> &mut bytes::BytesMut {
        self.0.transmit()
    }
    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
    fn is_broken(&self) -> bool {
        self.1.is_dead
    }
}

impl DubboPeer {
    /// The endpoint at `address`.
    pub fn new(address: &str, setup: Setup) -> Self {
        Self { address: address.into(), setup, scratch: Scratch::default() }
    }

    fn outcome(&self, status: Status, serialization: Serialization, body: bytes::Bytes) -> Outcome {
        if status == Status::Ok {
            let endpoint = Rc::clone(&self.address);
            return Ok(Reply { serialization, body, endpoint, route: None });
        }
        Err(self.refusal(status, serialization, &body))
    }

    /// What a reply says whose status is not OK.
    fn refusal(&self, status: Status, serialization: Serialization, body: &[u8]) -> CallError {
        let mut error = CallError::from_provider(status, &error_text(serialization, body));
        error.provider_serialization = Some(serialization.of_body(body));
        error.at(&self.address)
    }
}

impl Peer for DubboPeer {
    type Machine = DubboClient;

    fn machine(&self, now: Instant) -> DubboClient {
        let config = ClientConfig {
            max_in_flight: self.setup.max_in_flight as usize,
            max_body_len: self.setup.max_reply_len.saturating_add(ATTACHMENTS_LEN),
            // Whoever took the request has set a limit to it.
            max_request_len: u32::MAX as usize,
            ..ClientConfig::default()
        };
        DubboClient(ClientConnection::new(config, now), Reading { at: now, is_dead: false })
    }

    fn is_ready(machine: &DubboClient) -> bool {
        machine.0.is_accepting()
    }

    fn ask(machine: &mut DubboClient, now: Instant) {
        machine.0.ask(now);
    }

    fn signs(machine: &DubboClient) -> Signs {
        let (heard_at, unanswered_since) = (machine.0.heard_at(), machine.0.unanswered_since());
        Signs { heard_at, unanswered_since }
    }

    fn on_event(&self, (at, event): (Instant, ClientEvent<ReplyTo>)) -> bool {
        match event {
            ClientEvent::Reply { token: ReplyTo::Dubbo(token), status, serialization, body } => {
                token.answer(&DubboAnswer { at, status, serialization, body: &body }, || {
                    self.refusal(status, serialization, &body)
                });
            }
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
            ClientEvent::ReadOnly => {
                info!(endpoint = %self.address, "provider is leaving");
                return true;
            }
            ClientEvent::Writeable => {
                info!(endpoint = %self.address, "provider is back");
                return true;
            }
            other => debug!(endpoint = %self.address, event = ?other),
        }
        false
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
    let (conn, now) = upstream.conn_soon(request.deadline, request.now).await?;
    let with_path = request.path.map(|path| request.route.template_for_path(serialization, path));
    let with_path = with_path.transpose()?;
    let template = match &with_path {
        Some(template) => template,
        None => request.route.template(serialization)?,
    };
    if request.one_way {
        return upstream.peer().scratch.with(|args| {
            request.args.encode(request.route, serialization, args)?;
            conn.with(|machine| machine.0.send_one_way(now, template, args, request.attachments))
                .map_err(|error| refused(&error).at(upstream.address()))?;
            sent(upstream.address())
        });
    }
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

/// Passes a whole request on and waits for its outcome.
pub async fn pass_on(upstream: &Upstream<DubboPeer>, whole: &Whole<'_>, now: Instant) -> Outcome {
    let Whole { serialization, body, one_way, deadline, .. } = *whole;
    pass_on_body(upstream, (serialization, body), one_way, (now, deadline)).await
}

/// The same for a body that is for no route, between now and its deadline.
pub async fn pass_on_body(
    upstream: &Upstream<DubboPeer>,
    (serialization, body): (Serialization, &[u8]),
    one_way: bool,
    (now, deadline): (Instant, Instant),
) -> Outcome {
    let (conn, now) = upstream.conn_soon(deadline, now).await?;
    if one_way {
        let sent = conn.with(|machine| machine.0.send_body_one_way(now, serialization, body));
        sent.map_err(|error| refused(&error).at(upstream.address()))?;
        let endpoint = Rc::clone(upstream.address());
        let body = bytes::Bytes::new();
        return Ok(Reply { serialization, body, endpoint, route: None });
    }
    let (task, outcome) = oneshot::channel();
    let to = ReplyTo::Task(task);
    let sent = conn.with(|machine| machine.0.send_body(now, serialization, body, deadline, to));
    let id = sent.map_err(|(_, error)| refused(&error).at(upstream.address()))?;
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
