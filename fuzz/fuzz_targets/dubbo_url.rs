//! What anybody can write into a registry.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    dubbo_proto::exercise::url_text(text);
});
