//! Dubbo requests to an app that speaks HTTP, in every serialization, as its HTTP requests.
#![no_main]

use std::time::Instant;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    agent::backend::http::exercise::call(data, Instant::now());
});
