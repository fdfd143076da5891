//! The stores, and what writes into them as providers do: entries that belong to nobody.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use interop_harness::{Etcd, HarnessError, Nacos, ZooKeeper, ZooKeeperClient};

use super::tap::Tap;
use super::watcher::Watcher;
use crate::error::BenchError;
use crate::http::{Client, HttpResponse};

/// How far rnacos' port of gRPC is above that of HTTP.
const GRPC_OFFSET: u16 = 1000;

/// Writes of one transaction: the answer to more comes in chunks, which our client does not read.
const MAX_OPS: usize = 20;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum StoreKind {
    ZooKeeper,
    Etcd,
    /// rnacos, which is measured where it is installed.
    Nacos,
}

impl StoreKind {
    pub(super) const ALL: [Self; 3] = [Self::ZooKeeper, Self::Etcd, Self::Nacos];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ZooKeeper => "zookeeper",
            Self::Etcd => "etcd",
            Self::Nacos => "nacos",
        }
    }
}

/// A running store.
pub(super) enum Store {
    ZooKeeper(ZooKeeper),
    Etcd(Box<Etcd>),
    /// The agent talks to it through a tap.
    Nacos(Nacos, Arc<Tap>),
}

impl Store {
    /// `None` if it is not installed and need not be.
    pub(super) fn start(kind: StoreKind) -> Result<Option<Self>, BenchError> {
        Ok(Some(match kind {
            StoreKind::ZooKeeper => Self::ZooKeeper(ZooKeeper::start()?),
            StoreKind::Etcd => Self::Etcd(Box::new(Etcd::start()?)),
            StoreKind::Nacos => match Nacos::start() {
                Err(HarnessError::NotInstalled { .. }) => return Ok(None),
                nacos => {
                    let nacos = nacos?;
                    let tap = Tap::start(grpc(nacos.addr()), tap_ports(nacos.addr()))?;
                    Self::Nacos(nacos, Arc::new(tap))
                }
            },
        }))
    }

    /// The section of a configuration.
    pub(super) fn section(&self) -> String {
        let (kind, endpoint) = match self {
            Self::ZooKeeper(store) => (StoreKind::ZooKeeper, store.addr().to_string()),
            Self::Etcd(store) => (StoreKind::Etcd, store.client_url()),
            Self::Nacos(store, _) => (StoreKind::Nacos, store.addr().to_string()),
        };
        let kind = kind.name();
        let offset = self.tap().map(|tap| tap.port - endpoint_port(&endpoint));
        let offset = offset.map(|it| format!("grpc_port_offset = {it}\n")).unwrap_or_default();
        format!("[[registry]]\nkind = \"{kind}\"\nendpoints = [\"{endpoint}\"]\n{offset}")
    }

    /// What reads along what the store pushes to the agent.
    pub(super) fn tap(&self) -> Option<&Arc<Tap>> {
        match self {
            Self::ZooKeeper(_) | Self::Etcd(_) => None,
            Self::Nacos(_, tap) => Some(tap),
        }
    }

    pub(super) fn writer(&self) -> Result<Writer, BenchError> {
        Ok(match self {
            Self::ZooKeeper(store) => Writer::ZooKeeper(Box::new(store.client()?)),
            Self::Etcd(store) => {
                let client = Client::connect(store.addr()).map_err(BenchError::io("etcd"))?;
                Writer::Etcd(client)
            }
            Self::Nacos(store, _) => {
                let addr = store.addr();
                let client = Client::connect(addr).map_err(BenchError::io("rnacos"))?;
                Writer::Nacos { addr, client }
            }
        })
    }

    /// Who follows the providers of an interface, whose folder exists; `None` for Nacos, whose
    /// pushes need its own client.
    pub(super) fn watcher(&self, interface: &str) -> Result<Option<Watcher>, BenchError> {
        Ok(match self {
            Self::ZooKeeper(store) => Some(Watcher::ZooKeeper(Box::new(store.client()?))),
            Self::Etcd(store) => Some(Watcher::of_etcd(store.addr(), interface)?),
            Self::Nacos(..) => None,
        })
    }

    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::ZooKeeper(store) => store.pid(),
            Self::Etcd(store) => store.pid(),
            Self::Nacos(store, _) => store.pid(),
        }
    }

    pub(super) fn kill9(&mut self) {
        match self {
            Self::ZooKeeper(store) => store.kill9(),
            Self::Etcd(store) => store.kill9(),
            Self::Nacos(store, _) => store.kill9(),
        }
    }

    pub(super) fn restart(&mut self) -> Result<(), BenchError> {
        match self {
            Self::ZooKeeper(store) => store.restart_keeping_data()?,
            Self::Etcd(store) => store.restart_keeping_data()?,
            Self::Nacos(store, _) => store.restart_keeping_data()?,
        }
        Ok(())
    }
}

/// Where rnacos speaks gRPC.
fn grpc(http: SocketAddr) -> SocketAddr {
    SocketAddr::new(http.ip(), http.port() + GRPC_OFFSET)
}

