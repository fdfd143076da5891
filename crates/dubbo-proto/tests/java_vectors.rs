//! Frames that Java's Dubbo wrote (vectors/README.md says how they were recorded): we read every
//! one of them, and from what we read we write the same bytes again.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use dubbo_proto::frame::{self, Frame, HEADER_LEN};
use dubbo_proto::{
    BodyLimits, ClientConfig, ClientConnection, ClientEvent, Outcome, Reply, ReplyKind, ReplyTo,
    Request, RequestHead, RequestTemplate, Serialization, ServerConfig, ServerConnection,
    ServerEvent, Status, encode_error, encode_reply, fastjson,
};

const MAX_BODY_LEN: usize = 8 << 20;
const RECORDINGS: [&str; 9] = [
    "java26_hessian2",
    "java26_fastjson",
    "java27_hessian2",
    "java27_fastjson",
    "java32_hessian2",
    "java32_fastjson2",
    "java33_hessian2",
    "java33_fastjson",
    "java33_fastjson2",
];

#[expect(clippy::disallowed_methods, reason = "an Instant cannot be made in any other way")]
fn start() -> Instant {
    Instant::now()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

fn bytes_of(name: &str) -> BytesMut {
    let path = folder().join(format!("{name}.bin"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    BytesMut::from(&bytes[..])
}

fn frame_of(name: &str) -> Frame {
    let mut bytes = bytes_of(name);
    let frame = frame::decode(&mut bytes, MAX_BODY_LEN).unwrap().expect("one whole frame");
    assert!(bytes.is_empty(), "{name} is one frame");
    frame
}

/// The vectors of calls whose names end so, without the events.
fn names(end: &str) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".bin").map(str::to_owned))
        .filter(|name| name.ends_with(end))
        .filter(|name| !name.contains("_of_consumer") && !name.contains("_of_provider"))
        .collect();
    names.sort();
    assert!(names.len() > 100, "{} vectors", names.len());
    names
}

fn request_of(name: &str) -> Request {
    let now = start();
    let mut server = ServerConnection::new(ServerConfig::default(), now);
    server.handle_bytes(now, &mut bytes_of(name)).unwrap();
    assert!(server.transmit().is_empty(), "{name} is refused");
    match server.poll_event() {
        Some(ServerEvent::Request { two_way, request, .. }) => {
            assert_eq!(two_way, !name.contains("_one_way_"), "{name}");
            *request
        }
        other => panic!("{name}: {other:?}"),
    }
}

/// One-way calls and attachments that are not strings are only ever passed on, never written.
fn is_written_by_us(name: &str) -> bool {
    !name.contains("_one_way_") && !name.contains("_object_attachment_")
}

#[test]
fn requests_are_read_and_written_again() {
    for name in names("_request").into_iter().filter(|name| is_written_by_us(name)) {
        let request = request_of(&name);
        assert_eq!((request.dubbo_version(), request.takes_reply_attachments()), ("2.0.2", true));
        assert_eq!(request.attachment("path"), Some(request.path()));
        assert!(request.service_key().is_ok());
        let head = RequestHead {
            path: request.path(),
            version: request.version(),
            method: request.method(),
            descriptor: request.descriptor(),
        };
        let attachments: Vec<_> = request.attachments().collect();
        let template = RequestTemplate::new(request.serialization(), &head, &attachments).unwrap();
        let now = start();
        let mut client = ClientConnection::new(ClientConfig::default(), now);
        client.send(now, &template, request.args(), &[], now, ()).unwrap();
        let expected = bytes_of(&name);
        let written = client.transmit();
        assert_eq!(written[..4], expected[..4], "{name}");
        assert_eq!(written[12..], expected[12..], "{name}");
        // The same when some of the attachments come with the call.
        let (constant, extra) = attachments.split_at(attachments.len() / 2);
        let template = RequestTemplate::new(request.serialization(), &head, constant).unwrap();
        written.clear();
        client.send(now, &template, request.args(), extra, now, ()).unwrap();
        assert_eq!(client.transmit()[12..], expected[12..], "{name}");
    }
}

