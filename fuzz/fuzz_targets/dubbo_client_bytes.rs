//! What a hostile Dubbo provider can send to a consumer's agent.
#![no_main]

use std::time::Instant;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    dubbo_proto::exercise::client_bytes(data, Instant::now());
});
