//! What a hostile ZooKeeper server can send to an agent.
#![no_main]

use std::time::Instant;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    zookeeper_proto::exercise::server_bytes(data, Instant::now());
});
