//! Frames, bodies, texts and definitions that mean harm: each is refused by an error that names
//! its rule, and none takes more memory than its length and the limits allow.
#![expect(unsafe_code, reason = "an allocator that counts, for the tests of memory")]

#[path = "../../hessian/tests/counting/mod.rs"]
mod counting;

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use counting::peak;
use dubbo_proto::{
    BodyLimits, ClientConfig, ClientConnection, DubboUrl, Reply, ReplyKind, Request, Routing,
    Serialization, ServerConfig, ServerConnection, ServiceDefinition, Status, descriptor, fastjson,
};

const ALL: [Serialization; 4] = [
    Serialization::Hessian2,
    Serialization::Fastjson,
    Serialization::FastjsonSized,
    Serialization::Fastjson2,
];
/// What anything may take beside what its length explains: tables of a connection, an error's
/// text.
const BASE: usize = 16 << 10;

/// A header that claims a body of `body_len` bytes.
fn header(flags: u8, body_len: u32) -> Vec<u8> {
    let mut header = vec![0xda, 0xbb, flags, 20];
    header.extend(7_u64.to_be_bytes());
    header.extend(body_len.to_be_bytes());
    header
}

#[expect(clippy::disallowed_methods, reason = "an Instant cannot be made in any other way")]
fn start() -> Instant {
    Instant::now()
}

#[test]
fn claimed_lengths_take_no_memory() {
    let client_config = ClientConfig {
        heartbeat: Duration::from_secs(60),
        max_body_len: 8 << 20,
        max_request_len: 8 << 20,
        max_in_flight: 16,
        max_buffered_bytes: 1 << 20,
        ..ClientConfig::default()
    };
    for body_len in [3, 4096, 8 << 20, (8 << 20) + 1, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        for flags in [0xc2, 0xc6, 0xd7, 0xe2, 0x02, 0x22, 0xff] {
            let bytes = [header(flags, body_len), b"\x01a".to_vec()].concat();
            let mut input = BytesMut::from(&bytes[..]);
            let (_, n_bytes) = peak(|| {
                let mut server = ServerConnection::new(ServerConfig::default(), start());
                let result = server.handle_bytes(start(), &mut input);
                assert!(result.is_ok() || 8 << 20 < body_len, "{result:?}");
            });
            assert!(n_bytes < BASE, "a server and {flags:#x} {body_len}: {n_bytes}");
            let mut input = BytesMut::from(&bytes[..]);
            let (_, n_bytes) = peak(|| {
                let mut client = ClientConnection::<u32>::new(client_config, start());
                let result = client.handle_bytes(start(), &mut input);
                assert!(result.is_ok() || 8 << 20 < body_len, "{result:?}");
            });
            assert!(n_bytes < BASE, "a client and {flags:#x} {body_len}: {n_bytes}");
        }
    }
}

/// Texts of a body, in the framing of a serialization.
fn texts(serialization: Serialization, texts: &[&str], rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for text in texts {
        match serialization {
            Serialization::Hessian2 => hessian::write_string(&mut body, text),
            Serialization::Fastjson => body.extend(format!("\"{text}\"\n").as_bytes()),
            _ => {
                let mut value = Vec::new();
                match serialization {
                    Serialization::Fastjson2 => jsonb::Encoder::new(&mut value).string(text),
                    _ => value.extend(format!("\"{text}\"").as_bytes()),
                }
                sized(&mut body, &value);
            }
        }
    }
    body.extend_from_slice(rest);
    body
}

fn sized(out: &mut Vec<u8>, value: &[u8]) {
    out.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
    out.extend_from_slice(value);
}

/// Everything that reads a body, which takes no more than `factor` times the body's length.
fn read(what: &str, serialization: Serialization, body: &[u8], factor: usize) -> String {
    let limits = BodyLimits::default();
    let shared = Bytes::copy_from_slice(body);
    let max = factor * body.len() + BASE;
    let (request, n_bytes) = peak(|| {
        let request = Request::decode(serialization, shared.clone(), &limits);
        request.map(drop).map_err(|error| error.to_string())
    });
    assert!(n_bytes < max, "{what} as a request in {serialization}: {n_bytes} of {max}");
    let (_, n_bytes) = peak(|| Routing::read(serialization, &shared, &limits).is_ok());
    assert!(n_bytes < max, "{what} as a way in {serialization}: {n_bytes} of {max}");
    for status in [Status::Ok, Status::ServiceError] {
        let (_, n_bytes) = peak(|| {
            if let Ok(Reply::Done(outcome)) = Reply::decode(serialization, status, body) {
                let _ = outcome.value(&limits);
                let _ = outcome.attachments(&limits);
            }
        });
        assert!(n_bytes < max, "{what} as a reply in {serialization}: {n_bytes} of {max}");
    }
    request.err().unwrap_or_default()
}

