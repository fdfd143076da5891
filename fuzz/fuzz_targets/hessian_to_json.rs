//! Any bytes as Hessian, to JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    hessian::check::to_json(data);
});
