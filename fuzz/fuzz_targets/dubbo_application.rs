//! What anybody can write into a registry about applications.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    dubbo_proto::exercise::application(text);
});
