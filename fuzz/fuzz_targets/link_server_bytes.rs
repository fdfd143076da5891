//! Any bytes that a link's server may be sent by its client.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::time::Instant;

fuzz_target!(|data: &[u8]| link_proto::exercise::server_bytes(data, Instant::now()));
