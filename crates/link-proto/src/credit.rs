//! Pools of credits, and how many calls may be in flight by them.

use crate::LinkError;
use crate::header::{MAX_POOLS, flags};

/// Number of a pool of credits: the server's own number of an app.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PoolId(pub u32);

impl PoolId {
    /// Of a route whose calls never need a credit.
    pub(crate) const NONE: u32 = u32::MAX;

    /// As an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn from_wire(number: u32) -> Result<Option<Self>, LinkError> {
        match number {
            Self::NONE => Ok(None),
            _ if number < MAX_POOLS => Ok(Some(Self(number))),
            _ => Err(LinkError::BadPool { pool: number, max: MAX_POOLS }),
        }
    }

    pub(crate) fn from_wire_some(number: u32) -> Result<Self, LinkError> {
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
    /// So many for now. What the app can take was measured, and may turn out to be more: calls
    /// have time to wait for that.
    Measured(u32),
}

impl Credits {
    const OPEN: u32 = u32::MAX;

    pub(crate) fn to_wire(self) -> u32 {
        match self {
            Self::Open => Self::OPEN,
            Self::Limited(n) | Self::Measured(n) => n.min(Self::OPEN - 1),
        }
    }

    /// The flags of the frame that says so.
    pub(crate) fn flags(self) -> u8 {
        if matches!(self, Self::Measured(_)) { flags::MEASURED } else { 0 }
    }

    pub(crate) fn from_wire(number: u32, flags: u8) -> Self {
        match number {
            Self::OPEN => Self::Open,
            _ if flags & flags::MEASURED != 0 => Self::Measured(number),
            _ => Self::Limited(number),
        }
    }
}
