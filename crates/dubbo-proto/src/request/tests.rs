//! Requests written by the template and read again, and requests that nobody should write.

use bytes::BytesMut;
use hessian::Encoder;
use proptest::prelude::*;

use super::*;
use crate::template::CallHeader;
use crate::{RequestHead, RequestId, RequestTemplate, frame};

const HEAD: RequestHead<'_> = RequestHead {
    path: "com.acme.Orders",
    version: "1.0",
    method: "place",
    descriptor: "Ljava/lang/String;Ljava/util/Map;I",
};

fn hessian_args() -> Vec<u8> {
    let mut args = Vec::new();
    let mut encoder = Encoder::new(&mut args);
    encoder.string("käse \u{1f9c0}");
    encoder.object_begin("com.acme.Order", &["id", "next"]);
    encoder.long(7);
    encoder.reference(0);
    encoder.int(5);
    args
}

fn encode(template: &RequestTemplate, args: &[u8], extra: &[(&str, &str)]) -> Vec<u8> {
    let mut out = BytesMut::new();
    let id = RequestId::without_slot(1);
    template.encode(id, true, args, extra, &mut out).unwrap();
    let frame = frame::decode(&mut out, 1 << 20).unwrap().unwrap();
    assert!(out.is_empty() && frame.header.is_request && frame.header.two_way);
    assert_eq!(frame.header.id, id.get());
    frame.body.to_vec()
}

fn decode(serialization: Serialization, body: &[u8]) -> Result<Request, ProtoError> {
    Request::decode(serialization, Bytes::copy_from_slice(body), &BodyLimits::default())
}

fn round_trip(serialization: Serialization, args: &[u8]) -> Request {
    let constant = [("path", "com.acme.Orders"), ("group", "eu")];
    let template = RequestTemplate::new(serialization, &HEAD, &constant).unwrap();
    let body = encode(&template, args, &[("trace", "ä\"\n1"), ("group", "us")]);
    let request = decode(serialization, &body).unwrap();
    assert_eq!(request.dubbo_version(), "2.0.2");
    assert_eq!((request.path(), request.version()), (HEAD.path, HEAD.version));
    assert_eq!((request.method(), request.descriptor()), (HEAD.method, HEAD.descriptor));
    assert_eq!((request.args(), request.n_args()), (args, 3));
    assert_eq!(request.args_bytes(), args);
    let attachments: Vec<_> = request.attachments().collect();
    let expected = [("path", HEAD.path), ("group", "eu"), ("trace", "ä\"\n1"), ("group", "us")];
    assert_eq!(attachments, expected);
    assert_eq!(request.service_key().unwrap().to_string(), "us/com.acme.Orders:1.0");
    assert!(request.takes_reply_attachments());
    request
}

#[test]
fn hessian_requests_come_back() {
    round_trip(Serialization::Hessian2, &hessian_args());
}

#[test]
fn fastjson_requests_come_back() {
    let request = round_trip(Serialization::Fastjson, b"\"hash\"\n{\"a\":[1,2]}\n5");
    let lines: Vec<_> = request.body().split(|byte| *byte == b'\n').collect();
    assert_eq!(lines[..4], [&b"\"2.0.2\""[..], b"\"com.acme.Orders\"", b"\"1.0\"", b"\"place\""]);
    assert_eq!(lines.len(), 10, "nine lines, each of them ended");
}

/// Texts behind their lengths.
fn sized(texts: &[&str]) -> Vec<u8> {
    let size = |text: &str| u32::try_from(text.len()).unwrap().to_be_bytes();
    texts.iter().flat_map(|text| [&size(text)[..], text.as_bytes()].concat()).collect()
}

#[test]
fn sized_fastjson_requests_come_back() {
    let args = sized(&["\"hash\"", "{\"a\":\n[1,2]}", "5"]);
    let request = round_trip(Serialization::FastjsonSized, &args);
    let front = sized(&["\"2.0.2\"", "\"com.acme.Orders\"", "\"1.0\"", "\"place\""]);
    assert!(request.body().starts_with(&front));
    // A header tells only the id.
    let request = decode(Serialization::Fastjson, request.body()).unwrap();
    assert_eq!(request.serialization(), Serialization::FastjsonSized);
}

