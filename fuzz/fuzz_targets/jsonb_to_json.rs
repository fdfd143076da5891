//! What fastjson2 in a hostile peer could have written.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    jsonb::check::to_json(data);
});
