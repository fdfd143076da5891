//! The embedded service against requests as consumers write them, those of real ones included.

use bytes::Bytes;
use dubbo_proto::{BodyLimits, RequestHead, RequestTemplate};
use hessian::{Decoder, Encoder};
use proptest::prelude::*;

use super::*;

const INTERFACE: &str = "org.dubmesh.interop.TypesService";

fn service() -> HelloService {
    HelloService::new(ServiceKey::new(INTERFACE, "", "").unwrap())
}

/// A request's body behind the header, as a template writes it.
fn request(
    serialization: Serialization,
    (path, method, descriptor): (&str, &str, &str),
    args: &[u8],
) -> Request {
    let head = RequestHead { path, version: "", method, descriptor };
    let template = RequestTemplate::new(serialization, &head, &[("path", path)]).unwrap();
    sent(serialization, &template, args)
}

fn sent(serialization: Serialization, template: &RequestTemplate, args: &[u8]) -> Request {
    let mut client = dubbo_proto::ClientConnection::new(Default::default(), start());
    let deadline = start() + std::time::Duration::from_secs(1);
    client.send(start(), template, args, &[], deadline, ()).unwrap();
    let mut bytes = client.transmit().split();
    let frame = dubbo_proto::frame::decode(&mut bytes, 1 << 20).unwrap().unwrap();
    Request::decode(serialization, frame.body, &BodyLimits::default()).unwrap()
}

fn start() -> std::time::Instant {
    std::time::Instant::now()
}

fn answer(request: &Request) -> (ReplyKind, Vec<u8>) {
    let mut out = Vec::new();
    let kind = service().answer(request, &mut out).unwrap();
    (kind, out)
}

fn refusal(request: &Request) -> RequestRefusal {
    service().answer(request, &mut Vec::new()).unwrap_err()
}

fn hessian_text(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    hessian::write_string(&mut out, text);
    out
}

#[test]
fn hashes_and_echoes_in_both_serializations() {
    let hash = (INTERFACE, "hash", ONE_TEXT);
    let (kind, value) = answer(&request(Serialization::Hessian2, hash, &hessian_text("hello")));
    assert_eq!(kind, ReplyKind::Value);
    assert_eq!(Decoder::new(&value, Limits::default()).read_int(), Ok(99_162_322));
    let (kind, value) = answer(&request(Serialization::Fastjson, hash, b"\"hello\""));
    assert_eq!((kind, &value[..]), (ReplyKind::Value, &b"99162322"[..]));
    let sized = Serialization::FastjsonSized;
    let (kind, value) = answer(&request(sized, hash, b"\0\0\0\x07\"hello\""));
    assert_eq!((kind, &value[..]), (ReplyKind::Value, &b"99162322"[..]));
    let echo = (INTERFACE, "echo", ONE_TEXT);
    let text = hessian_text("\u{1f600}");
    assert_eq!(answer(&request(Serialization::Hessian2, echo, &text)).1, text);
    assert_eq!(answer(&request(Serialization::Fastjson, echo, b"\"a\\n\"")).1, b"\"a\\n\"");
    assert_eq!(answer(&request(Serialization::Fastjson, echo, b"null")).0, ReplyKind::Null);
    let any = (INTERFACE, "$echo", ONE_OBJECT);
    assert_eq!(answer(&request(Serialization::Fastjson, any, b"{\"a\":[1]}")).1, b"{\"a\":[1]}");
    assert_eq!(answer(&request(Serialization::Hessian2, any, b"N")).0, ReplyKind::Null);
}

/// Values of JSONB behind their lengths.
fn jsonb_args(values: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for json in values {
        let mut value = Vec::new();
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        jsonb::json_to_jsonb(&mut reader, None, &mut jsonb::Encoder::new(&mut value)).unwrap();
        out.extend_from_slice(&u32::try_from(value.len()).unwrap().to_be_bytes());
        out.extend_from_slice(&value);
    }
    out
}

fn jsonb_answer(call: (&str, &str, &str), values: &[&str]) -> (ReplyKind, String) {
    let (kind, value) = answer(&request(Serialization::Fastjson2, call, &jsonb_args(values)));
    let mut json = Vec::new();
    let options = JsonOptions { class_name: true, ..JsonOptions::default() };
    if kind != ReplyKind::Null {
        let mut decoder = jsonb::Decoder::new(&value, Limits::default());
        jsonb::jsonb_to_json(&mut decoder, &mut json, &options).unwrap();
    }
    (kind, String::from_utf8(json).unwrap())
}

