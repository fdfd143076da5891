//! What a metadata center, a file or a provider's telnet says of a service.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    dubbo_proto::exercise::definition(text);
});
