//! The listener for HTTP: how it is opened, and how its connections are served.

use std::rc::Rc;
use std::sync::Arc;

use wire::{Detached, Group};

use super::{HttpListener, HttpSession};
use crate::config::HttpIngressConfig;
use crate::listening::PlannedListener;
use crate::worker::{ListenerProtocol, Worker};

/// An `[[ingress]]` with `protocol = "http"`.
pub fn planned(config: HttpIngressConfig) -> PlannedListener {
    PlannedListener {
        protocol: "http",
        listen: config.listen.clone(),
        listen_key: "ingress.listen",
        socket: config.socket,
        max_connections: config.max_connections,
        max_connections_key: "ingress.max_connections",
        tls: config.tls.as_ref().map(|tls| tls.secured.clone()),
        note: |addresses, address| addresses.http.push(address),
        open: Box::new(|around| {
            Arc::new(HttpListener { config, stats: around.stats(), memory: Group::new() })
        }),
    }
}

impl ListenerProtocol for HttpListener {
    fn serve(self: Arc<Self>, worker: &Rc<Worker>, connection: Detached) {
        let account = worker.memory.accepted(&self.memory, connection.facts().peer.ip());
        let session = HttpSession::new(Rc::clone(&account), connection.facts().peer);
        let (serving, served_by) = (Rc::clone(&session), Rc::clone(worker));
        worker.run_session(connection, account, &session, async move |stream| {
            serving.serve(served_by, &self, stream).await;
        });
    }
}
