//! The process's own listeners for the calls of Dubbo consumers, and endpoints that lead there.
//!
//! Such a listener looks called services up in a registry. If that registry says that the listener
//! itself offers a service, its calls come back again and again. Nobody here forbids that: an
//! operator is told.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};

use tracing::warn;

/// Of so many endpoints an operator is told. A registry may list any number.
const MAX_TOLD: usize = 64;

/// One such listener.
#[derive(Clone, Debug)]
pub struct OwnIngress {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The name of the registry that it looks services up in.
    pub registry: Box<str>,
}

/// Those of a process, and of which endpoints was told. All workers share it.
#[derive(Debug, Default)]
pub struct OwnIngresses {
    all: Vec<OwnIngress>,
    told: Mutex<BTreeSet<String>>,
}

impl OwnIngresses {
    /// Nothing was told yet.
    #[must_use]
    pub fn new(all: Vec<OwnIngress>) -> Self {
        Self { all, told: Mutex::default() }
    }

    /// Tells, once, that calls of `service` that go to this Dubbo endpoint of `registry` come back
    /// again and again, if they do. Whether it was told.
    pub fn tell_loop(&self, service: &str, registry: &str, host: &str, port: u16) -> bool {
        let leads_back =
            |own: &OwnIngress| *own.registry == *registry && is_reached_at(own.listen, host, port);
        if !self.all.iter().any(leads_back) {
            return false;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if MAX_TOLD <= told.len() || !told.insert(format!("{service} {host}:{port}")) {
            return false;
        }
        warn!(
            service, registry, endpoint = %format_args!("{host}:{port}"),
            "the registry lists this agent's own Dubbo ingress as a provider, so calls of the \
             service come back here again and again; remove the endpoint from the registry"
        );
        true
    }
}

/// Whether a connection to this host and port surely ends at the listener. Names are not resolved,
/// but for `localhost`.
#[must_use]
pub fn is_reached_at(listen: SocketAddr, host: &str, port: u16) -> bool {
    if listen.port() != port {
        return false;
    }
    let ip = match host {
        "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        _ => host.parse().ok(),
    };
    let Some(ip) = ip.map(|ip: IpAddr| ip.to_canonical()) else { return false };
    // Who connects to no address in particular gets to this machine.
    let ip = match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    match listen.ip().to_canonical() {
        IpAddr::V4(any) if any.is_unspecified() => ip.is_ipv4() && is_local(ip),
        IpAddr::V6(any) if any.is_unspecified() => is_local(ip),
        own => own == ip,
    }
}

/// Whether an address is one of this machine: then it is also the address that connections to it
/// come from. Nothing is sent to find out.
fn is_local(ip: IpAddr) -> bool {
    let source = || {
        let any: IpAddr =
            if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        // Any port will do.
        socket.connect((ip, 9))?;
        socket.local_addr()
    };
    ip.is_loopback() || source().is_ok_and(|source| source.ip() == ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_reached_at_its_own_addresses() {
        for (listen, host, port, expected) in [
            ("127.0.0.1:20880", "127.0.0.1", 20880, true),
            ("127.0.0.1:20880", "localhost", 20880, true),
            ("127.0.0.1:20880", "0.0.0.0", 20880, true),
            ("127.0.0.1:20880", "::ffff:127.0.0.1", 20880, true),
            ("127.0.0.1:20880", "127.0.0.1", 20881, false),
            ("127.0.0.1:20880", "127.0.0.2", 20880, false),
            ("127.0.0.1:20880", "::1", 20880, false),
            ("127.0.0.1:20880", "provider", 20880, false),
            ("0.0.0.0:20880", "127.0.0.2", 20880, true),
            ("0.0.0.0:20880", "::1", 20880, false),
            ("0.0.0.0:20880", "192.0.2.7", 20880, false),
            ("[::]:20880", "::1", 20880, true),
            ("[::]:20880", "127.0.0.1", 20880, true),
            ("[::]:20880", "::", 20880, true),
        ] {
            let reached = is_reached_at(listen.parse().unwrap(), host, port);
            assert_eq!(reached, expected, "{listen} at {host}:{port}");
        }
    }

    #[test]
    fn an_endpoint_is_told_of_once_and_only_in_the_listeners_registry() {
        let listen = "127.0.0.1:20880".parse().unwrap();
        let own = OwnIngresses::new(vec![OwnIngress { listen, registry: "main".into() }]);
        let tell =
            |service: &str, registry, port| own.tell_loop(service, registry, "127.0.0.1", port);
        assert!(!tell("a.B", "other", 20880), "what that registry lists is not called from there");
        assert!(!tell("a.B", "main", 20881));
        assert!(tell("a.B", "main", 20880));
        assert!(!tell("a.B", "main", 20880), "told already");
        let n_told = (0..2 * MAX_TOLD).filter(|n| tell(&format!("a.C{n}"), "main", 20880)).count();
        assert_eq!(n_told, MAX_TOLD - 1);
    }
}
