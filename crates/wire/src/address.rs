//! The one reader and writer of `HOST:PORT`. Pure.
//!
//! A host is a name, an IPv4 address, or an IPv6 address, which is in brackets where a port
//! can follow. Where a program of this machine can be meant, `unix:` and the path of a socket
//! stand in the place of host and port. Nothing is resolved here.
//!
//! Two rules are in use. [`split`] and [`split_optional`] read what people configure.
//! [`is_authority`] reads what URIs and Host headers may hold, which is more. Dubbo's URLs follow
//! a third rule, that of Java. It is in `dubbo-proto`, which must not know this crate.

use std::net::Ipv6Addr;

/// No name in the DNS is longer.
const MAX_HOST_LEN: usize = 253;

/// Why a text is not an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AddressError {
    /// Nothing comes before the port.
    #[error("the host is missing")]
    NoHost,
    /// The host has characters that no host has, or too many.
    #[error("the host is neither a name nor an IP address (write an IPv6 address in brackets)")]
    BadHost,
    /// There is no port.
    #[error("the port is missing")]
    NoPort,
    /// The port is not a number from 1 to 65535.
    #[error("the port is not a number from 1 to 65535")]
    BadPort,
}

/// Takes `HOST:PORT` or `[IPV6]:PORT` apart.
///
/// # Errors
/// What is wrong with it.
pub fn split(text: &str) -> Result<(&str, u16), AddressError> {
    match split_optional(text)? {
        (host, Some(port)) => Ok((host, port)),
        (_, None) => Err(AddressError::NoPort),
    }
}

/// Takes `HOST`, `HOST:PORT`, `[IPV6]`, `[IPV6]:PORT` or a bare IPv6 address apart.
///
/// # Errors
/// What is wrong with it.
pub fn split_optional(text: &str) -> Result<(&str, Option<u16>), AddressError> {
    if is_ipv6(text) {
        return Ok((text, None));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or(AddressError::BadHost)?;
            if !is_ipv6(host) {
                return Err(AddressError::BadHost);
            }
            let port = match rest {
                "" => None,
                _ => Some(rest.strip_prefix(':').ok_or(AddressError::BadPort)?),
            };
            (host, port)
        }
        None => {
            let (host, port) = text.split_once(':').map_or((text, None), |(h, p)| (h, Some(p)));
            check_name(host)?;
            (host, port)
        }
    };
    Ok((host, port.map(parse_port).transpose()?))
}

/// Whether `text` is what a Host header may hold: `uri-host [ ":" port ]`, or nothing.
/// Source: RFC 9110, 7.2; RFC 3986, 3.2.2.
#[must_use]
pub fn is_authority(text: &str) -> bool {
    let (name, port) = split_authority(text);
    // RFC 3986, reg-name.
    let is_name_byte = |byte: u8| {
        matches!(byte,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$'
            | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=')
    };
    let is_name = match name.strip_prefix('[') {
        Some(address) => {
            address.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
        }
        None => name.bytes().all(is_name_byte),
    };
    let is_empty = name.is_empty() && port.is_some();
    // Rust would read a leading plus, too.
    let is_port = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit())
            && (port.is_empty() || port.parse::<u16>().is_ok())
    };
    is_name && !is_empty && port.is_none_or(is_port)
}

/// The two parts of an authority, unchecked. The host keeps its brackets. The port may be missing.
#[must_use]
pub fn split_authority(text: &str) -> (&str, Option<&str>) {
    let colon = text.bytes().rposition(|byte| matches!(byte, b':' | b']'));
    match colon.and_then(|at| Some((text.get(..at)?, text.get(at..)?.strip_prefix(':')?))) {
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    }
}

/// `HOST:PORT`, with brackets where an IPv6 address needs them. A Unix socket has no port.
#[must_use]
pub fn join(host: &str, port: u16) -> String {
    match host.contains(':') {
        true if unix_path(host).is_some() => host.to_owned(),
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// What comes before the path of a Unix socket, where a host could stand.
pub const UNIX: &str = "unix:";

/// The path, if in the place of a host a Unix socket is named: `unix:/run/orders.sock`.
#[must_use]
pub fn unix_path(host: &str) -> Option<&str> {
    host.strip_prefix(UNIX)
}

fn check_name(host: &str) -> Result<(), AddressError> {
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match host.len() {
        0 => Err(AddressError::NoHost),
        1..=MAX_HOST_LEN if host.bytes().all(is_host_byte) => Ok(()),
        _ => Err(AddressError::BadHost),
    }
}

fn parse_port(text: &str) -> Result<u16, AddressError> {
    // Rust would read a leading plus, too.
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| is_number && *port != 0);
    port.ok_or(AddressError::BadPort)
}

/// An IPv6 address, with its zone if it has one: `fe80::1%eth0`.
fn is_ipv6(text: &str) -> bool {
    let (address, zone) = text.split_once('%').map_or((text, None), |(a, z)| (a, Some(z)));
    let is_zone = |zone: &str| check_name(zone).is_ok();
    address.parse::<Ipv6Addr>().is_ok() && zone.is_none_or(is_zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, host, port) in [
            ("localhost:1", "localhost", Some(1)),
            ("10.0.0.7:20880", "10.0.0.7", Some(20880)),
            ("a-b.c_d.internal:65535", "a-b.c_d.internal", Some(65535)),
            ("[::1]:80", "::1", Some(80)),
            ("[fe80::1%eth0]:80", "fe80::1%eth0", Some(80)),
            ("[::1]", "::1", None),
            ("::1", "::1", None),
            ("host", "host", None),
        ] {
            assert_eq!(split_optional(text), Ok((host, port)), "{text}");
            let expected = port.map(|port| (host, port)).ok_or(AddressError::NoPort);
            assert_eq!(split(text), expected, "{text}");
            if let Some(port) = port {
                assert_eq!(join(host, port), text);
            }
        }
    }

    #[test]
    fn says_what_is_wrong() {
        let long = format!("{}:1", "a".repeat(MAX_HOST_LEN + 1));
        for (text, error) in [
            ("", AddressError::NoHost),
            (":1", AddressError::NoHost),
            ("h", AddressError::NoPort),
            ("::1", AddressError::NoPort),
            ("h:", AddressError::BadPort),
            ("h:0", AddressError::BadPort),
            ("h:65536", AddressError::BadPort),
            ("h:+1", AddressError::BadPort),
            ("h:1:2", AddressError::BadPort),
            ("[::1]x", AddressError::BadPort),
            ("[::1]80", AddressError::BadPort),
            ("[::1", AddressError::BadHost),
            ("[h]:1", AddressError::BadHost),
            ("a b:1", AddressError::BadHost),
            ("u@h:1", AddressError::BadHost),
            ("h/x:1", AddressError::BadHost),
            ("é:1", AddressError::BadHost),
            (&long, AddressError::BadHost),
        ] {
            assert_eq!(split(text), Err(error), "{text}");
        }
    }

    #[test]
    fn authorities_are_names_or_addresses_with_or_without_port() {
        for good in [
            "",
            "a",
            "localhost:20000",
            "127.0.0.1",
            "[::1]:80",
            "[::1]",
            "a_b.example",
            "a:",
            "a:65535",
            "%41",
        ] {
            assert!(is_authority(good), "{good:?}");
        }
        for bad in [
            ":80", "a b", "a/b", "u@a", "a:b", "a:1:2", "[::1", "::1", "[x]", "a\\", "a#",
            "[::1]x", "a:65536", "a:+1",
        ] {
            assert!(!is_authority(bad), "{bad:?}");
        }
    }
}
