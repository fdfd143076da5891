//! Reading any bytes into Rust types, and writing them again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    hessian::serde::check::read(data);
});