#[test]
fn lengths_inside_of_bodies_are_checked_first() {
    let head = ["2.0.2", "a.B", "", "m", "Ljava/lang/Object;"];
    for serialization in ALL {
        let broken: &[&[u8]] = match serialization {
            // Lists, typed lists, class definitions, texts and binaries that say they are long.
            Serialization::Hessian2 => &[
                b"\x58I\x7f\xff\xff\xff",
                b"V\x04[intI\x7f\xff\xff\xff",
                b"C\x01aI\x7f\xff\xff\xff",
                b"S\xff\xff",
                b"A\xff\xff",
                b"OI\x7f\xff\xff\xff",
                b"\x51I\x7f\xff\xff\xff",
            ],
            Serialization::Fastjson => &[b"{\"a\":", b"\""],
            Serialization::FastjsonSized => &[b"\x7f\xff\xff\xff1", b"\xff\xff\xff\xff"],
            _ => &[b"\x7f\xff\xff\xff\x01", b"\xff\xff\xff\xff", b"\0\0\0"],
        };
        for rest in broken {
            let what = rest.escape_ascii().to_string();
            let body = texts(serialization, &head, rest);
            let error = read(&what, serialization, &body, 1);
            // A line of fastjson is looked into only by who reads the argument.
            assert_eq!(error.is_empty(), serialization == Serialization::Fastjson, "{what}");
            for (kind, number) in [(ReplyKind::Value, 1), (ReplyKind::Exception, 3)] {
                let front: &[u8] = match serialization {
                    Serialization::Hessian2 => &[0x90 + number],
                    Serialization::Fastjson => &[b'0' + number, b'\n'],
                    Serialization::FastjsonSized => &[0, 0, 0, 1, b'0' + number],
                    _ => &[0, 0, 0, 1, number],
                };
                read(&format!("{kind:?} {what}"), serialization, &[front, rest].concat(), 1);
            }
        }
    }
}

#[test]
fn attachments_are_counted_before_they_are_kept() {
    const N: usize = 100_000;
    let head = ["2.0.2", "a.B", "", "m", ""];
    for serialization in ALL {
        let map: Vec<u8> = match serialization {
            Serialization::Hessian2 => [b"H", &b"\x01a\0".repeat(N)[..], b"Z"].concat(),
            Serialization::Fastjson => {
                [b"{", &b"\"a\":\"\",".repeat(N)[..], b"\"b\":\"\"}\n"].concat()
            }
            Serialization::FastjsonSized => {
                let mut map = Vec::new();
                sized(&mut map, &[b"{", &b"\"a\":\"\",".repeat(N)[..], b"\"b\":\"\"}"].concat());
                map
            }
            _ => {
                let mut map = Vec::new();
                sized(&mut map, &[b"\xa6", &b"\x4aa\x49".repeat(N)[..], b"\xa5"].concat());
                map
            }
        };
        let error = read("many attachments", serialization, &texts(serialization, &head, &map), 1);
        assert!(error.contains("the limit is 1024"), "{serialization}: {error}");
        // What is not a text is left out, and is not kept meanwhile.
        let nulls = String::from_utf8_lossy(&map).replace("\"\"", "null").into_bytes();
        if serialization == Serialization::Fastjson {
            let error = read("nulls", serialization, &texts(serialization, &head, &nulls), 1);
            assert_eq!(error, "");
        }
    }
}

/// A name of a map in JSONB may have a number, and stand for a long text wherever that comes.
#[test]
fn names_by_numbers_take_no_more_than_the_message() {
    let mut map = b"\xa6\x7f".to_vec();
    jsonb::Encoder::new(&mut map).string(&"x".repeat(100_000));
    map.extend(b"\0\x49");
    map.extend(b"\x7f\0\x49".repeat(1000));
    map.push(0xa5);
    let mut rest = Vec::new();
    sized(&mut rest, &map);
    let body = texts(Serialization::Fastjson2, &["2.0.2", "a.B", "", "m", ""], &rest);
    let error = read("a name by its number", Serialization::Fastjson2, &body, 2);
    assert!(error.contains("each name once"), "{error}");
}

