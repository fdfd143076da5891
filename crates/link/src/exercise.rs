//! What fuzz targets call, and unit tests, too.

use crate::client::{Address, ClientConfig, Dialer};
use crate::trace::TraceContext;

/// Reads a text as what peers and users give us: a `traceparent`, and an address. What can be read
/// is the same when it is written and read once more.
///
/// # Panics
/// It is not the same.
pub fn texts(text: &str) {
    if let Ok(trace) = text.parse::<TraceContext>() {
        assert!(trace.trace_id() != 0 && trace.span_id() != 0);
        assert_eq!(trace.to_string().parse(), Ok(trace));
    }
    let config = ClientConfig::default();
    if let Ok(dialer) = Dialer::new(&Address::from(text), &config) {
        let again = Dialer::new(&Address::from(dialer.to_string()), &config);
        let again = again.expect("what was read once").to_string();
        assert_eq!(again, dialer.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_traces_survive_writing() {
        for text in [
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff-more",
            "localhost:80",
            "[::1]:080",
            "[host]:+1",
            "[[x]]:80",
            "[[]]:80",
            "",
            ":",
        ] {
            texts(text);
        }
        for good in ["localhost:80", "[::1]:80", "[fe80::1%eth0]:80"] {
            assert!(Dialer::new(&good.into(), &ClientConfig::default()).is_ok(), "{good}");
        }
        for bad in [
            "",
            ":80",
            "host",
            "host:",
            "host:65536",
            "::1:80",
            "[]:80",
            "[[x]]:80",
            "[x:80",
            "[host]:1",
        ] {
            assert!(Dialer::new(&bad.into(), &ClientConfig::default()).is_err(), "{bad}");
        }
    }
}