#[test]
fn methods_without_parameters_or_attachments() {
    let head = RequestHead { descriptor: "", version: "", ..HEAD };
    for serialization in
        [Serialization::Hessian2, Serialization::Fastjson, Serialization::FastjsonSized]
    {
        let template = RequestTemplate::new(serialization, &head, &[]).unwrap();
        for extra in [&[][..], &[("a", "b")]] {
            let request = decode(serialization, &encode(&template, b"", extra)).unwrap();
            assert_eq!((request.args(), request.version()), (&b""[..], "0.0.0"));
            assert_eq!(request.attachments().collect::<Vec<_>>(), extra);
            assert_eq!(request.service_key().unwrap().to_string(), "com.acme.Orders");
        }
    }
}

#[test]
fn a_request_tells_how_much_time_is_left() {
    let head = RequestHead { descriptor: "", ..HEAD };
    let times = [0, 1, 9, 10, 4_999, 99_999_999, 1 << 40];
    for serialization in Serialization::WRITTEN {
        for constant in [&[][..], &[("path", HEAD.path)]] {
            let template = RequestTemplate::new(serialization, &head, constant).unwrap();
            for (ms, extra) in times.into_iter().flat_map(|ms| [(ms, &[][..]), (ms, &[("a", "b")])])
            {
                let mut out = BytesMut::new();
                let time_left = Some(std::time::Duration::from_millis(ms));
                let id = RequestId::without_slot(1);
                let header = CallHeader { id, two_way: true, time_left };
                template.encode_within(header, b"", extra, &mut out).unwrap();
                let frame = frame::decode(&mut out, 1 << 20).unwrap().unwrap();
                let request = decode(serialization, &frame.body).unwrap();
                let told = ms.clamp(1, 99_999_999).to_string();
                let expected = [constant, &[("_TO", told.as_str())], extra].concat();
                let attachments: Vec<_> = request.attachments().collect();
                assert_eq!(attachments, expected, "{serialization:?}");
            }
        }
    }
}

#[test]
fn attachments_that_are_no_strings_are_passed_over() {
    let mut body = Vec::new();
    for text in ["2.6.0", "a.B", "", "m", "Lcom/acme/Order;"] {
        hessian::write_string(&mut body, text);
    }
    let mut args = Vec::new();
    let mut encoder = Encoder::new(&mut args);
    encoder.object_begin("com.acme.Order", &["id"]);
    encoder.long(7);
    encoder.map_begin(None);
    encoder.string("order");
    // The class was defined by the argument.
    encoder.object_begin("com.acme.Order", &["id"]);
    encoder.long(8);
    encoder.string("same");
    encoder.reference(0);
    encoder.int(1);
    encoder.string("number as name");
    encoder.string("tag");
    encoder.string("gray");
    encoder.map_end();
    body.extend_from_slice(&args);
    let request = decode(Serialization::Hessian2, &body).unwrap();
    assert_eq!(request.attachments().collect::<Vec<_>>(), [("tag", "gray")]);
    assert!(!request.takes_reply_attachments());
    assert!(request.may_have_other_attachments());
}

/// Behind whatever arguments there are.
#[test]
fn all_attachments_are_told_in_json() {
    let extra = [("a", "x"), ("\u{1}n", "5"), ("\u{1}d", "1.5"), ("\u{1}yes", "true")];
    let mut order = Vec::new();
    let mut encoder = Encoder::new(&mut order);
    encoder.object_begin("com.acme.Order", &["id"]);
    encoder.long(7);
    for serialization in Serialization::WRITTEN {
        for (descriptor, args) in [("", &b""[..]), ("Lcom/acme/Order;", &order)] {
            if !descriptor.is_empty() && serialization != Serialization::Hessian2 {
                continue;
            }
            let head = RequestHead { descriptor, ..HEAD };
            let template = RequestTemplate::new(serialization, &head, &[("path", "b")]).unwrap();
            let request = decode(serialization, &encode(&template, args, &extra)).unwrap();
            let mut json = Vec::new();
            let options = java_json::JsonOptions::default();
            assert!(request.write_attachments_json(&options, &mut json).unwrap());
            let json = String::from_utf8(json).unwrap();
            let expected = r#""a":"x","n":5,"d":1.5,"yes":true}"#;
            assert!(json.ends_with(expected), "{serialization:?}: {json}");
            assert!(request.may_have_other_attachments(), "{serialization:?}");
        }
    }
    let head = RequestHead { descriptor: "", ..HEAD };
    let template = RequestTemplate::new(Serialization::Hessian2, &head, &[]).unwrap();
    let texts = decode(Serialization::Hessian2, &encode(&template, b"", &[("a", "x")])).unwrap();
    assert!(!texts.may_have_other_attachments());
}

