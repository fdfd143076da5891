//! What the protocol costs: a client and a server back to back, with no socket between them.
//!
//! Prints the nanoseconds of CPU time per call of both sides together: encoding and decoding
//! request and response, and the state of the call on both sides. CPU time, since other programs
//! share the cores. `BENCH_SECONDS` sets the time per row.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use bytes::{Buf, BytesMut};
use link_proto::{
    Config, Connection, Event, Payload, Reply, RequestOut, RouteDef, RouteId, Status,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// What one read takes off a socket at most.
const READ_LEN: usize = 64 * 1024;

fn main() {
    let seconds = std::env::var("BENCH_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(1.0);
    let time = Duration::from_secs_f64(seconds);
    println!("{:>10} {:>10} {:>8} {:>12}", "in flight", "bytes", "meta", "ns per call");
    for (in_flight, len, meta) in [
        (1, 100, false),
        (100, 100, false),
        (1000, 100, false),
        (100, 100, true),
        (100, 4096, false),
    ] {
        let mut pair = Pair::new(in_flight);
        pair.run(len, meta, time / 5);
        let ns = pair.run(len, meta, time);
        println!("{in_flight:>10} {len:>10} {meta:>8} {ns:>12.1}");
    }
}

struct Pair {
    client: Connection<u64>,
    server: Connection<()>,
    to_server: BytesMut,
    to_client: BytesMut,
    route: RouteId,
    in_flight: usize,
}

impl Pair {
    fn new(in_flight: usize) -> Self {
        let now = Instant::now();
        let mut client = Connection::client(Config::default(), now);
        let mut server = Connection::server(Config::default(), now);
        server.handle_bytes(now, client.transmit()).expect("HELLO");
        client.handle_bytes(now, server.transmit()).expect("HELLO");
        let route = client.define(&RouteDef::default()).expect("first route");
        let (to_server, to_client) = (BytesMut::new(), BytesMut::new());
        Self { client, server, to_server, to_client, route, in_flight }
    }

    fn run(&mut self, len: usize, meta: bool, time: Duration) -> f64 {
        let data = vec![b'x'; len];
        let meta: &[(&str, &str)] =
            if meta { &[("traceparent", "00-4bf92f3577b34da6")] } else { &[] };
        let (mut n_calls, start, cpu_start) = (0_u64, Instant::now(), cpu_ns());
        let mut now = start;
        while now - start < time {
            for _ in 0..64 {
                n_calls += self.turn(now, &data, meta);
            }
            now = Instant::now();
        }
        (cpu_ns() - cpu_start) as f64 / n_calls as f64
    }

    /// Both sides' loops once: send what fits, carry it over, answer, carry it back.
    fn turn(&mut self, now: Instant, data: &[u8], meta: &[(&str, &str)]) -> u64 {
        let mut n_done = 0;
        while self.client.in_flight() < self.in_flight {
            let request = RequestOut {
                deadline: Some(now + Duration::from_secs(1)),
                meta,
                codec: 1,
                payload: Payload::Slice(data),
                ..RequestOut::new(self.route)
            };
            self.client.send_request(now, request, n_done).expect("credit and room");
        }
        while carry(self.client.transmit(), &mut self.to_server) {
            self.server.handle_bytes(now, &mut self.to_server).expect("a good peer");
            while let Some(event) = self.server.poll_event() {
                if let Event::Request { id, payload, meta, .. } = event {
                    black_box(&meta);
                    let payload = Payload::Slice(&payload);
                    self.server.respond(id, Reply { payload, ..Reply::new(Status::OK) });
                }
            }
        }
        while carry(self.server.transmit(), &mut self.to_client) {
            self.client.handle_bytes(now, &mut self.to_client).expect("a good peer");
            while let Some(event) = self.client.poll_event() {
                if let Event::Response { payload, .. } = event {
                    black_box(payload.len());
                    n_done += 1;
                }
            }
        }
        n_done
    }
}

/// Nanoseconds that this process spent on a core, as Linux counts them.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("this runs on Linux only");
    let first = stat.split_whitespace().next().and_then(|ns| ns.parse().ok());
    first.expect("three numbers")
}

/// What write and read do: at most one buffer of bytes goes over.
fn carry(from: &mut BytesMut, to: &mut BytesMut) -> bool {
    let len = from.len().min(READ_LEN);
    to.reserve(READ_LEN);
    to.extend_from_slice(&from[..len]);
    from.advance(len);
    len != 0
}
