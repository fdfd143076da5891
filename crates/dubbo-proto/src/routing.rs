//! What somebody who only passes a request on has to know of it: for which service it is, and how
//! long its caller waits. Arguments are walked past, attachments that say neither, too.
//!
//! Source: apache/dubbo, `DubboProtocol.getInvoker` and `ContextFilter`.

use std::borrow::Cow;

use bytes::Bytes;

use crate::body::{BodyLimits, Routing, deadline};
use crate::serialization::codec::ArgumentSurroundings;
use crate::service::NO_VERSION;
use crate::{ProtoError, Request, Serialization, ServiceKey};

/// What makes requests look alike: all that is not an argument is the same, to the byte. A
/// consumer that calls one method again and again sends such requests, and comparing bytes is much
/// cheaper than reading them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Likeness {
    pub(crate) serialization: Serialization,
    pub(crate) around: ArgumentSurroundings,
}

impl Likeness {
    /// Whether a request looks like this: then it wants to go to the same place, too.
    #[inline]
    #[must_use]
    pub fn is_of(&self, serialization: Serialization, body: &[u8], limits: &BodyLimits) -> bool {
        self.serialization == serialization
            && serialization.bodies().is_ok_and(|bodies| bodies.is_like(&self.around, body, limits))
    }
}

impl<'a> Routing<'a> {
    /// Reads a request's body as far as needed.
    ///
    /// # Errors
    /// [`ProtoError`] when the body is broken or passes a limit, or nobody here reads its
    /// serialization.
    pub fn read(
        serialization: Serialization,
        body: &'a Bytes,
        limits: &BodyLimits,
    ) -> Result<Self, ProtoError> {
        Self::read_likeness(serialization, body, limits).map(|(routing, _)| routing)
    }

    /// The same, and what others look like that want to go to the same place. Not every
    /// serialization can tell, and there is nothing to compare if attachments hold objects, whose
    /// bytes mean something by the arguments before them.
    ///
    /// # Errors
    /// As [`Routing::read`].
    pub fn read_likeness(
        serialization: Serialization,
        body: &'a Bytes,
        limits: &BodyLimits,
    ) -> Result<(Self, Option<Likeness>), ProtoError> {
        let serialization = serialization.of_body(body);
        if let Some((routing, around)) = serialization.bodies()?.read_routing(body, limits)? {
            return Ok((routing, around.map(|around| Likeness { serialization, around })));
        }
        let request = Request::decode(serialization, body.clone(), limits)?;
        Ok((Routing::of_request(&request).into_owned(), None))
    }

