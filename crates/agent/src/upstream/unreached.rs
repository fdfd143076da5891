//! Why an endpoint cannot be reached, in words that say what to do.

use std::io::{self, ErrorKind};
use std::time::Duration;

use wire::Destination;

/// What to check where packets come to nothing.
const REMEDY: &str = "check that the provider runs, that a firewall lets the port pass, and that \
                      it registers an address that can be reached from here \
                      (DUBBO_IP_TO_REGISTRY)";

/// A call has waited for a connection for so long.
pub(super) fn no_connection(address: &str, waited: Duration) -> String {
    let waited_ms = waited.as_millis();
    format!("cannot connect to {address}: no answer within {waited_ms} ms; {REMEDY}")
}

/// A call has waited for so long until a connection that is there takes calls.
pub(super) fn no_handshake(address: &str, protocol: &str, waited: Duration) -> String {
    let waited_ms = waited.as_millis();
    format!(
        "connected to {address}, but it has not answered within {waited_ms} ms; check that it \
         speaks the protocol {protocol}"
    )
}

/// An attempt that may take `timeout` has failed.
pub(super) fn cannot_connect(
    destination: &Destination,
    timeout: Duration,
    error: &io::Error,
) -> String {
    match (destination, error.kind()) {
        // With TLS, it may be the handshake that was late.
        (Destination::Tcp { tls: None, .. }, ErrorKind::TimedOut) => {
            no_connection(&destination.to_string(), timeout)
        }
        (Destination::Tcp { .. }, ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable) => {
            format!("cannot connect: {error}; {REMEDY}")
        }
        _ => format!("cannot connect: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use wire::SocketOptions;

    use super::*;

    #[test]
    fn who_gets_no_answer_is_told_what_to_check() {
        let options = SocketOptions::default();
        let tcp = Destination::Tcp { host: "10.0.0.7".into(), port: 20880, options, tls: None };
        for (destination, kind, is_told) in [
            (&tcp, ErrorKind::TimedOut, true),
            (&tcp, ErrorKind::HostUnreachable, true),
            (&tcp, ErrorKind::ConnectionRefused, false),
            (&Destination::Unix("/run/a.sock".into()), ErrorKind::TimedOut, false),
        ] {
            let text = cannot_connect(destination, Duration::from_secs(1), &kind.into());
            assert!(text.starts_with("cannot connect"), "{text}");
            assert_eq!(text.ends_with("(DUBBO_IP_TO_REGISTRY)"), is_told, "{text}");
        }
        let silent = cannot_connect(&tcp, Duration::from_secs(1), &ErrorKind::TimedOut.into());
        let told = "cannot connect to 10.0.0.7:20880: no answer within 1000 ms; check that";
        assert!(silent.starts_with(told), "{silent}");
    }
}