#[test]
fn speaks_fastjson2() {
    let value = |text: &str| (ReplyKind::Value, text.to_owned());
    let hash = (INTERFACE, "hash", ONE_TEXT);
    assert_eq!(jsonb_answer(hash, &["\"hello\""]), value("99162322"));
    let (kind, thrown) = jsonb_answer(hash, &["null"]);
    assert_eq!(kind, ReplyKind::Exception);
    assert!(thrown.starts_with("{\"class\":\"java.lang.NullPointerException\""), "{thrown}");
    let echo = (INTERFACE, "echo", ONE_TEXT);
    assert_eq!(jsonb_answer(echo, &["\"\u{1f600}\""]), value("\"\u{1f600}\""));
    assert_eq!(jsonb_answer(echo, &["null"]).0, ReplyKind::Null);
    let any = (INTERFACE, "$echo", ONE_OBJECT);
    assert_eq!(jsonb_answer(any, &["{\"a\":[1]}"]), value("{\"a\":[1]}"));
    let invoke = (INTERFACE, "$invoke", GENERIC);
    for types in ["null", "[\"java.lang.String\"]"] {
        let call = |method, argument| jsonb_answer(invoke, &[method, types, argument]);
        assert_eq!(call("\"hash\"", "[\"hello\"]"), value("99162322"));
        assert_eq!(call("\"echo\"", "[\"a\"]"), value("\"a\""));
        assert_eq!(call("\"echo\"", "[null]").0, ReplyKind::Null);
        let (kind, thrown) = call("\"hash\"", "[null]");
        assert_eq!(kind, ReplyKind::Exception);
        let class = "\"exceptionClass\":\"java.lang.NullPointerException\"";
        assert!(thrown.contains(class), "{thrown}");
    }
    let wrong = refusal(&request(Serialization::Fastjson2, hash, &jsonb_args(&["1"])));
    assert_eq!(wrong.status, Status::BadRequest);
}

#[test]
fn generic_calls_may_leave_the_types_out() {
    let invoke = (INTERFACE, "$invoke", GENERIC);
    for types in [&b"null"[..], b"[\"java.lang.String\"]"] {
        let args = [&b"\"hash\"\n"[..], types, b"\n[\"hello\"]"].concat();
        assert_eq!(answer(&request(Serialization::Fastjson, invoke, &args)).1, b"99162322");
    }
    let mut args = Vec::new();
    let mut encoder = Encoder::new(&mut args);
    encoder.string("echo");
    encoder.list_begin(Some("[string"), 1);
    encoder.string(TEXT_NAME);
    encoder.list_begin(Some("[object"), 1);
    encoder.string("hello");
    let echoed = answer(&request(Serialization::Hessian2, invoke, &args)).1;
    assert_eq!(echoed, hessian_text("hello"));
    for args in ["\"none\"\nnull\n[]", "\"hash\"\n[\"int\"]\n[1]", "\"hash\"\nnull\n[]"] {
        let refused = refusal(&request(Serialization::Fastjson, invoke, args.as_bytes()));
        assert_eq!(refused.status, Status::ServiceError, "{refused:?}");
    }
    let broken = refusal(&request(Serialization::Fastjson, invoke, b"1\nnull\nnull"));
    assert_eq!(broken.status, Status::BadRequest);
}

/// The same with the attachment `generic`.
fn generic_request(form: &str, args: &[u8]) -> Request {
    let head = RequestHead { path: INTERFACE, version: "", method: "$invoke", descriptor: GENERIC };
    let attachments = [("path", INTERFACE), ("generic", form)];
    let template = RequestTemplate::new(Serialization::Fastjson, &head, &attachments).unwrap();
    sent(Serialization::Fastjson, &template, args)
}

