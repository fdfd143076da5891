//! Any text as a type and a JSON value, to Hessian.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    hessian::check::from_json(data);
});
