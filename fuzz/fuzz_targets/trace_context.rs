//! What a caller can say in its metadata, and a user as an address.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    link::exercise::texts(text);
});
