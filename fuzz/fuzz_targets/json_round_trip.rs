//! Any JSON text to Hessian, and back to the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    hessian::check::round_trip(data);
});