    /// The same from a request that has been read.
    #[must_use]
    pub fn of_request(request: &Request) -> Routing<'_> {
        let text = |name| request.attachment(name).filter(|text| !text.is_empty());
        let ms = |name| text(name)?.parse().ok();
        Routing {
            path: text("path").unwrap_or_else(|| request.path()).into(),
            interface: text("interface").unwrap_or_default().into(),
            version: text("version").unwrap_or_else(|| request.version()).into(),
            group: text("group").unwrap_or_default().into(),
            timeout: deadline(ms("_TO"), ms("timeout")),
        }
    }

    /// The name under which the service is looked for. The attachment `interface` comes first,
    /// since a path may be any name that the provider has chosen.
    ///
    /// # Errors
    /// [`ProtoError::Name`] when a part of it is invalid.
    pub fn service_key(&self) -> Result<ServiceKey, ProtoError> {
        let interface = if self.interface.is_empty() { &self.path } else { &self.interface };
        ServiceKey::new(interface, self.version(), &self.group)
    }

    /// The version; empty is none.
    #[must_use]
    pub fn version(&self) -> &str {
        if self.version == NO_VERSION { "" } else { &self.version }
    }

    /// The same without a body to borrow from.
    #[must_use]
    pub fn into_owned(self) -> Routing<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Routing {
            path: own(self.path),
            interface: own(self.interface),
            version: own(self.version),
            group: own(self.group),
            timeout: self.timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{RequestHead, RequestId, RequestTemplate, frame};

    const HESSIAN2: Serialization = Serialization::Hessian2;

    fn body(
        serialization: Serialization,
        head: RequestHead<'_>,
        args: &[u8],
        attachments: &[(&str, &str)],
    ) -> Bytes {
        let template = RequestTemplate::new(serialization, &head, attachments).unwrap();
        let mut out = bytes::BytesMut::new();
        template.encode(RequestId::without_slot(1), true, args, &[], &mut out).unwrap();
        out.split_off(frame::HEADER_LEN).freeze()
    }

    const HEAD: RequestHead<'_> =
        RequestHead { path: "a.B", version: "1.0", method: "m", descriptor: "I" };

    #[test]
    fn attachments_count_more_than_the_body() {
        for (serialization, arg) in [
            (Serialization::Hessian2, &b"\x91"[..]),
            (Serialization::Fastjson, b"1"),
            (Serialization::FastjsonSized, b"\0\0\0\x011"),
        ] {
            let plain = body(serialization, HEAD, arg, &[]);
            let limits = BodyLimits::default();
            let routing = Routing::read(serialization, &plain, &limits).unwrap();
            assert_eq!(routing.service_key().unwrap().to_string(), "a.B:1.0");
            assert_eq!(routing.timeout, None);
            let attachments = [
                ("path", "ctx/orders"),
                ("interface", "a.C"),
                ("version", "0.0.0"),
                ("group", "g"),
                ("timeout", "700"),
                ("else", "x"),
            ];
            let full = body(serialization, HEAD, arg, &attachments);
            let routing = Routing::read(serialization, &full, &limits).unwrap();
            assert_eq!(routing.service_key().unwrap().to_string(), "g/a.C");
            assert_eq!((&*routing.path, routing.version()), ("ctx/orders", ""));
            assert_eq!(routing.timeout, Some(Duration::from_millis(700)));
            let counted = [&attachments[..], &[("_TO", "-5")]].concat();
            let counted = body(serialization, HEAD, arg, &counted);
            let routing = Routing::read(serialization, &counted, &limits).unwrap();
            assert_eq!(routing.timeout, Some(Duration::from_millis(1)));
            let none = body(serialization, HEAD, arg, &[("timeout", "0")]);
            let routing = Routing::read(serialization, &none, &limits).unwrap();
            assert_eq!(routing.timeout, None);
        }
    }

    #[test]
    fn attachments_of_other_types_are_stepped_over() {
        let whole = body(Serialization::Hessian2, HEAD, b"\x91", &[]);
        let mut bytes = whole[..whole.len() - 2].to_vec();
        let mut encoder = hessian::Encoder::new(&mut bytes);
        encoder.map_begin(None);
        encoder.string("x");
        encoder.object_begin("com.acme.Unknown", &["a"]);
        encoder.int(1);
        encoder.int(7);
        encoder.string("not named by a string");
        encoder.string("timeout");
        encoder.long(30);
        encoder.string("group");
        encoder.int(3);
        encoder.map_end();
        let bytes = Bytes::from(bytes);
        let routing =
            Routing::read(Serialization::Hessian2, &bytes, &BodyLimits::default()).unwrap();
        assert_eq!((routing.timeout, &*routing.group), (Some(Duration::from_millis(30)), ""));
        for len in 0..bytes.len() - 1 {
            let cut = bytes.slice(..len);
            let _ = Routing::read(Serialization::Hessian2, &cut, &BodyLimits::default());
        }
    }

    #[test]
    fn requests_that_differ_in_arguments_alone_look_alike() {
        let limits = BodyLimits::default();
        let head = RequestHead { descriptor: "Ljava/lang/Object;I", ..HEAD };
        let attachments = [("group", "g"), ("timeout", "50")];
        let with = |head, args: &[u8], attachments: &[(&str, &str)]| {
            body(Serialization::Hessian2, head, args, attachments)
        };
        let first = with(head, b"\x03abc\x91", &attachments);
        let (routing, likeness) = Routing::read_likeness(HESSIAN2, &first, &limits).unwrap();
        assert_eq!(routing, Routing::read(Serialization::Hessian2, &first, &limits).unwrap());
        let likeness = likeness.unwrap();
        assert!(likeness.is_of(HESSIAN2, &first, &limits));
        // An argument that ends as a request does.
        let tail = [&b"\x57"[..], &likeness.around.tail, b"Z\x91"].concat();
        for args in [&b"N\x90"[..], b"\x57\x91\x92Z\x93", &tail] {
            assert!(
                likeness.is_of(HESSIAN2, &with(head, args, &attachments), &limits),
                "{args:x?}"
            );
        }
        let others = [
            with(RequestHead { method: "n", ..head }, b"N\x90", &attachments),
            with(RequestHead { descriptor: "II", ..head }, b"\x91\x90", &attachments),
            with(head, b"N\x90", &[("group", "h"), ("timeout", "50")]),
            with(head, b"N\x90", &[("group", "g"), ("timeout", "51")]),
            with(head, b"N\x90", &[("a", "b"), ("group", "g"), ("timeout", "50")]),
            with(head, b"N", &attachments),
            with(head, b"N\x90\x91", &attachments),
            with(head, b"\x57\x91", &attachments),
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(!likeness.is_of(HESSIAN2, other, &limits), "{at}");
        }
        for len in 0..first.len() {
            assert!(!likeness.is_of(HESSIAN2, &first[..len], &limits));
        }
    }

    #[test]
    fn attachments_with_objects_look_like_nothing() {
        let whole = body(Serialization::Hessian2, HEAD, b"\x91", &[]);
        let mut bytes = whole[..whole.len() - 2].to_vec();
        let mut encoder = hessian::Encoder::new(&mut bytes);
        encoder.map_begin(None);
        encoder.string("x");
        encoder.object_begin("com.acme.Unknown", &["a"]);
        encoder.int(1);
        encoder.map_end();
        let (_, likeness) =
            Routing::read_likeness(HESSIAN2, &bytes.into(), &BodyLimits::default()).unwrap();
        assert_eq!(likeness, None);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let body = Bytes::from_static(b"kryo");
        let error = Routing::read(Serialization::Other(8), &body, &BodyLimits::default());
        assert_eq!(error, Err(ProtoError::UnsupportedSerialization { id: 8 }));
    }
}
