//! Any bytes that a link's client may be sent by its server.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::time::Instant;

fuzz_target!(|data: &[u8]| link_proto::exercise::client_bytes(data, Instant::now()));