#[test]
fn broken_requests_are_named() {
    let template = RequestTemplate::new(Serialization::Fastjson, &HEAD, &[]).unwrap();
    let body = encode(&template, b"1\n2\n3", &[]);
    let broken = |from: &str, to: &str| {
        let text = String::from_utf8(body.clone()).unwrap().replacen(from, to, 1);
        decode(Serialization::Fastjson, text.as_bytes()).unwrap_err().to_string()
    };
    assert_eq!(
        broken("\"2.0.2\"", "7"),
        "cannot read dubbo version at byte 0: expected a string or null"
    );
    assert_eq!(
        broken("3\n{}\n", ""),
        "cannot read argument at byte 81: expected a text for each parameter"
    );
    assert_eq!(
        broken("{}", "[]"),
        "cannot read attachments at byte 83: expected an object or null"
    );
    assert_eq!(
        broken("Ljava/util/Map;", "X"),
        "invalid parameter descriptor at byte 18: unknown type letter"
    );
    let long = "m".repeat(257);
    assert_eq!(broken("place", &long), "method of 257 bytes is too long; the limit is 256 bytes");
    let error = |body: &[u8]| decode(Serialization::Fastjson, body).unwrap_err().to_string();
    let version = sized(&["\"2.0.2\""]);
    assert_eq!(error(&version), "cannot read path at byte 11: expected a string or null");
    let rule = ": expected a length and as many bytes";
    assert_eq!(error(&version[..10]), format!("cannot read dubbo version at byte 0{rule}"));
    let bomb = [&version[..], b"\xff\xff\xff\xff"].concat();
    assert_eq!(error(&bomb), format!("cannot read path at byte 11{rule}"));
    let error = decode(Serialization::Other(8), b"").unwrap_err();
    assert_eq!(error, ProtoError::UnsupportedSerialization { id: 8 });
    let error = decode(Serialization::Fastjson2, b"\0\0\0\x01\x07").unwrap_err().to_string();
    assert_eq!(error, "cannot read dubbo version at byte 4: expected a string or null");
    let error = decode(Serialization::Hessian2, b"\x052.0.2\x03a.B").unwrap_err();
    assert!(error.to_string().starts_with("cannot read version:"), "{error}");
}

#[test]
fn numbers_of_attachments_are_bounded() {
    let many: Vec<_> = (0..1025).map(|n| n.to_string()).collect();
    let many: Vec<_> = many.iter().map(|n| (n.as_str(), n.as_str())).collect();
    for (serialization, args) in [
        (Serialization::Hessian2, hessian_args()),
        (Serialization::Fastjson, b"1\n2\n3".to_vec()),
        (Serialization::FastjsonSized, sized(&["1", "2", "3"])),
        (Serialization::Fastjson2, sized(&["\x01", "\x02", "\x03"])),
    ] {
        let template = RequestTemplate::new(serialization, &HEAD, &many).unwrap();
        let error = decode(serialization, &encode(&template, &args, &[])).unwrap_err();
        assert_eq!(error, ProtoError::TooMany { what: "attachments", count: 1025, max: 1024 });
    }
}