/// Ports for its tap: the agent finds gRPC above the port of HTTP.
fn tap_ports(http: SocketAddr) -> Range<u16> {
    http.port() + GRPC_OFFSET + 1..u16::MAX
}

fn endpoint_port(endpoint: &str) -> u16 {
    endpoint.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_default()
}

/// A connection that writes.
pub(super) enum Writer {
    ZooKeeper(Box<ZooKeeperClient>),
    Etcd(Client),
    Nacos { addr: SocketAddr, client: Client },
}

impl Writer {
    /// Adds providers to an interface, whose folder exists, and removes others.
    pub(super) fn change(
        &mut self,
        interface: &str,
        added: &[String],
        removed: &[String],
    ) -> Result<(), BenchError> {
        if let Self::Nacos { addr, client } = self {
            let all = added.iter().map(|url| ("POST", url));
            let all = all.chain(removed.iter().map(|url| ("DELETE", url)));
            return all.into_iter().try_for_each(|(method, url)| {
                let query = instance(interface, url);
                let head = format!("{method} /nacos/v1/ns/instance?{query} HTTP/1.1");
                let answer = client.request(&head, "").or_else(|_| {
                    // rnacos closes a connection that is idle for five seconds. To write an
                    // instance a second time changes nothing.
                    *client = Client::connect(*addr)?;
                    client.request(&head, "")
                });
                checked(answer)
            });
        }
        let paths = |urls: &[String]| urls.iter().map(|url| path(interface, url)).collect();
        let (added, removed): (Vec<_>, Vec<_>) = (paths(added), paths(removed));
        match self {
            Self::ZooKeeper(client) => {
                let added: Vec<&str> = added.iter().map(String::as_str).collect();
                client.create_all(&added, false)?;
                for path in &removed {
                    client.delete(path)?;
                }
            }
            Self::Etcd(client) => {
                let put = |path: &String| {
                    format!(r#"{{"requestPut":{{"key":"{}","value":""}}}}"#, base64(path))
                };
                let delete = |path: &String| {
                    format!(r#"{{"requestDeleteRange":{{"key":"{}"}}}}"#, base64(path))
                };
                let ops: Vec<_> = added.iter().map(put).chain(removed.iter().map(delete)).collect();
                for ops in ops.chunks(MAX_OPS) {
                    let body = format!(r#"{{"success":[{}]}}"#, ops.join(","));
                    checked(client.request("POST /v3/kv/txn HTTP/1.1", &body))?;
                }
            }
            Self::Nacos { .. } => {}
        }
        Ok(())
    }

    /// Makes the folder of an interface.
    pub(super) fn make_folder(&mut self, interface: &str) -> Result<(), BenchError> {
        if let Self::ZooKeeper(client) = self {
            client.create(&format!("/dubbo/{interface}/providers"), b"")?;
        }
        Ok(())
    }
}

/// Where a provider is written.
pub(super) fn path(interface: &str, url: &str) -> String {
    format!("/dubbo/{interface}/providers/{}", encoded(url))
}

fn checked(answer: std::io::Result<HttpResponse>) -> Result<(), BenchError> {
    let answer = answer.map_err(BenchError::io("the store"))?;
    match answer.status {
        200 => Ok(()),
        _ => Err(BenchError::NoResult { output: answer.body }),
    }
}

/// A provider as an instance that stays, in Nacos' form of queries.
fn instance(interface: &str, url: &str) -> String {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let address = place.trim_start_matches("dubbo://").split('/').next().unwrap_or_default();
    let (ip, port) = address.split_once(':').unwrap_or((address, "1"));
    let params = query.split('&').filter_map(|pair| pair.split_once('='));
    // A list of methods is too long for Nacos.
    let params = params.filter(|(name, _)| *name != "methods");
    let fixed = [("protocol", "dubbo"), ("path", interface)];
    let metadata: serde_json::Map<_, _> =
        params.chain(fixed).map(|(name, value)| (name.to_owned(), value.into())).collect();
    let metadata = encoded(&serde_json::Value::from(metadata).to_string());
    let service = encoded(&format!("providers:{interface}::"));
    format!("serviceName={service}&ip={ip}&port={port}&ephemeral=false&metadata={metadata}")
}

/// As Dubbo writes a URL into a path.
fn encoded(url: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_*".contains(&byte);
    let of = |byte: u8| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    url.bytes().map(of).collect()
}

pub(super) fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(text.len().div_ceil(3) * 4);
    for chunk in text.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let is_there = digit <= chunk.len();
            let value = bits >> (18 - 6 * digit) & 63;
            out.push(if is_there { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_etcd_and_dubbo_read_them() {
        for (text, expected) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")] {
            assert_eq!(base64(text), expected);
        }
        assert_eq!(encoded("dubbo://h:1/a.B?x=y"), "dubbo%3A%2F%2Fh%3A1%2Fa.B%3Fx%3Dy");
    }
}
