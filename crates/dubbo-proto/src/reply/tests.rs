//! Replies of all six kinds and of every status, in all serializations.

use bytes::BytesMut;
use hessian::Encoder;
use proptest::prelude::*;

use super::*;
use crate::frame;

const ALL: [Serialization; 3] =
    [Serialization::Hessian2, Serialization::Fastjson, Serialization::FastjsonSized];

fn to(serialization: Serialization) -> ReplyTo {
    ReplyTo { id: 9, serialization, takes_attachments: true }
}

fn value_of(serialization: Serialization) -> Vec<u8> {
    let mut value = Vec::new();
    if serialization != Serialization::Hessian2 {
        return b"{\"a\":[1,\"\\n\"]}".to_vec();
    }
    let mut encoder = Encoder::new(&mut value);
    encoder.object_begin("com.acme.Order", &["id", "lines"]);
    encoder.long(7);
    encoder.list_begin(None, 2);
    encoder.string("a");
    encoder.null();
    value
}

fn encode(to: ReplyTo, kind: ReplyKind, attachments: &[(&str, &str)]) -> (u8, Vec<u8>) {
    let mut out = BytesMut::new();
    encode_reply(to, kind, &value_of(to.serialization), attachments, 1 << 20, &mut out).unwrap();
    let frame = frame::decode(&mut out, 1 << 20).unwrap().unwrap();
    assert!(out.is_empty() && !frame.header.is_request && !frame.header.is_event);
    assert_eq!((frame.header.id, frame.header.serialization.id()), (to.id, to.serialization.id()));
    assert_eq!(frame.header.serialization.of_body(&frame.body), to.serialization);
    (frame.header.status, frame.body.to_vec())
}

fn outcome(serialization: Serialization, body: &[u8]) -> Outcome<'_> {
    match Reply::decode(serialization, Status::Ok, body).unwrap() {
        Reply::Done(outcome) => outcome,
        failed @ Reply::Failed { .. } => panic!("{failed:?}"),
    }
}

#[test]
fn all_kinds_come_back() {
    let limits = BodyLimits::default();
    for serialization in ALL {
        for kind in [ReplyKind::Exception, ReplyKind::Value, ReplyKind::Null] {
            for attachments in [&[][..], &[("dubbo", "2.0.2"), ("k", "\"ü")]] {
                let (status, body) = encode(to(serialization), kind, attachments);
                let outcome = outcome(serialization, &body);
                assert_eq!((Status::from_u8(status), outcome.kind()), (Status::Ok, kind));
                assert_eq!(outcome.has_attachments(), !attachments.is_empty());
                assert_eq!(ReplyKind::of(serialization, &body), Some(kind));
                assert_eq!(ReplyKind::of(serialization, &[]), None);
                let value = if kind == ReplyKind::Null { vec![] } else { value_of(serialization) };
                assert_eq!(outcome.value(&limits).unwrap(), value);
                assert!(outcome.value_and_rest().starts_with(&value));
                let seen = outcome.attachments(&limits).unwrap();
                let seen: Vec<_> = seen.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                assert_eq!(seen, attachments);
            }
        }
    }
}

#[test]
fn old_consumers_get_no_attachments() {
    let old = ReplyTo { takes_attachments: false, ..to(Serialization::Hessian2) };
    let (_, body) = encode(old, ReplyKind::Null, &[("a", "b")]);
    assert_eq!(body, [0x92]);
}

#[test]
fn the_number_is_what_hessian_writes() {
    for number in 0..6 {
        let mut int = Vec::new();
        hessian::write_int(&mut int, i32::from(number));
        assert_eq!(int, [0x90 + number]);
    }
}

#[test]
fn error_texts_come_back_in_every_serialization() {
    let from_ids = [2, 6, 23, 8].map(Serialization::from_id);
    for serialization in from_ids.into_iter().chain([Serialization::FastjsonSized]) {
        let mut out = BytesMut::new();
        encode_error(to(serialization), Status::ServiceNotFound, "no \"a.B\"", &mut out);
        let frame = frame::decode(&mut out, 1000).unwrap().unwrap();
        let status = Status::from_u8(frame.header.status);
        match Reply::decode(frame.header.serialization, status, &frame.body).unwrap() {
            Reply::Failed { status, text } => {
                assert_eq!((status, &*text), (Status::ServiceNotFound, "no \"a.B\""));
            }
            Reply::Done(outcome) => panic!("{outcome:?}"),
        }
    }
    let mut out = BytesMut::new();
    encode_error(to(Serialization::Hessian2), Status::ServiceError, &"ü".repeat(50_000), &mut out);
    assert!(out.len() < 17_000);
}

#[test]
fn unreadable_error_texts_are_given_as_they_stand() {
    assert_eq!(error_text(Serialization::Hessian2, b""), "");
    assert_eq!(error_text(Serialization::Hessian2, b"N"), "");
    assert_eq!(error_text(Serialization::Hessian2, b"\x91boom"), "\u{fffd}boom");
    assert_eq!(error_text(Serialization::Fastjson, b"boom\n"), "boom\n");
    assert_eq!(error_text(Serialization::Fastjson2, b"\xff"), "\u{fffd}");
}

