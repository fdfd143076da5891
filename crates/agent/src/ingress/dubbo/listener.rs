//! The listeners for Dubbo TCP: how they are opened, and how their connections are served.

use std::rc::Rc;
use std::sync::Arc;

use wire::{Detached, Group};

use super::{DubboListener, DubboSession, Offers};
use crate::config::{DubboIngressConfig, DubboLimits, DubboListenerConfig};
use crate::listening::{ListenerSetup, PlannedListener};
use crate::worker::{ListenerProtocol, Worker};

/// An `[[ingress]]` with `protocol = "dubbo"`.
pub fn planned(config: DubboIngressConfig) -> PlannedListener {
    let DubboIngressConfig { listen, socket, registry, default_service, limits, tls } = config;
    let offers = Offers::Registry { registry, default_service };
    PlannedListener {
        protocol: "dubbo",
        listen,
        listen_key: "ingress.listen",
        socket,
        max_connections: limits.max_connections,
        max_connections_key: "ingress.max_connections",
        tls: tls.map(|tls| tls.secured),
        note: |addresses, address| addresses.dubbo.push(address),
        open: Box::new(move |around| open(offers, limits, around)),
    }
}

/// The section `[dubbo]`.
pub fn planned_exports(config: &DubboListenerConfig) -> PlannedListener {
    let limits = config.limits;
    PlannedListener {
        protocol: "dubbo",
        listen: config.listen.clone(),
        listen_key: "dubbo.listen",
        socket: config.socket,
        max_connections: limits.max_connections,
        max_connections_key: "dubbo.max_connections",
        tls: config.tls.as_ref().map(|tls| tls.secured.clone()),
        note: |addresses, address| addresses.dubbo_exports = Some(address),
        open: Box::new(move |around| open(Offers::Exports, limits, around)),
    }
}

fn open(
    offers: Offers,
    limits: DubboLimits,
    around: &ListenerSetup<'_>,
) -> Arc<dyn ListenerProtocol> {
    Arc::new(DubboListener { offers, limits, stats: around.stats(), memory: Group::new() })
}

impl ListenerProtocol for DubboListener {
    fn serve(self: Arc<Self>, worker: &Rc<Worker>, connection: Detached) {
        let account = worker.memory.accepted(&self.memory, connection.facts().peer.ip());
        let session = DubboSession::new(worker, self, Rc::clone(&account), connection.facts().peer);
        let serving = Rc::clone(&session);
        worker.run_session(connection, account, &session, async move |stream| {
            serving.serve(stream).await;
        });
    }
}
