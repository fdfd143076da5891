//! Those who send or read slowly, or not at all, by HTTP/1.1.

use std::io;

use bench::INTERFACE;

use super::{Attack, COMMON, echo_request, http_head, json_text};
use crate::estate::BULK_INTERFACE;
use crate::peer::{Crowd, Peer};

/// Below the limit of a head, and much more than a head has.
const FAT_HEAD_LEN: usize = 60_000;
/// What is announced of a body that never comes: below the limit.
const BODY_LEN: usize = 8_000_000;
const FAT_BODY_PART_LEN: usize = 1_000_000;
const SLOW_READ_LEN: usize = 64_000;
const NEVER_READ_LEN: usize = 1_000_000;

pub(super) const ALL: &[Attack] = &[
    Attack {
        name: "slow-heads",
        about: "4,000 connections send a head by a byte a second",
        peer: |aim| Box::pin(Crowd::held(4000).run(aim, slow_head)),
        ..COMMON
    },
    Attack {
        name: "fat-heads",
        about: "4,000 connections send 60 kB of a head, then a byte a second",
        peer: |aim| Box::pin(Crowd::held(4000).run(aim, fat_head)),
        ..COMMON
    },
    Attack {
        name: "slow-bodies",
        about: "4,000 connections send a body of 8 MB by a byte a second",
        peer: |aim| Box::pin(Crowd::held(4000).run(aim, slow_body)),
        ..COMMON
    },
    Attack {
        name: "fat-bodies",
        about: "500 connections send 1 MB of a body of 8 MB, then a byte a second",
        peer: |aim| Box::pin(Crowd::held(500).run(aim, fat_body)),
        ..COMMON
    },
    Attack {
        name: "slow-readers",
        about: "4,000 connections have 64 kB come back and read a byte a second",
        peer: |aim| Box::pin(Crowd::held(4000).not_reading().run(aim, slow_reader)),
        ..COMMON
    },
    Attack {
        name: "never-reading",
        about: "256 connections ask for 1 MB again and again and read nothing",
        peer: |aim| Box::pin(Crowd::held(256).not_reading().run(aim, never_reader)),
        ..COMMON
    },
];

async fn slow_head(mut peer: Peer) -> io::Result<()> {
    peer.send(b"POST /slow/head HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ").await?;
    peer.trickle(b'a').await
}

async fn fat_head(mut peer: Peer) -> io::Result<()> {
    let mut head = b"POST /fat/head HTTP/1.1\r\nhost: 127.0.0.1\r\n".to_vec();
    // Each line of its own name, as lines that are equal could be kept as one.
    let mut n_lines = 0;
    while head.len() < FAT_HEAD_LEN {
        head.extend_from_slice(format!("x-fat-{n_lines:04}: {:a<1000}\r\n", "").as_bytes());
        n_lines += 1;
    }
    head.extend_from_slice(b"x-slow: ");
    peer.send(&head).await?;
    peer.trickle(b'a').await
}

async fn slow_body(mut peer: Peer) -> io::Result<()> {
    peer.send(http_head(INTERFACE, "echo", BODY_LEN).as_bytes()).await?;
    peer.send(b"[\"").await?;
    peer.trickle(b'a').await
}

async fn fat_body(mut peer: Peer) -> io::Result<()> {
    peer.send(http_head(INTERFACE, "echo", BODY_LEN).as_bytes()).await?;
    peer.send(&json_text(BODY_LEN)[..FAT_BODY_PART_LEN]).await?;
    peer.trickle(b'a').await
}

async fn slow_reader(mut peer: Peer) -> io::Result<()> {
    let (head, body) = echo_request(BULK_INTERFACE, SLOW_READ_LEN);
    peer.send(head.as_bytes()).await?;
    peer.send(&body).await?;
    loop {
        peer.read().await?;
        peer.pause().await;
    }
}

async fn never_reader(mut peer: Peer) -> io::Result<()> {
    let (head, body) = echo_request(INTERFACE, NEVER_READ_LEN);
    let request = [head.as_bytes(), &body].concat();
    peer.flood_deaf(&request).await
}