#[test]
fn broken_replies_are_named() {
    let error = |serialization, body| {
        Reply::decode(serialization, Status::Ok, body).unwrap_err().to_string()
    };
    let [hessian, fastjson, sized] = ALL;
    assert_eq!(error(hessian, b"\x96"), "reply type is 6, expected 0 to 5");
    assert!(error(hessian, b"").starts_with("cannot read reply type:"));
    assert_eq!(error(fastjson, b"x\n"), "cannot read reply type at byte 0: expected a number");
    assert_eq!(error(Serialization::Other(8), b""), "serialization 8 is not supported");

    let rule = ": expected a length and as many bytes";
    assert_eq!(error(fastjson, b"\0\0\0\x02"), format!("cannot read reply type at byte 0{rule}"));
    assert_eq!(
        error(sized, b"\0\0\0\x011\0\0\0\x07\"a\""),
        format!("cannot read value at byte 5{rule}")
    );
    assert_eq!(error(sized, b"\0\0\0\x024B"), "cannot read value at byte 6: expected a text");

    let limits = BodyLimits::default();
    // The letter that tells the number's class may be missing.
    let short = outcome(sized, b"\0\0\0\x011\0\0\0\x03\"a\"");
    assert_eq!((short.value(&limits).unwrap(), short.has_attachments()), (&b"\"a\""[..], false));
    let cut = outcome(sized, b"\0\0\0\x024B\0\0\0\x017\0\0");
    assert!(cut.attachments(&limits).is_err() && cut.value(&limits) == Ok(b"7"));
    assert!(outcome(hessian, b"\x94").value(&limits).is_err());
    assert!(outcome(hessian, b"\x94N\x91").attachments(&limits).is_err());
    assert!(outcome(fastjson, b"1\n").value(&limits).is_err());
    assert_eq!(outcome(fastjson, b"4\n1").attachments(&limits).unwrap(), []);
}

#[test]
fn values_that_cannot_be_sent_are_refused() {
    let mut out = BytesMut::new();
    let [hessian, fastjson, sized] = ALL.map(to);
    let value = ReplyKind::Value;
    let error = encode_reply(hessian, value, &[b'N'; 100], &[], 100, &mut out).unwrap_err();
    assert_eq!(error, ProtoError::PayloadTooLong { len: 101, max: 100 });
    for text in [&b""[..], b"[1,\n2]", b"1\r"] {
        assert!(encode_reply(fastjson, value, text, &[], 100, &mut out).is_err());
    }
    assert!(encode_reply(sized, value, b"", &[], 100, &mut out).is_err());
    assert!(encode_reply(to(Serialization::Other(8)), value, b"", &[], 100, &mut out).is_err());
    assert!(out.is_empty());
}

proptest! {
    #[test]
    fn hostile_bodies_are_read_or_refused(
        body in proptest::collection::vec(any::<u8>(), 0..60),
        kind in 0x90u8..0x96,
        id in 0u8..32,
        status in any::<u8>(),
    ) {
        let serialization = Serialization::from_id(id);
        let status = Status::from_u8(status);
        let hessian = [&[kind][..], &body].concat();
        let fastjson = [&[kind - 0x60, b'\n'][..], &body].concat();
        let sized = [&[0, 0, 0, 2, kind - 0x60, b'B', 0, 0, 0][..], &body].concat();
        let limits = BodyLimits::default();
        for body in [body, hessian, fastjson, sized] {
            if let Ok(Reply::Done(outcome)) = Reply::decode(serialization, status, &body) {
                if let Ok(value) = outcome.value(&limits) {
                    prop_assert!(outcome.value_and_rest().starts_with(value));
                }
                drop(outcome.attachments(&limits));
            }
        }
    }
}

/// What is over a limit of ours, or has no form in JSON, is not the writer's fault.
#[test]
fn only_what_breaks_the_format_is_broken() {
    let (hessian, jsonb) = (Serialization::Hessian2, Serialization::Fastjson2);
    let (lines, sized) = (Serialization::Fastjson, Serialization::FastjsonSized);
    let deep = [&b"\x91"[..], &[0x79; 2000], b"\x90"].concat();
    let deep_line = [&b"1\n"[..], &[b'['; 2000], &[b']'; 2000], b"\n"].concat();
    let long = [&b"\x91S\xff\xff"[..], &[b'a'; 0xffff]].concat();
    for (serialization, body, expected) in [
        (hessian, &b""[..], true),
        (hessian, b"\x97x", true),
        (hessian, b"\xff\xff", true),
        (hessian, b"\x91", true),
        (hessian, b"\x91\x1fabc", true),
        (hessian, b"\x94Z\xff\xff", true),
        (hessian, b"\x90C\x03a.E\x91\x01x\x60", true),
        (hessian, b"\x91\x51\x95", true),
        (hessian, b"\x91\x03abc", false),
        (hessian, b"\x92", false),
        (hessian, b"\x91\x79\x51\x90", false),
        (hessian, &deep, false),
        (hessian, &long, false),
        (jsonb, b"\0\0\0\x01\x01\0\0\0\x02\x4aa", false),
        (jsonb, b"\0\0\0\x01\x01\0\0\0\x02\x4ba", true),
        (jsonb, b"\0\0\0\x01\x01\0\0\0\x09\x4aa", true),
        (lines, b"1\n{\"a\":1}\n", false),
        (lines, b"1\n{\"a\":1\n", true),
        (lines, &deep_line, false),
        (sized, b"\0\0\0\x011\0\0\0\x09{}", true),
        (Serialization::Other(3), b"\xac\xed\0\x05", false),
    ] {
        let shown = body.get(..body.len().min(20)).unwrap().escape_ascii();
        assert_eq!(
            is_broken_reply(serialization, body, 1 << 16),
            expected,
            "{serialization} {shown}"
        );
    }
}
