//! What an API server of Kubernetes can say about slices and Services.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    registry::kubernetes::exercise(text);
});
