//! Limits of the configuration and of the process, reached.

use std::io;
use std::time::Duration;

use bench::INTERFACE;
use bench::target::Target;
use tokio::time::sleep;

use super::{Attack, COMMON, Door, Incident, SCENE, Scene, echo_request};
use crate::callers::Caller;
use crate::peer::{Crowd, Peer, count};

const MAX_CONNECTIONS: u32 = 20;
const MAX_FILES: u32 = 300;
const ASK_INTERVAL: Duration = Duration::from_millis(200);
/// A provider that has come back is called again within this time. The agent's own pause before it
/// tries to connect again is part of it.
const MAX_RECOVERY_S: f64 = 2.0;

pub(super) const ALL: &[Attack] = &[
    Attack {
        name: "max-connections",
        about: "100 connections ask where 20 are allowed",
        scene: Scene { max_connections: Some(MAX_CONNECTIONS), ..SCENE },
        callers: &[Caller::HTTP.without_new_connections()],
        peer: |aim| Box::pin(Crowd::held(100).run(aim, ask)),
        goals: |seen| {
            let callers = seen.n_caller_connections;
            let most = seen.count(count::SERVED) + callers;
            vec![Target::at_most("connections served at once", most, MAX_CONNECTIONS.into(), "")]
        },
        ..COMMON
    },
    Attack {
        name: "descriptors",
        about: "400 silent connections at a limit of 300 descriptors; the provider restarts",
        scene: Scene { max_files: Some(MAX_FILES), ..SCENE },
        callers: &[Caller::HTTP.without_new_connections()],
        incident: Some(Incident::ProviderRestart),
        peer: |aim| Box::pin(Crowd::held(400).run(aim, silent)),
        goals: |seen| {
            let recovery = seen.recovery_s.unwrap_or(f64::INFINITY);
            vec![Target::at_most("provider called again after", recovery, MAX_RECOVERY_S, " s")]
        },
        ..COMMON
    },
    Attack {
        name: "admin-silent",
        about: "64 silent connections at the admin listener while /healthz is asked",
        door: Door::Admin,
        callers: &[Caller::HEALTH, Caller::HTTP],
        peer: |aim| Box::pin(Crowd::held(64).run(aim, silent)),
        ..COMMON
    },
];

async fn ask(mut peer: Peer) -> io::Result<()> {
    let (head, body) = echo_request(INTERFACE, 16);
    let request = [head.as_bytes(), &body].concat();
    loop {
        peer.send(&request).await?;
        peer.read().await?;
        peer.is_served();
        sleep(ASK_INTERVAL).await;
    }
}

async fn silent(mut peer: Peer) -> io::Result<()> {
    peer.drain().await
}
