//! Texts of fastjson's dialect, in both framings, as JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    dubbo_proto::exercise::fastjson(data);
});
