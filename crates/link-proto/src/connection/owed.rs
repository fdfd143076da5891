//! Control frames that a peer can cause as often as it likes, without reading a single one: PONGs
//! by its PINGs, and DEMANDs by its CREDITs.
//!
//! Invariant: while [`MAX_DIRECT_LEN`] bytes wait, or as many as may wait at all, none is added to
//! them. Of each kind only the newest is kept then, of DEMANDs that of each pool, and it follows
//! when there is room. The older ones say nothing that it does not say.

use super::ConnectionSide;
use super::core::{Core, check_opaque};
use crate::LinkError;
use crate::credit::PoolId;
use crate::header::{FrameKind, Header};

/// While so many bytes wait to be written, these frames wait apart. It is far more than a peer
/// that reads ever causes, and nothing beside what a connection may hold otherwise.
pub(super) const MAX_DIRECT_LEN: usize = 64 * 1024;

/// A peer that has left so many PINGs to be answered by a later PONG does not read, and sends them
/// for the sake of it: one that reads never comes near it.
const MAX_LEFT_OUT: usize = 1000;

/// What a PONG repeats.
type Opaque = [u8; 8];

/// How many calls wait for credits of a pool, as a DEMAND says it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwedDemand {
    pub(super) pool: PoolId,
    pub(super) n_waiting: u32,
    pub(super) n_seen: u32,
}

/// The newest of the frames that wait apart.
#[derive(Debug, Default)]
pub(super) struct OwedFrames {
    pong: Option<Opaque>,
    /// PONGs that the newest one has taken the place of.
    n_left_out: usize,
    demands: Vec<OwedDemand>,
}

impl OwedFrames {
    /// Whether the peer sends PINGs without end and reads nothing.
    pub(super) fn is_flooded(&self) -> bool {
        MAX_LEFT_OUT <= self.n_left_out
    }
}

impl<T> Core<T> {
    pub(super) fn handle_ping(&mut self, header: &Header, body: &[u8]) -> Result<(), LinkError> {
        check_opaque(header, body)?;
        if self.may_add_control() {
            // What waits apart is older.
            (self.owed.pong, self.owed.n_left_out) = (None, 0);
            self.pong(body);
        } else if self.owed.pong.replace(*body.first_chunk().unwrap_or(&[0; 8])).is_some() {
            self.owed.n_left_out += 1;
        }
        Ok(())
    }

    pub(super) fn add_demand(&mut self, demand: OwedDemand) {
        self.owed.demands.retain(|owed| owed.pool != demand.pool);
        match self.may_add_control() {
            true => self.demand(demand),
            false => self.owed.demands.push(demand),
        }
    }

    fn may_add_control(&self) -> bool {
        self.outbox.direct_bytes() < MAX_DIRECT_LEN.min(self.config.max_buffered_bytes)
    }

    fn pong(&mut self, body: &[u8]) {
        self.outbox.control(Header { kind: FrameKind::Pong as u8, ..Header::default() }, body);
    }

    fn demand(&mut self, OwedDemand { pool, n_waiting, n_seen }: OwedDemand) {
        let fields = [pool.0, n_waiting, n_seen].map(u32::to_be_bytes);
        let header = Header { kind: FrameKind::Demand as u8, ..Header::default() };
        self.outbox.control(header, fields.as_flattened());
    }

    /// Adds what waits apart, if there is room for it now.
    #[inline]
    pub(super) fn add_owed(&mut self, side: &ConnectionSide<T>) {
        if self.owed.pong.is_some() || !self.owed.demands.is_empty() {
            self.add_some_owed(side);
        }
    }

    #[cold]
    fn add_some_owed(&mut self, side: &ConnectionSide<T>) {
        if !self.may_add_control() || self.failed.is_some() {
            return;
        }
        if let Some(body) = self.owed.pong.take() {
            self.owed.n_left_out = 0;
            self.pong(&body);
        }
        let demands = std::mem::take(&mut self.owed.demands);
        // Nothing follows a client's GOAWAY that begins anything.
        if !matches!(side, ConnectionSide::Client(client) if client.has_said_go_away()) {
            demands.into_iter().for_each(|demand| self.demand(demand));
        }
    }
}
