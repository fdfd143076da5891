//! The listener for HTTP: how it is opened, and how its connections are served.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
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
        let session = self.session(worker, &connection);
        self.run(worker, connection, &session, None);
    }

    fn can_move(&self) -> bool {
        self.config.tls.is_none()
    }

    fn take_over(self: Arc<Self>, worker: &Rc<Worker>, connection: Detached, start: Bytes) {
        let session = self.session(worker, &connection);
        if start.is_empty() {
            session.go_on();
        }
        self.run(worker, connection, &session, Some(start));
    }
}

impl HttpListener {
    fn session(&self, worker: &Worker, connection: &Detached) -> Rc<HttpSession> {
        let peer = connection.facts().peer;
        HttpSession::new(worker.memory.accepted(&self.memory, peer.ip()), peer)
    }

    /// `taken` is what another worker has read of it.
    fn run(
        self: Arc<Self>,
        worker: &Rc<Worker>,
        connection: Detached,
        session: &Rc<HttpSession>,
        taken: Option<Bytes>,
    ) {
        let (serving, served_by) = (Rc::clone(session), Rc::clone(worker));
        worker.run_session(connection, session, async move |stream| {
            serving.serve(served_by, &self, stream, taken).await;
        });
    }
}
