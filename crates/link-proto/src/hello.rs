//! The body of a HELLO: magic, version range, and properties as type, length, value.
//!
//! Invariant: an unknown property is skipped, so a later version can add one without a new
//! protocol version; a known one must have its length and may stand only once.

use crate::header::{
    FrameKind, HEADER_LEN, Header, MAGIC, MAX_NAME_LEN, MAX_ROUTES, MAX_STREAM_WINDOW, MAX_WINDOW,
};
use crate::reader::Reader;
use crate::version::{VERSION_MAX, VERSION_MIN};
use crate::{Config, LinkError, features};
use bytes::{BufMut, BytesMut};

const NAME: u16 = 1;
const MESSAGE_LIMIT: u16 = 2;
const WINDOW: u16 = 3;
const FEATURES: u16 = 4;
const ROUTE_LIMIT: u16 = 5;
const STREAM_WINDOW: u16 = 6;
/// What a side that states no message limit accepts: one part.
const DEFAULT_MESSAGE_LIMIT: u32 = 64 * 1024;
/// The window of a stream to a side that states none.
const DEFAULT_STREAM_WINDOW: u32 = 64 * 1024;

/// What the peer said in its HELLO, and the version that both sides now use.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PeerHello {
    /// The protocol version in use.
    pub version: u8,
    /// Who the peer says it is; not to be trusted.
    pub name: String,
    /// Longest payload that the peer accepts.
    pub max_message_len: u32,
    /// How many calls the peer takes at once; 0 from a client.
    pub window: u32,
    /// How many routes the peer takes; 0 from a client.
    pub max_routes: u32,
    /// Features of the peer; bits without a meaning here are to be ignored.
    pub features: u64,
    /// Bytes of items that the peer takes on one stream before it gives credit.
    pub stream_window: u32,
}

/// Appends a HELLO frame. Only a server states a window and a limit of routes.
pub(crate) fn encode(config: &Config, is_server: bool, out: &mut BytesMut) {
    let mut body = BytesMut::with_capacity(64 + config.name.len());
    body.put_u32(MAGIC);
    body.put_u8(VERSION_MIN);
    body.put_u8(VERSION_MAX);
    put_property(&mut body, NAME, config.name.as_bytes());
    put_property(&mut body, MESSAGE_LIMIT, &config.max_message_len.to_be_bytes());
    if is_server {
        put_property(&mut body, WINDOW, &config.window.to_be_bytes());
        put_property(&mut body, ROUTE_LIMIT, &config.max_routes.to_be_bytes());
    }
    put_property(&mut body, FEATURES, &config.features.to_be_bytes());
    if config.features & features::STREAMS != 0 {
        put_property(&mut body, STREAM_WINDOW, &config.stream_window.to_be_bytes());
    }
    let body_len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let header = Header { body_len, kind: FrameKind::Hello as u8, ..Header::default() };
    out.reserve(HEADER_LEN + body.len());
    out.put_slice(&header.to_bytes());
    out.put_slice(&body);
}

fn put_property(body: &mut BytesMut, property: u16, value: &[u8]) {
    debug_assert!(value.len() <= MAX_NAME_LEN, "own properties are short");
    body.put_u16(property);
    body.put_u16(u16::try_from(value.len()).unwrap_or(u16::MAX));
    body.put_slice(value);
}

/// Reads a HELLO's body and chooses the version.
pub(crate) fn decode(body: &[u8]) -> Result<PeerHello, LinkError> {
    let mut reader = Reader::new(FrameKind::Hello as u8, body);
    let found = reader.u32()?;
    if found != MAGIC {
        return Err(LinkError::BadMagic { found });
    }
    let (min, max) = (reader.u8()?, reader.u8()?);
    let version = max.min(VERSION_MAX);
    if version < min.max(VERSION_MIN) {
        return Err(LinkError::NoCommonVersion { min, max });
    }
    let mut hello = PeerHello {
        version,
        max_message_len: DEFAULT_MESSAGE_LIMIT,
        stream_window: DEFAULT_STREAM_WINDOW,
        ..PeerHello::default()
    };
    let mut seen = 0_u32;
    while !reader.is_empty() {
        let property = reader.u16()?;
        let len = usize::from(reader.u16()?);
        let at = reader.at();
        let value = reader.bytes(len)?;
        if (NAME..=STREAM_WINDOW).contains(&property) {
            let bit = 1 << property;
            if seen & bit != 0 {
                return Err(LinkError::DuplicateProperty { property });
            }
            seen |= bit;
        }
        set_property(&mut hello, property, value, at)?;
    }
    Ok(hello)
}

