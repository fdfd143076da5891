//! Credits: leave to have calls in flight toward one of the apps behind a server.
//!
//! The frames only pass through here. Who gets how many credits is the agents' business.

use super::client::ClientSide;
use super::core::Core;
use super::server::ServerSide;
use super::{Connection, Side};
use crate::header::{Header, Kind, MAX_POOLS};
use crate::reader::Reader;
use crate::route::Ack;
use crate::{Event, LinkError, RouteId, Status};

/// Number of a pool of credits: the server's own number of an app.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PoolId(pub u32);

impl PoolId {
    /// Of a route whose calls never need a credit.
    const NONE: u32 = u32::MAX;

    /// As an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) fn from_wire(number: u32) -> Result<Option<Self>, LinkError> {
        match number {
            Self::NONE => Ok(None),
            _ if number < MAX_POOLS => Ok(Some(Self(number))),
            _ => Err(LinkError::BadPool { pool: number, max: MAX_POOLS }),
        }
    }

    fn some_from_wire(number: u32) -> Result<Self, LinkError> {
        let bad = LinkError::BadPool { pool: number, max: MAX_POOLS };
        Self::from_wire(number)?.ok_or(bad)
    }
}

/// How many calls may be in flight toward the app of a pool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Credits {
    /// Nobody is short of credits: calls need none.
    Open,
    /// So many, and no more.
    Limited(u32),
}

impl Credits {
    const OPEN: u32 = u32::MAX;

    fn to_wire(self) -> u32 {
        match self {
            Self::Open => Self::OPEN,
            Self::Limited(n) => n.min(Self::OPEN - 1),
        }
    }

    fn from_wire(number: u32) -> Self {
        if number == Self::OPEN { Self::Open } else { Self::Limited(number) }
    }
}

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
    pub fn accept_route_of_pool(&mut self, route: RouteId, codec: u8, pool: PoolId) {
        if let Side::Server(server) = &mut self.side {
            let pool = self.core.no_pool().map(|_| pool.0);
            let ack = Ack { codec, status: Status::OK, pool, text: "" };
            server.answer_route(&mut self.core, route, ack);
        }
    }

    /// Server: the client may have so many calls of a pool in flight from now on. `false` if the
    /// client knows no credits, and nothing was sent.
    pub fn grant(&mut self, pool: PoolId, credits: Credits) -> bool {
        let core = &mut self.core;
        if !core.has_credits || core.failed.is_some() || matches!(self.side, Side::Client(_)) {
            return false;
        }
        let body = u64::from(pool.0) << 32 | u64::from(credits.to_wire());
        let header = Header { kind: Kind::Credit as u8, ..Header::default() };
        core.outbox.control(header, &body.to_be_bytes());
        true
    }

    /// Client: so many calls wait for credits of a pool, for which `n_seen` CREDITs have come.
    pub fn demand(&mut self, pool: PoolId, n_waiting: u32, n_seen: u32) {
        let core = &mut self.core;
        let Side::Client(client) = &self.side else { return };
        if !core.has_credits || core.failed.is_some() || client.has_said_go_away() {
            return;
        }
        let fields = [pool.0, n_waiting, n_seen].map(u32::to_be_bytes);
        let header = Header { kind: Kind::Demand as u8, ..Header::default() };
        core.outbox.control(header, fields.as_flattened());
    }
}

impl<T> ClientSide<T> {
    pub(super) fn handle_pool_credit(
        core: &mut Core<T>,
        pool: u32,
        credits: u32,
    ) -> Result<(), LinkError> {
        let (pool, credits) = (PoolId::some_from_wire(pool)?, Credits::from_wire(credits));
        core.events.push_back(Event::Credits { pool, credits });
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
        let pool = PoolId::some_from_wire(pool)?;
        core.events.push_back(Event::Demand { pool, n_waiting, n_seen });
        Ok(())
    }
}
