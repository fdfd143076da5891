//! Forms, JSON bodies, paths and parameter types, as any caller may write them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| agent::ingress::http::exercise::mapping(data));