#[test]
fn depth_ends_at_the_limit() {
    let head = ["2.0.2", "a.B", "", "m", "Ljava/lang/Object;"];
    for (serialization, rest, rule) in [
        (Serialization::Hessian2, b"\x57".repeat(100_000), "deeper than 64"),
        (Serialization::Hessian2, b"H".repeat(100_000), "deeper than 64"),
        // Attachments behind an argument.
        (Serialization::Hessian2, [b"NH\x01a", &b"\x57".repeat(100_000)[..]].concat(), "64"),
        (
            Serialization::Fastjson,
            [b"1\n{\"a\":", &b"[".repeat(100_000)[..]].concat(),
            "an object or null",
        ),
    ] {
        let error = read("depth", serialization, &texts(serialization, &head, &rest), 2);
        assert!(error.contains(rule), "{serialization}: {error}");
    }
    let mut rest = vec![0, 0, 0, 1, 0xaf];
    sized(&mut rest, &[b"\xa6\x4aa", &b"\x95".repeat(100_000)[..]].concat());
    let body = texts(Serialization::Fastjson2, &head, &rest);
    let error = read("depth", Serialization::Fastjson2, &body, 1);
    assert!(error.contains("a map"), "{error}");
}

#[test]
fn fields_that_are_too_long_are_refused() {
    for serialization in ALL {
        let escaped = "\\n".repeat(100_000);
        for (field, text) in [("path", "x".repeat(1_000_000)), ("path", escaped)] {
            let body = texts(serialization, &["2.0.2", &text, "", "m", ""], b"");
            let error = read(field, serialization, &body, 3);
            assert!(
                error.contains(field) && error.contains("too long"),
                "{serialization}: {error}"
            );
        }
        let body = texts(serialization, &["2.0.2", "a.B", "", "m", &"I".repeat(60_000)], b"");
        let error = read("parameters", serialization, &body, 3);
        assert!(error.contains("255"), "{serialization}: {error}");
    }
    let (result, n_bytes) = peak(|| descriptor::count(&"[".repeat(1_000_000)));
    assert!(result.is_err() && n_bytes < 2 << 20, "{n_bytes}");
}

#[test]
fn fastjson_text_takes_memory_by_its_length() {
    const N: usize = 100_000;
    for (what, text) in [
        ("brackets", "[".repeat(N)),
        ("objects", "{\"@type\":\"a\",".repeat(N)),
        ("an open string", format!("\"{}", "\\\"".repeat(N))),
        ("letters", "1L,".repeat(N)),
        ("bytes", format!("x'{}'", "0f".repeat(N))),
        ("open bytes", format!("x'{}", "0f".repeat(N))),
        ("dates", "new Date(1),".repeat(N)),
        ("keys", "1:".repeat(N)),
        ("digits", "7".repeat(N)),
        ("a word", "n".repeat(N)),
    ] {
        for class_names in [false, true] {
            let (_, n_bytes) = peak(|| {
                let mut out = Vec::new();
                let _ = fastjson::to_json(text.as_bytes(), class_names, &mut out);
            });
            assert!(n_bytes < 4 * text.len() + BASE, "{what}: {n_bytes} for {}", text.len());
        }
    }
}

/// What one value of a document may cost while it is read.
const PER_VALUE: usize = 256;

#[test]
fn definitions_take_memory_by_their_values() {
    const N: usize = 100_000;
    for (what, text) in [
        ("deep lists", "[".repeat(N)),
        ("deep types", "{\"types\":[{\"properties\":{\"a\":".repeat(N)),
        ("empty objects", format!("{{\"types\":[{}{{}}]}}", "{},".repeat(N))),
        ("values over the limit", format!("[{}1]", "1,".repeat(1_000_000))),
        ("methods", format!("{{\"methods\":[{}7]}}", "{\"name\":\"a\"},".repeat(4000))),
        ("a long name", format!("{{\"types\":[{{\"type\":\"{}\"}}]}}", "a<".repeat(N))),
        ("a long document", " ".repeat(9 << 20)),
    ] {
        let n_values = text.bytes().filter(|byte| b",:[{".contains(byte)).count().min(128 << 10);
        let max = PER_VALUE * n_values + 4 * text.len().min(2 << 20) + BASE;
        let (_, n_bytes) = peak(|| ServiceDefinition::parse(text.as_bytes()).is_ok());
        assert!(n_bytes < max, "{what}: {n_bytes} of {max}");
    }
    let url = format!("dubbo://h:1/a.B?{}", "a=b&".repeat(N));
    let (_, n_bytes) = peak(|| url.parse::<DubboUrl>().is_ok());
    assert!(n_bytes < PER_VALUE * N, "{n_bytes}");
    let answer = "void m(int)\n".repeat(N);
    let (_, n_bytes) = peak(|| ServiceDefinition::from_telnet("a.B", &answer).is_ok());
    assert!(n_bytes < BASE, "{n_bytes}");
}
