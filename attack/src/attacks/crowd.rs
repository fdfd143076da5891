//! Too much of what is right by itself: connections, long bodies, names.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use bench::INTERFACE;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Attack, COMMON, SCENE, Scene, echo_request, http_head};
use crate::callers::Caller;
use crate::estate::BULK_INTERFACE;
use crate::peer::{Crowd, Peer};

const N_CONNECTIONS: usize = 10_000;
/// The callers come on top.
const MAX_CONNECTIONS: u32 = 11_000;
/// Just below the limit of a body, 8 MiB.
const LONG_LEN: usize = 8_300_000;
const N_BURSTS: u32 = 4;
/// Each connection asks for names at this pace: together 1,600 new names a second.
const NAME_INTERVAL: Duration = Duration::from_millis(5);

pub(super) const ALL: &[Attack] = &[
    Attack {
        name: "10000-connections",
        about: "10,000 connections make a call each and stay",
        scene: Scene { max_connections: Some(MAX_CONNECTIONS), ..SCENE },
        peer: |aim| Box::pin(Crowd::held(N_CONNECTIONS).run(aim, call_and_stay)),
        ..COMMON
    },
    Attack {
        name: "8mb-bursts",
        about: "4 bursts of 60 connections that have 8 MB come back",
        peer: |aim| Box::pin(Crowd::of(60).run(aim, bursts)),
        ..COMMON
    },
    Attack {
        name: "unknown-names",
        about: "8 connections call 1,600 services a second that nobody has heard of",
        callers: &[Caller::HTTP, Caller::LATE],
        peer: |aim| Box::pin(Crowd::of(8).run(aim, unknown_names)),
        ..COMMON
    },
];

async fn call_and_stay(mut peer: Peer) -> io::Result<()> {
    let (head, body) = echo_request(INTERFACE, 16);
    peer.send(&[head.as_bytes(), &body].concat()).await?;
    peer.read().await?;
    peer.is_served();
    peer.drain().await
}

async fn bursts(peer: Peer) -> io::Result<()> {
    let mut peer = peer;
    let aim = &peer.aim;
    let interval = (aim.deadline - aim.start) / N_BURSTS;
    // The burst that is next: at once on the first connection, and after a failure not before it
    // is due.
    let late = Instant::now() - aim.start;
    let nth = late.as_millis() / interval.as_millis().max(1);
    let next = aim.start + interval * (u32::try_from(nth).unwrap_or(N_BURSTS) + 1);
    let (head, body) = echo_request(BULK_INTERFACE, LONG_LEN);
    peer.send(head.as_bytes()).await?;
    peer.send(&body).await?;
    drop(body);
    let mut n_read = 0;
    while n_read < LONG_LEN {
        let read = peer.read().await?;
        let is_good = n_read != 0 || read.starts_with(b"HTTP/1.1 200");
        let len = read.len();
        if !is_good {
            peer.aim.add("other answers than 200", 1);
            break;
        }
        n_read += len;
    }
    if LONG_LEN <= n_read {
        peer.aim.add("bursts answered", 1);
    }
    sleep_until(next).await;
    Ok(())
}

async fn unknown_names(mut peer: Peer) -> io::Result<()> {
    thread_local! {
        static N_NAMES: Cell<u64> = const { Cell::new(0) };
    }
    loop {
        let nth = N_NAMES.replace(N_NAMES.get() + 1);
        let head = http_head(&format!("com.nobody.Service{nth}"), "hash", 5);
        peer.send(format!("{head}[\"a\"]").as_bytes()).await?;
        peer.read().await?;
        peer.aim.add("names", 1);
        sleep(NAME_INTERVAL).await;
    }
}
