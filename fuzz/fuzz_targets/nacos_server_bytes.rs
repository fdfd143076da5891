//! What a hostile Nacos can send: nothing panics, and what is read keeps its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| nacos_proto::exercise::server_bytes(data));
