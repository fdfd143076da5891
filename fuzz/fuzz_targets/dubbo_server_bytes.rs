//! What a hostile Dubbo consumer can send to a provider's side.
#![no_main]

use std::time::Instant;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    dubbo_proto::exercise::server_bytes(data, Instant::now());
});
