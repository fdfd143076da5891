//! Replies of hostile providers as JSON for callers by HTTP, in every serialization and form.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    agent::backend::http::exercise::provider_reply(data);
});
