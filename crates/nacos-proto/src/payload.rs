//! The one message of Nacos' gRPC services.

use std::collections::HashMap;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// As much of a body that cannot be read as an error shows, in characters.
const MAX_SHOWN_LEN: usize = 120;

/// What goes over the wire. Source: `nacos_grpc_service.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Payload {
    /// What the body is, and who sends it.
    #[prost(message, optional, tag = "2")]
    metadata: Option<Metadata>,
    /// `google.protobuf.Any`, of which Nacos uses the value alone.
    #[prost(message, optional, tag = "3")]
    body: Option<Body>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Metadata {
    /// The simple name of the Java class.
    #[prost(string, tag = "3")]
    kind: String,
    #[prost(map = "string, string", tag = "7")]
    headers: HashMap<String, String>,
    #[prost(string, tag = "8")]
    client_ip: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Body {
    #[prost(string, tag = "1")]
    type_url: String,
    /// A piece of the buffer that it came in.
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// Why a message cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadPayload {
    /// The JSON is none, or not what its type has.
    #[error("{kind}: {reason} in {shown}")]
    Json {
        /// The type that the message says.
        kind: String,
        /// What is wrong, and where.
        reason: String,
        /// The beginning of the body.
        shown: String,
    },
}

impl Payload {
    /// A message of a type, with headers and a body that is written as JSON.
    #[must_use]
    pub fn new(kind: &str, headers: HashMap<String, String>, body: &impl Serialize) -> Self {
        // Only maps with keys that are no texts cannot be written, and none of ours has such.
        let value = serde_json::to_vec(body).unwrap_or_default();
        Self::raw(kind, headers, value)
    }

    /// The same with a body that is JSON already.
    #[must_use]
    pub fn raw(kind: &str, headers: HashMap<String, String>, value: Vec<u8>) -> Self {
        let metadata = Metadata { kind: kind.to_owned(), headers, client_ip: String::new() };
        Self {
            metadata: Some(metadata),
            body: Some(Body { type_url: String::new(), value: value.into() }),
        }
    }

    /// The type; empty if the message says none.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.metadata.as_ref().map_or("", |metadata| &metadata.kind)
    }

    /// A header by its name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.metadata.as_ref()?.headers.get(name).map(String::as_str)
    }

    /// The body, which is JSON.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        self.body.as_ref().map_or(&[], |body| &body.value)
    }

    /// Reads the body.
    ///
    /// # Errors
    /// If it is no JSON, or not of this form.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, BadPayload> {
        serde_json::from_slice(self.json()).map_err(|error| BadPayload::Json {
            kind: self.kind().chars().take(MAX_SHOWN_LEN).collect(),
            reason: error.to_string(),
            shown: String::from_utf8_lossy(self.json()).chars().take(MAX_SHOWN_LEN).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    /// The bytes are put together by hand from the definition of the message.
    #[test]
    fn has_the_bytes_that_javas_client_writes() {
        let payload = Payload::raw("Ask", HashMap::from([("k".into(), "v".into())]), b"{}".into());
        let metadata = b"\x1a\x03Ask\x3a\x06\x0a\x01k\x12\x01v";
        let mut expected = vec![0x12, u8::try_from(metadata.len()).unwrap()];
        expected.extend(metadata);
        expected.extend(b"\x1a\x04\x12\x02{}");
        assert_eq!(payload.encode_to_vec(), expected);
        assert_eq!(Payload::decode(&*expected).unwrap(), payload);
        assert_eq!((payload.kind(), payload.header("k")), ("Ask", Some("v")));
    }

    #[test]
    fn what_is_missing_is_empty() {
        let empty = Payload::decode(&b""[..]).unwrap();
        assert_eq!((empty.kind(), empty.json(), empty.header("k")), ("", &b""[..], None));
        assert!(empty.read::<serde_json::Value>().is_err());
    }
}