#[test]
fn templates_refuse_what_a_provider_could_not_read() {
    let new = |serialization, head| RequestTemplate::new(serialization, &head, &[]).map(drop);
    let hessian = Serialization::Hessian2;
    assert!(new(hessian, RequestHead { path: "", ..HEAD }).is_err());
    assert!(new(hessian, RequestHead { method: "a b", ..HEAD }).is_err());
    assert!(new(hessian, RequestHead { descriptor: "int", ..HEAD }).is_err());
    assert!(new(Serialization::Other(8), HEAD).is_err());

    let template = RequestTemplate::new(Serialization::Fastjson, &HEAD, &[]).unwrap();
    let mut out = BytesMut::new();
    let id = RequestId::without_slot(1);
    for args in [&b""[..], b"1\n2", b"1\n2\n3\n4", b"1\n2\n3\n", b"1\n2\n[\r3]"] {
        assert!(template.encode(id, true, args, &[], &mut out).is_err(), "{args:?}");
    }
    let template = RequestTemplate::new(Serialization::FastjsonSized, &HEAD, &[]).unwrap();
    for texts in [&["1", "2"][..], &["1", "2", "3", "4"], &["1", "2", ""]] {
        assert!(template.encode(id, true, &sized(texts), &[], &mut out).is_err(), "{texts:?}");
    }
    assert!(template.encode(id, true, b"1\n2\n3", &[], &mut out).is_err());
    let template = RequestTemplate::new(hessian, &HEAD, &[]).unwrap().with_payload_limit(100);
    let error = template.encode(id, true, &[b'N'; 100], &[], &mut out).unwrap_err();
    assert!(matches!(error, ProtoError::PayloadTooLong { max: 100, .. }));
    assert!(out.is_empty());
}

proptest! {
    /// Whatever is in a body, it is read or refused, and the parts lie inside of it.
    #[test]
    fn hostile_bodies_are_read_or_refused(
        cut in 0usize..120,
        at in 0usize..120,
        byte in any::<u8>(),
        form in 0..3,
    ) {
        let (serialization, args) = match form {
            0 => (Serialization::Fastjson, b"1\n2\n3".to_vec()),
            1 => (Serialization::FastjsonSized, sized(&["1", "2", "3"])),
            _ => (Serialization::Hessian2, hessian_args()),
        };
        let template = RequestTemplate::new(serialization, &HEAD, &[("a", "b")]).unwrap();
        let mut body = encode(&template, &args, &[]);
        body.truncate(body.len().saturating_sub(cut));
        if let Some(changed) = body.get_mut(at) {
            *changed = byte;
        }
        if let Ok(request) = decode(serialization, &body) {
            prop_assert!(request.args().len() <= body.len());
            prop_assert!(request.attachments().count() <= 2);
        }
    }
}

/// A request that is sent on to another version, with more attachments, is else what it was.
#[test]
fn a_changed_request_keeps_its_arguments_and_attachments() {
    let hessian = hessian_args();
    let json = b"\"a\"\n{\"b\":1}\n5\n".as_slice();
    for (serialization, args) in
        [(Serialization::Hessian2, hessian.as_slice()), (Serialization::Fastjson, json)]
    {
        for constant in [&[][..], &[("path", "com.acme.Orders"), ("group", "eu")]] {
            let template = RequestTemplate::new(serialization, &HEAD, constant).unwrap();
            let args = args.strip_suffix(b"\n").unwrap_or(args);
            let body = encode(&template, args, &[("\u{1}n", "5")]);
            let request = decode(serialization, &body).unwrap();
            let more = [("group", "us"), ("mark", "true")];
            let changed = request.changed("2.0", &more).unwrap();
            let changed = decode(serialization, &changed).unwrap();
            assert_eq!((changed.version(), changed.path()), ("2.0", HEAD.path));
            assert_eq!((changed.method(), changed.args()), (HEAD.method, request.args()));
            assert_eq!(changed.attachment("group"), Some("us"));
            assert_eq!(changed.attachment("mark"), Some("true"));
            // What is a number stays one.
            let has = |bytes: &[u8]| changed.body().windows(bytes.len()).any(|it| it == bytes);
            assert!(has(b"\x01n\x95") || has(b"\"n\":5"), "{serialization:?}");
            let without = request.changed("", &[]).unwrap();
            assert_eq!(decode(serialization, &without).unwrap().version(), "0.0.0");
        }
    }
}
