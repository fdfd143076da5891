//! Reading and skipping any bytes as Hessian.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    hessian::check::decode(data);
});
