//! Methods that are answered in place: while requests are read, from their bytes into the bytes
//! that leave, without an event, a task, a future or an allocation for the call.
//!
//! Invariant: every call that wants an answer gets exactly one, also if its handler panics.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use link_proto::{Connection, Event, InPlace, LinkError, RouteId, Status};

use super::context::Context;
use super::service::{AnswerHead, CallRefusal, Handler, Once, Running, ServedMethod};
use crate::codec::{Codec, Raw};
use crate::panics::contain;
use crate::traffic::Traffic;
use wire::Machine;

/// The only serialization of such methods.
const CODEC: u8 = <Raw as Codec<Bytes>>::NUMBER;

/// What such a method does.
pub(crate) trait Answerer: Send + Sync {
    /// Appends the answer to `args` to `reply`.
    fn answer(&self, args: &[u8], reply: &mut BytesMut);
}

impl<F: Fn(&[u8], &mut BytesMut) + Send + Sync> Answerer for F {
    #[inline]
    fn answer(&self, args: &[u8], reply: &mut BytesMut) {
        self(args, reply);
    }
}

/// The method as a handler like others, for calls that are observed, or come in parts or with
/// metadata.
pub(crate) struct InPlaceMethod<F>(pub Arc<F>);

impl<F: Answerer + 'static> Handler for InPlaceMethod<F> {
    fn in_place(&self) -> Option<&dyn Answerer> {
        Some(&*self.0)
    }

    fn begin(
        &self,
        _: Context,
        codec: u8,
        args: Bytes,
    ) -> Result<Pin<Box<dyn Running>>, CallRefusal> {
        if !matches!(codec, 0 | CODEC) {
            let text = format!("this method takes raw bytes (codec {CODEC}), not codec {codec}");
            return Err(CallRefusal { status: Status::BAD_REQUEST, text });
        }
        let method = Arc::clone(&self.0);
        Ok(Box::pin(Once(Some(move |_: &mut Vec<u8>| {
            let mut reply = BytesMut::new();
            method.answer(&args, &mut reply);
            AnswerHead { status: Status::OK, codec: CODEC, payload: Some(reply.freeze()) }
        }))))
    }
}

/// One client's link, and which of its routes are answered in place.
pub(crate) struct ServerLink {
    pub link: Connection<()>,
    routes: MethodTable,
    traffic: Option<Arc<Traffic>>,
}

impl Drop for ServerLink {
    fn drop(&mut self) {
        if let Some(traffic) = &self.traffic {
            traffic.count_link(&self.link);
        }
    }
}

/// By the route's number.
#[derive(Default)]
struct MethodTable(Vec<Option<Arc<ServedMethod>>>);

impl ServerLink {
    pub(crate) fn new(link: Connection<()>, traffic: Option<Arc<Traffic>>) -> Self {
        Self { link, routes: MethodTable::default(), traffic }
    }

    /// Calls of this route are answered in place from now on, if `method` is such a one.
    pub(crate) fn set_route(&mut self, route: RouteId, method: Option<&Arc<ServedMethod>>) {
        let method = method.filter(|entry| entry.handler.in_place().is_some());
        let MethodTable(routes) = &mut self.routes;
        if method.is_some() && routes.len() <= route.index() {
            routes.resize(route.index() + 1, None);
        }
        if let Some(place) = routes.get_mut(route.index()) {
            *place = method.cloned();
        }
    }
}

impl InPlace<()> for MethodTable {
    #[inline]
    fn takes_requests(&self) -> bool {
        !self.0.is_empty()
    }

    #[inline]
    fn request(
        &mut self,
        route: RouteId,
        codec: u8,
        args: &[u8],
        reply: &mut BytesMut,
    ) -> Option<(Status, u8)> {
        let method = self.0.get(route.index())?.as_ref()?.handler.in_place()?;
        if !matches!(codec, 0 | CODEC) {
            return None;
        }
        let start = reply.len();
        let Err(text) = contain(|| method.answer(args, reply)) else {
            return Some((Status::OK, CODEC));
        };
        reply.truncate(start);
        let AnswerHead { status, payload, .. } = AnswerHead::panicked(&text);
        reply.extend_from_slice(&payload.unwrap_or_default());
        Some((status, 0))
    }
}

impl Machine for ServerLink {
    type Event = Event<()>;
    type Error = LinkError;

    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), LinkError> {
        self.link.handle_bytes_with(now, input, &mut self.routes)
    }

    fn has_backlog(&self) -> bool {
        self.link.has_backlog()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.link.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.link.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<Event<()>> {
        self.link.poll_event()
    }

    fn has_events(&self) -> bool {
        self.link.has_events()
    }

    fn transmit(&mut self) -> &mut BytesMut {
        self.link.transmit()
    }

    fn is_finished(&self) -> bool {
        self.link.is_finished()
    }

    fn is_broken(&self) -> bool {
        self.link.failure().is_some()
    }

    fn wants_input(&self) -> bool {
        !self.link.is_congested()
    }
}
