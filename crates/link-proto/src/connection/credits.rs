//! Credits: leave to have calls in flight toward one of the apps behind a server.
//!
//! The frames only pass through here. Who gets how many credits is the agents' business.

use super::client::ClientSide;
use super::core::Core;
use super::owed::OwedDemand;
use super::server::ServerSide;
use super::{Connection, ConnectionSide};
use crate::credit::{Credits, PoolId};
use crate::header::{FrameKind, Header};
use crate::reader::Reader;
use crate::route::Ack;
use crate::{DefinedRoute, Event, LinkError, Status};

impl<T> Core<T> {
    /// What the answer to a DEFINE says of a route without a pool.
    pub(super) fn no_pool(&self) -> Option<u32> {
        self.has_credits.then_some(PoolId::NONE)
    }
}

impl<T> Connection<T> {
    /// Whether both sides know credits.
    pub fn has_credits(&self) -> bool {
        self.core.has_credits
    }

    /// Server: as [`accept_route`](Self::accept_route), for a route whose calls need credits of
    /// `pool` once the client was told so.
    pub fn accept_route_of_pool(&mut self, route: DefinedRoute, codec: u8, pool: PoolId) {
        if let ConnectionSide::Server(server) = &mut self.side {
            let pool = self.core.no_pool().map(|_| pool.0);
            let ack = Ack { codec, status: Status::OK, pool, text: "" };
            server.answer_route(&mut self.core, route, ack);
        }
    }

    /// Server: the client may have so many calls of a pool in flight from now on. `false` if the
    /// client knows no credits, and nothing was sent.
    pub fn grant(&mut self, pool: PoolId, credits: Credits) -> bool {
        let core = &mut self.core;
        if !core.has_credits
            || core.failed.is_some()
            || matches!(self.side, ConnectionSide::Client(_))
        {
            return false;
        }
        let body = u64::from(pool.0) << 32 | u64::from(credits.to_wire());
        let flags = credits.flags();
        let header = Header { kind: FrameKind::Credit as u8, flags, ..Header::default() };
        core.outbox.control(header, &body.to_be_bytes());
        true
    }

    /// Server: the app of a pool gives no sign of life from now on, or gives some again. Nothing
    /// is sent to a client that knows no credits: it knows no pools.
    pub fn tell_pause(&mut self, pool: PoolId, pauses: bool) {
        let core = &mut self.core;
        if !core.has_credits
            || core.failed.is_some()
            || matches!(self.side, ConnectionSide::Client(_))
        {
            return;
        }
        let body = u64::from(pool.0) << 32 | u64::from(pauses);
        let header = Header { kind: FrameKind::Pause as u8, ..Header::default() };
        core.outbox.control(header, &body.to_be_bytes());
    }

    /// Client: so many calls wait for credits of a pool, for which `n_seen` CREDITs have come.
    pub fn demand(&mut self, pool: PoolId, n_waiting: u32, n_seen: u32) {
        let core = &mut self.core;
        let ConnectionSide::Client(client) = &self.side else { return };
        if !core.has_credits || core.failed.is_some() || client.has_said_go_away() {
            return;
        }
        core.add_demand(OwedDemand { pool, n_waiting, n_seen });
    }
}

impl<T> ClientSide<T> {
    pub(super) fn handle_pool_credit(
        core: &mut Core<T>,
        pool: u32,
        credits: Credits,
    ) -> Result<(), LinkError> {
        let pool = PoolId::from_wire_some(pool)?;
        core.events.push_back(Event::Credits { pool, credits });
        Ok(())
    }

    pub(super) fn handle_pause(
        core: &mut Core<T>,
        header: &Header,
        body: &[u8],
    ) -> Result<(), LinkError> {
        if !core.has_credits {
            return Ok(());
        }
        let mut reader = Reader::new(header.kind, body);
        let (pool, pauses) = (reader.u32()?, reader.u32()?);
        reader.finish()?;
        let pool = PoolId::from_wire_some(pool)?;
        core.events.push_back(Event::Pause { pool, pauses: pauses != 0 });
        Ok(())
    }
}

impl ServerSide {
    pub(super) fn handle_demand<T>(
        core: &mut Core<T>,
        header: &Header,
        body: &[u8],
    ) -> Result<(), LinkError> {
        if !core.has_credits {
            return Err(LinkError::UnknownKind { kind: header.kind });
        }
        let mut reader = Reader::new(header.kind, body);
        let (pool, n_waiting, n_seen) = (reader.u32()?, reader.u32()?, reader.u32()?);
        reader.finish()?;
        let pool = PoolId::from_wire_some(pool)?;
        core.events.push_back(Event::Demand { pool, n_waiting, n_seen });
        Ok(())
    }
}
