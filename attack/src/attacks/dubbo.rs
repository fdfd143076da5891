//! Dubbo consumers that stop in the middle of a request, or never read an answer.

use std::io;

use bench::INTERFACE;

use super::{Attack, COMMON, Door};
use crate::callers::Caller;
use crate::dubbo::request;
use crate::peer::{Crowd, Peer};

/// Below the limit of a body, 8 MiB.
const LONG_LEN: usize = 8_000_000;
/// What a partial request lacks.
const LACKING_LEN: usize = 200_000;
const TRICKLED_START_LEN: usize = 1024;
const ECHO_LEN: usize = 64_000;
const REQUESTS_PER_BATCH: usize = 200;
/// In the third byte of a frame.
const TWO_WAY: u8 = 0x40;

const DUBBO: Attack =
    Attack { door: Door::Dubbo, callers: &[Caller::DUBBO, Caller::HTTP], ..COMMON };

pub(super) const ALL: &[Attack] = &[
    Attack {
        name: "dubbo-partial",
        about: "100 connections send 7.8 MB of a request of 8 MB and fall silent",
        peer: |aim| Box::pin(Crowd::held(100).run(aim, partial)),
        ..DUBBO
    },
    Attack {
        name: "dubbo-trickle",
        about: "1,000 connections announce a request of 8 MB and send a byte a second",
        peer: |aim| Box::pin(Crowd::held(1000).run(aim, trickle)),
        ..DUBBO
    },
    Attack {
        name: "dubbo-never-reading",
        about: "8 connections send requests of 64 kB without end and read no answer",
        peer: |aim| Box::pin(Crowd::of(8).not_reading().run(aim, never_reader)),
        ..DUBBO
    },
    Attack {
        name: "dubbo-unknown",
        about: "64 connections send short requests of a service that nobody offers, and read",
        peer: |aim| Box::pin(Crowd::of(64).run(aim, unknown)),
        ..DUBBO
    },
    Attack {
        name: "dubbo-one-way",
        about: "8 connections send short requests that want no answer, without end",
        peer: |aim| Box::pin(Crowd::of(8).run(aim, one_way)),
        ..DUBBO
    },
];

fn echo(text_len: usize) -> Vec<u8> {
    request(INTERFACE, "echo", &"a".repeat(text_len), 1)
}

async fn partial(mut peer: Peer) -> io::Result<()> {
    let request = echo(LONG_LEN);
    peer.send(&request[..request.len() - LACKING_LEN]).await?;
    drop(request);
    peer.drain().await
}

async fn trickle(mut peer: Peer) -> io::Result<()> {
    let mut start = echo(LONG_LEN);
    start.truncate(TRICKLED_START_LEN);
    start.shrink_to_fit();
    peer.send(&start).await?;
    peer.trickle(b'a').await
}

async fn never_reader(mut peer: Peer) -> io::Result<()> {
    peer.flood_deaf(&echo(ECHO_LEN)).await
}

async fn unknown(mut peer: Peer) -> io::Result<()> {
    peer.flood(&request("com.acme.Nobody", "echo", "", 1).repeat(REQUESTS_PER_BATCH)).await
}

async fn one_way(mut peer: Peer) -> io::Result<()> {
    let mut request = echo(1);
    request[2] &= !TWO_WAY;
    peer.flood(&request.repeat(REQUESTS_PER_BATCH)).await
}
