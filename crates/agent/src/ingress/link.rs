//! The listener for links of other agents: how it is opened, and how its connections are served.
//! What they ask for is in [`crate::export`].

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use link_proto::features;
use wire::{Detached, Group};

use crate::config::LinkListenerConfig;
use crate::export::LinkSession;
use crate::listening::PlannedListener;
use crate::memory::MAX_LINK_WAITING_LEN;
use crate::worker::{ListenerProtocol, Worker};

/// The listener for links, as workers see it.
struct LinkListener {
    /// How links are spoken.
    protocol: link_proto::Config,
    /// How long a peer may leave its answers unread.
    write_timeout: Duration,
    /// What its connections hold.
    memory: Arc<Group>,
}

/// The section `[link]`.
pub fn planned(config: &LinkListenerConfig) -> PlannedListener {
    let LinkListenerConfig { window, max_body_len, body_timeout, write_timeout, heartbeat, .. } =
        *config;
    PlannedListener {
        protocol: "link",
        listen: config.listen.clone(),
        listen_key: "link.listen",
        socket: config.socket,
        max_connections: config.max_connections,
        max_connections_key: "link.max_connections",
        tls: config.tls.as_ref().map(|tls| tls.secured.clone()),
        note: |addresses, address| addresses.link = Some(address),
        open: Box::new(move |around| {
            let protocol = link_proto::Config {
                name: around.agent_name.to_owned(),
                window,
                max_message_len: u32::try_from(max_body_len).unwrap_or(u32::MAX),
                assembly_timeout: body_timeout,
                // Agents carry calls with one request and one reply, and say so.
                features: features::CREDITS,
                max_buffered_bytes: MAX_LINK_WAITING_LEN,
                ..link_proto::Config::default()
            }
            .with_heartbeat(heartbeat);
            Arc::new(LinkListener { protocol, write_timeout, memory: Group::new() })
        }),
    }
}

impl ListenerProtocol for LinkListener {
    fn serve(self: Arc<Self>, worker: &Rc<Worker>, connection: Detached) {
        let account = worker.memory.accepted(&self.memory, connection.facts().peer.ip());
        let protocol = self.protocol.clone();
        let session = LinkSession::new(
            protocol,
            self.write_timeout,
            worker.backends(),
            Rc::clone(&account),
            connection.facts().peer,
            worker.journal.clone(),
        );
        let serving = Rc::clone(&session);
        worker.run_session(connection, account, &session, async move |stream| {
            serving.serve(stream).await;
        });
    }
}
