//! Routes: what calls have in common, said once and then named by a number.
//!
//! A DEFINE's body: `u32` number; service key, method and parameter descriptor, each behind its
//! `u16` length; constant attachments as metadata. The answer's body: `u32` number, text.

use crate::header::{FrameKind, HEADER_LEN, Header, MAX_DESCRIPTOR_LEN, MAX_NAME_LEN, flags};
use crate::meta::{self, Meta};
use crate::reader::Reader;
use crate::{LinkError, SendError, Status};
use bytes::{BufMut, Bytes, BytesMut};

/// Number of a route on one link. It means nothing on another link.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RouteId(pub u32);

impl RouteId {
    /// The number as an index: routes are numbered from 0 without gaps.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One definition of a route. A client may define a number again and again: an answer goes to the
/// definition that it names, and leaves a newer one of the same number alone.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DefinedRoute {
    /// The number.
    pub id: RouteId,
    /// As the client counted this definition of the number, from 0.
    pub round: u64,
}

impl DefinedRoute {
    /// The first definition of a number.
    #[must_use]
    pub const fn first(id: RouteId) -> Self {
        Self { id, round: 0 }
    }
}

/// What all calls of a route have in common.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RouteDef {
    /// `group/interface:version`, as Dubbo writes it; at most 1024 bytes.
    pub service: String,
    /// Method name; at most 1024 bytes.
    pub method: String,
    /// Parameter types as JVM descriptors, or "" if they are not known; at most 16 KiB.
    pub descriptor: String,
    /// Attachments that each call of this route carries; limits as for metadata.
    pub attachments: Vec<(String, String)>,
}

/// Appends a DEFINE; `round` says how often that number was defined before. `out` is unchanged
/// after an error.
pub(crate) fn encode(
    def: &RouteDef,
    route: u32,
    round: u64,
    out: &mut BytesMut,
) -> Result<(), SendError> {
    let texts = [&def.service, &def.method, &def.descriptor];
    for (text, max) in texts.into_iter().zip([MAX_NAME_LEN, MAX_NAME_LEN, MAX_DESCRIPTOR_LEN]) {
        if text.len() > max {
            return Err(SendError::TooLarge { len: text.len(), max });
        }
    }
    let attachments: Vec<(&str, &str)> =
        def.attachments.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let meta_len = meta::encoded_len(&attachments)?;
    let body_len = 4 + texts.iter().map(|t| 2 + t.len()).sum::<usize>() + 2 + meta_len;
    let body_len = u32::try_from(body_len).unwrap_or(u32::MAX);
    let header = Header { body_len, kind: FrameKind::Define as u8, id: round, ..Header::default() };
    out.put_slice(&header.to_bytes());
    out.put_u32(route);
    for text in texts {
        meta::put_len(out, text.len());
        out.put_slice(text.as_bytes());
    }
    meta::encode(&attachments, meta_len, out);
    Ok(())
}

/// Reads a DEFINE's body.
pub(crate) fn decode(body: &Bytes) -> Result<(u32, RouteDef), LinkError> {
    let kind = FrameKind::Define as u8;
    let mut reader = Reader::new(kind, body);
    let route = reader.u32()?;
    let service = reader.text16("service key", MAX_NAME_LEN)?.to_owned();
    let method = reader.text16("method", MAX_NAME_LEN)?.to_owned();
    let descriptor = reader.text16("parameter descriptor", MAX_DESCRIPTOR_LEN)?.to_owned();
    let meta_len = usize::from(reader.u16()?);
    let start = reader.at();
    reader.bytes(meta_len)?;
    let entries = Meta::check(kind, body.slice(start..start + meta_len))?;
    let attachments = entries.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    reader.finish()?;
    Ok((route, RouteDef { service, method, descriptor, attachments }))
}

/// The answer to a DEFINE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack<'a> {
    pub(crate) codec: u8,
    pub(crate) status: Status,
    /// The pool of credits, as it is on the wire; on links without credits there is none.
    pub(crate) pool: Option<u32>,
    /// Cut to its limit by the caller.
    pub(crate) text: &'a str,
}

/// Appends the answer to a DEFINE.
pub(crate) fn encode_ack(route: DefinedRoute, ack: Ack<'_>, out: &mut BytesMut) {
    let Ack { codec, status, pool, text } = ack;
    let len = 4 + pool.map_or(0, |_| 4) + text.len();
    let body_len = u32::try_from(len).unwrap_or(u32::MAX);
    let (kind, status) = (FrameKind::Define as u8, status.0);
    let header = Header { body_len, kind, flags: flags::ACK, codec, status, id: route.round };
    out.reserve(HEADER_LEN + len);
    out.put_slice(&header.to_bytes());
    out.put_u32(route.id.0);
    pool.into_iter().for_each(|pool| out.put_u32(pool));
    out.put_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn def() -> RouteDef {
        RouteDef {
            service: "g/com.example.Hello:1.0".into(),
            method: "hash".into(),
            descriptor: "Ljava/lang/String;".into(),
            attachments: vec![("path".into(), "com.example.Hello".into())],
        }
    }

    #[test]
    fn define_round_trips() {
        for def in [def(), RouteDef::default()] {
            let mut out = BytesMut::new();
            encode(&def, 7, 0, &mut out).unwrap();
            let header = Header::parse(out.first_chunk().unwrap());
            assert_eq!(header.body_len as usize, out.len() - HEADER_LEN);
            assert_eq!(decode(&out.freeze().slice(HEADER_LEN..)), Ok((7, def)));
        }
    }

    #[test]
    fn every_cut_and_every_surplus_is_refused() {
        let mut out = BytesMut::new();
        encode(&def(), 7, 0, &mut out).unwrap();
        let body = out.freeze().slice(HEADER_LEN..);
        for len in 0..body.len() {
            assert!(decode(&body.slice(..len)).is_err(), "cut at {len}");
        }
        let mut longer = body.to_vec();
        longer.push(0);
        assert_eq!(decode(&longer.into()), Err(LinkError::Trailing { kind: 2, len: 1 }));
    }

    #[test]
    fn long_names_are_refused_on_both_sides() {
        let long = RouteDef { method: "m".repeat(1025), ..def() };
        let mut out = BytesMut::new();
        assert!(matches!(encode(&long, 0, 0, &mut out), Err(SendError::TooLarge { .. })));
        assert!(out.is_empty());
        let body = Bytes::from([&[0, 0, 0, 0, 4, 1][..], &[b'x'; 2000]].concat());
        assert!(matches!(decode(&body), Err(LinkError::FieldTooLong { len: 1025, .. })));
    }
}
