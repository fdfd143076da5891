//! Peers on the link's listener of a provider's agent. Source of the bytes: docs/link-protocol.md.

use std::io;

use bench::INTERFACE;
use link_proto::header::{FrameKind, Header, MAGIC, flags};
use link_proto::version::{VERSION_MAX, VERSION_MIN};

use super::{Attack, COMMON, Door, SCENE, Scene};
use crate::estate::APP_INTERFACE;
use crate::peer::{Crowd, Peer};

/// Below the longest message, 8 MiB; so many fit into what one link may put together, 64 MiB.
const REQUEST_LEN: u32 = 8_000_000;
const N_REQUESTS: u32 = 8;
const PART_LEN: usize = 32 * 1024;
/// Long over when the attack is.
const REQUEST_TIMEOUT_MS: u32 = 100;
const REFUSED_PER_BATCH: u64 = 200;
/// A text in lists of lists that refer so often to the list before.
const TEXT_LEN: usize = 900;
const N_REFERENCES: usize = 38;
const N_LISTS: u32 = 3;
const N_EXPANDING: u32 = 40;
const EXPANDING_TIMEOUT_MS: u32 = 10_000;
const PINGS_PER_BATCH: u64 = 4000;
/// The longest name that a service may have in a DEFINE.
const NAME_LEN: usize = 1024;

const LINK: Attack =
    Attack { door: Door::Link, scene: Scene { has_link: true, ..SCENE }, ..COMMON };

pub(super) const ALL: &[Attack] = &[
    Attack {
        name: "link-unfinished",
        about: "16 links send 8 requests of 8 MB each but for their end",
        peer: |aim| Box::pin(Crowd::of(16).run(aim, unfinished)),
        ..LINK
    },
    Attack {
        name: "link-defines",
        about: "4 links define routes of services that nobody offers, without end",
        peer: |aim| Box::pin(Crowd::of(4).run(aim, defines)),
        ..LINK
    },
    Attack {
        name: "link-expanding",
        about: "a link sends 40 requests of 1.6 kB at a time to an HTTP app, each 51 MB as JSON",
        scene: Scene { has_http_app: true, ..LINK.scene },
        peer: |aim| Box::pin(Crowd::of(1).run(aim, expanding)),
        ..LINK
    },
    Attack {
        name: "link-pings",
        about: "8 links send PINGs as fast as they are taken, and read no PONG",
        peer: |aim| Box::pin(Crowd::of(8).not_reading().run(aim, pings)),
        ..LINK
    },
];

/// Appends a frame.
fn write(out: &mut Vec<u8>, kind: FrameKind, flags: u8, id: u64, body: &[u8]) {
    let body_len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let header = Header { body_len, kind: kind as u8, flags, id, ..Header::default() };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(body);
}

fn hello() -> Vec<u8> {
    let mut body = MAGIC.to_be_bytes().to_vec();
    body.extend_from_slice(&[VERSION_MIN, VERSION_MAX]);
    let mut out = Vec::new();
    write(&mut out, FrameKind::Hello, 0, 0, &body);
    out
}

/// Appends a DEFINE of route 0, for the `round`th time.
fn define(out: &mut Vec<u8>, service: &str, round: u64) {
    define_method(out, service, "Ljava/lang/String;", round);
}

fn define_method(out: &mut Vec<u8>, service: &str, descriptor: &str, round: u64) {
    let mut body = 0_u32.to_be_bytes().to_vec();
    for text in [service, "hash", descriptor] {
        body.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
        body.extend_from_slice(text.as_bytes());
    }
    body.extend_from_slice(&0_u16.to_be_bytes());
    write(out, FrameKind::Define, 0, round, &body);
}

