//! The crate's errors: each variant names the rule that was broken and carries its numbers.

use crate::credentials::without_credentials;

/// Why the framing of a connection is lost. After one of these the connection has to be closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FrameError {
    /// The first two bytes are not Dubbo's. Telnet text and HTTP end here, too.
    #[error("magic is {found:#06x}, expected 0xdabb{}", hint(*found))]
    BadMagic {
        /// The two bytes that stood in its place.
        found: u16,
    },
    /// The header announces more than we are ready to buffer.
    #[error("body of {len} bytes is over the limit of {max}")]
    BodyTooLong {
        /// Announced length in bytes.
        len: usize,
        /// Our limit in bytes.
        max: usize,
    },
}

/// What a peer most likely speaks whose first bytes are not Dubbo's.
fn hint(found: u16) -> &'static str {
    match found.to_be_bytes() {
        [0x14..=0x17, 3] => ": the peer speaks TLS, but this connection does not",
        [b'A'..=b'Z', b'A'..=b'Z'] => ": the peer seems to speak HTTP",
        _ => "",
    }
}

/// Why bytes, a name or a message were refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ProtoError {
    /// The framing is lost; close the connection.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The peer does not read what it asked for, so that our output passed its bound.
    #[error("{buffered} bytes wait to be written, over the limit of {max}: the peer does not read")]
    OutputFull {
        /// Bytes that wait.
        buffered: usize,
        /// The limit.
        max: usize,
    },
    /// A message is over Dubbo's payload limit, so it was not written.
    #[error("message of {len} bytes is over the payload limit of {max}")]
    PayloadTooLong {
        /// Length of the body in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// Bodies of this serialization can be passed on, but not read or written here.
    #[error("serialization {id} is not supported")]
    UnsupportedSerialization {
        /// The number in the header.
        id: u8,
    },
    /// A field of a hessian2 body is broken.
    #[error("cannot read {field}: {source}")]
    Hessian {
        /// Which part of the body.
        field: &'static str,
        /// What the decoder found, with the offset in the body.
        source: hessian::HessianError,
    },
    /// A field of a fastjson body is broken.
    #[error("cannot read {field} at byte {offset}: expected {rule}")]
    Json {
        /// Which part of the body.
        field: &'static str,
        /// Where its line begins in the body.
        offset: usize,
        /// What it should have been.
        rule: &'static str,
    },
    /// A list is longer than we are ready to read.
    #[error("{count} {what} are too many; the limit is {max}")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many there are at least.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// The number before a reply's value is not one of 0 to 5.
    #[error("reply type is {found}, expected 0 to 5")]
    BadReplyType {
        /// The number found.
        found: i64,
    },
    /// A descriptor of parameter types cannot be read.
    #[error("invalid parameter descriptor at byte {offset}: {rule}")]
    Descriptor {
        /// Where in the descriptor.
        offset: usize,
        /// What is wrong.
        rule: &'static str,
    },
    /// The name of a service or a method, or a part of one, has characters that it cannot have.
    #[error("invalid {what} {found:?}: expected {rule}")]
    Name {
        /// Which name.
        what: &'static str,
        /// How it begins: at most [`ProtoError::MAX_SHOWN_LEN`] bytes.
        found: Box<str>,
        /// What it should have been.
        rule: &'static str,
    },
    /// Such a name is too long.
    #[error("{what} of {len} bytes is too long; the limit is {max} bytes")]
    NameTooLong {
        /// Which name.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A service definition is no such document.
    #[error("the service definition is wrong at line {line}, column {column}: expected {rule}")]
    Definition {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// What it should have been.
        rule: &'static str,
    },
    /// A URL or a registry key cannot be read.
    #[error("url is wrong at byte {offset}: {rule}")]
    Url {
        /// Where, in bytes.
        offset: usize,
        /// What is wrong.
        rule: &'static str,
    },
}

impl ProtoError {
    /// How much of a name is shown, in bytes.
    pub const MAX_SHOWN_LEN: usize = 64;

    /// A name that is not what `rule` says.
    pub(crate) fn name(what: &'static str, name: &str, rule: &'static str) -> Self {
        // A URL in the place of a name may hold a password.
        let hidden = if name.contains("://") { Some(without_credentials(name)) } else { None };
        let name = hidden.as_deref().unwrap_or(name);
        let end = name.floor_char_boundary(Self::MAX_SHOWN_LEN);
        let found = name.get(..end).unwrap_or_default().into();
        Self::Name { what, found, rule }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_dubbo_is_named_if_it_is_known() {
        let text = |bytes: &[u8; 2]| {
            FrameError::BadMagic { found: u16::from_be_bytes(*bytes) }.to_string()
        };
        assert!(text(&[0x16, 3]).ends_with("the peer speaks TLS, but this connection does not"));
        assert!(text(b"GE").ends_with("the peer seems to speak HTTP"));
        assert_eq!(text(b"\r\n"), "magic is 0x0d0a, expected 0xdabb");
    }
}