#[test]
fn generic_calls_come_in_the_forms_that_they_name() {
    let value = |json: &str| Ok((ReplyKind::Value, json.as_bytes().to_vec()));
    for (form, args, expected) in [
        ("true", r#"["a"]"#, value("97")),
        ("raw.return", r#"["a"]"#, value("97")),
        // JSON in texts, in both directions. Gson makes a text of a number.
        ("gson", r#"["\"a\""]"#, value("\"97\"")),
        ("gson", r#"["7"]"#, value("\"55\"")),
        ("gson", r#"["true"]"#, value("\"3569038\"")),
        ("gson", r#"["{}"]"#, Err("the argument of hash is no java.lang.String: ")),
        ("gson", r#"["\"a\" 1"]"#, Err("the argument of hash is no java.lang.String: ")),
        ("gson", "[1]", Err("the argument of hash is no java.lang.String: ")),
        ("true", "[1]", Err("the argument of hash is no java.lang.String: ")),
        ("true", "[]", Err("args.length != types.length; hash takes 1 argument, not 0")),
        ("gson", r#"["1","2"]"#, Err("args.length != types.length; hash takes 1 argument, not 2")),
        ("bean", r#"["a"]"#, Err("[bean] is not supported by this provider; use generic=true ")),
        ("nativejava", r#"["a"]"#, Err("[nativejava] is not supported")),
        ("protobuf-json", r#"["a"]"#, Err("[protobuf-json] is not supported")),
    ] {
        let request = generic_request(form, format!("\"hash\"\nnull\n{args}").as_bytes());
        let mut out = Vec::new();
        match (service().answer(&request, &mut out), expected) {
            (Ok(kind), expected) => assert_eq!(Ok((kind, out)), expected, "{form} {args}"),
            (Err(refused), Err(words)) => {
                assert_eq!(refused.status, Status::ServiceError, "{refused:?}");
                assert!(refused.text.contains(words), "{refused:?}");
                // By this frame callers see that nothing was begun.
                let frame = "\n\tat org.apache.dubbo.rpc.filter.GenericFilter.invoke(";
                assert!(refused.text.contains(frame), "{refused:?}");
            }
            (Err(refused), Ok(_)) => panic!("{form} {args}: {refused:?}"),
        }
    }
    let echoed = generic_request(
        "gson",
        br#""echo"
null
["\"a\\nb\""]"#,
    );
    assert_eq!(answer(&echoed).1, br#""\"a\\nb\"""#);
    let null = generic_request("gson", b"\"echo\"\nnull\n[\"null\"]");
    assert_eq!(answer(&null).0, ReplyKind::Null);
}

/// A generic call that a real consumer sent; its method is not one of ours.
#[test]
fn reads_what_java_sends() {
    let frame = include_bytes!(
        "../../../../dubbo-proto/vectors/java27_hessian2_missing_method_request.bin"
    );
    let body = Bytes::from_static(&frame[16..]);
    let request = Request::decode(Serialization::Hessian2, body, &BodyLimits::default()).unwrap();
    let refused = refusal(&request);
    assert_eq!(refused.status, Status::ServiceError);
    assert!(refused.text.contains("NoSuchMethodException"), "{refused:?}");
    assert!(refused.text.contains("noSuchMethod()"), "{refused:?}");
}

#[test]
fn unknown_names_are_refused_as_dubbo_does() {
    let call = |interface, method| {
        refusal(&request(Serialization::Fastjson, (interface, method, ONE_TEXT), b"\"a\""))
    };
    let service = call("com.acme.Nobody", "hash");
    assert_eq!(service.status, Status::BadRequest);
    assert!(service.text.starts_with("Service not found:com.acme.Nobody, hash"), "{service:?}");
    let method = call(INTERFACE, "nothing");
    assert_eq!(method.status, Status::BadRequest);
    let head = RequestHead { path: INTERFACE, version: "2.0", method: "hash", descriptor: "" };
    assert!(RequestTemplate::new(Serialization::Hessian2, &head, &[]).is_ok());
    let generic = request(
        Serialization::Fastjson,
        ("com.acme.Nobody", "$invoke", GENERIC),
        b"\"hash\"\nnull\n[\"a\"]",
    );
    let refused = refusal(&generic);
    assert_eq!(refused.status, Status::ServiceError);
    assert!(refused.text.starts_with("Not found exported service: com.acme.Nobody"), "{refused:?}");
}

#[test]
fn null_has_no_hash() {
    let hash = (INTERFACE, "hash", ONE_TEXT);
    let (kind, value) = answer(&request(Serialization::Fastjson, hash, b"null"));
    let text = String::from_utf8(value).unwrap();
    assert_eq!(kind, ReplyKind::Exception);
    assert!(text.starts_with("{\"@type\":\"java.lang.NullPointerException\""), "{text}");
    let (kind, value) = answer(&request(Serialization::Hessian2, hash, b"N"));
    assert_eq!(kind, ReplyKind::Exception);
    let mut decoder = Decoder::new(&value, Limits::default());
    assert_eq!(decoder.skip_value().map(|()| decoder.is_at_end()), Ok(true));
    let wrong = refusal(&request(Serialization::Fastjson, hash, b"1"));
    assert_eq!(wrong.status, Status::BadRequest);
}

proptest! {
    #[test]
    fn hash_is_that_of_java(text in "[ -~]{0,70}|\\PC{0,40}") {
        let slow = text.encode_utf16().fold(0_i32, |hash, unit| {
            hash.wrapping_mul(31).wrapping_add(i32::from(unit))
        });
        prop_assert_eq!(java_hash(&text), slow);
    }
}

#[test]
fn hash_is_that_of_a_java_program() {
    // Printed by java.lang.String.hashCode.
    assert_eq!(java_hash(""), 0);
    assert_eq!(java_hash("hello"), 99_162_322);
    assert_eq!(java_hash("The quick brown fox jumps over the lazy dog"), -609_428_141);
}

#[test]
fn a_reply_is_as_long_as_it_is_asked_for() {
    let sized = (INTERFACE, "sized", ONE_TEXT);
    let asked = |text| answer(&request(Serialization::Hessian2, sized, &hessian_text(text)));
    assert_eq!(asked("3"), (ReplyKind::Value, hessian_text("xxx")));
    assert_eq!(asked("0"), (ReplyKind::Value, hessian_text("")));
    assert_eq!(answer(&request(Serialization::Fastjson, sized, b"null")).0, ReplyKind::Null);
    for text in ["-1", "3.5", "", "67108865", "99999999999999999999"] {
        assert_eq!(asked(text).0, ReplyKind::Exception, "{text}");
    }
}
