//! Calls in the order in which they are due.

use std::cmp::Ordering as Order;
use std::time::Instant;

use dubbo_proto::{ReplyKind, ReplyTo};
use wire::Conn;

use super::DubboServer;
use crate::provider::service::RequestRefusal;

/// A call that is being worked on. The first in order is due first.
pub(super) struct Job {
    pub(super) due: Instant,
    pub(super) conn: Conn<DubboServer>,
    pub(super) to: ReplyTo,
    pub(super) two_way: bool,
    pub(super) result: Result<ReplyKind, RequestRefusal>,
    pub(super) value: Vec<u8>,
}

impl Ord for Job {
    fn cmp(&self, other: &Self) -> Order {
        self.due.cmp(&other.due)
    }
}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Job {}
