//! Dubbo's URLs: where a service is offered and how, in one line of text.
//!
//! They look like URLs of the web and are not: nothing inside is percent-encoded. It is the whole
//! URL that gets encoded, once, when it becomes the name of a registry's node ([`decode_key`]).
//! Source: apache/dubbo, `org.apache.dubbo.common.URL` and `URLStrParser`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use parameters::Parameters;

use crate::ProtoError;
use crate::credentials::without_credentials;

mod key;
mod params;

pub use key::{decode_key, encode_key};

/// The longest URL. An interface of a thousand methods, all of them listed, stays below.
pub const MAX_URL_LEN: usize = 64 << 10;

/// The most parameters of one URL.
pub const MAX_PARAMS: usize = 1024;

/// One address that offers a service, with all that its provider tells about it. Its `Debug` form
/// leaves name and password out.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct DubboUrl {
    /// `dubbo`, `tri`, `empty`, `consumer`, ...
    pub protocol: String,
    /// Before `@`, if there is one.
    pub username: Option<String>,
    /// Behind the user name, if there is one.
    pub password: Option<String>,
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// 0 when the URL has none.
    pub port: u16,
    /// Without the `/` in front. Mostly the interface, but a context path may come before it.
    pub path: String,
    /// What comes after `?`. A name without `=` has itself as its value, as in Dubbo.
    pub params: Parameters,
}

impl FromStr for DubboUrl {
    type Err = ProtoError;

    fn from_str(text: &str) -> Result<Self, ProtoError> {
        if text.len() > MAX_URL_LEN {
            return Err(ProtoError::Url { offset: MAX_URL_LEN, rule: "longer than any URL" });
        }
        if let Some(offset) = text.find(char::is_control) {
            return Err(ProtoError::Url { offset, rule: "no control characters" });
        }
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        if let Some(offset) = address.find(' ') {
            return Err(ProtoError::Url { offset, rule: "no spaces before the parameters" });
        }
        let Some((protocol, rest)) = address.split_once("://") else {
            return Err(ProtoError::Url { offset: 0, rule: "begins with protocol://" });
        };
        let is_protocol_byte = |b: u8| b.is_ascii_alphanumeric() || b"+-._".contains(&b);
        if protocol.is_empty() || !protocol.bytes().all(is_protocol_byte) {
            return Err(ProtoError::Url { offset: 0, rule: "a protocol of letters and digits" });
        }
        let authority_offset = protocol.len() + 3;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, address) = match authority.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, authority),
        };
        let (username, password) = match user.map(|user| user.split_once(':').ok_or(user)) {
            Some(Ok((username, password))) => (Some(username.into()), Some(password.into())),
            Some(Err(username)) => (Some(username.into()), None),
            None => (None, None),
        };
        let (host, port) = parse_address(address, authority_offset)?;
        let params = parse_params(query, text.len() - query.len())?;
        let (protocol, path) = (protocol.to_owned(), path.to_owned());
        Ok(Self { protocol, username, password, host, port, path, params })
    }
}

/// Whether this can be a name or an address, without brackets. Nothing can be one, too.
#[must_use]
pub fn is_host(text: &str) -> bool {
    /// The longest name in DNS.
    const MAX_LEN: usize = 255;
    let is_host_byte = |b: u8| b.is_ascii_alphanumeric() || b"-._:%*".contains(&b);
    text.len() <= MAX_LEN && text.bytes().all(is_host_byte)
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`, and Java's bare `v6:port`.
fn parse_address(address: &str, offset: usize) -> Result<(String, u16), ProtoError> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, rest)) => match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None => return Err(ProtoError::Url { offset, rule: "only :port after ]" }),
            },
            None => return Err(ProtoError::Url { offset, rule: "no ] after [" }),
        },
        None => match address.rsplit_once(':') {
            // A zone (`fe80::1%eth0`) comes last, so no port can follow it.
            Some((_, last)) if last.contains('%') => (address, None),
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    if !is_host(host) {
        return Err(ProtoError::Url { offset, rule: "a host of letters, digits and - . _ : %" });
    }
    let port = match port {
        None => 0,
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => {
            port.parse().map_err(|_| ProtoError::Url { offset, rule: "a port from 0 to 65535" })?
        }
        Some(_) => return Err(ProtoError::Url { offset, rule: "a port from 0 to 65535" }),
    };
    Ok((host.to_owned(), port))
}

fn parse_params(query: &str, mut offset: usize) -> Result<Parameters, ProtoError> {
    let mut params = BTreeMap::new();
    for part in query.split('&') {
        let (name, value) = part.split_once('=').unwrap_or((part, part));
        if !name.is_empty() {
            if params.len() >= MAX_PARAMS {
                return Err(ProtoError::Url { offset, rule: "at most 1024 parameters" });
            }
            params.insert(name, value);
        } else if !part.is_empty() {
            return Err(ProtoError::Url { offset, rule: "a parameter has a name" });
        }
        offset += part.len() + 1;
    }
    Ok(params.into_iter().collect())
}

impl fmt::Display for DubboUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.protocol)?;
        if let Some(username) = &self.username {
            f.write_str(username)?;
            if let Some(password) = &self.password {
                write!(f, ":{password}")?;
            }
            f.write_str("@")?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        if self.port != 0 {
            write!(f, ":{}", self.port)?;
        }
        if !self.path.is_empty() {
            write!(f, "/{}", self.path)?;
        }
        for (at, (name, value)) in self.params.iter().enumerate() {
            let sign = if at == 0 { '?' } else { '&' };
            write!(f, "{sign}{name}={value}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for DubboUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DubboUrl({})", without_credentials(&self.to_string()))
    }
}

#[cfg(test)]
mod tests;
