//! JSON of a hostile caller, with the type that it is to have in front.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    jsonb::check::from_json(data);
});