fn set_property(
    hello: &mut PeerHello,
    property: u16,
    value: &[u8],
    at: usize,
) -> Result<(), LinkError> {
    let bad = LinkError::BadProperty { property, len: value.len() };
    let number = || value.try_into().map(u32::from_be_bytes).map_err(|_| bad);
    match property {
        NAME if value.len() > MAX_NAME_LEN => return Err(bad),
        NAME => {
            let text = std::str::from_utf8(value);
            let kind = FrameKind::Hello as u8;
            hello.name = text.map_err(|_| LinkError::NotUtf8 { kind, at })?.to_owned();
        }
        MESSAGE_LIMIT => hello.max_message_len = number()?,
        WINDOW => hello.window = number()?.min(MAX_WINDOW),
        ROUTE_LIMIT => hello.max_routes = number()?.min(MAX_ROUTES),
        STREAM_WINDOW => hello.stream_window = number()?.min(MAX_STREAM_WINDOW),
        FEATURES => hello.features = value.try_into().map(u64::from_be_bytes).map_err(|_| bad)?,
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(versions: [u8; 2], properties: &[(u16, &[u8])]) -> BytesMut {
        let mut body = BytesMut::new();
        body.put_u32(MAGIC);
        body.put_slice(&versions);
        for (property, value) in properties {
            put_property(&mut body, *property, value);
        }
        body
    }

    #[test]
    fn own_hello_is_read_back() {
        let config = Config { name: "agent-1".into(), features: 5, ..Config::default() };
        let mut out = BytesMut::new();
        encode(&config, true, &mut out);
        let header = Header::parse(out.first_chunk().unwrap());
        assert_eq!(header.body_len as usize, out.len() - HEADER_LEN);
        let hello = decode(&out[HEADER_LEN..]).unwrap();
        let expected = PeerHello {
            version: 1,
            name: "agent-1".into(),
            max_message_len: 8 << 20,
            window: 1024,
            max_routes: 4096,
            features: 5,
            stream_window: 256 << 10,
        };
        assert_eq!(hello, expected);
    }

    #[test]
    fn highest_common_version_is_used_or_none() {
        assert_eq!(decode(&body([1, 9], &[])).unwrap().version, 1);
        assert_eq!(decode(&body([0, 1], &[])).unwrap().version, 1);
        let none = Err(LinkError::NoCommonVersion { min: 2, max: 3 });
        assert_eq!(decode(&body([2, 3], &[])), none);
        assert!(decode(&body([0, 0], &[])).is_err());
        assert!(decode(&body([3, 1], &[])).is_err(), "a range that is upside down");
    }

    #[test]
    fn unknown_properties_are_skipped_and_bad_ones_refused() {
        let hello = decode(&body([1, 1], &[(77, b"what"), (1, b"x"), (77, b"twice")])).unwrap();
        assert_eq!((&*hello.name, hello.stream_window), ("x", 65_536));
        let twice = decode(&body([1, 1], &[(1, b"x"), (1, b"y")]));
        assert_eq!(twice, Err(LinkError::DuplicateProperty { property: 1 }));
        let short = decode(&body([1, 1], &[(3, b"abc")]));
        assert_eq!(short, Err(LinkError::BadProperty { property: 3, len: 3 }));
        let large = decode(&body([1, 1], &[(6, b"\xff\xff\xff\xff")])).unwrap();
        assert_eq!(large.stream_window, MAX_STREAM_WINDOW);
        assert!(matches!(decode(&body([1, 1], &[(1, b"\xff")])), Err(LinkError::NotUtf8 { .. })));
        assert!(matches!(decode(b"GET / HTTP"), Err(LinkError::BadMagic { .. })));
        assert!(matches!(decode(b"DM"), Err(LinkError::Truncated { .. })));
    }
}