#[test]
fn replies_are_read_and_written_again() {
    let limits = BodyLimits::default();
    for name in names("_response").into_iter().filter(|name| is_written_by_us(name)) {
        let Frame { header, body } = frame_of(&name);
        let status = Status::from_u8(header.status);
        let serialization = header.serialization.of_body(&body);
        let to = ReplyTo { id: header.id, serialization, takes_attachments: true };
        let mut written = BytesMut::new();
        match Reply::decode(header.serialization, status, &body).unwrap() {
            Reply::Done(outcome) => {
                let value = outcome.value(&limits).unwrap();
                let attachments = outcome.attachments(&limits).unwrap();
                let attachments: Vec<_> =
                    attachments.iter().map(|(name, value)| (&**name, &**value)).collect();
                assert!(attachments.contains(&("dubbo", "2.0.2")), "{name}");
                let kind = outcome.kind();
                encode_reply(to, kind, value, &attachments, MAX_BODY_LEN, &mut written).unwrap();
            }
            Reply::Failed { status, text } => {
                assert!(!text.is_empty());
                encode_error(to, status, &text, &mut written);
            }
        }
        assert!(written == bytes_of(&name), "{name} is written in another way");
    }
}

fn reply_of<R>(name: &str, look: impl FnOnce(Reply<'_>) -> R) -> R {
    let Frame { header, body } = frame_of(name);
    look(Reply::decode(header.serialization, Status::from_u8(header.status), &body).unwrap())
}

fn outcome_of<R>(name: &str, look: impl FnOnce(&Outcome<'_>) -> R) -> R {
    reply_of(name, |reply| match reply {
        Reply::Done(outcome) => look(&outcome),
        Reply::Failed { status, text } => panic!("{name}: {status} {text}"),
    })
}

#[test]
fn every_kind_of_reply_is_told_apart() {
    for recording in RECORDINGS {
        let kinds = [
            ("text", ReplyKind::Value),
            ("nothing", ReplyKind::Null),
            ("null_text", ReplyKind::Null),
            ("fail", ReplyKind::Exception),
            ("fail_unchecked", ReplyKind::Exception),
        ];
        for (call, kind) in kinds {
            let name = format!("{recording}_{call}_response");
            outcome_of(&name, |outcome| assert_eq!(outcome.kind(), kind, "{name}"));
        }
        let name = format!("{recording}_reply_attachment_response");
        outcome_of(&name, |outcome| {
            let attachments = outcome.attachments(&BodyLimits::default()).unwrap();
            assert!(attachments.contains(&("mood".to_owned(), "good".to_owned())));
        });
        // 2.6 can read a request of any service.
        let is_read = recording.starts_with("java26");
        let missing = if is_read { Status::ServiceError } else { Status::BadRequest };
        let refusals = [
            ("missing_service", missing),
            ("missing_group", Status::ServiceError),
            ("missing_method", Status::ServiceError),
            ("exhausted", Status::ServerThreadpoolExhausted),
        ];
        for (call, expected) in refusals {
            reply_of(&format!("{recording}_{call}_response"), |reply| match reply {
                Reply::Failed { status, .. } => assert_eq!(status, expected, "{recording} {call}"),
                Reply::Done(outcome) => panic!("{call}: {outcome:?}"),
            });
        }
    }
}

#[test]
fn attachments_that_are_no_strings_do_not_hide_the_others() {
    let limits = BodyLimits::default();
    for recording in RECORDINGS.into_iter().filter(|recording| recording.starts_with("java32")) {
        let request = request_of(&format!("{recording}_object_attachment_request"));
        assert_eq!(request.attachment("path"), Some("org.dubmesh.interop.TypesService"));
        outcome_of(&format!("{recording}_reply_object_attachment_response"), |outcome| {
            let attachments = outcome.attachments(&limits).unwrap();
            assert!(attachments.contains(&("dubbo".to_owned(), "2.0.2".to_owned())));
            assert_eq!(outcome.kind(), ReplyKind::Value);
        });
    }
}

#[test]
fn group_and_version_name_the_service() {
    for recording in RECORDINGS {
        let request = request_of(&format!("{recording}_variant_blue_request"));
        let key = request.service_key().unwrap();
        assert_eq!((key.group.as_str(), key.version.as_str()), ("blue", "2.0.0"));
        let request = request_of(&format!("{recording}_variant_request"));
        let key = request.service_key().unwrap();
        assert_eq!((key.group.as_str(), key.version.as_str()), ("", ""));
    }
}

#[test]
fn the_two_framings_of_fastjson_are_told_apart() {
    let (lines, sized) = (Serialization::Fastjson, Serialization::FastjsonSized);
    for (recording, framing) in [("java27_fastjson", lines), ("java33_fastjson", sized)] {
        let requests = names("_request");
        let requests: Vec<_> =
            requests.iter().filter(|name| name.starts_with(&format!("{recording}_"))).collect();
        assert!(requests.len() > 50);
        for name in requests {
            assert_eq!(frame_of(name).header.serialization, lines, "{name}: both have one id");
            assert_eq!(request_of(name).serialization(), framing, "{name}");
        }
        let name = format!("{recording}_hash_response");
        outcome_of(&name, |outcome| {
            assert_eq!(outcome.serialization(), framing);
            assert_eq!(outcome.value(&BodyLimits::default()).unwrap(), b"99162322");
        });
    }
    let add = request_of("java33_fastjson_add_request");
    assert_eq!((add.n_args(), add.args()), (2, &b"\0\0\0\x012\0\0\0\x013"[..]));
}

/// The arguments of a call that has one, as JSON.
fn json_argument(name: &str) -> serde_json::Value {
    let request = request_of(&format!("java33_fastjson_{name}_request"));
    let mut json = Vec::new();
    fastjson::to_json(request.serialization().only_arg(request.args()).unwrap(), false, &mut json)
        .unwrap();
    serde_json::from_slice(&json).unwrap()
}

#[test]
fn the_dialect_of_fastjson_is_translated() {
    for (name, expected) in [
        ("text_unicode", serde_json::json!("grüß 你好 😀 \0\t\"\\")),
        ("int8", serde_json::json!(-8)),
        ("int16", serde_json::json!(-1600)),
        ("boxed_long", serde_json::json!(-5)),
        ("boxed_double", serde_json::json!(2.5)),
        ("float32", serde_json::json!(1.5)),
        ("bytes", serde_json::json!("AAH/fw==")),
        ("date", serde_json::json!(1_600_000_000_123_i64)),
        ("text_set", serde_json::json!(["one", "two", "three"])),
        ("counts_tree", serde_json::json!({"k": 1})),
        ("boxed_int_null", serde_json::Value::Null),
    ] {
        assert_eq!(json_argument(name), expected, "{name}");
    }
    let person = json_argument("person");
    assert_eq!(person["address"]["city"], "Springfield");
    assert_eq!(person["@type"], serde_json::Value::Null);
    // Every result, too.
    for name in names("_response").iter().filter(|name| name.starts_with("java33_fastjson_")) {
        reply_of(name, |reply| {
            let Reply::Done(outcome) = reply else { return };
            let mut json = Vec::new();
            fastjson::to_json(outcome.value(&BodyLimits::default()).unwrap(), true, &mut json)
                .unwrap();
            let is_null = outcome.kind() == ReplyKind::Null;
            assert!(is_null || serde_json::from_slice::<serde_json::Value>(&json).is_ok());
        });
    }
}

#[test]
fn heartbeats_are_javas() {
    for recording in RECORDINGS {
        let now = start();
        let asked = bytes_of(&format!("{recording}_heartbeat_of_consumer_request"));
        let answer = bytes_of(&format!("{recording}_heartbeat_of_provider_response"));
        let mut server = ServerConnection::new(ServerConfig::default(), now);
        server.handle_bytes(now, &mut asked.clone()).unwrap();
        assert_eq!(server.transmit(), &answer, "{recording}");

        let mut client = ClientConnection::<()>::new(ClientConfig::default(), now);
        let request = request_of(&format!("{recording}_hash_request"));
        let serialization = request.serialization();
        client.send_body_one_way(now, serialization, request.body()).unwrap();
        client.transmit().clear();
        client.handle_timeout(now + Duration::from_secs(60));
        assert_eq!(client.transmit()[..4], asked[..4]);
        assert_eq!(client.transmit()[12..], asked[12..]);
        client.handle_bytes(now, &mut answer.clone()).unwrap();
        assert_eq!(client.poll_event(), None);
    }
}

#[test]
fn the_readonly_event_is_javas() {
    for recording in RECORDINGS {
        let now = start();
        let java = bytes_of(&format!("{recording}_readonly_of_provider_request"));
        let mut client = ClientConnection::<()>::new(ClientConfig::default(), now);
        client.handle_bytes(now, &mut java.clone()).unwrap();
        assert_eq!(client.poll_event(), Some(ClientEvent::ReadOnly));
        assert!(client.transmit().is_empty() && !client.is_accepting());

        // Ours is in the serialization that the consumer spoke.
        let mut server = ServerConnection::new(ServerConfig::default(), now);
        server.handle_bytes(now, &mut bytes_of(&format!("{recording}_hash_request"))).unwrap();
        server.send_readonly(now);
        assert_eq!(server.transmit()[..4], java[..4]);
        assert_eq!(server.transmit()[12..], java[12..]);
    }
}

#[test]
fn a_recording_in_one_piece_is_cut_into_its_frames() {
    let names: Vec<_> =
        names("_response").into_iter().filter(|name| name.starts_with("java33_hessian2")).collect();
    let whole: Vec<u8> = names.iter().flat_map(|name| bytes_of(name)).collect();
    for cut_len in [1, 7, HEADER_LEN, 1000, whole.len()] {
        let (mut input, mut n_frames) = (BytesMut::new(), 0);
        for piece in whole.chunks(cut_len) {
            input.extend_from_slice(piece);
            while let Some(frame) = frame::decode(&mut input, MAX_BODY_LEN).unwrap() {
                assert_eq!(frame.header.serialization, Serialization::Hessian2);
                n_frames += 1;
            }
        }
        assert_eq!((n_frames, input.len()), (names.len(), 0));
    }
}

#[test]
fn values_of_fastjson2_become_json() {
    let to_json = |value: &[u8]| -> serde_json::Value {
        let (mut json, opts) = (Vec::new(), hessian::transcode::JsonOptions::default());
        let mut decoder = jsonb::Decoder::new(value, hessian::Limits::default());
        jsonb::jsonb_to_json(&mut decoder, &mut json, &opts).unwrap();
        assert!(decoder.is_at_end());
        serde_json::from_slice(&json).unwrap()
    };
    for name in names("_response").iter().filter(|name| name.starts_with("java33_fastjson2_")) {
        reply_of(name, |reply| {
            let Reply::Done(outcome) = reply else { return };
            if outcome.kind() != ReplyKind::Null {
                to_json(outcome.value(&BodyLimits::default()).unwrap());
            }
        });
    }
    for (name, expected) in [
        ("text_unicode", serde_json::json!("grüß 你好 😀 \0\t\"\\")),
        ("int8", serde_json::json!(-8)),
        ("date", serde_json::json!("2020-09-13T12:26:40.123Z")),
        ("bytes", serde_json::json!("AAH/fw==")),
        ("color", serde_json::json!("BLUE")),
    ] {
        outcome_of(&format!("java33_fastjson2_{name}_response"), |outcome| {
            let value = outcome.value(&BodyLimits::default()).unwrap();
            assert_eq!(to_json(value), expected, "{name}");
        });
    }
    outcome_of("java33_fastjson2_fail_response", |outcome| {
        let exception = to_json(outcome.value(&BodyLimits::default()).unwrap());
        assert_eq!(exception["class"], "org.dubmesh.interop.BusinessException");
        assert_eq!(exception["code"], 42);
        assert_eq!(exception["message"], "no luck");
    });
}
