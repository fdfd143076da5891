//! Answers of an app that speaks HTTP, as Dubbo replies in every serialization, and from those as
//! JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    agent::backend::http::exercise::answer(data);
});