async fn unfinished(mut peer: Peer) -> io::Result<()> {
    let mut out = hello();
    peer.send(&out).await?;
    // The server's HELLO: before it, nothing more may be sent.
    peer.read().await?;
    out.clear();
    define(&mut out, INTERFACE, 0);
    for slot in 0..N_REQUESTS {
        let mut body = 0_u32.to_be_bytes().to_vec();
        body.extend_from_slice(&REQUEST_TIMEOUT_MS.to_be_bytes());
        body.extend_from_slice(&REQUEST_LEN.to_be_bytes());
        write(&mut out, FrameKind::Request, flags::MORE, slot.into(), &body);
    }
    let part = vec![b'a'; PART_LEN];
    // All but the last part of each, in turns.
    for _ in 0..usize::try_from(REQUEST_LEN).unwrap_or(0) / PART_LEN {
        for slot in 0..N_REQUESTS {
            write(&mut out, FrameKind::Chunk, flags::MORE, slot.into(), &part);
        }
        while PART_LEN < out.len() {
            let answers = peer.turn(&mut out).await?.to_vec();
            answer_pings(&answers, &mut out);
        }
    }
    loop {
        let answers = peer.turn(&mut out).await?.to_vec();
        answer_pings(&answers, &mut out);
    }
}

/// Answers every PING that is at the beginning of what was read at a time, as it does on a
/// link on which nothing else comes.
fn answer_pings(mut bytes: &[u8], out: &mut Vec<u8>) {
    while let Some(head) = bytes.first_chunk() {
        let header = Header::parse(head);
        let (len, start) = (header.body_len as usize, link_proto::header::HEADER_LEN);
        let Some(body) = bytes.get(start..start + len) else { return };
        if header.kind == FrameKind::Ping as u8 {
            write(out, FrameKind::Pong, 0, 0, body);
        }
        bytes = &bytes[start + len..];
    }
}

async fn defines(mut peer: Peer) -> io::Result<()> {
    peer.send(&hello()).await?;
    peer.read().await?;
    let service = format!("{:a<NAME_LEN$}", "no.such.Service");
    let (mut out, mut round) = (Vec::new(), 0);
    loop {
        if out.is_empty() {
            for _ in 0..REFUSED_PER_BATCH {
                define(&mut out, &service, round);
                round += 1;
            }
            tokio::task::yield_now().await;
        }
        peer.turn(&mut out).await?;
    }
}

async fn expanding(mut peer: Peer) -> io::Result<()> {
    let mut args = Vec::new();
    let mut encoder = hessian::Encoder::new(&mut args);
    encoder.list_begin(None, N_LISTS as usize + 1);
    encoder.list_begin(None, 1);
    encoder.string(&"a".repeat(TEXT_LEN));
    for inner in 1..=N_LISTS {
        encoder.list_begin(None, N_REFERENCES);
        (0..N_REFERENCES).for_each(|_| encoder.reference(inner));
    }
    peer.send(&hello()).await?;
    peer.read().await?;
    let mut out = Vec::new();
    define_method(&mut out, APP_INTERFACE, "Ljava/lang/Object;", 0);
    for slot in 0..N_EXPANDING {
        let mut body = 0_u32.to_be_bytes().to_vec();
        body.extend_from_slice(&EXPANDING_TIMEOUT_MS.to_be_bytes());
        body.extend_from_slice(&args);
        write(&mut out, FrameKind::Request, 0, slot.into(), &body);
    }
    peer.send(&out).await?;
    // Once all were answered, the next ones come on a new link.
    let (mut n_left, mut answers) = (N_EXPANDING, Vec::new());
    while 0 < n_left {
        answers.extend_from_slice(peer.read().await?);
        while let Some(head) = answers.first_chunk() {
            let header = Header::parse(head);
            let len = link_proto::header::HEADER_LEN + header.body_len as usize;
            if answers.len() < len {
                break;
            }
            n_left -= u32::from(header.kind == FrameKind::Response as u8);
            answers.drain(..len);
        }
    }
    Ok(())
}

async fn pings(mut peer: Peer) -> io::Result<()> {
    peer.send(&hello()).await?;
    peer.read().await?;
    let mut out = Vec::new();
    for n in 0..PINGS_PER_BATCH {
        write(&mut out, FrameKind::Ping, 0, 0, &n.to_be_bytes());
    }
    peer.flood_deaf(&out).await
}
